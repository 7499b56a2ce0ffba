//! Protocol 3: buffers that are handed over, or whose content is written to where the receiver wants it, and that the
//! sender holds until it knows that the receiver has them.

use deck_segment::{BufferName, Kept, Remote};
use deck_sync::atomic::Ordering;
use deck_sync::{Error, ErrorKind, fork, point};

use super::super::packet::{self, Label};
use super::super::ring::{Position, place_of, tag};
use super::{Ending, Posting, Refusal, Sender};
use crate::parcel::Parcel;
use crate::protocol::Protocol;

/// A zero-copy message that the receiver has not given the credit back for.
pub(super) struct InFlight {
    /// Of its slot.
    position: Position,
    kept: Kept,
    label: Label,
    capacity: usize,
    /// Waits for an address to write to (write-only fabrics).
    awaits_address: bool,
}

/// So many times in a row the control thread passes by a sender that posts.
const PASSES_MAX: u32 = 8;

impl<R: Remote> Sender<R> {
    /// Budget: the slot; the buffer's line, unless it was posted or received before; one line of this node's tables;
    /// five locked operations, and one for the node's budget unless as much is left here. The line of credits is looked
    /// at when the message is on its way. No allocation, no system call.
    pub(super) fn post_zero_copy(&self, posting: &mut Posting, parcel: &Parcel) -> Result<Protocol, Refusal> {
        let buffer = parcel.buffer().expect("what is too long for a slot lies in a buffer");
        let label = Label::of(parcel);
        let bytes = Parcel::needed(parcel.size(), parcel.runs()) as u64;
        self.check_budget(bytes)?;
        buffer.check_handles().map_err(Refusal::Failed)?;
        self.check_slot(posting)?;
        if !self.has_bytes(posting, bytes) {
            return Err(self.closed_or(Refusal::Full));
        }
        if !self.take_budget(posting, bytes) {
            self.reap_some(posting, self.count);
            if !self.take_budget(posting, bytes) {
                self.give_budget_back(posting);
                return Err(Refusal::Budget);
            }
        }
        // From here on nothing fails. A kill anywhere before the line is written leaves nothing that others count on.
        posting.bytes = posting.bytes.wrapping_add(bytes);
        let name: BufferName = buffer.name();
        buffer.add_share();
        point("post/held");
        let position = posting.position;
        let line = if R::IS_MAPPED {
            packet::hand_over_line(&label, &name, posting.stamp)
        } else {
            packet::request_line(&label, posting.stamp)
        };
        if self.in_flight.load(Ordering::Relaxed) == 0 {
            posting.reaped = position;
        }
        // Before the line is written: whoever finds none in flight does not ask for more.
        self.add_in_flight(1);
        self.publish_line(posting, &line);
        // The message is on its way before it is noted: until then the caller's handle keeps the buffer, and whoever
        // asks what is in flight waits for this thread to leave.
        let capacity = buffer.capacity();
        let entry = InFlight { position, kept: buffer.keep(), label, capacity, awaits_address: !R::IS_MAPPED };
        // The credit for this slot proves that the one that was here a lap ago has been retired.
        if let Some(old) = posting.in_flight[place_of(position, self.count)].replace(entry) {
            self.forget(posting, old);
        }
        // Only now: the credits lie in a line that the receiver has written, and the message would have waited for it.
        self.reap_some(posting, 4);
        Ok(Protocol::ZeroCopy)
    }

    /// Only one thread at a time writes it.
    fn add_in_flight(&self, change: i32) {
        let count = self.in_flight.load(Ordering::Relaxed);
        self.in_flight.store(count.wrapping_add_signed(change), Ordering::Relaxed);
    }

    /// Whether `bytes` can ever be posted.
    #[inline]
    pub(super) fn check_budget(&self, bytes: u64) -> Result<(), Refusal> {
        let limit = self.budget.limit();
        if bytes <= limit {
            return Ok(());
        }
        let what = format!("a message of {bytes} bytes can never be posted with a budget of {limit} bytes");
        Err(Refusal::Failed(Error::new(ErrorKind::TooLarge, what)))
    }

