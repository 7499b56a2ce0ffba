//! A stream of small messages from one node to another: how many a second.

use std::time::Duration;

use deck::Node;

use super::nodes::{LOST, Part, Placement};
use super::stream::Stream;
use super::{Benchmark, figure};

pub const BENCHMARK: Benchmark = Benchmark {
    name: "rate",
    about: "a stream of small messages from one node to another",
    axis: "bytes",
    points: &[0, 8, 62, 64, 256, 1024],
    range: 0..=256 << 20,
    nodes: |_| 2,
    placement: Placement::Apart,
    repetitions: |_| 5,
    time: Duration::from_secs(1),
    part,
    report: figure::report,
};

fn part(part: &Part) -> deck::Result<()> {
    let node = Node::join()?;
    let stream = Stream { bytes: part.at, is_touched: false, warm_up: part.warm_up(), time: part.time() };
    if part.role == 0 {
        let inbox = node.mailbox("bench.stream")?;
        part.tell("stream", "messages/s", stream.receive(&node, &inbox, 1)?)?;
    } else {
        stream.send(&node, &node.clone_mailbox("bench.stream", LOST)?)?;
    }
    node.leave()
}
