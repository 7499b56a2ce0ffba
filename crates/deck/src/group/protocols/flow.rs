//! Pieces that flow from those who give them to those who take them, with no meeting for each.
//!
//! A call of many pieces begins with a meeting, as every call does. From then on each member counts, in two words of
//! its own, how many pieces it has given and taken. Whoever takes waits for the piece; whoever gives waits only if its
//! *window*, where its last pieces lie, is full of what others have not taken yet. So a giver is as far ahead as its
//! window allows, goes on to the next call when it has given its last piece, and with more members than cores a turn
//! moves a window and not a piece. It is the sliding window of Cerf and Kahn (1974) with counts in shared memory
//! instead of acknowledgements.
//!
//! Whoever gives and takes gives its own piece before it takes those of the others: a caller may put what it takes
//! where its own piece lies, and call again after a deadline.
//!
//! Where pieces go from *team* to team (`relay`), each member makes a share of each piece: it goes on with what members
//! of the team before it have made, as soon as they have, and its count of given pieces tells the next ones that it is
//! there, and those before that it is through with theirs. Whoever wants the result takes it from all of the last team,
//! or in a scan of its own. Nobody has done its part before the others of its team are through with what it gives.
//!
//! What is read where it lies is given as a whole at once. Its giver stays until those who take from it have read it;
//! where all that is given is so read, whoever takes reads *in turn* what one gives after what another gives, beginning
//! with the index after its own, and its count tells how far it is. So a giver goes on when it has been read, whoever
//! else is yet to be, or some turns later where there are fewer pieces than turns. Before all have come, a member takes
//! from those that have, in whatever order they come (`sources`).
//!
//! Sleepers all sleep on one event. So it is rung only where somebody may wait for just that piece or that room: with 8
//! members on two cores, gathers of 1 MiB in pieces took 0.87 of the time that they took where each piece woke all of
//! them.
//!
//! Counts are of all calls and only grow. All members make the same calls, so all know at which number a call begins.

use std::ops::Range;
use std::sync::Arc;

use deck_sync::atomic::{AtomicU64, Ordering};
use deck_sync::{Event, barrier};

use super::course::Course;
use super::teams::Teams;

/// Beside the code of a course: pieces go from team to team.
const BY_TEAMS: u64 = 1 << 15;

/// How many pieces a member has given and taken.
#[derive(Clone, Copy, Debug)]
pub struct Counts<'a> {
    /// Written by the member alone.
    pub given: &'a AtomicU64,
    /// As `given`.
    pub taken: &'a AtomicU64,
}

/// The pieces of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Where pieces before this number lie otherwise than those of this call: they have to be taken before a window is
    /// used.
    pub floor: u64,
    /// The teams from one to the next of which pieces go, if they do.
    pub teams: Option<Arc<Teams>>,
    /// What this member gives is read where it lies. Not told to those who look on.
    pub lends: bool,
    /// All that is given is read where it lies, in turn. Not told, either.
    pub in_turn: bool,
}

impl Flow {
    /// From how many others a member takes that takes in turn.
    pub fn turns(&self) -> u32 {
        if let Course::From(_) = self.course { 1 } else { self.members - 1 }
    }

    /// From whom member `index` takes in this turn, counted from 0.
    pub fn source_at(&self, index: u32, turn: u32) -> u32 {
        match self.course {
            Course::From(root) => root,
            _ => (index + 1 + turn) % self.members,
        }
    }

    /// In which turn member `taker` takes from member `giver`.
    pub fn turn_of(&self, taker: u32, giver: u32) -> u32 {
        match self.course {
            Course::From(_) => 0,
            _ => (giver + self.members - taker - 1) % self.members,
        }
    }

    /// The count of a member that has taken so many turns: the pieces of the call, shared out among them.
    pub fn count_after(&self, turns: u32) -> u64 {
        self.begin + (self.end - self.begin) * u64::from(turns) / u64::from(self.turns())
    }

    /// The least count of member `taker` that tells that it has read what member `giver` gives.
    fn count_when_read(&self, taker: u32, giver: u32) -> u64 {
        if self.in_turn { self.count_after(self.turn_of(taker, giver)) + 1 } else { self.end }
    }

