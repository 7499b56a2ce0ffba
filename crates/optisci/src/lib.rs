//! OptiSCI: what a placement of processes and shared segments costs, and which one is best.
//!
//! A [`Model`] describes a machine whose memory is near for some and far for others, the processes and segments of a
//! program, and who reads, writes and sends how much. A [`Placement`] says which node each of them is on. [`Costs`]
//! tells what a placement costs and why; [`search::solve`] finds a better one, or the best one and proves it.
//!
//! The origin is R. B. Ávila et al., "OptiSCI: A Visual Environment to Optimize the Placement of Shared Memory Segments
//! on a SCI Cluster" (2002): its modelling tool DAMIT and its cost simulator SCIPOS. The search is what its authors
//! left for the future.
//!
//! This crate uses no other crate of DECK, keeps no thread beyond a call and starts none in a browser, reads no clock
//! and opens no file by itself, so that the same engine runs in the `deck` command and in a browser. Only `server`,
//! which hands out the page that such a browser shows, is not in it there.
#![forbid(unsafe_code)]

pub mod cost;
mod counted;
pub mod error;
pub mod export;
pub mod import;
pub mod model;
pub mod placement;
mod program;
pub mod report;
pub mod search;
#[cfg(not(target_family = "wasm"))]
pub mod server;
pub mod sum;
pub mod table1;
pub mod topology;

pub use cost::{Costs, Evaluation};
pub use error::Error;
pub use model::Model;
pub use placement::Placement;
pub use topology::Topology;
