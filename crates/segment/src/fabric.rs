//! How a write reaches another node's segment.
//!
//! Protocols are written against [`Remote`], which can only *write*: whole 64-byte lines, single words, bulk bytes, and
//! a flush between them; and *interrupt*: set a bit, notify an event. On host memory a write is a store; on SCI, NTB
//! and other write-only fabrics it is a packet that lands some time later, in any order, until a flush. What runs on
//! the test fabric ([`adversary`]), where packets land in the worst order, runs on all of them.

pub mod adversary;
#[cfg(not(loom))]
mod host;

#[cfg(not(loom))]
pub use host::Host;

use deck_sync::Spot;

use crate::MappedSlots;
use crate::layout::LINE_WORDS;

/// A 64-byte line: eight words.
pub type Line = [u64; LINE_WORDS];

/// A segment of another node as a sender sees it. All offsets are in bytes from the begin of the segment.
///
/// # Panics
/// Every call panics if the offset lies outside: senders check what they are told before they build on it.
pub trait Remote: Send + Sync + 'static {
    /// True if the other node's pages can be read in place (one host): then buffers are handed over.
    const IS_MAPPED: bool;

    /// Slots of a ring in that segment.
    type Slots: Slots;

    /// The `count` slots, a power of two, that begin at `offset`, a multiple of [`SLOT`](crate::layout::SLOT).
    fn slots(&self, offset: usize, count: u32) -> Self::Slots;

    /// Writes one word at a multiple of 8; on host memory with release.
    fn write_word(&self, offset: usize, value: u64);

    /// Writes bytes at a multiple of 64; they land in any order.
    ///
    /// # Safety
    /// `data` points to `bytes` readable bytes. (Not a slice: it may point into a segment.)
    unsafe fn write_bytes(&self, offset: usize, data: *const u8, bytes: usize);

    /// Whatever was written before lands before anything that is written after. The same address must not be written
    /// twice without a flush in between.
    fn flush(&self);

    /// Sets `bits` of the word at `offset`, after everything written before has landed; its other bits stay. What
    /// interrupts do where a fabric can do no more than write.
    fn set_bits(&self, offset: usize, bits: u64);

    /// Notifies the [`deck_sync::Event`] at `offset`, after everything written before has landed.
    fn interrupt(&self, offset: usize);

    /// Calls a thread of the other node that gave its core away. Nothing happens where the other node has cores of its
    /// own.
    fn call(&self, _spot: Spot) {}
}

/// The slots of a ring in a segment of another node, of two lines each. Positions come round: every one has its slot.
pub trait Slots: Send + Sync + 'static {
    /// Writes the second line of the slot of `position`: `line`, but for its last word, and `last`. It lands as a
    /// whole: a reader that sees the last word (with acquire) sees the others.
    fn write(&self, position: u32, line: &Line, last: u64);

    /// Writes `bytes` bytes from the begin of the slot of `position` on, and then its last word: a reader that sees
    /// that (with acquire) sees all of them. What is between them is anything.
    ///
    /// # Panics
    /// If the slot has no room for so many.
    ///
    /// # Safety
    /// `data` points to `bytes` readable bytes. (Not a slice: it may point into a segment.)
    unsafe fn write_whole(&self, position: u32, data: *const u8, bytes: usize, last: u64);

    /// The slots themselves, where a write is a store and words may be written one by one.
    fn mapped(&self) -> Option<&MappedSlots> {
        None
    }
}
