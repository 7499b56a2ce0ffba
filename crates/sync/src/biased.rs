//! A lock that costs its only user nothing.
//!
//! Most locks of DECK have one user for a long time: the thread that posts through a ring, the thread that retrieves
//! from a mail box. Such a thread becomes the *favourite* ([`Right`]): it enters with two plain stores and two plain
//! loads, without a locked operation. Somebody else who comes takes the right away and waits until the favourite is
//! outside. That costs microseconds, so a thread becomes the favourite only after it was alone for a while, and each
//! time it turns out wrong that while grows.
//!
//! `tests/loom_biased.rs` is the model.

#[cfg(not(loom))]
pub(crate) mod own_word;
pub(crate) mod right;
pub(crate) mod shortcut;
pub(crate) mod visitor;

use std::ops::{Deref, DerefMut};

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::atomic::{self, AtomicBool, AtomicU32, Ordering};
use crate::cell::{Cell, Touch};
#[cfg(not(loom))]
use crate::locks::lock;
use right::Right;
use visitor::Place;

/// How often in a row a thread has to come before it is the favourite; times 8 whenever it was wrong. Models of what is
/// built on this lock have no favourites: the lock has models of its own.
const ALONE_FIRST: u32 = if cfg!(loom) { u32::MAX } else { 2 };
const ALONE_LAST: u32 = 1 << 16;
/// Looks at a favourite that is inside before the core is given to another thread.
const LOOKS: u32 = 64;

/// A value that one thread at a time uses, made for one that comes again and again.
///
/// A thread must not enter twice: that panics or never ends, as with [`std::sync::Mutex`].
pub struct Biased<T> {
    right: Right,
    /// How often a thread found another one inside that was no guest.
    waits: AtomicU32,
    has_guest: AtomicBool,
    others: Mutex<History>,
    value: Cell<T>,
}

struct History {
    /// Whose right was taken away while it was inside: whoever enters waits for it.
    former: usize,
    last: usize,
    in_a_row: u32,
    needed: u32,
}

// SAFETY: at most one thread is inside at a time, as the model shows; the value moves between threads like one in a
// mutex.
unsafe impl<T: Send> Send for Biased<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Biased<T> {}

/// The calling thread is inside.
pub struct Inside<'a, T> {
    lock: &'a Biased<T>,
    touch: Option<Touch<T>>,
    entered: Entered<'a>,
}

enum Entered<'a> {
    Favourite(#[expect(dead_code, reason = "to drop it is to leave")] Place),
    Other(MutexGuard<'a, History>),
    /// Does not count as having been here.
    Guest(#[expect(dead_code, reason = "to drop it is to leave")] MutexGuard<'a, History>),
}

impl<T> Biased<T> {
    /// A lock around `value` that has no favourite yet.
    pub fn new(value: T) -> Biased<T> {
        let history = History { former: 0, last: 0, in_a_row: 0, needed: ALONE_FIRST };
        Biased {
            right: Right::new(),
            waits: AtomicU32::new(0),
            has_guest: AtomicBool::new(false),
            others: Mutex::new(history),
            value: Cell::new(value),
        }
    }

    /// A lock whose favourite is whoever was inside last, for its models.
    #[cfg(loom)]
    pub fn eager(value: T) -> Biased<T> {
        let lock = Biased::new(value);
        lock.others.lock().unwrap().needed = 0;
        lock
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Enters. Waits while somebody else is inside.
    #[inline]
    pub fn lock(&self) -> Inside<'_, T> {
        match self.enter_as_favourite() {
            Some(place) => self.inside(Entered::Favourite(place)),
            None => self.inside(Entered::Other(self.enter())),
        }
    }

    /// As [`Biased::lock`], by somebody who comes for something else: the calling thread does not become the favourite
    /// by it.
    pub fn lock_as_guest(&self) -> Inside<'_, T> {
        match self.enter_as_favourite() {
            Some(place) => self.inside(Entered::Favourite(place)),
            None => self.as_guest(self.enter()),
        }
    }

    fn as_guest<'a>(&'a self, history: MutexGuard<'a, History>) -> Inside<'a, T> {
        // Relaxed: a hint.
        self.has_guest.store(true, Ordering::Relaxed);
        self.inside(Entered::Guest(history))
    }

    /// If the calling thread is the favourite: enters, calls `visit`, and leaves. Otherwise nothing happens, and
    /// [`Biased::lock`] is the way in. For hot paths: no part of it lies in memory, as the guard of the other way does.
    /// Never waits.
    #[inline(always)]
    pub fn visit_as_favourite<R>(&self, visit: impl FnOnce(&mut T) -> R) -> Option<R> {
        let _place = self.enter_as_favourite()?;
        let touch = self.value.touch();
        // SAFETY: this thread is inside until the place is dropped, after this; nobody else is meanwhile.
        Some(visit(unsafe { touch.get_mut() }))
    }

    /// Enters as a guest if nobody is inside, the calling thread included. Never waits for others (but may have a fence
    /// run).
    pub fn try_lock(&self) -> Option<Inside<'_, T>> {
        if right::token().is_some_and(|me| right::is_inside(me, self.address())) {
            return None;
        }
        if let Some(place) = self.enter_as_favourite() {
            return Some(self.inside(Entered::Favourite(place)));
        }
        let mut history = self.try_lock_others()?;
        self.take_from_favourite(&mut history);
        (!self.is_former_inside(&mut history)).then(|| self.as_guest(history))
    }

    #[inline]
    fn enter_as_favourite(&self) -> Option<Place> {
        debug_assert!(
            !(self.is_favourite() && right::token().is_some_and(|me| right::is_inside(me, self.address()))),
            "a thread enters a lock twice"
        );
        self.right.enter(self.address())
    }

    /// How often a thread had to wait for another one that was no guest until now, about. Comes round after 2^32.
    #[inline]
    pub fn waits(&self) -> u32 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Whether the calling thread is the favourite. If not, it stays so until it has entered again.
    pub fn is_favourite(&self) -> bool {
        self.right.is_mine()
    }

    #[cold]
    fn enter(&self) -> MutexGuard<'_, History> {
        let mut history = self.try_lock_others().unwrap_or_else(|| {
            // Relaxed: hints.
            self.waits.fetch_add(u32::from(!self.has_guest.load(Ordering::Relaxed)), Ordering::Relaxed);
            self.lock_others()
        });
        self.take_from_favourite(&mut history);
        let mut looks = 0;
        while self.is_former_inside(&mut history) {
            looks += 1;
            if looks < LOOKS { atomic::pause() } else { atomic::yield_now() }
        }
        history
    }

    fn take_from_favourite(&self, history: &mut History) {
        let favourite = self.right.take();
        if favourite != 0 {
            history.former = favourite;
        }
    }

    fn is_former_inside(&self, history: &mut History) -> bool {
        let is_inside = right::is_inside(history.former, self.address());
        if !is_inside {
            history.former = 0;
        }
        is_inside
    }

    #[inline]
    fn inside<'a>(&'a self, entered: Entered<'a>) -> Inside<'a, T> {
        Inside { lock: self, touch: Some(self.value.touch()), entered }
    }

    fn lock_others(&self) -> MutexGuard<'_, History> {
        #[cfg(loom)]
        return self.others.lock().unwrap();
        #[cfg(not(loom))]
        lock(&self.others)
    }

    fn try_lock_others(&self) -> Option<MutexGuard<'_, History>> {
        #[cfg(loom)]
        return self.others.try_lock().ok();
        #[cfg(not(loom))]
        match self.others.try_lock() {
            Ok(others) => Some(others),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Before the mutex is left: the calling thread may be the favourite from now on.
    #[cold]
    fn note(&self, history: &mut History) {
        let Some(me) = right::token() else { return };
        if history.last != me {
            // Whoever had been the favourite was not alone.
            if !cfg!(loom) && history.last != 0 && history.in_a_row >= history.needed {
                history.needed = (history.needed * 8).clamp(1, ALONE_LAST);
            }
            (history.last, history.in_a_row) = (me, 0);
        }
        history.in_a_row = history.in_a_row.saturating_add(1);
        if history.in_a_row >= history.needed {
            self.right.give(me);
        }
    }
}

