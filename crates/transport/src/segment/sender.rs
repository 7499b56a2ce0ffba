//! The sending end of a ring: take a slot, write it, ring if the receiver sleeps.
//!
//! The threads of the sending node share it, one at a time: nearly always it is one thread that posts again and again, and
//! it enters without a locked operation ([`Biased`]). The receiver takes slots in order of position, so messages of one thread
//! arrive in the order posted.
//!
//! Hot path of a short message: what is known of the credits (a look at the credit line only when they run out), one
//! 64-byte line written, or two words of one ([`super::packed`]), one load of `HOT`, which changes seldom. No locked operation, no
//! allocation, no system call.

use std::sync::Arc;

use deck_segment::fabric::Line;
use deck_segment::layout::{LINE, LINE_WORDS};
use deck_segment::{Region, Remote, Words};
use deck_sync::atomic::{AtomicU32, Ordering};
use deck_sync::{Biased, Error, ErrorKind, Event, NodeId, barrier, point};

use super::packed::{self, Packed};
use super::packet::{self, Label, Packet};
use super::ring::{Position, RingPlace, Shape, credit};
use crate::parcel::{BYTES, Parcel};
use crate::protocol::{Budget, Protocol, Thresholds, choose};
use crate::traffic::Traffic;
use zero_copy::InFlight;

mod zero_copy;

/// How many slots ahead of the one that is written next a line is taken from the receiver's core.
const EXPECT: u32 = 8;
const AREA_MASK: u32 = (1 << 31) - 1;

/// Why a message was not posted. It is still the caller's.
#[derive(Debug)]
pub enum Refusal {
    /// No room now: messages or bytes of the ring.
    Full,
    /// No room now: this node's budget, shared by all its rings.
    Budget,
    /// No room to copy it, and it is in no buffer that could be handed over: post [`Parcel::in_buffer`] instead.
    NeedsBuffer,
    /// The mail box was closed.
    Closed,
    /// Its node died.
    Lost,
    /// It can never be posted like this.
    Failed(Error),
}

/// How a ring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ending {
    /// The mail box was closed.
    Closed = 1,
    /// Its node died.
    Lost = 2,
}

/// The sending end of one ring.
pub struct Sender<R: Remote> {
    remote: R,
    place: RingPlace,
    shape: Shape,
    slots: u32,
    limit: u32,
    receiver: NodeId,
    credit: Words,
    thresholds: Thresholds,
    budget: Arc<Budget>,
    /// Read without entering; written inside.
    ended: AtomicU32,
    /// Zero-copy messages that were not retrieved when somebody last looked. Read without entering; written inside.
    in_flight: AtomicU32,
    traffic: Traffic,
    posting: Biased<Posting>,
    _region: Option<Region>,
}

/// What only the thread that posts touches.
struct Posting {
    /// Of the next slot.
    position: Position,
    /// The slot before it, if it holds small messages.
    open: Packed,
    /// Messages posted, of all times. Credits count messages: with several in a slot there are never too few slots.
    messages: u32,
    /// Lines of the area used, of all times, 31 bits.
    area: u32,
    /// The credits as they were last read: messages and area lines.
    retired: u64,
    /// Bytes posted by protocol 3, of all times, and those of them that were retrieved when somebody last looked.
    bytes: u64,
    retired_bytes: u64,
    in_flight: Box<[Option<InFlight>]>,
    /// Up to which message those in flight were let go of.
    reaped: u32,
}

/// What a sender is made of.
pub struct SenderParts<R: Remote> {
    /// The receiver's segment.
    pub remote: R,
    /// Where in it the ring lies; checked.
    pub place: RingPlace,
    /// Its shape; checked.
    pub shape: Shape,
    /// The node that receives.
    pub receiver: NodeId,
    /// The credit lines and what follows, in this node's segment.
    pub credit: Words,
    /// Keeps them allocated.
    pub region: Option<Region>,
    /// This node's budget.
    pub budget: Arc<Budget>,
    /// Sizes at which protocols change.
    pub thresholds: Thresholds,
}

