//! Three nodes that get stuck: two of them retrieve before they post, and the third waits for both at a barrier.

use std::time::Duration;

use deck::{FOREVER, Group, Node};

const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> deck::Result<()> {
    let node = Node::join()?;
    let me = node.number().0;
    let mut group = Group::join(&node, "everybody", 3, Some(me), PATIENCE)?;
    if me < 2 {
        let inbox = node.mailbox(&format!("inbox of {me}"))?;
        let other = node.clone_mailbox(&format!("inbox of {}", 1 - me), PATIENCE)?;
        // Both wait here for what the other posts on the next line.
        inbox.retrieve(FOREVER)?;
        other.post(node.message(), PATIENCE).map_err(|refused| refused.error)?;
    }
    group.barrier(FOREVER)?;
    node.leave()
}
