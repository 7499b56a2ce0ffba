//! Who uses an object that may be ended under its users.
//!
//! A thread *pins* the object for a while. Ending it lets nobody in any more, and whoever is the last to leave takes
//! the object away. Objects are shared by those who pin them, or used by one thread at a time (`ALONE`); then a second
//! thread is refused, and does not wait.
//!
//! The state word counts pins, so that two of them cost two locked operations. A thread that comes again and again
//! becomes the *favourite*: it has a [shortcut](crate::Shortcuts) to the object, by which pins cost none. Whoever else
//! wants an object alone closes that first. Of shared objects the favourite keeps it, and whoever ends one closes it
//! and looks whether the favourite is still there.
//!
//! ```text
//!   63    28  27     26      25      24    23  0
//!  +--------+-------+-------+------+------+------+     live            end                  the last one leaves      next
//!  |  name  | TAKEN | ENDED | BUSY | LIVE | pins |     free, n -----> LIVE, n -----> LIVE ENDED, n ---------> TAKEN, n -----> free, n + 1
//!  +--------+-------+-------+------+------+------+
//! ```
//!
//! A name has a part that stays and a generation, which goes up by one for each object: so a single comparison tells
//! whether it is the one that is meant.
//!
//! `BUSY` is set while a thread has an object alone by a pin in the state word; of shared objects, while the favourite
//! changes.
//!
//! Invariant: an object is taken by exactly one thread, that which set `TAKEN` after `ENDED` was set, there were no
//! pins, and the favourite was not inside. `tests/loom_pins.rs` is the model.

use crate::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::barrier;
use crate::biased::shortcut::{Entered, Key, Shortcut};
use crate::biased::visitor::Visitor;

const PINS: u64 = (1 << 24) - 1;
const LIVE: u64 = 1 << 24;
const BUSY: u64 = 1 << 25;
const ENDED: u64 = 1 << 26;
const TAKEN: u64 = 1 << 27;
/// From here on a state has the name.
const NAME_SHIFT: u32 = 28;

/// How often in a row a thread has to come before it is the favourite; times 8 for each further one.
const IN_A_ROW_FIRST: u32 = if cfg!(loom) { 1 } else { 16 };
const IN_A_ROW_LAST: u32 = if cfg!(loom) { 1 } else { 1 << 16 };

/// The users of one object after the other, each of which has the next name. `ALONE`: one thread at a time has the
/// object.
pub struct Pins<const ALONE: bool> {
    state: AtomicU64,
    /// The shortcut of the last favourite, who may be inside still; 0 if nobody can be. Written by whoever has the
    /// object alone, has set `BUSY`, or takes it away.
    shortcut: AtomicUsize,
    /// What leads here by a shortcut. Written before the first one does.
    word: AtomicU64,
    // Hints, by which the favourite is chosen.
    last: AtomicUsize,
    in_a_row: AtomicU32,
    needed: AtomicU32,
}

/// A pin. To be given back to [`Pins::unpin`].
#[must_use = "an object that stays pinned is never taken away"]
pub struct Held {
    /// How the favourite came; `None` if it is counted.
    entered: Option<Entered>,
}

impl Held {
    /// A pin that was counted. Given back for one that was forgotten, it ends that.
    pub fn counted() -> Held {
        Held { entered: None }
    }
}

impl From<Entered> for Held {
    #[inline(always)]
    fn from(entered: Entered) -> Held {
        Held { entered: Some(entered) }
    }
}

/// There is no pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotPinned {
    /// Why.
    pub why: WhyNot,
    /// The object has been ended, and is to be taken away by whoever is told this: the only one.
    pub is_last: bool,
}

/// Why an object cannot be pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// It was never there.
    Never,
    /// It has been ended.
    Ended,
    /// Another thread has it alone, or there are more pins than can be counted (2^24).
    Busy,
}

impl<const ALONE: bool> Pins<ALONE> {
    /// What a name is counted up by. Names have nothing below it.
    pub const STEP: u64 = 1 << NAME_SHIFT;

    /// No object yet. The first one has the name `first`.
    pub fn new(first: u64) -> Pins<ALONE> {
        Pins {
            state: AtomicU64::new(first),
            shortcut: AtomicUsize::new(0),
            word: AtomicU64::new(0),
            last: AtomicUsize::new(0),
            in_a_row: AtomicU32::new(0),
            needed: AtomicU32::new(IN_A_ROW_FIRST),
        }
    }

    /// Of the object that is here, or that comes next.
    pub fn name(&self) -> u64 {
        named(self.state.load(Ordering::Relaxed))
    }

    /// The object is there: it can be pinned from now on. Only if none is there, by whoever has put it in place.
    pub fn live(&self) {
        // Release: pairs with: pins/live. Whoever pins it sees it whole.
        self.state.store(self.name() | LIVE, Ordering::Release);
    }

