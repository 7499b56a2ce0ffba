//! How many buffers of a heap a node holds, and who is told when these are none.

use std::sync::{Mutex, Weak};

use deck_sync::atomic::{AtomicU32, Ordering};
use deck_sync::locks::lock;

/// Set in the count while somebody is to be told: so whoever lets go of the last buffer sees both at once, and those
/// who let go while nobody is to be told pay nothing for it.
const IS_WATCHED: u32 = 1 << 31;

/// Told when a node has let go of the last buffer of a heap, by the thread that did: must not block.
pub trait Unheld: Send + Sync {
    /// None is held, or none was a moment ago.
    fn unheld(&self);
}

/// The count of a heap.
#[derive(Default)]
pub(crate) struct Held {
    count: AtomicU32,
    watchers: Mutex<Vec<Weak<dyn Unheld>>>,
}

impl Held {
    pub fn count(&self) -> u32 {
        // Acquire: pairs with: heap/held.
        self.count.load(Ordering::Acquire) & !IS_WATCHED
    }

    /// One buffer more. To be called before anybody has a handle of it.
    pub fn add(&self) {
        // AcqRel: pairs with: heap/held.
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// One buffer less.
    pub fn remove(&self) {
        // AcqRel: pairs with: heap/held.
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    /// To be called after [`Held::remove`].
    #[inline]
    pub fn tell(&self) {
        // Relaxed: what this thread has written itself, or later: then whoever has removed the last one comes here,
        // too.
        if self.count.load(Ordering::Relaxed) == IS_WATCHED {
            self.tell_watchers();
        }
    }

    #[cold]
    fn tell_watchers(&self) {
        let watchers = {
            let mut watchers = lock(&self.watchers);
            // AcqRel: pairs with: heap/held.
            self.count.fetch_and(!IS_WATCHED, Ordering::AcqRel);
            std::mem::take(&mut *watchers)
        };
        watchers.iter().filter_map(Weak::upgrade).for_each(|watcher| watcher.unheld());
    }

    /// True if there is any: then `watcher` is told once.
    pub fn watch(&self, watcher: &Weak<dyn Unheld>) -> bool {
        let mut watchers = lock(&self.watchers);
        // AcqRel: pairs with: heap/held. Whoever removes the last one has done so already, or sees that it is watched.
        let is_any = self.count.fetch_or(IS_WATCHED, Ordering::AcqRel) & !IS_WATCHED > 0;
        if is_any && !watchers.iter().any(|other| other.ptr_eq(watcher)) {
            watchers.push(watcher.clone());
        }
        is_any
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Default)]
    struct Watcher(AtomicU32);

    impl Unheld for Watcher {
        fn unheld(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn watcher() -> (Arc<Watcher>, Weak<dyn Unheld>) {
        let watcher = Arc::new(Watcher::default());
        let weak: Weak<Watcher> = Arc::downgrade(&watcher);
        (watcher, weak)
    }

    #[test]
    fn each_watcher_is_told_once_when_the_last_buffer_goes() {
        let held = Held::default();
        let [(first, told_first), (second, told_second)] = [watcher(), watcher()];
        assert!(!held.watch(&told_first), "there is none");
        let change = |by: i32| {
            (0..by).for_each(|_| held.add());
            (by..0).for_each(|_| {
                held.remove();
                held.tell();
            });
            (first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed))
        };
        change(2);
        assert!(held.watch(&told_first) && held.watch(&told_first) && held.watch(&told_second));
        assert_eq!(held.count(), 2);
        assert_eq!(change(-1), (0, 0));
        assert_eq!(change(-1), (1, 1));
        change(1);
        assert_eq!(change(-1), (1, 1), "nobody asked again");
        change(1);
        assert!(held.watch(&told_first));
        assert_eq!(change(-1), (2, 1));
    }

    #[test]
    fn whoever_watches_is_told_however_it_meets_with_those_who_let_go() {
        let (watcher, told) = watcher();
        let held = Held::default();
        for round in 0..if cfg!(miri) { 20 } else { 2000 } {
            let before = watcher.0.load(Ordering::Relaxed);
            held.add();
            let was_held = std::thread::scope(|scope| {
                scope.spawn(|| {
                    held.remove();
                    held.tell();
                });
                held.watch(&told)
            });
            assert_eq!(watcher.0.load(Ordering::Relaxed) - before, u32::from(was_held), "round {round}");
        }
    }
}
