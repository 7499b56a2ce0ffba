//! A line that two nodes write in turn: what is said goes one way, the answer comes back in the same line.
//!
//! In a ring a message costs two exchanges of a line between two cores: the writer takes it away from the reader, who has looked at it last, and
//! the reader fetches it. Where one side writes what the other one has just read, the line is at the writer's core already, and one exchange is
//! left. So two rings of a pair of nodes, one each way, may have a baton between them. It carries one short message at a time, in
//! turn: whoever has taken one may write the next.
//!
//! It carries what would be next in its ring anyhow. A sender passes a message on the baton only if all that it has put into slots before was
//! retrieved, so what comes on the baton comes before all that is in slots and not yet taken; a receiver looks there first.
//!
//! ```text
//! carried   0: offered     the offering end may write
//!           1: it wrote    the other one looks, takes it, and may write
//!           2: that wrote  the offering end looks, ...
//! ```
//!
//! Each end counts for itself what the line has carried; nobody reads the other's count. The line tells the number of its message
//! as a slot tells its position, in a ring of one slot. Why: `docs/design/019-batons.md`. Model: `tests/loom_baton.rs`.

use deck_segment::fabric::{Line, Slots};
use deck_segment::layout::{LINE_WORDS, SLOT_WORDS};
use deck_segment::{MappedSlots, Region, Words};
use deck_sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::ring::{Position, Stamp};

/// The position of its only slot. A constant: where that lies is not computed for each message.
const ONLY: Position = 0;

/// One end of a baton, shared by the sender of one ring and the receiver of the other.
pub struct Baton {
    slot: MappedSlots,
    /// How many messages the line had carried when this end wrote or took the last one.
    carried: AtomicU32,
    /// The lowest bit of `carried` when this end may write.
    turn: u32,
    _region: Option<Region>,
}

impl Baton {
    /// Words of its memory: a slot.
    pub const WORDS: usize = SLOT_WORDS;

    /// The end that offers it and writes first. `words` are zero, and `region` keeps them allocated.
    pub fn offered(words: &Words, region: Option<Region>) -> Baton {
        Baton { slot: MappedSlots::of(words, 1), carried: AtomicU32::new(0), turn: 0, _region: region }
    }

    /// The other end. Whatever the words have: another process may write them.
    pub fn accepted(words: &Words) -> Baton {
        Baton { turn: 1, ..Baton::offered(words, None) }
    }

    /// Messages that it has carried, as this end knows.
    pub fn carried(&self) -> u32 {
        self.carried.load(Ordering::Relaxed)
    }

    /// What the last word of the message with this number has, beside what it tells.
    #[inline]
    pub(super) fn stamp(number: Position) -> Stamp {
        Stamp::of(number, 1)
    }

    /// The number of the next message, if this end may write it.
    #[inline]
    pub(super) fn to_write(&self) -> Option<Position> {
        // Acquire: pairs with: baton/taken. The receiver of this end has read what the line had.
        let carried = self.carried.load(Ordering::Acquire);
        (carried & 1 == self.turn).then_some(carried.wrapping_add(1))
    }

    /// Writes message `number`. Only after [`Baton::to_write`], and one thread at a time.
    #[inline]
    pub(super) fn write(&self, number: Position, line: &Line) {
        // Release (in the slots): pairs with: baton/line.
        self.slot.write(ONLY, line);
        self.has_written(number);
    }

    /// As [`Baton::write`], of content that lies in one word; `last` is the last word of the line.
    #[inline]
    pub(super) fn write_word(&self, number: Position, word: u64, last: u64) {
        let line = self.line();
        // Relaxed: ordered by the release of the last word.
        line[0].store(word, Ordering::Relaxed);
        // Release: pairs with: baton/line.
        line[LINE_WORDS - 1].store(last, Ordering::Release);
        self.has_written(number);
    }

    /// As [`Baton::write`], of content that is too long for a line: it begins in the line before.
    ///
    /// # Safety
    /// `data` is readable for `bytes`, which are no more than a slot has room for.
    #[inline]
    pub(super) unsafe fn write_whole(&self, number: Position, data: *const u8, bytes: usize, last: u64) {
        // SAFETY: as the caller promises. Release (in the slots): pairs with: baton/line.
        unsafe { self.slot.write_whole(ONLY, data, bytes, last) };
        self.has_written(number);
    }

    #[inline]
    fn has_written(&self, number: Position) {
        // Release: pairs with: baton/written. Whoever looks for the answer finds this message in the line, or what came after it.
        self.carried.store(number, Ordering::Release);
    }

    /// Whether the other end has the turn.
    #[inline]
    pub(super) fn is_awaited(&self) -> bool {
        self.to_write().is_none()
    }

    /// The number and the last word of the next message, if that has arrived for this end.
    #[inline]
    pub(super) fn arrived(&self) -> Option<(Position, u64)> {
        // Acquire: pairs with: baton/written.
        let carried = self.carried.load(Ordering::Acquire);
        if carried & 1 == self.turn {
            return None;
        }
        let number = carried.wrapping_add(1);
        // Acquire: pairs with: baton/line.
        let last = self.line()[LINE_WORDS - 1].load(Ordering::Acquire);
        Self::stamp(number).has_arrived(last).then_some((number, last))
    }

    /// As [`MappedSlots::with_content`], of the slot, whoever has written it.
    #[inline]
    pub(super) fn with_content<T>(&self, read: impl FnOnce(*const u8) -> T) -> T {
        self.slot.with_content(ONLY, read)
    }

    /// The line that tells of a message.
    #[inline]
    pub(super) fn line(&self) -> &[AtomicU64; LINE_WORDS] {
        self.slot.line(ONLY)
    }

    /// Message `number` was read: this end may write.
    #[inline]
    pub(super) fn taken(&self, number: Position) {
        // Release: pairs with: baton/taken.
        self.carried.store(number, Ordering::Release);
    }
}
