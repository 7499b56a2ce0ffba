//! Bytes that anybody may be writing at this moment, copied word by word.
//!
//! The content of a shared segment is the programs' own: nothing but their locks keeps two threads from meeting in it.
//! If they forget the lock, they shall read mixed content and no worse, so every access here is an atomic one of a
//! whole word; relaxed, because it is the lock that orders. On x86-64 and aarch64 these are plain loads and stores of 8
//! bytes.

use std::slice;

use deck_sync::atomic::{AtomicU64, Ordering};

use crate::Segment;

const WORD: usize = 8;

/// How many bytes of a range lie in a word that it begins in the middle of, and in whole words. What is left begins
/// one.
fn split(offset: usize, bytes: usize) -> [usize; 2] {
    let first = (offset.wrapping_neg() % WORD).min(bytes);
    [first, (bytes - first) / WORD * WORD]
}

impl Segment {
    /// The words that bytes from `offset` on lie in, of a range that was found to lie inside. A segment is whole pages:
    /// what begins inside has its whole word inside.
    fn exposed(&self, offset: usize, bytes: usize) -> Option<&[AtomicU64]> {
        let (begin, count) = (offset / WORD, bytes.div_ceil(WORD));
        let words = self.at(begin * WORD, count * WORD)?;
        // SAFETY:
        // * inside the live mapping, which begins at a page, so it is aligned; `self` keeps it for as long as the
        //   reference.
        // * any bit pattern is a valid AtomicU64, and all who may write these bytes do so by atomics.
        Some(unsafe { slice::from_raw_parts(words.cast::<AtomicU64>().as_ptr(), count) })
    }

    /// Copies bytes out, whoever writes them meanwhile; `None`, and nothing is copied, unless they lie inside. Never
    /// blocks.
    #[must_use]
    pub fn load_bytes(&self, offset: usize, into: &mut [u8]) -> Option<()> {
        self.at(offset, into.len())?;
        let [first, whole] = split(offset, into.len());
        let (beginning, rest) = into.split_at_mut(first);
        let (middle, end) = rest.split_at_mut(whole);
        self.load_part(offset, beginning)?;
        // A range of whole words, and nothing else in the loop: programs copy much in one call.
        for (bytes, word) in middle.as_chunks_mut::<WORD>().0.iter_mut().zip(self.exposed(offset + first, whole)?) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        self.load_part(offset + first + whole, end)
    }

    /// Copies a few bytes of one word out.
    fn load_part(&self, offset: usize, into: &mut [u8]) -> Option<()> {
        if let [word] = self.exposed(offset, into.len())? {
            let value = word.load(Ordering::Relaxed).to_ne_bytes();
            into.copy_from_slice(&value[offset % WORD..][..into.len()]);
        }
        Some(())
    }

    /// Copies bytes in, whoever reads or writes them meanwhile; `None`, and nothing is copied, unless they lie inside.
    /// Bytes beside them stay as they are. Never blocks.
    #[must_use]
    pub fn store_bytes(&self, offset: usize, bytes: &[u8]) -> Option<()> {
        self.at(offset, bytes.len())?;
        let [first, whole] = split(offset, bytes.len());
        let (beginning, rest) = bytes.split_at(first);
        let (middle, end) = rest.split_at(whole);
        self.store_part(offset, beginning)?;
        for (bytes, word) in middle.as_chunks::<WORD>().0.iter().zip(self.exposed(offset + first, whole)?) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        self.store_part(offset + first + whole, end)
    }

    /// Copies a few bytes of one word in. Somebody may be writing the others.
    fn store_part(&self, offset: usize, bytes: &[u8]) -> Option<()> {
        if let [word] = self.exposed(offset, bytes.len())? {
            let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
                let mut value = now.to_ne_bytes();
                value[offset % WORD..][..bytes.len()].copy_from_slice(bytes);
                Some(u64::from_ne_bytes(value))
            });
        }
        Some(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn segment() -> Arc<Segment> {
        let segment = Segment::create("test", 4096).unwrap();
        segment.allocate(0, 4096).unwrap();
        segment
    }

    #[test]
    fn every_range_is_copied_exactly_and_its_neighbours_stay() {
        const UNTOUCHED: [u8; 4096] = [0xaa; 4096];
        // Odd, so that every place in a word is there all the same.
        const STEP: usize = if cfg!(miri) { 3 } else { 1 };
        let segment = segment();
        for offset in (0..20).chain(4070..4096).step_by(STEP) {
            for length in (0..=(4096 - offset).min(26)).step_by(STEP) {
                segment.store_bytes(0, &UNTOUCHED).unwrap();
                let content: Vec<u8> = (1..=length as u8).collect();
                segment.store_bytes(offset, &content).unwrap();
                let mut whole = [0u8; 4096];
                segment.load_bytes(0, &mut whole).unwrap();
                let mut part = vec![0; length];
                segment.load_bytes(offset, &mut part).unwrap();
                assert_eq!((&whole[offset..offset + length], &part), (&content[..], &content), "{offset}, {length}");
                assert!(whole[..offset] == UNTOUCHED[..offset], "{offset}, {length}");
                assert!(whole[offset + length..] == UNTOUCHED[offset + length..], "{offset}, {length}");
            }
        }
    }

    #[test]
    fn places_outside_are_refused_and_nothing_is_copied() {
        let segment = segment();
        let (mut bytes, mut end) = ([7; 13], [0; 12]);
        for offset in [4084, 4092, 4096, usize::MAX - 2, usize::MAX] {
            assert!(segment.store_bytes(offset, &bytes).is_none(), "{offset}");
            segment.load_bytes(4084, &mut end).unwrap();
            assert!(segment.load_bytes(offset, &mut bytes).is_none(), "{offset}");
            assert_eq!((end, bytes), ([0; 12], [7; 13]), "{offset}");
        }
    }

    #[test]
    fn neighbours_in_one_word_can_be_written_at_once() {
        const ROUNDS: u32 = if cfg!(miri) { 200 } else { 2000 };
        let segment = segment();
        std::thread::scope(|scope| {
            for byte in 0..4usize {
                let segment = &segment;
                scope.spawn(move || {
                    (0..ROUNDS).for_each(|round| segment.store_bytes(byte, &[round as u8 ^ byte as u8]).unwrap())
                });
            }
        });
        let mut bytes = [0; 4];
        segment.load_bytes(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 1, 2, 3].map(|byte| (ROUNDS - 1) as u8 ^ byte));
    }
}
