//! A line that two nodes write in turn: what is said goes one way, the answer comes back in the same line.
//!
//! In a ring a message costs two exchanges of a line between two cores: the writer takes it away from the reader, who
//! has looked at it last, and the reader fetches it. Where one side writes what the other one has just read, the line
//! is at the writer's core already, and one exchange is left. So two rings of a pair of nodes, one each way, may have a
//! baton between them. It carries one message at a time that is short or copied, in turn: whoever has taken one may
//! write the next.
//!
//! It carries what would be next in its ring anyhow. A sender passes a message on the baton only if all that it has put
//! into slots before was retrieved, so what comes on the baton comes before all that is in slots and not yet taken; a
//! receiver looks there first.
//!
//! ```text
//! carried   0: offered     the offering end may write
//!           1: it wrote    the other one looks, takes it, and may write
//!           2: that wrote  the offering end looks, ...
//! ```
//!
//! Each end counts for itself what the line has carried; neither reads the other's count. The line tells the number of
//! its message as a slot tells its position, in a ring of one slot. The counts lie beside the line for those who look
//! on: without them nobody knows of a message whether it was taken. Why: `docs/design/019-batons.md`. Model:
//! `tests/loom_baton.rs`.

use deck_segment::fabric::{Line, Slots};
use deck_segment::layout::{LINE, LINE_WORDS, SLOT_WORDS};
use deck_segment::{Fetching, MappedSlots, Region, Words, content};
use deck_sync::atomic::{AtomicU64, Ordering};

use super::ring::{Position, Stamp};

/// The position of its only slot. A constant: where that lies is not computed for each message.
const ONLY: Position = 0;

/// One end of a baton, shared by the sender of one ring and the receiver of the other.
pub struct Baton {
    slot: MappedSlots,
    words: Words,
    /// The word that tells how many messages the line had carried when this end wrote or took the last one. Only this
    /// end looks there, and whoever looks on.
    count_at: usize,
    /// The lowest bit of that when this end may write.
    turn: u32,
    /// Where it lies, as a byte offset in the segment of the node that offers it.
    place: u64,
    _region: Option<Region>,
}

/// Lines of a baton.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// The first word.
    from: usize,
    lines: usize,
}

impl Piece {
    /// Where content of two lines begins, if it is worth asking for.
    #[inline]
    pub fn first_line(fetching: Fetching) -> Piece {
        Piece { from: 0, lines: fetching.passed_lines(1) }
    }

    /// Where `bytes` bytes lie that take no slot, as far as they are worth asking for.
    #[inline]
    pub fn behind(fetching: Fetching, bytes: usize) -> Piece {
        Piece { from: Baton::TELLING, lines: fetching.passed_lines(bytes.div_ceil(LINE)) }
    }
}

impl Baton {
    /// Words for those who look on: a slot, and a place for the count of each end. Each of the three is two lines,
    /// which processors fetch together.
    pub const TELLING: usize = 3 * SLOT_WORDS;
    /// Bytes of content that may lie behind these. A model has no bulk content.
    pub const CONTENT: usize = if cfg!(loom) { 0 } else { 1024 };
    /// Words of its memory.
    pub const WORDS: usize = Self::TELLING + Self::CONTENT / 8;

    /// The end that offers it and writes first. `words` are zero and lie at `place`, and `region` keeps them allocated.
    pub fn offered(words: &Words, place: u64, region: Option<Region>) -> Baton {
        Baton::of(words, place, 0, region)
    }

    /// The other end. Whatever the words have: another process may write them.
    pub fn accepted(words: &Words, place: u64) -> Baton {
        Baton::of(words, place, 1, None)
    }

    fn of(words: &Words, place: u64, turn: u32, region: Option<Region>) -> Baton {
        let (slot, words) = (MappedSlots::of(words, 1), words.clone());
        Baton { slot, words, count_at: Self::count_of(turn), turn, place, _region: region }
    }

    /// The word with the count of the end whose turn this is.
    const fn count_of(turn: u32) -> usize {
        (1 + turn as usize) * SLOT_WORDS
    }

    /// Where it lies, as a byte offset in the segment of the node that offers it.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// Messages that it has carried, as this end knows.
    pub fn carried(&self) -> u32 {
        self.count().load(Ordering::Relaxed) as u32
    }

    #[inline]
    fn count(&self) -> &AtomicU64 {
        self.words.get(self.count_at)
    }

    /// Whether there is a message for one of its ends, by a copy of its words: for the end that offered it, or for the
    /// other one. As that end itself would see it.
    pub fn has_one_in(words: &[u64; Baton::TELLING], is_for_offering: bool) -> bool {
        let turn = u32::from(!is_for_offering);
        let carried = words[Self::count_of(turn)] as u32;
        carried & 1 != turn && Self::is_there(carried.wrapping_add(1), words[SLOT_WORDS - 1])
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
        let carried = self.count().load(Ordering::Acquire) as u32;
        (carried & 1 == self.turn).then_some(carried.wrapping_add(1))
    }

    /// Writes message `number`: `line`, but for its last word, and `last`. Only after [`Baton::to_write`], and one
    /// thread at a time.
    #[inline]
    pub(super) fn write(&self, number: Position, line: &Line, last: u64) {
        self.set_carried(number);
        // Release (in the slots): pairs with: baton/line.
        self.slot.write(ONLY, line, last);
    }

