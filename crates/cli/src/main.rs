//! The `deck` command: starts jobs, measures them, and finds where segments and processes should be.

#![forbid(unsafe_code)]

mod bench;
mod descendants;
mod failures;
mod guardian;
mod lines;
mod output;
mod place;
mod poll;
mod result;
mod run;
mod see;
mod usage;

use std::process::ExitCode;

use usage::Command;

fn main() -> ExitCode {
    deck_launch::signals::expect_children();
    match usage::parse() {
        Ok(Command::Run(options)) => run::run(&options),
        Ok(Command::Bench(options)) => bench::run(&options),
        Ok(Command::See(options)) => see::run(&options),
        Ok(Command::Place(command)) => place::run(command),
        Ok(Command::BenchNode { benchmark, part }) => bench::node(benchmark, &part),
        Err(code) => code,
    }
}
