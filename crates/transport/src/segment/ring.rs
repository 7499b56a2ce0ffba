//! The shape of a ring and where its parts lie; `docs/layout/ring.md` is the same map in words.
//!
//! A ring has one sending node and one mail box. Its slots and everything else that the sender writes lie in the
//! receiver's segment; its credits and everything else that the receiver writes lie in the sender's. So each side only
//! ever *writes* across and *reads* at home.

use deck_segment::layout::{LINE, SLOT};
use deck_sync::{Error, ErrorKind, Result};

use super::bells::Bell;

/// How large a ring is. Both sides compute the same offsets from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Messages that may be in flight, at least.
    pub messages: u32,
    /// Content bytes that may be in flight by protocol 3; an empty ring takes one message of any size.
    pub bytes: u64,
    /// 64-byte lines of the area for buffered messages, a power of two.
    pub area_lines: u32,
    /// True if the two nodes can read each other's pages.
    pub is_mapped: bool,
    /// True if several small messages may lie in a slot: see `SHARED_FROM`.
    pub shares_slots: bool,
}

/// A ring for fewer messages is meant to hold its posters back, and has a slot for each. Others count slots: they have
/// room for several times as many small messages.
const SHARED_FROM: u32 = 28;

/// The most messages a ring can be asked to hold.
pub const MESSAGES_MAX: u32 = 57_344;

impl Shape {
    /// That of a mail box whose owner and posters can read each other's pages.
    pub fn mapped(messages: u32, bytes: u64, area_lines: u32) -> Shape {
        Shape { messages, bytes, area_lines, is_mapped: true, shares_slots: messages >= SHARED_FROM }
    }

    /// Slots whose credits a receiver may keep to itself, so as not to tear the sender's line away with every message.
    pub fn slack(&self) -> u32 {
        self.messages / 8
    }

    /// The most bytes of zero-copy messages whose credits a receiver may keep to itself.
    pub fn bytes_slack(&self) -> u64 {
        (self.bytes / 8).min(64 << 10)
    }

    /// The same until the next look, where it keeps none yet: the credit of one buffer would be in the way of an
    /// answer.
    pub fn bytes_slack_at_first(&self) -> u64 {
        self.bytes / 4
    }

    /// The most area lines whose credits it may keep to itself.
    pub fn area_slack(&self) -> u32 {
        self.area_lines / 2
    }

    /// Slots that a sender may use as far as it knows: with the credits kept back, and the slot that the receiver stays
    /// at while small messages may be added to it, there is always room for [`Shape::messages`].
    pub fn limit(&self) -> u32 {
        self.messages + self.slack() + u32::from(self.shares_slots)
    }

    /// Slots: a power of two, at least 4.
    pub fn slots(&self) -> u32 {
        self.limit().next_power_of_two().max(4)
    }

    /// Checks what another node tells.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] for an impossible shape.
    pub fn check(&self) -> Result<()> {
        let possible = (1..=MESSAGES_MAX).contains(&self.messages)
            && self.area_lines.is_power_of_two()
            && (4..=1 << 20).contains(&self.area_lines)
            && self.bytes > 0;
        if possible { Ok(()) } else { Err(Error::new(ErrorKind::Corrupt, format!("an impossible ring: {self:?}"))) }
    }

    /// The most bytes of one buffered message: half the area, so that it fits however the area lies.
    pub fn area_max(&self) -> usize {
        self.area_lines as usize * LINE / 2
    }

    /// Offset of the area in the ring's memory at the receiver.
    pub fn area(&self) -> usize {
        self.slots() as usize * SLOT
    }

    /// Offset of the line in which the sender asks for credits, and says what is in [`said`].
    pub fn hungry(&self) -> usize {
        self.area() + self.area_lines as usize * LINE
    }

    /// Offset of the words in which the sender tells that a zero-copy write has landed, one for each slot.
    pub fn done(&self) -> usize {
        self.hungry() + LINE
    }

    /// Bytes of the ring at the receiver.
    pub fn ring_bytes(&self) -> usize {
        self.done() + if self.is_mapped { 0 } else { (self.slots() as usize * 8).next_multiple_of(LINE) }
    }

    /// Offset of the words in which the receiver tells where a zero-copy write may go, two for each slot.
    pub fn answers(&self) -> usize {
        Shape::MAPPED_CREDIT_BYTES
    }

