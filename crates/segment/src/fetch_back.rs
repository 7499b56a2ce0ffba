//! What a thread does while it waits for an answer: it fetches back the buffer that it will write next.
//!
//! The lines of a buffer that was posted are where they were read. To write them anew, each has to come from there, 3
//! to 10 ns a line, which is most of what it takes to write some KiB; and the thread that waited for the answer had
//! nothing to do. So it asks for these lines before the answer comes, as soon as nobody else shares the buffer. It asks
//! by hints to the processor, which change nothing and cannot fail: if it asks for the wrong lines, they travel in
//! vain. `docs/design/070-buffers-rest.md` has the measurements.
//!
//! Each thread notes one buffer, by what it did last: one that it let go of or put aside, or else one that it has
//! written anew and posted. All are used again soon: at once where it was written anew, and after one other where a
//! message was dropped while it was on its way, as its buffer is free only with the next post, or where a message has
//! two buffers in turn. [`Fetching`] tells which sizes that is for.
//!
//! Where writers fetch, whoever makes a new message for each post has two buffers in turn as well. Of two that a thread
//! has let go of the earlier one is fetched, as its reader is through with it, and the heap hands it out before all
//! others ([`back`]).

use std::cell::Cell;

use deck_sync::atomic::Ordering;

use crate::layout::{LINE, LINE_WORDS, holder, readers};
use crate::{Fetching, HeapMemory, blocks, prefetch};

/// Lines that are asked for between two looks: about as many as come meanwhile.
const LINES: usize = 8;
/// Looks between two questions whether a buffer is free.
const LOOKS_PER_QUESTION: u32 = 8;
/// The most looks before the first question.
const LOOKS_MAX: u32 = 4096;
/// These get fewer by one in so many with each wait in which the first question was not too early, or did not come.
const FEWER: u32 = 64;
/// So many waits in a row may be over before anything was fetched: then the buffer is not worth a question any more.
const VAIN_WAITS: u32 = 16;

/// Which buffer of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub index: u32,
    pub offset: usize,
    pub capacity: usize,
}

/// When it may be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Posted: when its shares are no more than these, its own handle's.
    Posted(u64),
    /// Put aside by a message that uses it in turn with another one: as well, and it may be so at once.
    PutAside(u64),
    /// Let go of: when it has no shares.
    LetGo,
    /// It had none.
    Free,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Noted {
    place: Place,
    when: When,
    /// Address of its heap: not to be followed, but to be told from others.
    heap: usize,
    /// Waits that were over before anything was fetched.
    vain_waits: u32,
}

/// How far a wait has come.
#[derive(Clone, Copy)]
enum Stage {
    /// Others may share the buffer: they did at the last question, if that is so, and the next one comes with this
    /// look.
    Asks { next: u32, was_in_vain: bool },
    /// From this byte on.
    Fetches(usize),
}

thread_local! {
    static IS_NOTED: Cell<bool> = const { Cell::new(false) };
    static NOTED: Cell<Option<Noted>> = const { Cell::new(None) };
    /// What was let go of before that.
    static BEFORE: Cell<Option<Noted>> = const { Cell::new(None) };
    /// What was put aside, or let go of where writers fetch, and is on its way back, or there.
    static BACK: Cell<Option<Noted>> = const { Cell::new(None) };
    /// It was asked for, and could not be had.
    static WAS_MISSED: Cell<bool> = const { Cell::new(false) };
    /// Looks of a wait before the first question. It takes the buffer's line away from whoever is about to let go, and
    /// so is not to be early.
    static LOOKS: Cell<u32> = const { Cell::new(LOOKS_PER_QUESTION) };
}

impl Noted {
    fn is(&self, heap: &HeapMemory, place: Place) -> bool {
        self.place == place && self.is_of(heap)
    }

    fn is_of(&self, heap: &HeapMemory) -> bool {
        self.heap == address(heap)
    }

    /// True if a new message of so many bytes may take it.
    fn is_for_new(&self, heap: &HeapMemory, bytes: usize) -> bool {
        self.is_let_go() && self.is_of(heap) && blocks::is_fit(self.place.capacity, bytes)
    }

    /// True if another buffer will be written first: this one rests, as its readers have copies of it.
    fn rests(&self, heap: &HeapMemory) -> bool {
        heap.fetching() == Fetching::ByReaders
            && heap.rest().is_for(self.place.capacity)
            && heap.readers(self.place.index) != readers::FETCHED
    }

