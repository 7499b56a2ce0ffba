//! `deck bench`: what this machine does, measured now.
//!
//! A benchmark is a line in [`ALL`]: how many nodes it takes, where they run, what each of them does. It is measured at
//! some *points* (sizes, threads, nodes), at each several times with fresh nodes; what counts is the median.

mod bandwidth;
mod channels;
mod clock;
mod collectives;
mod content;
mod cpus;
mod fan_in;
mod figure;
mod idle;
mod memory;
mod nodes;
mod oversubscribed;
mod pingpong;
mod rate;
mod reading;
mod rounds;
mod shared;
mod silent;
mod spawning;
mod start;
mod stream;
mod threads;
mod wake;

use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

pub use nodes::Part;
use nodes::{Nodes, Placement};

use crate::result;

/// What a benchmark consists of.
pub struct Benchmark {
    /// What users call it.
    pub name: &'static str,
    /// What it measures, in one line.
    pub about: &'static str,
    /// What its points are.
    axis: &'static str,
    points: &'static [usize],
    /// What may be asked for instead: what a job can be, and a machine can do in the time that a benchmark waits for
    /// it.
    range: RangeInclusive<usize>,
    /// How many nodes a point takes.
    nodes: fn(usize) -> u32,
    placement: Placement,
    /// How often a point is measured, with fresh nodes.
    repetitions: fn(usize) -> u32,
    /// How long each point is measured if nobody says otherwise; all repetitions together.
    time: Duration,
    /// What each node does.
    part: fn(&Part) -> deck::Result<()>,
    /// Measures at these points and tells the results, as JSON or not.
    report: fn(&Nodes, &[usize], bool, &ProgressBar) -> deck::Result<String>,
}

/// All that this version has.
pub const ALL: &[Benchmark] = &[
    pingpong::BENCHMARK,
    bandwidth::BENCHMARK,
    rate::BENCHMARK,
    threads::BENCHMARK,
    fan_in::BENCHMARK,
    oversubscribed::BENCHMARK,
    collectives::BENCHMARK,
    channels::BENCHMARK,
    shared::BENCHMARK,
    silent::BENCHMARK,
    idle::BENCHMARK,
    wake::BENCHMARK,
    memory::BENCHMARK,
    start::BENCHMARK,
];

/// The names of all, as a sentence lists them.
pub fn names() -> String {
    ALL.iter().map(|benchmark| benchmark.name).collect::<Vec<_>>().join(", ")
}

/// All with what they measure, and where.
pub fn list() -> String {
    let entry = |benchmark: &Benchmark| {
        let Benchmark { name, about, time, .. } = benchmark;
        format!("\n  {name:<15}{about}\n{:17}--at {}; {} s for each", "", benchmark.in_words(), time.as_secs_f64())
    };
    ALL.iter().map(entry).collect()
}

impl Benchmark {
    /// Whether these points can be measured; otherwise why not.
    pub fn check(&self, points: &[usize]) -> Result<(), String> {
        let other = points.iter().find(|point| !self.range.contains(point));
        other.map_or(Ok(()), |point| Err(format!("{} is measured at {}, not at {point}", self.name, self.in_words())))
    }

    /// The range as it is typed.
    fn in_words(&self) -> String {
        let [from, to] = [self.range.start(), self.range.end()].map(|end| match end >> 20 {
            0 => end.to_string(),
            mebi => format!("{mebi}M"),
        });
        format!("{from} to {to} {}", self.axis)
    }
}

/// The benchmark that users call `name`.
pub fn of(name: &str) -> Option<&'static Benchmark> {
    ALL.iter().find(|benchmark| benchmark.name == name)
}

/// What the user wants.
pub struct Options {
    /// Which.
    pub benchmark: &'static Benchmark,
    /// Whether the result is for a program.
    pub json: bool,
    /// Points instead of the usual ones.
    pub points: Option<Vec<usize>>,
    /// How long each point is measured.
    pub time: Option<Duration>,
}

/// The machine that was measured.
#[derive(Debug, Serialize)]
struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
}

impl Machine {
    fn here() -> Machine {
        let described = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = described.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Machine {
            cpu: model.map_or(std::env::consts::ARCH, |(_, model)| model.trim()).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        }
    }
}

/// Measures, shows on a terminal how far it is, and prints: a table, or one JSON object.
pub fn run(options: &Options) -> ExitCode {
    let benchmark = options.benchmark;
    let points = options.points.as_deref().unwrap_or(benchmark.points);
    let steps: u32 = points.iter().map(|at| (benchmark.repetitions)(*at)).sum();
    let bar = ProgressBar::with_draw_target(Some(steps.into()), ProgressDrawTarget::stderr());
    let style = format!("{} {{bar:36}} {{msg}}", benchmark.name);
    bar.set_style(ProgressStyle::with_template(&style).expect("a template that was tried"));

    let nodes = Nodes::of(benchmark, options.time.unwrap_or(benchmark.time));
    let result = (benchmark.report)(&nodes, points, options.json, &bar);
    bar.finish_and_clear();
    status("deck bench", result.and_then(|text| print(&text)))
}

/// Takes part in a measurement, as a node that [`run`] has started.
pub fn node(benchmark: &Benchmark, part: &Part) -> ExitCode {
    status("deck bench, in one of its nodes", (benchmark.part)(part))
}

fn print(line: &str) -> deck::Result<()> {
    result::print(&format!("{line}\n"))
}

fn status(who: &str, result: deck::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            result::remark(who, error);
            ExitCode::FAILURE
        }
    }
}
