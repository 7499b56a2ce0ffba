//! How time is taken: warm-ups, windows, means, medians.
//!
//! The libraries that DECK is compared with are measured with this very file, which `bench/peers/rust` includes:
//! whoever changes it changes both sides. So it needs nothing but the standard library, and takes errors of any kind.
//! Peers written in C have the same in `bench/peers/peer.h`.

use std::time::{Duration, Instant};

/// Messages of a stream between two looks at the clock: enough that looking costs nothing.
pub const MESSAGES: u64 = 64;
/// Rounds between two looks at the clock.
pub const ROUNDS: u64 = 16;
/// A group of rounds takes at least so long: reading the clock is then less than a hundredth of it.
const GROUP: Duration = Duration::from_micros(4);
/// The most groups that are kept for one result.
pub const SAMPLES: usize = 1 << 20;

/// How long to run before `time` is measured: caches, page tables and the other side are then as they will be.
pub fn warm_up(time: Duration) -> Duration {
    time / 5
}

/// How long a sender streams: longer than the receiver counts, whoever began first.
pub fn sending(warm_up: Duration, time: Duration) -> Duration {
    warm_up * 2 + time
}

/// The time in which things count: the same for all threads that begin together, whether or not they were running.
pub struct Window {
    begin: Instant,
    end: Instant,
    from: Option<u64>,
    to: Option<u64>,
}

impl Window {
    /// The window of `time` behind a warm-up that begins at `begin`.
    pub fn new(begin: Instant, warm_up: Duration, time: Duration) -> Window {
        Window { begin: begin + warm_up, end: begin + warm_up + time, from: None, to: None }
    }

    /// Tells how many there have been until now. True once the window is over.
    pub fn look(&mut self, count: u64, now: Instant) -> bool {
        if now >= self.begin {
            self.from.get_or_insert(count);
        }
        if now >= self.end {
            self.to.get_or_insert(count);
        }
        self.to.is_some()
    }

    /// There will be no more: the window ends here, unless it is over.
    pub fn close(&mut self, count: u64, now: Instant) {
        if !self.look(count, now) {
            self.end = now;
            self.to = Some(count);
        }
    }

    /// How many a second.
    pub fn rate(&self) -> f64 {
        let (Some(from), Some(to)) = (self.from, self.to) else { return 0.0 };
        (to - from) as f64 / (self.end - self.begin).as_secs_f64().max(1e-9)
    }
}

/// Rates of threads: all together, and the slowest as a share of the mean, which is 1 if all were alike.
pub fn shared_out(rates: &[f64]) -> (f64, f64) {
    let sum: f64 = rates.iter().sum();
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    (sum, if sum > 0.0 { slowest * rates.len() as f64 / sum } else { 0.0 })
}

/// The mean time of `round` in nanoseconds.
///
/// # Errors
/// Those of `round`.
pub fn mean_ns<E>(warm_up: Duration, time: Duration, mut round: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let begin = Instant::now();
    let (mut count, mut first) = (0u64, None);
    loop {
        for _ in 0..ROUNDS {
            round()?;
        }
        count += ROUNDS;
        let now = Instant::now();
        if now - begin < warm_up {
            continue;
        }
        let (from, start) = *first.get_or_insert((count, now));
        if now - begin >= warm_up + time && count > from {
            return Ok((now - start).as_nanos() as f64 / (count - from) as f64);
        }
    }
}

/// How many rounds of this length are timed together.
pub fn group(round: Duration) -> usize {
    GROUP.as_nanos().div_ceil(round.as_nanos().max(1)) as usize
}

/// One way, half a round, in nanoseconds: `share` of all groups of rounds took less. Changes the order of the times.
pub fn one_way_ns(times: &mut [Duration], group: usize, share: f64) -> f64 {
    let index = ((times.len() - 1) as f64 * share).round() as usize;
    times.select_nth_unstable(index).1.as_nanos() as f64 / (2 * group) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(looks: &[(u64, u64)], closed: (u64, u64)) -> f64 {
        let start = Instant::now();
        let mut window = Window::new(start, Duration::from_secs(2), Duration::from_secs(10));
        let at = |seconds| start + Duration::from_secs(seconds);
        for &(count, seconds) in looks {
            window.look(count, at(seconds));
        }
        window.close(closed.0, at(closed.1));
        window.rate()
    }

    #[test]
    fn a_window_counts_from_the_end_of_the_warm_up_to_its_own_end() {
        assert_eq!(rate(&[(64, 1), (100, 2), (192, 7), (400, 12), (9999, 13)], (99_999, 30)), 30.0);
    }

    #[test]
    fn a_thread_that_hardly_ran_has_a_low_rate_over_the_same_window() {
        assert_eq!(rate(&[(64, 11), (164, 40)], (164, 50)), 10.0);
    }

    #[test]
    fn a_stream_that_ends_early_counts_up_to_its_end() {
        assert_eq!(rate(&[(0, 2)], (30, 5)), 10.0);
    }

    #[test]
    fn a_stream_that_ends_before_the_window_counts_nothing() {
        assert_eq!(rate(&[(64, 1)], (64, 1)), 0.0);
    }

    #[test]
    fn the_slowest_thread_is_told_as_a_share_of_the_mean() {
        assert_eq!(shared_out(&[10.0, 30.0]), (40.0, 0.5));
        assert_eq!(shared_out(&[0.0, 0.0]), (0.0, 0.0));
    }

    #[test]
    fn short_rounds_are_timed_together_and_long_ones_alone() {
        assert_eq!([1, 260, 4000, 5_000_000].map(|ns| group(Duration::from_nanos(ns))), [4000, 16, 1, 1]);
    }

    #[test]
    fn the_time_of_one_way_halves_round_trips_and_divides_by_the_group() {
        let mut times: Vec<_> = (1..=101).map(|number| Duration::from_nanos(number * 40)).rev().collect();
        assert_eq!([0.0, 0.5, 0.99].map(|share| one_way_ns(&mut times, 4, share)), [5.0, 255.0, 500.0]);
    }
}
