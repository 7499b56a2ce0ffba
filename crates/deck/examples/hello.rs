//! Node 1 posts three numbers to the mail box "numbers" of node 0, which adds them up.
use std::time::Duration;

use deck::{Node, NodeId};

const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> deck::Result<()> {
    let node = Node::join()?;
    if node.number() == NodeId(0) {
        let mailbox = node.mailbox("numbers")?;
        let mut message = mailbox.retrieve(PATIENCE)?;
        let mut numbers = [0i32; 3];
        message.unpack(&mut numbers)?;
        let [a, b, c] = numbers;
        let NodeId(sender) = message.sender().expect("it was retrieved");
        println!("node 0: {a} + {b} + {c} = {}, from node {sender}", a + b + c);
    } else if node.number() == NodeId(1) {
        let mut message = node.message();
        message.pack(&[1i32, 2, 3])?;
        node.clone_mailbox("numbers", PATIENCE)?.post(message, PATIENCE)?;
    }
    node.leave()
}
