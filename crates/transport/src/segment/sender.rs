//! The sending end of a ring: reserve a slot, write it, ring if the receiver sleeps.
//!
//! Many threads of the sending node share it. A reservation is one compare-and-swap of a word that is private to this
//! process: it takes the credit (which may be refused) and the slot (which then cannot fail) at once; after it, threads
//! publish independently, in any order. The receiver takes slots in order of position, so messages of one thread arrive
//! in the order posted.
//!
//! Hot path of a short message: one load of the credit line (ours, written by the receiver now and then), one
//! compare-and-swap, one 64-byte line written, one load of `HOT`. No allocation, no system call, no lock.

use std::sync::{Arc, Mutex, PoisonError};

use deck_segment::layout::LINE;
use deck_segment::{BufferName, HeapMemory, Kept, Region, Remote, Words};
use deck_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use deck_sync::{Error, ErrorKind, Event, NodeId, barrier, point};

use super::packet::{Label, Packet, TYPED, short_line};
use super::ring::{Position, RingPlace, Shape, credit, tag};
use crate::parcel::{BYTES, Parcel};
use crate::protocol::{Budget, Protocol, Thresholds, choose};

/// Set in the reservation word once nothing more may be reserved.
const ENDED: u64 = 1 << 63;
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

/// How a ring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ending {
    /// The mail box was closed.
    Closed = 1,
    /// Its node died.
    Lost = 2,
}

/// The part of a sender that its threads fight for, on a line of its own.
#[repr(align(128))]
struct Reserved {
    /// Position (low half) and area lines (high half) behind the last reservation, and [`ENDED`].
    word: AtomicU64,
    /// Posts that are over, bell included: equal to the position when no thread is inside a post.
    finished: AtomicU32,
}

/// The sending end of one ring.
pub struct Sender<R: Remote> {
    reserved: Reserved,
    remote: R,
    place: RingPlace,
    shape: Shape,
    slots: u32,
    receiver: NodeId,
    credit: Words,
    thresholds: Thresholds,
    heap: Arc<HeapMemory>,
    budget: Arc<Budget>,
    bytes: AtomicU64,
    ended: AtomicU32,
    in_flight: Box<[Mutex<Option<InFlight>>]>,
    in_flight_count: AtomicU32,
    reaped: AtomicU32,
    _region: Option<Region>,
}

/// A zero-copy message that the receiver has not given the credit back for.
struct InFlight {
    position: Position,
    kept: Kept,
    label: Label,
    capacity: usize,
    /// Waits for an address to write to (write-only fabrics).
    awaits_address: bool,
}

struct Slot {
    position: Position,
    line: u32,
    area_end: u32,
}

enum NoSlot {
    Refused(Refusal),
    NoArea,
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
    /// The credit line and what follows, in this node's segment.
    pub credit: Words,
    /// Keeps the credit line allocated.
    pub region: Option<Region>,
    /// This node's heap.
    pub heap: Arc<HeapMemory>,
    /// This node's budget.
    pub budget: Arc<Budget>,
    /// Sizes at which protocols change.
    pub thresholds: Thresholds,
}

impl<R: Remote> Sender<R> {
    /// A sender for a new, empty ring.
    pub fn new(parts: SenderParts<R>) -> Sender<R> {
        let slots = parts.shape.slots();
        Sender {
            reserved: Reserved { word: AtomicU64::new(0), finished: AtomicU32::new(0) },
            remote: parts.remote,
            place: parts.place,
            shape: parts.shape,
            slots,
            receiver: parts.receiver,
            credit: parts.credit,
            thresholds: parts.thresholds,
            heap: parts.heap,
            budget: parts.budget,
            bytes: AtomicU64::new(0),
            ended: AtomicU32::new(0),
            in_flight: (0..slots).map(|_| Mutex::new(None)).collect(),
            in_flight_count: AtomicU32::new(0),
            reaped: AtomicU32::new(0),
            _region: parts.region,
        }
    }

    /// For tests: begins with counters of positions and area lines near their overflow. The receiver has to be told the
    /// same before the first message.
    #[doc(hidden)]
    pub fn begin_at(&mut self, position: Position, area: u32) {
        let reserved = u64::from(area & AREA_MASK) << 32 | u64::from(position);
        self.reserved.word.store(reserved, Ordering::Relaxed);
        self.reserved.finished.store(position, Ordering::Relaxed);
        self.reaped.store(position, Ordering::Relaxed);
    }

