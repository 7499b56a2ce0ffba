//! A share of a message buffer.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use deck_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use deck_sync::{Result, fork};

use crate::fetch_back::{self, Place};
use crate::layout::{LINE_WORDS, holder, readers};
use crate::{Fetching, HeapMemory, Rest, prefetch};

/// A counted share of a buffer in this or another node's heap. Cloning shares; the last share of the last node frees
/// it.
///
/// The content is not borrowed from here: who may write is decided by [`Buffer::is_shared`] and the rules of messages.
pub struct Buffer {
    heap: Arc<HeapMemory>,
    index: u32,
    offset: usize,
    capacity: usize,
    /// Others may have read the content.
    has_travelled: AtomicBool,
    /// What has become of the present content by this handle: [`POSTED`], [`POSTED_AGAIN`], [`FETCHED`], [`RENEWED`].
    content: AtomicU32,
    /// Shares that are counted beside this one, for messages to come.
    spare: AtomicU64,
}

/// Shares that are counted at a time for a buffer that is posted again, and the most that are kept of one that is
/// received again: its line then belongs to the core of whoever let go last, and would have to come from there for each
/// message.
const SPARE: u64 = 15;

/// The content was posted.
const POSTED: u32 = 1;
/// It was posted more than once: to several who may all read it at the same time.
const POSTED_AGAIN: u32 = 2;
/// It was fetched.
const FETCHED: u32 = 4;
/// It is new in a buffer that had other content before.
const RENEWED: u32 = 8;

/// What it takes to find a buffer from another node: the fields of a hand-over, to be checked by whoever reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferName {
    /// Number of the owner's node.
    pub owner: u32,
    /// Seat of the owner.
    pub seat: u16,
    /// Index of the buffer in the owner's heap.
    pub index: u32,
    /// Byte offset of the content in the owner's segment.
    pub offset: u64,
    /// Bytes it can hold.
    pub capacity: u64,
}

impl Buffer {
    /// `heap` has counted this share already.
    pub(crate) fn counted(
        heap: Arc<HeapMemory>,
        index: u32,
        offset: usize,
        capacity: usize,
        has_travelled: bool,
    ) -> Buffer {
        let (has_travelled, content) = (AtomicBool::new(has_travelled), AtomicU32::new(0));
        Buffer { heap, index, offset, capacity, has_travelled, content, spare: AtomicU64::new(0) }
    }

    /// True if its next content had better go into another buffer of this node. Others have read this one, and it is
    /// one of those that rest or that are used in turn.
    pub fn wants_change(&self) -> bool {
        self.has_gone() && (self.takes_turns() || self.wants_rest())
    }

    /// True if it has travelled, and, where writers fetch, this handle has posted it: who answers in the message that
    /// came has just read the lines that it writes.
    fn has_gone(&self) -> bool {
        let is_posted = || self.content.load(Ordering::Relaxed) & POSTED != 0;
        self.has_travelled() && (self.heap.fetching() == Fetching::ByReaders || is_posted())
    }

    /// True if it is one of those that rest ([`crate::Rest`]) unless their readers fetch them.
    pub fn wants_rest(&self) -> bool {
        self.heap.rest().is_for(self.capacity) && self.heap.readers(self.index) != readers::FETCHED
    }

    /// True if this node uses it in turn with another one ([`Fetching::takes_turns`](crate::Fetching::takes_turns)).
    pub fn takes_turns(&self) -> bool {
        self.is_own() && self.heap.fetching().takes_turns(self.capacity)
    }

    /// Another buffer gets the next content, and this one the content after that, if it is fetched back until then
    /// ([`Buffer::came_back`]).
    pub fn put_aside(&self) {
        fetch_back::put_aside(&self.heap, self.place(), 1 + self.spare.load(Ordering::Relaxed));
    }

    /// True once if it was put aside, nobody else shares it, and the calling thread has fetched it back.
    pub fn came_back(&self) -> bool {
        fetch_back::came_back(&self.heap, self.place()) && !self.is_shared()
    }