    fn is_let_go(&self) -> bool {
        matches!(self.when, When::LetGo | When::Free)
    }

    /// True if it is handed out, or takes its turn, once it is back.
    fn is_awaited(&self, heap: &HeapMemory) -> bool {
        match self.when {
            When::PutAside(_) => true,
            When::Posted(_) => false,
            When::LetGo | When::Free => heap.fetching() == Fetching::ByWriters,
        }
    }

    /// True if nobody shares the buffer but who has noted it, and nobody has taken it meanwhile.
    #[inline]
    fn is_free(&self, heap: &HeapMemory) -> bool {
        let own_shares = match self.when {
            When::Posted(own_shares) | When::PutAside(own_shares) => own_shares,
            When::LetGo | When::Free => 0,
        };
        // Relaxed: a hint.
        heap.lines().get(self.place.index as usize * LINE_WORDS + holder::SHARES).load(Ordering::Relaxed) == own_shares
    }
}

fn address(heap: &HeapMemory) -> usize {
    std::ptr::from_ref(heap).addr()
}

fn set(noted: Option<Noted>) {
    NOTED.set(noted);
    IS_NOTED.set(noted.is_some());
}

fn note(heap: &HeapMemory, place: Place, when: When) {
    set(Some(Noted { place, when, heap: address(heap), vain_waits: 0 }));
}

fn is_for(heap: &HeapMemory, place: Place) -> bool {
    !cfg!(any(loom, miri)) && heap.is_own() && heap.fetching().writers_fetch(place.capacity)
}

/// The calling thread has posted a buffer that it had written anew; its handle has `own_shares`. What is posted as it
/// came is not written, and costs nothing here.
#[inline(never)]
pub(crate) fn posted(heap: &HeapMemory, place: Place, own_shares: u64) {
    // What was let go of or put aside before is used first.
    let comes_first =
        |other: Noted| !matches!(other.when, When::Posted(_)) && other.place != place && other.is_of(heap);
    if is_for(heap, place) && !NOTED.get().is_some_and(comes_first) {
        note(heap, place, When::Posted(own_shares));
    }
}

/// The calling thread has posted the same content again: how many shares are its own is no more what was noted.
#[cold]
pub(crate) fn posted_again(heap: &HeapMemory, place: Place) {
    if NOTED.get().is_some_and(|noted| noted.is(heap, place)) {
        set(None);
    }
}

/// The calling thread has let go of a buffer that was posted. Whether nobody else shares it.
#[inline(never)]
pub(crate) fn let_go(heap: &HeapMemory, place: Place, is_free: bool) {
    if is_for(heap, place) {
        let is_before =
            |other: &Noted| other.is_let_go() && other.is_awaited(heap) && other.is_of(heap) && other.place != place;
        BEFORE.set(NOTED.get().filter(is_before));
        note(heap, place, if is_free { When::Free } else { When::LetGo });
    }
}

/// The calling thread has put a buffer aside, to be written after another one; its handle has `own_shares`.
pub(crate) fn put_aside(heap: &HeapMemory, place: Place, own_shares: u64) {
    if is_for(heap, place) {
        BEFORE.set(None);
        note(heap, place, When::PutAside(own_shares));
    }
}

/// Whether the calling thread has fetched back what was put aside. It is not told twice.
pub(crate) fn came_back(heap: &HeapMemory, place: Place) -> bool {
    let came = BACK.get().is_some_and(|back| back.is(heap, place));
    if came {
        set_back(None);
    }
    came
}

/// Which buffer the calling thread has let go of and fetched back: the best one to write for whoever wants `bytes`
/// bytes, unless somebody has taken it meanwhile.
pub(crate) fn back(heap: &HeapMemory, bytes: usize) -> Option<u32> {
    BACK.get().filter(|back| back.is_for_new(heap, bytes)).map(|back| back.place.index)
}

/// What [`back`] told was asked for. If it could not be had it is asked for once more: the sender keeps what it has
/// posted until it posts again.
pub(crate) fn was_asked_for(was_had: bool) {
    if was_had || WAS_MISSED.get() {
        set_back(None);
    } else {
        WAS_MISSED.set(true);
    }
}

fn set_back(noted: Option<Noted>) {
    BACK.set(noted);
    WAS_MISSED.set(false);
}

