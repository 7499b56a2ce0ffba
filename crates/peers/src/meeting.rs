//! Meeting another node: the broker introduces the two, and from then on they talk to each other.

use std::sync::Arc;
use std::time::Duration;

use deck_sync::atomic::Ordering;
use deck_sync::locks::lock;
use deck_sync::{About, Deadline, Error, ErrorKind, Goal, Interrupted, NodeId, Result};

use crate::membership::{Membership, Until, left, lost};
use crate::peer::{Depending, Peer};
use crate::poll;
use crate::table::NodeState;
use crate::wire::Frame;

/// An introduction takes no longer if the broker runs. After that somebody may have died of whom it has not told.
const INTRODUCED_WITHIN: Duration = Duration::from_millis(200);

/// Before an introduction that failed is asked for again, at first and at most: each costs a descriptor until the other
/// node has read it, which may be stopped.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);
const ASK_AGAIN_LATER: Duration = Duration::from_millis(200);

impl Membership {
    /// Meets `node`: introduced by the broker if the two have not met yet.
    ///
    /// # Errors
    /// [`ErrorKind::PeerLost`] naming it, [`ErrorKind::Timeout`] that says so if it is frozen,
    /// [`ErrorKind::Cancelled`]; [`ErrorKind::NoMemory`] if this process has had no address space or no descriptor for
    /// its memory for a second.
    pub fn meet(&self, node: NodeId, deadline: Deadline) -> Result<Arc<Peer>> {
        let reaching = || format!("reaching {node}");
        let mut ask_again_after = ASK_AGAIN_AFTER;
        loop {
            let seat = self.table.seat_of(node).filter(|_| self.table.is_live(node));
            let Some(seat) = seat else { return Err(self.gone(node)) };
            let peer = lock(&self.peers).entry(node).or_insert_with(|| Peer::new(node, seat)).clone();
            if !peer.is_connected() && peer.begin_asking() {
                // If the broker has just died, the next one is asked by the control thread.
                let _ = self.broker().send(&Frame::Connect { to: u64::from(node.0) }, None);
            }
            let _depending = self.depend(&peer);
            // Whoever has met a node hears of its end; of one that was not met the table tells.
            let is_over = || {
                let is_gone = peer.gone().is_some() || !self.table.is_live(node);
                let is_over = peer.is_connected() || is_gone || !peer.is_asked_for();
                let is_lacking = || self.lacking_heap(node).is_some();
                (is_over || self.has_left.load(Ordering::Relaxed) || is_lacking()).then_some(())
            };
            let mut until = Until(is_over, About::new(Goal::Meeting, "").on(node));
            let events = [peer.changed(), self.table.changed()];
            let soon = Deadline::after(INTRODUCED_WITHIN);
            let first = if soon.at_ns() < deadline.at_ns() { soon } else { deadline };
            let mut waited = deck_sync::wait(&mut until, &events, self.crowd(), first);
            if matches!(waited, Err(Interrupted::Deadline)) && !deadline.has_passed() {
                // The broker may be stopped, and this node dead.
                self.watch_strangers();
                waited = deck_sync::wait(&mut until, &events, self.crowd(), deadline);
            }
            let lacking = self.lacking_heap(node);
            match (waited, lacking) {
                (Ok(()), _) if peer.is_connected() => return Ok(peer),
                (Ok(()), _) if self.has_left() => return Err(self.gone(node)),
                (Ok(()) | Err(Interrupted::Deadline), Some(why)) => {
                    return Err(why.context(reaching()).with_peer(node));
                }
                // For want of descriptors, here or there: in a moment there may be some. Or the broker died between
                // telling the one and the other.
                (Ok(()), None) if self.is_to_ask_again_for(&peer) => {
                    if deadline.has_passed() {
                        return Err(self.interrupted(Interrupted::Deadline, &reaching(), &peer));
                    }
                    poll::pause(deadline.remaining().map_or(ask_again_after, |left| left.min(ask_again_after)));
                    ask_again_after = (2 * ask_again_after).min(ASK_AGAIN_LATER);
                }
                (Ok(()), None) => return Err(self.gone(node)),
                (Err(interrupted), _) => return Err(self.interrupted(interrupted, &reaching(), &peer)),
            }
        }
    }

    /// True if there was no introduction, or one that only this node has heard of and that was taken back.
    fn is_to_ask_again_for(&self, peer: &Arc<Peer>) -> bool {
        let is_known = || lock(&self.peers).get(&peer.number()).is_some_and(|known| Arc::ptr_eq(known, peer));
        self.table.is_live(peer.number()) && (peer.gone().is_none() || !is_known())
    }

    /// The error of calls that need a node that is gone: leaving is no loss.
    pub(crate) fn gone(&self, node: NodeId) -> Error {
        self.gone_while(node, &format!("reaching {node}"))
    }

    /// As [`Membership::gone`], of a call that was `doing` something.
    pub(crate) fn gone_while(&self, node: NodeId, doing: &str) -> Error {
        if self.has_left() {
            return left();
        }
        match self.is_known_as_left(node) {
            true => Error::new(ErrorKind::Closed, format!("{node} has left the job")).with_peer(node),
            false => lost(node, doing),
        }
    }

    /// `node` has left in order. It says so to those that it has met before it enters it in the table.
    fn is_known_as_left(&self, node: NodeId) -> bool {
        let has_said_so = || lock(&self.peers).get(&node).is_some_and(|peer| peer.has_said_bye());
        self.table.state(node) == Some(NodeState::Left) || has_said_so()
    }

    /// The process of `node` has no memory any more, as this program has found by itself, before its connections were
    /// closed. Never blocks.
    pub fn note_end(&self, node: NodeId) {
        self.table.set_gone(node, !self.is_known_as_left(node));
    }

    /// Sends a question to `peer`. Never blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if it has left, [`ErrorKind::PeerLost`] if it is lost, both naming it,
    /// [`ErrorKind::Timeout`] if it has not read for very long.
    pub(crate) fn question(&self, peer: &Peer, frame: &Frame) -> Result<()> {
        peer.send(frame).map_err(|error| match error.kind() {
            ErrorKind::PeerLost if self.is_known_as_left(peer.number()) => self.gone(peer.number()),
            _ => error,
        })
    }

    /// While the guard lives, `peer`'s control thread is asked for signs of life.
    pub fn depend(&self, peer: &Arc<Peer>) -> Depending {
        let depending = peer.depend();
        self.poke();
        depending
    }
}