    /// The node that receives.
    pub fn receiver(&self) -> NodeId {
        self.receiver
    }

    /// Posts `parcel` now or says why not. Never waits, never talks to anybody.
    pub fn post(&self, parcel: &Parcel) -> Result<Protocol, Refusal> {
        match choose(parcel, &self.thresholds, self.shape.area_max()) {
            Protocol::Short if parcel.element() == BYTES => {
                let slot = self.reserve_slot()?;
                self.publish(slot.position, &short_line(parcel.bytes(), slot.position, self.slots));
                Ok(Protocol::Short)
            }
            Protocol::Short => self.post_typed(parcel),
            Protocol::Buffered => match self.reserve(lines_of(parcel)) {
                Ok(slot) => self.post_buffered(parcel, slot),
                Err(NoSlot::NoArea) => self.post_zero_copy(parcel),
                Err(NoSlot::Refused(refusal)) => Err(refusal),
            },
            Protocol::ZeroCopy => self.post_zero_copy(parcel),
        }
    }

    fn post_typed(&self, parcel: &Parcel) -> Result<Protocol, Refusal> {
        let mut bytes = [0u8; TYPED];
        collect(parcel, &mut bytes);
        let slot = self.reserve_slot()?;
        let packet = Packet::Typed { label: label(parcel), bytes };
        self.publish(slot.position, &packet.write(slot.position, self.slots));
        Ok(Protocol::Short)
    }

    fn post_buffered(&self, parcel: &Parcel, slot: Slot) -> Result<Protocol, Refusal> {
        let offset = self.place.ring + self.shape.area() + slot.line as usize * LINE;
        if parcel.runs() == 0 {
            // SAFETY: the parcel's content is readable for its size.
            unsafe { self.remote.write_bytes(offset, parcel.data().as_ptr(), parcel.size()) };
        } else {
            let mut bytes = vec![0u8; Parcel::needed(parcel.size(), parcel.runs())];
            collect(parcel, &mut bytes);
            // SAFETY: the vector is readable for its length.
            unsafe { self.remote.write_bytes(offset, bytes.as_ptr(), bytes.len()) };
        }
        self.remote.flush();
        let packet = Packet::Buffered { label: label(parcel), line: slot.line, area_end: slot.area_end };
        self.publish(slot.position, &packet.write(slot.position, self.slots));
        Ok(Protocol::Buffered)
    }

    fn post_zero_copy(&self, parcel: &Parcel) -> Result<Protocol, Refusal> {
        let moved;
        let parcel = if parcel.buffer().is_some() {
            parcel
        } else {
            moved = parcel.in_buffer(&self.heap).map_err(Refusal::Failed)?;
            &moved
        };
        let Some(buffer) = parcel.buffer() else { unreachable!("it was just put into a buffer") };
        let label = label(parcel);
        let bytes = Parcel::needed(parcel.size(), parcel.runs()) as u64;
        if bytes > self.budget.limit() {
            let limit = self.budget.limit();
            let what = format!("a message of {bytes} bytes can never be posted with a budget of {limit} bytes");
            return Err(Refusal::Failed(Error::new(ErrorKind::TooLarge, what)));
        }
        self.reap(4);
        self.look_for_room(bytes)?;
        if !self.budget.take(bytes) {
            self.reap(self.slots);
            if !self.budget.take(bytes) {
                return Err(Refusal::Budget);
            }
        }
        let slot = self.take_bytes(bytes).and_then(|()| {
            self.reserve_slot().inspect_err(|_| {
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                // Another thread took the slot that was there. A third may have found our bytes in the way and gone to sleep.
                self.room().notify();
            })
        });
        let slot = slot.inspect_err(|_| self.budget.give(bytes))?;
        // From here on nothing fails. A kill anywhere before the line is written leaves nothing that others count on.
        let name: BufferName = buffer.name();
        buffer.add_share();
        let entry = InFlight {
            position: slot.position,
            kept: buffer.keep(),
            label,
            capacity: buffer.capacity(),
            awaits_address: !R::IS_MAPPED,
        };
        self.remember(entry);
        point("post/held");
        let packet = if R::IS_MAPPED { Packet::HandOver { label, name } } else { Packet::Request { label } };
        self.publish(slot.position, &packet.write(slot.position, self.slots));
        Ok(Protocol::ZeroCopy)
    }

