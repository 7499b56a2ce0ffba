//! The receiving end of a ring: look at the next slot, take what it says, give the credit back.
//!
//! Used by one thread at a time (the mail box has a lock for its retrievers). Everything it reads was written by
//! another process and is checked before use.

use std::collections::VecDeque;
use std::sync::Arc;

use deck_segment::layout::{LINE, LINE_WORDS};
use deck_segment::{Buffer, Fetching, HeapMemory, MappedSlots, Region, Remote, Words};
use deck_sync::{Error, NodeId, Result, Spot};

use super::baton::{Baton, Piece};
use super::packed::{self, Packed};
use super::packet::{self, Carries, Label, Packet, needed};
use super::ring::{Position, Shape, Stamp};
use crate::parcel::Parcel;
use crate::protocol::Protocol;

mod looking;
mod passed;
mod telling;
mod zero_copy;

/// Finds the heap of any node of the job.
pub trait Heaps {
    /// The heap of `owner`, or `None` if it was not introduced yet.
    fn heap_of(&self, owner: NodeId) -> Option<Arc<HeapMemory>>;

    /// Why it has not come for a second, if this process has no room for it.
    fn lacking(&self, _owner: NodeId) -> Option<Error> {
        None
    }
}

/// A receiver that found so many whole slots in a row is behind, and then fetches slots early: so many ahead. Fetching
/// a slot before it is written would take its line away from the sender.
const BEHIND: u32 = 4;
const PREFETCH: u32 = 8;

/// What a quick look at a ring finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glance {
    /// A message, which was taken.
    Taken(Protocol),
    /// Nothing, and there is nothing else to do.
    Nothing,
    /// Something that takes more than a quick look.
    Unclear,
}

/// Where a receiver that waits expects content: where that of the last message lay. What is not in the line that tells
/// of a message is fetched meanwhile.
#[derive(Clone, Copy)]
enum Expected {
    /// In the line.
    Line,
    /// In the first line of the slot, too.
    Slot,
    /// In so many lines of the area.
    Beside(u32),
    /// In lines of a baton that do not tell of a message.
    Passed(Piece),
}

/// The receiving end of one ring.
pub struct Receiver<R: Remote> {
    from: NodeId,
    shape: Shape,
    count: u32,
    slots: MappedSlots,
    /// Offset of the area in the ring.
    beside: usize,
    /// What may be owed; computed once, as they are needed with every message.
    slack: u32,
    area_slack: u32,
    bytes_slack: u64,
    /// Word of the ring in which the sender asks for credits.
    hungry: usize,
    ring: Words,
    remote: R,
    /// Offset of the credit line in the sender's segment.
    credit: usize,
    fetching: Fetching,
    head: Position,
    stamp: Stamp,
    /// Of the small messages in the slot at `head`, how many were taken, how many are known to be there, and the last
    /// word that said so, or 0. If all of them were taken the slot is *drained*: until the next slot is in use, more
    /// may be added.
    taken: u32,
    known: u32,
    packed: Packed,
    /// Messages taken, of all times.
    messages: u32,
    /// Messages, slot, area lines and bytes of the last credit that was told.
    told: u32,
    told_head: Position,
    told_area: u32,
    told_bytes: u64,
    /// How many of the small messages in the slot were taken then.
    told_taken: u32,
    /// What is not told yet occupies buffers of the sender, or much of the area: it is told as soon as there is nothing
    /// else to do.
    owes_buffers: bool,
    area: u32,
    bytes: u64,
    is_hot: bool,
    /// Where short messages may come beside the slots.
    baton: Option<Arc<Baton>>,
    /// Messages taken when the last one came there.
    passed_at: u32,
    /// How many times the sender has said something that was heard.
    heard: u64,
    /// Where the sender of a hot ring calls whoever waits here.
    spot: Option<Spot>,
    /// Slots found whole, one look after the other.
    in_a_row: u32,
    expected: Expected,
    /// The heap that the last buffer lay in; none of an orphan.
    heap: Option<Arc<HeapMemory>>,
    /// Buffers that were taken over from a dead sender and are still to be retrieved.
    adopted: VecDeque<(Position, Buffer)>,
    /// The sender is gone, and all that could be was taken over: nobody holds what else is named here.
    is_orphan: bool,
    /// Buffers promised to requests, and how far requests were answered.
    promised: VecDeque<(Position, Buffer)>,
    answered: Position,
    _region: Option<Region>,
}

