//! One message to and fro between two nodes: what a message costs when nobody else is in the way.
//!
//! *Untouched* is the hand-over alone: one message is posted again and again, and comes back as it is. *Touched* is
//! what a program does with it: the sender writes every byte, the receiver adds up every byte. Node 0 keeps the time.
//! It tells node 1 how many rounds of which kind come next, so that nothing but the message itself moves in between.
//! Rounds are timed in groups of some microseconds (large messages one by one), so that reading the clock is no part of
//! the result.

use std::time::{Duration, Instant};

use deck::{Error, ErrorKind, Mailbox, MailboxClone, Message, Node};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use super::clock::{SAMPLES, group, one_way_ns};
use super::figure::{in_bytes, in_unit, not_understood};
use super::nodes::{LOST, Nodes, Part, Placement};
use super::{Benchmark, Machine, content, reading};
use crate::result::counted;

pub const BENCHMARK: Benchmark = Benchmark {
    name: "pingpong",
    about: "one message to and fro between two nodes, untouched and touched",
    axis: "bytes",
    points: &[0, 8, 62, 64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 16 << 20],
    range: 0..=256 << 20,
    nodes: |_| 2,
    placement: Placement::Apart,
    // Where the nodes' lines come to lie makes some nanoseconds. Long messages take a while until all is as it will be.
    repetitions: |bytes| if bytes <= LONG { 5 } else { 1 },
    time: Duration::from_millis(1200),
    part,
    report,
};

/// More bytes than this are many rounds' time for what the first ones find new.
const LONG: usize = 64 << 10;
/// About how long the two nodes run without a word about how to go on.
const BATCH: Duration = Duration::from_millis(20);

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
struct Report<'a> {
    benchmark: &'static str,
    version: &'static str,
    machine: Machine,
    pinned: bool,
    cpus: &'a [usize],
    rounds: u64,
    sizes: Vec<Row>,
}

/// Measures all sizes.
pub fn report(nodes: &Nodes, sizes: &[usize], json: bool, bar: &ProgressBar) -> deck::Result<String> {
    let mut all: Vec<[Vec<Times>; 2]> = sizes.iter().map(|_| Default::default()).collect();
    nodes.run(sizes, bar, |place, lines| {
        let [untouched, touched] = &lines[..] else {
            let what = format!("{} results instead of 2 at {} bytes", lines.len(), sizes[place]);
            return Err(Error::new(ErrorKind::Corrupt, what));
        };
        for (times, line) in all[place].iter_mut().zip([untouched, touched]) {
            times.push(serde_json::from_str(line).map_err(|error| not_understood(line, &error))?);
        }
        Ok(())
    })?;
    let rows: Vec<Row> = sizes
        .iter()
        .zip(&all)
        .map(|(&bytes, times)| {
            let [untouched, touched] = times.each_ref().map(|times| merged(times));
            Row { bytes, untouched, touched }
        })
        .collect();
    let report = Report {
        benchmark: BENCHMARK.name,
        version: deck::VERSION,
        machine: Machine::here(),
        pinned: !nodes.cpus.is_empty(),
        cpus: &nodes.cpus,
        rounds: rows.iter().map(|row| row.untouched.rounds + row.touched.rounds).sum(),
        sizes: rows,
    };
    Ok(if json {
        serde_json::to_string(&report).expect("a report is plain numbers and text")
    } else {
        in_words(&report, &nodes.places())
    })
}

