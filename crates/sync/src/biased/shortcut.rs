//! Where a thread finds what it comes back to, and enters it without a locked operation: its *shortcuts*.
//!
//! A pinned object ([`crate::Pins`]) is known by a word that no other one ever has. A thread that comes to it often has
//! a shortcut there: a comparison with that word tells that it is the right object, that it has not been ended, and
//! that the thread is its favourite still; one more, that it was made in this session. Then it says that it is inside,
//! and compares once more. Whoever takes the right away *closes* the shortcut, has the kernel run a fence everywhere
//! ([`crate::barrier::heavy_within`]), and looks whether the thread is inside: as with a
//! [`Right`](crate::biased::right), but the word that tells whose it is lies with the thread, and not with the object.
//!
//! ```text
//!                 favour                     enter                       leave
//! open:    0, or another one ----> word              word, or 0                word, or 0
//! inside:  0                       0      ----> word              ----> 0
//!                                         looks at open again           looks at open again
//! ```
//!
//! Each word has one place in a thread's shortcuts, and gives way to another one that comes often. `tests/loom_pins.rs`
//! is the model.

use std::marker::PhantomData;

use crate::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::barrier;
use crate::biased::visitor::Visitor;

/// Shortcuts of a thread.
pub(crate) const SHORTCUTS: usize = if cfg!(loom) { 1 } else { 128 };

/// One of a thread's shortcuts. Lives for ever.
#[repr(align(32))]
pub(crate) struct Shortcut {
    /// What it leads to; 0 if nowhere. Its own thread writes it, and anybody may close it.
    open: AtomicU64,
    /// What its thread is inside of; 0 if nothing. Written by that thread.
    inside: AtomicU64,
    // The rest of the key, and the object. Of its own thread alone.
    session: AtomicU64,
    object: AtomicPtr<()>,
}

/// What leads to an object. Only if all of it is the same, it is that object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Which of a thread's 128 shortcuts may lead there. Objects of two types never have the same.
    pub at: usize,
    /// What no other object ever has, of whatever table. 0 is none's.
    pub word: u64,
    /// When it was made.
    pub session: u64,
}

/// The shortcuts of the calling thread.
#[derive(Clone, Copy)]
pub struct Shortcuts {
    visitor: &'static Visitor,
    _of_this_thread: PhantomData<*const ()>,
}

/// The calling thread is inside an object by a shortcut. To be given back to [`crate::Pins::unpin`] of that object.
#[must_use = "an object that stays pinned is never taken away"]
pub struct Entered {
    shortcut: &'static Shortcut,
    _of_this_thread: PhantomData<*const ()>,
}

impl Shortcuts {
    /// Those of the calling thread, if it has any yet.
    #[inline(always)]
    pub fn of_this_thread() -> Option<Shortcuts> {
        Some(Shortcuts { visitor: Visitor::known()?, _of_this_thread: PhantomData })
    }

    /// Enters the object of `key`, if a shortcut leads there and is not in use. If not, the caller has to go on with
    /// [`crate::Pins::pin`]: whoever has ended the object meanwhile may have seen this thread inside, and left it the
    /// object to take away.
    ///
    /// Budget: no locked operation; a line of this thread's own.
    #[inline(always)]
    pub fn enter(self, key: Key) -> Option<Entered> {
        let Shortcuts { visitor, .. } = self;
        let shortcut = visitor.shortcut(key.at);
        // A closed one has 0, and whoever asks may have it from anywhere.
        let leads_there = key.word != 0
            && shortcut.open.load(Ordering::Relaxed) == key.word
            && shortcut.session.load(Ordering::Relaxed) == key.session;
        if !leads_there || shortcut.inside.load(Ordering::Relaxed) != 0 {
            return None;
        }
        // Release: pairs with: shortcut/inside. What was done inside before is before whoever sees this.
        shortcut.inside.store(key.word, Ordering::Release);
        // Pairs with: pins/leave. Either we see that it was closed, or whoever closed it sees us inside.
        barrier::light_within();
        if shortcut.open.load(Ordering::Relaxed) != key.word {
            // Release: pairs with: shortcut/inside.
            shortcut.inside.store(0, Ordering::Release);
            return None;
        }
        Some(Entered { shortcut, _of_this_thread: PhantomData })
    }
}

impl Entered {
    /// What the shortcut was opened with.
    #[inline(always)]
    pub fn object(&self) -> *const () {
        self.shortcut.object.load(Ordering::Relaxed)
    }

    /// Goes out. False if the shortcut was closed meanwhile: then whoever did so may have left it to this thread to
    /// take the object away.
    #[inline(always)]
    pub(crate) fn leave(self) -> bool {
        // Relaxed: this thread has written it.
        let word = self.shortcut.inside.load(Ordering::Relaxed);
        // Release: pairs with: shortcut/inside. What was done inside is before whoever comes next.
        self.shortcut.inside.store(0, Ordering::Release);
        // Pairs with: pins/leave. Either we see that it was closed, or whoever closed it sees that we are not inside.
        barrier::light_within();
        self.shortcut.open.load(Ordering::Relaxed) == word
    }
}

impl Shortcut {
    pub fn new() -> Shortcut {
        Shortcut {
            open: AtomicU64::new(0),
            inside: AtomicU64::new(0),
            session: AtomicU64::new(0),
            object: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// What tells it from all others; never 0.
    pub fn token(&'static self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }

    /// The shortcut with this token.
    pub fn of(token: usize) -> Option<&'static Shortcut> {
        let shortcut = std::ptr::with_exposed_provenance::<Shortcut>(token);
        // SAFETY: tokens are made by `token` only, from shortcuts that live for ever; 0 is none.
        unsafe { shortcut.as_ref() }
    }

    /// From now on it leads to `object`, and no longer to another one. Only its own thread. False if that is inside
    /// something by it.
    pub fn open(&self, key: Key, object: *const ()) -> bool {
        if self.inside.load(Ordering::Relaxed) != 0 {
            return false;
        }
        self.session.store(key.session, Ordering::Relaxed);
        self.object.store(object.cast_mut(), Ordering::Relaxed);
        // Release: pairs with: shortcut/open. What was done inside another one is before whoever finds that it leads
        // there no longer.
        self.open.store(key.word, Ordering::Release);
        true
    }

    /// It does not lead to the object with this word any more. True if it did until now: then it takes a fence until
    /// its thread knows.
    pub fn close(&self, word: u64) -> bool {
        // Acquire: pairs with: shortcut/open (also on failure). Release: pairs with: shortcut/open. That its own thread
        // is inside is before whoever finds that it has closed it.
        self.open.load(Ordering::Acquire) == word
            && self.open.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether its thread is inside the object with this word, or about to find out that it must not be.
    pub fn is_inside(&self, word: u64) -> bool {
        // Acquire: pairs with: shortcut/inside.
        self.inside.load(Ordering::Acquire) == word
    }
}
