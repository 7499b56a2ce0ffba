//! Writing a message into its slot, and telling the receiver that it is there.

use deck_segment::fabric::{Line, Slots};
use deck_segment::layout::{LINE, LINE_WORDS};
use deck_segment::{MappedSlots, Remote};
use deck_sync::atomic::Ordering;
use deck_sync::{Spot, barrier, point};

use super::super::packed::Packed;
use super::super::packet::{self, Label};
use super::super::ring::{Stamp, credit, hot};
use super::{Posting, Sender};
use crate::parcel::{BYTES, Parcel, Small};
use crate::protocol::Protocol;

impl<R: Remote> Sender<R> {
    /// The line of content that fits into one, but for its last word, and that: where the content lies, or in `memory`
    /// if it has to be collected.
    #[inline]
    pub(super) fn line<'a>(parcel: &'a Parcel, stamp: Stamp, memory: &'a mut Option<Line>) -> (&'a Line, u64) {
        match parcel.inline_line().filter(|_| parcel.runs() == 0) {
            Some(line) if parcel.element() == BYTES => {
                (line, packet::short_word(line[LINE_WORDS - 1], parcel.size(), stamp))
            }
            Some(line) => (line, packet::typed_word(&Label::of(parcel), stamp)),
            None => {
                let line = memory.insert(packet::collected_line(parcel, stamp));
                (line, line[LINE_WORDS - 1])
            }
        }
    }

    /// Writes the content of a buffered message to its place in the area, as [`Sender::find_area`] has found it, and
    /// tells of it.
    ///
    /// # Safety
    /// `data` is readable for what the label needs.
    #[inline(always)]
    pub(super) unsafe fn publish_beside(
        &self,
        posting: &mut Posting,
        label: &Label,
        (line, area_end): (u32, u32),
        data: *const u8,
    ) {
        let offset = self.area + line as usize * LINE;
        // SAFETY: `data` is readable for what the label needs (caller).
        unsafe { self.remote.write_bytes(offset, data, packet::needed(label) as usize) };
        self.remote.flush();
        posting.area = area_end;
        self.publish_line(posting, &packet::buffered_line(label, line, area_end, posting.stamp));
    }

    #[inline]
    pub(super) fn publish_line(&self, posting: &mut Posting, line: &Line) {
        self.publish(posting, line, line[LINE_WORDS - 1]);
    }

    /// Publishes content that fits into a line.
    #[inline]
    pub(super) fn publish_short(&self, posting: &mut Posting, parcel: &Parcel) {
        let mut memory = None;
        let (line, last) = Self::line(parcel, posting.stamp, &mut memory);
        self.publish(posting, line, last);
    }

    /// As [`Sender::publish_line`], with another last word.
    #[inline]
    fn publish(&self, posting: &mut Posting, line: &Line, last: u64) {
        point("post/reserved");
        // Release (in the fabric): pairs with: ring/slot.
        self.slots.write(posting.position, line, last);
        self.leave_slot(posting);
    }

    /// As [`Sender::publish`], for content with its runs that is too long for a line.
    ///
    /// # Safety
    /// `data` is readable for what the label needs.
    #[inline(always)]
    pub(super) unsafe fn publish_wide(&self, posting: &mut Posting, label: &Label, data: *const u8) {
        point("post/reserved");
        let last = packet::wide_word(label, posting.stamp);
        // Release (in the fabric): pairs with: ring/slot.
        // SAFETY: `data` is readable for what the label needs (caller).
        unsafe { self.slots.write_whole(posting.position, data, packet::needed(label) as usize, last) };
        self.leave_slot(posting);
    }

    /// All of a slot was written.
    #[inline(always)]
    fn leave_slot(&self, posting: &mut Posting) {
        posting.open = Packed::NONE;
        self.next_slot(posting);
        self.announce();
    }

    /// Adds a small message to the slot before, or begins another one with it. False if there is none.
    #[inline(always)]
    pub(super) fn pack(&self, posting: &mut Posting, slots: &MappedSlots, small: Small) -> bool {
        point("post/reserved");
        let (position, packed) = match posting.open.and(small.size(), small.element) {
            Some(added) => (posting.position.wrapping_sub(1), added),
            None if posting.room == 0 => return false,
            None => {
                let (position, packed) = (posting.position, Packed::first(small.size(), small.element, posting.stamp));
                self.next_slot(posting);
                (position, packed)
            }
        };
        posting.open = packed;
        let line = slots.line(position);
        // Relaxed: ordered by the release of the last word.
        line[packed.last()].store(small.word, Ordering::Relaxed);
        // Release: pairs with: ring/slot.
        line[LINE_WORDS - 1].store(packed.word(), Ordering::Release);
        self.announce();
        self.traffic.count(Protocol::Short, small.size());
        true
    }

    #[inline]
    fn next_slot(&self, posting: &mut Posting) {
        posting.position = posting.position.wrapping_add(1);
        posting.stamp = Stamp::of(posting.position, self.count);
        posting.room -= 1;
    }

    /// A message is in the ring.
    #[inline]
    pub(super) fn announce(&self) {
        if !R::IS_MAPPED {
            self.remote.flush();
        }
        point("post/published");
        // Light fence: pairs with: ring/cold. Either the receiver, after marking the ring cold, sees this message, or
        // we see the mark.
        barrier::light();
        let hot = self.credit.get(credit::HOT).load(Ordering::Relaxed);
        if hot != hot::YES {
            self.call(hot);
        }
    }

    /// The receiver does not find it by itself, or not at once.
    #[cold]
    fn call(&self, hot: u64) {
        if hot == hot::NO {
            self.place.bell.ring(&self.remote);
        } else {
            self.remote.call(Spot::of_word(hot));
        }
    }
}
