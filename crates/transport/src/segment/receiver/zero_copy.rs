//! Protocol 3: buffers that are handed over, or into which the sender writes where the receiver tells it to.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use deck_segment::{Buffer, BufferName, HeapMemory, Remote};
use deck_sync::atomic::Ordering;
use deck_sync::{NodeId, Result};

use super::super::packet::{self, Label, Packet, needed};
use super::super::ring::{Position, place_of, tag};
use super::{Expected, Heaps, Receiver};
use crate::parcel::Parcel;
use crate::protocol::Protocol;

impl<R: Remote> Receiver<R> {
    /// Takes a buffer that is handed over if it lies where the last one did. Whatever is wrong with it,
    /// [`Receiver::take`] finds again and tells. Not inlined: shorter messages would pay for it.
    #[inline(never)]
    pub(super) fn take_over(&mut self, last: u64, into: &mut Parcel) -> bool {
        if !R::IS_MAPPED || !self.adopted.is_empty() {
            return false;
        }
        let Some((label, name)) = packet::handed_over(self.slots.line(self.head), last, self.stamp) else {
            return false;
        };
        let Some(heap) = self.heap.as_ref().filter(|heap| heap.owner().0 == name.owner) else { return false };
        if into.receive(&label, &name, heap).is_err() {
            return false;
        }
        self.leave_buffer(&label);
        self.leave_whole_slot();
        self.count(Protocol::ZeroCopy);
        true
    }

    /// `buffer` is the message that `label` tells of.
    pub(super) fn accept(&mut self, label: &Label, buffer: Buffer, into: &mut Parcel) {
        into.set_buffer(buffer, label.size as usize, label.element, label.runs as usize);
        self.leave_buffer(label);
    }

    /// A buffer was taken, with what `label` tells of.
    #[inline]
    fn leave_buffer(&mut self, label: &Label) {
        self.bytes = self.bytes.wrapping_add(needed(label));
        self.expected = Expected::Line;
    }

    pub(super) fn take_hand_over(
        &mut self,
        label: &Label,
        name: &BufferName,
        heaps: &dyn Heaps,
    ) -> Result<Option<Buffer>> {
        if let Some(buffer) = remove_at(&mut self.adopted, self.head) {
            return self.fitting(label, buffer);
        }
        // Left out when everything was taken over: its memory may be another's, though its heap is known by now.
        if self.is_orphan {
            return Ok(None);
        }
        if self.heap.as_ref().is_none_or(|heap| heap.owner().0 != name.owner) {
            self.heap = heaps.heap_of(NodeId(name.owner));
        }
        let Some(heap) = &self.heap else { return heaps.lacking(NodeId(name.owner)).map_or(Ok(None), Err) };
        heap.receive(name).map(Some).map_err(|error| error.with_peer(self.from))
    }

    /// `buffer`, if the message that the slot tells of *now* lies inside: the slot may have been written again since
    /// the buffer was put aside for it.
    fn fitting(&self, label: &Label, buffer: Buffer) -> Result<Option<Buffer>> {
        if needed(label) > buffer.capacity() as u64 {
            return Err(self.nonsense("a slot was changed after it had been read"));
        }
        Ok(Some(buffer))
    }

    pub(super) fn take_written(&mut self, label: &Label) -> Result<Option<Buffer>> {
        let index = place_of(self.head, self.count);
        // Acquire: pairs with: ring/done.
        let done = self.ring.get(self.shape.done() / 8 + index).load(Ordering::Acquire);
        if done != u64::from(tag(self.head, self.count)) {
            return Ok(None);
        }
        let Some(buffer) = remove_at(&mut self.promised, self.head) else { return Ok(None) };
        // Two laps later the tag is the same, and in between there may be no request in this slot.
        self.ring.get(self.shape.done() / 8 + index).store(0, Ordering::Relaxed);
        self.fitting(label, buffer)
    }

    /// Takes over the buffers of everything that is posted and not retrieved yet: after the sender is gone, so that its
    /// own hold of them may be forgotten; or those of one owner, whose heap is about to be forgotten. What names a heap
    /// that is not known is left out: for good, if the sender is gone.
    pub fn adopt(&mut self, heaps: &dyn Heaps, of: Option<NodeId>) {
        if self.is_orphan {
            return;
        }
        self.is_orphan = of.is_none();
        self.heap = None;
        // Thousands may have been taken over before.
        let known: HashSet<Position> = self.adopted.iter().map(|(position, _)| *position).collect();
        for ahead in 0..self.count {
            let position = self.head.wrapping_add(ahead);
            if let Ok(Some(Packet::HandOver { name, .. })) = self.packet(position)
                && of.is_none_or(|owner| owner.0 == name.owner)
                && !known.contains(&position)
                && let Some(heap) = heaps.heap_of(NodeId(name.owner))
                && let Ok(buffer) = heap.receive(&name)
            {
                self.adopted.push_back((position, buffer));
            }
        }
    }

    /// Gives addresses to messages that ask for one, independent of any retrieve: for fabrics that can only be written,
    /// of which nodes have none yet; nothing to do elsewhere. For a thread that does it beside those that retrieve.
    ///
    /// # Errors
    /// [`Corrupt`](deck_sync::ErrorKind::Corrupt), or [`NoMemory`](deck_sync::ErrorKind::NoMemory) (it is tried again
    /// at the next call).
    pub fn progress(&mut self, heap: &Arc<HeapMemory>) -> Result<()> {
        if R::IS_MAPPED {
            return Ok(());
        }
        if self.answered.wrapping_sub(self.head) > self.count {
            self.answered = self.head;
        }
        while self.answered.wrapping_sub(self.head) < self.count {
            match self.packet(self.answered)? {
                None => break,
                Some(Packet::Request { label }) => {
                    let bytes = usize::try_from(needed(&label)).unwrap_or(usize::MAX);
                    let buffer = heap.allocate(bytes)?;
                    let name = buffer.name();
                    let word = self.credit + self.shape.answers() + 16 * place_of(self.answered, self.count);
                    self.remote.flush();
                    self.remote.write_word(word + 8, name.capacity);
                    self.remote.flush();
                    // Release (in the fabric): pairs with: ring/answer.
                    self.remote.write_word(word, name.offset | u64::from(tag(self.answered, self.count)));
                    self.promised.push_back((self.answered, buffer));
                }
                Some(_) => {}
            }
            self.answered = self.answered.wrapping_add(1);
        }
        self.remote.flush();
        Ok(())
    }
}

/// Takes out what was put aside for `position`.
fn remove_at(aside: &mut VecDeque<(Position, Buffer)>, position: Position) -> Option<Buffer> {
    let index = aside.iter().position(|(other, _)| *other == position)?;
    aside.remove(index).map(|(_, buffer)| buffer)
}
