//! Shared words: the only way in which protocols look at memory that other nodes write.

#[cfg(not(loom))]
use std::ptr::NonNull;
use std::sync::Arc;

use crate::Segment;
use crate::layout::LINE_WORDS;
use deck_sync::Event;
use deck_sync::atomic::AtomicU64;

/// A run of 64-bit atomic words in a segment. Cloning is cheap and keeps the segment mapped.
///
/// Under loom, which cannot follow mapped memory, the words live on the heap.
#[derive(Clone, Debug)]
pub struct Words {
    #[cfg(not(loom))]
    first: NonNull<AtomicU64>,
    #[cfg(not(loom))]
    count: usize,
    #[cfg(not(loom))]
    _segment: Arc<Segment>,
    #[cfg(loom)]
    words: Arc<(Vec<AtomicU64>, Event)>,
}

// SAFETY: the words are atomics in memory that `_segment` keeps mapped; sharing them is what they are for.
#[cfg(not(loom))]
unsafe impl Send for Words {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for Words {}

impl Words {
    /// The `count` words at byte `offset` of `segment`; `None` if they do not lie inside or are not aligned.
    #[cfg(not(loom))]
    pub fn in_segment(segment: &Arc<Segment>, offset: usize, count: usize) -> Option<Words> {
        if !offset.is_multiple_of(8) {
            return None;
        }
        let first = segment.at(offset, count.checked_mul(8)?)?.cast();
        Some(Words { first, count, _segment: segment.clone() })
    }

    /// A model has no mapped memory.
    #[cfg(loom)]
    pub fn in_segment(_segment: &Arc<Segment>, _offset: usize, _count: usize) -> Option<Words> {
        None
    }

    /// `count` zeroed words of a model.
    #[cfg(loom)]
    pub fn model(count: usize) -> Words {
        Words { words: Arc::new(((0..count).map(|_| AtomicU64::new(0)).collect(), Event::new())) }
    }

    /// Where they begin.
    #[cfg(not(loom))]
    pub(crate) fn first(&self) -> NonNull<AtomicU64> {
        self.first
    }

    /// Word `index`.
    ///
    /// # Panics
    /// If there is no such word: indexes from outside are to be checked before.
    #[inline]
    pub fn get(&self, index: usize) -> &AtomicU64 {
        #[cfg(not(loom))]
        {
            if index >= self.count {
                outside(index, self.count);
            }
            // SAFETY: inside the run, which lies in a live mapping at an address that is a multiple of 8; any bit
            // pattern is a valid AtomicU64.
            unsafe { self.first.add(index).as_ref() }
        }
        #[cfg(loom)]
        &self.words.0[index]
    }

    /// The words of the line that begins with word `index`.
    ///
    /// # Panics
    /// If there is no such line: indexes from outside are to be checked before.
    #[inline]
    pub fn line(&self, index: usize) -> &[AtomicU64; LINE_WORDS] {
        #[cfg(not(loom))]
        {
            if self.count < LINE_WORDS || index > self.count - LINE_WORDS {
                outside(index, self.count);
            }
            // SAFETY: inside the run, as far as the last word, which lies in a live mapping at an address that is a
            // multiple of 8; any bit pattern is a valid AtomicU64.
            unsafe { self.first.add(index).cast().as_ref() }
        }
        #[cfg(loom)]
        self.words.0[index..index + LINE_WORDS].try_into().expect("as many as a line has")
    }

    /// Has the line of word `index` fetched, which will be read soon. Nothing happens if there is no such word.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        #[cfg(not(any(loom, miri)))]
        if index < self.count {
            // SAFETY: inside the run.
            crate::prefetch::to_read(unsafe { self.first.add(index) }.as_ptr().cast());
        }
        #[cfg(any(loom, miri))]
        let _ = index;
    }

    /// As [`Words::prefetch`], for a line that will be written.
    #[inline]
    pub fn prefetch_to_write(&self, index: usize) {
        #[cfg(not(any(loom, miri)))]
        if index < self.count {
            // SAFETY: inside the run.
            crate::prefetch::to_write(unsafe { self.first.add(index) }.as_ptr().cast());
        }
        #[cfg(any(loom, miri))]
        let _ = index;
    }

