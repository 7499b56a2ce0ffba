//! What docs/guide shows is real: its programs are the examples of this crate, and its output is theirs.

use std::path::Path;

use deck_testkit::products::{self, alone};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the package is in crates/deck")
}

/// The fenced block of `language` in a page.
fn block(page: &str, language: &str) -> String {
    let begin = page.find(&format!("```{language}\n")).expect("the page has such a block") + language.len() + 4;
    let end = page[begin..].find("```").expect("blocks end");
    page[begin..begin + end].to_owned()
}

#[test]
fn the_page_on_collectives_shows_a_program_and_what_it_prints() {
    let read =
        |path: &str| std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let page = read("docs/guide/collectives.md");
    assert_eq!(block(&page, "rust"), read("crates/deck/examples/collectives.rs"));
    let example = products::build(&[&["-p", "deck", "--example", "collectives"]]).join("examples/collectives");
    let output = alone(&example).output().expect("it starts");
    let shown = block(&page, "console");
    let shown = shown.split_once('\n').expect("a command, then its output").1;
    assert_eq!(String::from_utf8_lossy(&output.stdout), shown, "{}", String::from_utf8_lossy(&output.stderr));
}
