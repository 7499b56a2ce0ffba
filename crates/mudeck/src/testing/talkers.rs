//! Two nodes that answer one another.

use std::time::Instant;

use deck_peers::Door;

use super::SOON;
use crate::batons::LOOK_FIRST;
use crate::clone::MailboxClone;
use crate::mailbox::Mailbox;
use crate::message::Message;
use crate::node::Node;

/// Rounds after which there is a baton.
pub const LONG: u64 = 2 * (LOOK_FIRST + 2 * LOOK_FIRST) as u64;

/// Nodes of one job.
pub fn nodes<const COUNT: usize>(name: &str) -> [Node; COUNT] {
    let job = format!("{name}-{}", std::process::id());
    [(); COUNT].map(|()| Node::join_by(Door::Named(job.clone())).unwrap())
}

/// What one side of a conversation has.
pub struct Talker {
    pub node: Node,
    pub own: Mailbox,
    pub other: MailboxClone,
}

impl Talker {
    pub fn message(&self, number: u64, size: usize) -> Message {
        let mut message = self.node.message();
        let content: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(size).collect();
        message.pack(&content).unwrap();
        message
    }

    pub fn retrieve(&self, number: u64, size: usize) -> Message {
        let message = self.own.retrieve(SOON).unwrap();
        assert_eq!(message.as_bytes(), self.message(number, size).as_bytes(), "message {number}");
        message
    }

    pub fn ask(&self, numbers: std::ops::Range<u64>, size: usize) {
        for number in numbers {
            self.other.post(self.message(number, size), SOON).unwrap();
            self.retrieve(number, size);
        }
    }

    pub fn answer(&self, numbers: std::ops::Range<u64>, size: usize) {
        for number in numbers {
            let message = self.retrieve(number, size);
            self.other.post(message, SOON).unwrap();
        }
    }

    /// Messages that its ring has passed on a baton, both ways.
    pub fn passed(&self) -> u32 {
        let poster = self.node.shared.poster_to(self.other.address().id).unwrap();
        poster.sender.baton().map_or(0, |(baton, _)| baton.carried())
    }
}

/// Two nodes with a mail box each.
pub fn talkers(nodes: [&Node; 2], name: &str) -> [Talker; 2] {
    let names = [0, 1].map(|index| format!("{name}-{index}"));
    let own = [0, 1].map(|index| nodes[index].mailbox(&names[index]).unwrap());
    let mut others = [0, 1].map(|index| nodes[index].clone_mailbox(&names[1 - index], SOON).unwrap()).into_iter();
    let mut index = 0;
    own.map(|own| {
        let node = nodes[index].clone();
        index += 1;
        Talker { node, own, other: others.next().unwrap() }
    })
}

pub fn talk([asking, answering]: [&Talker; 2], numbers: std::ops::Range<u64>, size: usize) {
    std::thread::scope(|scope| {
        let rounds = numbers.clone();
        scope.spawn(move || answering.answer(rounds, size));
        scope.spawn(move || asking.ask(numbers, size));
    });
}

/// Has the two talk until both pass messages on a baton: how many of them waited is chance. The first number that was
/// not used.
#[track_caller]
pub fn talk_until_they_pass(pair: [&Talker; 2], first: u64, size: usize) -> u64 {
    let (since, mut number) = (Instant::now(), first);
    while number == first || pair.iter().any(|talker| talker.passed() == 0) {
        assert!(since.elapsed() < SOON, "{number} rounds, and nothing was passed");
        talk(pair, number..number + LONG, size);
        number += LONG;
    }
    number
}
