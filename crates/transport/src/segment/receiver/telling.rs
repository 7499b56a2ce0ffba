//! What the sender is told: credits, and whether anybody is polling, or ever will.
//!
//! Credits are told late, within the slack of the ring, as each takes a line away from the sender's core.

use deck_segment::Remote;
use deck_sync::atomic::Ordering;
use deck_sync::{Spot, barrier, point};

use super::super::ring::{credit, hot};
use super::Receiver;
use crate::protocol::Protocol;

impl<R: Remote> Receiver<R> {
    /// A message was taken that lay in a slot.
    #[inline]
    pub(super) fn count_short(&mut self) {
        self.messages = self.messages.wrapping_add(1);
        point("retrieve/held");
        // Area and bytes are as they were when that was decided last.
        if self.owes_slots() || self.is_hungry() {
            self.tell();
        }
        point("retrieve/credited");
    }

    /// A message was taken.
    #[inline]
    pub(super) fn count(&mut self, protocol: Protocol) {
        self.messages = self.messages.wrapping_add(1);
        point("retrieve/held");
        self.give_credit(protocol);
        point("retrieve/credited");
    }

    /// Tells the sender how far the ring is free, unless that can wait until there is nothing to retrieve: the line
    /// that it is written to belongs to the sender's core, and the next post from here would have to wait for it. It
    /// can wait within the slack of the ring and while nobody waits for room. A receiver that never looks again is
    /// asked through its control thread.
    #[inline]
    fn give_credit(&mut self, protocol: Protocol) {
        let bytes_slack = if self.owes_buffers { self.bytes_slack } else { self.shape.bytes_slack_at_first() };
        self.owes_buffers |=
            protocol == Protocol::ZeroCopy || self.area.wrapping_sub(self.told_area) > self.area_slack / 4;
        let may_wait = !self.owes_slots()
            && self.area.wrapping_sub(self.told_area) <= self.area_slack
            && self.bytes.wrapping_sub(self.told_bytes) <= bytes_slack
            && !self.is_hungry();
        if !may_wait {
            self.tell();
        }
    }

    /// Whether there is something to tell as soon as there is nothing else to do: buffers, or what would soon have to
    /// be told while an answer waits behind it.
    #[inline]
    pub(super) fn is_to_tell(&self) -> bool {
        self.owes_buffers || self.head.wrapping_sub(self.told_head) > self.slack / 2 || self.is_to_tell_for_baton()
    }

    /// Whether more slots are free than the sender may be left without.
    #[inline]
    fn owes_slots(&self) -> bool {
        self.head.wrapping_sub(self.told_head) > self.slack
    }

    /// Whether the sender waits for room.
    #[inline]
    fn is_hungry(&self) -> bool {
        self.ring.get(self.hungry).load(Ordering::Relaxed) != 0
    }

    /// Tells the sender how far the ring is free.
    pub fn tell(&mut self) {
        if self.told == self.messages {
            return;
        }
        self.remote.flush();
        self.remote.write_word(self.credit + 8 * credit::BYTES, self.bytes);
        // Release (in the fabric), both: pairs with: ring/credit. Our hold of a buffer comes before the credit for its
        // slot.
        let place = u64::from(self.taken) << 32 | u64::from(self.head);
        self.remote.write_word(self.credit + 8 * credit::HEAD, place);
        self.remote
            .write_word(self.credit + 8 * credit::RETIRED, u64::from(self.area) << 32 | u64::from(self.messages));
        let frees_slots = self.head != self.told_head;
        (self.told, self.told_head, self.told_taken) = (self.messages, self.head, self.taken);
        (self.told_area, self.told_bytes) = (self.area, self.bytes);
        self.owes_buffers = false;
        if !R::IS_MAPPED {
            self.remote.flush();
        }
        // Light fence: pairs with: ring/hungry. Either the sender, after asking for room, sees the credit, or we see
        // that it asks.
        barrier::light();
        if frees_slots && self.is_hungry() {
            self.remote.interrupt(self.credit + 8 * credit::ROOM);
        }
    }

    /// True while the ring is polled by the receiver itself.
    pub fn is_hot(&self) -> bool {
        self.is_hot
    }

    /// Tells the sender whether the ring is polled (hot) or it has to ring (cold). After marking cold, a heavy fence
    /// and another look have to follow.
    pub fn set_hot(&mut self, is_hot: bool) {
        if self.is_hot != is_hot {
            (self.is_hot, self.spot) = (is_hot, None);
            self.write_hot(if is_hot { hot::YES } else { hot::NO });
        }
    }

    /// Has the sender of a hot ring call at `spot` whoever waits here, until the ring is cold; or nowhere.
    pub fn set_spot(&mut self, spot: Option<Spot>) {
        if self.is_hot && self.spot != spot {
            self.spot = spot;
            self.write_hot(spot.map_or(hot::YES, Spot::to_word));
        }
    }

    fn write_hot(&self, hot: u64) {
        self.remote.flush();
        // The heavy fence that has to follow the mark of a cold ring pairs with: ring/cold.
        self.remote.write_word(self.credit + 8 * credit::HOT, hot);
        self.remote.flush();
    }

    /// Tells the sender, which is there, that the mail box is closed, after all credits, and wakes its threads that
    /// wait for room.
    pub fn set_closed(&mut self) {
        // The sender lets go of all that it knows was not retrieved, and this side of what it has taken over.
        self.adopted.iter().for_each(|(_, buffer)| buffer.add_share());
        self.tell();
        self.remote.flush();
        self.remote.write_word(self.credit + 8 * credit::CLOSED, 1);
        self.remote.interrupt(self.credit + 8 * credit::ROOM);
        self.remote.flush();
        // A sender that is still being made may end at this, and then its credits are somebody else's memory.
        self.remote.write_word(self.credit + 8 * credit::CLOSED, credit::FOR_GOOD);
    }
}
