//! A result, or a part of one, that one member works out for all, with no meeting for it: whoever asks first in a phase
//! makes it, and whoever asks when it is there takes it. Nobody depends on that: who asks in between does something
//! else and asks again, or makes its own.
//!
//! With more members than cores those who have a core when all have come make it, and all others come later.
//!
//! There is one for all phases. It is written to after all have come to a phase, when they have taken what they wanted
//! of those before.

use deck_sync::atomic::{AtomicU64, Ordering};

/// Bits of the number of a member.
const INDEX_BITS: u32 = 10;

/// Where the members of a group look for a result.
#[derive(Clone, Copy, Debug)]
pub struct Once<'a> {
    /// The last phase for which somebody makes one.
    pub claimed: &'a AtomicU64,
    /// The last phase for which there is one, and who made it.
    pub told: &'a AtomicU64,
    /// Where that lies.
    pub place: &'a AtomicU64,
}

/// What a member does that needs the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It takes that of a member.
    Take {
        /// Which one.
        index: u32,
        /// Where that one says that it lies.
        place: u64,
    },
    /// It makes it and offers it to all.
    Offer,
    /// Another one makes it at this moment. It asks again, or makes its own.
    UnderWay,
}

impl Once<'_> {
    /// What this member does in `phase`, to which all have come. Never blocks.
    pub fn turn(&self, phase: u64) -> Turn {
        // Acquire: pairs with: once/told.
        let told = self.told.load(Ordering::Acquire);
        if told >> INDEX_BITS == phase {
            let index = (told & ((1 << INDEX_BITS) - 1)) as u32;
            return Turn::Take { index, place: self.place.load(Ordering::Relaxed) };
        }
        // Relaxed: that all have read what was there before is known from their coming; what is made is told later.
        let claimed = self.claimed.load(Ordering::Relaxed);
        let is_first = claimed < phase
            && self.claimed.compare_exchange(claimed, phase, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_first { Turn::Offer } else { Turn::UnderWay }
    }

    /// What member `index` has made for `phase`, in which it is its turn to offer it, lies at `place`. Never blocks.
    pub fn offer(&self, phase: u64, index: u32, place: u64) {
        self.place.store(place, Ordering::Relaxed);
        // Release: pairs with: once/told.
        self.told.store(phase << INDEX_BITS | u64::from(index), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::super::board::MEMBERS_MAX;
    use super::*;

    #[test]
    fn the_first_one_makes_it_and_those_who_come_later_take_it() {
        let [claimed, told, place] = [(); 3].map(|()| AtomicU64::new(0));
        let once = Once { claimed: &claimed, told: &told, place: &place };
        let last = MEMBERS_MAX - 1;
        for phase in [1, 2, 7, 1 << 40] {
            assert_eq!(once.turn(phase), Turn::Offer);
            assert_eq!(once.turn(phase), Turn::UnderWay);
            once.offer(phase, last, phase + 5);
            for _ in 0..2 {
                assert_eq!(once.turn(phase), Turn::Take { index: last, place: phase + 5 });
            }
        }
    }
}
