//! Several threads of one node post to one mail box: what sharing the way there costs.

use std::thread;
use std::time::Duration;

use deck::Node;

use super::nodes::{LOST, Part, Placement};
use super::spawning::spawn;
use super::stream::Stream;
use super::{Benchmark, figure};

pub const BENCHMARK: Benchmark = Benchmark {
    name: "shared",
    about: "8-byte streams from several threads into a mail box elsewhere",
    axis: "threads",
    points: &[1, 2, 4, 8],
    range: 1..=64,
    nodes: |_| 2,
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
        let inbox = node.mailbox("bench.shared")?;
        part.tell("all threads together", "messages/s", stream.receive(&node, &inbox, part.at)?)?;
    } else {
        let to = node.clone_mailbox("bench.shared", LOST)?;
        thread::scope(|scope| {
            let sending = (0..part.at).map(|_| spawn(scope, || stream.send(&node, &to)));
            let sending = sending.collect::<deck::Result<Vec<_>>>()?;
            sending.into_iter().try_for_each(|thread| thread.join().expect("a sender does not panic"))
        })?;
    }
    node.leave()
}
