//! How long a wait looks away between two looks at a line that both sides write.
//!
//! A look at such a line takes it away from the side that is about to write the answer there, which then has to fetch
//! it back: looks one after the other make an answer slower, and so do looks that come late. What is best in between
//! depends on how far the other core is and on how much it has to write, and neither is told; so a thread times some of
//! its waits. Who answers late has the line taken away by the first look anyhow: then one looks on and on, as at a line
//! that one side alone writes. Measured: `docs/design/019-batons.md`.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::OnceLock;

use crate::atomic;
use crate::deadline::now_ns;
use crate::machine::maker::Maker;
use crate::wait::pace;

/// Whether a wait looks away between its looks, and for what it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// It does not.
    No,
    /// For what stands in one line.
    Line,
    /// For several lines, which the other side writes one after the other.
    Lines,
}

/// How long to look away, or what does that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pattern<T> {
    /// Before the first look.
    first: T,
    /// Between two looks.
    next: T,
}

/// Nanoseconds, for a line and for several where answers are quick, and where they are not.
const AWAY: [Pattern<u64>; 4] = [
    Pattern { first: 40, next: 10 },
    Pattern { first: 48, next: 10 },
    Pattern { first: 72, next: 24 },
    Pattern { first: 72, next: 72 },
];
/// The same on processors of other makers than AMD.
const AWAY_ELSEWHERE: [Pattern<u64>; 4] = {
    let [line, lines] = [Pattern { first: 60, next: 60 }, Pattern { first: 100, next: 100 }];
    [line, lines, line, lines]
};

/// Answers within so many nanoseconds are quick, on a core that is not slow ([`pace`]): a line goes to and fro between
/// cores that share a cache, and what the other side does about it is not much.
const QUICK: u64 = 180;
/// One wait of so many is timed.
const TIMED: u32 = 64;

/// When answers come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coming {
    Quick,
    Soon,
    /// After the looks with which a wait begins.
    Late,
}

/// How the answers to the calling thread were.
#[derive(Clone, Copy)]
struct Answers {
    /// Waits until one is timed.
    untimed: u32,
    coming: Coming,
}

thread_local! {
    static ANSWERS: Cell<Answers> = const { Cell::new(Answers { untimed: 0, coming: Coming::Soon }) };
}

/// When this wait of the calling thread began, if it is to be timed: it ends with [`timed`].
#[inline]
pub(crate) fn begins() -> Option<u64> {
    let answers = ANSWERS.get();
    if answers.untimed > 0 {
        ANSWERS.set(Answers { untimed: answers.untimed - 1, ..answers });
        return None;
    }
    Some(now_ns())
}

/// A wait that began at `began_ns` is over, or goes on without what is waited for.
#[cold]
pub(crate) fn timed(began_ns: u64, is_over: bool) {
    let now = now_ns();
    let coming = match is_over {
        true if now.saturating_sub(began_ns) <= pace::times(now) * QUICK => Coming::Quick,
        true => Coming::Soon,
        false => Coming::Late,
    };
    // Where answers come late there is time to read the clock.
    ANSWERS.set(Answers { untimed: if coming == Coming::Late { 0 } else { TIMED - 1 }, coming });
}

/// Whether a wait of the calling thread looks away in between.
#[inline]
pub(crate) fn looks_away(away: Away) -> bool {
    away != Away::No && ANSWERS.get().coming != Coming::Late
}

/// Looks away once, before the first look of a wait or between two.
#[inline]
pub(crate) fn look_away(away: Away, is_first: bool) {
    static GAPS: OnceLock<[Pattern<Gap>; AWAY.len()]> = OnceLock::new();
    if cfg!(loom) {
        return atomic::pause();
    }
    let [quick_line, quick_lines, line, lines] = GAPS.get_or_init(measured);
    let Pattern { first, next } = match (away, ANSWERS.get().coming) {
        (Away::Lines, Coming::Quick) => quick_lines,
        (Away::Lines, _) => lines,
        (_, Coming::Quick) => quick_line,
        _ => line,
    };
    if is_first { first } else { next }.pass();
}

