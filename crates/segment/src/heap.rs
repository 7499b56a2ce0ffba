//! A node's heap: message buffers and regions for rings, inside one segment that grows as it is used.
//!
//! Only the owner allocates and frees, with private tables; other nodes map the segment and hold buffers
//! ([`crate::holders`]). A buffer whose owner has let go may still be held elsewhere: it is *pending* and looked at
//! again whenever a buffer of its size is wanted, so a release by another node needs no message.

mod finding;
mod growing;
mod making;
mod receiving;
mod regions;
mod table;

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};

use deck_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use deck_sync::locks::lock;
use deck_sync::{Error, ErrorKind, NodeId, Result, fork};

use crate::blocks::Blocks;
use crate::buffer::Buffer;
use crate::held::{Held, Unheld};
use crate::holders::{self, Holder};
use crate::layout::{self, DATA, LINE_WORDS, header, holder};
use crate::rest::Rest;
use crate::{Fetching, MemoryFacts, Numa, Seat, Segment, Words, fetch_back, limits};

use table::Table;

pub use making::{HeapOptions, default_bytes};

/// A node's segment with its buffers, as its owner or another node sees it.
pub struct HeapMemory {
    segment: Arc<Segment>,
    lines: Words,
    owner: NodeId,
    seat: Seat,
    /// Whose bit this process sets; `None` in the owner.
    my_seat: Option<Seat>,
    /// This node's count of handles for every buffer.
    counts: Table<AtomicU32>,
    /// Buffers that this node holds at least once.
    held: Held,
    /// The owner has left its job: nothing is handed out any more, so what others still hold stays as it is.
    is_closed: AtomicBool,
    /// Lets go of buffers that are needed no longer; asked when memory runs out.
    reserve: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Who fetches what lies here.
    fetching: Fetching,
    /// How long buffers of this heap rest.
    rest: Rest,
    /// Only in the owner.
    own: Option<Own>,
}

/// What only the owner of a heap knows.
#[derive(Debug)]
struct Own {
    blocks: Mutex<Blocks>,
    /// Told when a range that was on its way from the system or back has come.
    has_come: Condvar,
    /// For each buffer its offset, and its capacity with bit 0 set while it is in use: what a name that comes back from
    /// another node is checked against.
    places: Table<(AtomicU64, AtomicU64)>,
    numa: Arc<Numa>,
}

impl Own {
    /// Offset and capacity of buffer `index`, if it is in use.
    #[inline]
    fn place_of(&self, index: u32) -> Option<(u64, u64)> {
        let (offset, capacity) = &self.places[index as usize];
        // Acquire: pairs with: heap/place. In use comes before where.
        let capacity = capacity.load(Ordering::Acquire);
        (capacity & 1 == 1).then(|| (offset.load(Ordering::Relaxed), capacity & !1))
    }
}

/// How much memory a heap uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapUse {
    /// Bytes really allocated in the segment.
    pub allocated_bytes: usize,
    /// Of these, bytes in buffers and regions that somebody holds.
    pub held_bytes: usize,
    /// Buffers that somebody holds.
    pub buffers: usize,
}

impl HeapMemory {
    /// The node whose heap this is.
    pub fn owner(&self) -> NodeId {
        self.owner
    }

    /// True in the owner.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// The seat of that node.
    pub fn seat(&self) -> Seat {
        self.seat
    }

    /// Whether this is the view of the node on this seat: what it holds counts as held by that node.
    pub fn is_seen_from(&self, seat: Seat) -> bool {
        self.my_seat.unwrap_or(self.seat) == seat
    }

    /// The memory.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Who fetches its buffers, as this node has it.
    #[inline]
    pub fn fetching(&self) -> Fetching {
        self.fetching
    }

    /// How long buffers rest before they are used again; not at all in another node's heap.
    pub fn rest(&self) -> Rest {
        self.rest
    }

    pub(crate) fn lines(&self) -> &Words {
        &self.lines
    }

    /// Hands out nothing from now on.
    pub fn close(&self) {
        // Release: pairs with: heap/closed.
        self.is_closed.store(true, Ordering::Release);
    }

    /// How many buffers of this heap this node holds.
    pub fn held(&self) -> u32 {
        self.held.count()
    }

