//! Where a thread is called that gave its core away while it waits.

/// A core, and a place there that one node has for itself.
///
/// With more threads than cores, whoever waits gives its core away, and comes back when the others had it: maybe for
/// nothing, while the one whose message has arrived is still further back in the kernel's queue. So a thread says where
/// it is called ([`crate::Waiting::is_called_at`]); whoever has something for it calls it there
/// ([`crate::Crowd::call`]), and those who wait on that core give it on at once. As long as nobody is called, giving it
/// on would bring nobody anything.
///
/// All of it is advice: a call that is missed, or that nobody answers, costs time only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The core.
    pub core: u32,
    /// Which of the places there.
    pub place: u16,
}

/// In the lowest bits of the word of a spot, so that it is neither 0 nor 1.
const MARK: u64 = 2;

impl Spot {
    /// One word for it, 2 or more.
    pub fn to_word(self) -> u64 {
        u64::from(self.core) << 32 | u64::from(self.place) << 8 | MARK
    }

    /// The spot of a word that another process wrote; any word has one.
    pub fn of_word(word: u64) -> Spot {
        Spot { core: (word >> 32) as u32, place: (word >> 8) as u16 }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_spot_is_a_word_that_is_not_0_or_1() {
        for spot in [Spot { core: 0, place: 0 }, Spot { core: 3, place: 255 }, Spot { core: u32::MAX, place: u16::MAX }]
        {
            assert!(spot.to_word() > 1);
            assert_eq!(Spot::of_word(spot.to_word()), spot);
        }
    }
}
