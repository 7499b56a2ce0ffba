//! The node of the fault tests: see `deck_testkit::program`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    deck_testkit::program::run()
}
