//! An event count: what threads sleep on, inside one process or across several.
//!
//! A waiter notes the count ([`Event::prepare`]), looks once more at what it waits for, and sleeps while the count is
//! unchanged. Whoever makes the awaited thing true notifies afterwards. A notification between the look and the sleep
//! changes the count, so the sleep ends at once: no wake-up is lost. Notifying costs one atomic addition and, only if
//! somebody sleeps, one system call.
//!
//! The layout is part of the segment layouts (`docs/layout`): count at byte 0, sleepers at byte 4.

use crate::atomic::{AtomicU32, Ordering};
use crate::futex;

/// An event count in memory that may be shared between processes. Any bit pattern is valid.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Event {
    /// Changes with every notification. Written by anybody.
    count: AtomicU32,
    /// How many threads sleep or are about to. A dead process may leave it too high, which costs a needless wake only.
    sleepers: AtomicU32,
}

impl Event {
    /// A new event that nobody waits for.
    pub fn new() -> Event {
        Event::default()
    }

    /// One at which somebody sleeps, for models of whoever is to notify it.
    #[cfg(loom)]
    pub fn with_sleeper() -> Event {
        Event { count: AtomicU32::new(0), sleepers: AtomicU32::new(1) }
    }

    /// Announces a sleeper and returns the count to sleep on. To be balanced with [`Event::done`].
    pub(crate) fn prepare(&self) {
        // Pairs with: event/notify. The addition is before the next look at the condition in the single order of
        // SeqCst.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
    }

    /// The count now.
    pub fn count(&self) -> u32 {
        // Pairs with: event/notify.
        self.count.load(Ordering::SeqCst)
    }

    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.count
    }

    pub(crate) fn done(&self) {
        // Pairs with: event/notify. Who sees it late wakes nobody, in vain.
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// True if somebody sleeps or is about to.
    pub fn has_sleepers(&self) -> bool {
        // Pairs with: event/notify. What was fenced before is seen by whoever announces itself after this.
        self.sleepers.load(Ordering::SeqCst) != 0
    }

    /// Tells every waiter to look again. Never blocks.
    pub fn notify(&self) {
        self.notify_some(u32::MAX);
    }

    /// Tells one waiter to look again.
    pub fn notify_one(&self) {
        self.notify_some(1);
    }

    fn notify_some(&self, count: u32) {
        // Pairs with: event/notify. What the waiter looks for was stored before; the addition orders it before the
        // load.
        self.count.fetch_add(1, Ordering::SeqCst);
        // Pairs with: event/notify. Whoever announces itself after this finds the count changed, or what it looks for.
        if self.sleepers.load(Ordering::SeqCst) != 0 {
            futex::wake(&self.count, count);
        }
    }
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Event>() == 8 && align_of::<Event>() == 4);
