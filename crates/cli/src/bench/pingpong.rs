//! One message to and fro between two nodes: what a message costs when nobody else is in the way.
//!
//! *Untouched* is the hand-over alone: one message is posted again and again, and comes back as it is. *Touched* is what a
//! program does with it: the sender writes every byte, the receiver adds up every byte. Node 0 keeps the time. It tells
//! node 1 how many rounds of which kind come next, so that nothing but the message itself moves in between; a round is
//! timed from the end of the one before, which reads the clock once per round, and that reading is part of the result.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use deck::{Error, ErrorKind, Mailbox, MailboxClone, Message, Node, NodeId};
use deck_launch::{Launch, Started, Stream};
use deck_peers::Broker;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::process::{Pid, WaitOptions, waitpid};
use serde::{Deserialize, Serialize};

use super::{Machine, cpus};

const SIZES: [usize; 9] = [0, 8, 62, 64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 16 << 20];

/// How long each size is measured, in each of the two ways, and run before that.
const MEASURE: Duration = Duration::from_millis(600);
const WARM_UP: Duration = Duration::from_millis(100);
/// About how long the two nodes run without a word about how to go on.
const BATCH: Duration = Duration::from_millis(20);
/// A hand-over that takes so long is lost.
const LOST: Duration = Duration::from_secs(10);
/// The most rounds that are kept for one result.
const SAMPLES: usize = 4 << 20;

/// One-way times of one size, in nanoseconds: half a round trip each.
#[derive(Debug, Serialize, Deserialize)]
struct Times {
    median_ns: f64,
    p99_ns: f64,
    min_ns: f64,
    rounds: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    bytes: usize,
    untouched: Times,
    touched: Times,
}

#[derive(Debug, Serialize)]
struct Report {
    benchmark: &'static str,
    version: &'static str,
    machine: Machine,
    pinned: bool,
    cpus: Vec<usize>,
    rounds: u64,
    sizes: Vec<Row>,
}

/// Measures, shows how far it is on a terminal, and prints the result.
pub fn run(json: bool) -> deck::Result<()> {
    let cpus = cpus::pair().map(Vec::from).unwrap_or_default();
    let bar = ProgressBar::with_draw_target(Some(2 * SIZES.len() as u64), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("pingpong {bar:36} {msg}").expect("a template that was tried"));
    let sizes = measure(&cpus, &bar)?;
    bar.finish_and_clear();

    let report = Report {
        benchmark: "pingpong",
        version: deck::VERSION,
        machine: Machine::here(),
        pinned: !cpus.is_empty(),
        cpus,
        rounds: sizes.iter().map(|row| row.untouched.rounds + row.touched.rounds).sum(),
        sizes,
    };
    let text = if json {
        serde_json::to_string(&report).expect("a report is plain numbers and text")
    } else {
        in_words(&report)
    };
    writeln!(std::io::stdout(), "{text}").map_err(|error| {
        Error::system("printing the result", error.raw_os_error().unwrap_or(libc::EIO)).with_remedy("print elsewhere")
    })
}

fn measure(cpus: &[usize], bar: &ProgressBar) -> deck::Result<Vec<Row>> {
    let broker = Broker::start("bench-pingpong", 2)?;
    let program = std::env::current_exe()
        .map_err(|error| Error::system("finding the deck command itself", error.raw_os_error().unwrap_or(libc::EIO)))?;
    let mut launch = Launch::new(program, ["bench-node".into(), "pingpong".into()], 2);
    launch.stdout = Stream::Piped;
    let pinning = |error: io::Error| Error::system("pinning", error.raw_os_error().unwrap_or(libc::EIO));
    // Nodes are on their processors before they join: that is when they look how many others share them.
    let moved = cpus::Moved::not_yet().map_err(pinning)?;
    let mut cpus = cpus.iter();
    let mut started = launch.start(|| {
        cpus.next().map_or(Ok(()), |cpu| moved.to(*cpu)).map_err(pinning)?;
        broker.invite()
    })?;
    drop(moved);

    let (tell, told) = mpsc::channel();
    for process in &mut started {
        let tell = tell.clone();
        let lines = BufReader::new(File::from(process.stdout.take().expect("asked for")));
        std::thread::spawn(move || lines.lines().map_while(Result::ok).all(|line| tell.send(line).is_ok()));
    }
    drop(tell);
    let mut results: Vec<Times> = Vec::new();
    for line in told {
        let times = serde_json::from_str(&line).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("a node of the benchmark printed {line:?} ({error})"))
        })?;
        results.push(times);
        bar.inc(1);
        bar.set_message(SIZES.get(results.len() / 2).map(|&bytes| in_bytes(bytes)).unwrap_or_default());
    }
    succeeded(&started)?;
    // Each size gives two results, untouched first.
    let mut results = results.into_iter();
    let rows =
        SIZES.iter().map_while(|&bytes| Some(Row { bytes, untouched: results.next()?, touched: results.next()? }));
    let rows: Vec<Row> = rows.collect();
    if rows.len() == SIZES.len() {
        return Ok(rows);
    }
    Err(Error::new(ErrorKind::Corrupt, format!("only {} of {} sizes were measured", rows.len(), SIZES.len())))
}

