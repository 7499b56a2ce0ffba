//! Rings that were made cold lately, and are looked at once more.
//!
//! The fence that goes with making a ring cold can miss a core (`docs/design/004-hot-and-cold-rings.md`). Whoever
//! posted from there at that very moment may not have seen that it has to ring, and its message lies where nobody
//! looks. A thread that sleeps looks everywhere when its nap is over. One that is always busy with other rings, or
//! always rung by others, has this.

use std::collections::VecDeque;

use deck_sync::now_ns;

/// What was on its way when a ring was made cold has arrived after so many nanoseconds.
const ON_ITS_WAY: u64 = 1_000_000;
/// Turns between two looks at the clock.
const STRIDE: u32 = 256;

/// The rings, and since when they are cold.
#[derive(Default)]
pub(crate) struct Doubts {
    cooled: VecDeque<(u64, usize)>,
    turns: u32,
}

impl Doubts {
    /// The ring at `index` is cold from now on.
    pub fn add(&mut self, index: usize) {
        self.cooled.push_back((now_ns(), index));
    }

    /// Another ring has its turn; true if it is time to look whether one is to be looked at.
    #[inline]
    pub fn note_turn(&mut self) -> bool {
        self.turns = self.turns.wrapping_add(1);
        self.turns.is_multiple_of(STRIDE) && !self.cooled.is_empty()
    }

    /// A ring that is cold for long enough: it may not be there any more, or be hot again.
    pub fn next(&mut self) -> Option<usize> {
        let (since, index) = *self.cooled.front()?;
        if now_ns().saturating_sub(since) < ON_ITS_WAY {
            return None;
        }
        self.cooled.pop_front();
        Some(index)
    }

    /// There are no rings any more.
    pub fn clear(&mut self) {
        self.cooled.clear();
    }
}
