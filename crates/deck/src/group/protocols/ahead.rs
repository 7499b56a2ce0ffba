//! Members that are ahead of others: who may say what when, where each call ends when the member's own part is done.
//!
//! A member says something in each phase, in order, and waits only for those from whom it takes. Before it says
//! something in phase *n* all must have come to phase *n* - [`Ahead`]: so nobody is further ahead than that. It has
//! twice as many lines as that, one for each phase in turn, so that what was said in a phase stays until all have come
//! as many phases further: time enough for each member to compare what all said in it, whomever it had to wait for.
//! With one phase and two lines that is the meeting of all in every phase. It is the sliding window of Cerf and Kahn
//! (1974) with as many receivers as members.

use std::ops::Range;

use deck_sync::Event;
use deck_sync::atomic::{AtomicU64, Ordering};

use super::course::Course;
use super::flow::ring;

/// By how many phases a member may be ahead of another: a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    phases: u64,
    /// The number of the last line.
    mask: u64,
}

impl Ahead {
    /// All meet in every phase.
    pub const NONE: Ahead = Ahead { phases: 1, mask: 1 };
    /// The most.
    pub const MOST: u64 = 64;

    /// By `phases`; `None` if that cannot be.
    pub const fn by(phases: u64) -> Option<Ahead> {
        let is_possible = phases.is_power_of_two() && phases <= Ahead::MOST;
        if is_possible { Some(Ahead { phases, mask: 2 * phases - 1 }) } else { None }
    }

    /// By how many phases.
    pub fn phases(self) -> u64 {
        self.phases
    }

    /// Members meet in every phase.
    #[inline]
    pub fn is_none(self) -> bool {
        self.phases == 1
    }

    /// How many lines a member has.
    #[inline]
    pub fn lines(self) -> usize {
        2 * self.phases as usize
    }

    /// The line of `phase`.
    #[inline]
    pub fn line(self, phase: u64) -> usize {
        (phase & self.mask) as usize
    }

    /// To this phase all must have come before anything is said in `phase`; what all said in it must have been
    /// compared.
    #[inline]
    pub fn floor(self, phase: u64) -> u64 {
        phase.saturating_sub(self.phases)
    }
}

/// What a member waits for: that certain others come to a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The phase.
    pub phase: u64,
    /// Who takes from whom in it.
    pub course: Course,
}

impl Awaited {
    /// All, in `phase`.
    pub fn all(phase: u64) -> Awaited {
        Awaited { phase, course: Course::Between }
    }

    /// They have come, as member `me` has: all that they wrote before is visible then. `told` is where a member tells
    /// its phases, `looked` is 0 at first and remembers how far the looks have come.
    #[inline]
    pub fn have_come<'a>(
        &self,
        me: u32,
        sources: Range<u32>,
        told: impl Fn(u32, u64) -> &'a AtomicU64,
        looked: &mut u64,
    ) -> bool {
        for source in sources.start.max(*looked as u32)..sources.end {
            // Its own line is in the cache of whoever has read it last, and would have to be fetched from there.
            // Acquire: pairs with: ahead/told.
            if source != me && told(source, self.phase).load(Ordering::Acquire) < self.phase {
                return false;
            }
            *looked = u64::from(source) + 1;
        }
        true
    }

    /// What those who look on are told beside the phase.
    pub fn facts(&self) -> [u64; 2] {
        [1, self.course.code()]
    }

    /// What these facts tell of a wait for `phase`.
    pub fn of_facts(phase: u64, [is_told, course]: [u64; 2]) -> Awaited {
        if is_told == 0 { Awaited::all(phase) } else { Awaited { phase, course: Course::of_code(course) } }
    }
}

/// The caller has said something in `phase`, and tells so. Never blocks.
#[inline]
pub fn tell(told: &AtomicU64, phase: u64, changed: &Event) {
    // Release: pairs with: ahead/told.
    told.store(phase, Ordering::Release);
    ring(changed);
}
