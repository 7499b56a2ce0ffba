//! What all peers written in Rust share: the command line, processors, timing, result lines. See `bench/peers/peer.h`.

#![forbid(unsafe_code)]

pub mod processes;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

/// Messages between two looks at the clock.
pub const STRIDE: u64 = 64;

/// `PEER MEASURE CPU,CPU SECONDS AT...`
#[derive(Clone, Debug)]
pub struct Options {
    pub measure: String,
    pub cpus: [usize; 2],
    pub time: Duration,
    pub points: Vec<usize>,
}

impl Options {
    /// Reads the words of a command line; says what to type if they are not understood.
    pub fn of(words: &[String]) -> Result<Options, String> {
        let read = || {
            let [measure, cpus, seconds, points @ ..] = words else { return None };
            let (one, other) = cpus.split_once(',')?;
            Some(Options {
                measure: measure.clone(),
                cpus: [one.parse().ok()?, other.parse().ok()?],
                time: Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?,
                points: points.iter().map(|point| point.parse().ok()).collect::<Option<_>>()?,
            })
        };
        read().ok_or_else(|| "type: PEER MEASURE CPU,CPU SECONDS AT...".to_owned())
    }
}

/// Keeps the calling thread, and what it starts from now on, on these processors.
pub fn stay(cpus: &[usize]) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set)
}

/// Runs `count` threads at once and returns what each returned.
pub fn each<E: Send>(count: usize, run: impl Fn(usize) -> Result<f64, E> + Sync) -> Result<Vec<f64>, E> {
    let run = &run;
    thread::scope(|scope| {
        let running: Vec<_> = (0..count).map(|thread| scope.spawn(move || run(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("a thread does not panic")).collect()
    })
}

/// Prints one figure.
pub fn tell(at: usize, what: &str, unit: &str, value: f64) {
    let mut out = std::io::stdout();
    let line = format!("{{\"at\": {at}, \"what\": \"{what}\", \"unit\": \"{unit}\", \"value\": {value}}}\n");
    // Whoever does not read this any more does not need it.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Results of the threads of one process: all together, and the slowest as a share of the mean.
pub fn tell_threads(what: &str, rates: &[f64]) {
    let sum: f64 = rates.iter().sum();
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    tell(rates.len(), what, "messages/s", sum);
    tell(rates.len(), &format!("{what}, slowest"), "of mean", slowest * rates.len() as f64 / sum.max(1e-9));
}

/// Adds up words of eight bytes, and single ones at the end.
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
    rest.iter().fold(words, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

/// Fails unless `bytes` are all `value`.
pub fn check_sum(bytes: &[u8], value: u8) {
    let words = u64::from_ne_bytes([value; 8]).wrapping_mul((bytes.len() / 8) as u64);
    let expected = words.wrapping_add(u64::from(value) * (bytes.len() % 8) as u64);
    assert_eq!(
        sum(std::hint::black_box(bytes)),
        expected,
        "a message of {} bytes of {value} arrived otherwise",
        bytes.len()
    );
}

/// The time in which things count, behind a warm-up: the same for all threads that begin together, whether they run or not.
pub struct Window {
    begin: Instant,
    end: Instant,
    from: Option<u64>,
    to: Option<u64>,
}

impl Window {
    /// A window of `time` behind a warm-up that begins at `begin`.
    pub fn of(begin: Instant, time: Duration) -> Window {
        Window { begin: begin + time / 5, end: begin + time / 5 + time, from: None, to: None }
    }

    /// Called every [`STRIDE`] messages. True once the window is over.
    pub fn look(&mut self, count: u64) -> bool {
        let now = Instant::now();
        if now >= self.begin {
            self.from.get_or_insert(count);
        }
        if now >= self.end {
            self.to.get_or_insert(count);
        }
        self.to.is_some()
    }

    /// Ends the window, if it has not ended yet.
    pub fn close(&mut self, count: u64) {
        if !self.look(count) {
            self.end = Instant::now();
            self.to = Some(count);
        }
    }

    /// How many a second.
    pub fn rate(&self) -> f64 {
        let (Some(from), Some(to)) = (self.from, self.to) else { return 0.0 };
        if self.end <= self.begin { 0.0 } else { (to - from) as f64 / (self.end - self.begin).as_secs_f64() }
    }
}

/// How long a sender streams: longer than the receiver counts, whoever began first.
pub fn stream_time(time: Duration) -> Duration {
    time + 2 * (time / 5)
}

/// The mean time of `round` in nanoseconds, after a warm-up.
pub fn mean_ns(time: Duration, mut round: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let (mut count, mut first) = (0u64, None);
    loop {
        (0..16).for_each(|_| round());
        count += 16;
        let now = Instant::now();
        if now - begin < time / 5 {
            continue;
        }
        let (from, start) = *first.get_or_insert((count, now));
        if now - begin >= time / 5 + time && count > from {
            return (now - start).as_nanos() as f64 / (count - from) as f64;
        }
    }
}
