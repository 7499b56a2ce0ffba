//! Streams from several nodes into one mail box.

use std::time::Duration;

use deck::Node;

use super::nodes::{LOST, Part, Placement};
use super::stream::Stream;
use super::{Benchmark, figure};

pub const BENCHMARK: Benchmark = Benchmark {
    name: "fan-in",
    about: "8-byte streams from several nodes into one mail box",
    axis: "senders",
    points: &[1, 3, 7],
    range: 1..=64,
    nodes: |senders| senders as u32 + 1,
    placement: Placement::Together,
    repetitions: |_| 5,
    time: Duration::from_secs(2),
    part,
    report: figure::report,
};

fn part(part: &Part) -> deck::Result<()> {
    let node = Node::join()?;
    let stream = Stream { bytes: 8, is_touched: false, warm_up: part.warm_up(), time: part.time() };
    if part.role == 0 {
        let inbox = node.mailbox("bench.fan-in")?;
        part.tell("all senders together", "messages/s", stream.receive(&node, &inbox, part.at)?)?;
    } else {
        stream.send(&node, &node.clone_mailbox("bench.fan-in", LOST)?)?;
    }
    node.leave()
}
