//! The sending end of a ring: take a slot, write it, ring if the receiver sleeps.
//!
//! The threads of the sending node share it, one at a time: nearly always it is one thread that posts again and again,
//! and it enters without a locked operation ([`Biased`]). The receiver takes slots in order of position, so messages of
//! one thread arrive in the order posted.
//!
//! Hot path of a short message: what is known of the credits (a look at the credit line only when they run out), one
//! 64-byte line of the slot written, or both, or two words of one ([`super::packed`]), one load of `HOT`, which changes
//! seldom; with more threads than cores, a store that calls the receiver. No locked operation, no allocation, no system
//! call.

use std::sync::Arc;

use deck_segment::fabric::Slots;
use deck_segment::layout::{LINE, SLOT_CONTENT};
use deck_segment::{Fetching, MappedSlots, Region, Remote, Words};
use deck_sync::atomic::{AtomicU32, AtomicU64};
use deck_sync::{Biased, Error, NodeId};

use super::baton::Baton;
use super::packed::Packed;
use super::packet::{self, Label};
use super::ring::{Position, RingPlace, Shape, Stamp};
use crate::parcel::Parcel;
use crate::protocol::{Budget, Protocol, Thresholds, choose};
use crate::traffic::Traffic;
use passing::Passing;
use zero_copy::InFlight;

pub use ending::Ending;

mod at_once;
mod ending;
mod passing;
mod publishing;
mod room;
mod zero_copy;

const AREA_MASK: u32 = (1 << 31) - 1;

/// Why a message was not posted. It is still the caller's.
#[derive(Debug)]
pub enum Refusal {
    /// No room now: messages or bytes of the ring.
    Full,
    /// No room now: this node's budget, shared by all its rings.
    Budget,
    /// The mail box was closed.
    Closed,
    /// Its node died.
    Lost,
    /// It can never be posted like this.
    Failed(Error),
}

/// The sending end of one ring.
pub struct Sender<R: Remote> {
    remote: R,
    place: RingPlace,
    shape: Shape,
    count: u32,
    slots: R::Slots,
    /// Offset of the area in the receiver's segment.
    area: usize,
    limit: u32,
    own: NodeId,
    receiver: NodeId,
    credit: Words,
    thresholds: Thresholds,
    /// Whether what is copied may go on a baton.
    passes_beside: bool,
    budget: Arc<Budget>,
    /// Read without entering; written inside.
    ended: AtomicU32,
    /// Zero-copy messages that were not retrieved when somebody last looked. Read without entering; written inside.
    in_flight: AtomicU32,
    traffic: Traffic,
    /// Messages of protocol 3 when [`Sender::reap_if_idle`] was called last, and how many times in a row it has done
    /// nothing.
    posted_before: AtomicU64,
    passes: AtomicU32,
    posting: Biased<Posting>,
    region: Option<Region>,
}

/// What only the thread that posts touches.
struct Posting {
    /// Of the next slot.
    position: Position,
    stamp: Stamp,
    /// The slot before it, if it holds small messages.
    open: Packed,
    /// Slots that may be used before the credits are looked at again.
    room: u32,
    /// Lines of the area used, of all times, 31 bits, and those of them that were free again when somebody last looked.
    area: u32,
    retired_area: u32,
    /// Bytes posted by protocol 3, of all times, and those of them that were retrieved when somebody last looked.
    bytes: u64,
    retired_bytes: u64,
    /// Bytes of the budget that are left from messages that were retrieved; none if nothing is in flight.
    left: u64,
    in_flight: Box<[Option<InFlight>]>,
    /// Up to which position those in flight were let go of.
    reaped: Position,
    /// What short messages may be passed on instead.
    passing: Option<Passing>,
    /// Where the other node may still look.
    former: Vec<Arc<Baton>>,
    /// Where that of them lies on which the last one was passed, or 0.
    passed_before: u64,
    /// How many times something was said beside the messages.
    said: u64,
}

impl Posting {
    /// From now on whoever posts finds no room and learns why.
    fn end(&mut self) {
        (self.open, self.room) = (Packed::NONE, 0);
        // What was passed may not be taken yet: its memory stays as long as the ring.
        self.former.extend(self.passing.take().map(Passing::into_baton));
    }
}

/// What a sender is made of.
pub struct SenderParts<R: Remote> {
    /// The receiver's segment.
    pub remote: R,
    /// Where in it the ring lies; checked.
    pub place: RingPlace,
    /// Its shape; checked.
    pub shape: Shape,
    /// The node that posts: buffers of others are not posted by the short way, as more is to be done then.
    pub own: NodeId,
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
    /// Who fetches lines on this machine.
    pub fetching: Fetching,
}

impl<R: Remote> Sender<R> {
    /// A sender for a new, empty ring.
    pub fn new(parts: SenderParts<R>) -> Sender<R> {
        let count = parts.shape.slots();
        let limit = parts.shape.limit();
        let in_flight = (0..count).map(|_| None).collect();
        // What is copied costs no budget, but what is possible does not depend on how it goes.
        let within_budget = usize::try_from(parts.budget.limit()).unwrap_or(usize::MAX);
        let thresholds = Thresholds { buffered_max: parts.thresholds.buffered_max.min(within_budget) };
        Sender {
            slots: parts.remote.slots(parts.place.ring, count),
            remote: parts.remote,
            place: parts.place,
            area: parts.place.ring + parts.shape.area(),
            shape: parts.shape,
            count,
            limit,
            own: parts.own,
            receiver: parts.receiver,
            credit: parts.credit,
            thresholds,
            passes_beside: R::IS_MAPPED && parts.fetching.passes_copies(),
            budget: parts.budget,
            ended: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            traffic: Traffic::default(),
            posted_before: AtomicU64::new(0),
            passes: AtomicU32::new(0),
            posting: Biased::new(Posting {
                position: 0,
                stamp: Stamp::of(0, count),
                open: Packed::NONE,
                room: limit,
                area: 0,
                retired_area: 0,
                bytes: 0,
                retired_bytes: 0,
                left: 0,
                in_flight,
                reaped: 0,
                passing: None,
                former: Vec::new(),
                passed_before: 0,
                said: 0,
            }),
            region: parts.region,
        }
    }

