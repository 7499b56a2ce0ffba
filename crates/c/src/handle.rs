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
//! Each kind of object has one [`Table`]. A call *pins* the object ([`Pins`]), without a lock; the pin
//! keeps the object from being dropped, not from being destroyed.
//!
//! Invariant: the object of a slot is written only by the thread that popped the slot from the free list, and taken
//! only by the thread that [`Pins`] tells to. In between, a table of objects that are used alone gives one thread
//! at a time exclusive use.

mod kind;

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::Mutex;

use deck_api::{Error, ErrorKind};
use deck_sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use deck_sync::locks::lock;
use deck_sync::{Held, Key, NotPinned, Pins, Shortcuts, WhyNot, uncancelled};

pub use kind::{Kind, Object, Unusable};

const TAG: u64 = 0xDE;
const INDEX_BITS: u32 = 25;
const GENERATION_BITS: u32 = 24;
const LOW_BITS: u32 = 3;
const KIND_SHIFT: u32 = LOW_BITS + INDEX_BITS + GENERATION_BITS;

/// The bits of a handle that have the index.
const INDEX: u64 = ((1 << INDEX_BITS) - 1) << LOW_BITS;

/// Slots of a table, at most.
const CAPACITY: u32 = 1 << INDEX_BITS;
/// A generation that is never given out: a slot that reaches it is retired.
const RETIRED: u64 = (1 << GENERATION_BITS) - 1;

/// Slots in the first chunk; each further chunk is twice as large as the one before.
const FIRST_CHUNK: u32 = 64;
const CHUNKS: usize = (INDEX_BITS - FIRST_CHUNK.ilog2() + 1) as usize;

/// Free lists of a table: threads that create and destroy at the same time meet only now and then.
const FREE_LISTS: usize = 16;

/// All objects of one kind in this process: the only table of that kind, as no two objects may have the same handle.
/// Lives for ever. `ALONE`: one thread at a time uses one of them.
pub struct Table<T: Object, const ALONE: bool = false> {
    /// Slots, as many as `chunk_length` says; NULL until they are needed, and there for ever from then on.
    chunks: [AtomicPtr<Slot<T, ALONE>>; CHUNKS],
    free: [FreeList; FREE_LISTS],
    /// The lowest index that was never used. Locked only when no slot is free.
    fresh: Mutex<u32>,
}

// SAFETY: a table hands `T` from the inserting thread to the removing one and lends `&T` to several threads at once;
// - `T: Send + Sync` allows both;
// - exclusive use is guarded by `Pins`, free lists and states are atomics.
unsafe impl<T: Object + Send + Sync, const ALONE: bool> Sync for Table<T, ALONE> {}

#[repr(align(64))]
struct Slot<T: Object, const ALONE: bool> {
    pins: Pins<ALONE>,
    /// In which the object was made. Written before it is live.
    session: AtomicU64,
    /// A shortcut leads to the slot alone.
    table: &'static Table<T, ALONE>,
    /// Where it is in its table.
    index: u32,
    /// Next slot of the free list, plus one; 0 at its end. Meaningful only while the slot is in a list.
    next_free: AtomicU32,
    object: Place<T>,
}

/// Where the object is. The pins guard it; no other process can reach it.
#[expect(clippy::disallowed_types, reason = "memory of this process alone")]
type Place<T> = std::cell::UnsafeCell<Option<T>>;

/// Top of a stack of free slots: a counter in the upper half that changes with every pop, index plus one below.
#[repr(align(64))]
struct FreeList(AtomicU64);

impl<T: Object, const ALONE: bool> Table<T, ALONE> {
    /// An empty table; it takes memory with its first object.
    pub const fn new() -> Table<T, ALONE> {
        Table {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            free: [const { FreeList(AtomicU64::new(0)) }; FREE_LISTS],
            fresh: Mutex::new(0),
        }
    }

    /// Puts `object` in, as made in `session`, and gives its handle.
    ///
    /// # Errors
    /// `NoMemory` when the table cannot grow.
    pub fn insert<O>(&'static self, session: u64, object: T) -> Result<*mut O, Error> {
        Ok(self.reserve()?.fill(session, object))
    }

