//! What is free as far as was told: slots and lines of the area, whether the ring goes on, and how to ask for more.
//!
//! What is known is looked at first. The receiver writes the credit lines, and a look at them takes them away from its
//! core.

use deck_segment::Remote;
use deck_sync::atomic::Ordering;
use deck_sync::{Error, ErrorKind, Event};

use super::super::ring::{Position, credit};
use super::{AREA_MASK, Ending, Posting, Refusal, Sender};

impl<R: Remote> Sender<R> {
    /// Whether the first `posted` messages were retrieved, as far as was told.
    pub fn has_retired(&self, posted: u32) -> bool {
        // Acquire: pairs with: ring/credit. What the receiver did with them is before what follows here.
        let retired = self.credit.get(credit::RETIRED).load(Ordering::Acquire) as u32;
        retired.wrapping_sub(posted) < u32::MAX / 2
    }

    /// Whether the next slot is known to be free, of a mail box that is open.
    #[inline]
    pub(super) fn has_room(&self, posting: &Posting) -> bool {
        posting.room != 0 && !self.is_closed()
    }

    /// The slot that the receiver is at, as far as it told.
    #[inline]
    pub(super) fn head(&self) -> Position {
        // Acquire: pairs with: ring/credit. The receiver is done with a slot, and has its own hold of the buffer in it,
        // before that.
        self.credit.get(credit::HEAD).load(Ordering::Acquire) as Position
    }

    /// The bytes of buffers that the receiver is through with, as far as it told.
    #[inline]
    pub(super) fn retired_bytes(&self) -> u64 {
        // Acquire: pairs with: ring/credit.
        self.credit.get(credit::BYTES).load(Ordering::Acquire)
    }

    /// Makes sure that there is a slot for the next message.
    #[inline]
    pub(super) fn check_slot(&self, posting: &mut Posting) -> Result<(), Refusal> {
        // A ring that has ended has no room.
        if posting.room == 0 {
            self.read_credits(posting)?;
        }
        if self.is_closed() { Err(Refusal::Closed) } else { Ok(()) }
    }

    /// Whether the mail box was closed.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.credit.get(credit::CLOSED).load(Ordering::Relaxed) != 0
    }

    /// Whether it was closed, and its owner writes nothing more to this ring's credits.
    pub fn is_closed_for_good(&self) -> bool {
        // Acquire: pairs with: ring/credit. All credits were told before.
        self.credit.get(credit::CLOSED).load(Ordering::Acquire) == credit::FOR_GOOD
    }

    #[cold]
    fn read_credits(&self, posting: &mut Posting) -> Result<(), Refusal> {
        if self.ended.load(Ordering::Relaxed) != 0 {
            return Err(self.ending());
        }
        let used = posting.position.wrapping_sub(self.head());
        if used > self.limit {
            let what = "its credits are ahead of what was posted";
            return Err(Refusal::Failed(Error::new(ErrorKind::Corrupt, what).with_peer(self.receiver)));
        }
        posting.room = self.limit - used;
        // Where only short messages follow a long one nobody else comes by, and after half of all positions its own
        // says nothing any more.
        self.reap_some(posting, self.count);
        if used == self.limit { Err(self.closed_or(Refusal::Full)) } else { Ok(()) }
    }

    /// Where `lines` lines of the area are free, and how far it is used with them.
    #[inline]
    pub(super) fn find_area(&self, posting: &mut Posting, lines: u32) -> Option<(u32, u32)> {
        let mask = self.shape.area_lines - 1;
        let begin = posting.area & mask;
        let skip = if begin + lines > self.shape.area_lines { self.shape.area_lines - begin } else { 0 };
        let has_room = |retired: u32| {
            let used = posting.area.wrapping_sub(retired) & AREA_MASK;
            used + skip + lines <= self.shape.area_lines
        };
        if !has_room(posting.retired_area) {
            // Acquire: pairs with: ring/credit.
            let retired = (self.credit.get(credit::RETIRED).load(Ordering::Acquire) >> 32) as u32;
            if !has_room(retired) {
                return None;
            }
            posting.retired_area = retired;
        }
        Some((posting.area.wrapping_add(skip) & mask, posting.area.wrapping_add(skip + lines) & AREA_MASK))
    }

    pub(super) fn closed_or(&self, refusal: Refusal) -> Refusal {
        if self.is_closed() { Refusal::Closed } else { refusal }
    }

    fn ending(&self) -> Refusal {
        if self.ended() == Some(Ending::Lost) { Refusal::Lost } else { Refusal::Closed }
    }

    /// The event that tells of room, in this node's memory.
    pub fn room(&self) -> &Event {
        self.credit.event(credit::ROOM)
    }

    /// Asks the receiver to notify [`Sender::room`] with every credit from now on, or no longer. A heavy fence and
    /// another try have to follow before anybody sleeps. There is one question for all threads of the node: the first
    /// of them sets it and the last one clears it.
    pub fn ask_for_room(&self, is_hungry: bool) {
        // The heavy fence that has to follow pairs with: ring/hungry.
        self.remote.write_word(self.place.ring + self.shape.hungry(), u64::from(is_hungry));
        self.remote.flush();
    }
}
