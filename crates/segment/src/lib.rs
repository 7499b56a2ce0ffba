//! Memory that other nodes can reach.
//!
//! A [`Segment`] is anonymous memory of fixed virtual size that grows inside; other nodes of the host map it. A
//! [`Remote`] is such memory as a sender sees it: writes only, so that the same protocols run over host memory and over
//! fabrics where reading across is dear or impossible ([`fabric`]). A [`HeapMemory`] is a segment with message buffers
//! in it; a [`Buffer`] is a share of one, and [`holders`] keeps who holds which.
//!
//! Nothing here knows what a mail box is or how nodes meet.

pub mod attach;
mod blocks;
mod buffer;
mod caches;
pub mod content;
mod exposed;
mod extents;
pub mod fabric;
mod facts;
mod fetch_back;
mod fetching;
mod heap;
mod held;
pub mod holders;
#[cfg_attr(miri, allow(dead_code, reason = "Miri has no huge pages"))]
mod huge;
pub mod layout;
#[cfg_attr(miri, allow(dead_code, reason = "Miri's memory has no limits"))]
mod limits;
#[cfg(not(miri))]
mod memory;
#[cfg(miri)]
#[path = "memory/interpreted.rs"]
mod memory;
mod numa;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod past_caches;
mod prefetch;
mod region;
mod rest;
mod slots;
pub mod wide;
mod words;

pub use buffer::{Buffer, BufferName, Kept};
pub use fabric::Remote;
pub use facts::MemoryFacts;
pub use fetch_back::FetchBack;
pub use fetching::Fetching;
pub use heap::{HeapMemory, HeapOptions, HeapUse, default_bytes};
pub use held::Unheld;
pub use huge::{HUGE, HugePages};
pub use memory::Segment;
pub use numa::{Numa, NumaChoice};
pub use region::Region;
pub use rest::Rest;
pub use slots::{MappedSlots, slot_offset};
pub use words::Words;

/// A node's place among the live nodes of a host: dense and, unlike its number, used again after it is reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat(pub u16);

impl Seat {
    /// How many nodes a job can have on one host at a time.
    pub const COUNT: usize = 256;
}