    /// Makes room for an object: what is done after that need not be undone because there is none.
    ///
    /// # Errors
    /// `NoMemory` when the table cannot grow.
    pub fn reserve(&'static self) -> Result<Reserved<T, ALONE>, Error> {
        let index = match self.pop_free() {
            Some(index) => index,
            None => self.fresh_slot()?,
        };
        Ok(Reserved { table: self, index })
    }

    /// Pins the object of `handle` for a call. Several threads may hold pins at once, unless objects are used alone.
    /// Objects made in another session are refused.
    ///
    /// # Errors
    /// `Invalid` or `Closed`, as [`Unusable`] says.
    #[inline(always)]
    pub fn pin<O>(&'static self, handle: *const O, caller: Caller) -> Result<Pinned<T, ALONE>, Error> {
        let handle = handle.addr() as u64;
        match caller.shortcuts.and_then(|shortcuts| shortcuts.enter(Self::key(handle, caller.session))) {
            Some(entered) => {
                let slot: *const Slot<T, ALONE> = entered.object().cast();
                // SAFETY: a shortcut with this key was opened when the object of this handle was unpinned, with its
                // slot, which is one of this table, as there is no other (`Object`); slots are never given back.
                let slot = unsafe {
                    std::hint::assert_unchecked(!slot.is_null());
                    &*slot
                };
                Ok(Pinned { slot, held: ManuallyDrop::new(entered.into()) })
            }
            None => self.pin_counted(handle, Some(caller.session)).map(Pinned::counted),
        }
    }

    /// As [`Table::pin`], of objects made in any session.
    ///
    /// # Errors
    /// As there.
    pub fn pin_of_any_session<O>(&'static self, handle: *const O) -> Result<Pinned<T, ALONE>, Error> {
        self.pin_counted(handle.addr() as u64, None).map(Pinned::counted)
    }

