//! A job of several nodes in one process, and ways to wait for what the tests are about.

#![allow(dead_code, reason = "each test program uses its part")]

use std::time::{Duration, Instant};

use deck_mudeck::{Door, ErrorKind, Mailbox, MailboxClone, Message, Node, NodeState, Refused};
use deck_peers::Broker;

/// A watchdog: whatever waits this long has failed.
pub const SOON: Duration = Duration::from_secs(20);
/// Try, do not wait.
pub const TRY: Duration = Duration::ZERO;

/// A job of `count` nodes; it can be joined by invitation as long as the broker lives.
pub fn job(count: u32) -> (Broker, Vec<Node>) {
    let broker = Broker::start("test", count).unwrap();
    let nodes = (0..count).map(|_| invited(&broker)).collect();
    (broker, nodes)
}

/// As [`job`], for a number of nodes that the test names one by one.
pub fn job_of<const COUNT: usize>() -> (Broker, [Node; COUNT]) {
    let (broker, nodes) = job(COUNT as u32);
    (broker, nodes.try_into().ok().unwrap())
}

/// One more node.
pub fn invited(broker: &Broker) -> Node {
    Node::join_by(Door::Invited(broker.invite().unwrap())).unwrap()
}

/// The name of a job that no other test has.
pub fn job_name(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

/// A node of the job with this name, which it opens if there is none.
pub fn named(job: &str) -> Node {
    Node::join_by(Door::Named(job.to_string())).unwrap()
}

/// A message of `size` bytes that are all `byte`.
pub fn filled(node: &Node, size: usize, byte: u8) -> Message {
    let mut message = node.message();
    message.resize(size).unwrap();
    message.edit().unwrap().fill(byte);
    message
}

/// Fails unless every byte of the message is `byte`.
#[track_caller]
pub fn expect_filled(message: &Message, size: usize, byte: u8) {
    assert_eq!(message.size(), size);
    let other = message.as_bytes().iter().position(|found| *found != byte);
    assert_eq!(other.map(|at| (at, message.as_bytes()[at])), None, "a byte that is not {byte}");
}

/// Takes fresh memory of `node` and writes into it: what was freed too early has other content afterwards.
pub fn reuse_memory(node: &Node) -> Vec<Message> {
    (0..64).map(|number| filled(node, if number % 2 == 0 { 4096 } else { 8192 }, 0xee)).collect()
}

/// Waits until `condition` holds; `what` says what was missing if it never does.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < SOON, "never happened: {what}");
        std::thread::park_timeout(Duration::from_micros(100));
    }
}

/// Waits until some thread has gone to sleep on the mail box.
#[track_caller]
pub fn wait_for_retriever(mailbox: &Mailbox) {
    wait_until("a retriever sleeps", || mailbox.stats().waits > 0);
}

/// Waits until some thread has gone to sleep for room in the mail box, or for budget.
#[track_caller]
pub fn wait_for_poster(clone: &MailboxClone) {
    wait_until("a poster sleeps", || clone.stats().waits > 0);
}

/// Lets `leaving` leave, and waits until `other` knows.
#[track_caller]
pub fn leave_seen_by(leaving: Node, other: &Node) {
    let number = leaving.number();
    leaving.leave().unwrap();
    wait_until("the departure is known", || other.state(number).unwrap() == NodeState::Left);
}

/// Posts until the mail box turns out to be closed, which its owner's departure tells a little later; returns the
/// refusal.
#[track_caller]
pub fn post_until_refused(node: &Node, clone: &MailboxClone) -> Refused {
    loop {
        // Waits in a full mail box, so it ends.
        if let Err(refused) = clone.post(node.message(), SOON) {
            assert_ne!(refused.error.kind(), ErrorKind::Timeout, "{}", refused.error);
            return refused;
        }
    }
}
