//! Asking the owner of a mail box for a ring.
//!
//! Who asks may go on and look for the answer later. Whoever does not want it any more says so, and a ring that is
//! granted after that is declined at once: the owner keeps none that nobody posts to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use deck_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use deck_sync::locks::lock;
use deck_sync::{About, Deadline, Error, ErrorKind, Event, Goal, Interrupted, NodeId, Result, cancellation};

use super::{Membership, Until};
use crate::names::MailboxId;
use crate::peer::Peer;
use crate::wire::Frame;

/// A ring that an owner grants: where it lies in the owner's segment, and how large it is.
#[derive(Clone, Copy, Debug)]
pub struct Granted {
    /// The owner's number for it.
    pub ring: u64,
    /// Messages in flight.
    pub messages: u64,
    /// Bytes in flight.
    pub bytes: u64,
    /// Lines of the area for buffered messages.
    pub area_lines: u64,
    /// Byte offset of the ring.
    pub place: u64,
    /// Its bell, as the number of a bit from the begin of the segment on.
    pub bell: u64,
    /// Byte offset of the mail box's event.
    pub event: u64,
}

/// A question to a peer, and its answer.
struct Request {
    peer: NodeId,
    answer: OnceLock<Result<Granted>>,
    answered: Event,
    /// Changed and looked at under the lock of all questions.
    is_declined: AtomicBool,
}

/// The questions of a node whose answers are wanted.
#[derive(Default)]
pub(crate) struct RingRequests {
    open: Mutex<HashMap<u64, Arc<Request>>>,
    next: AtomicU64,
}

impl RingRequests {
    /// `peer` has answered. False if nobody waits for this answer any more, or it is a ring that nobody wants.
    pub fn answered(&self, peer: NodeId, request: u64, answer: Result<Granted>) -> bool {
        let open = lock(&self.open);
        let Some(request) = open.get(&request).filter(|request| request.peer == peer) else { return false };
        let is_wanted = answer.is_err() || !request.is_declined.load(Ordering::Relaxed);
        let _ = request.answer.set(answer);
        request.answered.notify();
        is_wanted
    }

    /// Everybody who waits for an answer looks again whether the one who is asked is still there.
    pub fn wake_those_who_asked(&self, peer: NodeId) {
        lock(&self.open).values().filter(|request| request.peer == peer).for_each(|request| request.answered.notify());
    }
}

/// A ring that was asked for, to be given to [`Membership::answer`] or [`Membership::forget`].
pub struct Asked {
    id: u64,
    request: Arc<Request>,
    peer: Arc<Peer>,
}

impl Asked {
    /// Who was asked.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// What the owner has said, which stays open.
    pub fn said(&self) -> Option<&Result<Granted>> {
        self.request.answer.get()
    }
}

impl Membership {
    /// Asks the owner of `mailbox` for a ring whose credits lie at `credit` in this node's segment. Never waits.
    ///
    /// # Errors
    /// [`ErrorKind::PeerLost`] and the like if the question cannot be sent.
    pub fn ask_for_ring(&self, peer: &Arc<Peer>, mailbox: MailboxId, credit: u64) -> Result<Asked> {
        let request = Arc::new(Request {
            peer: peer.number(),
            answer: OnceLock::new(),
            answered: Event::new(),
            is_declined: AtomicBool::new(false),
        });
        let id = self.ring_requests.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.ring_requests.open).insert(id, request.clone());
        let (index, generation) = (u64::from(mailbox.index), u64::from(mailbox.generation));
        let asked = Asked { id, request, peer: peer.clone() };
        match self.question(peer, &Frame::RingRequest { request: id, mailbox: index, generation, credit }) {
            Ok(()) => Ok(asked),
            Err(error) => {
                self.forget(&asked);
                Err(error)
            }
        }
    }

    /// What the owner says to the question, once, as soon as it has answered. Never waits.
    pub fn answer(&self, asked: &Asked) -> Option<Result<Granted>> {
        let answer = asked.request.answer.get().cloned()?;
        self.forget(asked);
        Some(answer.map_err(|error| error.with_peer(asked.peer.number())))
    }

    /// The answer is not wanted any more: a ring that is granted from now on is declined. The owner may still write to
    /// the credits.
    pub fn forget(&self, asked: &Asked) {
        lock(&self.ring_requests.open).remove(&asked.id);
    }

    /// The ring is not wanted any more: it is declined, at once if it was granted. Until the owner has refused it, or
    /// is gone, it may still write to the credits, and the question is to stay open: nobody tells when a ring that was
    /// granted is let go of.
    pub fn decline(&self, asked: &Asked) {
        let granted = {
            let _open = lock(&self.ring_requests.open);
            asked.request.is_declined.store(true, Ordering::Relaxed);
            asked.said().and_then(|said| said.as_ref().ok())
        };
        if let Some(granted) = granted {
            let _ = asked.peer.send(&Frame::RingEnded { ring: granted.ring, tail: 0 });
            self.see_it_sent(&asked.peer);
        }
    }

    /// The error of a clone whose ring `peer` has granted, and ended before it was used.
    pub fn ended(&self, peer: &Peer) -> Error {
        if peer.gone().is_some() || self.has_left() {
            return self.gone(peer.number());
        }
        Error::new(ErrorKind::Closed, "cloning its mail box").with_peer(peer.number())
    }

    /// Waits for the answer to a question about `mailbox`. Blocks until the deadline; after that the question is still
    /// open.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if there is no such mail box, and as for
    /// [`Membership::meet`].
    pub fn wait_for_ring(&self, asked: &Asked, mailbox: MailboxId, deadline: Deadline) -> Result<Granted> {
        let Asked { request, peer, .. } = asked;
        let waited = {
            let _depending = self.depend(peer);
            let answer = || {
                let is_gone = peer.gone().is_some() || self.has_left.load(Ordering::Relaxed);
                let gone = || Err(self.gone(peer.number()));
                request.answer.get().cloned().or_else(|| is_gone.then(gone))
            };
            let about = About::new(Goal::Ring, "").on(peer.number()).with([mailbox.to_word()]);
            let mut until = Until(answer, about);
            deck_sync::wait(&mut until, &[&request.answered, peer.changed()], &self.crowd, deadline)
        };
        let answer = request.answer.get().cloned();
        if answer.is_some() && matches!(waited, Err(Interrupted::Cancelled)) {
            cancellation::postpone();
        }
        match answer.map_or(waited, Ok) {
            Ok(answer) => {
                self.forget(asked);
                answer.map_err(|error| error.with_peer(peer.number()))
            }
            Err(interrupted) => Err(self.interrupted(interrupted, "cloning its mail box", peer)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nobody_answers_what_another_node_was_asked() {
        let requests = RingRequests::default();
        let request = Arc::new(Request {
            peer: NodeId(1),
            answer: OnceLock::new(),
            answered: Event::new(),
            is_declined: AtomicBool::new(false),
        });
        lock(&requests.open).insert(7, request.clone());
        let no = || Err(Error::new(ErrorKind::Closed, "no"));
        assert!(!requests.answered(NodeId(2), 7, no()) && request.answer.get().is_none());
        assert!(requests.answered(NodeId(1), 7, no()) && request.answer.get().is_some());
        assert!(!requests.answered(NodeId(1), 8, no()));
    }
}
