//! Waiting for other nodes, each of which all others need.

use std::time::Duration;

use deck::{Error, ErrorKind, Node, NodeId, Result};
use user_interface::patience;

/// Waits for as long as all nodes that take part are there, stopped or not.
#[derive(Clone)]
pub struct Patience {
    node: Node,
    nodes: u32,
}

impl Patience {
    /// With the first `nodes` nodes of the job of `node`.
    pub fn new(node: &Node, nodes: u32) -> Patience {
        Patience { node: node.clone(), nodes }
    }

    /// How many have joined, wherever they are now.
    pub fn joined(&self) -> u32 {
        (0..self.nodes).filter(|number| self.node.state(NodeId(*number)).is_ok()).count() as u32
    }

    /// Fails if one is gone.
    ///
    /// # Errors
    /// [`ErrorKind::PeerLost`] with the node.
    pub fn check(&self) -> Result<()> {
        match patience::gone(&self.node, self.nodes) {
            None => Ok(()),
            Some((node, how)) => Err(Error::new(ErrorKind::PeerLost, format!("{node} {how}")).with_peer(node)),
        }
    }

    /// Calls `wait`, each time with so long to wait, until it does not run out of time.
    ///
    /// # Errors
    /// Those of `wait` and of [`Patience::check`].
    pub fn wait<T>(&self, wait: impl FnMut(Duration) -> Result<T>) -> Result<T> {
        patience::wait(|| self.check(), wait)
    }
}