    /// Counts a pin of the object of `handle`, which the caller has from then on.
    #[inline(never)]
    fn pin_counted(&'static self, handle: u64, session: Option<u64>) -> Result<&'static Slot<T, ALONE>, Error> {
        let slot = self.slot(index_of(handle)).ok_or_else(|| Self::why_not(handle, WhyNot::Never))?;
        let pin = Self::hold(slot, slot.pins.pin(handle & !INDEX)).map_err(|why| Self::why_not(handle, why))?;
        match session {
            Some(session) if session != slot.session.load(Ordering::Relaxed) => Err(Unusable::Past.error::<T>()),
            _ => Ok(ManuallyDrop::new(pin).slot),
        }
    }

    /// What a thread's shortcut to the object of `handle` is known by.
    #[inline(always)]
    fn key(handle: u64, session: u64) -> Key {
        // Eight places for each kind.
        let at = (handle >> LOW_BITS & 0x7) as usize | (T::KIND as usize) << 3;
        Key { at, word: handle, session }
    }

    /// What came of pinning the object of `slot`; if that was the last of it, takes it away.
    fn hold(slot: &'static Slot<T, ALONE>, held: Result<Held, NotPinned>) -> Result<Pinned<T, ALONE>, WhyNot> {
        held.map(|held| Pinned { slot, held: ManuallyDrop::new(held) }).map_err(|NotPinned { why, is_last }| {
            if is_last {
                slot.reclaim();
            }
            why
        })
    }

    /// What is wrong with a handle that leads to nothing that can be pinned.
    #[cold]
    fn why_not(handle: u64, why: WhyNot) -> Error {
        // One of another kind has another name, whatever is in the slot.
        let unusable = match (decode(T::KIND, handle), why) {
            (Err(wrong), _) => wrong,
            (Ok(_), WhyNot::Never) => Unusable::Garbage,
            (Ok(_), WhyNot::Ended) => Unusable::Destroyed,
            (Ok(_), WhyNot::Busy) => Unusable::Busy,
        };
        unusable.error::<T>()
    }

    /// Asks `question` of each live object until one gives an answer. Objects that a thread uses alone, or that come
    /// and go meanwhile, may be missed.
    pub fn find<R>(&'static self, mut question: impl FnMut(&T) -> Option<R>) -> Option<R> {
        let made = *lock(&self.fresh);
        let mut pins = (0..made).filter_map(|index| {
            let slot = self.slot(index)?;
            Self::hold(slot, slot.pins.pin_any()).ok()
        });
        pins.find_map(|pin| question(&pin))
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&'static Slot<T, ALONE>> {
        let (chunk, offset) = locate(index);
        // Acquire, pairs with: handle/chunk (the slots)
        let slots = self.chunks.get(chunk)?.load(Ordering::Acquire);
        // SAFETY: `chunks` has NULL or as many slots as `chunk_length` says, which `locate` stays below; they are never
        // given back.
        (!slots.is_null()).then(|| unsafe { &*slots.add(offset as usize) })
    }

    #[cold]
    fn fresh_slot(&'static self) -> Result<u32, Error> {
        let no_memory = |what| Error::new(ErrorKind::NoMemory, format!("making room for one more {what}"));
        let mut fresh = lock(&self.fresh);
        let index = *fresh;
        if index == CAPACITY {
            return Err(no_memory(T::KIND.words()).with_remedy("destroy those that are no longer needed"));
        }
        let (chunk, _) = locate(index);
        // Only the holder of the lock sets chunks.
        if self.chunks[chunk].load(Ordering::Relaxed).is_null() {
            let mut slots: Vec<Slot<T, ALONE>> = Vec::new();
            slots.try_reserve_exact(chunk_length(chunk)).map_err(|_| no_memory(T::KIND.words()))?;
            slots.extend((index..).take(chunk_length(chunk)).map(|index| Slot::new(self, index)));
            let slots = Box::leak(slots.into_boxed_slice()).as_mut_ptr();
            // Release, pairs with: handle/chunk (the slots)
            self.chunks[chunk].store(slots, Ordering::Release);
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

impl<T: Object, const ALONE: bool> Slot<T, ALONE> {
    fn new(table: &'static Table<T, ALONE>, index: u32) -> Slot<T, ALONE> {
        Slot {
            pins: Pins::new(name(T::KIND, 1)),
            session: AtomicU64::new(0),
            table,
            index,
            next_free: AtomicU32::new(0),
            object: Place::new(None),
        }
    }

    /// Takes the object away: whoever was told to.
    #[cold]
    fn reclaim(&self) {
        // SAFETY: `Pins` told this thread, and no other, to take the object, which nobody else reaches any more, or
        // again until the slot is free.
        let object = unsafe { &mut *self.object.get() };
        // Where it lies, as it may be large. If that should panic, by a bug, the slot is not used again.
        uncancelled(|| *object = None);
        if generation_of(self.pins.next()) < RETIRED {
            self.table.push_free(self.index);
        }
    }

    /// That of the object that is here, or that comes next.
    fn handle(&self) -> u64 {
        self.pins.name() | u64::from(self.index) << LOW_BITS
    }
}

/// For whom an object is pinned.
#[derive(Clone, Copy)]
pub struct Caller {
    session: u64,
    shortcuts: Option<Shortcuts>,
}

impl Caller {
    /// The calling thread, in `session`.
    #[inline(always)]
    pub fn here(session: u64) -> Caller {
        Caller { session, shortcuts: Shortcuts::of_this_thread() }
    }

    /// The session in which it calls.
    pub fn session(self) -> u64 {
        self.session
    }
}

/// Room for one object, which goes back when it is dropped.
pub struct Reserved<T: Object, const ALONE: bool = false> {
    table: &'static Table<T, ALONE>,
    index: u32,
}

impl<T: Object, const ALONE: bool> Reserved<T, ALONE> {
    /// As [`Table::insert`], with room that there is.
    pub fn fill<O>(self, session: u64, object: T) -> *mut O {
        let Reserved { table, index } = self;
        std::mem::forget(self);
        let slot = table.slot(index).expect("a slot that was given out exists");
        // SAFETY: the slot is neither live nor in a free list, so this thread alone reaches its object:
        // - it cannot be pinned until the end;
        // - popping it (or making it) gave it to this thread only; it has no object that would have to be dropped.
        unsafe { slot.object.get().write(Some(object)) };
        slot.session.store(session, Ordering::Relaxed);
        let handle = slot.handle();
        slot.pins.live();
        ptr::without_provenance_mut(handle as usize)
    }
}

impl<T: Object, const ALONE: bool> Drop for Reserved<T, ALONE> {
    fn drop(&mut self) {
        self.table.push_free(self.index);
    }
}

/// An object that stays while this exists. Dropping the last pin of a removed object drops the object.
pub type Pin<T> = Pinned<T, false>;

/// A pin that excludes all others: the object can be changed through it.
pub type Alone<T> = Pinned<T, true>;

/// See [`Pin`] and [`Alone`].
pub struct Pinned<T: Object, const ALONE: bool> {
    slot: &'static Slot<T, ALONE>,
    /// There until this is dropped.
    held: ManuallyDrop<Held>,
}

impl<T: Object, const ALONE: bool> Pinned<T, ALONE> {
    /// By a pin that was counted.
    fn counted(slot: &'static Slot<T, ALONE>) -> Pinned<T, ALONE> {
        Pinned { slot, held: ManuallyDrop::new(Held::counted()) }
    }

    /// Ends the handle: calls after this get [`Unusable::Destroyed`]. True for exactly one of those who try.
    pub fn remove(&self) -> bool {
        self.slot.pins.end(&self.held)
    }

    /// What leads here.
    fn way(&self) -> (Key, *const ()) {
        let session = self.slot.session.load(Ordering::Relaxed);
        (Table::<T, ALONE>::key(self.slot.handle(), session), ptr::from_ref(self.slot).cast())
    }

    /// Ends the handle for a caller who asked for that.
    ///
    /// # Errors
    /// `Closed` if another thread has ended it since it was pinned.
    pub fn end(&self) -> Result<(), Error> {
        if self.remove() { Ok(()) } else { Err(Unusable::Destroyed.error::<T>()) }
    }
}

impl<T: Object, const ALONE: bool> Deref for Pinned<T, ALONE> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: while pinned, the object is neither taken nor written by others; if it is used alone, this borrow and
        // `deref_mut`'s exclusive one come from the same pin.
        let object = unsafe { &*self.slot.object.get() };
        object.as_ref().expect("a pinned slot has an object")
    }
}

impl<T: Object> DerefMut for Alone<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: no other pin is given while this is held; `&mut self` excludes borrows through this one.
        let object = unsafe { &mut *self.slot.object.get() };
        object.as_mut().expect("a pinned slot has an object")
    }
}