    /// Takes `bytes` of the budget if they are left, here first: there, all rings of the node meet.
    fn take_budget(&self, posting: &mut Posting, bytes: u64) -> bool {
        let more = bytes.saturating_sub(posting.left);
        let is_taken = more == 0 || self.budget.take(more);
        if is_taken {
            posting.left = posting.left + more - bytes;
        }
        is_taken
    }

    fn give_budget_back(&self, posting: &mut Posting) {
        if posting.left > 0 {
            self.budget.give(std::mem::take(&mut posting.left));
        }
    }

    fn forget(&self, posting: &mut Posting, entry: InFlight) {
        self.add_in_flight(-1);
        posting.left += packet::needed(&entry.label);
        if !R::IS_MAPPED {
            // The receiver has a buffer of its own; the share in this one ends here.
            entry.kept.undelivered();
        }
    }

    /// Lets go of all buffers whose messages were retrieved. True if others are still in flight.
    pub fn reap(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0 && self.reap_all(&mut self.posting.lock_as_guest())
    }

    /// As [`Sender::reap`], for the control thread, which comes by now and then: not if buffers were posted since it
    /// came last, as each post lets go of some that went before, and would have to wait meanwhile. But a post looks at
    /// a few slots only, unless it has come round to its first one: where buffers are posted seldom, what is left of
    /// them goes after so many times.
    pub fn reap_if_idle(&self) -> bool {
        let posted = self.traffic.by_protocol()[Protocol::ZeroCopy as usize];
        let passes = self.passes.load(Ordering::Relaxed);
        let is_busy = self.posted_before.load(Ordering::Relaxed) != posted && passes < PASSES_MAX;
        self.posted_before.store(posted, Ordering::Relaxed);
        self.passes.store(if is_busy { passes + 1 } else { 0 }, Ordering::Relaxed);
        if is_busy { self.in_flight.load(Ordering::Relaxed) > 0 } else { self.reap() }
    }

    /// As [`Sender::reap`], unless a thread is inside a post right now, this one included.
    pub fn try_reap(&self) -> bool {
        let has_any = self.in_flight.load(Ordering::Relaxed) > 0;
        has_any && self.posting.try_lock().is_none_or(|mut posting| self.reap_all(&mut posting))
    }

    /// Lets go of all that can be, and of their bytes of the budget. True if others are still in flight.
    fn reap_all(&self, posting: &mut Posting) -> bool {
        let has_more = self.reap_some(posting, self.count);
        self.give_budget_back(posting);
        has_more
    }

    /// The ring has ended: what was posted and not retrieved comes back.
    pub(super) fn give_up(&self, posting: &mut Posting, ending: Ending) {
        self.part_with_all(posting, |kept, is_retrieved| {
            // A receiver that died may have let go of more than it told: a share too many costs a copy, one too few is
            // wrong.
            if !R::IS_MAPPED || ending == Ending::Closed && !is_retrieved {
                kept.undelivered();
            }
        });
    }

    /// This node leaves: what was posted and not retrieved is delivered all the same, and nobody here holds it any
    /// more.
    pub(super) fn abandon(&self, posting: &mut Posting) {
        self.part_with_all(posting, |kept, is_retrieved| {
            if !is_retrieved {
                kept.abandon();
            }
        });
    }

    /// Nothing is in flight any more as far as this side goes. `part` is told of each whether it was retrieved, as far
    /// as the receiver has told.
    fn part_with_all(&self, posting: &mut Posting, part: impl Fn(Kept, bool)) {
        self.give_budget_back(posting);
        let head = self.head();
        for InFlight { position, kept, label, .. } in posting.in_flight.iter_mut().filter_map(Option::take) {
            part(kept, position.wrapping_sub(head) >= u32::MAX / 2);
            self.add_in_flight(-1);
            self.budget.give(packet::needed(&label));
        }
    }

