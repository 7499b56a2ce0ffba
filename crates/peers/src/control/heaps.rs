//! Heaps that other nodes pass: their own, when they meet this one, and those of third nodes.
//!
//! A descriptor may not arrive, and a heap may not be mapped, because this process has as many descriptors or as much
//! address space as it may have. That says nothing about the one who passed it, who is asked to pass it again.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use deck_segment::{HeapMemory, Seat};
use deck_sync::locks::{lock, read, write};
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result};

use super::{ASK_EVERY, Control};
use crate::membership::Membership;
use crate::peer::Peer;
use crate::process;
use crate::wire::Frame;

impl Control {
    /// Asks for heaps that there was no room for; returns when it is time again.
    pub(super) fn ask_for_the_missing(&mut self, membership: &Membership) -> Option<Duration> {
        if self.ask_at.has_passed() {
            let peers = lock(&membership.peers);
            self.missing.retain(|(peer, owner)| {
                let wanted = Frame::HeapWanted { number: u64::from(owner.0) };
                peers.get(peer).is_some_and(|peer| peer.gone().is_none() && peer.send(&wanted).is_ok())
            });
            self.ask_at = if self.missing.is_empty() { Deadline::NEVER } else { Deadline::after(ASK_EVERY) };
        }
        self.ask_at.remaining()
    }

    /// The heap of `owner`, which `peer` has passed; `None` if this process has no descriptor or no address space for
    /// it now: then it is asked for again. That says nothing about the peer.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if what was passed is no heap, or another one than before.
    pub(super) fn passed_heap(
        &mut self,
        membership: &Membership,
        peer: &Peer,
        (owner, seat): (NodeId, Seat),
        passed: Option<OwnedFd>,
    ) -> Result<Option<Arc<HeapMemory>>> {
        let missing = (peer.number(), owner);
        match passed.map(|fd| write(&membership.heaps).enter(owner, seat, fd, membership.seat)) {
            Some(Ok(heap)) => {
                self.missing.remove(&missing);
                Ok(Some(heap))
            }
            Some(Err(error)) if error.kind() == ErrorKind::Corrupt => Err(error),
            lacking => {
                let why = lacking.and_then(Result::err);
                if why.as_ref().is_none_or(|why| why.kind() == ErrorKind::NoMemory) {
                    let is_lasting = lacks(membership, owner, why);
                    if is_lasting && owner == peer.number() {
                        self.refuse_what_is_put_off(peer);
                    }
                }
                if self.missing.is_empty() {
                    self.ask_at = Deadline::after(ASK_EVERY);
                }
                self.missing.insert(missing);
                Ok(None)
            }
        }
    }

    /// `peer` has passed the heap of `owner`, and will post what lies in it.
    pub(super) fn heap_passed(
        &mut self,
        membership: &Membership,
        peer: &Peer,
        (owner, seat): (NodeId, Seat),
        passed: Option<OwnedFd>,
    ) -> Result<()> {
        // No healthy node passes what the table does not know.
        if owner != membership.number && membership.table.seat_of(owner) != Some(seat) {
            return Ok(());
        }
        if owner != membership.number {
            // Also if there is no room for it now.
            write(&membership.heaps).note_passed(owner, peer.number());
            if self.passed_heap(membership, peer, (owner, seat), passed)?.is_none() {
                return Ok(());
            }
        }
        if let Some(handler) = membership.handler() {
            handler.heap_introduced();
        }
        Ok(())
    }

    /// `peer` posts nothing more that lies in the heap of `owner`, and all that it had posted is retrieved or taken
    /// over.
    pub(super) fn heap_released(&mut self, membership: &Membership, peer: NodeId, owner: NodeId) {
        write(&membership.heaps).note_released(owner, peer);
        self.missing.remove(&(peer, owner));
        // What it has posted itself is taken over when this node knows of its end.
        let has_posted = |peer: &Arc<Peer>| peer.heap().is_some() && peer.gone().is_none();
        if !membership.table.is_live(owner) && !lock(&membership.peers).get(&owner).is_some_and(has_posted) {
            self.forget_heap(membership, owner);
        }
    }

    /// All that it had passed.
    pub(super) fn heaps_released(&mut self, membership: &Membership, peer: NodeId) {
        let owners = read(&membership.heaps).passed_by(peer);
        owners.into_iter().for_each(|owner| self.heap_released(membership, peer, owner));
    }

    /// The heap of a node that is gone goes, unless others still post its buffers on.
    pub(super) fn forget_heap(&self, membership: &Membership, owner: NodeId) {
        if read(&membership.heaps).is_passed(owner) {
            return;
        }
        if let Some(handler) = membership.handler() {
            handler.heap_forgotten(owner);
        }
        write(&membership.heaps).forget(owner);
    }
}

/// There is no room for the heap of `owner`: who has needed it for long is told, and true then.
pub(super) fn lacks(membership: &Membership, owner: NodeId, why: Option<Error>) -> bool {
    let is_lasting = {
        let mut heaps = write(&membership.heaps);
        heaps.note_lacking(owner, why);
        heaps.lacking(owner).is_some()
    };
    if is_lasting {
        if let Some(peer) = lock(&membership.peers).get(&owner) {
            peer.changed().notify();
        }
        // Those who wait for what lies there look again.
        if let Some(handler) = membership.handler() {
            handler.heap_introduced();
        }
    }
    is_lasting
}

/// Passes the heap of `owner` to `peer`: this node's own with a hello.
pub(super) fn pass_heap(membership: &Membership, peer: &Peer, owner: NodeId) {
    if owner != membership.number {
        return peer.introduce_again(owner);
    }
    let (number, seat) = (u64::from(owner.0), u64::from(membership.seat.0));
    let hello = Frame::Hello { number, seat, process: process::own_word() };
    if peer.pass(&hello, membership.heap().segment().as_fd()).is_err() {
        // It has to wait, and there is no descriptor for that. One that gets a hello alone asks for the heap.
        let _ = peer.send(&hello);
    }
}
