//! Pieces that flow from those who give them to those who take them, with no meeting for each.
//!
//! A call of many pieces begins with a meeting, as every call does. From then on each member counts, in two words of its own,
//! how many pieces it has given and taken. Whoever takes waits for the piece; whoever gives waits only if its *window*, where
//! its last pieces lie, is full of what others have not taken yet. So a giver is as far ahead as its window allows, goes
//! on to the next call when it has given its last piece, and with more members than cores a turn moves a window and not a piece.
//! It is the sliding window of Cerf and Kahn (1974) with counts in shared memory instead of acknowledgements.
//!
//! Whoever gives and takes gives its own piece before it takes those of the others: a caller may put what it takes where its own
//! piece lies, and call again after a deadline.
//!
//! Counts are of all calls and only grow. All members make the same calls, so all know at which number a call begins.

use std::ops::Range;

use deck_sync::atomic::{AtomicU64, Ordering};
use deck_sync::{Event, barrier};

/// How many pieces a member has given and taken.
#[derive(Clone, Copy, Debug)]
pub struct Counts<'a> {
    /// Written by the member alone.
    pub given: &'a AtomicU64,
    /// As `given`.
    pub taken: &'a AtomicU64,
}

/// Who takes what from whom in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// All take what this member gives.
    From(u32),
    /// This member takes what all others give.
    To(u32),
    /// All take what all others give.
    Between,
    /// All take what those before them give.
    Upwards,
}

impl Course {
    fn takes(self, index: u32, from: u32) -> bool {
        index != from
            && match self {
                Course::From(root) => from == root,
                Course::To(root) => index == root,
                Course::Between => true,
                Course::Upwards => from < index,
            }
    }

    /// Those from whom member `index` of `members` takes; itself may be among them.
    #[inline]
    pub fn sources(self, index: u32, members: u32) -> Range<u32> {
        match self {
            Course::From(root) => root..root + 1,
            Course::To(root) if index == root => 0..members,
            Course::To(_) => 0..0,
            Course::Between => 0..members,
            Course::Upwards => 0..index,
        }
    }

    /// The same in 16 bits.
    pub fn code(self) -> u64 {
        match self {
            Course::From(root) => u64::from(root) << 2,
            Course::To(root) => u64::from(root) << 2 | 1,
            Course::Between => 2,
            Course::Upwards => 3,
        }
    }

    /// What a code in the lowest 16 bits stands for.
    pub fn of_code(code: u64) -> Course {
        let root = (code as u16 >> 2).into();
        match code & 3 {
            0 => Course::From(root),
            1 => Course::To(root),
            2 => Course::Between,
            _ => Course::Upwards,
        }
    }

    /// Does member `index` of `members` take anything, be it its own alone?
    pub fn is_taker(self, index: u32) -> bool {
        match self {
            Course::From(root) => index != root,
            Course::To(root) => index == root,
            Course::Between | Course::Upwards => true,
        }
    }

    /// Does member `index` of `members` give anything?
    pub fn is_giver(self, index: u32, members: u32) -> bool {
        match self {
            Course::From(root) => index == root,
            Course::To(root) => index != root,
            Course::Between => true,
            Course::Upwards => index + 1 != members,
        }
    }
}

/// The pieces of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Who takes from whom.
    pub course: Course,
    /// Members of the group.
    pub members: u32,
    /// The number of the first piece.
    pub begin: u64,
    /// One more than that of the last.
    pub end: u64,
    /// How many pieces a window holds.
    pub slots: u64,
    /// Where pieces before this number lie otherwise than those of this call: they have to be taken before a window is used.
    pub floor: u64,
}

