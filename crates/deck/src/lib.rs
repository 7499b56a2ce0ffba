//! DECK, a parallel programming environment: **threads own mail boxes; messages move by hand-over.**
//!
//! A program is a set of *nodes* (processes) of one *job*; each node runs as many threads as it likes. Any thread
//! creates a mail box, gives it a name, and retrieves from it. Any thread of any node that knows the name *clones* the
//! mail box and posts to it. That is [µDECK](deck_mudeck). With it come *groups* of threads that call collectives
//! together ([`group`]), and shared segments with the mutexes, condition variables, barriers and counters that keep
//! order in them ([`shared`]). This is the crate that programs name.
//!
//! ```
//! use std::time::Duration;
//! use deck::{ErrorKind, Node, Thread};
//!
//! const PATIENCE: Duration = Duration::from_secs(10);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The job that `deck run` or DECK_JOB tells of; without either, a job of this process alone.
//! let node = Node::join()?;
//! let results = node.mailbox("results")?;
//!
//! // A worker. In another node it would look the same: the name is all that it needs.
//! let worker = Thread::spawn({
//!     let node = node.clone();
//!     move || -> deck::Result<()> {
//!         let to = node.clone_mailbox("results", PATIENCE)?;
//!         let mut message = node.message();
//!         message.pack(&[7i32, 8, 9])?;
//!         message.pack(&[0.5f64])?;
//!         to.post(message, PATIENCE)?;
//!         Ok(())
//!     }
//! })?;
//!
//! let mut message = results.retrieve(PATIENCE)?;
//! let (mut numbers, mut share) = ([0i32; 3], [0f64; 1]);
//! message.unpack(&mut numbers)?;
//! message.unpack(&mut share)?;
//! assert_eq!((numbers, share), ([7, 8, 9], [0.5]));
//! assert_eq!(message.sender(), Some(node.number()));
//! worker.join().expect("the worker does not panic")?;
//!
//! // Every wait ends at its deadline, and the error says what was missing.
//! let nothing = results.retrieve(Duration::from_millis(1)).unwrap_err();
//! assert_eq!((nothing.kind(), nothing.code()), (ErrorKind::Timeout, "D0102"));
//!
//! drop(results);
//! node.leave()?;
//! # Ok(()) }
//! ```
//!
//! | You want to | Use |
//! |---|---|
//! | join and leave a job, ask how another node is | [`Node`], [`NodeState`] |
//! | receive | [`Mailbox`]: [`retrieve`](Mailbox::retrieve), [`retrieve_async`](Mailbox::retrieve_async), [`fd`](Mailbox::fd); [`select`] over several |
//! | send | [`MailboxClone::post`]; [`post_shared`](MailboxClone::post_shared) for one message to many |
//! | fill and read messages | [`Message`]: typed ([`pack`](Message::pack), [`unpack`](Message::unpack)) or as bytes ([`resize`](Message::resize), [`edit`](Message::edit), [`as_bytes`](Message::as_bytes)) |
//! | be answered without a name | [`Message::pack_mailbox`] and [`Message::unpack_mailbox`] |
//! | start threads whose waits can be cancelled, count permits | [`Thread`], [`Semaphore`] |
//! | meet other threads: barrier, broadcast, reduction and the like | [`Group`], [`group`] |
//! | share memory under a name | [`shared::Segment`] |
//! | keep order in it, recovered when a node dies | [`shared::Mutex`], [`shared::Condition`], [`shared::Barrier`] |
//! | count what all have done, and wait for a number | [`shared::Counter`] |
//! | know what went wrong and what to do | [`Error`], [`ErrorKind`] |
//!
//! # What always holds
//! * **Post** returns as soon as the message is on its way. It waits only for room, up to the caller's timeout, never
//!   for the receiver to retrieve, wake up or run. A message that is refused comes back in [`Refused`].
//! * **Order**: messages of one thread to one mail box, posted through one node, arrive in the order posted, whatever
//!   their sizes.
//! * **Timeouts** are [`Duration`](std::time::Duration)s: `Duration::ZERO` tries once, [`FOREVER`] has no end. Calls
//!   without a timeout end within [`default_timeout`], but for [`Node::leave`] and what waits for a node that is
//!   stopped in the same call, which take up to a few seconds; [`Thread::join`] alone has no end ([`Thread::wait`]
//!   has).
//! * **Death**: if a node dies, waits that need it end with [`ErrorKind::PeerLost`], which names it; all others go on.
//! * **Manners**: the library prints nothing (unless `DECK_LOG` asks), ends no process and installs no signal handler.
#![forbid(unsafe_code)]
#![cfg_attr(not(loom), warn(missing_debug_implementations))]

#[cfg(not(loom))]
pub mod group;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod observe;
/// Of groups, for their models.
#[cfg(loom)]
#[path = "group/protocols/mod.rs"]
pub mod protocols;
pub mod shared;

#[cfg(not(loom))]
pub use deck_mudeck::*;
#[cfg(not(loom))]
pub use group::{Completion, Group, GroupOptions, Operation};
