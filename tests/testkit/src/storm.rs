//! Storms: how long tests go on that stop and kill one node after the other, and at which moments.

use std::time::{Duration, Instant};

use crate::chance::Chance;
use crate::process::Process;

const VARIABLE: &str = "DECK_STORM";

/// How often something is done: so often as `DECK_STORM` says, or else `ordinarily`.
///
/// # Panics
/// If the variable is no number.
pub fn rounds(ordinarily: usize) -> usize {
    let Ok(text) = std::env::var(VARIABLE) else { return ordinarily };
    text.parse().unwrap_or_else(|_| panic!("{VARIABLE}={text} is no number"))
}

/// Lets nodes go on for a random while, of 40 ms at most.
pub fn pause(chance: &mut Chance) {
    let micros = [0, 300, 3_000, 40_000][chance.below(4)];
    let until = Instant::now() + Duration::from_micros(chance.below(micros + 1) as u64);
    while Instant::now() < until {
        std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
    }
}

/// Stops a node for a moment, which nobody but the clock notices.
pub fn stop_for_a_moment(node: &Process, chance: &mut Chance) {
    node.stop();
    pause(chance);
    node.go_on();
}

/// Time for so many of them.
pub fn limit(count: usize) -> Duration {
    Duration::from_secs(60 + 4 * count as u64)
}

/// Has so many of them, and says now and then how many there were.
pub fn each(count: usize, what: &str, mut one: impl FnMut(usize)) {
    for number in 0..count {
        one(number);
        if number % 50 == 49 {
            println!("{} of {count} {what}", number + 1);
        }
    }
}
