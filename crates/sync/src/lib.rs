//! The only door of DECK to atomics, futexes, clocks and waiting.
//!
//! Everything concurrent in DECK is built from what is here, so that one crate decides how threads meet: [`atomic`] is
//! `std` or, under `--cfg loom`, the model checker's; [`Event`] is what threads sleep on, also across processes;
//! [`wait`](wait()) is the only wait loop of the whole project; [`barrier`] is the asymmetric fence that keeps the fast side of
//! every handshake free of fences. The crate also holds [`Error`], because every wait can end in one.
//!
//! Nothing here knows what a mail box or a node's segment is.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod about;
mod alarm;
pub mod atomic;
mod away;
pub mod barrier;
mod biased;
pub mod cancellation;
mod cell;
pub mod control_groups;
mod cores;
mod crowd;
mod deadline;
#[cfg(not(loom))]
mod ending;
mod error;
mod event;
pub mod fork;
mod futex;
mod habit;
pub mod locks;
mod maker;
mod meeting;
mod node_id;
mod order;
#[cfg(not(loom))]
mod own_word;
mod patience;
mod pins;
mod point;
mod right;
mod service;
mod shelf;
mod shortcut;
pub mod signals;
#[cfg(not(loom))]
mod sleepers;
mod spin;
mod spot;
mod spread;
mod stack;
mod thread;
pub mod vectors;
mod visitor;
mod wait;

pub use about::{About, FACTS, Goal};
pub use away::Away;
pub use biased::{Biased, Inside};
pub use cores::{core_mask, current_core, usable_cores};
#[cfg(loom)]
pub use crowd::Calm;
pub use crowd::{Alone, Crowd};
pub use deadline::{Deadline, FOREVER, now_ns};
#[cfg(not(loom))]
pub use ending::{Ending, Ends};
pub use error::{Error, ErrorKind, Result, Scope};
pub use event::Event;
pub use maker::Maker;
pub use meeting::Meeting;
pub use node_id::NodeId;
pub use pins::{Held, Pins, Refusal, Refused};
pub use point::point;
pub use service::Service;
pub use shelf::{Given, Look, Shared, Shelf, Stays};
pub use shortcut::{Entered, Key, Shortcuts};
pub use spot::Spot;
pub use spread::Spread;
pub use stack::stack_bytes;
pub use thread::{Canceller, crowd_of_this_thread, locker_number, rest_while, set_home_crowd, set_locker_number};
pub use wait::{Interrupted, Waiting, Whereabouts, wait};