/// What takes some nanoseconds: pauses, which leave more of a core to its other hardware thread, and for the rest of
/// the time rounds of a loop, as a pause takes from 3 to 60 ns, by processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    pauses: u32,
    rounds: u32,
}

impl Gap {
    /// What takes `time` where a pause and a round take so long, all in the same unit. Nearly a pause is one. Else it
    /// would hang on how exactly a pause was measured, and a processor that runs ahead is through with rounds early.
    fn of(time: u64, pause: u64, round: u64) -> Gap {
        let [pause, round] = [pause, round].map(|takes| takes.max(1));
        let pauses = (time + pause / 4) / pause;
        Gap { pauses: few(pauses), rounds: few(time.saturating_sub(pauses * pause) / round) }
    }

    #[inline]
    fn pass(self) {
        (0..self.pauses).for_each(|_| atomic::pause());
        (0..self.rounds).for_each(|_| black_box(()));
    }
}

/// No more than 64, whatever a clock tells that stands still.
fn few(times: u64) -> u32 {
    times.min(64) as u32
}

#[cold]
fn measured() -> [Pattern<Gap>; AWAY.len()] {
    let [pause, round] = [Gap { pauses: TIMES, rounds: 0 }, Gap { pauses: 0, rounds: TIMES }].map(time_of);
    // On a slow core all of it takes as many times as long, and is right when it is fast again.
    let slow = pace::times(now_ns());
    let gap = |time: u64| Gap::of(slow * time * u64::from(TIMES), pause, round);
    let away = if Maker::here() == Maker::Amd { AWAY } else { AWAY_ELSEWHERE };
    away.map(|Pattern { first, next }| Pattern { first: gap(first), next: gap(next) })
}

/// How many pauses or rounds are timed.
const TIMES: u32 = 64;

/// Nanoseconds.
fn time_of(gap: Gap) -> u64 {
    const TRIES: u32 = 8;
    let take = |_| {
        let begin = now_ns();
        gap.pass();
        now_ns().saturating_sub(begin)
    };
    // The quickest: the others were held up.
    (0..TRIES).map(take).min().unwrap_or(0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "measures time")]
    fn a_look_away_is_made_of_pauses_and_of_rounds_where_those_are_too_long() {
        for away in [Away::Line, Away::Lines] {
            [true, false].into_iter().for_each(|is_first| look_away(away, is_first));
        }
        assert_eq!(Gap::of(45, 20, 1), Gap { pauses: 2, rounds: 5 });
        assert_eq!(Gap::of(45, 3, 2), Gap { pauses: 15, rounds: 0 });
        let nearly_two = [45, 46, 47, 48, 49].map(|time| Gap::of(time, 24, 1));
        assert_eq!(nearly_two.map(|gap| (gap.pauses, gap.rounds)), [(2, 0), (2, 0), (2, 0), (2, 0), (2, 1)]);
        assert_eq!(Gap::of(25, 60, 5), Gap { pauses: 0, rounds: 5 });
        assert_eq!(Gap::of(1 << 20, 0, 0), Gap { pauses: 64, rounds: 0 });
        let is_some = |gap| gap != Gap { pauses: 0, rounds: 0 };
        assert!(measured().into_iter().all(|gaps| is_some(gaps.first) && is_some(gaps.next)));
    }

    #[test]
    fn one_wait_of_many_is_timed_and_tells_when_answers_come() {
        let coming = || ANSWERS.get().coming;
        let began = begins().expect("the first one");
        timed(began.saturating_sub(1_000_000), true);
        assert_eq!(coming(), Coming::Soon);
        let untimed = (0..).take_while(|_| begins().is_none()).count() as u32;
        assert_eq!(untimed, TIMED - 1);
        // The clock goes on, however short the wait was.
        timed(now_ns() + 1_000_000, true);
        assert_eq!(coming(), Coming::Quick);
        timed(now_ns(), false);
        assert_eq!(coming(), Coming::Late);
        assert!(!looks_away(Away::Line) && begins().is_some(), "it may come sooner by now");
        timed(began.saturating_sub(1_000_000), true);
        assert!(looks_away(Away::Line) && !looks_away(Away::No));
    }
}