impl<T> Drop for Inside<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.touch = None;
        // A favourite leaves with its place.
        match &mut self.entered {
            Entered::Favourite(_) => {}
            Entered::Other(history) => self.lock.note(history),
            Entered::Guest(_) => self.lock.has_guest.store(false, Ordering::Relaxed),
        }
    }
}

impl<T> Deref for Inside<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the thread is inside until this is dropped, alone; the lock is borrowed.
        unsafe { self.touch.as_ref().expect("only dropping ends it").get() }
    }
}

impl<T> DerefMut for Inside<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and this is borrowed exclusively.
        unsafe { self.touch.as_ref().expect("only dropping ends it").get_mut() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::barrier;

    #[test]
    fn nothing_is_lost_between_threads_that_come_in_turns_and_alone() {
        const ROUNDS: u64 = if cfg!(miri) { 300 } else { 3000 };
        barrier::register();
        let lock = Biased::new(0u64);
        std::thread::scope(|scope| {
            for stretch in [1, 10, ROUNDS / 3] {
                let lock = &lock;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        *lock.lock() += 1;
                        if round % stretch == 0 {
                            atomic::yield_now();
                        }
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 3 * ROUNDS);
    }

    #[test]
    fn one_that_is_inside_is_not_entered_by_trying() {
        barrier::register();
        let lock = Biased::new(0u64);
        for _ in 0..10 {
            let inside = lock.lock();
            assert!(lock.try_lock().is_none());
            std::thread::scope(|scope| drop(scope.spawn(|| assert!(lock.try_lock().is_none()))));
            drop(inside);
            *lock.try_lock().expect("nobody is inside") += 1;
        }
        assert_eq!(*lock.lock(), 10);
    }

    #[test]
    fn a_guest_is_no_favourite_and_a_thread_alone_is() {
        if !barrier::register() {
            return;
        }
        let lock = Biased::new(0u64);
        for _ in 0..10 {
            *lock.lock_as_guest() += 1;
            assert!(!lock.is_favourite() && lock.visit_as_favourite(|_| ()).is_none());
        }
        for _ in 0..10 {
            *lock.lock() += 1;
        }
        assert!(lock.is_favourite());
        *lock.lock_as_guest() += 1;
        assert_eq!(lock.visit_as_favourite(|value| *value), Some(21));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "twice")]
    fn a_favourite_that_enters_twice_panics_instead_of_sharing() {
        assert!(barrier::register(), "there is no favourite here that could enter twice");
        let lock = Biased::new(());
        for _ in 0..10 {
            drop(lock.lock());
        }
        let _first = lock.lock();
        let _second = lock.lock();
    }
}
