//! What has arrived: whether the next message is there, and the words that tell of it.
//!
//! Nothing is taken here. The last word of a slot is read first, and what it tells is checked before anything else of
//! the slot is believed.

use deck_segment::Remote;
use deck_segment::fabric::Line;
use deck_segment::layout::LINE_WORDS;
use deck_sync::atomic::Ordering;
use deck_sync::{Error, ErrorKind, Result};

use super::super::packet::Packet;
use super::super::ring::{Position, Stamp};
use super::Receiver;

impl<R: Remote> Receiver<R> {
    /// Whether all small messages that are known to be in the slot at `head` were taken.
    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        self.known != 0 && self.taken == self.known
    }

    #[inline]
    pub(super) fn last_word(&self, position: Position) -> u64 {
        // Acquire: pairs with: ring/slot.
        self.slots.line(position)[LINE_WORDS - 1].load(Ordering::Acquire)
    }

    /// Has the lines fetched that tell of the next message.
    #[inline]
    pub fn prefetch(&self) {
        if let Some(baton) = &self.baton {
            baton.prefetch();
        }
        self.slots.prefetch(self.head);
        if self.is_drained() {
            self.slots.prefetch(self.head.wrapping_add(1));
        }
    }

    /// True if the next message is there, or nonsense. One load, or two.
    #[inline]
    pub fn has_next(&self) -> bool {
        let is_there = |found: Result<Option<u64>>| !matches!(found, Ok(None));
        self.is_passed() || is_there(self.here()) || self.is_drained() && is_there(self.at(self.head.wrapping_add(1)))
    }

    /// True if all that was posted before `tail` was taken.
    pub fn has_taken_all(&self, tail: Position) -> bool {
        let is_done = || self.is_drained() && matches!(self.here(), Ok(None));
        !self.is_passed() && (self.head == tail || self.head.wrapping_add(1) == tail && is_done())
    }

    /// The last word of the slot of the next message, at `head`, if that is there.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<u64>> {
        let here = self.here()?;
        if here.is_some() || !self.is_drained() {
            return Ok(here);
        }
        let next = self.head.wrapping_add(1);
        let Some(last) = self.at(next)? else { return Ok(None) };
        // Ordered by the acquire of the next slot's last word: nothing is added to this one any more.
        let here = self.here()?;
        if here.is_some() {
            return Ok(here);
        }
        self.leave_slot();
        Ok(Some(last))
    }

    /// The last word of the slot at `head`, if it has arrived and tells of a message that was not taken.
    #[inline]
    fn here(&self) -> Result<Option<u64>> {
        let last = self.last_word(self.head);
        if last == self.packed.word() && self.taken == self.known { Ok(None) } else { self.arrived(last, self.stamp) }
    }

    /// The last word of the slot at `position`, if it has arrived.
    #[inline]
    fn at(&self, position: Position) -> Result<Option<u64>> {
        self.arrived(self.last_word(position), Stamp::of(position, self.count))
    }

    /// `last`, if it tells that the position with `stamp` has arrived.
    #[inline]
    fn arrived(&self, last: u64, stamp: Stamp) -> Result<Option<u64>> {
        if stamp.has_arrived(last) {
            return Ok(Some(last));
        }
        if last >> 62 == 3 {
            return Err(self.nonsense("the tag of a slot is none that exists"));
        }
        Ok(None)
    }

    /// The line at `position`, which has arrived and whose last word is `last`.
    #[inline]
    pub(super) fn line(&self, position: Position, last: u64) -> Line {
        // Relaxed: ordered by the acquire of the last word.
        let words = self.slots.line(position);
        let mut line: Line = std::array::from_fn(|index| words[index].load(Ordering::Relaxed));
        line[LINE_WORDS - 1] = last;
        line
    }

    pub(super) fn packet(&self, position: Position) -> Result<Option<Packet>> {
        let Some(last) = self.at(position)? else { return Ok(None) };
        Packet::read(&self.line(position, last), position).map(Some).map_err(|nonsense| self.nonsense(nonsense.0))
    }

    #[cold]
    pub(super) fn nonsense(&self, what: &str) -> Error {
        Error::new(ErrorKind::Corrupt, format!("the ring from {}: {what}", self.from)).with_peer(self.from)
    }
}