    /// Pins the object of this name, which differs from that of the first one in how often it was counted up only.
    /// Never waits. Whoever has a shortcut enters by that instead ([`crate::Shortcuts::enter`]).
    ///
    /// # Errors
    /// Why there is no such object to be pinned, see [`NotPinned`]. Also if the name is another one altogether.
    pub fn pin(&self, name: u64) -> Result<Held, NotPinned> {
        self.count(Some(name))
    }

    /// Pins whatever object is there. Never waits.
    pub fn pin_any(&self) -> Result<Held, NotPinned> {
        self.count(None)
    }

    /// Ends a pin. True for the one who is to take the object away and to call [`Pins::next`] then. `way` tells what
    /// leads to the object, if the calling thread is to have a shortcut there: always the same.
    #[inline(always)]
    #[must_use = "the last one takes the object away"]
    pub fn unpin(&self, held: Held, way: impl FnOnce() -> (Key, *const ())) -> bool {
        match held.entered {
            Some(entered) => !entered.leave() && self.take_what_was_ended(),
            None if ALONE => self.uncount_alone(way),
            None => self.uncount(way),
        }
    }

    /// Ends the object: it cannot be pinned any more. By one who has pinned it, and holds that. True for exactly one of
    /// those who try.
    pub fn end(&self, held: &Held) -> bool {
        if Self::is_alone(held) {
            let state = self.state.load(Ordering::Relaxed);
            self.state.store(state | ENDED, Ordering::Relaxed);
            return state & ENDED == 0;
        }
        // Acquire: pairs with: pins/favour. Either we see the new favourite's shortcut, or it sees that the object was
        // ended.
        let is_first = self.state.fetch_or(ENDED, Ordering::Acquire) & ENDED == 0;
        self.close();
        is_first
    }

    /// The object was taken away: tells the name of the one that may come next. Only for the one who was told to take
    /// it.
    pub fn next(&self) -> u64 {
        let name = self.name() + Self::STEP;
        self.shortcut.store(0, Ordering::Relaxed);
        self.last.store(0, Ordering::Relaxed);
        self.in_a_row.store(0, Ordering::Relaxed);
        self.needed.store(IN_A_ROW_FIRST, Ordering::Relaxed);
        self.state.store(name, Ordering::Relaxed);
        name
    }

    /// No shortcut leads here any more.
    fn close(&self) {
        if let Some(shortcut) = self.shortcut() {
            shortcut.close(self.word());
        }
    }

    fn word(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    /// That of the favourite, or of one that was inside when it was closed.
    fn shortcut(&self) -> Option<&'static Shortcut> {
        Shortcut::of(self.shortcut.load(Ordering::Relaxed))
    }

    /// What a counted pin adds to the state.
    const SHARE: u64 = if ALONE { 1 + BUSY } else { 1 };

