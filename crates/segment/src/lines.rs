//! The lines of a ring: as many as a power of two, so that every position has one and no look at one is checked.

#[cfg(not(loom))]
use std::ptr::NonNull;

use deck_sync::atomic::{AtomicU64, Ordering};

use crate::Words;
use crate::fabric::{Line, Slots};
use crate::layout::LINE_WORDS;

/// A ring of 64-byte lines in mapped memory. Cloning is cheap and keeps the memory mapped.
#[derive(Clone, Debug)]
pub struct Lines {
    #[cfg(not(loom))]
    first: NonNull<[AtomicU64; LINE_WORDS]>,
    mask: u32,
    #[cfg_attr(not(loom), expect(dead_code, reason = "keeps the memory mapped"))]
    words: Words,
}

// SAFETY: the lines are atomics in memory that `words` keeps mapped; sharing them is what they are for.
#[cfg(not(loom))]
unsafe impl Send for Lines {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for Lines {}

impl Lines {
    /// The `count` lines with which `words` begin.
    ///
    /// # Panics
    /// If they do not lie inside or `count` is no power of two.
    pub fn of(words: &Words, count: u32) -> Lines {
        assert!(count.is_power_of_two() && count as usize * LINE_WORDS <= words.count(), "{count} lines");
        Lines {
            #[cfg(not(loom))]
            first: words.first().cast(),
            mask: count - 1,
            words: words.clone(),
        }
    }

    /// The line of `position`, whatever that is: positions come round.
    #[inline]
    pub fn line(&self, position: u32) -> &[AtomicU64; LINE_WORDS] {
        let index = (position & self.mask) as usize;
        #[cfg(not(loom))]
        // SAFETY:
        // - the index is at most the mask, so the line is one of those that `of` found inside of the words;
        // - those lie in a live mapping, at an address that is a multiple of 8; any bit pattern is a valid AtomicU64.
        unsafe {
            self.first.add(index).as_ref()
        }
        #[cfg(loom)]
        self.words.line(index * LINE_WORDS)
    }

    /// Has the line of `position` fetched, which will be read soon.
    #[inline]
    pub fn prefetch(&self, position: u32) {
        #[cfg(not(any(loom, miri)))]
        crate::prefetch::to_read(std::ptr::from_ref(self.line(position)).cast());
        #[cfg(any(loom, miri))]
        let _ = position;
    }
}

impl Slots for Lines {
    #[inline]
    fn write(&self, position: u32, line: &Line) {
        let words = self.line(position);
        for (word, value) in words[..LINE_WORDS - 1].iter().zip(line) {
            word.store(*value, Ordering::Relaxed);
        }
        // Release: pairs with: ring/slot. The last word carries sequence and tag.
        words[LINE_WORDS - 1].store(line[LINE_WORDS - 1], Ordering::Release);
    }

    #[inline]
    fn expect(&self, position: u32) {
        #[cfg(not(any(loom, miri)))]
        crate::prefetch::to_write(std::ptr::from_ref(self.line(position)).cast_mut().cast());
        #[cfg(any(loom, miri))]
        let _ = position;
    }

    #[inline]
    fn mapped(&self) -> Option<&Lines> {
        Some(self)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Segment;

    fn words(count: usize) -> Words {
        let segment = Segment::create("lines", 4096).expect("a segment");
        Words::in_segment(&segment, 64, count).expect("inside")
    }

    #[test]
    fn positions_come_round() {
        let words = words(4 * LINE_WORDS);
        let lines = Lines::of(&words, 4);
        for position in [0u32, 1, 3, u32::MAX] {
            lines.write(position, &[u64::from(position); LINE_WORDS]);
            let here = LINE_WORDS * (position as usize % 4);
            assert!(
                (here..here + LINE_WORDS).all(|word| words.get(word).load(Ordering::Relaxed) == u64::from(position))
            );
            assert!(std::ptr::eq(lines.line(position), lines.line(position.wrapping_add(4))));
        }
    }

    #[test]
    #[should_panic(expected = "8 lines")]
    fn lines_outside_are_refused() {
        Lines::of(&words(8 * LINE_WORDS - 1), 8);
    }

    #[test]
    #[should_panic(expected = "3 lines")]
    fn a_number_that_is_no_power_of_two_is_refused() {
        Lines::of(&words(8 * LINE_WORDS), 3);
    }
}
