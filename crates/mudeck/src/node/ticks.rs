//! Whether the control thread comes by: asked by every message that brings a buffer back, answered without waking it
//! unless it has nothing to do at all.

use deck_sync::atomic::{AtomicU32, Ordering};
use deck_sync::barrier;

/// It does not come.
const NONE: u32 = 0;
/// It comes, and finds what was there when it was asked to.
const COMES: u32 = 1;
/// It looks right now, and may have passed by what has come since.
const LOOKS: u32 = 2;

/// Whether the control thread comes by.
#[derive(Debug)]
pub(crate) struct Ticks {
    state: AtomicU32,
}

impl Ticks {
    /// Not before it is wanted.
    pub fn none() -> Ticks {
        Ticks { state: AtomicU32::new(NONE) }
    }

    /// A tick is wanted for what this thread has left. True if the control thread has to be woken for that.
    #[must_use = "it may have to be woken"]
    pub fn want(&self) -> bool {
        // Light fence: pairs with: node/ticks. Either the tick that is seen to come finds what is there, or it is seen
        // to be over.
        barrier::light();
        // Most come by here while it comes anyway: a look costs less than a swap.
        self.state.load(Ordering::Relaxed) != COMES && self.state.swap(COMES, Ordering::Relaxed) == NONE
    }

    /// One tick, which has a `look`: that says whether there is more to do. True if another tick has to follow. For one
    /// thread.
    pub fn tick(&self, look: impl FnOnce() -> bool) -> bool {
        self.state.store(LOOKS, Ordering::Relaxed);
        // Heavy fence: pairs with: node/ticks. Whoever does not see that yet has left what is found below.
        barrier::heavy_within();
        if look() {
            self.state.store(COMES, Ordering::Relaxed);
            return true;
        }
        // It does not come any more, unless it was wanted meanwhile.
        self.state.compare_exchange(LOOKS, NONE, Ordering::Relaxed, Ordering::Relaxed).is_err()
    }
}
