//! A stream of large messages from one node to another: how many bytes a second a program can write here and read
//! there.
//!
//! *Written and read* moves every byte from one core to the other. *Handed over* posts one message again and again,
//! which moves nothing: bytes a second are then the wrong measure, and messages a second are told.

use std::time::Duration;

use deck::Node;

use super::nodes::{LOST, Part, Placement};
use super::stream::Stream;
use super::{Benchmark, figure};

pub const BENCHMARK: Benchmark = Benchmark {
    name: "bandwidth",
    about: "a stream of large messages: bytes written here and read there",
    axis: "bytes",
    points: &[1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20],
    range: 1..=64 << 20,
    nodes: |_| 2,
    placement: Placement::Apart,
    repetitions: |_| 5,
    time: Duration::from_secs(1),
    part,
    report: figure::report,
};

fn part(part: &Part) -> deck::Result<()> {
    let node = Node::join()?;
    let half = part.time() / 2;
    let [touched, untouched] =
        [true, false].map(|is_touched| Stream { bytes: part.at, is_touched, warm_up: part.warm_up() / 2, time: half });
    if part.role == 0 {
        let inbox = node.mailbox("bench.stream")?;
        let rate = touched.receive(&node, &inbox, 1)?;
        part.tell("written and read", "GB/s", rate * part.at as f64 / 1e9)?;
        part.tell("handed over", "messages/s", untouched.receive(&node, &inbox, 1)?)?;
    } else {
        let to = node.clone_mailbox("bench.stream", LOST)?;
        touched.send(&node, &to)?;
        untouched.send(&node, &to)?;
    }
    node.leave()
}