    /// Fetches `bytes` bytes of the content, from byte `from` on, if it came from elsewhere, to one reader alone, and
    /// readers are to do so ([`Fetching`]): for whoever reads all of them, and nothing more behind
    /// them if `is_rest`. Never blocks. Does nothing in a forked child: that has no share, and the bytes may be
    /// somebody else's by now.
    ///
    /// # Panics
    /// If the buffer ends before they do.
    pub fn fetch(&self, from: usize, bytes: usize, is_rest: bool) {
        let is_worth_it = self.has_travelled() && self.heap.fetching().readers_fetch(self.capacity);
        if !is_worth_it || fork::is_child() || self.heap.readers(self.index) == readers::SEVERAL {
            return;
        }
        let end = from.checked_add(bytes).filter(|end| *end <= self.capacity);
        assert!(end.is_some(), "the buffer ends before what is fetched");
        // SAFETY: the bytes lie in the buffer, which lies in a segment that is mapped writable; this share keeps others
        // from writing them.
        unsafe { prefetch::fetch(self.data().add(from), bytes) };
        // Only buffers that could rest are asked about.
        if is_rest && bytes > 0 && Rest::may_be_for(self.capacity) && self.heap.tell_fetched(self.index) {
            self.content.fetch_or(FETCHED, Ordering::Relaxed);
        }
    }

    /// Whether others may have read what was in it, as this handle knows.
    #[inline]
    pub fn has_travelled(&self) -> bool {
        self.has_travelled.load(Ordering::Relaxed)
    }

    /// It gets new content: whoever reads that may fetch it or not.
    pub fn renew(&self) {
        self.content.store(RENEWED, Ordering::Relaxed);
        if self.has_travelled.load(Ordering::Relaxed) && self.heap.readers(self.index) != readers::NOT_TOLD {
            self.heap.tell_readers(self.index, readers::NOT_TOLD);
        }
    }

    /// The content is posted. Who reads it is told in the buffer's line only where that is new: others may have the
    /// line.
    fn post(&self) {
        let before = self.content.load(Ordering::Relaxed);
        if before & RENEWED != 0 {
            fetch_back::posted(&self.heap, self.place(), 1 + self.spare.load(Ordering::Relaxed));
        }
        let (after, told) = match (before & POSTED != 0, before & FETCHED != 0) {
            _ if before & POSTED_AGAIN != 0 => return,
            (true, _) => (POSTED | POSTED_AGAIN, Some(readers::SEVERAL)),
            // Whoever comes next may do without.
            (false, true) => (POSTED, Some(readers::NOT_TOLD)),
            (false, false) => (POSTED, None),
        };
        if after & POSTED_AGAIN != 0 {
            fetch_back::posted_again(&self.heap, self.place());
        }
        self.content.store(after, Ordering::Relaxed);
        if let Some(readers) = told {
            self.heap.tell_readers(self.index, readers);
        }
    }

    fn place(&self) -> Place {
        Place { index: self.index, offset: self.offset, capacity: self.capacity }
    }

    /// Address of the content, 64-byte aligned, valid while this share lives.
    #[inline]
    pub fn data(&self) -> NonNull<u8> {
        self.heap.segment().at(self.offset, self.capacity).expect("a buffer lies inside its segment")
    }

    /// True if it lives in this node's heap.
    pub fn is_own(&self) -> bool {
        self.heap.is_own()
    }

    /// Bytes the buffer can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The heap it lives in.
    pub fn heap(&self) -> &Arc<HeapMemory> {
        &self.heap
    }

    /// What a hand-over tells about it.
    pub fn name(&self) -> BufferName {
        BufferName {
            owner: self.heap.owner().0,
            seat: self.heap.seat().0,
            index: self.index,
            offset: self.offset as u64,
            capacity: self.capacity as u64,
        }
    }

    #[inline]
    fn shares(&self) -> &deck_sync::atomic::AtomicU64 {
        self.heap.lines().get(self.index as usize * LINE_WORDS + holder::SHARES)
    }

    /// True if anybody else, in any node or in flight, shares the content. After a death it may stay true for ever,
    /// which costs a copy.
    ///
    /// Budget: one load, of a line that whoever let go last has written.
    #[inline]
    pub fn is_shared(&self) -> bool {
        // Acquire: pairs with: buffer/share. Others are done with the content before we write it.
        self.shares().load(Ordering::Acquire) != 1 + self.spare.load(Ordering::Relaxed)
    }

    /// True if new content of so many bytes may be written: there is room, and nobody shares what was there.
    #[inline]
    pub fn may_hold(&self, bytes: usize) -> bool {
        bytes <= self.capacity() && !self.is_shared()
    }