impl<T: Object, const ALONE: bool> Drop for Pinned<T, ALONE> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: here and nowhere else.
        let held = unsafe { ManuallyDrop::take(&mut self.held) };
        if self.slot.pins.unpin(held, || self.way()) {
            self.slot.reclaim();
        }
    }
}

/// What a handle is without the index: the name of an object in its slot.
const fn name(kind: Kind, generation: u64) -> u64 {
    TAG << 56 | (kind as u64) << KIND_SHIFT | generation << (INDEX_BITS + LOW_BITS)
}

fn decode(kind: Kind, handle: u64) -> Result<(u32, u64), Unusable> {
    if handle == 0 {
        return Err(Unusable::Null);
    }
    if handle >> 56 != TAG || handle & ((1 << LOW_BITS) - 1) != 0 {
        return Err(Unusable::Garbage);
    }
    match Kind::from_number(handle >> KIND_SHIFT & 0xF) {
        None => return Err(Unusable::Garbage),
        Some(other) if other != kind => return Err(Unusable::OtherKind(other)),
        Some(_) => {}
    }
    Ok((index_of(handle), generation_of(handle)))
}

const fn index_of(handle: u64) -> u32 {
    (handle >> LOW_BITS) as u32 & (CAPACITY - 1)
}

const fn generation_of(handle: u64) -> u64 {
    handle >> (INDEX_BITS + LOW_BITS) & RETIRED
}

const fn chunk_length(chunk: usize) -> usize {
    (FIRST_CHUNK as usize) << chunk
}

/// Chunk and place in the chunk: chunk c starts at index `FIRST_CHUNK * (2^c - 1)`.
fn locate(index: u32) -> (usize, u32) {
    let shifted = index + FIRST_CHUNK;
    let chunk = shifted.ilog2() - FIRST_CHUNK.ilog2();
    (chunk as usize, shifted - (FIRST_CHUNK << chunk))
}

fn own_free_list() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % FREE_LISTS));
    // A thread that is ending has no thread-local values any more; any list will do.
    OWN.try_with(Cell::get).unwrap_or(0)
}

const _: () = assert!(usize::BITS == 64, "handles need 64-bit addresses");
const _: () = assert!(8 + 4 + GENERATION_BITS + INDEX_BITS + LOW_BITS == 64);
const _: () = assert!(Pins::<false>::STEP == 1 << (INDEX_BITS + LOW_BITS));

#[cfg(test)]
mod tests;
