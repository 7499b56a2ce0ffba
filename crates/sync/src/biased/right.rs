//! The right of one thread to enter without a locked operation.
//!
//! Such a thread, the *favourite*, says where it is with a plain store in a place of its own, and looks once more
//! whether it is still the favourite: a locked operation would have to wait until its earlier stores (a slot that
//! another core still owns) are visible everywhere. Somebody else who comes takes the right away: it says so, has the
//! kernel run a fence everywhere ([`crate::barrier::heavy_within`]), and looks whether the favourite is inside.
//!
//! The idea is biased locking (Kawachiya, Koseki, Onodera: "Lock reservation", OOPSLA 2002) with membarrier in place of
//! stopping the favourite. `tests/loom_biased.rs` is the model of the lock that builds on it.

use crate::atomic::{AtomicUsize, Ordering};
use crate::barrier;
use crate::biased::visitor::{Place, Visitor};

/// Whose it is to enter.
pub(crate) struct Right {
    /// The token of the thread that enters without a locked operation; 0 if there is none.
    favourite: AtomicUsize,
}

impl Right {
    /// Nobody's.
    pub fn new() -> Right {
        Right { favourite: AtomicUsize::new(0) }
    }

    /// Says that the calling thread is inside `address`, which has this right, until the place is dropped. `None` if it
    /// is not the favourite, or inside too many; it may have looked for a moment as if it were inside.
    #[inline(always)]
    pub fn enter(&self, address: usize) -> Option<Place> {
        let here = Visitor::known()?;
        let me = here.token();
        // Relaxed: only this thread sets it to this value.
        if self.favourite.load(Ordering::Relaxed) != me {
            return None;
        }
        let place = here.enter(address)?;
        // Pairs with: right/take. Either we see that the right is gone, or whoever took it sees us inside.
        barrier::light_within();
        (self.favourite.load(Ordering::Relaxed) == me).then_some(place)
    }

    /// Whether it is the calling thread's. If not, it stays so until that thread asks for it.
    #[inline]
    pub fn is_mine(&self) -> bool {
        Visitor::known().is_some_and(|here| self.favourite.load(Ordering::Relaxed) == here.token())
    }

    /// From now on it is that of the thread with this token, or nobody's. Only for one thread at a time, that nobody
    /// else is inside beside. Where the kernel runs no fences it stays nobody's.
    pub fn give(&self, token: usize) {
        if barrier::is_asymmetric() {
            self.favourite.store(token, Ordering::Relaxed);
        }
    }

    /// Takes it from whoever has it, and tells who that was, who may be inside still: see [`is_inside`]. 0 if it was
    /// nobody's. One thread at a time.
    pub fn take(&self) -> usize {
        let favourite = self.favourite.load(Ordering::Relaxed);
        if favourite != 0 {
            self.favourite.store(0, Ordering::Relaxed);
            // Pairs with: right/take.
            barrier::heavy_within();
        }
        favourite
    }
}

/// What tells the calling thread from all others; `None` while it is ending.
pub(crate) fn token() -> Option<usize> {
    Visitor::here().map(Visitor::token)
}

/// Whether the thread with this token is inside `address`, or about to find out that it must not be. 0 is no thread's.
pub(crate) fn is_inside(token: usize, address: usize) -> bool {
    Visitor::of(token).is_some_and(|visitor| visitor.is_inside(address))
}
