//! Many nodes have a ring to a mail box and say nothing: does the one that talks notice?
//!
//! A ring belongs to a node, or is the lane of one of its threads. A few processes hold up to [`PER_PROCESS`] nodes
//! each, which join by the job's name, since an invitation is for one node. Up to [`NODES`] rings are nodes that have
//! posted once; for more, each node has [`LANES`] threads that contend until they have lanes, and are silent ever
//! after.

use std::time::{Duration, Instant};

use deck::{Door, Error, ErrorKind, Mailbox, MailboxClone, Message, Node};

use super::nodes::{LOST, Part, Placement};
use super::spawning::spawn;
use super::{Benchmark, figure, rounds};

pub const BENCHMARK: Benchmark = Benchmark {
    name: "silent",
    about: "ping-pong of 8 bytes beside many rings that say nothing",
    axis: "rings",
    points: &[2, 250, 1000],
    range: 1..=1008,
    nodes: |rings| 2 + silent_nodes(rings).div_ceil(PER_PROCESS) as u32,
    placement: Placement::Apart,
    repetitions: |_| 3,
    time: Duration::from_secs(3),
    part,
    report: figure::report,
};

/// Silent nodes that one process holds.
const PER_PROCESS: usize = 125;
/// So many rings are those of as many nodes.
const NODES: usize = 250;
/// Lanes of a node, where there are more.
const LANES: usize = 15;

fn silent_nodes(rings: usize) -> usize {
    if rings <= NODES { rings } else { rings.div_ceil(1 + LANES) }
}

/// Lanes of the silent node with this index.
fn lanes(rings: usize, index: usize) -> usize {
    if rings <= NODES { 0 } else { (rings - index * (1 + LANES) - 1).min(LANES) }
}

fn part(part: &Part) -> deck::Result<()> {
    let job = format!("bench-silent-{}", part.started_ns);
    let join = || Node::join_by(Door::Named(job.clone()));
    match part.role {
        0 => serve(part, join()?),
        1 => talk(part, join()?),
        _ => {
            let before = (part.role - 2) as usize * PER_PROCESS;
            let nodes: Vec<Node> = (before..silent_nodes(part.at).min(before + PER_PROCESS))
                .map(|_| join())
                .collect::<deck::Result<_>>()?;
            be_silent(part, before, &nodes)
        }
    }
}

/// How long it may take until all are silent: threads that contend are many for few processors.
const SETTLING: Duration = Duration::from_secs(300);

/// Bytes of the message with which the words of a process end; all before are empty.
const END: usize = 1;

/// Answers the one that talks, once all others have said their word.
fn serve(part: &Part, node: Node) -> deck::Result<()> {
    let inbox = node.mailbox("bench.served")?;
    let talker = node.clone_mailbox("bench.talker", LOST)?;
    let mut message = node.message();
    hear_out(&inbox, &mut message, part.nodes as usize - 2)?;
    message.resize(8)?;
    talker.post_shared(&message, LOST)?;
    rounds::answer(&mut message, &inbox, &talker)?;
    for role in 2..part.nodes {
        node.clone_mailbox(&format!("bench.silent.{role}"), LOST)?.post_shared(&message, LOST)?;
    }
    drop((inbox, talker, message));
    node.leave()
}

/// Retrieves until so many processes have come to the end of their words, and what is left of them.
fn hear_out(inbox: &Mailbox, message: &mut Message, processes: usize) -> deck::Result<()> {
    let mut ended = 0;
    while ended < processes {
        inbox.retrieve_into(message, SETTLING)?;
        ended += usize::from(message.size() == END);
    }
    // It was posted before the ends, but in other rings.
    loop {
        match inbox.retrieve_into(message, Duration::from_millis(10)) {
            Err(error) if error.kind() == ErrorKind::Timeout => return Ok(()),
            heard => heard?,
        };
    }
}

fn talk(part: &Part, node: Node) -> deck::Result<()> {
    let inbox = node.mailbox("bench.talker")?;
    let served = node.clone_mailbox("bench.served", LOST)?;
    let mut message = node.message();
    // All silent ones have said their word.
    inbox.retrieve_into(&mut message, SETTLING)?;
    let one_way = rounds::ping(&mut message, &inbox, &served, part.warm_up(), part.time())?;
    part.tell("ping-pong, one way", "ns", one_way)?;
    drop((inbox, served, message));
    node.leave()
}

/// The silent nodes from the one with index `before` on.
fn be_silent(part: &Part, before: usize, nodes: &[Node]) -> deck::Result<()> {
    let Some(first) = nodes.first() else {
        return Err(Error::new(ErrorKind::Invalid, "there are more processes than silent nodes"));
    };
    let inbox = first.mailbox(&format!("bench.silent.{}", part.role))?;
    let until = Instant::now() + SETTLING;
    let mut clones = Vec::new();
    for (index, node) in (before..).zip(nodes) {
        let clone = node.clone_mailbox("bench.served", LOST)?;
        clone.post_shared(&node.message(), LOST)?;
        make_lanes(node, &clone, lanes(part.at, index), until)?;
        clones.push(clone);
    }
    let mut message = first.message();
    message.resize(END)?;
    clones[0].post_shared(&message, LOST)?;
    inbox.retrieve_into(&mut message, SETTLING + LOST + 3 * part.time())?;
    drop((inbox, clones, message));
    nodes.iter().try_for_each(|node| node.clone().leave())
}

/// Has threads contend until so many of them have lanes, which outlive them.
fn make_lanes(node: &Node, clone: &MailboxClone, lanes: usize, until: Instant) -> deck::Result<()> {
    let has_lanes = || clone.stats().lanes >= lanes as u64;
    if has_lanes() {
        return Ok(());
    }
    let make_noise = || -> deck::Result<()> {
        let message = node.message();
        while !has_lanes() && Instant::now() < until {
            clone.post_shared(&message, LOST)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        // One that is always first at the common ring stays there.
        let threads = (0..=lanes).map(|_| spawn(scope, make_noise)).collect::<deck::Result<Vec<_>>>()?;
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    if has_lanes() {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::Timeout, format!("{} lanes of {lanes} within {SETTLING:?}", clone.stats().lanes)))
    }
}
