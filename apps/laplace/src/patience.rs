//! Waiting for other nodes without ever hanging.
//!
//! Each node holds a part of the slab that nobody else has, so the calculation ends when a node is gone. A lost node
//! ends a retrieve from those that had posted to it at once; for all others, and for nodes that left with an error,
//! whoever has waited for [`LOOK`] looks whether all are there. A stopped node is there: waits for it go on when it
//! does.

use std::time::Duration;

use deck::{Error, ErrorKind, Mailbox, MailboxClone, Message, Node, NodeId, NodeState, Result};
use user_interface::patience::{self, LOOK};

/// Fails if one of the first `nodes` nodes is gone.
///
/// # Errors
/// [`ErrorKind::PeerLost`] with the node.
pub fn check(node: &Node, nodes: u32) -> Result<()> {
    patience::gone(node, nodes).map_or(Ok(()), |(other, how)| Err(gone(other, how)))
}

fn gone(node: NodeId, how: &str) -> Error {
    let error = Error::new(ErrorKind::PeerLost, format!("{node} {how}, and its part of the slab with it"));
    error.with_peer(node).with_remedy("start the job again")
}

/// A node that is gone before the slab was divided took no part of it along.
pub fn before_there_were_parts(node: &Node, error: Error) -> Error {
    let peer = error.peer().filter(|_| error.kind() == ErrorKind::PeerLost);
    let how = peer.and_then(|peer| match node.state(peer) {
        Ok(NodeState::Left) => Some((peer, "has left")),
        Ok(NodeState::Lost) => Some((peer, "was lost")),
        _ => None,
    });
    how.map_or(error, |(peer, how)| {
        let early = Error::new(ErrorKind::PeerLost, format!("{peer} {how} before the slab was divided"));
        early.with_peer(peer).with_remedy("look what that node said, and start the job again")
    })
}

/// Retrieves from a mail box for as long as the first `nodes` nodes are there.
///
/// # Errors
/// [`ErrorKind::PeerLost`] with the node that is gone; those of [`Mailbox::retrieve`], except that time runs out.
pub fn retrieve(node: &Node, nodes: u32, mailbox: &Mailbox) -> Result<Message> {
    loop {
        match mailbox.retrieve(LOOK) {
            Err(error) if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::PeerLost) => {
                if let Err(gone) = check(node, nodes) {
                    // Its last word may have come since.
                    return mailbox.retrieve(Duration::ZERO).map_err(|_| gone);
                }
            }
            ended => return ended,
        }
    }
}

/// Takes the next element of a message, the address of a mail box, and connects to it, for as long as the first `nodes`
/// nodes are there.
///
/// # Errors
/// [`ErrorKind::PeerLost`] with the node that is gone; those of [`Message::unpack_mailbox`], except that time runs out.
pub fn connect(node: &Node, nodes: u32, message: &mut Message) -> Result<MailboxClone> {
    loop {
        let error = match message.unpack_mailbox(LOOK) {
            Ok(mailbox) => return Ok(mailbox),
            Err(error) => error,
        };
        check(node, nodes)?;
        if error.kind() != ErrorKind::Timeout {
            return Err(error);
        }
    }
}

/// Waits until one of some mail boxes has something to retrieve, for as long as the first `nodes` nodes are there; its
/// index.
///
/// # Errors
/// As [`retrieve`].
pub fn select(node: &Node, nodes: u32, boxes: &[&Mailbox]) -> Result<usize> {
    patience::wait(|| check(node, nodes), |time| deck::select(boxes, time))
}

/// Posts for as long as the first `nodes` nodes are there.
///
/// # Errors
/// As [`retrieve`].
pub fn post(node: &Node, nodes: u32, to: &MailboxClone, mut message: Message) -> Result<()> {
    loop {
        match to.post(message, LOOK) {
            Ok(()) => return Ok(()),
            Err(refused) if refused.error.kind() == ErrorKind::Timeout => message = refused.message,
            Err(refused) if refused.error.kind() == ErrorKind::PeerLost => return Err(gone(to.owner(), "was lost")),
            Err(refused) => {
                // A node that fails closes its mail boxes before it leaves.
                check(node, nodes)?;
                return Err(refused.error);
            }
        }
        check(node, nodes)?;
    }
}
