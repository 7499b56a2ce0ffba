//! Random numbers that can be repeated.

use std::time::{SystemTime, UNIX_EPOCH};

/// The variable that sets the seed of a test.
pub const SEED_VARIABLE: &str = "DECK_TEST_SEED";

/// A sequence of random numbers that its seed decides (SplitMix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// The seed that `DECK_TEST_SEED` sets, or a fresh one from the clock.
    ///
    /// # Panics
    /// If the variable is no number.
    pub fn seed() -> u64 {
        match std::env::var(SEED_VARIABLE) {
            Ok(text) => text.trim().parse().unwrap_or_else(|_| panic!("{SEED_VARIABLE}={text} is no number")),
            Err(_) => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                mix(since.as_nanos() as u64 ^ u64::from(std::process::id())) >> 32
            }
        }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number from 0 to `limit - 1`; 0 for a limit of 0.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }
}

/// Spreads the bits of a word over all of it.
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_sequence_and_limits_hold() {
        let (mut one, mut other) = (Chance::new(7), Chance::new(7));
        for limit in 1..200 {
            let number = one.below(limit);
            assert!(number < limit);
            assert_eq!(number, other.below(limit));
        }
        assert_ne!(Chance::new(1).bits(), Chance::new(2).bits());
        assert_eq!(Chance::new(1).below(0), 0);
    }
}
