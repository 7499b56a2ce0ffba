//! How long a wait looks before it sleeps, where every thread has a core.
//!
//! Looking for as long as a sleep would cost is never worse than twice the best, and whoever goes by its last waits
//! does better (Karlin, Li, Manasse and Owicki, "Empirical studies of competitive spinning for a shared-memory
//! multiprocessor", SOSP 1991). What a sleep costs is more than the wake-up: it makes the partner wait longer by just
//! that. Two threads that answer one another within the [`SHORTEST`] limit would, once one of them was late, find each
//! other asleep from then on, for ever.
//!
//! So a thread whose sleep was over soon looks twice as long the next time, and one that slept long or in vain begins
//! anew.

use std::cell::Cell;
use std::time::Duration;

/// About a wake-up on another core.
pub(crate) const SHORTEST: u64 = Duration::from_micros(50).as_nanos() as u64;
/// An answer that takes four times as long, from a thread that had to be woken for it: a sleep would make that half as
/// long again.
pub(crate) const LONGEST: u64 = 8 * SHORTEST;

thread_local! {
    static LIMIT: Cell<u64> = const { Cell::new(SHORTEST) };
}

/// For how many nanoseconds a wait of this thread looks before it sleeps. A model has no clock.
pub(crate) fn limit_ns() -> u64 {
    if cfg!(loom) { 0 } else { LIMIT.get() }
}

/// A wait of this thread came to what it waited for in a sleep, `waited_ns` after it began.
pub(crate) fn slept(waited_ns: u64) {
    let is_soon = waited_ns <= LONGEST;
    LIMIT.set(if is_soon { (2 * LIMIT.get()).min(LONGEST) } else { SHORTEST });
}

/// A wait of this thread came to its deadline.
pub(crate) fn was_in_vain() {
    LIMIT.set(SHORTEST);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sleeps_that_are_over_soon_make_it_look_longer_and_a_long_one_makes_it_forget() {
        assert_eq!(limit_ns(), SHORTEST);
        let limits = [(); 4].map(|()| {
            slept(LONGEST);
            limit_ns()
        });
        assert_eq!(limits, [2, 4, 8, 8].map(|times| times * SHORTEST));
        slept(LONGEST + 1);
        assert_eq!(limit_ns(), SHORTEST);
        slept(LONGEST);
        was_in_vain();
        assert_eq!(limit_ns(), SHORTEST);
    }
}