    /// Nobody needs any more what member `index` lends.
    fn is_given_back<'a>(&self, index: u32, counts: impl Fn(u32) -> Counts<'a>) -> bool {
        // Acquire: pairs with: flow/taken.
        let has_read = |taker| counts(taker).taken.load(Ordering::Acquire) >= self.count_when_read(taker, index);
        !self.lends || self.course.takers(index, self.members).filter(|taker| *taker != index).all(has_read)
    }

    /// Those from whom member `index` takes finished pieces; itself may be among them.
    #[inline]
    pub fn sources(&self, index: u32) -> Range<u32> {
        match &self.teams {
            None => self.course.sources(index, self.members),
            Some(_) if !self.course.is_taker(index) => 0..0,
            Some(teams) if self.course == Course::Upwards => teams.members(teams.of_member(index)),
            Some(teams) => teams.members(teams.count() - 1),
        }
    }

    /// Those who have to take from member `index` before it has room; itself may be among them.
    fn hold_up(&self, index: u32) -> Range<u32> {
        // Others may have taken what lay there before, in other calls.
        let Some(teams) = &self.teams else { return 0..self.members };
        match self.course {
            Course::Upwards => teams.members(teams.of_member(index)),
            _ if teams.of_member(index) + 1 < teams.count() => 0..0,
            Course::To(root) => root..root + 1,
            _ => 0..self.members,
        }
    }

    #[inline]
    fn is_giver(&self, index: u32) -> bool {
        self.teams.is_some() || self.course.is_giver(index, self.members)
    }

    /// Member `index` has its next piece to take. `counts` are those of each member.
    #[inline]
    pub fn can_take<'a>(&self, index: u32, counts: impl Fn(u32) -> Counts<'a>) -> bool {
        // Relaxed: its own words, or those of somebody of whom only a guess is wanted.
        let number = counts(index).taken.load(Ordering::Relaxed);
        let is_its_own_given = !self.is_giver(index) || counts(index).given.load(Ordering::Relaxed) > number;
        number < self.end
            && self.course.is_taker(index)
            && is_its_own_given
            && (self.sources(index).filter(|from| *from != index))
                // Acquire: pairs with: flow/given.
                .all(|from| counts(from).given.load(Ordering::Acquire) > number)
    }

    /// Member `index` has a piece to give and room in its window.
    #[inline]
    pub fn can_give<'a>(&self, index: u32, counts: impl Fn(u32) -> Counts<'a>) -> bool {
        // Relaxed: as above.
        let number = counts(index).given.load(Ordering::Relaxed);
        let needed = number.saturating_add(1).saturating_sub(self.slots).max(self.floor);
        if number >= self.end || !self.is_giver(index) {
            return false;
        }
        let [before, after] = self.teams.as_ref().map_or([0..0, 0..0], |teams| teams.beside(index));
        // Acquire: pairs with: flow/given.
        before.into_iter().all(|from| counts(from).given.load(Ordering::Acquire) > number)
            // Acquire: pairs with: flow/given.
            && after.into_iter().all(|to| counts(to).given.load(Ordering::Acquire) >= needed)
            && (self.hold_up(index).filter(|to| *to != index))
                // Acquire: pairs with: flow/taken.
                .all(|to| counts(to).taken.load(Ordering::Acquire) >= needed)
    }

    /// What those who look on are told: where it begins; how many pieces, slots, who takes from whom.
    pub fn facts(&self) -> [u64; 2] {
        let pieces = (self.end - self.begin).min(u64::from(u32::MAX));
        let by_teams = if self.teams.is_some() { BY_TEAMS } else { 0 };
        let how = pieces << 32 | self.slots << 16 | by_teams | self.course.code();
        [self.begin << 1 | u64::from(self.floor > 0), how]
    }

    /// The flow of which these are told, among members that stand in these teams; `None` if nothing flows.
    pub fn of_facts([begin, how]: [u64; 2], members: u32, teams: impl FnOnce() -> Option<Teams>) -> Option<Flow> {
        let (pieces, slots, is_new) = (how >> 32, how >> 16 & 0xffff, begin & 1 != 0);
        if pieces == 0 {
            return None;
        }
        let teams = if how & BY_TEAMS != 0 { Some(Arc::new(teams()?)) } else { None };
        let (course, begin) = (Course::of_code(how & (BY_TEAMS - 1)), begin >> 1);
        if let Course::From(root) | Course::To(root) = course
            && root >= members
        {
            return None;
        }
        let (end, floor) = (begin.saturating_add(pieces), if is_new { begin } else { 0 });
        Some(Flow { course, members, begin, end, slots, floor, teams, lends: false, in_turn: false })
    }

    /// Member `index` need not wait any longer: it can go on, or has done its part by now.
    #[inline]
    pub fn is_ready<'a>(&self, index: u32, counts: impl Fn(u32) -> Counts<'a> + Copy) -> bool {
        self.can_go_on(index, counts) || ((self.teams.is_some() || self.lends) && self.has_ended(index, counts))
    }

    /// Nothing is missing for member `index` to go on: if it does not, it is absent.
    pub fn can_go_on<'a>(&self, index: u32, counts: impl Fn(u32) -> Counts<'a> + Copy) -> bool {
        self.can_take(index, counts) || self.can_give(index, counts)
    }

    /// Others cannot do their part before member `index` has gone on. Where pieces go from team to team it may have
    /// done all for them before it has done its own part.
    pub fn is_needed<'a>(&self, index: u32, counts: impl Fn(u32) -> Counts<'a>) -> bool {
        if self.teams.is_none() {
            return !self.is_over(index, counts);
        }
        let Counts { given, taken } = counts(index);
        // Acquire: pairs with: flow/given.
        let has_given = given.load(Ordering::Acquire) >= self.end;
        // Acquire: pairs with: flow/taken.
        let leaves_room = || taken.load(Ordering::Acquire) >= self.end.saturating_sub(self.slots);
        !has_given || (self.course.is_taker(index) && !leaves_room())
    }

    /// Member `index` has done its part, and the others have read what it lends.
    pub fn has_ended<'a>(&self, index: u32, counts: impl Fn(u32) -> Counts<'a> + Copy) -> bool {
        self.is_over(index, counts) && self.is_given_back(index, counts)
    }

    /// Member `index` has done its part.
    pub fn is_over<'a>(&self, index: u32, counts: impl Fn(u32) -> Counts<'a>) -> bool {
        // Acquire: pairs with: flow/given.
        let has_given = |index: u32| counts(index).given.load(Ordering::Acquire) >= self.end || !self.is_giver(index);
        let is_read = || {
            let team = self.teams.as_ref().map_or(0..0, |teams| teams.members(teams.of_member(index)));
            team.into_iter().all(has_given)
        };
        // Relaxed: its own, or a guess. Whoever takes nothing has nothing to do but to give.
        let has_taken = !self.course.is_taker(index) || counts(index).taken.load(Ordering::Relaxed) >= self.end;
        has_given(index) && has_taken && is_read()
    }

    /// Member `index` has given all pieces before `number`, and rings if somebody sleeps who may have waited for that.
    /// Never blocks.
    #[inline]
    pub fn give<'a>(&self, index: u32, number: u64, counts: impl Fn(u32) -> Counts<'a> + Copy, changed: &Event) {
        // Relaxed: its own.
        let before = counts(index).given.load(Ordering::Relaxed);
        // Release: pairs with: flow/given.
        counts(index).given.store(number, Ordering::Release);
        ring_if(changed, || {
            // Whoever takes before all have come waits for the last one.
            number >= self.end
                || self.teams.is_some()
                || self.course.takers(index, self.members).any(|to| {
                    // Relaxed: the fence of who sleeps orders it: pairs with: flow/rings.
                    to != index && (before..number).contains(&counts(to).taken.load(Ordering::Relaxed))
                })
        });
    }

    /// Member `index` has taken all pieces before `number`, or needs none of them, and rings if somebody sleeps who may
    /// have waited for that. Never blocks.
    #[inline]
    pub fn take<'a>(&self, index: u32, number: u64, counts: impl Fn(u32) -> Counts<'a> + Copy, changed: &Event) {
        // Relaxed: its own.
        let before = counts(index).taken.load(Ordering::Relaxed);
        // Release: pairs with: flow/taken.
        counts(index).taken.store(number, Ordering::Release);
        ring_if(changed, || {
            // Whoever lends, or has a new window, waits for more than room for one piece; and others may wait in the
            // next call, whoever takes in that.
            number >= self.end
                || self.in_turn
                || self.teams.is_some()
                || (0..self.members).any(|from| {
                    // Relaxed: the fence of who sleeps orders it: pairs with: flow/rings.
                    let given = counts(from).given.load(Ordering::Relaxed);
                    from != index && (before..number).contains(&given.saturating_sub(self.slots))
                })
        });
    }
}

