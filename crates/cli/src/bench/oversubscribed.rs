//! More nodes than processors: a token passed round, and a barrier built from post and retrieve.
//!
//! In the barrier everybody tells everybody that it has come. Where nodes share processors that is hard to beat:
//! whoever gets its turn finds all that came before it, tells the others, and has nothing left to do in this barrier,
//! so that each runs once. Where all tell node 0, and node 0 tells all, node 0 runs twice, and in a barrier of log n
//! rounds each node log n times. A message costs far less than a turn.

use std::slice::from_ref;
use std::time::Duration;

use deck::{Mailbox, MailboxClone, Message, Node};

use super::clock::mean_ns;
use super::nodes::{LOST, Part, Placement};
use super::{Benchmark, figure};

pub const BENCHMARK: Benchmark = Benchmark {
    name: "oversubscribed",
    about: "a token passed round nodes on two processors, and a barrier",
    axis: "nodes",
    points: &[2, 4, 8],
    range: 2..=64,
    nodes: |nodes| nodes as u32,
    placement: Placement::Together,
    repetitions: |_| 5,
    time: Duration::from_secs(4),
    part,
    report: figure::report,
};

/// Contents of messages of this benchmark.
const GO_ON: u64 = 0;
const STOP: u64 = 1;

fn part(part: &Part) -> deck::Result<()> {
    let node = Node::join()?;
    let [warm_up, time] = [part.warm_up() / 2, part.time() / 2];
    let mut token = Token::new(part, &node)?;
    if part.role == 0 {
        let round = mean_ns(warm_up, time, || token.send_round(GO_ON))?;
        token.send_round(STOP)?;
        part.tell("token, one hop", "ns", round / f64::from(part.nodes))?;
    } else {
        while token.pass_on()? == GO_ON {}
    }
    let mut barrier = Barrier::new(part, &node)?;
    if part.role == 0 {
        let mean = mean_ns(warm_up, time, || barrier.pass(GO_ON).map(drop))?;
        barrier.pass(STOP)?;
        part.tell("barrier", "ns", mean)?;
    } else {
        while barrier.pass(GO_ON)? == GO_ON {}
    }
    drop((token, barrier));
    node.leave()
}

/// Clones of the mail boxes of the others, beginning behind this node: not all tell the same one at the same time.
fn clones(part: &Part, node: &Node, name: impl Fn(u32) -> String) -> deck::Result<Vec<MailboxClone>> {
    (1..part.nodes).map(|distance| node.clone_mailbox(&name((part.role + distance) % part.nodes), LOST)).collect()
}

fn post(message: &mut Message, to: &[MailboxClone], what: u64) -> deck::Result<()> {
    message.clear();
    message.pack(&[what])?;
    to.iter().try_for_each(|to| to.post_shared(message, LOST))
}

fn retrieve(inbox: &Mailbox, message: &mut Message) -> deck::Result<u64> {
    inbox.retrieve_into(message, LOST)?;
    let mut what = [0u64];
    message.unpack(&mut what)?;
    Ok(what[0])
}

/// A token that goes round.
struct Token {
    inbox: Mailbox,
    next: MailboxClone,
    message: Message,
}

impl Token {
    fn new(part: &Part, node: &Node) -> deck::Result<Token> {
        let name = |role| format!("bench.token.{role}");
        let inbox = node.mailbox(&name(part.role))?;
        let next = node.clone_mailbox(&name((part.role + 1) % part.nodes), LOST)?;
        Ok(Token { inbox, next, message: node.message() })
    }

    /// Sends the token round, and waits until it is back.
    fn send_round(&mut self, what: u64) -> deck::Result<()> {
        post(&mut self.message, from_ref(&self.next), what)?;
        retrieve(&self.inbox, &mut self.message).map(drop)
    }

    fn pass_on(&mut self) -> deck::Result<u64> {
        let what = retrieve(&self.inbox, &mut self.message)?;
        post(&mut self.message, from_ref(&self.next), what)?;
        Ok(what)
    }
}

/// A barrier of all nodes, many times one after the other.
struct Barrier {
    inbox: Mailbox,
    others: Vec<MailboxClone>,
    message: Message,
    /// The present one and the next: others may have heard from all before this node has.
    heard: [Heard; 2],
    /// 0 and 1 in turn, in all nodes alike: nobody is ahead by more than one barrier.
    turn: u64,
}

impl Barrier {
    fn new(part: &Part, node: &Node) -> deck::Result<Barrier> {
        let name = |role| format!("bench.barrier.{role}");
        let inbox = node.mailbox(&name(part.role))?;
        Ok(Barrier {
            inbox,
            others: clones(part, node, name)?,
            message: node.message(),
            heard: Default::default(),
            turn: 0,
        })
    }

    /// Tells all others that this node is there, and waits until they are. Returns [`STOP`] if one of them said so.
    fn pass(&mut self, what: u64) -> deck::Result<u64> {
        post(&mut self.message, &self.others, what << 1 | self.turn)?;
        while self.heard[0].come < self.others.len() {
            let said = retrieve(&self.inbox, &mut self.message)?;
            let heard = &mut self.heard[usize::from(said & 1 != self.turn)];
            heard.come += 1;
            heard.what |= said >> 1;
        }
        let [over, next] = std::mem::take(&mut self.heard);
        (self.heard[0], self.turn) = (next, 1 - self.turn);
        Ok(what | over.what)
    }
}

/// What others said in a barrier.
#[derive(Default)]
struct Heard {
    come: usize,
    what: u64,
}
