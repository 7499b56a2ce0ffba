//! The programs and the output in README.md are real: they are compiled and run as the README says.
//!
//! The C compiler is `cc`, or what `CC` names.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use deck_testkit::products::{self, alone, compiler, succeed};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the package is in crates/deck")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The fenced blocks of `language` in README.md, each with its line ends.
fn blocks(language: &str) -> Vec<String> {
    let readme = text("README.md");
    let mut blocks = Vec::new();
    let mut lines = readme.lines();
    while let Some(line) = lines.next() {
        let Some(fence) = line.strip_prefix("```").filter(|fence| !fence.is_empty()) else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if fence == language {
            blocks.push(block.iter().map(|line| format!("{line}\n")).collect());
        }
    }
    blocks
}

fn program(language: &str) -> String {
    let mut blocks = blocks(language);
    assert_eq!(blocks.len(), 1, "README.md shows one {language} program");
    blocks.remove(0)
}

/// What README.md shows behind each `$ ... deck run -n 2 ...`, up to the next command or the end of the block.
fn shown_outputs() -> Vec<String> {
    let mut outputs = Vec::new();
    for block in blocks("console") {
        let mut lines = block.lines().peekable();
        while let Some(line) = lines.next() {
            if line.starts_with("$ ") && line.contains("deck run -n 2 ") {
                let mut output = String::new();
                while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
                    output += &format!("{line}\n");
                }
                outputs.push(output);
            }
        }
    }
    outputs
}

/// The folder with the command, the C library and the example.
fn products() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER
        .get_or_init(|| products::build(&[&["-p", "deck-cli", "-p", "deck-c"], &["-p", "deck", "--example", "hello"]]))
}

/// Runs `program` as two nodes and compares what it prints with every output that README.md shows.
#[track_caller]
fn prints_what_is_shown(program: &Path) {
    let output = succeed(alone(&products().join("deck")).args(["run", "-n", "2"]).arg(program));
    let printed = String::from_utf8(output.stdout).expect("the programs print text");
    let shown = shown_outputs();
    assert!(!shown.is_empty(), "README.md shows what `deck run -n 2` prints");
    for shown in shown {
        assert_eq!(printed, shown);
    }
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_rust_program_is_the_example_and_prints_what_is_shown() {
    assert_eq!(program("rust"), text("crates/deck/examples/hello.rs"));
    assert_eq!(text("examples/hello/hello.rs"), text("crates/deck/examples/hello.rs"));
    prints_what_is_shown(&products().join("examples/hello"));
}

#[test]
fn the_c_program_is_the_example_and_prints_what_is_shown() {
    let source = program("c");
    assert_eq!(source, text("examples/hello/hello.c"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, executable) = (folder.join("readme.c"), folder.join("readme-c"));
    std::fs::write(&file, source).expect("the folder of this test can be written");
    let mut compile = compiler("CC", "cc");
    compile.arg("-std=c11").arg("-I").arg(root().join("crates/c/include")).arg(&file).arg("-o").arg(&executable);
    products::link(&mut compile, products());
    succeed(&mut compile);
    prints_what_is_shown(&executable);
}
