//! What a node makes of the requests and deaths of others; the control thread calls it.

use std::sync::Arc;

use deck_peers::{Granted, Handler, Peer, Refusal};
use deck_segment::layout::LINE;
use deck_sync::locks::lock;
use deck_sync::{NodeId, Result};
use deck_transport::segment::sender::Ending;

use super::NodeShared;
use crate::inbox::Ended;
use crate::log::{self, LogLevel};

impl Handler for NodeShared {
    fn ring_requested(&self, peer: &Arc<Peer>, mailbox: u32, generation: u32, credit: u64) -> Result<Granted, Refusal> {
        let core = self.find_box(mailbox, generation).ok_or(Refusal::Closed)?;
        let heap = peer.heap().ok_or(Refusal::Nonsense)?;
        let credit = usize::try_from(credit).map_err(|_| Refusal::Nonsense)?;
        if !credit.is_multiple_of(LINE) || heap.segment().at(credit, core.shape.credit_bytes()).is_none() {
            return Err(Refusal::Nonsense);
        }
        self.add_ring(&core, heap, peer.number(), credit)
    }

    fn ring_closed(&self, owner: NodeId, ring: u64) -> u32 {
        self.end_ring(owner, ring).unwrap_or_else(|| {
            // A clone under way, or one that was given up, which has posted nothing and never will.
            self.forget_answers_of(owner, Some(ring));
            0
        })
    }

    fn ring_refused(&self, owner: NodeId) {
        self.forget_answers_of(owner, None);
    }

    fn room_wanted(&self, poster: NodeId, ring: u64) {
        if let Some(core) = self.box_of_ring(ring) {
            core.tell(poster, ring);
        }
    }

    fn ring_ended(&self, poster: NodeId, ring: u64, tail: u32) {
        if let Some(core) = self.box_of_ring(ring) {
            core.end_ring(poster, ring, tail);
        }
        self.note_tail(poster, ring, tail);
        if self.free_closed_rings() {
            self.want_ticks();
        }
    }

    fn node_gone(&self, node: NodeId, is_lost: bool) {
        let how = if is_lost { "died" } else { "left" };
        log::say(if is_lost { LogLevel::Warn } else { LogLevel::Info }, || format!("{node} {how}"));
    }

    fn peer_gone(&self, peer: NodeId, is_lost: bool) {
        for poster in self.all_posters().into_iter().filter(|poster| poster.id.owner == peer) {
            let _ = self.end_poster(&poster, if is_lost { Ending::Lost } else { Ending::Closed });
        }
        for core in self.all_boxes() {
            core.sender_gone(peer, if is_lost { Ended::Lost } else { Ended::Left }, self);
        }
        lock(&self.closed_rings).retain(|closed| closed.ring.receiver.from() != peer);
        self.forget_questions_to(peer);
    }

    fn heap_introduced(&self) {
        self.all_boxes().iter().for_each(|core| core.event().notify());
    }

    fn heap_forgotten(&self, owner: NodeId) {
        self.all_boxes().iter().for_each(|core| core.adopt_of(owner, self));
    }

    fn tick(&self) -> bool {
        self.ticks.tick(|| {
            let mut has_more = self.free_closed_rings();
            for poster in self.posters() {
                has_more |= poster.sender.reap_if_idle();
            }
            has_more
        })
    }

    fn cut_off(&self) {
        if !self.membership.has_left() {
            log::say(LogLevel::Error, || format!("{} leaves its job: the others have given it up", self.number()));
        }
        self.leave();
    }
}
