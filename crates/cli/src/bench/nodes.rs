//! The nodes of a benchmark: starting them where they belong, and what each of them is told.
//!
//! Every node is this very command again. It is told its *role*, which says what it does and on which processor it is;
//! its number in the job is another thing, since numbers are given in order of joining.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Args;
use deck::{Error, ErrorKind};
use deck_launch::{Launch, Stream};
use deck_peers::Broker;
use deck_peers::observe::now_ns;
use indicatif::ProgressBar;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

use super::spawning::no_thread;
use super::{Benchmark, clock, cpus, figure};

/// How long nodes have to end by themselves when another one has failed: they hear of its death within a second.
const GRACE: Duration = Duration::from_secs(2);

/// A call that takes so long will not come back.
pub const LOST: Duration = Duration::from_secs(10);

/// On which processors the nodes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Role 0 on one processor of a pair, all others on the other.
    Apart,
    /// All on both processors of a pair, as the system likes.
    Together,
    /// Wherever this command may run.
    Anywhere,
}

/// What one node is told.
#[derive(Args, Clone, Debug)]
pub struct Part {
    /// Which of them it is, from 0
    pub role: u32,
    /// How many there are
    pub nodes: u32,
    /// The point that is measured
    pub at: usize,
    /// How long to measure, in nanoseconds
    pub time_ns: u64,
    /// When the first of them was about to be started: nanoseconds of the monotonic clock
    pub started_ns: u64,
}

impl Part {
    /// How long to measure.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.time_ns)
    }

    /// How long to run before that.
    pub fn warm_up(&self) -> Duration {
        clock::warm_up(self.time())
    }

    /// Tells a result to the command that started this node.
    pub fn tell(&self, what: &str, unit: &str, value: f64) -> deck::Result<()> {
        super::print(&figure::told(what, unit, value))
    }
}

/// Starts the nodes of one benchmark, again and again.
pub struct Nodes {
    pub benchmark: &'static Benchmark,
    /// The two processors for [`Placement::Apart`] and [`Placement::Together`]; none if there is only one.
    pub cpus: Vec<usize>,
    time: Duration,
}

impl Nodes {
    /// For a benchmark of which each point is measured for `time`, all repetitions together.
    pub fn of(benchmark: &'static Benchmark, time: Duration) -> Nodes {
        let pair = if benchmark.placement == Placement::Anywhere { None } else { cpus::pair() };
        Nodes { benchmark, cpus: pair.map(Vec::from).unwrap_or_default(), time }
    }

    /// Where the nodes run, in words.
    pub fn places(&self) -> String {
        match (self.benchmark.placement, self.cpus.as_slice()) {
            (Placement::Apart, [one, other]) => format!("node 0 on processor {one}, all others on {other}"),
            (Placement::Together, [one, other]) => format!("all nodes on processors {one} and {other}"),
            (Placement::Anywhere, _) => "nodes not pinned".to_owned(),
            _ => "nodes not pinned: there is one processor".to_owned(),
        }
    }

    /// Measures all points in turn, again and again: what a machine does for seconds or minutes happens to all of them.
    /// Hands the lines that the nodes of a run print to `take`, with the place of its point among `points`.
    pub fn run(
        &self,
        points: &[usize],
        bar: &ProgressBar,
        mut take: impl FnMut(usize, Vec<String>) -> deck::Result<()>,
    ) -> deck::Result<()> {
        let Benchmark { axis, repetitions, .. } = self.benchmark;
        for turn in 0..points.iter().map(|at| repetitions(*at)).max().unwrap_or(0) {
            for (place, &at) in points.iter().enumerate().filter(|(_, at)| turn < repetitions(**at)) {
                bar.set_message(format!("{axis}: {}", figure::point(axis, at)));
                take(place, self.run_once(at)?)?;
                bar.inc(1);
            }
        }
        Ok(())
    }

    fn run_once(&self, at: usize) -> deck::Result<Vec<String>> {
        let count = (self.benchmark.nodes)(at);
        let time = self.time / (self.benchmark.repetitions)(at);
        let broker = Broker::start(&format!("bench-{}", self.benchmark.name), count)?;
        let program = std::env::current_exe().map_err(|error| Error::io("finding the deck command itself", &error))?;
        let started_ns = now_ns();
        let mut started = Vec::new();
        // Nodes are on their processors before they join: that is when they look how many others share them.
        let moved = cpus::Moved::not_yet().map_err(|error| Error::io("pinning", &error))?;
        for role in 0..count {
            match (self.benchmark.placement, self.cpus.as_slice()) {
                (Placement::Apart, [one, other]) => moved.to(&[if role == 0 { *one } else { *other }]),
                (Placement::Together, pair @ [_, _]) => moved.to(pair),
                _ => Ok(()),
            }
            .map_err(|error| Error::io("pinning", &error))?;
            let numbers = [role.into(), count.into(), at as u64, time.as_nanos() as u64, started_ns];
            let told = numbers.iter().map(|number| number.to_string().into());
            let words = ["bench-node".into(), self.benchmark.name.into()];
            let mut launch = Launch::new(&program, words.into_iter().chain(told), 1);
            launch.stdout = Stream::Piped;
            started.append(&mut launch.start(|| broker.invite())?);
        }
        drop(moved);

        let (tell, told) = mpsc::channel();
        for process in &mut started {
            let tell = tell.clone();
            let lines = BufReader::new(File::from(process.stdout.take().expect("asked for")));
            let pass_on = move || lines.lines().map_while(Result::ok).all(|line| tell.send(line).is_ok());
            std::thread::Builder::new().spawn(pass_on).map_err(no_thread)?;
        }
        drop(tell);
        succeeded(started.iter().filter_map(|process| Pid::from_raw(process.pid as i32)).collect(), &told)?;
        Ok(told.iter().collect())
    }
}

/// Waits for the end of all nodes, which tell what is `told`. When one has failed, the others are ended.
fn succeeded(mut living: Vec<Pid>, told: &mpsc::Receiver<String>) -> deck::Result<()> {
    let mut all = true;
    while !living.is_empty()
        && let Ok(Some((pid, status))) = wait(WaitOptions::empty())
    {
        living.retain(|other| *other != pid);
        if status.exit_status() == Some(0) || !all {
            continue;
        }
        all = false;
        // They may fail of the same, and say so; or wait for minutes, for what does not come.
        let until = Instant::now() + GRACE;
        while told.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok() {}
        living.iter().for_each(|pid| _ = kill_process(*pid, Signal::KILL));
    }
    if all && living.is_empty() {
        return Ok(());
    }
    let error = Error::new(ErrorKind::PeerLost, "a node of the benchmark did not reach its end");
    Err(error.with_remedy("see what it printed above, and try again"))
}