    /// Bytes of the credits at the sender where the two nodes can read each other's pages.
    pub const MAPPED_CREDIT_BYTES: usize = 2 * LINE;

    /// Bytes of the credits at the sender.
    pub fn credit_bytes(&self) -> usize {
        self.answers() + if self.is_mapped { 0 } else { (self.slots() as usize * 16).next_multiple_of(LINE) }
    }
}

/// Words of the credit lines, in the sender's segment, written by the receiver. What changes with the messages is on
/// the first line, what a sender looks at with every message on the second.
pub mod credit {
    /// Messages (low half) and area lines (high half) that are retired, of all times.
    pub const RETIRED: usize = 0;
    /// Bytes retired by protocol 3, in all.
    pub const BYTES: usize = 1;
    /// The slot that the receiver is at (low half): those before it may be written again. How many of its small
    /// messages it has taken (high half, for those who look on).
    pub const HEAD: usize = 2;
    /// How the receiver learns of a message: see [`super::hot`].
    pub const HOT: usize = 8;
    /// 1 once the mail box is closed.
    pub const CLOSED: usize = 9;
    /// What stands there when the receiver writes no more credits.
    pub const FOR_GOOD: u64 = 2;
    /// The [`deck_sync::Event`] that threads waiting for room sleep on.
    pub const ROOM: usize = 10;
}

/// Words of the line in which the sender asks for credits: what it says beside the messages, where both nodes can read
/// each other's pages.
pub mod said {
    /// How many times it has said something; written after the other words.
    pub const COUNT: usize = 1;
    /// See [`super::Said`].
    pub const BATON: usize = 2;
    /// See [`super::Said`].
    pub const MAILBOX: usize = 3;
    /// See [`super::Said`].
    pub const RING: usize = 4;
    /// Where the baton lies on which messages were passed before, for those who look on: one that was not retrieved may
    /// lie there. Zero if there was none; written before [`BATON`].
    pub const FORMER: usize = 5;
    /// How many times it has begun to say something; written before the other words.
    pub const BEGUN: usize = 6;
}

/// What a sender says of a [`Baton`](super::baton::Baton). Written by another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// Where the baton lies: a byte offset in the segment of the node that offers it.
    pub baton: u64,
    /// The mail box that answers are to go to, as a word, and the number of the ring to it; zero in the answer.
    pub mailbox: u64,
    /// See `mailbox`.
    pub ring: u64,
    /// How many times it has said something by then; whoever says it need not know.
    pub count: u64,
}

/// What the receiver says of a ring in [`credit::HOT`]. Anything else is the word of the [`deck_sync::Spot`] where it
/// is called: it polls the ring, but gives its core away in between.
pub mod hot {
    /// The sender has to ring.
    pub const NO: u64 = 0;
    /// The receiver polls the ring by itself.
    pub const YES: u64 = 1;
}

const _: () =
    assert!(credit::HEAD < deck_segment::layout::LINE_WORDS && credit::ROOM < 2 * deck_segment::layout::LINE_WORDS);
// docs/layout/ring.md
const _: () = assert!(credit::RETIRED == 0 && credit::BYTES == 1 && credit::HEAD == 2);
const _: () = assert!(credit::HOT == 8 && credit::CLOSED == 9 && credit::ROOM == 10);

/// Where the parts of a ring that a sender writes lie, as byte offsets in the receiver's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlace {
    /// The ring.
    pub ring: usize,
    /// Where the sender rings if nobody polls it.
    pub bell: Bell,
}

impl RingPlace {
    /// Checks what another node tells against the size of its segment.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if anything lies outside or is not aligned.
    pub fn check(&self, shape: &Shape, segment_bytes: usize) -> Result<()> {
        let inside = |offset: usize, bytes: usize| offset.checked_add(bytes).is_some_and(|end| end <= segment_bytes);
        if self.ring.is_multiple_of(SLOT) && inside(self.ring, shape.ring_bytes()) {
            self.bell.check(segment_bytes)
        } else {
            Err(Error::new(ErrorKind::Corrupt, format!("a ring at an impossible place: {self:?}")))
        }
    }
}

/// A position in a ring: counts slots from the begin of time, wraps after 2^32.
pub type Position = u32;