    fn remember(&self, entry: InFlight) {
        let index = (entry.position & (self.slots - 1)) as usize;
        let mut place = self.in_flight[index].lock().unwrap_or_else(PoisonError::into_inner);
        // The credit for this slot proves that what was here a lap ago has been retired.
        let old = place.replace(entry);
        drop(place);
        self.in_flight_count.fetch_add(1, Ordering::Relaxed);
        if let Some(old) = old {
            self.forget(old);
        }
    }

    fn forget(&self, entry: InFlight) {
        self.in_flight_count.fetch_sub(1, Ordering::Relaxed);
        self.budget.give(super::packet::needed(&entry.label));
        if !R::IS_MAPPED {
            // The receiver has a buffer of its own; the share in this one ends here.
            entry.kept.undelivered();
        }
    }

    /// Lets go of up to `most` buffers whose messages were retrieved. True if others are still in flight.
    pub fn reap(&self, most: u32) -> bool {
        let mut looked = 0;
        while looked < most && self.in_flight_count.load(Ordering::Relaxed) > 0 {
            let position = self.reaped.load(Ordering::Relaxed);
            // Acquire: pairs with: ring/credit. The receiver has its own hold before it gives the credit back.
            let retired = self.credit.get(credit::RETIRED).load(Ordering::Acquire) as u32;
            let behind = retired.wrapping_sub(position);
            if behind == 0 || behind > u32::MAX / 2 {
                break;
            }
            // The last lap visits every place, and finds there also what is older.
            let next = if behind > self.slots { retired.wrapping_sub(self.slots) } else { position.wrapping_add(1) };
            if self.reaped.compare_exchange(position, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                continue;
            }
            if behind <= self.slots {
                let mut place = self.place_of(position);
                let entry = place.take_if(|entry| position.wrapping_sub(entry.position) < u32::MAX / 2);
                drop(place);
                if let Some(entry) = entry {
                    self.forget(entry);
                }
                looked += 1;
            }
        }
        self.in_flight_count.load(Ordering::Relaxed) > 0
    }

