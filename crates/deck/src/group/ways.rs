//! Whether long data goes through the caches or past them: each member goes by what its calls took.
//!
//! Which is faster depends on whether cores share a cache, and whether all that moves fits into it. Nobody can be asked for
//! that, and in a virtual machine it may change at any time; the difference is a factor of two either way. All members make
//! the same calls in the same order. So certain calls go one way in all members, whichever each of them prefers, and others the
//! other way: what these take together tells about the whole group, whatever the part of a member in each. Nothing else is timed: it would
//! tell of members that go different ways, and the clock takes a part of what a short call takes.

use deck_segment::content::{STREAM_FROM, Way};

use super::call::Kind;

/// What is shorter goes through the caches, and what one member takes of less than [`STREAM_FROM`] bytes as well: it is
/// looked at next.
const FROM: usize = 2 << 10;

/// How often both ways are tried.
struct Trials {
    /// So many calls go each way before one is chosen.
    first: u32,
    /// After that the first of so many calls try both again, ...
    of: u32,
    /// ... each so many times one after the other, ...
    each: u32,
    /// ... and the last of these tell: those before find the caches as the other way has left them.
    timed: u32,
}

const LONG: Trials = Trials { first: 8, of: 128, each: 4, timed: 3 };
/// With a root that goes round and two places for what each member gives, a line is written once in so many calls.
const SHORT: Trials = Trials { first: 32, of: 4096, each: 32, timed: 16 };

/// What was once reached is forgotten by this part with every trial that takes longer.
const FORGET: u64 = 4;
const UNKNOWN: u64 = u64::MAX;

/// Calls that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alike {
    kind: Kind,
    /// Bytes of a block, as a power of two.
    magnitude: u32,
    /// They are of what lies in library memory.
    is_in_place: bool,
}

impl Alike {
    /// The calls like one of `kind` with blocks of `bytes`; `None` if the way does not matter.
    #[inline]
    pub fn new(kind: Kind, bytes: usize, is_in_place: impl FnOnce() -> bool) -> Option<Alike> {
        // Shorter ones are copied, wherever they lie.
        let is_in_place = || bytes > STREAM_FROM && is_in_place();
        (bytes >= FROM).then(|| Alike { kind, magnitude: bytes.ilog2(), is_in_place: is_in_place() })
    }

    fn trials(&self) -> Trials {
        if self.magnitude < STREAM_FROM.ilog2() { SHORT } else { LONG }
    }
}

/// What calls that are alike took.
#[derive(Debug)]
struct Record {
    alike: Alike,
    calls: u32,
    /// The present trial: its way, what was timed of it, and how many calls that was.
    trial: (Way, u64, u64),
    /// About the least nanoseconds of a call in a trial, through the caches and past them; at first not known.
    best_ns: [u64; 2],
}

impl Record {
    fn best(&self) -> Way {
        let [through, past] = self.best_ns;
        if past < through && through != UNKNOWN { Way::PastCaches } else { Way::ThroughCaches }
    }

    /// Another trial begins, or none.
    fn try_next(&mut self, way: Way) {
        let (before, ns, calls) = std::mem::replace(&mut self.trial, (way, 0, 0));
        if let Some(mean) = ns.checked_div(calls) {
            let best = &mut self.best_ns[usize::from(before == Way::PastCaches)];
            *best = mean.min(best.saturating_add(*best / FORGET + 1));
        }
    }
}

/// What a member's calls took.
#[derive(Debug, Default)]
pub struct Ways(Vec<Record>);