/// Of all repetitions the median of each figure, and the shortest time.
fn merged(times: &[Times]) -> Times {
    let median = |figure: fn(&Times) -> f64| {
        let mut values: Vec<f64> = times.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Times {
        median_ns: median(|times| times.median_ns),
        p99_ns: median(|times| times.p99_ns),
        min_ns: times.iter().map(|times| times.min_ns).fold(f64::INFINITY, f64::min),
        rounds: times.iter().map(|times| times.rounds).sum(),
    }
}

fn in_words(report: &Report, places: &str) -> String {
    let Machine { cpu, cores, kernel } = &report.machine;
    let cores = counted(*cores, "core", "cores");
    let mut text = format!(
        "pingpong: one way between two nodes, half of a round trip ({} rounds)\n\
         {cpu}, {cores}, Linux {kernel}, deck {}; {places}\n\n\
         {:>8}  {:^32}      {}\n{:>8}",
        report.rounds, report.version, "", "handed over untouched", "each byte written and read", "size"
    );
    text += &format!("  {:>10} {:>10} {:>10}", "median", "p99", "min").repeat(2);
    for Row { bytes, untouched, touched } in &report.sizes {
        text += &format!("\n{:>8}", in_bytes(*bytes));
        for times in [untouched, touched] {
            let [median, p99, min] = [times.median_ns, times.p99_ns, times.min_ns].map(|ns| in_unit(ns, "ns"));
            text += &format!("  {median:>10} {p99:>10} {min:>10}");
        }
    }
    text
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
fn part(part: &Part) -> deck::Result<()> {
    let node = Node::join()?;
    let (own, other) = if part.role == 0 { ("bench.ping", "bench.pong") } else { ("bench.pong", "bench.ping") };
    {
        let inbox = node.mailbox(own)?;
        let to = node.clone_mailbox(other, LOST)?;
        let mut side = Side { inbox, to, sent: node.message(), received: node.message() };
        if part.role == 0 { side.keep_time(part) } else { side.answer() }?;
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
    fn keep_time(&mut self, part: &Part) -> deck::Result<()> {
        let mut samples = Samples { group: 1, times: Vec::with_capacity(SAMPLES) };
        let bytes = part.at;
        for is_touched in [false, true] {
            samples.group = 1;
            let round = self.repeat(is_touched, bytes, BATCH, part.warm_up() / 2, &mut samples)?;
            samples.group = group(round);
            self.repeat(is_touched, bytes, round, part.time() / 2, &mut samples)?;
            super::print(&serde_json::to_string(&summary(&mut samples)).expect("numbers"))?;
        }
        self.announce(Batch { is_touched: false, bytes: 0, rounds: 0 })
    }

    /// Runs rounds for as long as `time`; `round` is about what one takes. Leaves the times of groups in `samples`, and
    /// returns the mean of a round.
    fn repeat(
        &mut self,
        is_touched: bool,
        bytes: usize,
        mut round: Duration,
        time: Duration,
        samples: &mut Samples,
    ) -> deck::Result<Duration> {
        samples.times.clear();
        let start = Instant::now();
        while samples.times.is_empty() || start.elapsed() < time && samples.times.len() < SAMPLES {
            let groups = BATCH.as_nanos() / (round.as_nanos().max(1) * samples.group as u128);
            let rounds = (groups as usize).clamp(1, SAMPLES - samples.times.len()) * samples.group;
            let batch = Batch { is_touched, bytes, rounds };
            self.announce(batch)?;
            let first = samples.times.len();
            self.ping(batch, samples)?;
            let total: Duration = samples.times[first..].iter().sum();
            round = total / rounds as u32;
        }
        Ok(round)
    }

    fn announce(&mut self, batch: Batch) -> deck::Result<()> {
        self.sent.clear();
        self.sent.pack(&[u64::from(batch.is_touched), batch.bytes as u64, batch.rounds as u64])?;
        self.to.post_shared(&self.sent, LOST)
    }

    fn ping(&mut self, batch: Batch, samples: &mut Samples) -> deck::Result<()> {
        self.sent.resize(batch.bytes)?;
        let mut before = Instant::now();
        for round in 1..=batch.rounds {
            if batch.is_touched {
                self.write(batch.bytes, round as u8)?;
            }
            self.to.post_shared(&self.sent, LOST)?;
            self.inbox.retrieve_into(&mut self.received, LOST)?;
            if batch.is_touched {
                self.read(batch.bytes, round as u8)?;
            }
            if round.is_multiple_of(samples.group) {
                let now = Instant::now();
                samples.times.push(now - before);
                before = now;
            }
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
        self.sent.resize(batch.bytes)?;
        for round in 1..=batch.rounds {
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

    /// Writes every byte of the next message, which is as long as the last one.
    fn write(&mut self, bytes: usize, value: u8) -> deck::Result<()> {
        // The other side may still hold what was handed over.
        if bytes > reading::COPIED {
            self.sent.resize(bytes)?;
        }
        self.sent.edit()?.fill(value);
        Ok(())
    }

    /// Adds up every byte of the message that came, and gives what was handed over back before the other side wants to
    /// write again.
    fn read(&mut self, bytes: usize, value: u8) -> deck::Result<()> {
        let sum = reading::sum(&self.received);
        if bytes > reading::COPIED {
            self.received.clear();
        }
        if sum == content::expected_sum(bytes, value) {
            return Ok(());
        }
        let what = format!("a message of {bytes} bytes of {value} arrived with the sum {sum}");
        Err(Error::new(ErrorKind::Corrupt, what).with_remedy("report this: messages must arrive as they were posted"))
    }
}

/// Times of groups of round trips.
struct Samples {
    /// Round trips in each.
    group: usize,
    times: Vec<Duration>,
}

/// Sums up groups of round trips as one-way times.
fn summary(samples: &mut Samples) -> Times {
    let Samples { group, times } = samples;
    let [median_ns, p99_ns, min_ns] = [0.5, 0.99, 0.0].map(|share| one_way_ns(times, *group, share));
    Times { median_ns, p99_ns, min_ns, rounds: (times.len() * *group) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_halves_round_trips_and_divides_by_the_group() {
        let times = (1..=101).map(|number| Duration::from_nanos(number * 40)).rev().collect();
        let times = summary(&mut Samples { group: 4, times });
        assert_eq!((times.min_ns, times.median_ns, times.p99_ns, times.rounds), (5.0, 255.0, 500.0, 404));
    }

    #[test]
    fn repetitions_have_the_median_of_their_figures_and_the_shortest_time_of_all() {
        let times = |median_ns, p99_ns, min_ns| Times { median_ns, p99_ns, min_ns, rounds: 10 };
        let merged = merged(&[times(90.0, 100.0, 80.0), times(70.0, 400.0, 60.0), times(80.0, 200.0, 75.0)]);
        assert_eq!((merged.median_ns, merged.p99_ns, merged.min_ns, merged.rounds), (80.0, 200.0, 60.0, 30));
    }
}