fn succeeded(started: &[Started]) -> deck::Result<()> {
    let mut all = true;
    for process in started {
        let ended = waitpid(Pid::from_raw(process.pid as i32), WaitOptions::empty());
        all &= matches!(ended, Ok(Some((_, status))) if status.exit_status() == Some(0));
    }
    if all {
        return Ok(());
    }
    let error = Error::new(ErrorKind::PeerLost, "a node of the benchmark did not reach its end");
    Err(error.with_remedy("see what it printed above, and try again"))
}

fn in_words(report: &Report) -> String {
    let where_ = match report.cpus.as_slice() {
        [one, other] => format!("one node on processor {one}, the other on {other}"),
        _ => "nodes not pinned: there is one processor".to_owned(),
    };
    let Machine { cpu, cores, kernel } = &report.machine;
    let mut text = format!(
        "pingpong: one way between two nodes, half of a round trip ({} rounds)\n\
         {cpu}, {cores} cores, Linux {kernel}, deck {}; {where_}\n\n\
         {:>8}  {:^32}      {}\n{:>8}",
        report.rounds, report.version, "", "handed over untouched", "each byte written and read", "size"
    );
    text += &format!("  {:>10} {:>10} {:>10}", "median", "p99", "min").repeat(2);
    for Row { bytes, untouched, touched } in &report.sizes {
        text += &format!("\n{:>8}", in_bytes(*bytes));
        for times in [untouched, touched] {
            let [median, p99, min] = [times.median_ns, times.p99_ns, times.min_ns].map(in_time);
            text += &format!("  {median:>10} {p99:>10} {min:>10}");
        }
    }
    text
}

