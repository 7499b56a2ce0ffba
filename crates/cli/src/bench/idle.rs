//! A node that waits and gets nothing: how much of a processor it takes.

use std::time::Duration;

use deck::{Error, ErrorKind, Node};
use rustix::time::{ClockId, clock_gettime};

use super::nodes::{LOST, Part, Placement};
use super::{Benchmark, figure};

pub const BENCHMARK: Benchmark = Benchmark {
    name: "idle",
    about: "processor time of a node that is blocked in retrieve",
    axis: "seconds",
    points: &[10],
    range: 1..=3600,
    nodes: |_| 2,
    placement: Placement::Apart,
    repetitions: |_| 1,
    time: Duration::from_secs(10),
    part,
    report: figure::report,
};

fn part(part: &Part) -> deck::Result<()> {
    let node = Node::join()?;
    let wait = Duration::from_secs(part.at as u64);
    if part.role == 0 {
        let inbox = node.mailbox("bench.idle")?;
        let mut message = node.message();
        // A ring that has been in use, from a node that lives on.
        inbox.retrieve_into(&mut message, LOST)?;
        let before = processor_time();
        match inbox.retrieve_into(&mut message, wait) {
            Err(error) if error.kind() == ErrorKind::Timeout => {}
            Err(error) => return Err(error),
            Ok(()) => return Err(Error::new(ErrorKind::Corrupt, "a message came that nobody posted")),
        }
        part.tell("processor time", "ms", (processor_time() - before).as_secs_f64() * 1e3)?;
        node.clone_mailbox("bench.other", LOST)?.post_shared(&node.message(), LOST)?;
        drop((inbox, message));
    } else {
        let inbox = node.mailbox("bench.other")?;
        node.clone_mailbox("bench.idle", LOST)?.post_shared(&node.message(), LOST)?;
        inbox.retrieve(wait + LOST)?;
    }
    node.leave()
}

/// What all threads of this process have used.
fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}