impl<R: Remote> Sender<R> {
    /// A sender for a new, empty ring.
    pub fn new(parts: SenderParts<R>) -> Sender<R> {
        let slots = parts.shape.slots();
        let in_flight = (0..slots).map(|_| None).collect();
        Sender {
            remote: parts.remote,
            place: parts.place,
            shape: parts.shape,
            slots,
            limit: parts.shape.limit(),
            receiver: parts.receiver,
            credit: parts.credit,
            thresholds: parts.thresholds,
            budget: parts.budget,
            ended: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            traffic: Traffic::default(),
            posting: Biased::new(Posting {
                position: 0,
                open: Packed::NONE,
                messages: 0,
                area: 0,
                retired: 0,
                bytes: 0,
                retired_bytes: 0,
                in_flight,
                reaped: 0,
            }),
            _region: parts.region,
        }
    }

    /// For tests: begins with counters of positions and area lines near their overflow. The receiver has to tell the same
    /// before the first message.
    #[doc(hidden)]
    pub fn begin_at(&mut self, position: Position, area: u32) {
        let mut posting = self.posting.lock();
        (posting.position, posting.messages, posting.reaped) = (position, position, position);
        posting.area = area & AREA_MASK;
        posting.retired = u64::from(area & AREA_MASK) << 32 | u64::from(position);
    }

    /// Where the ring is, for those who look on: offset of the credits in this node's segment and of the ring in the receiver's;
    /// messages, bytes and lines of the area.
    pub fn places(&self) -> [u64; 5] {
        let credit = self._region.as_ref().map_or(0, Region::offset);
        let Shape { messages, bytes, area_lines, .. } = self.shape;
        [credit as u64, self.place.ring as u64, u64::from(messages), bytes, u64::from(area_lines)]
    }

    /// The node that receives.
    pub fn receiver(&self) -> NodeId {
        self.receiver
    }

    /// What was posted here.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Posts `parcel` now or says why not. Never talks to anybody; waits for another thread of this node that is inside a
    /// post to the same ring, for as long as that takes.
    #[inline]
    pub fn post(&self, parcel: &Parcel) -> Result<Protocol, Refusal> {
        match parcel.raw_line() {
            Some(line) if Self::is_small(parcel) => self.post_small(line[0], parcel.size()),
            Some(line) => self.post_raw(line, parcel.size()),
            None => self.post_any(parcel),
        }
    }

    /// Whether it can share a slot. Where lines travel as packets, adding to one is sending another.
    #[inline]
    fn is_small(parcel: &Parcel) -> bool {
        R::IS_MAPPED && parcel.size() <= packed::BYTES
    }

    /// Raw bytes that lie in a word. Budget: two words of the slot, the second line of credits; the first one only when the known
    /// credits run out. No locked operation by the favourite of the lock, no allocation, no system call.
    #[inline]
    fn post_small(&self, word: u64, size: usize) -> Result<Protocol, Refusal> {
        let posting = &mut *self.posting.lock();
        self.check_slot(posting)?;
        self.pack(posting, word, size, BYTES);
        self.traffic.count(Protocol::Short, size);
        Ok(Protocol::Short)
    }

    /// Raw bytes that lie in a line already: what the fast path is for. Every instruction before the line is written is part
    /// of the latency. Budget: as for less, but all of the slot, and the one that will be written eight messages later is fetched.
    #[inline]
    fn post_raw(&self, line: &Line, size: usize) -> Result<Protocol, Refusal> {
        let posting = &mut *self.posting.lock();
        self.check_slot(posting)?;
        self.publish(posting, &packet::short_line(line, size, posting.position, self.slots));
        self.traffic.count(Protocol::Short, size);
        Ok(Protocol::Short)
    }

    /// Not inlined: the fast path would pay for its stack frame.
    #[inline(never)]
    fn post_any(&self, parcel: &Parcel) -> Result<Protocol, Refusal> {
        let protocol = choose(parcel, &self.thresholds, self.shape.area_max());
        let posting = &mut *self.posting.lock();
        let posted = match protocol {
            Protocol::Short => self.post_short(posting, parcel),
            Protocol::Buffered => self.post_buffered(posting, parcel),
            Protocol::ZeroCopy => self.post_zero_copy(posting, parcel),
        }?;
        self.traffic.count(posted, parcel.size());
        Ok(posted)
    }

