//! The only door of DECK to atomics, futexes, clocks and waiting.
//!
//! Everything concurrent in DECK is built from what is here, so that one crate decides how threads meet: [`atomic`] is
//! `std` or, under `--cfg loom`, the model checker's; [`Event`] is what threads sleep on, also across processes;
//! [`wait`](wait()) is the only wait loop of the whole project; [`barrier`] is the asymmetric fence that keeps the fast
//! side of every handshake free of fences. The crate also holds [`Error`], because every wait can end in one.
//!
//! Nothing here knows what a mail box or a node's segment is.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod about;
pub mod atomic;
pub mod barrier;
mod biased;
pub mod cancellation;
mod cell;
mod crowd;
mod deadline;
pub mod descriptor;
#[cfg(not(loom))]
mod ending;
mod error;
mod event;
pub mod fork;
mod futex;
mod loaded;
pub mod locks;
mod machine;
mod meeting;
mod node_id;
mod pins;
mod point;
mod service;
mod shelf;
pub mod signals;
mod thread;
mod thread_end;
mod uncancelled;
mod wait;

pub use about::{About, FACTS, Goal};
pub use biased::shortcut::{Entered, Key, Shortcuts};
pub use biased::{Biased, Inside};
#[cfg(loom)]
pub use crowd::Calm;
pub use crowd::{Alone, Crowd};
pub use deadline::{Deadline, FOREVER, now_ns};
#[cfg(not(loom))]
pub use ending::{Ending, Ends};
pub use error::{Error, ErrorKind, Result, Scope};
pub use event::Event;
pub use loaded::stay_loaded;
pub use machine::cores::{core_mask, current_core, usable_cores};
pub use machine::limit::Limit;
pub use machine::maker::Maker;
pub use machine::stack::stack_bytes;
pub use machine::told::told;
pub use machine::{control_groups, vectors};
pub use meeting::Meeting;
pub use node_id::NodeId;
pub use pins::{Held, NotPinned, Pins, WhyNot};
pub use point::point;
pub use service::{Running, Service};
pub use shelf::{Given, Look, Shared, Shelf, Stays};
pub use thread::{Canceller, crowd_of_this_thread, locker_number, rest_while, set_home_crowd, set_locker_number};
pub use thread_end::ThreadEnd;
pub use uncancelled::uncancelled;
pub use wait::away::Away;
pub use wait::spot::Spot;
pub use wait::spread::Spread;
pub use wait::{Interrupted, Waiting, Whereabouts, wait};
