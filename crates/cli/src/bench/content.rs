//! What touched messages consist of: one value, over and over, and what its bytes add up to.
//!
//! The libraries that DECK is compared with read their messages with this very file, which `bench/peers/rust` includes.
//! It needs nothing but the standard library.

/// Bytes that are added up in one turn of the loop. With few of them 8 KiB took 80 ns longer where the compiler had put
/// a short loop across the end of a line.
const TURN: usize = 128;
const WORD: usize = size_of::<u64>();

/// Adds up words of eight bytes, and single ones at the end: as fast as memory can be read, unlike byte by byte.
#[inline(always)]
pub fn sum(bytes: &[u8]) -> u64 {
    if bytes.len() < TURN { sum_of_words(0, bytes) } else { sum_of_turns(bytes) }
}

fn add(sum: u64, word: &[u8; WORD]) -> u64 {
    sum.wrapping_add(u64::from_ne_bytes(*word))
}

fn sum_of_words(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    rest.iter().fold(words.iter().fold(sum, add), |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

/// On its own, so that the sum of a short message is as short as without it.
#[inline(never)]
fn sum_of_turns(bytes: &[u8]) -> u64 {
    let (turns, rest) = bytes.as_chunks::<TURN>();
    let mut sums = [0; TURN / WORD];
    for turn in turns {
        for (sum, word) in sums.iter_mut().zip(turn.as_chunks().0) {
            *sum = add(*sum, word);
        }
    }
    sum_of_words(sums.into_iter().fold(0, u64::wrapping_add), rest)
}

/// The [`sum`] of `bytes` bytes that are all `value`.
pub fn expected_sum(bytes: usize, value: u8) -> u64 {
    let words = u64::from_ne_bytes([value; 8]).wrapping_mul((bytes / 8) as u64);
    words.wrapping_add(u64::from(value) * (bytes % 8) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts_in_a_sum() {
        for bytes in [0, 1, 7, 8, 62, 64, 127, 128, 1000] {
            let mut content = vec![201; bytes];
            assert_eq!(sum(&content), expected_sum(bytes, 201));
            for at in 0..bytes {
                content[at] += 1;
                assert_ne!(sum(&content), expected_sum(bytes, 201), "byte {at} of {bytes}");
                content[at] -= 1;
            }
        }
    }
}
