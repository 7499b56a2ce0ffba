//! Sleeping on more words than the kernel watches for one thread: other threads watch the rest.
//!
//! A sleep that is short is not worth them. The sleeper begins alone: it watches as many words as it can, and looks at
//! all of them every millisecond. Then it starts a thread for each of the other parts, and all of them sleep until a
//! word of any part changes, or the time is over. Whoever wakes wakes the others, and the sleep ends when all are
//! awake.

use std::thread;
use std::time::Duration;

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::futex::{self, SLICE, WATCH_MAX};
use crate::now_ns;
use crate::service::Service;

/// A word and what it holds as long as nothing happens.
type Watched<'a> = (&'a AtomicU32, u32);

/// How many times the sleeper looks alone. All of that takes longer than starting threads for some thousands of words.
const LOOKS_ALONE: u32 = 32;

/// For more words than so many threads watch, none is started.
const THREADS_MAX: usize = 128;

/// After the system has refused a thread, none is asked for so long: others need them, too.
const REFUSED_FOR: Duration = Duration::from_secs(10);

/// Until when none is asked for, in nanoseconds of the monotonic clock.
static ALONE_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Sleeps while every word holds its expected value, at most for `timeout`; may return for no reason.
pub fn sleep(words: &[Watched], timeout: Option<Duration>) {
    let begin = now_ns();
    let left = || timeout.map(|timeout| timeout.saturating_sub(Duration::from_nanos(now_ns().saturating_sub(begin))));
    let mut looks = 0;
    while looks < LOOKS_ALONE || !has_threads_for(words) {
        let slice = left().map_or(SLICE, |left| left.min(SLICE));
        if slice.is_zero() || !look_alone(words, slice) {
            return;
        }
        looks += 1;
    }
    share(words, left());
}

fn has_threads_for(words: &[Watched]) -> bool {
    words.len() <= WATCH_MAX + THREADS_MAX * (WATCH_MAX - 1) && now_ns() >= ALONE_UNTIL.load(Ordering::Relaxed)
}

/// Watches what one thread can; false if it is time to look at what all this is about.
fn look_alone(words: &[Watched], slice: Duration) -> bool {
    let is_watched = futex::watch(&words[..WATCH_MAX], Some(slice));
    if !is_watched {
        futex::sleep(words[0].0, words[0].1, Some(slice));
    }
    // Relaxed: the caller looks at what the words tell of.
    is_watched && words.iter().all(|(word, expected)| word.load(Ordering::Relaxed) == *expected)
}

/// Watches all words, each thread a part of them.
fn share(words: &[Watched], timeout: Option<Duration>) {
    let is_over = AtomicU32::new(0);
    // One place is for the word that tells of the end.
    let (own, others) = words.split_at(WATCH_MAX - 1);
    let watch = |part: &[Watched], timeout| {
        let part: Vec<Watched> = part.iter().copied().chain([(&is_over, 0)]).collect();
        // Pairs with: sleepers/over. The kernel looks at the word once more before the thread sleeps.
        futex::watch(&part, timeout);
        // SeqCst: pairs with: sleepers/over.
        is_over.store(1, Ordering::SeqCst);
        futex::wake(&is_over, u32::MAX);
    };
    thread::scope(|scope| {
        let start = |part| Service::Sleeper.start_within(scope, move || watch(part, timeout)).is_ok();
        let are_all_watched = others.chunks(WATCH_MAX - 1).all(start);
        if !are_all_watched {
            ALONE_UNTIL.store(now_ns().saturating_add(REFUSED_FOR.as_nanos() as u64), Ordering::Relaxed);
        }
        watch(own, if are_all_watched { timeout } else { Some(Duration::ZERO) });
    });
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Longer than any test runs.
    const WATCHDOG: Option<Duration> = Some(Duration::from_secs(600));

    #[test]
    #[cfg_attr(miri, ignore = "futex_waitv")]
    fn a_sleep_on_many_words_ends_in_time() {
        let words: Vec<AtomicU32> = (0..1000).map(AtomicU32::new).collect();
        let watched: Vec<Watched> = words.iter().zip(0..).collect();
        for timeout in [5, 50].map(Duration::from_millis) {
            let begin = Instant::now();
            while begin.elapsed() < timeout {
                sleep(&watched, Some(timeout.saturating_sub(begin.elapsed())));
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "futex_waitv")]
    fn a_word_of_any_part_ends_the_sleep_of_all() {
        for changed in [0, WATCH_MAX - 2, WATCH_MAX - 1, WATCH_MAX, 500, 999] {
            let words: Vec<AtomicU32> = (0..1000).map(|_| AtomicU32::new(7)).collect();
            let watched: Vec<Watched> = words.iter().map(|word| (word, 7)).collect();
            thread::scope(|scope| {
                scope.spawn(|| {
                    words[changed].store(8, Ordering::SeqCst);
                    futex::wake(&words[changed], u32::MAX);
                });
                while words[changed].load(Ordering::SeqCst) == 7 {
                    share(&watched, WATCHDOG);
                }
            });
            // It has changed before the sleep begins.
            share(&watched, WATCHDOG);
            sleep(&watched, WATCHDOG);
        }
    }
}
