//! Handles: what C programs hold instead of pointers.
//!
//! A handle looks like a pointer and is never one. It is an index into a table that only grows, with a generation:
//!
//! ```text
//!   63      56 55   52 51                28 27             3 2   0
//!  +----------+-------+--------------------+----------------+-----+
//!  |   0xDE   | kind  |     generation     |     index      | 000 |
//!  +----------+-------+--------------------+----------------+-----+
//! ```
//!
//! The first byte makes it an address that no program can own, so a stray pointer is recognised; the generation makes
//! a destroyed handle recognisable for ever: a slot that has used up its generations is retired, never wrapped round.
//!
//! Each kind of object has one [`Table`]. A call *pins* the object: one load and one compare-and-swap, no lock; the pin
//! keeps the object from being dropped, not from being destroyed. The state word of a slot:
//!
//! ```text
//!   63        40      34        33      32   31     0
//!  +------------+-- -+---------+-------+------+------+     insert      remove               last pin goes
//!  | generation |    | REMOVED | ALONE | LIVE | pins |     free -----> LIVE -----> LIVE REMOVED -----------> free
//!  +------------+-- -+---------+-------+------+------+     g           g           g, pins > 0              g + 1
//! ```
//!
//! Invariant: the object of a slot is written only by the thread that popped the slot from the free list, and taken
//! only by the thread whose unpin made `pins` zero after `REMOVED` was set. In between, `ALONE` gives one thread
//! at a time exclusive use.

mod kind;

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::{Mutex, OnceLock};

use deck_api::{Error, ErrorKind};
use deck_sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use deck_sync::locks::lock;

pub use kind::{Kind, Unusable};

const TAG: u64 = 0xDE;
const INDEX_BITS: u32 = 25;
const GENERATION_BITS: u32 = 24;
const LOW_BITS: u32 = 3;

/// Slots of a table, at most.
const CAPACITY: u32 = 1 << INDEX_BITS;
/// A generation that is never given out: a slot that reaches it is retired.
const RETIRED: u64 = (1 << GENERATION_BITS) - 1;

const PINS: u64 = u32::MAX as u64;
const LIVE: u64 = 1 << 32;
const ALONE: u64 = 1 << 33;
const REMOVED: u64 = 1 << 34;
const GENERATION_SHIFT: u32 = 64 - GENERATION_BITS;

/// Slots in the first chunk; each further chunk is twice as large as the one before.
const FIRST_CHUNK: u32 = 64;
const CHUNKS: usize = (INDEX_BITS - FIRST_CHUNK.ilog2() + 1) as usize;

/// Free lists of a table: threads that create and destroy at the same time meet only now and then.
const FREE_LISTS: usize = 16;

/// All objects of one kind in this process.
pub struct Table<T> {
    kind: Kind,
    chunks: [OnceLock<Box<[Slot<T>]>>; CHUNKS],
    free: [FreeList; FREE_LISTS],
    /// The lowest index that was never used. Locked only when no slot is free.
    fresh: Mutex<u32>,
}

// SAFETY: a table hands `T` from the inserting thread to the removing one and lends `&T` to several threads at once;
// - `T: Send + Sync` allows both;
// - exclusive use is guarded by ALONE (see `Alone`), free lists and states are atomics.
unsafe impl<T: Send + Sync> Sync for Table<T> {}

#[repr(align(64))]
struct Slot<T> {
    state: AtomicU64,
    /// Next slot of the free list, plus one; 0 at its end. Meaningful only while the slot is in a list.
    next_free: AtomicU32,
    object: Place<T>,
}

/// Where the object is. The state word guards it; no other process can reach it.
#[expect(clippy::disallowed_types, reason = "memory of this process alone")]
type Place<T> = std::cell::UnsafeCell<Option<Made<T>>>;

struct Made<T> {
    session: u64,
    object: T,
}

/// Top of a stack of free slots: a counter in the upper half that changes with every pop, index plus one below.
#[repr(align(64))]
struct FreeList(AtomicU64);

