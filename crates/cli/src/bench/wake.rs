//! A message for a node that sleeps: how long from the begin of post to the return of retrieve.

use std::time::Duration;

use deck::{Error, ErrorKind, Node};
use deck_peers::observe::now_ns;

use super::nodes::{LOST, Part, Placement};
use super::{Benchmark, figure};

pub const BENCHMARK: Benchmark = Benchmark {
    name: "wake",
    about: "from post to the return of a retrieve that had gone to sleep",
    axis: "ms apart",
    points: &[10],
    range: 1..=1000,
    nodes: |_| 2,
    placement: Placement::Apart,
    repetitions: |_| 3,
    time: Duration::from_secs(2),
    part,
    report: figure::report,
};

/// Both nodes sleep `at` milliseconds before each message.
fn part(part: &Part) -> deck::Result<()> {
    let node = Node::join()?;
    let pause = Duration::from_millis(part.at as u64);
    let wakes = (part.time().as_nanos() / pause.as_nanos().max(1)).max(3);
    if part.role == 0 {
        let inbox = node.mailbox("bench.sleeper")?;
        let mut message = node.message();
        let mut all = Vec::new();
        for _ in 0..wakes {
            inbox.retrieve_into(&mut message, pause + LOST)?;
            let now = now_ns();
            let mut posted = [0u64];
            message.unpack(&mut posted)?;
            all.push(now.saturating_sub(posted[0]));
        }
        all.sort_unstable();
        part.tell("median", "ns", all[all.len() / 2] as f64)?;
        part.tell("p90", "ns", all[all.len() * 9 / 10] as f64)?;
        drop((inbox, message));
    } else {
        let to = node.clone_mailbox("bench.sleeper", LOST)?;
        let nothing = node.mailbox("bench.nothing")?;
        let mut message = node.message();
        for _ in 0..wakes {
            // A pause of DECK's own: nobody posts there.
            match nothing.retrieve_into(&mut message, pause) {
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                Err(error) => return Err(error),
                Ok(()) => return Err(Error::new(ErrorKind::Corrupt, "a message came that nobody posted")),
            }
            message.clear();
            message.pack(&[now_ns()])?;
            to.post_shared(&message, LOST)?;
        }
        drop((to, nothing, message));
    }
    node.leave()
}
