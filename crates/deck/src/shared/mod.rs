//! Shared segments, and what keeps order in them: a job's mutexes, condition variables, barriers and counters.
//!
//! All of them are found by name, by any thread of any node. A mutex, condition variable, barrier or counter exists
//! from its first use on; a segment is created once, with a size and a *home*, the node whose memory it is.
//!
//! ```
//! use std::time::Duration;
//! use deck::shared::{Condition, Counter, Mutex, Segment};
//! use deck::{FOREVER, Node, Thread};
//!
//! const PATIENCE: Duration = Duration::from_secs(10);
//!
//! # fn main() -> deck::Result<()> {
//! let node = Node::join()?;
//! let board = Segment::create(&node, "board", 4096, None)?;
//!
//! // In another node this would look the same: names are all that it needs.
//! let writer = Thread::spawn({
//!     let node = node.clone();
//!     move || -> deck::Result<()> {
//!         let board = Segment::open(&node, "board", PATIENCE)?;
//!         let lock = Mutex::open(&node, "board")?;
//!         let mut guard = lock.lock(PATIENCE)?;
//!         board.write(100, b"hello")?;
//!         drop(guard);
//!         Counter::open(&node, "written")?.add(1)?;
//!         Condition::open(&node, "board changed")?.broadcast()
//!     }
//! })?;
//!
//! let (lock, changed) = (Mutex::open(&node, "board")?, Condition::open(&node, "board changed")?);
//! let mut word = [0; 5];
//! let mut guard = lock.lock(FOREVER)?;
//! loop {
//!     board.read(100, &mut word)?;
//!     if word == *b"hello" {
//!         break;
//!     }
//!     guard = changed.wait(guard, PATIENCE)?;
//! }
//! drop(guard);
//! Counter::open(&node, "written")?.wait_for(1, PATIENCE)?;
//! writer.join().expect("the writer does not panic")?;
//! # Ok(()) }
//! ```
//!
//! # What always holds
//! * **Names** have 1 to 95 bytes. Each kind has names of its own: a mutex and a segment may both be called "board". A
//!   job can have 4,096 different ones at a time, all kinds together: those that are open, and those of counters that
//!   are not 0, of mutexes whose holder is gone and of barriers that are broken.
//! * **Nothing hangs on one node.** The words of these things lie in memory that all nodes map; there is no server, and
//!   the death of any node, the first included, takes none of them away. A segment lives as long as any node has it
//!   open, also without its home.
//! * **Death is told.** Whoever locks a mutex after its holder died has it, and is told ([`ErrorKind::OwnerDied`]). A
//!   barrier that a node had open when it died is broken for good ([`ErrorKind::PeerLost`]). The death of a node that
//!   has a counter open is told once through each handle of it.
//! * **A stopped process** (SIGSTOP) is not dead: what it holds stays held, waits end at their own deadline, and the
//!   error says so. When it does not hold anything it holds others up for some milliseconds at most, but where it is
//!   stopped in the very moment in which it wakes them: then they look again by themselves within ten seconds. And
//!   while it is stopped in the very moment in which it opens something, others that open anything get an error
//!   ([`ErrorKind::Timeout`]) that names it, after a second at most. And who signals a condition variable may call
//!   a thread that is stopped: a broadcast calls all.
//! * **Waiting** spins for some microseconds and then sleeps; every wait has a timeout and can be cancelled.
//! * **A thread that ends** or panics while it holds a mutex leaves it to the next one, who is told the same as after a
//!   death.
//!
//! [`ErrorKind::OwnerDied`]: crate::ErrorKind::OwnerDied
//! [`ErrorKind::PeerLost`]: crate::ErrorKind::PeerLost
//! [`ErrorKind::Timeout`]: crate::ErrorKind::Timeout

pub(crate) mod arrivals;
pub(crate) mod count;
pub(crate) mod lock;
pub(crate) mod registry;
mod tickets;

#[cfg(not(loom))]
mod barrier;
#[cfg(not(loom))]
mod condition;
#[cfg(not(loom))]
mod counter;
#[cfg(not(loom))]
mod held;
#[cfg(not(loom))]
mod mutex;
#[cfg(not(loom))]
mod named;
#[cfg(not(loom))]
mod segment;

#[cfg(not(loom))]
pub use {
    barrier::Barrier,
    condition::Condition,
    counter::Counter,
    mutex::{Guard, LockError, Mutex},
    segment::Segment,
};

/// The algorithms without the waiting, for their models.
#[cfg(loom)]
pub use {arrivals::*, count::*, lock::*, registry::*, tickets::*};
