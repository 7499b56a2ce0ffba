//! A render farm: all nodes of a DECK job render one POV-Ray scene. The third application of the papers.
//!
//! The papers' version was a POV-Ray with messages built in; this one runs the POV-Ray that is installed, one process
//! for each slice. How slices are handed out and come back is in the crate `slices`, what a person sees in
//! `user-interface`.
//!
//! | file | idea |
//! |---|---|
//! | `arguments` | the command line |
//! | `scene` | what to render, and how a picture of it is checked beforehand |
//! | `render` | one POV-Ray process that renders one slice |
//! | `state_file` | the lines that it has finished so far |
//! | `closing` | when the slice is there |
//! | `portable_pixmap` | the slice as it comes out |
//! | `scratch` | the folder for what POV-Ray writes |

#![forbid(unsafe_code)]

mod arguments;
mod closing;
mod portable_pixmap;
mod render;
mod scene;
mod scratch;
mod state_file;

use std::process::ExitCode;

use slices::{Options, Work};
use user_interface::command_line::{self, Failure};
use user_interface::files;

use crate::arguments::Orders;

fn main() -> ExitCode {
    deck_launch::signals::expect_children();
    command_line::run("povray-farm", arguments::parse(std::env::args_os()), run)
}

fn run(orders: &Orders) -> Result<(), Failure> {
    let options =
        Options { threads: orders.threads, watch: orders.watch, title: "Render farm", files: vec![orders.out.clone()] };
    slices::run(&orders.scene, &options, |outcome| {
        let size = (outcome.work.cut().width(), outcome.work.cut().height());
        let rows = outcome.values.chunks_exact(size.0 as usize * 3).map(<[u8]>::to_vec);
        files::save_png(&orders.out, size, rows)
    })
}
