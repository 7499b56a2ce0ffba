//! What the commands `deck why` and `deck ls` tell of a job.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::products;

/// The `deck` command, built for the profile that the test runs in.
pub fn deck() -> &'static Path {
    static DECK: OnceLock<PathBuf> = OnceLock::new();
    DECK.get_or_init(|| products::build(&[&["-p", "deck-cli", "--bin", "deck"]]).join("deck"))
}

/// The nodes' `program`, of jobs that will be looked at: what is built is built before a job begins, whose watchdog
/// would count the time.
pub fn seen(program: &'static str) -> &'static str {
    deck();
    program
}

/// What a command tells of a job.
#[track_caller]
pub fn told(command: &str, job: &str) -> Value {
    let ended = Command::new(deck()).args([command, job, "--json"]).output().expect("deck starts");
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && errors.is_empty(), "deck {command} {job}: {}: {errors}", ended.status);
    let mut value: Value = serde_json::from_slice(&ended.stdout).expect("one JSON object");
    assert_eq!(value["jobs"].as_array().map(Vec::len), Some(1), "{value}");
    value["jobs"][0].take()
}

/// The same in words.
#[track_caller]
pub fn said(command: &str, job: &str) -> String {
    said_with(&[command, job])
}

/// What a command prints, with whatever arguments.
#[track_caller]
pub fn said_with(arguments: &[&str]) -> String {
    let ended = Command::new(deck()).args(arguments).output().expect("deck starts");
    assert!(ended.status.success(), "deck {arguments:?}: {}", ended.status);
    String::from_utf8(ended.stdout).expect("text")
}

/// For longer than that threads have waited when a cycle is told that one outside of DECK could end: the first thread
/// of each node of a test reads what the test writes.
const NOT_YOUNG: f64 = 0.4;

/// Looks until as many threads wait, which they write down as they go to sleep, and have done so for a while. The
/// watchdog ends what never comes.
#[track_caller]
pub fn waits(job: &str, count: usize) -> Value {
    waits_of(|| told("why", job), count)
}

/// The same of whatever tells it.
#[track_caller]
pub fn waits_of(tell: impl Fn() -> Value, count: usize) -> Value {
    let is_old = |wait: &Value| wait["since_seconds"].as_f64().expect("seconds") > NOT_YOUNG;
    loop {
        let told = tell();
        let waits = told["waits"].as_array().expect("a list");
        if waits.len() == count && waits.iter().all(is_old) {
            return told;
        }
    }
}

/// Looks until as many threads wait and a cycle is told besides. On a busy machine a thread that has nothing more to do
/// may be kept from its core for long, and so long it is one that could end the waits.
#[track_caller]
pub fn stuck(job: &str, count: usize) -> Value {
    loop {
        let told = waits(job, count);
        if told["cycles"].as_array().is_some_and(|cycles| !cycles.is_empty()) {
            return told;
        }
    }
}

/// Node and kind of each wait in a cycle.
pub fn cycle(told: &Value, index: usize) -> Vec<(u64, String)> {
    let waits = told["cycles"][index]["waits"].as_array().expect("a cycle");
    let wait = |at: &Value| &told["waits"][at.as_u64().expect("a place") as usize];
    waits
        .iter()
        .map(wait)
        .map(|wait| (wait["node"].as_u64().expect("a node"), wait["for"].as_str().expect("a kind").to_owned()))
        .collect()
}

/// The nodes in a list of those who could end a wait.
pub fn nodes_of(list: &Value) -> Vec<u64> {
    list.as_array().expect("a list").iter().map(|whom| whom["node"].as_u64().expect("a node")).collect()
}

/// What the fields are called that are anywhere in it.
pub fn fields(value: &Value) -> BTreeSet<&str> {
    match value {
        Value::Array(list) => list.iter().flat_map(fields).collect(),
        Value::Object(object) => {
            object.iter().flat_map(|(name, value)| fields(value).into_iter().chain([name.as_str()])).collect()
        }
        _ => BTreeSet::new(),
    }
}
