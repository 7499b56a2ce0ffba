//! µDECK, the core of DECK: threads, semaphores, mail boxes and messages.
//!
//! A [`Node`] is this process's place in a job. Any thread of it creates mail boxes ([`Node::mailbox`]) and retrieves
//! from them ([`Mailbox::retrieve`]); any thread of any node that knows a mail box's name clones it
//! ([`Node::clone_mailbox`]) and posts ([`MailboxClone::post`]). Messages ([`Message`]) are buffers of the library: on
//! one host they are handed over, not copied. Every wait has a deadline and can be cancelled ([`Thread::cancel`]); the
//! death of a node ends every wait that needs it.
//!
//! Users name this crate `deck`, which re-exports it beside the services.
#![cfg(not(loom))]
#![warn(missing_debug_implementations)]

mod batons;
mod clone;
mod cloning;
mod doubts;
mod element;
mod inbox;
mod lanes;
mod log;
mod mailbox;
mod message;
mod node;
#[doc(hidden)]
pub mod observe;
mod poster;
mod room;
mod semaphore;
mod settings;
#[cfg(test)]
mod short_path;
#[cfg(test)]
mod testing;
mod thread;
mod turns;
mod watcher;

pub use clone::{MailboxAddress, MailboxClone, Refused};
pub use deck_peers::{Door, NodeState};
pub use deck_sync::{Error, ErrorKind, FOREVER, NodeId, Result, Scope};
pub use element::{Element, ElementType};
pub use log::{LogLevel, LogSink, set_log};
pub use mailbox::{Mailbox, MailboxOptions, MailboxStats, Retrieve, select};
pub use message::Message;
pub use node::Node;
pub use semaphore::Semaphore;
pub use settings::default_timeout;
pub use thread::{Canceller, Thread};

/// This version of DECK.
#[doc(alias = "deck_version")]
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
