//! `deck bench`: what this machine does, measured now.

mod cpus;
mod pingpong;

use std::process::ExitCode;

use serde::Serialize;

/// A benchmark that this version has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// One message to and fro between two nodes.
    Pingpong,
}

impl Name {
    /// What users call them.
    pub const ALL: &'static [&'static str] = &["pingpong"];

    /// The benchmark that users call `text`.
    pub fn of(text: &str) -> Option<Name> {
        (text == "pingpong").then_some(Name::Pingpong)
    }
}

/// The machine that was measured.
#[derive(Debug, Serialize)]
struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
}

impl Machine {
    fn here() -> Machine {
        let described = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = described.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Machine {
            cpu: model.map_or("unknown", |(_, model)| model.trim()).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        }
    }
}

/// Measures and prints: a table, or with `json` one object.
pub fn run(name: Name, json: bool) -> ExitCode {
    let result = match name {
        Name::Pingpong => pingpong::run(json),
    };
    status("deck bench", result)
}

/// Takes part in a measurement, as a node that [`run`] has started.
pub fn node(name: Name) -> ExitCode {
    let result = match name {
        Name::Pingpong => pingpong::node(),
    };
    status("deck bench, in one of its nodes", result)
}

fn status(who: &str, result: deck::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{who}: {error}");
            ExitCode::FAILURE
        }
    }
}
