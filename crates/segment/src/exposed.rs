//! Bytes that anybody may be writing at this moment, copied word by word.
//!
//! The content of a shared segment is the programs' own: nothing but their locks keeps two threads from meeting in it. If they
//! forget the lock, they shall read mixed content and no worse, so every access here is an atomic one of a whole word;
//! relaxed, because it is the lock that orders. On x86-64 and aarch64 these are plain loads and stores of 8 bytes.

use deck_sync::atomic::{AtomicU64, Ordering};

use crate::Segment;

const WORD: usize = 8;

/// A piece of a range that lies in one word: which word, from which byte of it, and where in the range.
struct Piece {
    word: usize,
    from: usize,
    at: usize,
    bytes: usize,
}

fn pieces(offset: usize, bytes: usize) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = (offset + at) % WORD;
        let piece = Piece { word: (offset + at) / WORD, from, at, bytes: (WORD - from).min(bytes - at) };
        at += piece.bytes;
        (piece.bytes > 0).then_some(piece)
    })
}

impl Segment {
    /// The word that begins at byte `8 * index`, of a range that was found to lie inside.
    fn exposed(&self, index: usize) -> Option<&AtomicU64> {
        let word = self.at(index * WORD, WORD)?;
        // SAFETY: inside the live mapping, which begins at a page, so it is aligned; any bit pattern is a valid AtomicU64;
        // the reference lives no longer than `self`, which keeps the mapping.
        Some(unsafe { word.cast::<AtomicU64>().as_ref() })
    }

    /// Copies bytes out, whoever writes them meanwhile; `None`, and nothing is copied, unless they lie inside. Never blocks.
    #[must_use]
    pub fn load_bytes(&self, offset: usize, into: &mut [u8]) -> Option<()> {
        self.at(offset, into.len())?;
        for Piece { word, from, at, bytes } in pieces(offset, into.len()) {
            // A segment is whole pages: what begins inside has its whole word inside.
            let value = self.exposed(word)?.load(Ordering::Relaxed).to_ne_bytes();
            into[at..at + bytes].copy_from_slice(&value[from..from + bytes]);
        }
        Some(())
    }

    /// Copies bytes in, whoever reads or writes them meanwhile; `None`, and nothing is copied, unless they lie inside. Bytes
    /// beside them stay as they are. Never blocks.
    #[must_use]
    pub fn store_bytes(&self, offset: usize, bytes: &[u8]) -> Option<()> {
        self.at(offset, bytes.len())?;
        for Piece { word, from, at, bytes: count } in pieces(offset, bytes.len()) {
            let place = self.exposed(word)?;
            let new = &bytes[at..at + count];
            match <[u8; WORD]>::try_from(new) {
                Ok(whole) => place.store(u64::from_ne_bytes(whole), Ordering::Relaxed),
                // Somebody may be writing the other bytes of this word.
                Err(_) => drop(place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
                    let mut value = now.to_ne_bytes();
                    value[from..from + count].copy_from_slice(new);
                    Some(u64::from_ne_bytes(value))
                })),
            }
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
        let segment = segment();
        for offset in (0..20).chain(4070..4096) {
            for length in 0..=(4096 - offset).min(26) {
                segment.store_bytes(0, &[0xaa; 4096]).unwrap();
                let content: Vec<u8> = (1..=length as u8).collect();
                segment.store_bytes(offset, &content).unwrap();
                let mut whole = [0u8; 4096];
                segment.load_bytes(0, &mut whole).unwrap();
                let mut part = vec![0; length];
                segment.load_bytes(offset, &mut part).unwrap();
                assert_eq!((&whole[offset..offset + length], &part), (&content[..], &content), "{offset}, {length}");
                let others = whole[..offset].iter().chain(&whole[offset + length..]);
                assert!(others.into_iter().all(|byte| *byte == 0xaa), "{offset}, {length}");
            }
        }
    }

    #[test]
    fn places_outside_are_refused() {
        let segment = segment();
        let mut bytes = [0; 5];
        for offset in [4092, 4096, usize::MAX - 2, usize::MAX] {
            assert!(segment.load_bytes(offset, &mut bytes).is_none() && segment.store_bytes(offset, &bytes).is_none());
        }
    }

    #[test]
    fn neighbours_in_one_word_can_be_written_at_once() {
        let segment = segment();
        std::thread::scope(|scope| {
            for byte in 0..4usize {
                let segment = &segment;
                scope.spawn(move || {
                    (0..2000u32).for_each(|round| segment.store_bytes(byte, &[round as u8 ^ byte as u8]).unwrap())
                });
            }
        });
        let mut bytes = [0; 4];
        segment.load_bytes(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 1, 2, 3].map(|byte| 1999u32 as u8 ^ byte));
    }
}
