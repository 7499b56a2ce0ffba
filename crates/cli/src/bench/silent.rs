//! Many nodes have a ring to a mail box and say nothing: does the one that talks notice?
//!
//! A ring belongs to a node, so many rings need many nodes; a few processes hold up to [`PER_PROCESS`] of them each. They
//! join by the job's name, since an invitation is for one node. Each posts once, so that its ring was in use.

use std::time::Duration;

use deck::{Door, Error, ErrorKind, Node};

use super::nodes::{LOST, Part, Placement};
use super::{Benchmark, figure, rounds};

pub const BENCHMARK: Benchmark = Benchmark {
    name: "silent",
    about: "ping-pong of 8 bytes beside many rings that say nothing",
    axis: "rings",
    points: &[2, 250],
    range: 1..=254,
    nodes: |rings| 2 + rings.div_ceil(PER_PROCESS) as u32,
    placement: Placement::Apart,
    repetitions: 3,
    time: Duration::from_secs(3),
    part,
    report: figure::report,
};

/// Silent nodes that one process holds.
const PER_PROCESS: usize = 125;

fn part(part: &Part) -> deck::Result<()> {
    let job = format!("bench-silent-{}", part.started_ns);
    let join = || Node::join_by(Door::Named(job.clone()));
    match part.role {
        0 => serve(part, join()?),
        1 => talk(part, join()?),
        _ => {
            let before = (part.role - 2) as usize * PER_PROCESS;
            let nodes: Vec<Node> =
                (before..part.at.min(before + PER_PROCESS)).map(|_| join()).collect::<deck::Result<_>>()?;
            be_silent(part, &nodes)
        }
    }
}

/// Answers the one that talks, once all others have said their word.
fn serve(part: &Part, node: Node) -> deck::Result<()> {
    let inbox = node.mailbox("bench.served")?;
    let talker = node.clone_mailbox("bench.talker", LOST)?;
    let mut message = node.message();
    for _ in 0..part.at {
        inbox.retrieve_into(&mut message, LOST)?;
    }
    message.resize(8)?;
    talker.post_shared(&message, LOST)?;
    rounds::answer(&mut message, &inbox, &talker)?;
    for role in 2..part.nodes {
        node.clone_mailbox(&format!("bench.silent.{role}"), LOST)?.post_shared(&message, LOST)?;
    }
    drop((inbox, talker, message));
    node.leave()
}

fn talk(part: &Part, node: Node) -> deck::Result<()> {
    let inbox = node.mailbox("bench.talker")?;
    let served = node.clone_mailbox("bench.served", LOST)?;
    let mut message = node.message();
    // All silent ones have said their word.
    inbox.retrieve_into(&mut message, LOST)?;
    let one_way = rounds::ping(&mut message, &inbox, &served, part.warm_up(), part.time())?;
    part.tell("ping-pong, one way", "ns", one_way)?;
    drop((inbox, served, message));
    node.leave()
}

fn be_silent(part: &Part, nodes: &[Node]) -> deck::Result<()> {
    let Some(first) = nodes.first() else {
        return Err(Error::new(ErrorKind::Invalid, "there are more processes than silent nodes"));
    };
    let inbox = first.mailbox(&format!("bench.silent.{}", part.role))?;
    let mut clones = Vec::new();
    for node in nodes {
        let clone = node.clone_mailbox("bench.served", LOST)?;
        clone.post_shared(&node.message(), LOST)?;
        clones.push(clone);
    }
    let mut message = first.message();
    inbox.retrieve_into(&mut message, LOST + 3 * part.time())?;
    drop((inbox, clones, message));
    nodes.iter().try_for_each(|node| node.clone().leave())
}
