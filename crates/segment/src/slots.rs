//! The slots of a ring in mapped memory: as many as a power of two, so that every position has one and no look at one
//! is checked.
//!
//! A slot has two lines. The last word of the second one tells that it has arrived; most messages need no more than
//! that line, and the first one stays as it is. This is no waste. A processor that misses a line fetches its neighbour
//! too, and the next ones of a sequence that it has made out: of a ring whose slots are used one after the other and
//! side by side, it takes lines away from the other core that are not asked for, and they have to come back. So slots
//! of consecutive positions are also some slots apart. Measured: `docs/design/018-slots-of-two-lines.md`.

#[cfg(not(loom))]
use std::ptr::NonNull;

use deck_sync::atomic::{AtomicU64, Ordering};

use crate::Words;
use crate::fabric::{Line, Slots};
use crate::layout::{LINE, LINE_WORDS, SLOT, SLOT_CONTENT, SLOT_WORDS};

/// How many slots lie between those of two consecutive positions: odd, so that all have their turn.
const STRIDE: u32 = 11;

/// Where the slot of `position` lies, in bytes from the first of `count` slots.
#[inline]
pub fn slot_offset(position: u32, count: u32) -> usize {
    debug_assert!(count.is_power_of_two(), "{count} slots");
    index(position, count - 1) * SLOT
}

#[inline]
fn index(position: u32, mask: u32) -> usize {
    (position.wrapping_mul(STRIDE) & mask) as usize
}

/// A ring of slots in mapped memory. Cloning is cheap and keeps the memory mapped.
#[derive(Clone, Debug)]
pub struct MappedSlots {
    #[cfg(not(loom))]
    first: NonNull<[[AtomicU64; LINE_WORDS]; 2]>,
    mask: u32,
    #[cfg_attr(not(loom), expect(dead_code, reason = "keeps the memory mapped"))]
    words: Words,
}

// SAFETY: the slots are atomics in memory that `words` keeps mapped; sharing them is what they are for.
#[cfg(not(loom))]
unsafe impl Send for MappedSlots {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for MappedSlots {}

impl MappedSlots {
    /// The `count` slots with which `words` begin.
    ///
    /// # Panics
    /// If they do not lie inside or `count` is no power of two.
    pub fn of(words: &Words, count: u32) -> MappedSlots {
        assert!(count.is_power_of_two() && count as usize * SLOT_WORDS <= words.count(), "{count} slots");
        MappedSlots {
            #[cfg(not(loom))]
            first: words.first().cast(),
            mask: count - 1,
            words: words.clone(),
        }
    }

    #[cfg(not(loom))]
    #[inline]
    fn slot(&self, position: u32) -> NonNull<[[AtomicU64; LINE_WORDS]; 2]> {
        // SAFETY: the index is at most the mask, so the slot is one of those that `of` found inside of the words.
        unsafe { self.first.add(index(position, self.mask)) }
    }

    /// The second line of the slot of `position`, whatever that is: positions come round.
    #[inline]
    pub fn line(&self, position: u32) -> &[AtomicU64; LINE_WORDS] {
        #[cfg(not(loom))]
        // SAFETY: the slot lies in a live mapping, at an address that is a multiple of 8; any bit pattern is a valid
        // AtomicU64.
        unsafe {
            &self.slot(position).as_ref()[1]
        }
        #[cfg(loom)]
        self.words.line(index(position, self.mask) * SLOT_WORDS + LINE_WORDS)
    }

    /// Calls `read` with the address of the first [`SLOT_CONTENT`] bytes of the slot of `position`, readable while it
    /// runs: a model has no address, and makes a copy for it. Another process may write them meanwhile: they are to be
    /// copied, never borrowed.
    #[inline]
    pub fn with_content<R>(&self, position: u32, read: impl FnOnce(*const u8) -> R) -> R {
        #[cfg(not(loom))]
        return read(self.slot(position).as_ptr().cast_const().cast());
        #[cfg(loom)]
        {
            // Relaxed: ordered by the acquire of the last word.
            let word = |word| self.words.get(index(position, self.mask) * SLOT_WORDS + word).load(Ordering::Relaxed);
            let content: [u64; SLOT_CONTENT / 8] = std::array::from_fn(word);
            read(content.as_ptr().cast())
        }
    }

    /// Has the second line of the slot of `position` fetched, which will be read soon.
    #[inline]
    pub fn prefetch(&self, position: u32) {
        #[cfg(not(any(loom, miri)))]
        crate::prefetch::to_read(std::ptr::from_ref(self.line(position)).cast());
        #[cfg(any(loom, miri))]
        let _ = position;
    }