    fn post_short(&self, posting: &mut Posting, parcel: &Parcel) -> Result<Protocol, Refusal> {
        self.check_slot(posting)?;
        let line = match parcel.inline_line() {
            Some(line) if parcel.runs() == 0 && Self::is_small(parcel) => {
                self.pack(posting, line[0], parcel.size(), parcel.element());
                return Ok(Protocol::Short);
            }
            Some(line) if parcel.runs() == 0 => {
                packet::typed_line(line, &Label::of(parcel), posting.position, self.slots)
            }
            _ => packet::collected_line(parcel, posting.position, self.slots),
        };
        self.publish(posting, &line);
        Ok(Protocol::Short)
    }

    fn post_buffered(&self, posting: &mut Posting, parcel: &Parcel) -> Result<Protocol, Refusal> {
        self.check_slot(posting)?;
        let needed = Parcel::needed(parcel.size(), parcel.runs());
        let Some((line, area_end)) = self.find_area(posting, needed.div_ceil(LINE) as u32) else {
            return self.post_zero_copy(posting, parcel);
        };
        let offset = self.place.ring + self.shape.area() + line as usize * LINE;
        if parcel.runs() == 0 {
            // SAFETY: the parcel's content is readable for its size.
            unsafe { self.remote.write_bytes(offset, parcel.data().as_ptr(), parcel.size()) };
        } else {
            let mut bytes = vec![0u8; needed];
            parcel.collect(&mut bytes);
            // SAFETY: the vector is readable for its length.
            unsafe { self.remote.write_bytes(offset, bytes.as_ptr(), bytes.len()) };
        }
        self.remote.flush();
        posting.area = area_end;
        let packet = Packet::Buffered { label: Label::of(parcel), line, area_end };
        self.publish(posting, &packet.write(posting.position, self.slots));
        Ok(Protocol::Buffered)
    }

    /// The place of a position, or of a message in flight.
    #[inline]
    fn index(&self, position: Position) -> usize {
        (position & (self.slots - 1)) as usize
    }

    /// Makes sure that there is a slot for the next message.
    #[inline]
    fn check_slot(&self, posting: &mut Posting) -> Result<(), Refusal> {
        if posting.messages.wrapping_sub(posting.retired as u32) >= self.limit {
            self.read_credits(posting)?;
        }
        if self.credit.get(credit::CLOSED).load(Ordering::Relaxed) != 0 {
            return Err(Refusal::Closed);
        }
        if self.ended.load(Ordering::Relaxed) != 0 { Err(self.ending()) } else { Ok(()) }
    }

    #[cold]
    fn read_credits(&self, posting: &mut Posting) -> Result<(), Refusal> {
        if self.ended.load(Ordering::Relaxed) != 0 {
            return Err(self.ending());
        }
        // Acquire: pairs with: ring/credit. The receiver is done with the slot before it gives the credit back.
        let retired = self.credit.get(credit::RETIRED).load(Ordering::Acquire);
        let used = posting.messages.wrapping_sub(retired as u32);
        if used > self.limit {
            let what = "its credits are ahead of what was posted";
            return Err(Refusal::Failed(Error::new(ErrorKind::Corrupt, what).with_peer(self.receiver)));
        }
        posting.retired = retired;
        (0..EXPECT).for_each(|ahead| self.expect(posting, ahead));
        if used == self.limit { Err(self.closed_or(Refusal::Full)) } else { Ok(()) }
    }

    /// Where `lines` lines of the area are free, and how far it is used with them.
    fn find_area(&self, posting: &mut Posting, lines: u32) -> Option<(u32, u32)> {
        let mask = self.shape.area_lines - 1;
        let begin = posting.area & mask;
        let skip = if begin + lines > self.shape.area_lines { self.shape.area_lines - begin } else { 0 };
        let has_room = |retired: u64| {
            let used = posting.area.wrapping_sub((retired >> 32) as u32) & AREA_MASK;
            used + skip + lines <= self.shape.area_lines
        };
        if !has_room(posting.retired) {
            // Acquire: pairs with: ring/credit.
            let retired = self.credit.get(credit::RETIRED).load(Ordering::Acquire);
            if posting.messages.wrapping_sub(retired as u32) > self.limit || !has_room(retired) {
                return None;
            }
            posting.retired = retired;
        }
        Some((posting.area.wrapping_add(skip) & mask, posting.area.wrapping_add(skip + lines) & AREA_MASK))
    }

    fn closed_or(&self, refusal: Refusal) -> Refusal {
        if self.credit.get(credit::CLOSED).load(Ordering::Relaxed) != 0 { Refusal::Closed } else { refusal }
    }

