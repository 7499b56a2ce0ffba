//! Rings of closed mail boxes: their memory is free when their posters have told that they write no more.

use std::sync::Arc;

use deck_segment::Region;
use deck_sync::NodeId;
use deck_sync::locks::lock;

use super::NodeShared;
use crate::inbox::Ring;

/// Kept until its poster has told, and all that was posted has come.
pub struct ClosedRing {
    pub ring: Ring,
    /// The bells of the mail box, which the poster may still write.
    _area: Arc<Region>,
    /// Position behind the last message that was ever posted, once the poster has told.
    tail: Option<u32>,
}

impl ClosedRing {
    fn is_ring(&self, poster: NodeId, ring: u64) -> bool {
        self.ring.id == ring && self.ring.receiver.from() == poster
    }
}

impl NodeShared {
    /// A ring that is retrieved from no more: its memory is free again when its poster has told that it writes no more.
    pub fn give_up(&self, ring: Ring, area: Arc<Region>) {
        if ring.ended.is_some() {
            return;
        }
        let (poster, id) = (ring.receiver.from(), ring.id);
        self.keep(ring, area);
        self.tell_poster(poster, id);
    }

    /// Keeps a ring until its poster tells its tail. Before the poster is asked for it: the answer, or the news that it
    /// died, may come at once, and to the control thread.
    pub fn keep(&self, ring: Ring, area: Arc<Region>) {
        lock(&self.closed_rings).push(ClosedRing { ring, _area: area, tail: None });
    }

    /// Tells the poster of a ring that is kept to post no more.
    pub fn tell_poster(&self, poster: NodeId, ring: u64) {
        if poster == self.number() {
            // A clone under way has posted nothing and never will.
            let tail = self.end_ring(poster, ring).unwrap_or(0);
            self.note_tail(poster, ring, tail);
        } else if !self.membership.close_ring(poster, ring) {
            lock(&self.closed_rings).retain(|closed| !closed.is_ring(poster, ring));
        }
    }

    pub fn note_tail(&self, poster: NodeId, ring: u64, tail: u32) {
        for closed in lock(&self.closed_rings).iter_mut().filter(|closed| closed.is_ring(poster, ring)) {
            closed.tail = Some(tail);
        }
    }

    /// Frees the rings of closed mail boxes that nobody writes any more; true if some are left.
    pub fn free_closed_rings(&self) -> bool {
        let mut closed = lock(&self.closed_rings);
        closed.retain_mut(|closed| !closed.tail.is_some_and(|tail| closed.ring.receiver.is_quiet(tail)));
        closed.iter().any(|closed| closed.tail.is_some())
    }
}