impl Flow {
    /// Member `index` has its next piece to take. `counts` are those of each member.
    #[inline]
    pub fn can_take<'a>(&self, index: u32, counts: impl Fn(u32) -> Counts<'a>) -> bool {
        // Relaxed: its own words, or those of somebody of whom only a guess is wanted.
        let number = counts(index).taken.load(Ordering::Relaxed);
        let is_its_own_given =
            !self.course.is_giver(index, self.members) || counts(index).given.load(Ordering::Relaxed) > number;
        number < self.end
            && self.course.is_taker(index)
            && is_its_own_given
            && (0..self.members)
                .filter(|from| self.course.takes(index, *from))
                // Acquire: pairs with: flow/given.
                .all(|from| counts(from).given.load(Ordering::Acquire) > number)
    }

    /// Member `index` has a piece to give and room in its window.
    #[inline]
    pub fn can_give<'a>(&self, index: u32, counts: impl Fn(u32) -> Counts<'a>) -> bool {
        // Relaxed: as above.
        let number = counts(index).given.load(Ordering::Relaxed);
        let needed = number.saturating_add(1).saturating_sub(self.slots).max(self.floor);
        number < self.end
            && self.course.is_giver(index, self.members)
            && (0..self.members)
                .filter(|to| *to != index)
                // Acquire: pairs with: flow/taken.
                .all(|to| counts(to).taken.load(Ordering::Acquire) >= needed)
    }

    /// What those who look on are told: where it begins; how many pieces, slots, who takes from whom.
    pub fn facts(&self) -> [u64; 2] {
        let pieces = (self.end - self.begin).min(u64::from(u32::MAX));
        [self.begin << 1 | u64::from(self.floor > 0), pieces << 32 | self.slots << 16 | self.course.code()]
    }

    /// The flow of which these are told; `None` if nothing flows.
    pub fn of_facts([begin, how]: [u64; 2], members: u32) -> Option<Flow> {
        let (course, pieces, slots, is_new) = (Course::of_code(how), how >> 32, how >> 16 & 0xffff, begin & 1 != 0);
        let begin = begin >> 1;
        let floor = if is_new { begin } else { 0 };
        (pieces > 0).then_some(Flow { course, members, begin, end: begin + pieces, slots, floor })
    }

    /// Nothing is missing for member `index` to go on: if it does not, it is absent.
    pub fn can_go_on<'a>(&self, index: u32, counts: impl Fn(u32) -> Counts<'a> + Copy) -> bool {
        self.can_take(index, counts) || self.can_give(index, counts)
    }

    /// Member `index` has done its part.
    pub fn is_over<'a>(&self, index: u32, counts: impl Fn(u32) -> Counts<'a>) -> bool {
        let Counts { given, taken } = counts(index);
        let has_given = given.load(Ordering::Relaxed) >= self.end || !self.course.is_giver(index, self.members);
        has_given && taken.load(Ordering::Relaxed) >= self.end
    }
}

impl Counts<'_> {
    /// The member has given all pieces before `number`, and rings if somebody sleeps. Never blocks.
    #[inline]
    pub fn give(&self, number: u64, changed: &Event) {
        // Release: pairs with: flow/given.
        self.given.store(number, Ordering::Release);
        ring(changed);
    }

    /// The member has taken all pieces before `number`, or needs none of them, and rings if somebody sleeps. Never blocks.
    #[inline]
    pub fn take(&self, number: u64, changed: &Event) {
        // Release: pairs with: flow/taken.
        self.taken.store(number, Ordering::Release);
        ring(changed);
    }
}

/// Rings if somebody sleeps: something was written that a member may wait for. Never blocks.
#[inline]
pub fn ring(changed: &Event) {
    // Light: pairs with: wait/sleep.
    barrier::light();
    if changed.has_sleepers() {
        changed.notify();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn those_who_look_on_see_the_same_flow() {
        for course in [Course::From(0), Course::From(1023), Course::To(7), Course::Between, Course::Upwards] {
            for (begin, floor) in [(0, 0), (1 << 40, 0), (77, 77)] {
                let flow = Flow { course, members: 1024, begin, end: begin + 300, slots: 128, floor };
                assert_eq!(Flow::of_facts(flow.facts(), 1024), Some(flow));
            }
        }
        assert_eq!(Flow::of_facts([0, 0], 2), None);
    }

    /// Member 0's window is full of what member 1 has not taken, and member 1 has given one piece more.
    #[test]
    fn a_member_that_has_not_given_its_own_piece_does_not_take_that_of_the_other() {
        let counts = [[32, 32], [33, 0]].map(|counts| counts.map(AtomicU64::new));
        let of = |index: u32| {
            let [given, taken] = &counts[index as usize];
            Counts { given, taken }
        };
        let flow = Flow { course: Course::Between, members: 2, begin: 0, end: 64, slots: 32, floor: 0 };
        assert!(!flow.can_go_on(0, of) && flow.can_go_on(1, of));
        // Where it gives nothing, there is nothing to wait for.
        assert!(Flow { course: Course::To(0), ..flow }.can_take(0, of));
    }
}