impl Ways {
    /// The way of the next call, whether it is waited for or only started, and whether [`Ways::took`] is to be told what it takes.
    pub fn choose(&mut self, alike: Alike) -> (Way, bool) {
        let record = match self.0.iter().position(|record| record.alike == alike) {
            Some(known) => &mut self.0[known],
            None => {
                self.0.push(Record { alike, calls: 0, trial: (Way::ThroughCaches, 0, 0), best_ns: [UNKNOWN; 2] });
                self.0.last_mut().expect("it was just pushed")
            }
        };
        let number = record.calls;
        record.calls = number.wrapping_add(1);
        let Trials { first, of, each, timed } = alike.trials();
        let (round, each) = if number < 2 * first { (number, first) } else { (number % of, each) };
        let way = match round / each {
            0 => Way::ThroughCaches,
            1 => Way::PastCaches,
            _ => {
                record.try_next(record.trial.0);
                return (record.best(), false);
            }
        };
        if round.is_multiple_of(each) {
            record.try_next(way);
        }
        (way, round % each >= each - timed)
    }

    /// The last call that was chosen for has not begun: it will be called again.
    pub fn take_back(&mut self, alike: Alike) {
        if let Some(record) = self.of(alike) {
            record.calls = record.calls.wrapping_sub(1);
        }
    }

    /// A call of a trial took so long.
    pub fn took(&mut self, alike: Alike, ns: u64) {
        if let Some(Record { trial: (_, sum, calls), .. }) = self.of(alike) {
            (*sum, *calls) = (*sum + ns, *calls + 1);
        }
    }

    /// How many calls were chosen for.
    #[cfg(test)]
    pub fn calls_like(&self, alike: Alike) -> u32 {
        self.0.iter().find(|record| record.alike == alike).map_or(0, |record| record.calls)
    }