    /// Counts the share of a message in flight, or of another handle; the receiver's or the handle's drop takes it
    /// back.
    pub fn add_share(&self) {
        if self.spare.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |spare| spare.checked_sub(1)).is_ok() {
            return;
        }
        let spare = if self.has_travelled.load(Ordering::Relaxed) { SPARE } else { 0 };
        self.shares().fetch_add(1 + spare, Ordering::Relaxed);
        self.spare.fetch_add(spare, Ordering::Relaxed);
    }

    /// Takes back this handle's share. True if there is no other.
    fn forget_share(&self) -> bool {
        let own = 1 + self.spare.load(Ordering::Relaxed);
        // Release: pairs with: buffer/share.
        self.shares().fetch_sub(own, Ordering::Release) == own
    }

    /// Receives, as [`HeapMemory::receive`], another buffer of the same heap in place of this one, or this one again.
    ///
    /// # Errors
    /// As [`HeapMemory::receive`]; nothing has changed then.
    pub fn receive_again(&mut self, name: &BufferName) -> Result<()> {
        self.heap.check_name(name)?;
        if name.index == self.index {
            self.heap.expect_content(name);
            self.gain_share();
        } else {
            self.heap.hold_received(name)?;
            self.forget_share();
            self.heap.let_go(self.index);
            (self.index, self.spare) = (name.index, AtomicU64::new(0));
        }
        (self.offset, self.capacity) = (name.offset as usize, name.capacity as usize);
        self.has_travelled.store(true, Ordering::Relaxed);
        self.content.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// The share that was in flight is one more than this handle needs: it is spare, until there are too many. So a
    /// buffer that goes to and fro does not take the line of its shares along.
    fn gain_share(&mut self) {
        // Relaxed: the caller has this handle for itself.
        let spare = self.spare.load(Ordering::Relaxed) + 1;
        let is_enough = spare > SPARE;
        if is_enough {
            // Release: pairs with: buffer/share.
            self.shares().fetch_sub(spare, Ordering::Release);
        }
        self.spare.store(if is_enough { 0 } else { spare }, Ordering::Relaxed);
    }

    /// To be asked before [`Buffer::keep`], where that must not fail.
    ///
    /// # Errors
    /// [`NoMemory`](deck_sync::ErrorKind::NoMemory) if this node has too many handles of the buffer.
    #[inline]
    pub fn check_handles(&self) -> Result<()> {
        self.heap.check_handles(self.index)
    }

    /// A second handle for the same share: keeps the buffer alive while it is in flight without being a share of its
    /// own.
    pub fn keep(&self) -> Kept {
        self.heap.hold_again(self.index);
        self.has_travelled.store(true, Ordering::Relaxed);
        self.post();
        Kept {
            heap: self.heap.clone(),
            index: self.index,
            offset: self.offset,
            capacity: self.capacity,
            is_abandoned: false,
        }
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        // A child has no shares, and its drops take none back.
        if !fork::is_child() {
            self.heap.hold_again(self.index);
            self.add_share();
        }
        let has_travelled = self.has_travelled.load(Ordering::Relaxed);
        let clone = Buffer::counted(self.heap.clone(), self.index, self.offset, self.capacity, has_travelled);
        clone.content.store(self.content.load(Ordering::Relaxed), Ordering::Relaxed);
        clone
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if fork::is_child() {
            return;
        }
        let is_free = self.forget_share();
        if self.content.load(Ordering::Relaxed) & POSTED != 0 {
            fetch_back::let_go(&self.heap, self.place(), is_free);
        }
        self.heap.let_go(self.index);
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} #{}, {} bytes)", self.heap.owner(), self.index, self.capacity)
    }
}

/// A buffer kept alive for a message in flight.
pub struct Kept {
    heap: Arc<HeapMemory>,
    index: u32,
    offset: usize,
    capacity: usize,
    is_abandoned: bool,
}

impl Kept {
    /// The message will not arrive: nobody takes over its share.
    pub fn undelivered(self) {
        // Release: pairs with: buffer/share.
        self.heap.lines().get(self.index as usize * LINE_WORDS + holder::SHARES).fetch_sub(1, Ordering::Release);
    }

    /// This node leaves its job while the message is in flight: its bit stays until everybody has taken over what the
    /// node had posted, and is then taken away by the owner. Where another node of this process has the same view, it
    /// stays as long as that node does.
    pub fn abandon(mut self) {
        self.is_abandoned = true;
    }

    /// Address of the content, valid while this lives.
    pub fn data(&self) -> NonNull<u8> {
        self.heap.segment().at(self.offset, self.capacity).expect("a buffer lies inside its segment")
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if fork::is_child() {
            return;
        }
        if self.is_abandoned {
            self.heap.abandon(self.index);
        } else {
            self.heap.let_go(self.index);
        }
    }
}
