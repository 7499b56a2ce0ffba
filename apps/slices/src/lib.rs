//! A picture that all nodes of a job make together: the master and the workers of the DECK papers' picture programs.
//!
//! Node 0 runs the master (in its main thread, the manager thread of the papers) and, like every node, a crew of
//! computing threads, the workers. The picture is cut into horizontal slices; workers keep asking for slices until all
//! are ready, talk with the master only, and may send finished lines before their slice is ready. A worker node that
//! dies costs its slices a recomputation. What a picture is made of and how, says a [`Work`].
//!
//! | file | idea |
//! |---|---|
//! | `cut` | which rows are which slice |
//! | `work` | what an application says about its picture |
//! | `slices` | who has which slice |
//! | `protocol` | the messages |
//! | `master`, `worker` | both sides of the conversation |
//! | `job` | a whole program: join, work, save, report, leave |

#![forbid(unsafe_code)]

mod cut;
mod job;
mod master;
#[cfg(test)]
mod night;
mod protocol;
mod slices;
mod work;
mod worker;

pub use cut::{Cut, MAX_PIXELS};
pub use job::{Options, run};
pub use master::{Outcome, Share};
pub use work::{Failure, Work};
pub use worker::Lines;