    /// True if this node holds buffers of this heap: then `watcher` is told once when it has let go of the last one.
    pub fn watch_held(&self, watcher: &Weak<dyn Unheld>) -> bool {
        self.held.watch(watcher)
    }

    /// Fails if so much can never be had; `remedy` is what to do then.
    fn check_size(&self, bytes: usize, remedy: &'static str) -> Result<()> {
        // Acquire: pairs with: heap/closed.
        if self.is_closed.load(Ordering::Acquire) {
            let what = "a buffer of a node that has left its job";
            return Err(Error::new(ErrorKind::NotInitialized, what).with_remedy("join again"));
        }
        let size = self.segment.bytes() - DATA;
        if bytes > size {
            let what = format!("{bytes} bytes are more than this node's heap of {}", limits::size(size as u64));
            return Err(Error::new(ErrorKind::NoMemory, what).with_remedy(remedy));
        }
        Ok(())
    }

    fn blocks(&self) -> Result<(&Own, MutexGuard<'_, Blocks>)> {
        let own =
            self.own.as_ref().ok_or_else(|| Error::new(ErrorKind::Invalid, "only its owner allocates in a heap"))?;
        Ok((own, lock(&own.blocks)))
    }

    fn holder(&self, index: u32) -> Holder<'_> {
        Holder {
            count: &self.counts[index as usize],
            line: &self.lines,
            first: index as usize * LINE_WORDS,
            seat: self.my_seat,
        }
    }

    /// A buffer for at least `bytes` bytes, not shared, its content undefined. Only in the owner. Waits for nobody but
    /// the kernel, be it at work for this thread or, where there is no other memory left, for others.
    ///
    /// Budget, if a buffer of this size was used before: the lock of the heap, two lines of this node's tables, the
    /// buffer's line in the segment; five locked operations; no allocation, no system call.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`] with what was wanted and what to do; [`ErrorKind::NotInitialized`] in a forked child,
    /// whose parent's heap it is.
    pub fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Buffer> {
        fork::check()?;
        self.check_size(bytes, "send it in parts, or set DECK_HEAP to more")?;
        self.or_with_reserve(|| self.try_allocate(bytes))
    }

    /// What `allocate` makes, at the second try if there is no memory at first.
    fn or_with_reserve<T>(&self, allocate: impl Fn() -> Result<T>) -> Result<T> {
        match (allocate(), self.reserve.get()) {
            (Err(error), Some(reserve)) if error.kind() == ErrorKind::NoMemory => {
                reserve();
                allocate()
            }
            (result, _) => result,
        }
    }

    /// Has `reserve` called when memory runs out, before an allocation fails: it may let go of buffers of this heap.
    pub fn set_reserve(&self, reserve: Box<dyn Fn() + Send + Sync>) {
        let _ = self.reserve.set(reserve);
    }

    fn try_allocate(self: &Arc<Self>, bytes: usize) -> Result<Buffer> {
        let bytes = bytes.max(1);
        let back = fetch_back::back(self, bytes);
        self.take_growing(|own, blocks, supply| {
            let (index, offset, capacity) = blocks.take(bytes, own.numa.here(), back, supply)?;
            if back.is_some() {
                fetch_back::was_asked_for(back == Some(index));
            }
            let first = index as usize * LINE_WORDS;
            self.lines.get(first + holder::SHARES).store(1, Ordering::Relaxed);
            self.tell_readers(index, layout::readers::NOT_TOLD);
            self.held.add();
            // Release: pairs with: holders/settle. Before the place: whoever finds that finds a count to add to.
            self.counts[index as usize].store(1, Ordering::Release);
            let place = &own.places[index as usize];
            place.0.store(offset as u64, Ordering::Relaxed);
            // Release: pairs with: heap/place. The offset comes first.
            place.1.store(capacity as u64 | 1, Ordering::Release);
            Ok(Buffer::counted(self.clone(), index, offset, capacity, false))
        })
    }

    /// True if a pending buffer is held by nobody; it then stays claimed, and is no longer in use.
    fn claim_free(&self, own: &Own, index: u32) -> bool {
        let first = index as usize * LINE_WORDS;
        // A buffer of ours that is on its way back to us has a bit set until we hold it, so the claim cannot free it.
        let is_free = holders::claim(&self.counts[index as usize], || holders::nobody_else(&self.lines, first));
        if is_free {
            own.places[index as usize].1.store(0, Ordering::Relaxed);
        }
        is_free
    }

    fn readers_word(&self, index: u32) -> &AtomicU64 {
        self.lines.get(index as usize * LINE_WORDS + holder::READERS)
    }

    /// Who reads the content of a buffer, one of [`layout::readers`].
    pub(crate) fn readers(&self, index: u32) -> u64 {
        // Relaxed: a hint.
        self.readers_word(index).load(Ordering::Relaxed)
    }

    pub(crate) fn tell_readers(&self, index: u32, readers: u64) {
        // Relaxed: a hint.
        self.readers_word(index).store(readers, Ordering::Relaxed);
    }

    /// Its reader has fetched it; false if that is nothing new, or there are several by now.
    pub(crate) fn tell_fetched(&self, index: u32) -> bool {
        // Relaxed: a hint.
        let (before, now) = (layout::readers::NOT_TOLD, layout::readers::FETCHED);
        self.readers(index) == before
            && self.readers_word(index).compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Fails if this node has nearly as many handles of a buffer as can be counted.
    #[inline]
    pub(crate) fn check_handles(&self, index: u32) -> Result<()> {
        // Relaxed: whoever comes a little too late meets no limit yet.
        if holders::are_nearly_too_many(self.counts[index as usize].load(Ordering::Relaxed)) {
            return Err(handles_leak());
        }
        Ok(())
    }

    /// One handle more of a buffer of which the caller has one.
    pub(crate) fn hold_again(&self, index: u32) {
        self.holder(index).hold_again();
    }

    /// One handle less.
    ///
    /// Budget in a node that is not the owner: the buffer's line and one of this node's tables; three locked
    /// operations; no lock, no allocation, no system call. The owner's last handle takes the lock of the heap, too.
    pub(crate) fn let_go(&self, index: u32) {
        if !self.holder(index).let_go(|| self.held.remove()) {
            return;
        }
        self.held.tell();
        if self.own.is_none() {
            return;
        }
        let Ok((own, mut blocks)) = self.blocks() else { return };
        // Two threads can both have let go of a last handle, one after the other: only one of them frees.
        if own.places[index as usize].1.load(Ordering::Relaxed) & 1 == 0 {
            return;
        }
        if self.claim_free(own, index) {
            blocks.give(index);
        } else if self.counts[index as usize].load(Ordering::Relaxed) == 0 {
            // Otherwise it came back to us meanwhile, or lives anew: whoever holds it now comes here in turn.
            blocks.await_others(index);
        }
        drop(self.release_leaving(own, blocks));
    }

    /// One handle less, leaving the node's bit as it is, also when the other handles go: the node leaves, and the bit
    /// goes when it is reclaimed.
    pub(crate) fn abandon(&self, index: u32) {
        if self.holder(index).abandon(|| self.held.remove()) {
            self.held.tell();
        }
    }

    /// Takes away what a node that died or left held here. Only in the owner, after every live node has taken over what
    /// that node had posted to it.
    pub fn forget_seat(&self, seat: Seat) {
        let Ok((_, blocks)) = self.blocks() else { return };
        for index in 0..blocks.count() {
            holders::clear_bit(&self.lines, index as usize * LINE_WORDS, seat);
        }
    }

    /// What its memory is like, as far as it has grown.
    pub fn facts(&self) -> MemoryFacts {
        let word = Words::in_segment(&self.segment, 0, LINE_WORDS).map_or(0, |words| {
            // Relaxed: for people.
            words.get(header::MEMORY).load(Ordering::Relaxed)
        });
        MemoryFacts::from_word(word)
    }

    /// How much memory the heap uses. Only in the owner; zero elsewhere. Looks at every buffer that the owner has let
    /// go of: not for hot paths.
    pub fn usage(&self) -> HeapUse {
        let Ok((own, mut blocks)) = self.blocks() else { return HeapUse::default() };
        blocks.look_at_pending(&|index| self.claim_free(own, index));
        let usage = blocks.usage();
        drop(self.release_leaving(own, blocks));
        usage
    }
}

#[cold]
fn handles_leak() -> Error {
    Error::new(ErrorKind::NoMemory, "this node has too many handles of a message's buffer")
        .with_remedy("drop messages instead of forgetting them, and keep no more of them than are used")
}

impl fmt::Debug for HeapMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapMemory").field("owner", &self.owner).field("seat", &self.seat).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