impl<T> Table<T> {
    /// An empty table; it takes memory with its first object.
    pub const fn new(kind: Kind) -> Table<T> {
        Table {
            kind,
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: [const { FreeList(AtomicU64::new(0)) }; FREE_LISTS],
            fresh: Mutex::new(0),
        }
    }

    /// What it is a table of.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Puts `object` in, as made in `session`, and gives its handle.
    ///
    /// # Errors
    /// `NoMemory` when the table cannot grow.
    pub fn insert<O>(&self, session: u64, object: T) -> Result<*mut O, Error> {
        Ok(self.reserve()?.fill(session, object))
    }

    /// Makes room for an object: what is done after that need not be undone because there is none.
    ///
    /// # Errors
    /// `NoMemory` when the table cannot grow.
    pub fn reserve(&self) -> Result<Reserved<'_, T>, Error> {
        let index = match self.pop_free() {
            Some(index) => index,
            None => self.fresh_slot()?,
        };
        Ok(Reserved { table: self, index })
    }

    /// Pins the object of `handle` for a call; several threads may hold pins at once. With a `session`, objects made in
    /// another one are refused.
    pub fn pin<O>(&self, handle: *const O, session: Option<u64>) -> Result<Pin<'_, T>, Unusable> {
        let (index, generation) = decode(self.kind, handle.addr() as u64)?;
        let pin = self.pin_slot(index, Some(generation), false)?;
        pin.of_session(session)
    }

    /// Pins the object of `handle` so that no other pin exists until this one goes.
    pub fn pin_alone<O>(&self, handle: *const O, session: Option<u64>) -> Result<Alone<'_, T>, Unusable> {
        let (index, generation) = decode(self.kind, handle.addr() as u64)?;
        let pin = self.pin_slot(index, Some(generation), true)?;
        pin.of_session(session).map(Alone)
    }

    /// Asks `question` of each live object until one gives an answer. Objects that a thread uses alone, or that come
    /// and go meanwhile, may be missed.
    pub fn find<R>(&self, mut question: impl FnMut(&T) -> Option<R>) -> Option<R> {
        let made = *lock(&self.fresh);
        (0..made).filter_map(|index| self.pin_slot(index, None, false).ok()).find_map(|pin| question(&pin))
    }

    fn pin_slot(&self, index: u32, generation: Option<u64>, alone: bool) -> Result<Pin<'_, T>, Unusable> {
        let slot = self.slot(index).ok_or(Unusable::Garbage)?;
        let mut state = slot.state.load(Ordering::Relaxed);
        loop {
            let now = state >> GENERATION_SHIFT;
            let wanted = generation.unwrap_or(now);
            if wanted < now {
                return Err(Unusable::Destroyed);
            }
            // A free slot carries the generation that its next object will get.
            if wanted > now || state & LIVE == 0 {
                return Err(Unusable::Garbage);
            }
            if state & REMOVED != 0 {
                return Err(Unusable::Destroyed);
            }
            if state & ALONE != 0 || (alone && state & PINS != 0) {
                return Err(Unusable::Busy);
            }
            let pinned = (state + 1) | if alone { ALONE } else { 0 };
            // Acquire, pairs with: handle/insert (the object)
            // and, for what the last exclusive user wrote, pairs with: handle/unpin
            match slot.state.compare_exchange_weak(state, pinned, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(Pin { table: self, slot, index, alone }),
                Err(changed) => state = changed,
            }
        }
    }

    #[cold]
    fn reclaim(&self, slot: &Slot<T>, index: u32) {
        // Acquire, pairs with: handle/unpin (of every other thread that had pinned it)
        let generation = (slot.state.load(Ordering::Acquire) >> GENERATION_SHIFT) + 1;
        // SAFETY: REMOVED is set, so no new pin can appear, and the caller's was the last: nobody else reaches it.
        let object = unsafe { (*slot.object.get()).take() };
        slot.state.store(generation << GENERATION_SHIFT, Ordering::Relaxed);
        if generation < RETIRED {
            self.push_free(index);
        }
        // Last, because it may take long or, by a bug, panic: the slot is in order by now.
        drop(object);
    }

    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        let (chunk, offset) = locate(index);
        self.chunks.get(chunk)?.get()?.get(offset)
    }

    #[cold]
    fn fresh_slot(&self) -> Result<u32, Error> {
        let no_memory = |what| Error::new(ErrorKind::NoMemory, format!("making room for one more {what}"));
        let mut fresh = lock(&self.fresh);
        let index = *fresh;
        if index == CAPACITY {
            return Err(no_memory(self.kind.words()).with_remedy("destroy those that are no longer needed"));
        }
        let (chunk, _) = locate(index);
        if self.chunks[chunk].get().is_none() {
            let length = (FIRST_CHUNK as usize) << chunk;
            let mut slots = Vec::new();
            slots.try_reserve_exact(length).map_err(|_| no_memory(self.kind.words()))?;
            slots.extend((0..length).map(|_| Slot::new()));
            // Only the holder of the lock sets chunks.
            let _ = self.chunks[chunk].set(slots.into_boxed_slice());
        }
        *fresh += 1;
        Ok(index)
    }

    fn pop_free(&self) -> Option<u32> {
        let own = own_free_list();
        (0..FREE_LISTS).find_map(|step| {
            let list = &self.free[(own + step) % FREE_LISTS].0;
            // Acquire, pairs with: handle/free (also on failure: the index read next comes from another top)
            let mut top = list.load(Ordering::Acquire);
            loop {
                let index = (top as u32).checked_sub(1)?;
                let next = self.slot(index)?.next_free.load(Ordering::Relaxed);
                // The counter moves so that a slot which was popped and pushed again meanwhile makes this fail.
                let below = ((top >> 32).wrapping_add(1) << 32) | u64::from(next);
                // Acquire, pairs with: handle/free
                match list.compare_exchange_weak(top, below, Ordering::Acquire, Ordering::Acquire) {
                    Ok(_) => return Some(index),
                    Err(changed) => top = changed,
                }
            }
        })
    }

    fn push_free(&self, index: u32) {
        let slot = self.slot(index).expect("a slot that is freed exists");
        let list = &self.free[own_free_list()].0;
        let mut top = list.load(Ordering::Relaxed);
        loop {
            slot.next_free.store(top as u32, Ordering::Relaxed);
            let with_it = top >> 32 << 32 | u64::from(index + 1);
            // Release, pairs with: handle/free (next_free, the new generation and the emptied object)
            match list.compare_exchange_weak(top, with_it, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(changed) => top = changed,
            }
        }
    }
}