/// What a receiver is made of.
pub struct ReceiverParts<R: Remote> {
    /// The node that posts.
    pub from: NodeId,
    /// The ring's shape.
    pub shape: Shape,
    /// Its memory, in this node's segment.
    pub ring: Words,
    /// Keeps that allocated.
    pub region: Option<Region>,
    /// The sender's segment.
    pub remote: R,
    /// Offset of the credit line in it; checked.
    pub credit: usize,
    /// Who fetches lines on this machine.
    pub fetching: Fetching,
}

impl<R: Remote> Receiver<R> {
    /// A receiver for a new, empty ring.
    pub fn new(parts: ReceiverParts<R>) -> Receiver<R> {
        Receiver {
            from: parts.from,
            count: parts.shape.slots(),
            slots: MappedSlots::of(&parts.ring, parts.shape.slots()),
            beside: parts.shape.area(),
            slack: parts.shape.slack(),
            area_slack: parts.shape.area_slack(),
            bytes_slack: parts.shape.bytes_slack(),
            hungry: parts.shape.hungry() / 8,
            shape: parts.shape,
            ring: parts.ring,
            remote: parts.remote,
            credit: parts.credit,
            fetching: parts.fetching,
            head: 0,
            stamp: Stamp::of(0, parts.shape.slots()),
            taken: 0,
            known: 0,
            packed: Packed::default(),
            messages: 0,
            told: 0,
            told_head: 0,
            told_area: 0,
            told_bytes: 0,
            told_taken: 0,
            baton: None,
            passed_at: 0,
            heard: 0,
            owes_buffers: false,
            area: 0,
            bytes: 0,
            is_hot: false,
            spot: None,
            in_a_row: 0,
            expected: Expected::Line,
            heap: None,
            adopted: VecDeque::new(),
            is_orphan: false,
            promised: VecDeque::new(),
            answered: 0,
            _region: parts.region,
        }
    }

    /// For tests: see [`super::sender::Sender::begin_at`].
    #[doc(hidden)]
    pub fn begin_at(&mut self, position: Position, area: u32) {
        (self.answered, self.messages) = (position, position);
        self.go_to(position);
        (self.area, self.told_area, self.told_head) = (area, area, position);
        self.told = position.wrapping_sub(1);
        self.tell();
    }

    /// The node that posts.
    pub fn from(&self) -> NodeId {
        self.from
    }

    /// The position of the slot of the next message, or of the last one if more may be added to that.
    pub fn head(&self) -> Position {
        self.head
    }

    /// Messages taken, of all times, modulo 2^32.
    pub fn messages(&self) -> u32 {
        self.messages
    }

    #[inline]
    fn go_to(&mut self, head: Position) {
        (self.head, self.stamp) = (head, Stamp::of(head, self.count));
    }

    /// As [`Receiver::take`] for a message with elements of one type that lies in its slot, or beside it if `into` has
    /// a buffer for it, or in a buffer of the heap that the last one lay in: what the fast path is for.
    ///
    /// Budget: the slot, and after small messages a word of the next one; the sender's question for room; the sender's
    /// line of credits once for as many slots as an eighth of the ring has. No locked operation, no allocation, no
    /// system call.
    #[inline]
    pub fn take_simple(&mut self, into: &mut Parcel) -> Glance {
        if self.taken < self.known {
            self.take_known(into);
            return Glance::Taken(Protocol::Short);
        }
        if self.baton.is_some()
            && let Some(glance) = self.take_passed_simple(into)
        {
            return glance;
        }
        let Ok(last) = self.next() else { return Glance::Unclear };
        let Some(last) = last else {
            self.in_a_row = 0;
            self.expect_content();
            return if self.is_to_tell() || self.is_spoken_to() { Glance::Unclear } else { Glance::Nothing };
        };
        // Passed before this slot was written, it is there by now, and comes first.
        if self.baton.is_some()
            && let Some(glance) = self.take_passed_simple(into)
        {
            return glance;
        }
        match self.take_here(last, into) {
            Some(protocol) => Glance::Taken(protocol),
            None => Glance::Unclear,
        }
    }

    /// Takes the message at `head`, if that is all there is to do.
    #[inline]
    fn take_here(&mut self, last: u64, into: &mut Parcel) -> Option<Protocol> {
        let (is_taken, protocol) = match Carries::of(last) {
            Carries::Line => (self.take_line(last, into), Protocol::Short),
            Carries::Wide => (self.take_wide(last, into), Protocol::Short),
            Carries::Small => (self.take_small(Packed::from_word(last), into), Protocol::Short),
            Carries::Beside => (self.take_beside(last, into), Protocol::Buffered),
            Carries::HandOver => (self.take_over(last, into), Protocol::ZeroCopy),
            Carries::Other => return None,
        };
        is_taken.then_some(protocol)
    }

