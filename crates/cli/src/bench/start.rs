//! Starting a job: from before the first process is made until every node has met node 0 and has been answered.

use std::time::Duration;

use deck::{MailboxClone, Node};
use deck_peers::observe::now_ns;

use super::nodes::{LOST, Part, Placement};
use super::{Benchmark, figure};

pub const BENCHMARK: Benchmark = Benchmark {
    name: "start",
    about: "from the start of the first process until all nodes have met",
    axis: "nodes",
    points: &[2, 8, 64],
    range: 2..=256,
    nodes: |nodes| nodes as u32,
    placement: Placement::Anywhere,
    repetitions: |_| 5,
    time: Duration::from_secs(1),
    part,
    report: figure::report,
};

fn part(part: &Part) -> deck::Result<()> {
    let node = Node::join()?;
    let inbox = node.mailbox(&format!("bench.{}", part.role))?;
    let mut message = node.message();
    let others = part.nodes - 1;
    if part.role == 0 {
        for _ in 0..others {
            inbox.retrieve_into(&mut message, LOST)?;
        }
        message.clear();
        let clones: Vec<MailboxClone> = (1..part.nodes)
            .map(|role| node.clone_mailbox(&format!("bench.{role}"), LOST))
            .collect::<deck::Result<_>>()?;
        clones.iter().try_for_each(|other| other.post_shared(&message, LOST))?;
        for _ in 0..others {
            inbox.retrieve_into(&mut message, LOST)?;
        }
        part.tell("all have met", "ms", (now_ns() - part.started_ns) as f64 / 1e6)?;
        drop(clones);
    } else {
        let first = node.clone_mailbox("bench.0", LOST)?;
        first.post_shared(&message, LOST)?;
        inbox.retrieve_into(&mut message, LOST)?;
        first.post_shared(&message, LOST)?;
        drop(first);
    }
    drop((inbox, message));
    node.leave()
}
