//! More nodes than processors: a token passed round, and a barrier built from post and retrieve.
//!
//! The barrier is the simplest there is: everybody tells node 0, which tells everybody. Where nodes share processors this is
//! hard to beat, since each node has to run only once per barrier; a barrier of log n rounds makes each run log n times.

use std::time::Duration;

use deck::{Mailbox, MailboxClone, Message, Node};

use super::Benchmark;
use super::nodes::{LOST, Part, Placement};
use super::rounds::mean_ns;

pub const BENCHMARK: Benchmark = Benchmark {
    name: "oversubscribed",
    about: "2 to 8 nodes on two processors: a token passed round, and a barrier",
    axis: "nodes",
    points: &[2, 4, 8],
    nodes: |nodes| nodes as u32,
    placement: Placement::Together,
    repetitions: 5,
    time: Duration::from_secs(4),
    part,
};

/// Contents of messages of this benchmark.
const GO_ON: u64 = 0;
const STOP: u64 = 1;

fn part(part: &Part) -> deck::Result<()> {
    let node = part.join()?;
    let inbox = node.mailbox(&format!("bench.{}", part.role))?;
    let mut side = Side { node: node.clone(), message: node.message(), inbox };
    let clone = |role: u32| node.clone_mailbox(&format!("bench.{role}"), LOST);
    let [warm_up, time] = [part.warm_up() / 2, part.time() / 2];
    let next = clone((part.role + 1) % part.nodes)?;
    if part.role == 0 {
        let others: Vec<MailboxClone> = (1..part.nodes).map(clone).collect::<deck::Result<_>>()?;
        // Nobody passes anything on before all are there.
        side.gather(others.len())?;
        let round = mean_ns(warm_up, time, || side.pass(&next, GO_ON))?;
        side.pass(&next, STOP)?;
        part.tell("token, one hop", "ns", round / f64::from(part.nodes))?;
        let barrier = mean_ns(warm_up, time, || side.release(&others, GO_ON))?;
        side.release(&others, STOP)?;
        part.tell("barrier", "ns", barrier)?;
    } else {
        let first = clone(0)?;
        side.post(&first, GO_ON)?;
        while side.pass_on(&next)? == GO_ON {}
        while side.arrive(&first)? == GO_ON {}
    }
    drop((side, next));
    node.leave()
}

struct Side {
    node: Node,
    message: Message,
    inbox: Mailbox,
}

impl Side {
    fn post(&mut self, to: &MailboxClone, what: u64) -> deck::Result<()> {
        self.message.clear();
        self.message.pack(&[what])?;
        to.post_shared(&self.message, LOST)
    }

    fn retrieve(&mut self) -> deck::Result<u64> {
        self.inbox.retrieve_into(&mut self.message, LOST)?;
        let mut what = [0u64];
        self.message.unpack(&mut what)?;
        Ok(what[0])
    }

    fn gather(&mut self, others: usize) -> deck::Result<()> {
        (0..others).try_for_each(|_| self.retrieve().map(drop))
    }

    /// Sends the token round, and waits until it is back.
    fn pass(&mut self, next: &MailboxClone, what: u64) -> deck::Result<()> {
        self.post(next, what)?;
        self.retrieve().map(drop)
    }

    fn pass_on(&mut self, next: &MailboxClone) -> deck::Result<u64> {
        let what = self.retrieve()?;
        self.post(next, what)?;
        Ok(what)
    }

    /// The barrier as node 0 sees it: everybody has arrived, everybody may go.
    fn release(&mut self, others: &[MailboxClone], what: u64) -> deck::Result<()> {
        self.gather(others.len())?;
        let mut message = self.node.message();
        message.pack(&[what])?;
        others.iter().try_for_each(|other| other.post_shared(&message, LOST))
    }

    /// The barrier as all others see it.
    fn arrive(&mut self, first: &MailboxClone) -> deck::Result<u64> {
        self.post(first, GO_ON)?;
        self.retrieve()
    }
}