    /// Takes the next of the small messages at `head`, where the last word is `packed`.
    #[inline]
    fn take_small(&mut self, packed: Packed, into: &mut Parcel) -> bool {
        if !self.stamp.is_next(packed.word()) || !packed.is_possible() || packed.count() <= self.taken {
            return false;
        }
        if self.known == 0 {
            if packed.count() == packed::MESSAGES { self.note_whole_slot() } else { self.in_a_row = 0 }
        }
        (self.packed, self.known) = (packed, packed.count());
        self.expected = Expected::Line;
        self.take_known(into);
        true
    }

    /// Takes the next of the small messages at `head`, which is known to be there.
    #[inline]
    fn take_known(&mut self, into: &mut Parcel) {
        let word = &self.slots.line(self.head)[self.taken as usize % LINE_WORDS];
        into.set_words(std::array::from_ref(word), self.packed.size(self.taken), self.packed.element());
        self.taken += 1;
        if self.taken == packed::MESSAGES {
            self.leave_slot();
        }
        self.count_short();
    }

    /// Takes the message that lies in the area, if `into` has a buffer for it. Not inlined: shorter messages would pay
    /// for it.
    #[inline(never)]
    fn take_beside(&mut self, last: u64, into: &mut Parcel) -> bool {
        let Some((label, line, area_end)) = packet::buffered(self.slots.line(self.head), last, self.stamp) else {
            return false;
        };
        let Some(data) = self.beside(&label, line) else { return false };
        // SAFETY: `data` is readable for what the label needs.
        if !unsafe { into.copy_in_place(&label, data) } {
            return false;
        }
        self.leave_area(&label, area_end);
        self.leave_whole_slot();
        self.count(Protocol::Buffered);
        true
    }

    /// Takes the message that has both lines of the slot at `head`, if `into` has room for it.
    #[inline(never)]
    fn take_wide(&mut self, last: u64, into: &mut Parcel) -> bool {
        let Some(label) = packet::wide(last, self.stamp) else { return false };
        // SAFETY: the slot is readable for what the label needs.
        if !self.slots.with_content(self.head, |data| unsafe { into.copy_in_place(&label, data) }) {
            return false;
        }
        self.expected = Expected::Slot;
        self.leave_whole_slot();
        self.count_short();
        true
    }

    /// Takes the message that has one line of the slot at `head`.
    #[inline]
    fn take_line(&mut self, last: u64, into: &mut Parcel) -> bool {
        let Some((size, element)) = packet::simple(last, self.stamp) else { return false };
        into.set_words(self.slots.line(self.head), size, element);
        self.expected = Expected::Line;
        self.leave_whole_slot();
        self.count_short();
        true
    }

    /// Takes the next message into `into`, if there is one, and gives the credit back. Never waits.
    ///
    /// # Errors
    /// [`Corrupt`](deck_sync::ErrorKind::Corrupt) if the sender wrote nonsense (the ring is of no use afterwards),
    /// [`NoMemory`](deck_sync::ErrorKind::NoMemory) if there is no room for a copy (the message stays in the ring).
    /// `into` is as before then.
    pub fn take(&mut self, into: &mut Parcel, heap: &Arc<HeapMemory>, heaps: &dyn Heaps) -> Result<Option<Protocol>> {
        if self.taken == self.known
            && let Some(protocol) = self.take_passed(into, heap)?
        {
            return Ok(Some(protocol));
        }
        let Some(last) = self.next()? else {
            self.in_a_row = 0;
            if self.is_to_tell() {
                self.tell();
            }
            self.expect_content();
            return Ok(None);
        };
        if self.taken == self.known
            && let Some(protocol) = self.take_passed(into, heap)?
        {
            return Ok(Some(protocol));
        }
        if let Some(protocol) = self.take_here(last, into) {
            return Ok(Some(protocol));
        }
        let packet = Packet::read(&self.line(self.head, last), self.head);
        let protocol = match packet.map_err(|nonsense| self.nonsense(nonsense.0))? {
            Packet::Typed { label, bytes } => {
                // SAFETY: `Packet::read` has checked that content and runs lie in `bytes`.
                unsafe { into.copy_collected(&label, bytes.as_ptr(), heap)? };
                self.expected = Expected::Line;
                Protocol::Short
            }
            Packet::Short { .. } => unreachable!("that is simple"),
            Packet::Wide { label } => {
                // SAFETY: `Packet::read` has checked that content and runs lie in the slot.
                self.slots.with_content(self.head, |data| unsafe { into.copy_collected(&label, data, heap) })?;
                self.expected = Expected::Slot;
                Protocol::Short
            }
            Packet::Packed { .. } => return Err(self.nonsense("a slot has fewer small messages than before")),
            Packet::Buffered { label, line, area_end } => {
                let Some(data) = self.beside(&label, line) else {
                    return Err(self.nonsense("a buffered message lies outside of its area"));
                };
                // SAFETY: `data` is readable for what the label needs.
                unsafe { into.copy_collected(&label, data, heap)? };
                self.leave_area(&label, area_end);
                Protocol::Buffered
            }
            Packet::Request { .. } if R::IS_MAPPED => {
                return Err(self.nonsense("a message asks for an address where buffers are handed over"));
            }
            Packet::HandOver { .. } if !R::IS_MAPPED => {
                return Err(self.nonsense("a buffer is handed over where nobody can read it"));
            }
            Packet::HandOver { label, name } => {
                let Some(buffer) = self.take_hand_over(&label, &name, heaps)? else { return Ok(None) };
                self.accept(&label, buffer, into);
                Protocol::ZeroCopy
            }
            Packet::Request { label } => {
                let Some(buffer) = self.take_written(&label)? else { return Ok(None) };
                self.accept(&label, buffer, into);
                Protocol::ZeroCopy
            }
        };
        self.leave_whole_slot();
        self.count(protocol);
        Ok(Some(protocol))
    }

