//! The nodes that died last while they had a thing open: one writes them down, the broker, and anybody reads.
//!
//! The readers see whether they were overtaken: they read the count before and after, as of a sequence lock (Boehm,
//! 2012: *Can seqlocks get along with programming language memory models?*). What may be written without the count
//! having changed yet is the oldest place; it is not read.

use deck_sync::NodeId;
use deck_sync::atomic::{AtomicU64, Ordering, fence};

/// Words with two places each.
pub const WORDS: usize = 4;
const PLACES: u64 = 2 * WORDS as u64;

/// Nodes that died while they had a thing open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// How many there have been.
    pub count: u64,
    /// The last [`Reclaimed::KNOWN`] of them, in the order in which they were written down.
    pub last: Vec<NodeId>,
}

impl Reclaimed {
    /// Of so many their numbers are known.
    pub const KNOWN: u64 = PLACES - 1;
}

/// The words in which they stand.
pub struct LastLost<'a> {
    /// How many there have been.
    pub count: &'a AtomicU64,
    /// The last of them, in turn: two of 32 bits in a word.
    pub places: [&'a AtomicU64; WORDS],
}

impl LastLost<'_> {
    /// Those that were written down.
    pub fn read(&self) -> Reclaimed {
        loop {
            // Acquire: pairs with: last_lost/count.
            let count = self.count.load(Ordering::Acquire);
            let known = count.min(Reclaimed::KNOWN);
            let last = (count - known..count).map(|nth| self.node(nth)).collect();
            // Acquire fence: pairs with: last_lost/place. Whoever wrote over one of these has raised the count before.
            fence(Ordering::Acquire);
            if self.count.load(Ordering::Relaxed) == count {
                return Reclaimed { count, last };
            }
        }
    }

    /// Writes down that `node` has died. By one at a time; once more if the last one died at it.
    pub fn write(&self, node: NodeId) {
        let nth = self.count.load(Ordering::Relaxed);
        if nth > 0 && self.node(nth - 1) == node {
            return;
        }
        // Release fence: pairs with: last_lost/place. The count was raised before.
        fence(Ordering::Release);
        let (word, shift) = self.place(nth);
        let others = word.load(Ordering::Relaxed) & !(u64::from(u32::MAX) << shift);
        word.store(others | u64::from(node.0) << shift, Ordering::Relaxed);
        // Release: pairs with: last_lost/count.
        self.count.store(nth.wrapping_add(1), Ordering::Release);
    }

    fn node(&self, nth: u64) -> NodeId {
        let (word, shift) = self.place(nth);
        NodeId((word.load(Ordering::Relaxed) >> shift) as u32)
    }

    /// Where the `nth` is: a word, and from which bit on.
    fn place(&self, nth: u64) -> (&AtomicU64, u64) {
        let place = nth % PLACES;
        (self.places[place as usize / 2], place % 2 * 32)
    }
}