    fn of(&mut self, alike: Alike) -> Option<&mut Record> {
        self.0.iter_mut().find(|record| record.alike == alike)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(ways: &Ways, alike: Alike) -> Way {
        ways.0.iter().find(|record| record.alike == alike).unwrap().best()
    }

    /// Makes calls that take what `ns` says; how many went through the caches, and how many were timed.
    fn make_as(alike: Alike, ways: &mut Ways, calls: u32, ns: impl Fn(Way) -> u64) -> (u32, u32) {
        let (mut through, mut timed) = (0, 0);
        for _ in 0..calls {
            let (way, is_timed) = ways.choose(alike);
            if is_timed {
                ways.took(alike, ns(way));
            }
            through += u32::from(way == Way::ThroughCaches);
            timed += u32::from(is_timed);
        }
        (through, timed)
    }

    fn make(ways: &mut Ways, calls: u32, ns: impl Fn(Way) -> u64) -> u32 {
        make_as(Alike::new(Kind::Bcast, 1 << 20, || false).unwrap(), ways, calls, ns).0
    }

    #[test]
    fn the_faster_way_is_taken_and_the_other_one_tried_now_and_then() {
        let mut ways = Ways::default();
        assert_eq!(make(&mut ways, 2 * LONG.first, |_| 150), LONG.first);
        for faster in [Way::ThroughCaches, Way::PastCaches, Way::ThroughCaches] {
            let ns = |way| if way == faster { 100 } else { 200 };
            make(&mut ways, 20 * LONG.of, ns);
            let through = make(&mut ways, 10 * LONG.of, ns);
            assert_eq!(through, if faster == Way::ThroughCaches { 10 * (LONG.of - LONG.each) } else { 10 * LONG.each });
        }
    }

    #[test]
    fn short_calls_come_to_the_faster_way_too_and_are_seldom_timed() {
        let (alike, mut ways) = (Alike::new(Kind::Bcast, 4096, || false).unwrap(), Ways::default());
        make_as(alike, &mut ways, 2 * SHORT.first, |_| 150);
        for faster in [Way::PastCaches, Way::ThroughCaches, Way::PastCaches] {
            let ns = |way| if way == faster { 600 } else { 2400 };
            make_as(alike, &mut ways, 20 * SHORT.of, ns);
            let (through, timed) = make_as(alike, &mut ways, 10 * SHORT.of, ns);
            let other = 10 * SHORT.each;
            let expected = if faster == Way::PastCaches { other } else { 10 * SHORT.of - other };
            assert_eq!((through, timed), (expected, 20 * SHORT.timed));
        }
    }

    /// What a call takes depends on the ways of both. They begin with different opinions.
    #[test]
    fn members_that_prefer_different_ways_come_to_agree() {
        let alike = Alike::new(Kind::Allgather, 4096, || false).unwrap();
        let mut ways = [Ways::default(), Ways::default()];
        for (ways, faster) in ways.iter_mut().zip([Way::ThroughCaches, Way::PastCaches]) {
            make_as(alike, ways, 2 * SHORT.first + 1, |way| if way == faster { 90 } else { 100 });
        }
        assert_ne!(best(&ways[0], alike), best(&ways[1], alike));
        for _ in 0..20 * SHORT.of {
            let chosen = ways.each_mut().map(|ways| ways.choose(alike));
            let ns = chosen.iter().map(|(way, _)| if *way == Way::PastCaches { 100 } else { 200 }).sum();
            for (ways, _) in ways.iter_mut().zip(chosen).filter(|(_, (_, is_timed))| *is_timed) {
                ways.took(alike, ns);
            }
        }
        assert_eq!(ways.each_ref().map(|ways| best(ways, alike)), [Way::PastCaches; 2]);
    }

    #[test]
    fn one_trial_that_was_held_up_changes_nothing() {
        let mut ways = Ways::default();
        let ns = |way| if way == Way::PastCaches { 100 } else { 140 };
        make(&mut ways, 3 * LONG.of, ns);
        make(&mut ways, 2 * LONG.each, |way| if way == Way::PastCaches { 1_000_000 } else { 140 });
        assert_eq!(make(&mut ways, LONG.of, ns), LONG.each);
    }

    #[test]
    fn a_member_whose_part_is_small_in_some_calls_tells_the_ways_by_all() {
        let (alike, mut ways, mut number) = (Alike::new(Kind::Scatter, 4096, || false).unwrap(), Ways::default(), 0);
        // The root in every second call: writing past the caches is quick, and reading what was written so takes long.
        for _ in 0..SHORT.of {
            let (way, is_timed) = ways.choose(alike);
            number += 1;
            let ns = match (way, number % 2) {
                (Way::PastCaches, 0) => 100,
                (Way::PastCaches, _) => 1000,
                _ => 400,
            };
            if is_timed {
                ways.took(alike, ns);
            }
        }
        assert_eq!(best(&ways, alike), Way::ThroughCaches);
    }

    #[test]
    fn what_is_told_of_a_trial_is_enough_and_an_unknown_way_is_not_slow() {
        let (alike, mut ways) = (Alike::new(Kind::Bcast, 1 << 20, || false).unwrap(), Ways::default());
        // All calls through the caches were held up at first; after that every second call is only started.
        for number in 0..2 * LONG.of {
            let (way, is_timed) = ways.choose(alike);
            assert!(way == Way::ThroughCaches || !(2 * LONG.first..LONG.of).contains(&number));
            let is_told = if number < LONG.of { way == Way::PastCaches } else { number % 2 == 0 };
            if is_timed && is_told {
                ways.took(alike, if way == Way::PastCaches { 100 } else { 200 });
            }
        }
        assert_eq!(best(&ways, alike), Way::PastCaches);
    }

    #[test]
    fn a_call_that_has_not_begun_does_not_count() {
        let (alike, mut ways) = (Alike::new(Kind::Bcast, 4096, || false).unwrap(), Ways::default());
        for _ in 0..2 * SHORT.first {
            ways.choose(alike);
            ways.take_back(alike);
        }
        assert_eq!(ways.choose(alike), (Way::ThroughCaches, false));
        assert_eq!(make_as(alike, &mut ways, 2 * SHORT.first - 1, |_| 1).0, SHORT.first - 1);
    }

    #[test]
    fn short_calls_have_no_choice() {
        assert_eq!(Alike::new(Kind::Bcast, FROM - 1, || false), None);
    }
}