impl<T> Slot<T> {
    fn new() -> Slot<T> {
        Slot { state: AtomicU64::new(1 << GENERATION_SHIFT), next_free: AtomicU32::new(0), object: Place::new(None) }
    }
}

/// Room for one object, which goes back when it is dropped.
pub struct Reserved<'t, T> {
    table: &'t Table<T>,
    index: u32,
}

impl<T> Reserved<'_, T> {
    /// As [`Table::insert`], with room that there is.
    pub fn fill<O>(self, session: u64, object: T) -> *mut O {
        let Reserved { table, index } = self;
        std::mem::forget(self);
        let slot = table.slot(index).expect("a slot that was given out exists");
        let generation = slot.state.load(Ordering::Relaxed) >> GENERATION_SHIFT;
        // SAFETY: the slot is neither LIVE nor in a free list, so this thread alone reaches its object:
        // - pins need LIVE, which is off until the end;
        // - popping it (or making it) gave it to this thread only.
        unsafe { *slot.object.get() = Some(Made { session, object }) };
        // Release, pairs with: handle/insert (the object)
        slot.state.store(generation << GENERATION_SHIFT | LIVE, Ordering::Release);
        ptr::without_provenance_mut(encode(table.kind, generation, index) as usize)
    }
}

impl<T> Drop for Reserved<'_, T> {
    fn drop(&mut self) {
        self.table.push_free(self.index);
    }
}

/// An object that stays while this exists. Dropping the last pin of a removed object drops the object.
pub struct Pin<'t, T> {
    table: &'t Table<T>,
    slot: &'t Slot<T>,
    index: u32,
    alone: bool,
}

