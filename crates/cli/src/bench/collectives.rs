//! Collectives among processes, and among the threads of two nodes.
//!
//! Every member calls the same collective again and again, with another root each time: so nobody can run ahead, and a
//! round is a whole one. Member 0 tells how many come next and keeps the time of these alone. Sizes are those of one
//! block: what one member gives to one other, or to all. Short calls with a root, in which a member need not wait for
//! all, are measured again in a group where they end when the member's own part is done: *own part*.
//!
//! With many members, long blocks for each of them would not fit into the memory of a small machine: these are left
//! out.

use std::time::{Duration, Instant};

use deck::group::{Call, Kind};
use deck::{Completion, Element, ElementType, Error, ErrorKind, FOREVER, Group, GroupOptions, Message, Node, Thread};
use indicatif::ProgressBar;

use super::figure::in_bytes;
use super::nodes::{LOST, Nodes, Part, Placement};
use super::{Benchmark, figure};

pub const BENCHMARK: Benchmark = Benchmark {
    name: "collectives",
    about: "barrier, bcast, allreduce and others, of processes and threads",
    axis: "members",
    points: &[2, 4, 8],
    range: 2..=32,
    nodes: |members| members as u32,
    placement: Placement::Together,
    repetitions: |_| 3,
    time: Duration::from_secs(15),
    part,
    report,
};

const BLOCKS: [usize; 3] = [8, 4 << 10, 1 << 20];
const KINDS: [Kind; 8] = [
    Kind::Bcast,
    Kind::Reduce,
    Kind::Allreduce,
    Kind::Scan,
    Kind::Gather,
    Kind::Scatter,
    Kind::Allgather,
    Kind::Alltoall,
];
/// What of these ends with the member's own part, where that is asked for.
const OWN_KINDS: [Kind; 4] = [Kind::Bcast, Kind::Reduce, Kind::Gather, Kind::Scatter];
const OWN_BLOCKS: [usize; 2] = [8, 4 << 10];
/// How calls of blocks of some size are measured.
#[derive(Clone, Copy)]
struct Pace {
    /// Rounds between two looks at the clock.
    rounds: u64,
    /// So many go before those that count, however long they take.
    warm_up: u64,
}

const SHORT: Pace = Pace { rounds: 64, warm_up: 0 };
/// In the first calls of long blocks members find out how to carry such, and touch their memory.
const LONG: Pace = Pace { rounds: 16, warm_up: 128 };
/// Bytes that all members together may have for one measure.
const MOST_BYTES: usize = 1 << 30;

/// The figures, and what is not among them.
fn report(nodes: &Nodes, points: &[usize], json: bool, bar: &ProgressBar) -> deck::Result<String> {
    let mut text = figure::report(nodes, points, json, bar)?;
    if !json {
        text.extend(points.iter().flat_map(|&members| BLOCKS.map(|bytes| left_out(bytes, members))));
    }
    Ok(text)
}

/// A line about what is not measured with these blocks and members, if there is anything.
fn left_out(bytes: usize, members: usize) -> String {
    let kinds = KINDS.iter().filter(|&&kind| !fits(kind, bytes, members));
    let names: Vec<_> = kinds.map(|kind| kind.name()).collect();
    if names.is_empty() {
        return String::new();
    }
    let (names, bytes, most) = (names.join(", "), in_bytes(bytes), in_bytes(MOST_BYTES));
    format!("\nleft out at {members} (more than {most} of memory): {names} of {bytes}")
}

/// Whether members may measure this: all have their blocks twice, in arrays and in messages.
fn fits(kind: Kind, bytes: usize, members: usize) -> bool {
    let (inputs, outputs) = blocks(kind, members);
    2 * members * (inputs + outputs) * bytes <= MOST_BYTES
}

/// How many blocks each member gives, and gets.
fn blocks(kind: Kind, members: usize) -> (usize, usize) {
    match kind {
        Kind::Bcast => (0, 1),
        Kind::Reduce | Kind::Allreduce | Kind::Scan => (1, 1),
        Kind::Gather | Kind::Allgather => (1, members),
        Kind::Scatter => (members, 1),
        _ => (members, members),
    }
}

