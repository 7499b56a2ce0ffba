//! What stands between an application and the person who started it: command line, progress bar, page, files.
//!
//! | file | idea |
//! |---|---|
//! | `command_line` | reading options, and how a program ends |
//! | `display` | one place to tell how far the work is: bar and page |
//! | `terminal` | the bar also through `deck run` |
//! | `watch` | the page of `--watch` |
//! | `files` | results that appear whole or not at all |
//! | `memory` | memory for what the user has asked for |
//! | `leader` | what node 0 runs, and its mail box |
//! | `patience` | waiting for other nodes: for one that is stopped, not for one that is gone |

#![forbid(unsafe_code)]

pub mod command_line;
mod display;
pub mod files;
pub mod leader;
pub mod memory;
pub mod patience;
mod terminal;
pub mod watch;

pub use display::{Display, Progress};
pub use watch::{Subject, Watch};