    /// Lets go of up to `most` of them.
    pub(super) fn reap_some(&self, posting: &mut Posting, most: u32) -> bool {
        if self.in_flight.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let head = self.head();
        // A lap visits every place, and finds there also what is older. A receiver that tells nonsense is found out by
        // whoever takes a slot.
        if posting.position.wrapping_sub(head) > self.limit {
            return true;
        }
        // Now that the line is here: the next post of many bytes would have to wait for it.
        posting.retired_bytes = self.retired_bytes();
        // Nothing was in flight when that began: the credits of what was posted before are still on their way.
        if (1..=self.limit).contains(&posting.reaped.wrapping_sub(head)) {
            return true;
        }
        if head.wrapping_sub(posting.reaped) > self.count {
            posting.reaped = head.wrapping_sub(self.count);
        }
        for _ in 0..most.min(head.wrapping_sub(posting.reaped)) {
            let position = posting.reaped;
            let entry = posting.in_flight[place_of(position, self.count)]
                .take_if(|entry| position.wrapping_sub(entry.position) < u32::MAX / 2);
            if let Some(entry) = entry {
                self.forget(posting, entry);
            }
            posting.reaped = position.wrapping_add(1);
        }
        let has_more = self.in_flight.load(Ordering::Relaxed) > 0;
        if !has_more {
            self.give_budget_back(posting);
        }
        has_more
    }

    /// True if `bytes` more may be in flight; a ring that may be empty takes any number.
    fn has_bytes(&self, posting: &mut Posting, bytes: u64) -> bool {
        let slack = self.shape.bytes_slack();
        let has_room = |retired: u64| {
            let out = posting.bytes.wrapping_sub(retired);
            out <= slack || out >= u64::MAX / 2 || out.saturating_add(bytes) <= self.shape.bytes.saturating_add(slack)
        };
        if has_room(posting.retired_bytes) {
            return true;
        }
        posting.retired_bytes = self.retired_bytes();
        has_room(posting.retired_bytes)
    }

    /// Writes the content of messages whose receiver has told an address: for fabrics that can only be written, of
    /// which nodes have none yet; nothing to do elsewhere. For a thread that does it beside those that post.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the address cannot be.
    pub fn progress(&self, segment_bytes: usize) -> Result<(), Error> {
        if R::IS_MAPPED || self.in_flight.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let mut posting = self.posting.lock_as_guest();
        for entry in posting.in_flight.iter_mut().flatten().filter(|entry| entry.awaits_address) {
            self.write_to_address(entry, segment_bytes)?;
        }
        Ok(())
    }

    fn write_to_address(&self, entry: &mut InFlight, segment_bytes: usize) -> Result<(), Error> {
        let index = place_of(entry.position, self.count);
        let word = self.shape.answers() / 8 + 2 * index;
        // Acquire: pairs with: ring/answer.
        let answer = self.credit.get(word).load(Ordering::Acquire);
        if (answer & 63) as u8 != tag(entry.position, self.count) {
            return Ok(());
        }
        let (offset, capacity) = ((answer & !63) as usize, self.credit.get(word + 1).load(Ordering::Relaxed) as usize);
        let needed = packet::needed(&entry.label) as usize;
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
        self.remote.write_word(done, u64::from(tag(entry.position, self.count)));
        self.remote.flush();
        // The receiver may have looked at the slot and found no content yet: this is the arrival that counts.
        self.place.bell.ring(&self.remote);
        entry.awaits_address = false;
        Ok(())
    }
}

impl<R: Remote> Drop for Sender<R> {
    /// What is still in flight was posted by a node that has left: it is delivered all the same.
    fn drop(&mut self) {
        // A child has the memory of a thread that may have been inside, and not the thread.
        if fork::is_child() {
            return;
        }
        self.abandon(&mut self.posting.lock_as_guest());
    }
}