    /// For tests: begins with counters of positions, messages and area lines near their overflow. The receiver has to
    /// tell the same before the first message.
    #[doc(hidden)]
    pub fn begin_at(&mut self, position: Position, area: u32) {
        let mut posting = self.posting.lock();
        (posting.position, posting.reaped) = (position, position);
        self.traffic.begin_at(u64::from(position));
        posting.stamp = Stamp::of(position, self.count);
        (posting.area, posting.retired_area) = (area & AREA_MASK, area & AREA_MASK);
    }

    /// Where the ring is, for those who look on: offset of the credits in this node's segment and of the ring in the
    /// receiver's; messages, bytes and lines of the area.
    pub fn places(&self) -> [u64; 5] {
        let credit = self.region.as_ref().map_or(0, Region::offset);
        let Shape { messages, bytes, area_lines, .. } = self.shape;
        [credit as u64, self.place.ring as u64, u64::from(messages), bytes, u64::from(area_lines)]
    }

    /// The ring's shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How often threads of this node had to wait for one another here, about.
    #[inline]
    pub fn contention(&self) -> u32 {
        self.posting.waits()
    }

    /// Whether the calling thread posts here without a lock.
    pub fn is_favourite(&self) -> bool {
        self.posting.is_favourite()
    }

    /// Messages posted until now, modulo 2^32, with all of the calling thread.
    pub fn posted(&self) -> u32 {
        self.traffic.messages() as u32
    }

    /// What was posted here.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Posts `parcel` now or says why not. Never talks to anybody; waits for another thread of this node that is inside
    /// a post to the same ring, for as long as that takes.
    #[inline]
    pub fn post(&self, parcel: &Parcel) -> Result<Protocol, Refusal> {
        match self.post_quickly(parcel) {
            Some(protocol) => Ok(protocol),
            None => self.post_any(parcel),
        }
    }

    /// Where small messages are added to slots.
    #[inline(always)]
    fn shared_slots(&self) -> Option<&MappedSlots> {
        // Where lines travel as packets, adding to one is sending another.
        self.slots.mapped().filter(|_| self.shape.shares_slots)
    }

    /// As [`Sender::post`], where [`Sender::post_quickly`] has nothing to offer. Not inlined: the fast path would pay
    /// for its stack frame.
    ///
    /// # Errors
    /// As [`Sender::post`].
    #[inline(never)]
    pub fn post_any(&self, parcel: &Parcel) -> Result<Protocol, Refusal> {
        let protocol = choose(parcel, &self.thresholds, self.shape.area_max());
        let posting = &mut *self.posting.lock();
        // What was passed is counted by then.
        let posted = match protocol {
            Protocol::Short => return self.post_short(posting, parcel),
            Protocol::Buffered if self.pass_collected(posting, parcel) => return Ok(Protocol::Buffered),
            Protocol::Buffered => self.post_buffered(posting, parcel),
            Protocol::ZeroCopy => self.post_zero_copy(posting, parcel),
        }?;
        self.traffic.count(posted, parcel.size());
        Ok(posted)
    }

    fn post_short(&self, posting: &mut Posting, parcel: &Parcel) -> Result<Protocol, Refusal> {
        if let (Some(slots), Some(small)) = (self.shared_slots(), parcel.small()) {
            while self.post_at_once(posting, slots, small).is_none() {
                self.check_slot(posting)?;
            }
            return Ok(Protocol::Short);
        }
        if packet::fits_a_line(parcel) {
            if self.pass_line(posting, parcel) {
                return Ok(Protocol::Short);
            }
            self.check_slot(posting)?;
            self.publish_short(posting, parcel);
        } else {
            let mut memory = [0u8; SLOT_CONTENT];
            let (label, data) = (Label::of(parcel), parcel.collected(&mut memory));
            // SAFETY: content and runs are readable there, as long as parcel and memory live, and fit into a slot.
            if unsafe { self.pass_wide(posting, label, data) } {
                return Ok(Protocol::Short);
            }
            self.check_slot(posting)?;
            // SAFETY: as above.
            unsafe { self.publish_wide(posting, &label, data) };
        }
        self.traffic.count(Protocol::Short, parcel.size());
        Ok(Protocol::Short)
    }

    fn post_buffered(&self, posting: &mut Posting, parcel: &Parcel) -> Result<Protocol, Refusal> {
        self.check_slot(posting)?;
        let label = Label::of(parcel);
        let needed = packet::needed(&label) as usize;
        let Some(place) = self.find_area(posting, needed.div_ceil(LINE) as u32) else {
            return self.post_zero_copy(posting, parcel);
        };
        let mut memory = vec![0u8; if parcel.runs() == 0 { 0 } else { needed }];
        let data = parcel.collected(&mut memory);
        // SAFETY: content and runs are readable there, as long as parcel and memory live.
        unsafe { self.publish_beside(posting, &label, place, data) };
        Ok(Protocol::Buffered)
    }
}