impl<T> Pin<'_, T> {
    /// Ends the handle: calls after this get [`Unusable::Destroyed`]. True for exactly one of those who try.
    pub fn remove(&self) -> bool {
        // AcqRel, pairs with: handle/unpin (the last of them takes the object)
        self.slot.state.fetch_or(REMOVED, Ordering::AcqRel) & REMOVED == 0
    }

    /// Ends the handle for a caller who asked for that.
    ///
    /// # Errors
    /// `Closed` if another thread has ended it since it was pinned.
    pub fn end(&self) -> Result<(), Error> {
        if self.remove() { Ok(()) } else { Err(Unusable::Destroyed.error(self.table.kind)) }
    }

    fn made(&self) -> &Made<T> {
        // SAFETY: while pinned, the object is neither taken (that needs pins to be zero) nor written (that needs ALONE,
        // which excludes every pin but one: then this borrow and `Alone`'s exclusive one come from the same `Alone`).
        let made = unsafe { &*self.slot.object.get() };
        made.as_ref().expect("a pinned slot has an object")
    }

    fn of_session(self, session: Option<u64>) -> Result<Self, Unusable> {
        match session {
            Some(session) if session != self.made().session => Err(Unusable::Past),
            _ => Ok(self),
        }
    }
}

impl<T> Deref for Pin<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.made().object
    }
}

impl<T> Drop for Pin<'_, T> {
    fn drop(&mut self) {
        let share = if self.alone { 1 + ALONE } else { 1 };
        // Release, pairs with: handle/unpin (what this thread did with the object)
        let before = self.slot.state.fetch_sub(share, Ordering::Release);
        if before & PINS == 1 && before & REMOVED != 0 {
            self.table.reclaim(self.slot, self.index);
        }
    }
}

/// A pin that excludes all others: the object can be changed through it.
pub struct Alone<'t, T>(Pin<'t, T>);

impl<T> Alone<'_, T> {
    /// See [`Pin::end`].
    pub fn end(&self) -> Result<(), Error> {
        self.0.end()
    }
}

impl<T> Deref for Alone<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Alone<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this pin was taken with ALONE while there was no other, and none is given while ALONE is set; `&mut
        // self` excludes borrows through this one.
        let made = unsafe { &mut *self.0.slot.object.get() };
        &mut made.as_mut().expect("a pinned slot has an object").object
    }
}

fn encode(kind: Kind, generation: u64, index: u32) -> u64 {
    TAG << 56 | (kind as u64) << 52 | generation << (INDEX_BITS + LOW_BITS) | u64::from(index) << LOW_BITS
}

fn decode(kind: Kind, handle: u64) -> Result<(u32, u64), Unusable> {
    if handle == 0 {
        return Err(Unusable::Null);
    }
    if handle >> 56 != TAG || handle & ((1 << LOW_BITS) - 1) != 0 {
        return Err(Unusable::Garbage);
    }
    match Kind::from_number(handle >> 52 & 0xF) {
        None => return Err(Unusable::Garbage),
        Some(other) if other != kind => return Err(Unusable::OtherKind(other)),
        Some(_) => {}
    }
    let index = (handle >> LOW_BITS) as u32 & (CAPACITY - 1);
    let generation = handle >> (INDEX_BITS + LOW_BITS) & RETIRED;
    Ok((index, generation))
}

/// Chunk and place in the chunk: chunk c starts at index `FIRST_CHUNK * (2^c - 1)`.
fn locate(index: u32) -> (usize, usize) {
    let shifted = index + FIRST_CHUNK;
    let chunk = shifted.ilog2() - FIRST_CHUNK.ilog2();
    (chunk as usize, (shifted - (FIRST_CHUNK << chunk)) as usize)
}

fn own_free_list() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % FREE_LISTS));
    // A thread that is ending has no thread-local values any more; any list will do.
    OWN.try_with(Cell::get).unwrap_or(0)
}

const _: () = assert!(usize::BITS == 64, "handles need 64-bit addresses");
const _: () = assert!(8 + 4 + GENERATION_BITS + INDEX_BITS + LOW_BITS == 64);

#[cfg(test)]
mod tests;
