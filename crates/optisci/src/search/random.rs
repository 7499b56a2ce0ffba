//! Random numbers that are the same on every machine for the same seed.
//!
//! Sources: D. Blackman and S. Vigna, "Scrambled Linear Pseudorandom Number Generators", 2021 (xoshiro256++);
//! G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", 2014 (SplitMix64, for seeding).

/// A generator.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// A generator for one seed.
    pub fn new(seed: u64) -> Random {
        let mut x = seed;
        let state = std::array::from_fn(|_| {
            x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        });
        Random { state }
    }

    /// The generator of one of several independent searches that share a seed.
    pub fn stream(seed: u64, index: u64) -> Random {
        Random::new(seed ^ (index.wrapping_add(1)).wrapping_mul(0xD1B5_4A32_D192_ED03))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `end`, which must not be 0.
    #[inline]
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }

    /// A number from 0 up to, not including, 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Puts `items` in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, self.below(end));
        }
    }
}