fn part(part: &Part) -> deck::Result<()> {
    let node = Node::join()?;
    let mut group = join(&node, "bench.processes", part.nodes, part.role, Completion::Everyone)?;
    let mut own = join(&node, "bench.processes.own", part.nodes, part.role, Completion::Own)?;
    let measures = 2 * (1 + (BLOCKS.len() + 1) * KINDS.len() + OWN_BLOCKS.len() * OWN_KINDS.len()) as u32;
    let times = (part.warm_up() / measures, part.time() / measures);
    measure_all(part, &node, "", &mut group, times)?;
    measure_own(part, "", &mut own, times)?;
    // Members two by two and more in one node; nodes beyond the second sleep meanwhile.
    let nodes = if part.nodes < 4 { 1 } else { 2 };
    if part.role < nodes {
        let members = part.role * part.nodes / nodes..(part.role + 1) * part.nodes / nodes;
        let running: Vec<_> = members.map(|member| start(part, &node, member, times)).collect::<Result<_, _>>()?;
        for thread in running {
            thread.join().map_err(|_| Error::new(ErrorKind::System, "a thread of the benchmark panicked"))??;
        }
    }
    // Those who have threads may take much longer on a machine that is busy. If they fail they end, and that is told
    // here.
    group.barrier(FOREVER)?;
    drop(group);
    node.leave()
}

fn start(part: &Part, node: &Node, index: u32, times: (Duration, Duration)) -> deck::Result<Thread<deck::Result<()>>> {
    let (part, node) = (part.clone(), node.clone());
    Thread::spawn(move || {
        let mut group = join(&node, "bench.threads", part.nodes, index, Completion::Everyone)?;
        measure_all(&part, &node, "threads: ", &mut group, times)?;
        let mut own = join(&node, "bench.threads.own", part.nodes, index, Completion::Own)?;
        measure_own(&part, "threads: ", &mut own, times)
    })
}

fn join(node: &Node, name: &str, size: u32, index: u32, completion: Completion) -> deck::Result<Group> {
    Group::join_with(node, name, size, Some(index), &GroupOptions { completion }, LOST)
}

/// Measures every kind with every size; member 0 tells the results.
fn measure_all(
    part: &Part,
    node: &Node,
    prefix: &str,
    group: &mut Group,
    times: (Duration, Duration),
) -> deck::Result<()> {
    let tell = |what: &str, ns: Option<f64>| ns.map_or(Ok(()), |ns| part.tell(&format!("{prefix}{what}"), "ns", ns));
    let barrier = mean_ns(group, times, SHORT, |group, _| group.barrier(LOST))?;
    tell("barrier", barrier)?;
    for kind in KINDS {
        for bytes in BLOCKS.into_iter().filter(|&bytes| fits(kind, bytes, part.nodes as usize)) {
            let is_long = bytes >= 64 << 10;
            let pace = if is_long { LONG } else { SHORT };
            let what = format!("{}, {}", kind.name(), in_bytes(bytes));
            let mut buffers = Buffers::new(kind, bytes, group);
            let ns = mean_ns(group, times, pace, |group, round| buffers.call(group, round))?;
            buffers.check(group)?;
            tell(&what, ns)?;
            if is_long {
                let mut messages = buffers.in_messages(node)?;
                let ns = mean_ns(group, times, pace, |group, round| buffers.call_in(&mut messages, group, round))?;
                tell(&format!("{what}, in messages"), ns)?;
            }
        }
    }
    Ok(())
}

/// Measures what ends with the member's own part; member 0 tells the results.
fn measure_own(part: &Part, prefix: &str, group: &mut Group, times: (Duration, Duration)) -> deck::Result<()> {
    for kind in OWN_KINDS {
        for bytes in OWN_BLOCKS {
            let mut buffers = Buffers::new(kind, bytes, group);
            let ns = mean_ns(group, times, SHORT, |group, round| buffers.call(group, round))?;
            group.barrier(LOST)?;
            buffers.check(group)?;
            let what = format!("{prefix}{}, {}, own part", kind.name(), in_bytes(bytes));
            ns.map_or(Ok(()), |ns| part.tell(&what, "ns", ns))?;
        }
    }
    Ok(())
}

