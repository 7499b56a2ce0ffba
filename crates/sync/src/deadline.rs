//! Deadlines on the monotonic clock.

use std::time::Duration;

/// The timeout that never ends: `deck::FOREVER`.
pub const FOREVER: Duration = Duration::MAX;

/// What tries leave the control thread of a live node to answer.
const ANSWERED_WITHIN: Duration = Duration::from_millis(20);

/// Nanoseconds of the machine's monotonic clock, the same in every process of a host.
pub fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A moment after which a wait ends, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// Monotonic nanoseconds; `u64::MAX` is never, 0 is at once.
    at_ns: u64,
}

impl Deadline {
    /// No deadline.
    pub const NEVER: Deadline = Deadline { at_ns: u64::MAX };
    /// Already passed: look once, never wait.
    pub const NOW: Deadline = Deadline { at_ns: 0 };

    /// `timeout` from now. `Duration::ZERO` is [`Deadline::NOW`] and [`FOREVER`] is [`Deadline::NEVER`]; neither costs
    /// a look at the clock.
    pub fn after(timeout: Duration) -> Deadline {
        if timeout.is_zero() {
            return Deadline::NOW;
        }
        match u64::try_from(timeout.as_nanos()) {
            Ok(nanoseconds) => Deadline { at_ns: now_ns().saturating_add(nanoseconds) },
            Err(_) => Deadline::NEVER,
        }
    }

    /// True for a deadline that allows no waiting at all.
    pub fn is_now(self) -> bool {
        self.at_ns == 0
    }

    /// Nanoseconds of the monotonic clock; `u64::MAX` for never.
    pub fn at_ns(self) -> u64 {
        self.at_ns
    }

    /// What is left, `None` if there is no end, zero if it has passed.
    pub fn remaining(self) -> Option<Duration> {
        if self.at_ns == u64::MAX {
            return None;
        }
        Some(Duration::from_nanos(self.at_ns.saturating_sub(if self.at_ns == 0 { 0 } else { now_ns() })))
    }

    /// True once the moment is over.
    pub fn has_passed(self) -> bool {
        self.remaining().is_some_and(|left| left.is_zero())
    }

    /// True if the moment was over at `now_ns`, a reading of [`now_ns`].
    pub fn has_passed_at(self, now_ns: u64) -> bool {
        self.at_ns != u64::MAX && self.at_ns <= now_ns
    }

    /// This deadline, or if it allows no waiting at all, one that leaves as long as a live node takes to answer: a try
    /// waits for nobody who may not come, but it is no try if it cannot succeed. Some milliseconds, as its control
    /// thread may have to wait for a core.
    pub fn to_be_answered(self) -> Deadline {
        if self.is_now() { Deadline::after(ANSWERED_WITHIN) } else { self }
    }

    /// The earlier of the two.
    pub fn min(self, other: Deadline) -> Deadline {
        Deadline { at_ns: self.at_ns.min(other.at_ns) }
    }

    /// The later of the two.
    pub fn max(self, other: Deadline) -> Deadline {
        Deadline { at_ns: self.at_ns.max(other.at_ns) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn zero_is_now_and_the_longest_duration_is_never() {
        assert!(Deadline::after(Duration::ZERO).is_now());
        assert!(Deadline::after(Duration::ZERO).has_passed());
        assert_eq!(Deadline::after(FOREVER), Deadline::NEVER);
        assert_eq!(Deadline::NEVER.remaining(), None);
        assert!(!Deadline::after(Duration::from_secs(1000)).has_passed());
    }

    #[test]
    fn only_a_try_is_given_time_for_an_answer() {
        assert!(!Deadline::NOW.to_be_answered().is_now() && Deadline::NOW.to_be_answered() != Deadline::NEVER);
        let soon = Deadline::after(Duration::from_nanos(1));
        assert_eq!([soon, Deadline::NEVER].map(Deadline::to_be_answered), [soon, Deadline::NEVER]);
    }
}
