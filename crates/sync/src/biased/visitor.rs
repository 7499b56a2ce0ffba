//! In which biased locks and pinned objects a thread is as their favourite: written by that thread, read by whoever
//! takes a right away.

use crate::atomic::{AtomicUsize, Ordering};
use crate::biased::shortcut::{SHORTCUTS, Shortcut};

/// Locks that a thread can be inside of at a time without a locked operation; more take the slow way. A call enters one
/// or two; what is called back may do so again.
const DEPTH: usize = 4;

/// The places of one thread. Lives for ever; when the thread ends another one gets it.
#[repr(align(64))]
pub(crate) struct Visitor {
    inside: [AtomicUsize; DEPTH],
    shortcuts: [Shortcut; SHORTCUTS],
}

/// A thread is inside a lock as its favourite.
pub(crate) struct Place(&'static AtomicUsize);

impl Drop for Place {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with: right/outside. What was done inside is before whoever comes next.
        self.0.store(0, Ordering::Release);
    }
}

impl Visitor {
    fn new() -> &'static Visitor {
        Box::leak(Box::new(Visitor {
            inside: std::array::from_fn(|_| AtomicUsize::new(0)),
            shortcuts: std::array::from_fn(|_| Shortcut::new()),
        }))
    }

    /// The calling thread's, if it has asked for it before.
    #[inline(always)]
    pub fn known() -> Option<&'static Visitor> {
        here::known()
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

    /// Says that the thread is inside `lock` until the place is dropped; `None` if it is inside too many. Only the
    /// visitor's own thread.
    #[inline(always)]
    pub fn enter(&'static self, lock: usize) -> Option<Place> {
        let place = self.inside.iter().find(|place| place.load(Ordering::Relaxed) == 0)?;
        place.store(lock, Ordering::Relaxed);
        Some(Place(place))
    }

    /// The shortcut at this place.
    ///
    /// # Panics
    /// If there is none: objects of two types would meet if places began anew.
    #[inline(always)]
    pub fn shortcut(&'static self, at: usize) -> &'static Shortcut {
        &self.shortcuts[at]
    }

    /// Whether this is one of its shortcuts.
    pub fn has(&self, shortcut: &Shortcut) -> bool {
        self.shortcuts.as_ptr_range().contains(&std::ptr::from_ref(shortcut))
    }

    /// True if its thread is inside `lock`, or about to find out that it must not be.
    pub fn is_inside(&self, lock: usize) -> bool {
        // Acquire: pairs with: right/outside.
        self.inside.iter().any(|place| place.load(Ordering::Acquire) == lock)
    }
}

#[cfg(not(loom))]
mod here {
    use super::Visitor;
    use std::sync::Mutex;

    use crate::biased::own_word;
    use crate::fork;
    use crate::locks::lock;

    /// Visitors whose threads have ended.
    static FREE: Mutex<Vec<&'static Visitor>> = Mutex::new(Vec::new());

    /// Gives the visitor back when the thread ends.
    struct Return;

    impl Drop for Return {
        fn drop(&mut self) {
            // In a forked child, whoever has the lock may not be there.
            if let Some(visitor) = known().filter(|_| !fork::is_child()) {
                own_word::set(0);
                lock(&FREE).push(visitor);
            }
        }
    }

    // Apart from the word: a look at what has a destructor would have to ask each time whether it was dropped.
    thread_local!(static RETURN: Return = const { Return });

    #[inline(always)]
    pub fn known() -> Option<&'static Visitor> {
        // The word holds nothing but tokens.
        Visitor::of(own_word::get())
    }

    #[inline]
    pub fn visitor() -> Option<&'static Visitor> {
        known().or_else(first)
    }

    #[cold]
    fn first() -> Option<&'static Visitor> {
        RETURN.try_with(|_| ()).ok()?;
        let free = lock(&FREE).pop();
        let visitor = free.unwrap_or_else(Visitor::new);
        own_word::set(visitor.token());
        Some(visitor)
    }

    #[cfg(all(test, not(miri)))]
    mod tests {
        use super::*;

        #[test]
        fn a_forked_child_ends_whatever_other_threads_were_doing() {
            assert!(visitor().is_some());
            let _elsewhere = lock(&FREE);
            // As its thread does at its end.
            assert!(fork::child_finds(|| {
                drop(Return);
                true
            }));
        }
    }
}

#[cfg(loom)]
mod here {
    use super::Visitor;

    loom::thread_local! {
        static HERE: &'static Visitor = Visitor::new();
    }

    pub fn known() -> Option<&'static Visitor> {
        visitor()
    }

    pub fn visitor() -> Option<&'static Visitor> {
        HERE.try_with(|here| *here).ok()
    }
}