    /// As [`Baton::write`], of content that lies in one word; `last` is the last word of the line.
    #[inline]
    pub(super) fn write_word(&self, number: Position, word: u64, last: u64) {
        self.set_carried(number);
        let line = self.line();
        // Relaxed: ordered by the release of the last word.
        line[0].store(word, Ordering::Relaxed);
        // Release: pairs with: baton/line.
        line[LINE_WORDS - 1].store(last, Ordering::Release);
    }

    /// As [`Baton::write`], of content that is too long for a line: it begins in the line before.
    ///
    /// # Safety
    /// `data` is readable for `bytes`, which are no more than a slot has room for.
    #[inline]
    pub(super) unsafe fn write_whole(&self, number: Position, data: *const u8, bytes: usize, last: u64) {
        self.set_carried(number);
        // SAFETY: as the caller promises. Release (in the slots): pairs with: baton/line.
        unsafe { self.slot.write_whole(ONLY, data, bytes, last) };
    }

    /// As [`Baton::write`], of content that is too long for a slot: `bytes` bytes at `data`, of which `line` tells.
    /// They lie in the same lines each time: those that this end has read last, and the other one has written.
    ///
    /// # Panics
    /// If they are more than [`Baton::CONTENT`].
    ///
    /// # Safety
    /// `data` is readable for `bytes` bytes.
    #[inline]
    pub(super) unsafe fn write_beside(&self, number: Position, data: *const u8, bytes: usize, line: &Line) {
        // SAFETY: `data` is readable (caller); the content lies in a live mapping that nobody borrows, and is other
        // memory unless the peer says that buffers lie there: then content alone is spoilt.
        unsafe { content::copy_to_other_core(data, self.content(bytes), bytes) };
        self.write(number, line, line[LINE_WORDS - 1]);
    }

    /// Where the `bytes` bytes of a message lie that are behind the slot, to be copied and never borrowed.
    ///
    /// # Panics
    /// If they are more than [`Baton::CONTENT`].
    #[inline]
    pub(super) fn content(&self, bytes: usize) -> *mut u8 {
        self.words.address(Self::TELLING, bytes)
    }

    /// Has lines fetched in which content is expected. As the look at the line that tells of it comes next, all of them
    /// come at once.
    #[inline]
    pub(super) fn expect(&self, piece: Piece) {
        (0..piece.lines).for_each(|line| self.words.prefetch(piece.from + line * LINE_WORDS));
    }

    /// Has the line fetched that tells of a message.
    #[inline]
    pub(super) fn prefetch(&self) {
        self.slot.prefetch(ONLY);
    }

    /// Message `number` is about to be written, or was read. A message counts before anybody can answer it: a thread of
    /// this node that looks for the answer knows by this count that there may be one, and perhaps has nothing else that
    /// tells it.
    #[inline]
    fn set_carried(&self, number: Position) {
        // Release: pairs with: baton/written. Release: pairs with: baton/taken.
        self.count().store(u64::from(number), Ordering::Release);
    }

    /// Whether a last word tells that message `number` is there. Counted and not written yet, the message before that
    /// is in the line in place of it: the one two before, which has the same tag.
    #[inline]
    fn is_there(number: Position, last: u64) -> bool {
        Self::stamp(number).has_arrived(last) && !Self::stamp(number.wrapping_sub(2)).is_next(last)
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
        let carried = self.count().load(Ordering::Acquire) as u32;
        if carried & 1 == self.turn {
            return None;
        }
        let number = carried.wrapping_add(1);
        // Acquire: pairs with: baton/line.
        let last = self.line()[LINE_WORDS - 1].load(Ordering::Acquire);
        Self::is_there(number, last).then_some((number, last))
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
        self.set_carried(number);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Words of a baton whose line tells of message `number`, or of none yet, and whose ends have counted so many.
    fn words(number: Option<Position>, counts: [u64; 2]) -> [u64; Baton::TELLING] {
        let mut words = [0; Baton::TELLING];
        words[SLOT_WORDS - 1] = number.map_or(0, |number| Baton::stamp(number).with(8));
        (words[SLOT_WORDS], words[2 * SLOT_WORDS]) = (counts[0], counts[1]);
        words
    }

    #[test]
    fn a_message_is_seen_from_when_it_is_written_until_it_is_taken() {
        let lies = |number, counts| [true, false].map(|is| Baton::has_one_in(&words(number, counts), is));
        assert_eq!(lies(None, [0, 0]), [false, false]);
        for round in [0u32, 2, 254, 256, 510, u32::MAX - 1] {
            let [before, asked, answered] = [0, 1, 2].map(|step| u64::from(round.wrapping_add(step)));
            let [question, answer] = [asked, answered].map(|number| Some(number as Position));
            // Counted and not written yet; written; taken.
            let last = (round > 0).then_some(round);
            assert_eq!(lies(last, [asked, before]), [false, false], "{round}");
            assert_eq!(lies(question, [asked, before]), [false, true], "{round}");
            assert_eq!(lies(question, [asked, asked]), [false, false], "{round}");
            assert_eq!(lies(question, [asked, answered]), [false, false], "{round}");
            assert_eq!(lies(answer, [asked, answered]), [true, false], "{round}");
            assert_eq!(lies(answer, [answered, answered]), [false, false], "{round}");
            // Counts have 32 bits, whatever else is there.
            assert_eq!(lies(question, [asked, before | 1 << 32]), [false, true], "{round}");
        }
    }
}
