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
const FORGET: u64 = 8;

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
    /// What the present trial took up to now, and of how many calls.
    trial: (u64, u32),
    /// About the least nanoseconds of a trial, through the caches and past them.
    best_ns: [u64; 2],
}

impl Record {
    fn best(&self) -> Way {
        if self.best_ns[1] < self.best_ns[0] { Way::PastCaches } else { Way::ThroughCaches }
    }
}

/// What a member's calls took.
#[derive(Debug, Default)]
pub struct Ways(Vec<Record>);

impl Ways {
    /// The way of the next call, and whether [`Ways::took`] is to be told what it takes.
    pub fn choose(&mut self, alike: Alike) -> (Way, bool) {
        let record = match self.0.iter().position(|record| record.alike == alike) {
            Some(known) => &mut self.0[known],
            None => {
                self.0.push(Record { alike, calls: 0, trial: (0, 0), best_ns: [u64::MAX; 2] });
                self.0.last_mut().expect("it was just pushed")
            }
        };
        let number = record.calls;
        record.calls = number.wrapping_add(1);
        let Trials { first, of, each, timed } = alike.trials();
        let (round, each) = if number < 2 * first { (number, first) } else { (number % of, each) };
        let is_timed = round % each >= each - timed;
        if round % each == each - timed {
            record.trial = (0, 0);
        }
        match round / each {
            0 => (Way::ThroughCaches, is_timed),
            1 => (Way::PastCaches, is_timed),
            _ => (record.best(), false),
        }
    }

    /// The way that was the faster one so far.
    pub fn best(&self, alike: Alike) -> Way {
        self.0.iter().find(|record| record.alike == alike).map_or(Way::ThroughCaches, Record::best)
    }

    /// A call that went this way took so long.
    pub fn took(&mut self, alike: Alike, way: Way, ns: u64) {
        if let Some(record) = self.0.iter_mut().find(|record| record.alike == alike) {
            let Trials { timed, .. } = alike.trials();
            record.trial = (record.trial.0 + ns, record.trial.1 + 1);
            if record.trial.1 == timed {
                let best = &mut record.best_ns[usize::from(way == Way::PastCaches)];
                *best = record.trial.0.min(best.saturating_add(*best / FORGET + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes calls that take what `ns` says; how many went through the caches, and how many were timed.
    fn make_as(alike: Alike, ways: &mut Ways, calls: u32, ns: impl Fn(Way) -> u64) -> (u32, u32) {
        let (mut through, mut timed) = (0, 0);
        for _ in 0..calls {
            let (way, is_timed) = ways.choose(alike);
            if is_timed {
                ways.took(alike, way, ns(way));
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
            make_as(alike, ways, 2 * SHORT.first, |way| if way == faster { 90 } else { 100 });
        }
        assert_ne!(ways[0].best(alike), ways[1].best(alike));
        for _ in 0..20 * SHORT.of {
            let chosen = ways.each_mut().map(|ways| ways.choose(alike));
            let ns = chosen.iter().map(|(way, _)| if *way == Way::PastCaches { 100 } else { 200 }).sum();
            for (ways, (way, _)) in ways.iter_mut().zip(chosen).filter(|(_, (_, is_timed))| *is_timed) {
                ways.took(alike, way, ns);
            }
        }
        assert_eq!(ways.each_ref().map(|ways| ways.best(alike)), [Way::PastCaches; 2]);
    }

    #[test]
    fn one_trial_that_was_held_up_changes_nothing() {
        let mut ways = Ways::default();
        let ns = |way| if way == Way::PastCaches { 100 } else { 120 };
        make(&mut ways, 3 * LONG.of, ns);
        make(&mut ways, 2 * LONG.each, |way| if way == Way::PastCaches { 1_000_000 } else { 120 });
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
                (Way::ThroughCaches, _) => 400,
                (Way::PastCaches, 0) => 100,
                (Way::PastCaches, _) => 1000,
            };
            if is_timed {
                ways.took(alike, way, ns);
            }
        }
        assert_eq!(ways.best(alike), Way::ThroughCaches);
    }

    #[test]
    fn short_calls_have_no_choice() {
        assert_eq!(Alike::new(Kind::Bcast, FROM - 1, || false), None);
    }
}