/// As [`ring`], where the caller can tell whether anybody may wait for what was written. What it looks at was written
/// by that one before it went to sleep, with a fence that all others pass.
#[inline]
fn ring_if(changed: &Event, is_awaited: impl FnOnce() -> bool) {
    // Light: pairs with: wait/sleep, flow/rings.
    barrier::light();
    if changed.has_sleepers() && is_awaited() {
        changed.notify();
    }
}

/// Rings if somebody sleeps: something was written that a member may wait for. Never blocks.
#[inline]
pub fn ring(changed: &Event) {
    ring_if(changed, || true);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::iter;

    use super::*;

    const NONE: Flow = Flow {
        course: Course::Between,
        members: 0,
        begin: 0,
        end: 0,
        slots: 0,
        floor: 0,
        teams: None,
        lends: false,
        in_turn: false,
    };

    #[test]
    fn those_who_look_on_see_the_same_flow() {
        for course in [Course::From(0), Course::From(1023), Course::To(7), Course::Between, Course::Upwards] {
            for (begin, floor) in [(0, 0), (1 << 40, 0), (77, 77)] {
                for teams in [None, Some(Teams::at(vec![0..1000, 1000..1024], 0))] {
                    let of = || teams.clone();
                    let arc = teams.clone().map(Arc::new);
                    let flow =
                        Flow { course, members: 1024, begin, end: begin + 300, slots: 128, floor, teams: arc, ..NONE };
                    assert_eq!(Flow::of_facts(flow.facts(), 1024, of), Some(flow));
                }
            }
        }
        assert_eq!(Flow::of_facts([0, 0], 2, || None), None);
    }

    /// Member 0's window is full of what member 1 has not taken, and member 1 has given one piece more.
    #[test]
    fn a_member_that_has_not_given_its_own_piece_does_not_take_that_of_the_other() {
        let counts = [[32, 32], [33, 0]].map(|counts| counts.map(AtomicU64::new));
        let of = |index: u32| {
            let [given, taken] = &counts[index as usize];
            Counts { given, taken }
        };
        let flow = Flow { course: Course::Between, members: 2, begin: 0, end: 64, slots: 32, ..NONE };
        assert!(!flow.can_go_on(0, of) && flow.can_go_on(1, of));
        // Where it gives nothing, there is nothing to wait for.
        assert!(Flow { course: Course::To(0), ..flow }.can_take(0, of));
    }

    /// Members that each go on whenever they can, in an order that `next` tells, with windows in which the last pieces
    /// lie.
    fn pass_on(ranges: &[Range<u32>], course: Course, slots: u64, mut next: impl FnMut() -> u32) {
        const BEGIN: u64 = 7;
        let teams = Teams::at(ranges.to_vec(), 0);
        let members = ranges.iter().map(Range::len).sum::<usize>() as u32;
        let flow = Flow { course, members, begin: BEGIN, end: BEGIN + 5, slots, teams: Some(Arc::new(teams)), ..NONE };
        let teams = flow.teams.as_ref().unwrap();
        let counts: Vec<[AtomicU64; 2]> = (0..members).map(|_| [BEGIN, BEGIN].map(AtomicU64::new)).collect();
        let of = |index: u32| {
            let [given, taken] = &counts[index as usize];
            Counts { given, taken }
        };
        let mut windows = vec![vec![0; slots as usize]; members as usize];
        let (mut steps, changed) = (0, Event::new());
        while !(0..members).all(|index| flow.is_over(index, of)) {
            let index = next() % members;
            let lies = |windows: &[Vec<u64>], from: Range<u32>, number: u64| {
                from.filter(|from| *from != index)
                    .all(|from| windows[from as usize][(number % slots) as usize] == number)
            };
            let what = format!("{ranges:?}, {course:?}, {slots} slots: member {index}");
            let Counts { given, taken } = of(index);
            if flow.can_give(index, of) {
                let number = given.load(Ordering::Relaxed);
                assert!(lies(&windows, teams.beside(index)[0].clone(), number), "{what} goes on with nothing");
                windows[index as usize][(number % slots) as usize] = number;
                flow.give(index, number + 1, of, &changed);
                if number + 1 == flow.end && !course.is_taker(index) {
                    flow.take(index, flow.end, of, &changed);
                }
            } else if flow.can_take(index, of) {
                let number = taken.load(Ordering::Relaxed);
                assert!(lies(&windows, flow.sources(index), number), "{what} takes nothing");
                flow.take(index, number + 1, of, &changed);
            }
            steps += 1;
            assert!(steps < 100_000, "{what} waits, and so do all others");
        }
    }

    #[test]
    fn pieces_go_from_team_to_team_whole_and_in_whatever_order_members_go_on() {
        let mut seed = 1u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 16
        };
        for ends in [&[4][..], &[2, 4], &[2, 5, 6], &[1, 4]] {
            let begins = iter::once(0).chain(ends.iter().copied());
            let ranges: Vec<_> = begins.zip(ends).map(|(begin, end)| begin..*end).collect();
            let last = ranges[ranges.len() - 1].end - 1;
            for course in [Course::To(0), Course::To(last), Course::Between, Course::Upwards] {
                (1..=6).for_each(|slots| (0..20).for_each(|_| pass_on(&ranges, course, slots, &mut next)));
            }
        }
    }

    #[test]
    fn nobody_ends_a_call_while_others_of_its_team_need_its_array() {
        let counts = [[64, 64], [63, 64], [64, 64]].map(|counts| counts.map(AtomicU64::new));
        let of = |index: u32| {
            let [given, taken] = &counts[index as usize];
            Counts { given, taken }
        };
        let teams = Some(Arc::new(Teams::at(vec![0..2, 2..3], 0)));
        let flow = Flow { course: Course::Between, members: 3, begin: 0, end: 64, slots: 32, teams, ..NONE };
        assert_eq!([0, 1, 2].map(|index| flow.is_over(index, of)), [false, false, true]);
        assert_eq!([0, 1].map(|index| flow.is_ready(index, of)), [false, true]);
        assert_eq!([0, 1, 2].map(|index| flow.is_needed(index, of)), [false, true, false]);
        let [given, taken] = &counts[1];
        given.store(64, Ordering::Relaxed);
        assert_eq!([31, 32].map(|count| taken.swap(count, Ordering::Relaxed)), [64, 31]);
        assert!(!flow.is_needed(1, of));
        taken.store(31, Ordering::Relaxed);
        assert!(flow.is_needed(1, of), "its result has to be taken before there is room for the last ones");
    }

    #[test]
    fn a_giver_goes_on_when_it_has_been_read_whoever_is_yet_to_be() {
        const BEGIN: u64 = 40;
        for members in [2, 3, 8, 1000] {
            for pieces in [1, 2, 7, 64] {
                let flow = Flow { course: Course::To(1), members, begin: BEGIN, end: BEGIN + pieces, slots: 4, ..NONE };
                let flow = Flow { lends: true, in_turn: true, ..flow };
                let taken = AtomicU64::new(0);
                let (given, none) = (AtomicU64::new(flow.end), AtomicU64::new(flow.end));
                let of = |index| Counts { given: &given, taken: if index == 1 { &taken } else { &none } };
                for turns in 0..members {
                    taken.store(flow.count_after(turns), Ordering::Relaxed);
                    let read: Vec<u32> = (0..turns).map(|turn| flow.source_at(1, turn)).collect();
                    for giver in (0..members).filter(|index| *index != 1) {
                        let has_ended = flow.has_ended(giver, of);
                        let what = format!("{pieces} pieces, {members} members, {turns} read: {giver}");
                        assert!(read.contains(&giver) || !has_ended, "{what} goes on before it has been read");
                        assert!(turns + 1 < members || has_ended, "{what} waits for ever");
                        // With a count for each, nobody waits for others.
                        assert!(pieces < 64 || members > 8 || has_ended == read.contains(&giver), "{what}");
                    }
                    assert_eq!(flow.has_ended(1, of), turns + 1 == members);
                }
            }
        }
    }
}