    /// As [`MappedSlots::prefetch`], the first line.
    #[inline]
    pub fn prefetch_first(&self, position: u32) {
        #[cfg(not(any(loom, miri)))]
        crate::prefetch::to_read(self.slot(position).as_ptr().cast_const().cast());
        #[cfg(any(loom, miri))]
        let _ = position;
    }
}

impl Slots for MappedSlots {
    #[inline]
    fn write(&self, position: u32, line: &Line, last: u64) {
        let words = self.line(position);
        // Word by word from there to here: content that has just come lies in words, which a processor does not pass on
        // to wider loads.
        for (word, value) in words[..LINE_WORDS - 1].iter().zip(line) {
            word.store(*value, Ordering::Relaxed);
        }
        // Release: pairs with: ring/slot. The last word carries sequence and tag.
        words[LINE_WORDS - 1].store(last, Ordering::Release);
    }

    #[inline]
    unsafe fn write_whole(&self, position: u32, data: *const u8, bytes: usize, last: u64) {
        assert!(bytes <= SLOT_CONTENT, "{bytes} bytes for a slot");
        // SAFETY: `data` is readable for `bytes` (caller); the slot has so many before its last word, in a live mapping
        // that nobody borrows, and is other memory unless a peer says that buffers lie there: then content alone is
        // spoilt.
        #[cfg(not(loom))]
        unsafe {
            std::ptr::copy(data, self.slot(position).as_ptr().cast(), bytes);
        }
        #[cfg(loom)]
        {
            let mut content = [0u8; SLOT_CONTENT];
            // SAFETY: `data` is readable for `bytes` (caller), the array has so many.
            unsafe { std::ptr::copy_nonoverlapping(data, content.as_mut_ptr(), bytes) };
            for (word, chunk) in content.as_chunks::<8>().0.iter().enumerate() {
                // Relaxed: ordered by the release of the last word.
                let place = self.words.get(index(position, self.mask) * SLOT_WORDS + word);
                place.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
            }
        }
        // Release: pairs with: ring/slot.
        self.line(position)[LINE_WORDS - 1].store(last, Ordering::Release);
    }

    #[inline]
    fn mapped(&self) -> Option<&MappedSlots> {
        Some(self)
    }
}

const _: () = assert!(SLOT == 2 * LINE && SLOT_CONTENT == SLOT - 8);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Segment;

    fn words(count: usize) -> Words {
        let segment = Segment::create("slots", 4096).expect("a segment");
        Words::in_segment(&segment, 64, count).expect("inside")
    }

    #[test]
    fn positions_come_round_and_each_has_a_slot_of_its_own() {
        let words = words(8 * SLOT_WORDS);
        let slots = MappedSlots::of(&words, 8);
        let mut places: Vec<usize> = (0..8).map(|position| slot_offset(position, 8)).collect();
        places.sort_unstable();
        assert_eq!(places, (0..8).map(|index| index * SLOT).collect::<Vec<_>>());
        for position in [0u32, 1, 3, 7, u32::MAX] {
            slots.write(position, &[u64::from(position); LINE_WORDS], u64::from(position));
            let second = (slot_offset(position, 8) + LINE) / 8;
            assert!(
                (second..second + LINE_WORDS)
                    .all(|word| words.get(word).load(Ordering::Relaxed) == u64::from(position))
            );
            assert!(std::ptr::eq(slots.line(position), slots.line(position.wrapping_add(8))));
        }
    }

    #[test]
    fn content_of_two_lines_begins_with_the_slot_and_ends_before_its_last_word() {
        let words = words(2 * SLOT_WORDS);
        let slots = MappedSlots::of(&words, 2);
        let content: Vec<u8> = (0..SLOT_CONTENT as u8).collect();
        // SAFETY: the vector is readable for its length.
        unsafe { slots.write_whole(1, content.as_ptr(), content.len(), 77) };
        assert_eq!(slots.line(1)[LINE_WORDS - 1].load(Ordering::Relaxed), 77);
        let mut read = vec![0u8; SLOT_CONTENT];
        // SAFETY: the content is readable, the vector has so many bytes.
        slots.with_content(1, |data| unsafe {
            std::ptr::copy_nonoverlapping(data, read.as_mut_ptr(), SLOT_CONTENT);
        });
        assert_eq!(read, content);
        assert!((0..SLOT_WORDS).all(|word| words.get(slot_offset(0, 2) / 8 + word).load(Ordering::Relaxed) == 0));
    }

    #[test]
    #[should_panic(expected = "8 slots")]
    fn slots_outside_are_refused() {
        MappedSlots::of(&words(8 * SLOT_WORDS - 1), 8);
    }

    #[test]
    #[should_panic(expected = "3 slots")]
    fn a_number_that_is_no_power_of_two_is_refused() {
        MappedSlots::of(&words(8 * SLOT_WORDS), 3);
    }
}
