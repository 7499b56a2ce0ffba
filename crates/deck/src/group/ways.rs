//! Whether long data goes through the caches or past them: each member goes by what its calls took.
//!
//! Which is faster depends on whether cores share a cache, and whether all that moves fits into it. Nobody can be asked for
//! that, and in a virtual machine it may change at any time; the difference is a factor of two either way. All members make
//! the same calls in the same order, so if each tries the other way at the same ones, what a call takes tells about the
//! whole group.

use deck_segment::content::{STREAM_FROM, Way};

use super::call::Kind;

/// So many calls go each way before one is chosen.
const TURNS: u32 = 8;
/// After that the first of so many calls try the other way again ...
const TRY_AGAIN: u32 = 128;
/// ... so many of them one after the other: the first finds the caches as the other way has left them.
const TRIES: u32 = 4;
const FIRST: u32 = 2 * TURNS;
/// What was once reached is forgotten by this part with every call that takes longer.
const FORGET: u64 = 32;

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
        (bytes >= STREAM_FROM).then(|| Alike { kind, magnitude: bytes.ilog2(), is_in_place: is_in_place() })
    }
}

/// What calls that are alike took.
#[derive(Debug)]
struct Record {
    alike: Alike,
    calls: u32,
    /// About the best time in nanoseconds, through the caches and past them.
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
    /// The way of the next call.
    pub fn choose(&mut self, alike: Alike) -> Way {
        let record = match self.0.iter().position(|record| record.alike == alike) {
            Some(known) => &mut self.0[known],
            None => {
                self.0.push(Record { alike, calls: 0, best_ns: [u64::MAX; 2] });
                self.0.last_mut().expect("it was just pushed")
            }
        };
        let number = record.calls;
        record.calls = number.wrapping_add(1);
        let best = record.best();
        let other = if best == Way::PastCaches { Way::ThroughCaches } else { Way::PastCaches };
        match number {
            ..TURNS => Way::ThroughCaches,
            TURNS..FIRST => Way::PastCaches,
            _ if number % TRY_AGAIN < TRIES => other,
            _ => best,
        }
    }

    /// The way that was the faster one so far.
    pub fn best(&self, alike: Alike) -> Way {
        self.0.iter().find(|record| record.alike == alike).map_or(Way::ThroughCaches, Record::best)
    }

    /// A call that went this way took so long.
    pub fn took(&mut self, alike: Alike, way: Way, ns: u64) {
        if let Some(record) = self.0.iter_mut().find(|record| record.alike == alike) {
            let best = &mut record.best_ns[usize::from(way == Way::PastCaches)];
            *best = ns.min(best.saturating_add(*best / FORGET + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes calls that take what `ns` says; how many went through the caches.
    fn make(ways: &mut Ways, calls: u32, ns: impl Fn(Way) -> u64) -> u32 {
        let alike = Alike::new(Kind::Bcast, 1 << 20, || false).unwrap();
        let is_through = |_| {
            let way = ways.choose(alike);
            ways.took(alike, way, ns(way));
            u32::from(way == Way::ThroughCaches)
        };
        (0..calls).map(is_through).sum()
    }

    #[test]
    fn the_faster_way_is_taken_and_the_other_one_tried_now_and_then() {
        let mut ways = Ways::default();
        assert_eq!(make(&mut ways, FIRST, |_| 150), TURNS);
        for faster in [Way::ThroughCaches, Way::PastCaches, Way::ThroughCaches] {
            let ns = |way| if way == faster { 100 } else { 200 };
            make(&mut ways, 10 * TRY_AGAIN, ns);
            let through = make(&mut ways, 10 * TRY_AGAIN, ns);
            assert_eq!(through, if faster == Way::ThroughCaches { 10 * (TRY_AGAIN - TRIES) } else { 10 * TRIES });
        }
    }

    #[test]
    fn one_call_that_was_held_up_changes_nothing() {
        let mut ways = Ways::default();
        let ns = |way| if way == Way::PastCaches { 100 } else { 120 };
        make(&mut ways, 3 * TRY_AGAIN, ns);
        make(&mut ways, 1, |_| 1_000_000);
        assert!(make(&mut ways, TRY_AGAIN, ns) <= TRIES);
    }

    #[test]
    fn short_calls_have_no_choice() {
        assert_eq!(Alike::new(Kind::Bcast, STREAM_FROM - 1, || false), None);
    }
}
