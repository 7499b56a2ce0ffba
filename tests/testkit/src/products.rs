//! What cargo builds, for tests that run it: programs, examples and the C library, in the profile that the test runs
//! in.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Has cargo build, once for each of `wanted` (arguments of `cargo build` that name packages or examples), and gives
/// the folder with the products. A test of one package alone would not make what other packages are to make.
///
/// # Panics
/// If it cannot be built.
pub fn build(wanted: &[&[&str]]) -> PathBuf {
    let test = env::current_exe().expect("a test knows its own path");
    let folder = test.ancestors().nth(2).expect("tests are in <target>/<profile>/deps");
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        None | Some("debug") => "dev",
        Some(name) => name,
    };
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("this package is in tests/testkit");
    for wanted in wanted {
        let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "--offline", "--profile", profile]).args(*wanted);
        build.arg("--manifest-path").arg(workspace.join("Cargo.toml"));
        build.arg("--target-dir").arg(folder.parent().expect("a profile's folder is in the target folder"));
        succeed(&mut build);
    }
    folder.to_owned()
}

/// Runs a command that has to succeed.
///
/// # Panics
/// If it does not, with all that it said.
#[track_caller]
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} ended with {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Copies a program to where everybody may execute it.
///
/// Another process writes it: what another thread starts just then would inherit a descriptor of this process, and the
/// program cannot be executed while anybody has it open for writing.
///
/// # Panics
/// If it cannot be written.
#[track_caller]
pub fn install(program: &Path, to: &Path) {
    succeed(Command::new("install").args(["-m", "755"]).args([program, to]));
}

/// A command that what the surroundings say about a job, or ask to be logged, does not concern.
pub fn alone(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (variable, _) in env::vars_os().filter(|(variable, _)| variable.to_string_lossy().starts_with("DECK_")) {
        command.env_remove(variable);
    }
    command
}

/// The compiler that `variable` (`CC`, `CXX`) names, or `default`, with all warnings as errors.
pub fn compiler(variable: &str, default: &str) -> Command {
    let mut command = Command::new(env::var_os(variable).unwrap_or_else(|| default.into()));
    command.args(["-Wall", "-Wextra", "-pedantic", "-Werror"]);
    command
}

/// Has a compiler link with `libdeck.so` of `folder`, where the program finds it, too, when it runs.
pub fn link(command: &mut Command, folder: &Path) {
    let mut where_to_look = OsString::from("-Wl,-rpath,");
    where_to_look.push(folder);
    command.arg("-L").arg(folder).args(["-ldeck", "-lpthread"]).arg(where_to_look);
}
