//! A node that posts to itself.

use std::time::Duration;

use deck_peers::Door;
use deck_sync::ErrorKind;

use super::{ROUNDS, expect_no_allocation, expect_no_system_call, sentence, serve};
use crate::clone::MailboxClone;
use crate::mailbox::Mailbox;
use crate::message::Message;
use crate::node::Node;
use crate::testing::SOON;

/// One for each way: added to a slot, in a line of it, in both, copied, handed over; and one whose buffers rest before
/// they are used again.
const SIZES: [usize; 6] = [8, 62, 100, 300, 5000, 20_000];

struct Path {
    mailbox: Mailbox,
    clone: MailboxClone,
    messages: Vec<Message>,
    received: Message,
}

impl Path {
    /// A mail box that is in use: its ring, its locks and its buffers are there.
    fn in_use(node: &Node) -> Path {
        let mailbox = node.mailbox("box").unwrap();
        let clone = node.clone_mailbox("box", SOON).unwrap();
        let message = |bytes: &usize| {
            let mut message = node.message();
            message.resize(*bytes).unwrap();
            message
        };
        let typed = |bytes: &usize| {
            let mut message = node.message();
            message.pack(&vec![1.0f64; bytes / 8]).unwrap();
            message
        };
        let messages = SIZES.iter().map(message).chain(SIZES.iter().map(typed)).collect();
        let mut path = Path { mailbox, clone, messages, received: node.message() };
        path.go();
        path
    }

    fn go(&mut self) {
        for _ in 0..ROUNDS {
            for message in &mut self.messages {
                // As a program that writes it anew.
                message.resize(message.size()).unwrap();
                self.clone.post_shared(message, SOON).unwrap();
                self.mailbox.retrieve_into(&mut self.received, SOON).unwrap();
                assert_eq!(self.received.size(), message.size());
                // A program that polls looks in vain most of the time.
                let nothing = self.mailbox.retrieve_into(&mut self.received, Duration::ZERO);
                assert_eq!(nothing.unwrap_err().kind(), ErrorKind::Timeout);
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too long")]
fn posting_and_retrieving_allocate_nothing() {
    let node = Node::join_by(Door::Alone).unwrap();
    let mut path = Path::in_use(&node);
    expect_no_allocation("alone::posting_and_retrieving_allocate_nothing", || path.go());
}

/// Does something only where it is told to, see below.
#[test]
#[cfg_attr(miri, ignore = "system calls")]
fn rounds_in_jail() {
    if sentence().is_some() {
        let node = Node::join_by(Door::Alone).unwrap();
        let mut path = Path::in_use(&node);
        serve(|| path.go());
    }
}

#[test]
#[cfg_attr(miri, ignore = "processes")]
fn posting_and_retrieving_make_no_system_call() {
    expect_no_system_call("alone::rounds_in_jail", "all", 1);
}
