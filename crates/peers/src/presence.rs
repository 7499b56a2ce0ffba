//! Whether a thread is where its node must not leave under it: in a call that writes to what other nodes have mapped,
//! again and again.
//!
//! As a pledge ([`crate::pledges`]), for calls that are made so often that two locked operations each would be felt: a
//! thread says that it is inside by a plain store. Whoever leaves says so, fences for all threads of the process, and
//! then waits until nobody is inside.

use deck_sync::atomic::{AtomicBool, Ordering};
use deck_sync::barrier;

/// The place of one thread at a time.
#[derive(Debug, Default)]
pub struct Presence {
    is_inside: AtomicBool,
}

impl Presence {
    /// The calling thread is inside from now on, until [`Presence::leave`]; false, and it is not, if its node
    /// `has_left` or begun to. Never blocks.
    #[inline]
    pub fn enter(&self, has_left: &AtomicBool) -> bool {
        self.is_inside.store(true, Ordering::Relaxed);
        // Light: pairs with: presence/leaving. Either leaving sees the thread, or the thread sees leaving.
        barrier::light();
        if has_left.load(Ordering::Relaxed) {
            self.is_inside.store(false, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// The calling thread is outside again; true if its node `has_left` or begun to: somebody may wait for this.
    #[inline]
    #[must_use = "somebody may wait for it"]
    pub fn leave(&self, has_left: &AtomicBool) -> bool {
        // Release: pairs with: presence/inside.
        self.is_inside.store(false, Ordering::Release);
        // Light: pairs with: presence/leaving.
        barrier::light();
        has_left.load(Ordering::Relaxed)
    }

    /// Whether a thread is inside. What one that came out did there is visible. After the node has begun to leave, and
    /// a heavy fence.
    pub fn is_inside(&self) -> bool {
        // Acquire: pairs with: presence/inside.
        self.is_inside.load(Ordering::Acquire)
    }
}