    /// Nothing has arrived. The lines in which content is expected are fetched as soon as they are written, beside the
    /// one that tells of it and not after that.
    #[inline]
    fn expect_content(&self) {
        match self.expected {
            Expected::Line | Expected::Passed(_) => {}
            // Who is to write there has both lines of the baton.
            _ if self.awaits_baton() => {}
            Expected::Slot => self.slots.prefetch_first(self.head),
            Expected::Beside(lines) => {
                let mask = self.shape.area_lines - 1;
                for ahead in 0..lines {
                    let line = (self.area.wrapping_add(ahead) & mask) as usize;
                    self.ring.prefetch((self.beside + line * LINE) / 8);
                }
            }
        }
    }

    /// Nothing more is to be taken from the slot at `head`.
    #[inline]
    fn leave_slot(&mut self) {
        self.go_to(self.head.wrapping_add(1));
        (self.taken, self.known, self.packed) = (0, 0, Packed::default());
    }

    /// As [`Receiver::leave_slot`], of a slot that had one message.
    #[inline]
    fn leave_whole_slot(&mut self) {
        self.note_whole_slot();
        self.leave_slot();
    }

    /// Nothing more will be added to the slot at `head`, which has just been found.
    #[inline]
    fn note_whole_slot(&mut self) {
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.in_a_row > BEHIND {
            let ahead = self.head.wrapping_add(PREFETCH);
            self.slots.prefetch(ahead);
            if matches!(self.expected, Expected::Slot) {
                self.slots.prefetch_first(ahead);
            }
        }
    }

    /// Where content that lies in the area begins: readable for what its label needs, in mapped memory, to be copied
    /// out and never borrowed. `None` if not all of it lies there.
    #[inline]
    fn beside(&self, label: &Label, line: u32) -> Option<*const u8> {
        let bytes = usize::try_from(needed(label)).unwrap_or(usize::MAX);
        let from = line as usize * LINE;
        let area_bytes = self.shape.area_lines as usize * LINE;
        from.checked_add(bytes).filter(|end| *end <= area_bytes)?;
        Some(self.ring.address((self.beside + from) / 8, bytes))
    }

    #[inline]
    fn leave_area(&mut self, label: &Label, area_end: u32) {
        self.area = area_end;
        let lines = needed(label).div_ceil(LINE as u64) as u32;
        self.expected = Expected::Beside(self.fetching.expected_lines(lines));
    }

    /// After the sender is gone: passes over a message that can never be read.
    pub fn skip_one(&mut self) {
        self.adopted.retain(|(position, _)| *position != self.head);
        self.leave_slot();
        self.messages = self.messages.wrapping_add(1);
    }

    /// True if nothing that was reserved before `tail` is still to be written: then the ring's memory may be used
    /// again.
    pub fn is_quiet(&mut self, tail: Position) -> bool {
        if self.is_drained() && self.head != tail {
            self.leave_slot();
        }
        while self.head != tail && self.stamp.has_arrived(self.last_word(self.head)) {
            self.go_to(self.head.wrapping_add(1));
        }
        self.head == tail
    }
}
