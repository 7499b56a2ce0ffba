//! When a sleep ends by itself: shortly before what it is for is due.
//!
//! To be woken takes 50 us, on virtual machines more, and whoever rings pays for it too. Threads that compute in turn
//! wait for about as long each time. So a sleeper whose last waits were alike sets an alarm for somewhat earlier, and
//! looks from then on: what it waits for is seen at once, and nobody has to wake it. To look for as long as a sleep
//! costs is never worse than twice the best ([`crate::wait::spin`]); here that is done where something is expected.
//! `docs/design/005-one-wait-loop.md` has the measurements.

use std::cell::Cell;
use std::time::Duration;

use crate::wait::spin::{LONGEST, SHORTEST};

/// By how much the alarm is early: a part of the wait, as a partner that no longer has to ring answers earlier than it
/// did; at least what timers of the kernel are late and a core takes to come back, with as much again; at most what a
/// sleep costs with all that comes after it.
const EARLY_PART: u64 = 3;
const EARLY_LEAST: u64 = 5 * SHORTEST;
const EARLY_MOST: u64 = 8 * SHORTEST;
/// How long after the longest of them it is still looked for.
const LATE: u64 = 2 * SHORTEST;
/// By how much waits that are alike may differ, as a part of the shorter one, and at most.
const ALIKE_PART: u64 = 8;
const ALIKE_MAX: u64 = 4 * SHORTEST;
/// What takes longer is not made much shorter by an alarm. A sleep in which a bell was lost lasts no longer than this
/// either.
const FARTHEST: u64 = Duration::from_millis(5).as_nanos() as u64;

/// How many waits are remembered.
const KEPT: usize = 8;

thread_local! {
    /// The last waits that came to what they waited for after a sleep, or shortly after its alarm.
    static LAST: Cell<[u64; KEPT]> = const { Cell::new([0; KEPT]) };
}

/// When something is expected, by the clock of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// When the alarm rings.
    pub from: u64,
    /// Until when to look is worth it.
    pub until: u64,
}

/// When that will be there for which this thread has waited since `began`, if it can be told. A model has no clock.
pub(crate) fn due(began: u64) -> Option<Due> {
    let mut last = LAST.get();
    last.sort_unstable();
    // The middle half: one that was otherwise now and then changes nothing.
    let (shorter, longer) = (last[KEPT / 4], last[KEPT - 1 - KEPT / 4]);
    let are_alike = longer - shorter <= (shorter / ALIKE_PART).min(ALIKE_MAX);
    let is_worth_it = shorter > LONGEST && longer <= FARTHEST;
    (are_alike && is_worth_it && cfg!(not(loom)))
        .then(|| Due { from: began + shorter - early(shorter), until: began + longer + LATE })
}

fn early(wait_ns: u64) -> u64 {
    (wait_ns / EARLY_PART).clamp(EARLY_LEAST, EARLY_MOST)
}

/// A wait of this thread that has slept came to what it waited for, `waited_ns` after it began.
pub(crate) fn slept(waited_ns: u64) {
    let mut last = LAST.get();
    last.rotate_left(1);
    last[KEPT - 1] = waited_ns;
    LAST.set(last);
}

/// A wait of this thread came to its deadline.
pub(crate) fn forget() {
    LAST.set([0; KEPT]);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const BEGAN: u64 = 77;

    fn sleep_for(waits: impl IntoIterator<Item = u64>) -> Option<Due> {
        waits.into_iter().for_each(slept);
        due(BEGAN)
    }

    #[test]
    fn waits_that_are_mostly_alike_tell_when_the_next_one_will_be_over() {
        assert_eq!(due(BEGAN), None);
        assert_eq!(sleep_for([MS; KEPT - 3]), None);
        let [shorter, longer] = [MS, MS + MS / 10];
        // Two that were otherwise are left out.
        let due_at = Due { from: BEGAN + shorter - early(shorter), until: BEGAN + longer + LATE };
        assert_eq!(sleep_for([shorter, 7 * MS, longer, longer, 50, shorter, shorter, longer]), Some(due_at));
        assert_eq!(sleep_for([2 * MS; KEPT / 2]), None);
        assert!(sleep_for([2 * MS; KEPT / 4]).is_some());
        forget();
        assert_eq!(due(BEGAN), None);
    }

    #[test]
    fn short_waits_are_looked_through_and_long_ones_are_slept_through() {
        for (waited, is_due) in [(LONGEST, false), (LONGEST + 1, true), (FARTHEST, true), (FARTHEST + 1, false)] {
            assert_eq!(sleep_for([waited; KEPT]).is_some(), is_due, "{waited} ns");
        }
    }

    #[test]
    fn an_alarm_is_never_before_the_wait_and_looking_takes_no_longer_than_it_is_worth() {
        for waited in [LONGEST + 1, MS, FARTHEST] {
            let Due { from, until } = sleep_for([waited; KEPT]).unwrap();
            assert!(
                BEGAN < from && from < BEGAN + waited && until - from <= EARLY_MOST + LATE,
                "{waited} ns: {from} to {until}"
            );
        }
    }
}