    /// How many words.
    pub fn count(&self) -> usize {
        #[cfg(not(loom))]
        return self.count;
        #[cfg(loom)]
        self.words.0.len()
    }

    /// The event in word `index`. A model has one event, whatever the index.
    #[inline]
    pub fn event(&self, index: usize) -> &Event {
        #[cfg(not(loom))]
        {
            if index >= self.count {
                outside(index, self.count);
            }
            // SAFETY: inside the run, aligned to 8, and an Event has the size of a word; any bit pattern is a valid
            // Event.
            unsafe { self.first.add(index).cast::<Event>().as_ref() }
        }
        #[cfg(loom)]
        {
            let _ = index;
            &self.words.1
        }
    }

    /// Address of the bytes from word `index` on, for bulk content; valid while these words live.
    ///
    /// # Panics
    /// If `bytes` bytes from there do not lie inside.
    pub fn address(&self, index: usize, bytes: usize) -> *mut u8 {
        assert!(
            index.checked_mul(8).and_then(|from| from.checked_add(bytes)).is_some_and(|end| end <= self.count() * 8)
        );
        #[cfg(not(loom))]
        // SAFETY: inside the run.
        return unsafe { self.first.add(index) }.as_ptr().cast();
        #[cfg(loom)]
        unreachable!("a model has no bulk content")
    }
}

/// Apart, so that the words' users need no memory for what the message says.
#[cfg(not(loom))]
#[cold]
#[inline(never)]
fn outside(index: usize, count: usize) -> ! {
    panic!("word {index} of {count}")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::layout::PAGE;

    #[test]
    fn a_run_begins_at_a_multiple_of_a_word_and_ends_inside() {
        let segment = Segment::create("words", PAGE).unwrap();
        for (offset, count) in [(0, 0), (0, PAGE / 8), (PAGE - 8, 1), (PAGE, 0)] {
            let words = Words::in_segment(&segment, offset, count).expect("it is inside");
            assert_eq!((words.count(), words.first().addr().get() % 8), (count, 0));
        }
        for (offset, count) in
            [(1, 1), (4, 1), (0, PAGE / 8 + 1), (PAGE - 8, 2), (PAGE, 1), (usize::MAX - 7, 1), (8, usize::MAX / 8 + 1)]
        {
            assert!(Words::in_segment(&segment, offset, count).is_none(), "{count} words at {offset}");
        }
    }

    #[test]
    fn nothing_is_given_out_that_is_not_all_inside_of_the_run() {
        const COUNT: usize = 2 * LINE_WORDS;
        let segment = Segment::create("words", PAGE).unwrap();
        let words = Words::in_segment(&segment, 0, COUNT).unwrap();
        let short = Words::in_segment(&segment, 0, LINE_WORDS - 1).unwrap();
        let is_given = |look: &dyn Fn(&Words), of: &Words| catch_unwind(AssertUnwindSafe(|| look(of))).is_ok();
        let word = |index: usize| is_given(&|words| _ = words.get(index), &words);
        let event = |index: usize| is_given(&|words| _ = words.event(index), &words);
        let line = |index: usize| is_given(&|words| _ = words.line(index), &words);
        let bytes = |index: usize, bytes: usize| is_given(&|words| _ = words.address(index, bytes), &words);
        assert_eq!([COUNT - 1, COUNT, usize::MAX].map(word), [true, false, false]);
        assert_eq!([COUNT - 1, COUNT, usize::MAX].map(event), [true, false, false]);
        assert_eq!([LINE_WORDS, LINE_WORDS + 1, COUNT, usize::MAX].map(line), [true, false, false, false]);
        assert!(!is_given(&|words| _ = words.line(0), &short), "it has no whole line");
        assert_eq!([(0, 8 * COUNT), (COUNT, 0)].map(|(from, count)| bytes(from, count)), [true, true]);
        for (from, count) in [(0, 8 * COUNT + 1), (COUNT, 1), (COUNT + 1, 0), (1, usize::MAX), (usize::MAX / 8 + 1, 8)]
        {
            assert!(!bytes(from, count), "{count} bytes from word {from} on");
        }
    }
}