    fn ending(&self) -> Refusal {
        if self.ended() == Some(Ending::Lost) { Refusal::Lost } else { Refusal::Closed }
    }

    #[inline]
    fn publish(&self, posting: &mut Posting, line: &Line) {
        point("post/reserved");
        self.remote.write_line(self.slot(posting.position), line);
        posting.open = Packed::NONE;
        self.announce(posting, true);
    }

    /// Adds a small message to the slot before, or begins another one with it.
    #[inline]
    fn pack(&self, posting: &mut Posting, word: u64, size: usize, element: u8) {
        point("post/reserved");
        let added = posting.open.and(size, element);
        let position = if added.is_some() { posting.position.wrapping_sub(1) } else { posting.position };
        posting.open = added.unwrap_or_else(|| Packed::first(size, element, position, self.slots));
        let slot = self.slot(position);
        self.remote.write_word(slot + 8 * (posting.open.count() as usize - 1), word);
        // Release (in the fabric): pairs with: ring/slot.
        self.remote.write_word(slot + 8 * (LINE_WORDS - 1), posting.open.word());
        self.announce(posting, added.is_none());
    }

    /// A message is in the ring.
    #[inline]
    fn announce(&self, posting: &mut Posting, is_new_slot: bool) {
        posting.messages = posting.messages.wrapping_add(1);
        if is_new_slot {
            posting.position = posting.position.wrapping_add(1);
            self.expect(posting, EXPECT);
        }
        if !R::IS_MAPPED {
            self.remote.flush();
        }
        point("post/published");
        // Pairs with: ring/cold. Either the receiver, after marking the ring cold, sees this message, or we see the mark.
        barrier::light();
        if self.credit.get(credit::HOT).load(Ordering::Relaxed) == 0 {
            self.ring_bell();
        }
    }

    /// Offset of a slot in the receiver's segment.
    #[inline]
    fn slot(&self, position: Position) -> usize {
        self.place.ring + self.index(position) * LINE
    }

    /// Fetches the line of a slot that will be written soon, unless the receiver may still have to read it.
    #[inline]
    fn expect(&self, posting: &Posting, ahead: u32) {
        // Slots in use are never more than messages.
        if posting.messages.wrapping_add(ahead).wrapping_sub(posting.retired as u32) < self.limit {
            self.remote.expect_line(self.slot(posting.position.wrapping_add(ahead)));
        }
    }

    #[cold]
    fn ring_bell(&self) {
        // Release (in the fabric): pairs with: ring/bell.
        self.remote.write_word(self.place.bell, 1);
        point("post/rung");
        self.remote.interrupt(self.place.event);
    }

    /// The event that tells of room, in this node's memory.
    pub fn room(&self) -> &Event {
        self.credit.event(credit::ROOM)
    }

    /// Asks the receiver to notify [`Sender::room`] with every credit from now on, or no longer. A heavy fence and another
    /// try have to follow before anybody sleeps. There is one question for all threads of the node: the first of them sets
    /// it and the last one clears it.
    pub fn ask_for_room(&self, is_hungry: bool) {
        self.remote.write_word(self.place.ring + self.shape.hungry(), u64::from(is_hungry));
        self.remote.flush();
    }

    /// Ends the ring because its receiver is gone: nothing more is posted, what was posted and not retrieved is given up,
    /// waiting threads are told. Returns the position behind the last message that was ever posted; nothing is written to
    /// the receiver's memory afterwards.
    pub fn end(&self, ending: Ending) -> Position {
        let mut posting = self.posting.lock();
        self.note_ending(ending);
        self.give_up(&mut posting, ending);
        let tail = posting.position;
        drop(posting);
        self.room().notify();
        tail
    }

    /// Nothing more is posted and waiting threads are told, but what was posted stays in flight: this node leaves its job,
    /// and the receiver is still to retrieve it.
    pub fn stop(&self, ending: Ending) {
        let posting = self.posting.lock();
        self.note_ending(ending);
        drop(posting);
        self.room().notify();
    }

    fn note_ending(&self, ending: Ending) {
        let _ = self.ended.compare_exchange(0, ending as u32, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// How the ring ended, if it did.
    pub fn ended(&self) -> Option<Ending> {
        match self.ended.load(Ordering::Relaxed) {
            1 => Some(Ending::Closed),
            2 => Some(Ending::Lost),
            _ => None,
        }
    }
}
