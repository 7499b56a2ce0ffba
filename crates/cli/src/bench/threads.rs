//! Many threads in each of two nodes, each thread with a mail box of its own: a thread is an address.
//!
//! Thread i of one node talks to thread i of the other. Streams go one way; ping-pong counts the messages of both ways.
//! The slowest thread is told as a share of the mean: 1 is fair.

use std::thread;
use std::time::{Duration, Instant};

use deck::{Mailbox, MailboxClone, Node};

use super::clock::{self, Window};
use super::nodes::{LOST, Part, Placement};
use super::spawning::spawn;
use super::stream::Stream;
use super::{Benchmark, figure, rounds};

pub const BENCHMARK: Benchmark = Benchmark {
    name: "threads",
    about: "8-byte streams and ping-pong between the threads of two nodes",
    axis: "threads",
    points: &[1, 2, 4, 8],
    range: 1..=64,
    nodes: |_| 2,
    placement: Placement::Apart,
    repetitions: |_| 5,
    time: Duration::from_secs(4),
    part,
    report: figure::report,
};

fn part(part: &Part) -> deck::Result<()> {
    let node = Node::join()?;
    let name = |role: u32, thread: usize| format!("bench.{role}.{thread}");
    let inboxes: Vec<Mailbox> =
        (0..part.at).map(|thread| node.mailbox(&name(part.role, thread))).collect::<deck::Result<_>>()?;
    let outboxes: Vec<MailboxClone> = (0..part.at)
        .map(|thread| node.clone_mailbox(&name(1 - part.role, thread), LOST))
        .collect::<deck::Result<_>>()?;

    let half = part.time() / 2;
    let stream = Stream { bytes: 8, is_touched: false, warm_up: part.warm_up() / 2, time: half };
    let begin = Instant::now();
    let streamed = each(&inboxes, &outboxes, |inbox, to| {
        if part.role == 0 {
            stream.receive_in_company(begin, &node, inbox)
        } else {
            stream.send(&node, to).map(|()| 0.0)
        }
    })?;
    let begin = Instant::now();
    let played = each(&inboxes, &outboxes, |inbox, to| {
        let mut message = node.message();
        message.resize(8)?;
        if part.role == 0 {
            rounds::ping_in_company(&mut message, inbox, to, Window::new(begin, part.warm_up() / 2, half))
        } else {
            rounds::answer(&mut message, inbox, to).map(|()| 0.0)
        }
    })?;
    if part.role == 0 {
        for (what, rates) in [("streams", streamed), ("ping-pong", played)] {
            let (sum, slowest) = clock::shared_out(&rates);
            part.tell(what, "messages/s", sum)?;
            part.tell(&format!("{what}, slowest"), "of mean", slowest)?;
        }
    }
    drop((inboxes, outboxes));
    node.leave()
}

/// Runs a thread for each pair of mail boxes, and returns what each returned.
fn each(
    inboxes: &[Mailbox],
    outboxes: &[MailboxClone],
    run: impl Fn(&Mailbox, &MailboxClone) -> deck::Result<f64> + Sync,
) -> deck::Result<Vec<f64>> {
    let run = &run;
    thread::scope(|scope| {
        let pairs = inboxes.iter().zip(outboxes);
        let running =
            pairs.map(|(inbox, to)| spawn(scope, move || run(inbox, to))).collect::<deck::Result<Vec<_>>>()?;
        running.into_iter().map(|thread| thread.join().expect("a thread of the benchmark does not panic")).collect()
    })
}
