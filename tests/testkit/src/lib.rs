//! Real nodes for tests: started, asked, killed, stopped and continued, and looked after so that nothing is left
//! behind.
//!
//! A test opens a [`Job`], starts [`Process`]es in it and asks them for DECK calls line by line; each runs the node
//! [`program`], which the package of the test builds as a program of three lines. Every job is under a watchdog that
//! kills all its processes and names the command that repeats the test; [`Job::end`] checks that the job left nothing
//! on the machine. What is random comes from [`Chance`], whose seed is printed and can be set.
#![deny(unsafe_code)]

pub mod answer;
pub mod application;
mod calls;
pub mod chance;
pub mod content;
mod course;
mod example;
mod exchange;
pub mod expect;
#[allow(unsafe_code)]
mod fork;
mod groups;
pub mod job;
pub mod leftovers;
pub mod look;
mod memory_group;
mod named;
pub mod process;
pub mod products;
pub mod program;
mod queue;
pub mod see;
pub mod storm;
mod trap;
mod watchdog;

pub use answer::{Answer, Failure};
pub use calls::{Retrieved, SOON, call_in_group, join_group, nodes_read_programs_memory};
pub use chance::Chance;
pub use deck_mudeck::NodeId;
pub use fork::fork;
pub use job::Job;
pub use memory_group::MemoryGroup;
pub use process::Process;
pub use trap::set_trap;
