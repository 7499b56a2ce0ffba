//! What touched messages consist of: one value, over and over, and what its bytes add up to.
//!
//! The libraries that DECK is compared with read their messages with this very file, which `bench/peers/rust` includes. It needs
//! nothing but the standard library.

/// Adds up words of eight bytes, and single ones at the end: as fast as memory can be read, unlike byte by byte.
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
    rest.iter().fold(words, |sum, byte| sum.wrapping_add(u64::from(*byte)))
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
        for bytes in [0, 1, 7, 8, 62, 64, 1000] {
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
