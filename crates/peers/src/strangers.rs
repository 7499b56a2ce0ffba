//! The ends of processes that this node may never have met.
//!
//! Nodes that share a mutex or a barrier need not know each other. The broker tells them of a death; but the broker's
//! process may be stopped, and then nobody would. So whoever waits for something of the job, is refused it, or asks how
//! a node is that it has not met, has the control thread hold a handle of each process of the job from then on. The
//! kernel tells when one ends: it costs nothing until then, nor do nodes pay that wait for messages only. After nodes
//! have come, those who sleep are woken and say again that they wait.
//!
//! A process in another process namespace has no handle here: its death is told by the broker alone.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use deck_sync::NodeId;
use deck_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use deck_sync::locks::lock;
use rustix::io::Errno;

use crate::membership::Membership;
use crate::poll::Poll;
use crate::process;

/// What threads that wait tell the control thread.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Somebody waits, and has seen nodes come or go since the last look.
    is_wanted: AtomicBool,
    /// The table's count of changes before the last look.
    seen: AtomicU64,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted { is_wanted: AtomicBool::new(false), seen: AtomicU64::new(u64::MAX) }
    }
}

impl Membership {
    /// The calling thread waits for something that a node may have which nobody here has met: from now on the end of
    /// any process of the job is noticed here. To be said before each sleep. Two loads, unless nodes have come or gone.
    /// Never blocks.
    pub fn watch_strangers(&self) {
        let wanted = &self.strangers;
        // Relaxed: whoever finds an old count says it once more, in vain.
        if wanted.seen.load(Ordering::Relaxed) != self.table.changes() {
            // Release: pairs with: strangers/wanted. The control thread sees the change that this one has seen.
            if !wanted.is_wanted.swap(true, Ordering::Release) {
                self.poke();
            }
        }
    }
}

/// The handles, of the control thread.
#[derive(Debug, Default)]
pub(crate) struct Strangers(HashMap<NodeId, OwnedFd>);

impl Strangers {
    /// Looks who is in the job, if threads of this node want it. `poll` tells the end of each, with the node's number
    /// and `mark` as its key. Returns the nodes whose processes have ended already.
    pub fn look(&mut self, membership: &Membership, poll: &Poll, mark: u64) -> Vec<NodeId> {
        let (table, wanted) = (&membership.table, &membership.strangers);
        // Acquire: pairs with: strangers/wanted.
        if !wanted.is_wanted.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        let changes = table.changes();
        let gone: Vec<NodeId> = self.0.keys().copied().filter(|node| !table.is_live(*node)).collect();
        gone.into_iter().for_each(|node| self.forget(node, poll));
        let (mut ended, mut is_all) = (Vec::new(), true);
        for node in table.live() {
            let is_watched = node == membership.number || self.0.contains_key(&node) || is_met(membership, node);
            let process = table.process_of(node).filter(|_| !is_watched).and_then(process::open);
            let Some(process) = process else { continue };
            match process {
                Ok(process) if poll.watch(&process, mark | u64::from(node.0)).is_ok() => {
                    self.0.insert(node, process);
                }
                Err(Errno::SRCH) => ended.push(node),
                // A system that has no handles will not have them later either.
                Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => {}
                // Too few descriptors, or too little memory: whoever sleeps next asks again.
                Ok(_) | Err(_) => is_all = false,
            }
        }
        if is_all {
            wanted.seen.store(changes, Ordering::Relaxed);
        }
        ended
    }

    /// The handle of `node` has told what it had to tell.
    pub fn forget(&mut self, node: NodeId, poll: &Poll) {
        if let Some(process) = self.0.remove(&node) {
            // It would be told again and again if a forked child had the descriptor.
            poll.forget(process);
        }
    }
}

fn is_met(membership: &Membership, node: NodeId) -> bool {
    lock(&membership.peers).get(&node).is_some_and(|peer| peer.process().is_some())
}
