//! What docs/guide shows is real: its programs are the examples of this crate, and its output is theirs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the package is in crates/deck")
}

/// The fenced block of `language` in a page.
fn block(page: &str, language: &str) -> String {
    let begin = page.find(&format!("```{language}\n")).expect("the page has such a block") + language.len() + 4;
    let end = page[begin..].find("```").expect("blocks end");
    page[begin..begin + end].to_owned()
}

/// The example, built for the profile that this test runs in.
fn example(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a test knows its own path");
    let profile_folder = test.ancestors().nth(2).expect("tests are in <target>/<profile>/deps");
    let profile = match profile_folder.file_name().and_then(|name| name.to_str()) {
        None | Some("debug") => "dev",
        Some(name) => name,
    };
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--offline", "--example", name, "--profile", profile]);
    build.arg("--manifest-path").arg(root().join("crates/deck/Cargo.toml"));
    build.arg("--target-dir").arg(profile_folder.parent().expect("a profile's folder is in the target folder"));
    assert!(build.status().expect("cargo runs").success(), "{build:?} failed");
    profile_folder.join("examples").join(name)
}

#[test]
fn the_page_on_collectives_shows_a_program_and_what_it_prints() {
    let read =
        |path: &str| std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let page = read("docs/guide/collectives.md");
    assert_eq!(block(&page, "rust"), read("crates/deck/examples/collectives.rs"));
    let mut program = Command::new(example("collectives"));
    for (variable, _) in env::vars_os().filter(|(variable, _)| variable.to_string_lossy().starts_with("DECK_")) {
        program.env_remove(variable);
    }
    let output = program.output().expect("it starts");
    let shown = block(&page, "console");
    let shown = shown.split_once('\n').expect("a command, then its output").1;
    assert_eq!(String::from_utf8_lossy(&output.stdout), shown, "{}", String::from_utf8_lossy(&output.stderr));
}
