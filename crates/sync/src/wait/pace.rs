//! How slow the core is at the moment.
//!
//! How long a look before a switch may take is a matter of how long the switch takes, and both are a matter of how fast
//! the core runs. That changes by a factor of ten: to save energy, or because others on the same chip are at work, a
//! core of 3.6 GHz may run at 400 MHz for seconds. Everything takes longer by the same factor then, an answer too. So
//! what is tuned in nanoseconds, for cores of 3 to 4 GHz, counts that many times.

use std::cell::Cell;
use std::hint::black_box;

use crate::deadline::now_ns;

/// Steps of a multiplication and an addition each, of which every one needs the result of the one before.
const STEPS: u64 = 64;
/// What they take on a core of 3 to 4 GHz, and a reading of the clock.
const TAKE_NS: u64 = 100;
/// As if a core were no slower than that.
const SLOWEST: u64 = 16;
/// So many nanoseconds a measurement is good for.
const GOOD_FOR: u64 = 1_000_000;

#[derive(Clone, Copy)]
struct Pace {
    times: u64,
    measured_ns: u64,
}

thread_local! {
    static PACE: Cell<Pace> = const { Cell::new(Pace { times: 1, measured_ns: 0 }) };
}

/// How many times as long as usual everything takes on the core of the calling thread, which it measures once in a
/// while: a fifth of a microsecond on a usual core. Never blocks.
pub(crate) fn times(now_ns: u64) -> u64 {
    let known = PACE.get();
    if cfg!(loom) || now_ns.saturating_sub(known.measured_ns) < GOOD_FOR {
        return known.times;
    }
    let times = measure();
    PACE.set(Pace { times, measured_ns: now_ns });
    times
}

/// The same, as it was measured last.
pub(crate) fn times_as_known() -> u64 {
    PACE.get().times
}

/// Of two measurements the shorter one: something else may have come in between.
fn measure() -> u64 {
    let begin = now_ns();
    calculate();
    let between = now_ns();
    calculate();
    let end = now_ns();
    of_time((between - begin).min(end - between))
}

fn of_time(took_ns: u64) -> u64 {
    (took_ns / TAKE_NS).clamp(1, SLOWEST)
}

fn calculate() {
    let mut number = black_box(3u64);
    for step in 0..STEPS {
        number = number.wrapping_mul(number).wrapping_add(step);
    }
    black_box(number);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_takes_several_times_as_long_is_so_many_times_as_slow() {
        let times = [0, TAKE_NS - 1, 2 * TAKE_NS - 1, 2 * TAKE_NS, 9 * TAKE_NS, u64::MAX].map(of_time);
        assert_eq!(times, [1, 1, 1, 2, 9, SLOWEST]);
    }

    #[test]
    fn a_measurement_is_good_for_a_while() {
        let now = now_ns();
        let times = times(now);
        assert!((1..=SLOWEST).contains(&times));
        PACE.set(Pace { times: SLOWEST + 1, measured_ns: now });
        assert_eq!([now, now + GOOD_FOR - 1].map(super::times), [SLOWEST + 1; 2]);
        assert_eq!(times_as_known(), SLOWEST + 1);
        assert!(super::times(now + GOOD_FOR) <= SLOWEST);
    }
}
