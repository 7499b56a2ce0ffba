//! The nodes of a job: how they come together, know one another, and notice that one is gone.
//!
//! A [`Broker`] gives numbers and introduces nodes; a [`Membership`] is one node's place in a job, with a control
//! thread that sleeps in epoll. Nodes that talk share a socket for control and each other's segments for messages; all
//! share the job's [`Table`] of nodes and names.
//!
//! Nothing here knows what is in a ring: what mail boxes make of requests and deaths is told to a [`Handler`].
#![cfg(not(loom))]

#[cfg(test)]
mod alone;
mod broker;
mod control;
mod credentials;
mod crowd;
mod heaps;
mod invitation;
mod meeting;
mod membership;
mod names;
mod notices;
pub mod observe;
mod office;
mod peer;
mod pledges;
mod poll;
mod presence;
mod process;
mod rendezvous;
mod shares;
mod socket;
mod strangers;
mod table;
pub mod wakeup;
pub mod wire;

pub use broker::Broker;
pub use membership::{Asked, Door, Granted, Handler, Membership, left};
pub use names::last_lost::Reclaimed;
pub use names::objects::{
    Keeps, OBJECT_NAME_BYTES_MAX, OBJECT_WORDS, OBJECTS_MAX, Object, ObjectKind, Objects, check_object_name,
};
pub use names::opening::{OpenObject, Opening};
pub use names::{MailboxId, NAME_BYTES_MAX, Names, RESERVED, check_mailbox_name, check_name};
pub use notices::{Notice, Notices, Subject};
pub use peer::{Depending, FROZEN_AFTER, Peer};
pub use pledges::Pledge;
pub use presence::Presence;
pub use process::{see_processes, stat};
pub use shares::{Answered, SegmentLife};
pub use table::{NODES_AT_A_TIME_MAX, NODES_MAX, NodeState, Table};
pub use wire::Refusal;