    fn place_of(&self, position: Position) -> std::sync::MutexGuard<'_, Option<InFlight>> {
        let index = (position & (self.slots - 1)) as usize;
        self.in_flight[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if `bytes` more may be in flight after `posted` of all times; an empty ring takes any number.
    fn has_bytes(&self, posted: u64, bytes: u64) -> bool {
        let retired = self.credit.get(credit::BYTES).load(Ordering::Acquire);
        let out = posted.wrapping_sub(retired);
        out == 0 || out >= u64::MAX / 2 || out.saturating_add(bytes) <= self.shape.bytes
    }

    /// Takes `bytes` of what the ring may have in flight.
    fn take_bytes(&self, bytes: u64) -> Result<(), Refusal> {
        let mut posted = self.bytes.load(Ordering::Relaxed);
        loop {
            if !self.has_bytes(posted, bytes) {
                return Err(Refusal::Full);
            }
            match self.bytes.compare_exchange_weak(
                posted,
                posted.wrapping_add(bytes),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => posted = now,
            }
        }
    }

    /// Refuses what has no room now, so that bytes and budget are taken and given back only where a race was lost.
    fn look_for_room(&self, bytes: u64) -> Result<(), Refusal> {
        let reserved = self.reserved.word.load(Ordering::Relaxed);
        if reserved & ENDED != 0 {
            return Err(self.ending());
        }
        let retired = self.credit.get(credit::RETIRED).load(Ordering::Relaxed) as u32;
        let is_full = (reserved as u32).wrapping_sub(retired) == self.shape.limit();
        if is_full || !self.has_bytes(self.bytes.load(Ordering::Relaxed), bytes) {
            return Err(self.closed_or(Refusal::Full));
        }
        Ok(())
    }

    fn reserve_slot(&self) -> Result<Slot, Refusal> {
        self.reserve(0).map_err(|refused| match refused {
            NoSlot::Refused(refusal) => refusal,
            NoSlot::NoArea => Refusal::Full,
        })
    }

    /// Takes a credit, the next slot and `lines` lines of the area in one step.
    fn reserve(&self, lines: u32) -> Result<Slot, NoSlot> {
        let mut reserved = self.reserved.word.load(Ordering::Relaxed);
        loop {
            if reserved & ENDED != 0 {
                return Err(NoSlot::Refused(self.ending()));
            }
            let (position, area) = (reserved as u32, (reserved >> 32) as u32 & AREA_MASK);
            // Acquire: pairs with: ring/credit. The receiver is done with the slot before it gives the credit back.
            let retired = self.credit.get(credit::RETIRED).load(Ordering::Acquire);
            let used = position.wrapping_sub(retired as u32);
            if used >= self.shape.limit() {
                let now = self.reserved.word.load(Ordering::Relaxed);
                if now != reserved {
                    reserved = now;
                    continue;
                }
                if used > self.shape.limit() {
                    let what = "its credits are ahead of what was posted";
                    let error = Error::new(ErrorKind::Corrupt, what).with_peer(self.receiver);
                    return Err(NoSlot::Refused(Refusal::Failed(error)));
                }
                return Err(NoSlot::Refused(self.closed_or(Refusal::Full)));
            }
            if self.credit.get(credit::CLOSED).load(Ordering::Relaxed) != 0 {
                return Err(NoSlot::Refused(Refusal::Closed));
            }
            let mask = self.shape.area_lines - 1;
            let skip = if lines > 0 && (area & mask) + lines > self.shape.area_lines {
                self.shape.area_lines - (area & mask)
            } else {
                0
            };
            let area_used = area.wrapping_sub((retired >> 32) as u32) & AREA_MASK;
            if lines > 0 && area_used + skip + lines > self.shape.area_lines {
                return Err(NoSlot::NoArea);
            }
            let area_end = area.wrapping_add(skip + lines) & AREA_MASK;
            let next = u64::from(area_end) << 32 | u64::from(position.wrapping_add(1));
            // Relaxed: the word orders nothing but itself; the slot's tag publishes.
            match self.reserved.word.compare_exchange_weak(reserved, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(Slot { position, line: area.wrapping_add(skip) & mask, area_end }),
                Err(now) => reserved = now,
            }
        }
    }

    fn closed_or(&self, refusal: Refusal) -> Refusal {
        if self.credit.get(credit::CLOSED).load(Ordering::Relaxed) != 0 { Refusal::Closed } else { refusal }
    }

    fn ending(&self) -> Refusal {
        if self.ended.load(Ordering::Acquire) == Ending::Lost as u32 { Refusal::Lost } else { Refusal::Closed }
    }

    fn publish(&self, position: Position, line: &deck_segment::fabric::Line) {
        point("post/reserved");
        let index = (position & (self.slots - 1)) as usize;
        self.remote.write_line(self.place.ring + index * LINE, line);
        if !R::IS_MAPPED {
            self.remote.flush();
        }
        point("post/published");
        // Pairs with: ring/cold. Either the receiver, after marking the ring cold, sees this slot, or we see the mark.
        barrier::light();
        if self.credit.get(credit::HOT).load(Ordering::Relaxed) == 0 {
            // Release (in the fabric): pairs with: ring/bell.
            self.remote.write_word(self.place.bell, 1);
            point("post/rung");
            self.remote.interrupt(self.place.event);
        }
        // Left out of the models: one more step in each post multiplies what they explore, and nothing that they prove depends
        // on it.
        #[cfg(not(loom))]
        // Release: pairs with: ring/finished.
        self.reserved.finished.fetch_add(1, Ordering::Release);
    }

    /// True once no thread is inside a post: then nothing more is written to the receiver's memory after [`Sender::end`].
    pub fn is_finished(&self) -> bool {
        // Acquire: pairs with: ring/finished.
        self.reserved.finished.load(Ordering::Acquire) == self.reserved.word.load(Ordering::Acquire) as u32
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
    /// waiting threads are told. Returns the position behind the last slot that was ever reserved.
    pub fn end(&self, ending: Ending) -> Position {
        let reserved = self.stop(ending);
        for place in &self.in_flight {
            let entry = place.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(entry) = entry {
                let bytes = super::packet::needed(&entry.label);
                let retired = self.credit.get(credit::RETIRED).load(Ordering::Acquire) as u32;
                if !R::IS_MAPPED || entry.position.wrapping_sub(retired) < u32::MAX / 2 {
                    entry.kept.undelivered();
                }
                self.in_flight_count.fetch_sub(1, Ordering::Relaxed);
                self.budget.give(bytes);
            }
        }
        self.room().notify();
        reserved
    }

    /// Nothing more is posted and waiting threads are told, but what was posted stays in flight: this node leaves its job,
    /// and the receiver is still to retrieve it.
    pub fn stop(&self, ending: Ending) -> Position {
        let _ = self.ended.compare_exchange(0, ending as u32, Ordering::AcqRel, Ordering::Relaxed);
        let reserved = self.reserved.word.fetch_or(ENDED, Ordering::AcqRel);
        self.room().notify();
        reserved as u32
    }

    /// How the ring ended, if it did.
    pub fn ended(&self) -> Option<Ending> {
        match self.ended.load(Ordering::Acquire) {
            1 => Some(Ending::Closed),
            2 => Some(Ending::Lost),
            _ => None,
        }
    }

    /// Writes the content of messages whose receiver has told an address (write-only fabrics; nothing to do elsewhere).
    /// Called by the control thread.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the address cannot be.
    pub fn progress(&self, segment_bytes: usize) -> Result<(), Error> {
        if R::IS_MAPPED || self.in_flight_count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        for place in &self.in_flight {
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = place.as_mut().filter(|entry| entry.awaits_address) {
                self.write_to_address(entry, segment_bytes)?;
            }
        }
        Ok(())
    }

    fn write_to_address(&self, entry: &mut InFlight, segment_bytes: usize) -> Result<(), Error> {
        let index = (entry.position & (self.slots - 1)) as usize;
        let word = self.shape.answers() / 8 + 2 * index;
        // Acquire: pairs with: ring/answer.
        let answer = self.credit.get(word).load(Ordering::Acquire);
        if (answer & 63) as u8 != tag(entry.position, self.slots) {
            return Ok(());
        }
        let (offset, capacity) = ((answer & !63) as usize, self.credit.get(word + 1).load(Ordering::Relaxed) as usize);
        let needed = super::packet::needed(&entry.label) as usize;
        let inside = offset.checked_add(capacity).is_some_and(|end| end <= segment_bytes);
        if !inside || capacity < needed || !capacity.is_multiple_of(8) {
            let what = format!("an impossible address for {needed} bytes: {capacity} bytes at {offset}");
            return Err(Error::new(ErrorKind::Corrupt, what).with_peer(self.receiver));
        }
        // Two laps later the tag is the same, and in between there may be no request in this slot.
        self.credit.get(word).store(0, Ordering::Relaxed);
        let (size, runs) = (entry.label.size as usize, entry.label.runs as usize);
        // SAFETY: the buffer that is kept holds `size` bytes of content.
        unsafe { self.remote.write_bytes(offset, entry.kept.data().as_ptr(), size) };
        self.remote.flush();
        for run in 1..=runs {
            // SAFETY: the buffer that is kept has its runs at its end, 8-byte aligned.
            let value = unsafe { entry.kept.data().as_ptr().add(entry.capacity - 8 * run).cast::<u64>().read() };
            self.remote.write_word(offset + capacity - 8 * run, value);
        }
        self.remote.flush();
        let done = self.place.ring + self.shape.done() + 8 * index;
        // Release (in the fabric): pairs with: ring/done.
        self.remote.write_word(done, u64::from(tag(entry.position, self.slots)));
        self.remote.flush();
        // The receiver may have looked at the slot and found no content yet: this is the arrival that counts.
        self.remote.write_word(self.place.bell, 1);
        self.remote.interrupt(self.place.event);
        entry.awaits_address = false;
        Ok(())
    }
}

impl<R: Remote> Drop for Sender<R> {
    /// What is still in flight was posted by a node that has left: it is delivered all the same.
    fn drop(&mut self) {
        for place in &mut self.in_flight {
            if let Some(entry) = place.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
                self.budget.give(super::packet::needed(&entry.label));
                let retired = self.credit.get(credit::RETIRED).load(Ordering::Acquire) as u32;
                if entry.position.wrapping_sub(retired) < u32::MAX / 2 {
                    entry.kept.abandon();
                }
            }
        }
    }
}

fn label(parcel: &Parcel) -> Label {
    Label { element: parcel.element(), size: parcel.size() as u64, runs: parcel.runs() as u32 }
}

fn lines_of(parcel: &Parcel) -> u32 {
    Parcel::needed(parcel.size(), parcel.runs()).div_ceil(LINE) as u32
}

/// Content and, at the next multiple of 8, runs in the order in which they lie in memory.
fn collect(parcel: &Parcel, into: &mut [u8]) {
    into[..parcel.size()].copy_from_slice(parcel.bytes());
    let from = parcel.size().next_multiple_of(8);
    for (place, word) in parcel.run_words().enumerate() {
        into[from + 8 * place..from + 8 * place + 8].copy_from_slice(&word.to_ne_bytes());
    }
}
