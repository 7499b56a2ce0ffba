//! Byte map of a node's segment; `docs/layout/node-segment.md` is the same map in words.

use crate::Seat;

/// What the system calls a node's segment, for those who look for it.
pub const LABEL: &str = "deck-node";
/// `DECKNODE`, first word of a node's segment.
pub const MAGIC: u64 = u64::from_le_bytes(*b"DECKNODE");
/// Changes with every change of any layout that two nodes share.
pub const VERSION: u64 = 13;

/// Bytes of a cache line, and of a descriptor.
pub const LINE: usize = 64;
/// Words of a cache line.
pub const LINE_WORDS: usize = LINE / 8;
/// Bytes of a slot of a ring: two lines.
pub const SLOT: usize = 2 * LINE;
/// Words of a slot.
pub const SLOT_WORDS: usize = SLOT / 8;
/// The most bytes of content that a slot has room for: all but its last word.
pub const SLOT_CONTENT: usize = SLOT - 8;
/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Word indexes in the header.
pub mod header {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// [`super::VERSION`].
    pub const VERSION: usize = 1;
    /// Size of the segment in bytes.
    pub const BYTES: usize = 2;
    /// Number of the node that owns the segment.
    pub const NODE: usize = 3;
    /// Seat of that node.
    pub const SEAT: usize = 4;
    /// Its process.
    pub const PID: usize = 5;
    /// What its memory is like: a [`crate::MemoryFacts`], for those who look on.
    pub const MEMORY: usize = 6;
}

/// Where the lines that say who holds a buffer begin.
pub const HOLDERS: usize = 2 * PAGE;
/// How many buffers a node can have at a time.
pub const BUFFERS: usize = 1 << 20;
/// Where rings, mail boxes and message buffers live, up to the end.
pub const DATA: usize = HOLDERS + BUFFERS * LINE;

/// Word indexes in the line of one buffer.
pub mod holder {
    /// First of the words that hold a bit for each seat.
    pub const BITS: usize = 0;
    /// Counts how often a bit was set: tells a reader of several words that they belong together.
    pub const ADDED: usize = 4;
    /// How many handles and posted messages share the content; decides whether an edit copies, never who frees.
    pub const SHARES: usize = 5;
    /// Who reads the content: one of [`super::readers`].
    pub const READERS: usize = 7;
}

/// Who reads the content of a buffer: hints that cost time where they are wrong, and no more.
pub mod readers {
    /// Nothing is known, or one alone, who has not fetched it.
    pub const NOT_TOLD: u64 = 0;
    /// One alone, who has fetched it ([`crate::Buffer::fetch`]) to its end.
    pub const FETCHED: u64 = 1;
    /// It was posted more than once.
    pub const SEVERAL: u64 = 2;
}

const _: () = assert!(Seat::COUNT / 64 == holder::ADDED - holder::BITS);
const _: () = assert!(holder::READERS < LINE_WORDS && header::MEMORY < LINE_WORDS);
const _: () = assert!(LINE == size_of::<crate::fabric::Line>());
// docs/layout/node-segment.md
const _: () = assert!(HOLDERS == 8_192 && DATA == 67_117_056 && DATA.is_multiple_of(PAGE));