fn in_bytes(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn in_time(ns: f64) -> String {
    match ns {
        ..1e4 => format!("{ns:.0} ns"),
        ..1e7 => format!("{:.1} us", ns / 1e3),
        _ => format!("{:.2} ms", ns / 1e6),
    }
}

/// What comes next.
#[derive(Clone, Copy)]
struct Batch {
    is_touched: bool,
    bytes: usize,
    /// 0 is the end.
    rounds: usize,
}

/// One node of the two.
pub fn node() -> deck::Result<()> {
    let node = Node::join()?;
    let NodeId(number) = node.number();
    let (own, other) = match number {
        0 => ("bench.ping", "bench.pong"),
        1 => ("bench.pong", "bench.ping"),
        _ => return Err(Error::new(ErrorKind::Invalid, format!("{} is one too many", node.number()))),
    };
    {
        let inbox = node.mailbox(own)?;
        let to = node.clone_mailbox(other, LOST)?;
        let mut side = Side { inbox, to, sent: node.message(), received: node.message() };
        if number == 0 { side.keep_time() } else { side.answer() }?;
    }
    node.leave()
}

struct Side {
    inbox: Mailbox,
    to: MailboxClone,
    sent: Message,
    received: Message,
}

impl Side {
    fn keep_time(&mut self) -> deck::Result<()> {
        let mut samples: Vec<u32> = Vec::with_capacity(SAMPLES);
        for bytes in SIZES {
            for is_touched in [false, true] {
                let round = self.repeat(is_touched, bytes, BATCH, WARM_UP, &mut samples)?;
                self.repeat(is_touched, bytes, round, MEASURE, &mut samples)?;
                let line = serde_json::to_string(&summary(&mut samples)).expect("numbers");
                // If nobody reads this any more, nobody needs the rest.
                writeln!(std::io::stdout(), "{line}")
                    .map_err(|error| Error::system("telling the result", error.raw_os_error().unwrap_or(libc::EIO)))?;
            }
        }
        self.announce(Batch { is_touched: false, bytes: 0, rounds: 0 })
    }

    /// Runs rounds for as long as `time`; `round` is about what one takes. Leaves the round trips in `samples`, and
    /// returns their mean.
    fn repeat(
        &mut self,
        is_touched: bool,
        bytes: usize,
        mut round: Duration,
        time: Duration,
        samples: &mut Vec<u32>,
    ) -> deck::Result<Duration> {
        samples.clear();
        let start = Instant::now();
        while start.elapsed() < time && samples.len() < SAMPLES {
            let rounds = BATCH.as_nanos() / round.as_nanos().max(1);
            let rounds = (rounds as usize).clamp(1, SAMPLES - samples.len());
            let batch = Batch { is_touched, bytes, rounds };
            self.announce(batch)?;
            let first = samples.len();
            self.ping(batch, samples)?;
            let total: u64 = samples[first..].iter().map(|&ns| u64::from(ns)).sum();
            round = Duration::from_nanos(total / rounds as u64);
        }
        Ok(round)
    }

    fn announce(&mut self, batch: Batch) -> deck::Result<()> {
        self.sent.clear();
        self.sent.pack(&[u64::from(batch.is_touched), batch.bytes as u64, batch.rounds as u64])?;
        self.to.post_shared(&self.sent, LOST)
    }

    fn ping(&mut self, batch: Batch, samples: &mut Vec<u32>) -> deck::Result<()> {
        self.sent.resize(batch.bytes)?;
        let mut before = Instant::now();
        for round in 0..batch.rounds {
            if batch.is_touched {
                self.write(batch.bytes, round as u8)?;
            }
            self.to.post_shared(&self.sent, LOST)?;
            self.inbox.retrieve_into(&mut self.received, LOST)?;
            if batch.is_touched {
                self.read(batch.bytes, round as u8)?;
            }
            let now = Instant::now();
            samples.push((now - before).as_nanos().try_into().unwrap_or(u32::MAX));
            before = now;
        }
        Ok(())
    }

    fn answer(&mut self) -> deck::Result<()> {
        loop {
            self.inbox.retrieve_into(&mut self.received, LOST)?;
            let mut next = [0u64; 3];
            self.received.unpack(&mut next)?;
            let [is_touched, bytes, rounds] = next.map(|word| word as usize);
            if rounds == 0 {
                return Ok(());
            }
            self.pong(Batch { is_touched: is_touched != 0, bytes, rounds })?;
        }
    }

    fn pong(&mut self, batch: Batch) -> deck::Result<()> {
        for round in 0..batch.rounds {
            self.inbox.retrieve_into(&mut self.received, LOST)?;
            if batch.is_touched {
                self.read(batch.bytes, round as u8)?;
                self.write(batch.bytes, round as u8)?;
                self.to.post_shared(&self.sent, LOST)?;
            } else {
                self.to.post_shared(&self.received, LOST)?;
            }
        }
        Ok(())
    }

    /// Writes every byte of the next message.
    fn write(&mut self, bytes: usize, value: u8) -> deck::Result<()> {
        self.sent.resize(bytes)?;
        self.sent.edit()?.fill(value);
        Ok(())
    }

    /// Adds up every byte of the message that came, and gives its buffer back before the other side wants to write again.
    fn read(&mut self, bytes: usize, value: u8) -> deck::Result<()> {
        let sum = sum(black_box(self.received.as_bytes()));
        self.received.clear();
        if sum == expected_sum(bytes, value) {
            return Ok(());
        }
        let what = format!("a message of {bytes} bytes of {value} arrived with the sum {sum}");
        Err(Error::new(ErrorKind::Corrupt, what).with_remedy("report this: messages must arrive as they were posted"))
    }
}

/// Adds up words of eight bytes, and single ones at the end: as fast as memory can be read, unlike byte by byte.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
    rest.iter().fold(words, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

/// The [`sum`] of `bytes` bytes that are all `value`.
fn expected_sum(bytes: usize, value: u8) -> u64 {
    let words = u64::from_ne_bytes([value; 8]).wrapping_mul((bytes / 8) as u64);
    words.wrapping_add(u64::from(value) * (bytes % 8) as u64)
}

/// Sums up round trips as one-way times.
fn summary(round_trips: &mut [u32]) -> Times {
    let mut at = |share: f64| {
        let index = ((round_trips.len() - 1) as f64 * share).round() as usize;
        f64::from(*round_trips.select_nth_unstable(index).1) / 2.0
    };
    Times { median_ns: at(0.5), p99_ns: at(0.99), min_ns: at(0.0), rounds: round_trips.len() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_halves_round_trips() {
        let mut round_trips: Vec<u32> = (1..=101).map(|number| number * 10).rev().collect();
        let times = summary(&mut round_trips);
        assert_eq!((times.min_ns, times.median_ns, times.p99_ns, times.rounds), (5.0, 255.0, 500.0, 101));
    }

    #[test]
    fn every_byte_counts_in_a_sum() {
        for bytes in [0, 1, 7, 8, 62, 64, 1000] {
            let mut content = vec![201; bytes];
            assert_eq!(sum(&content), expected_sum(bytes, 201));
            for at in 0..bytes {
                content[at] += 1;
                assert_ne!(sum(&content), expected_sum(bytes, 201), "byte {at} of {bytes}");
                content[at] -= 1;
            }
        }
    }

    #[test]
    fn times_and_sizes_are_shown_in_their_own_units() {
        assert_eq!(
            ["140 ns", "12.3 us", "25.00 ms"],
            [140.2, 12_345.0, 25e6].map(in_time).each_ref().map(String::as_str)
        );
        assert_eq!(["62 B", "4 KiB", "16 MiB"], [62, 4096, 16 << 20].map(in_bytes).each_ref().map(String::as_str));
    }
}