    /// Pins it in the state word, or says why not.
    #[inline(never)]
    fn count(&self, name: Option<u64>) -> Result<Held, NotPinned> {
        // Pairs with: pins/leave. It may have looked as if this thread were inside: then the object may have been left
        // to it.
        barrier::light_within();
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if let Some(why) = Self::refusal(state, name) {
                // Also if it is not the one that is meant, see above.
                return Err(NotPinned { why, is_last: state & ENDED != 0 && self.take() });
            }
            // Acquire: pairs with: pins/live, pins/unpin. What whoever had it alone before did is before what this
            // thread does.
            match self.state.compare_exchange_weak(state, state + Self::SHARE, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(changed) => state = changed,
            }
        }
        if ALONE { self.shut_out_favourite() } else { Ok(Held::counted()) }
    }

    /// Why the object of this name, or whichever is there, cannot be pinned in this state.
    fn refusal(state: u64, name: Option<u64>) -> Option<WhyNot> {
        let now = named(state);
        let wanted = name.unwrap_or(now);
        // Before an object is there, its name is.
        if wanted > now || (wanted == now && state & LIVE == 0) {
            Some(WhyNot::Never)
        } else if wanted < now || state & ENDED != 0 {
            Some(WhyNot::Ended)
        } else if (ALONE && state & BUSY != 0) || state & PINS == PINS {
            Some(WhyNot::Busy)
        } else {
            None
        }
    }

    /// With the object alone as far as the state word goes.
    fn shut_out_favourite(&self) -> Result<Held, NotPinned> {
        if let Some(shortcut) = self.shortcut() {
            if shortcut.close(self.word()) && !is_own(shortcut) {
                // Pairs with: pins/leave. Either the favourite sees that it was closed, or we see it inside.
                barrier::heavy_within();
            }
            if shortcut.is_inside(self.word()) {
                return Err(NotPinned { why: WhyNot::Busy, is_last: self.discount() });
            }
            self.shortcut.store(0, Ordering::Relaxed);
        }
        Ok(Held::counted())
    }

    /// Whether nobody else writes to the state until this pin ends: others are refused by `BUSY`, and there is no
    /// favourite who could end the object.
    fn is_alone(held: &Held) -> bool {
        ALONE && held.entered.is_none()
    }

    #[inline(never)]
    fn uncount(&self, way: impl FnOnce() -> (Key, *const ())) -> bool {
        self.note(way);
        self.discount()
    }

    /// As [`Pins::uncount`], where nobody else writes to the state (`is_alone`): without a locked operation.
    #[inline(never)]
    fn uncount_alone(&self, way: impl FnOnce() -> (Key, *const ())) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        let is_last = state & ENDED != 0;
        if !is_last {
            self.note(way);
        }
        let left = state - Self::SHARE;
        // Release: pairs with: pins/unpin. As in `discount`.
        self.state.store(if is_last { left | TAKEN } else { left }, Ordering::Release);
        is_last
    }

    fn discount(&self) -> bool {
        // Release: pairs with: pins/unpin. What this thread did with the object is before whoever has it next, or takes
        // it away.
        let before = self.state.fetch_sub(Self::SHARE, Ordering::Release);
        before & ENDED != 0 && before & PINS == 1 && self.take()
    }

    #[cold]
    fn take_what_was_ended(&self) -> bool {
        self.state.load(Ordering::Relaxed) & ENDED != 0 && self.take()
    }

    /// True if nobody uses an object that was ended, and this thread is to take it away.
    #[cold]
    fn take(&self) -> bool {
        // Acquire: pairs with: pins/unpin. What those did who counted, also that one of them became the favourite.
        let state = self.state.load(Ordering::Acquire);
        if state & ENDED == 0 || state & (PINS | TAKEN) != 0 {
            return false;
        }
        if let Some(shortcut) = self.shortcut() {
            if !is_own(shortcut) {
                // Pairs with: pins/leave. Either the favourite sees that it was closed, or we see it inside, and leave
                // it the object.
                barrier::heavy_within();
            }
            if shortcut.is_inside(self.word()) {
                return false;
            }
        }
        // Acquire: pairs with: pins/unpin.
        self.state.compare_exchange(state, state | TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Before a counted pin ends: the calling thread may be the favourite from now on.
    fn note(&self, way: impl FnOnce() -> (Key, *const ())) {
        let Some(here) = Visitor::here() else { return };
        let is_in_a_row = self.last.load(Ordering::Relaxed) == here.token();
        let in_a_row = if is_in_a_row { self.in_a_row.load(Ordering::Relaxed).saturating_add(1) } else { 1 };
        self.last.store(here.token(), Ordering::Relaxed);
        self.in_a_row.store(in_a_row, Ordering::Relaxed);
        if in_a_row >= self.needed.load(Ordering::Relaxed) && barrier::is_asymmetric() {
            let (key, object) = way();
            self.favour(here.shortcut(key.at), key, object);
        }
    }

    /// The calling thread, which has a counted pin, becomes the favourite if nobody else is inside as that.
    #[cold]
    fn favour(&self, shortcut: &'static Shortcut, key: Key, object: *const ()) {
        let is_open = if ALONE {
            // It has shut out all others, and may have ended the object itself.
            self.state.load(Ordering::Relaxed) & ENDED == 0 && self.open(shortcut, key, object)
        } else {
            // Acquire: pairs with: pins/favour. Whoever was here before is done.
            let before = self.state.fetch_or(BUSY, Ordering::Acquire);
            if before & BUSY != 0 {
                return;
            }
            let is_open = before & ENDED == 0 && self.is_free_of_favourite() && self.open(shortcut, key, object);
            // Release: pairs with: pins/favour.
            if self.state.fetch_and(!BUSY, Ordering::Release) & ENDED != 0 {
                self.close();
            }
            is_open
        };
        if is_open {
            let needed = self.needed.load(Ordering::Relaxed);
            self.needed.store((needed * 8).min(IN_A_ROW_LAST), Ordering::Relaxed);
        }
        self.in_a_row.store(0, Ordering::Relaxed);
    }

    /// Takes the right away from who has it, unless that is inside: it would not be seen there any more. Only by
    /// whoever has set `BUSY`.
    fn is_free_of_favourite(&self) -> bool {
        let (Some(shortcut), word) = (self.shortcut(), self.word()) else { return true };
        if shortcut.is_inside(word) {
            return false;
        }
        shortcut.close(word);
        if !is_own(shortcut) {
            // Also if whoever ends the object has closed it just now. Pairs with: pins/leave. Either the favourite sees
            // that it was closed, or we see it inside.
            barrier::heavy_within();
        }
        !shortcut.is_inside(word)
    }

    fn open(&self, shortcut: &'static Shortcut, key: Key, object: *const ()) -> bool {
        self.word.store(key.word, Ordering::Relaxed);
        let is_open = shortcut.open(key, object);
        if is_open {
            self.shortcut.store(shortcut.token(), Ordering::Relaxed);
        }
        is_open
    }
}

/// Whether it is the calling thread's.
fn is_own(shortcut: &Shortcut) -> bool {
    Visitor::known().is_some_and(|here| here.has(shortcut))
}

const fn named(state: u64) -> u64 {
    state >> NAME_SHIFT << NAME_SHIFT
}
