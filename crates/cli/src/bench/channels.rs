//! Two threads of one node, on two processors: what a mail box does where others use a channel.

use std::thread;
use std::time::Duration;

use deck::{Error, Node};

use super::nodes::{Part, Placement};
use super::spawning::spawn;
use super::stream::Stream;
use super::{Benchmark, cpus, figure, rounds};

pub const BENCHMARK: Benchmark = Benchmark {
    name: "channels",
    about: "ping-pong and a stream between two threads of one node",
    axis: "bytes",
    points: &[8],
    range: 0..=256 << 20,
    nodes: |_| 1,
    placement: Placement::Together,
    repetitions: |_| 5,
    time: Duration::from_secs(2),
    part,
    report: figure::report,
};

fn part(part: &Part) -> deck::Result<()> {
    let node = Node::join()?;
    let pair = cpus::pair();
    let [warm_up, time] = [part.warm_up() / 2, part.time() / 2];
    let stream = Stream { bytes: part.at, is_touched: false, warm_up, time };
    let (here, there) = (node.mailbox("bench.here")?, node.mailbox("bench.there")?);
    let (to_here, to_there) = (here.clone_here()?, there.clone_here()?);

    let (one_way, rate) = thread::scope(|scope| -> deck::Result<(f64, f64)> {
        let other = spawn(scope, || {
            pin(pair.map(|[_, other]| other))?;
            let mut message = node.message();
            message.resize(part.at)?;
            rounds::answer(&mut message, &there, &to_here)?;
            stream.send(&node, &to_here)
        })?;
        pin(pair.map(|[one, _]| one))?;
        let mut message = node.message();
        message.resize(part.at)?;
        let one_way = rounds::ping(&mut message, &here, &to_there, warm_up, time)?;
        let rate = stream.receive(&node, &here, 1)?;
        other.join().expect("the other thread does not panic")?;
        Ok((one_way, rate))
    })?;
    part.tell("ping-pong, one way", "ns", one_way)?;
    part.tell("stream", "messages/s", rate)?;
    drop((here, there, to_here, to_there));
    node.leave()
}

fn pin(cpu: Option<usize>) -> deck::Result<()> {
    let Some(cpu) = cpu else { return Ok(()) };
    cpus::stay(cpu).map_err(|error| Error::io("pinning", &error))
}