/// The mean time of a round, in member 0.
fn mean_ns(
    group: &mut Group,
    (warm_up, time): (Duration, Duration),
    pace: Pace,
    mut call: impl FnMut(&mut Group, u64) -> deck::Result<()>,
) -> deck::Result<Option<f64>> {
    // Every root has its turn.
    let rounds = pace.rounds.next_multiple_of(u64::from(group.size()));
    let (mut begin, mut warm_ups) = (Instant::now(), 0);
    let (mut spent, mut counted) = (Duration::ZERO, 0);
    loop {
        let mut next = [if begin.elapsed() < warm_up + time || counted == 0 { rounds } else { 0 }];
        group.bcast(0, &mut next, LOST)?;
        if next[0] == 0 {
            return Ok((group.index() == 0).then(|| spent.as_nanos() as f64 / counted as f64));
        }
        let start = Instant::now();
        (0..next[0]).try_for_each(|round| call(group, round))?;
        if warm_ups < pace.warm_up {
            warm_ups += next[0];
            begin = Instant::now();
        } else if start - begin >= warm_up {
            spent += start.elapsed();
            counted += next[0];
        }
    }
}

struct Buffers {
    kind: Kind,
    block: usize,
    input: Vec<f64>,
    output: Vec<f64>,
}

impl Buffers {
    /// Member i gives elements of i + 1.
    fn new(kind: Kind, bytes: usize, group: &Group) -> Buffers {
        let (block, size) = (bytes / size_of::<f64>(), group.size() as usize);
        let (inputs, outputs) = blocks(kind, size);
        let value = f64::from(group.index() + 1);
        Buffers { kind, block, input: vec![value; inputs * block], output: vec![value; outputs * block] }
    }

    fn call(&mut self, group: &mut Group, round: u64) -> deck::Result<()> {
        let call = self.call_of(group, round);
        group.call(&call, f64::as_bytes(&self.input), f64::as_bytes_mut(&mut self.output), LOST)?;
        self.after(group)
    }

    /// The same with what lies in messages.
    fn call_in(&self, [input, output]: &mut [Message; 2], group: &mut Group, round: u64) -> deck::Result<()> {
        group.call(&self.call_of(group, round), input.as_bytes(), output.edit()?, LOST)?;
        self.after(group)
    }

    fn in_messages(&self, node: &Node) -> deck::Result<[Message; 2]> {
        let mut messages = [node.message(), node.message()];
        messages[0].pack(&self.input)?;
        messages[1].pack(&self.output)?;
        Ok(messages)
    }

    fn call_of(&self, group: &Group, round: u64) -> Call {
        let root = (round % u64::from(group.size())) as u32;
        let call = Call::new(self.kind, ElementType::Double, self.block);
        if matches!(self.kind, Kind::Allreduce | Kind::Scan | Kind::Allgather | Kind::Alltoall) {
            return call;
        }
        call.rooted(root)
    }

    fn after(&self, group: &mut Group) -> deck::Result<()> {
        if self.kind == Kind::Scan { group.barrier(LOST) } else { Ok(()) }
    }

    /// What the last rounds must have left: every root had its turn.
    fn check(&self, group: &Group) -> deck::Result<()> {
        let size = group.size() as usize;
        let sum_to = |member: usize| (member * (member + 1) / 2) as f64;
        let expected = |place: usize| match self.kind {
            // Everybody has what member 0 gave first, and all gave on.
            Kind::Bcast => 1.0,
            Kind::Reduce | Kind::Allreduce => sum_to(size),
            Kind::Scan => sum_to(group.index() as usize + 1),
            Kind::Scatter => size as f64,
            _ => (place / self.block + 1) as f64,
        };
        match self.output.iter().enumerate().find(|(place, value)| **value != expected(*place)) {
            None => Ok(()),
            Some((place, value)) => {
                let what = format!("{}: element {place} is {value}, not {}", self.kind.name(), expected(place));
                Err(Error::new(ErrorKind::Corrupt, what).with_remedy("report this: results must be right"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_too_much_memory_is_left_out_and_told() {
        let told = |members| BLOCKS.map(|bytes| left_out(bytes, members)).concat();
        assert_eq!((2..=16).map(told).collect::<String>(), "");
        assert_eq!(told(17), "\nleft out at 17 (more than 1024 MiB of memory): alltoall of 1 MiB");
        let kinds = "gather, scatter, allgather, alltoall";
        assert_eq!(told(32), format!("\nleft out at 32 (more than 1024 MiB of memory): {kinds} of 1 MiB"));
    }
}