/// The place of a position in what is kept beside a ring of `slots` slots, one for each of them; where the slot itself
/// lies, the fabric knows.
///
/// `slots` is a power of two.
#[inline]
pub fn place_of(position: Position, slots: u32) -> usize {
    (position & (slots - 1)) as usize
}

/// The tag of a position: never 0, and always another than that of the previous lap.
///
/// `slots` is a power of two, so the bit that it is tells odd laps from even ones.
#[inline]
pub fn tag(position: Position, slots: u32) -> u8 {
    1 + u8::from(position & slots != 0)
}

/// What the last word of the slot at a position has beside what it tells: the sequence in bits 48 to 55, the tag in the
/// two highest. Made before it is needed, as both sides know which position is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    /// That of `position` in a ring of `slots` slots.
    #[inline]
    pub fn of(position: Position, slots: u32) -> Stamp {
        Stamp(u64::from(position as u8) << 48 | u64::from(tag(position, slots)) << 62)
    }

    /// With the six bits of a length between the two.
    #[inline]
    pub fn with(self, length: u8) -> u64 {
        self.0 | u64::from(length) << 56
    }

    /// Whether a last word says that the position has arrived.
    #[inline]
    pub fn has_arrived(self, last: u64) -> bool {
        (last ^ self.0) >> 62 == 0
    }

    /// Whether a last word has the sequence of the position.
    #[inline]
    pub fn is_next(self, last: u64) -> bool {
        ((last ^ self.0) >> 48) as u8 == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const DEFAULT: Shape = Shape { messages: 28, bytes: 64 << 20, area_lines: 32, is_mapped: true, shares_slots: true };

    #[test]
    fn parts_lie_where_the_layout_page_says() {
        assert_eq!((DEFAULT.area(), DEFAULT.hungry(), DEFAULT.done()), (4096, 6144, 6208));
        assert_eq!((DEFAULT.ring_bytes(), DEFAULT.credit_bytes()), (6208, 128));
        let unmapped = Shape { is_mapped: false, ..DEFAULT };
        assert_eq!((unmapped.ring_bytes(), unmapped.answers(), unmapped.credit_bytes()), (6208 + 256, 128, 128 + 512));
    }

    #[test]
    fn a_ring_costs_at_most_8_kib_on_both_sides_together() {
        assert!(DEFAULT.ring_bytes() + DEFAULT.credit_bytes() <= 8 << 10);
    }

    #[test]
    fn the_tag_differs_from_the_previous_lap_also_where_positions_wrap() {
        for slots in [4u32, 64, 1 << 16] {
            for position in [0, 1, slots - 1, slots, 12345, 0u32.wrapping_sub(slots), u32::MAX] {
                assert_ne!(tag(position, slots), 0);
                assert_ne!(tag(position, slots), tag(position.wrapping_add(slots), slots));
            }
        }
    }

    #[test]
    fn impossible_shapes_and_places_are_refused() {
        assert!(DEFAULT.check().is_ok());
        for messages in [0, MESSAGES_MAX + 1] {
            assert!(Shape { messages, ..DEFAULT }.check().is_err());
        }
        for area_lines in [0, 1, 2, 33, 1 << 21, 1 << 31] {
            assert!(Shape { area_lines, ..DEFAULT }.check().is_err(), "{area_lines}");
        }
        assert!([4, 1 << 20].into_iter().all(|area_lines| Shape { area_lines, ..DEFAULT }.check().is_ok()));
        assert!(Shape { bytes: 0, ..DEFAULT }.check().is_err());
        let place = RingPlace { ring: 128, bell: Bell { bit: 64, event: 16 } };
        assert!(place.check(&DEFAULT, 1 << 20).is_ok());
        let end = place.ring + DEFAULT.ring_bytes();
        assert!(place.check(&DEFAULT, end).is_ok() && place.check(&DEFAULT, end - 1).is_err());
        assert!(RingPlace { ring: usize::MAX - 63, ..place }.check(&DEFAULT, 1 << 20).is_err());
        assert!(RingPlace { ring: 64, ..place }.check(&DEFAULT, 1 << 20).is_err());
        assert!(RingPlace { bell: Bell { bit: 64, event: 9 }, ..place }.check(&DEFAULT, 1 << 20).is_err());
    }
}
