//! What docs/guide shows is real: its programs are the examples of this crate, and its output is theirs.

use std::path::Path;
use std::process::{Child, Stdio};

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

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What a page shows as the output of its first command.
fn output_shown(page: &str) -> String {
    block(page, "console").split_once('\n').expect("a command, then its output").1.to_owned()
}

#[test]
fn the_page_on_messages_shows_a_program_and_what_it_prints() {
    let page = read("docs/guide/messages.md");
    assert_eq!(block(&page, "rust"), read("crates/deck/examples/messages.rs"));
    let folder = products::build(&[&["-p", "deck-cli", "--bin", "deck"], &["-p", "deck", "--example", "messages"]]);
    let mut run = alone(&folder.join("deck"));
    let output = run.args(["run", "-n", "3"]).arg(folder.join("examples/messages")).output().expect("it starts");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        output_shown(&page),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_page_on_collectives_shows_a_program_and_what_it_prints() {
    let page = read("docs/guide/collectives.md");
    assert_eq!(block(&page, "rust"), read("crates/deck/examples/collectives.rs"));
    let example = products::build(&[&["-p", "deck", "--example", "collectives"]]).join("examples/collectives");
    let output = alone(&example).output().expect("it starts");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        output_shown(&page),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A job that is killed at the end of its test, however that ends.
struct Stuck(Child);

impl Drop for Stuck {
    fn drop(&mut self) {
        // Everything that it started ends with it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The text with `#` in place of what differs from run to run: processes, threads and times.
fn without_numbers(text: &str) -> String {
    let mut before = "";
    let mut words = Vec::new();
    for word in text.split(' ') {
        let is_number = ["thread", "(process"].contains(&before) || (before == "for" && word.contains('.'));
        let word_now =
            if is_number { word.replace(|c: char| c.is_ascii_digit() || c == '.', "") + "#" } else { word.to_owned() };
        words.push(word_now);
        before = word.rsplit('\n').next().unwrap_or(word);
    }
    words.join(" ")
}

#[test]
fn the_page_on_waiting_shows_a_deadlock_and_what_deck_why_tells_of_it() {
    let page = read("docs/guide/why.md");
    assert_eq!(block(&page, "rust"), read("crates/deck/examples/deadlock.rs"));
    let folder = products::build(&[&["-p", "deck-cli", "--bin", "deck"], &["-p", "deck", "--example", "deadlock"]]);
    let deck = folder.join("deck");
    let job = format!("stuck-{}", std::process::id());
    let mut run = alone(&deck);
    run.args(["run", "-n", "3", "--job", &job]).arg(folder.join("examples/deadlock")).stdin(Stdio::null());
    let mut stuck = Stuck(run.spawn().expect("it starts"));
    let told = loop {
        let output = alone(&deck).args(["why", &job]).output().expect("it starts");
        let told = String::from_utf8(output.stdout).expect("text").replace(&job, "stuck");
        assert!(stuck.0.try_wait().expect("it is known").is_none(), "the job has ended; last: {told}");
        // They write down what they wait for when they go to sleep.
        if told.contains("3 threads wait") && told.contains("cycle") {
            break told;
        }
    };
    let shown = block(&page, "console");
    let shown = shown.split_once("$ deck why stuck\n").expect("the command, then its output").1;
    assert_eq!(without_numbers(&told), without_numbers(shown));
}
