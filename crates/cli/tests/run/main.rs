//! `deck run` as its users see it: by exit status and output.
//!
//! Nothing here depends on time; a watchdog ends what hangs.

mod job;
mod nodes;
mod programs;
mod terminal;
