//! What all peers written in Rust share: the command line, processors, result lines. See `bench/peers/peer.h`.
//!
//! How time is taken and content is read are the files of `deck bench` itself: if one side changes, both do.

#![forbid(unsafe_code)]

#[path = "../../../../crates/cli/src/bench/clock.rs"]
pub mod clock;
#[path = "../../../../crates/cli/src/bench/content.rs"]
pub mod content;
pub mod processes;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use clock::Window;
use rustix::thread::{CpuSet, sched_setaffinity};

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
    let (sum, slowest) = clock::shared_out(rates);
    tell(rates.len(), what, "messages/s", sum);
    tell(rates.len(), &format!("{what}, slowest"), "of mean", slowest);
}

/// Fails unless `bytes` are all `value`.
pub fn check_sum(bytes: &[u8], value: u8) {
    assert_eq!(
        content::sum(std::hint::black_box(bytes)),
        content::expected_sum(bytes.len(), value),
        "a message of {} bytes of {value} arrived otherwise",
        bytes.len()
    );
}

/// The window of `time` behind a warm-up that begins at `begin`.
pub fn window(begin: Instant, time: Duration) -> Window {
    Window::new(begin, clock::warm_up(time), time)
}

/// How long a sender streams.
pub fn stream_time(time: Duration) -> Duration {
    clock::sending(clock::warm_up(time), time)
}