/// What a wait of the calling thread fetches back.
pub struct FetchBack {
    noted: Noted,
    /// Another one has been used since: its reader has mostly been through before what is now on its way was written.
    is_earlier: bool,
    /// Until all of it is fetched.
    is_on: bool,
    looks: u32,
    stage: Stage,
}

impl FetchBack {
    /// Whether the calling thread has noted anything.
    #[inline]
    pub fn may_be_due() -> bool {
        IS_NOTED.get()
    }

    /// What the calling thread, which begins to wait, has noted of `heap`.
    pub fn due(heap: &HeapMemory) -> Option<FetchBack> {
        let before = BEFORE.get();
        let noted = before.or_else(|| NOTED.get())?;
        if !noted.is_of(heap) {
            // Of another node of this process, or of one that has left.
            BEFORE.set(None);
            set(None);
            return None;
        }
        if noted.is_let_go() && BACK.get().is_some_and(|back| back.is_for_new(heap, noted.place.capacity)) {
            // The one that is back is written first.
            return None;
        }
        let is_earlier = before.is_some() || matches!(noted.when, When::PutAside(_));
        Some(FetchBack { noted, is_earlier, is_on: true, looks: 0, stage: Stage::Asks { next: 0, was_in_vain: false } })
    }

    /// Goes on, between two looks of the wait. True if that took about as long as looks away from a line.
    #[inline]
    pub fn go_on(&mut self, heap: &HeapMemory) -> bool {
        self.is_on && self.step(heap)
    }

    #[inline(never)]
    fn step(&mut self, heap: &HeapMemory) -> bool {
        self.looks += 1;
        let from = match self.stage {
            Stage::Fetches(from) => from,
            Stage::Asks { .. } if self.noted.when == When::Free => 0,
            Stage::Asks { next, .. } if self.looks < next.max(self.looks_before()) => return false,
            Stage::Asks { .. } if !self.noted.is_free(heap) => {
                self.stage = Stage::Asks { next: self.looks + LOOKS_PER_QUESTION, was_in_vain: true };
                return false;
            }
            Stage::Asks { was_in_vain, .. } => {
                self.learn(was_in_vain, self.looks);
                0
            }
        };
        let Place { offset, capacity, .. } = self.noted.place;
        // Somebody may have taken it meanwhile, or read it without fetching it.
        let is_next = self.noted.is_free(heap) && (from > 0 || !self.noted.rests(heap));
        let Some(begin) = heap.segment().at(offset, capacity).filter(|_| is_next) else {
            self.end();
            return false;
        };
        let to = (from + LINES * LINE).min(capacity);
        prefetch::all_to_write(begin.as_ptr().wrapping_add(from), to - from);
        self.stage = Stage::Fetches(to);
        if from == 0 && self.noted.is_awaited(heap) {
            set_back(Some(self.noted));
        }
        if to == capacity {
            self.end();
        }
        true
    }

    /// Looks before the first question.
    fn looks_before(&self) -> u32 {
        if self.is_earlier { 0 } else { LOOKS.get() }
    }

    /// The last question came after so many looks, or will.
    fn learn(&self, was_in_vain: bool, looks: u32) {
        if self.is_earlier {
            return;
        }
        let sooner = LOOKS.get() - LOOKS.get().div_ceil(FEWER);
        LOOKS.set(if was_in_vain { looks.min(LOOKS_MAX) } else { sooner.max(1) });
    }

    fn end(&mut self) {
        self.is_on = false;
        self.renote(None);
    }

    /// Replaces what was noted when this wait began. The thread may have noted another buffer since: the message that
    /// ends the wait takes the place of the one before.
    fn renote(&self, noted: Option<Noted>) {
        if BEFORE.get() == Some(self.noted) {
            BEFORE.set(noted);
        } else if NOTED.get() == Some(self.noted) {
            set(noted);
        }
    }
}

impl Drop for FetchBack {
    fn drop(&mut self) {
        // A wait that was over at its first look tells nothing.
        if !self.is_on || self.looks == 0 {
            return;
        }
        match self.stage {
            Stage::Asks { was_in_vain, .. } => self.learn(was_in_vain, 2 * LOOKS.get()),
            // The rest is as good as gone: the buffer is about to be written.
            Stage::Fetches(_) => return self.renote(None),
        }
        let vain_waits = self.noted.vain_waits + 1;
        self.renote((vain_waits < VAIN_WAITS).then_some(Noted { vain_waits, ..self.noted }));
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests;
