//! In which biased locks a thread is as their favourite: written by that thread only, read by whoever takes a right away.

use crate::atomic::{AtomicUsize, Ordering};

/// Locks that a thread can be inside of at a time without a locked operation; more take the slow way.
const DEPTH: usize = 4;

/// The places of one thread. Lives for ever; when the thread ends another one gets it.
#[repr(align(64))]
pub(crate) struct Visitor {
    inside: [AtomicUsize; DEPTH],
}

impl Visitor {
    fn new() -> &'static Visitor {
        Box::leak(Box::new(Visitor { inside: std::array::from_fn(|_| AtomicUsize::new(0)) }))
    }

    /// The calling thread's; `None` while the thread is ending.
    #[inline]
    pub fn here() -> Option<&'static Visitor> {
        here::visitor()
    }

    /// What tells it from all others; never 0.
    #[inline]
    pub fn token(&'static self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }

    /// The visitor with this token.
    pub fn of(token: usize) -> Option<&'static Visitor> {
        let visitor = std::ptr::with_exposed_provenance::<Visitor>(token);
        // SAFETY: tokens are made by `token` only, from visitors that live for ever; 0 is none.
        unsafe { visitor.as_ref() }
    }

    /// A place that is not in use. Only the visitor's own thread.
    #[inline]
    pub fn free_place(&self) -> Option<usize> {
        self.inside.iter().position(|place| place.load(Ordering::Relaxed) == 0)
    }

    /// Only the visitor's own thread.
    #[inline]
    pub fn enter(&self, place: usize, lock: usize) {
        self.inside[place].store(lock, Ordering::Relaxed);
    }

    /// Only the visitor's own thread.
    #[inline]
    pub fn leave(&self, place: usize) {
        // Release: pairs with: biased/outside. What was done inside is before whoever comes next.
        self.inside[place].store(0, Ordering::Release);
    }

    /// True if its thread is inside `lock`, or about to find out that it must not be.
    pub fn is_inside(&self, lock: usize) -> bool {
        // Acquire: pairs with: biased/outside.
        self.inside.iter().any(|place| place.load(Ordering::Acquire) == lock)
    }
}

#[cfg(not(loom))]
mod here {
    use super::Visitor;
    use std::cell::Cell;
    use std::sync::{Mutex, PoisonError};

    /// Visitors whose threads have ended.
    static FREE: Mutex<Vec<&'static Visitor>> = Mutex::new(Vec::new());

    struct Here(Cell<Option<&'static Visitor>>);

    impl Drop for Here {
        fn drop(&mut self) {
            if let Some(visitor) = self.0.take() {
                FREE.lock().unwrap_or_else(PoisonError::into_inner).push(visitor);
            }
        }
    }

    thread_local! {
        static HERE: Here = const { Here(Cell::new(None)) };
    }

    #[inline]
    pub fn visitor() -> Option<&'static Visitor> {
        HERE.try_with(|here| here.0.get().unwrap_or_else(|| first(here))).ok()
    }

    #[cold]
    fn first(here: &Here) -> &'static Visitor {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let visitor = free.unwrap_or_else(Visitor::new);
        here.0.set(Some(visitor));
        visitor
    }
}

#[cfg(loom)]
mod here {
    use super::Visitor;

    loom::thread_local! {
        static HERE: &'static Visitor = Visitor::new();
    }

    pub fn visitor() -> Option<&'static Visitor> {
        HERE.try_with(|here| *here).ok()
    }
}
