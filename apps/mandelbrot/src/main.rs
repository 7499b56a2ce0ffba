//! The Mandelbrot set, calculated by all nodes of a DECK job: the first application of the papers.
//!
//! How its slices are handed out and come back is in the crate `slices`, what a person sees in `user-interface`.
//!
//! | file | idea |
//! |---|---|
//! | `arguments` | the command line |
//! | `problem` | what to calculate, and where its pixels lie |
//! | `kernel` | iteration counts, fast and exact |
//! | `palette`, `picture` | colours and files |

#![forbid(unsafe_code)]

mod arguments;
mod kernel;
mod palette;
mod picture;
mod problem;

use std::process::ExitCode;

use slices::Options;
use user_interface::command_line::{self, Failure};

use crate::arguments::Orders;

fn main() -> ExitCode {
    command_line::run("mandelbrot", arguments::parse(std::env::args_os()), run)
}

fn run(orders: &Orders) -> Result<(), Failure> {
    let options = Options {
        threads: orders.threads,
        watch: orders.watch,
        title: "Mandelbrot set",
        files: [&orders.out, &orders.counts].into_iter().flatten().cloned().collect(),
    };
    slices::run(&orders.problem, &options, |outcome| {
        if let Some(path) = &orders.out {
            picture::save_png(path, outcome)?;
        }
        if let Some(path) = &orders.counts {
            picture::save_counts(path, &outcome.values)?;
        }
        Ok(())
    })
}
