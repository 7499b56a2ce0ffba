//! The `deck` command: starts jobs and measures them.

#![forbid(unsafe_code)]

mod bench;
mod descendants;
mod guardian;
mod lines;
mod output;
mod run;
mod usage;

use std::process::ExitCode;

use usage::Command;

fn main() -> ExitCode {
    match usage::parse() {
        Ok(Command::Run(options)) => run::run(&options),
        Ok(Command::Bench(options)) => bench::run(&options),
        Ok(Command::BenchNode { benchmark, part }) => bench::node(benchmark, &part),
        Err(code) => code,
    }
}
