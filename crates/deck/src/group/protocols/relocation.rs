//! A place that may change while others read there: its owner says where to look from now on, before it writes anything
//! else where they have looked.
//!
//! It is a sequence lock (Lameter, 2005; as in Linux) whose number is the place itself: what was read counts only if
//! the place is still the same afterwards. A place comes back while somebody reads only if what lies there is the same
//! as before: the array of a program that has left its call for a while, had no memory for a copy, and leaves its array
//! as it is, as it is told to.

use deck_sync::atomic::{AtomicU64, Ordering, fence};

/// Looks at a place that changes, at most: an owner changes it twice while others may read, or more often if it comes
/// and goes.
const LOOKS: u32 = 3;

/// From now on what lay somewhere lies at `to`, which is written already. What it lay in may be written to afterwards.
/// Never blocks.
pub fn moved(place: &AtomicU64, to: u64) {
    // Release: pairs with: relocation/place.
    place.store(to, Ordering::Release);
    // Whoever reads what is written after this finds the new place. Pairs with: relocation/read.
    fence(Ordering::SeqCst);
}

/// What `read` has read at the place where it lay before and after. `None` if the place has changed too often. Never
/// blocks.
pub fn read_settled<T>(place: &AtomicU64, mut read: impl FnMut(u64) -> T) -> Option<T> {
    // Acquire: pairs with: relocation/place.
    let mut at = place.load(Ordering::Acquire);
    for _ in 0..LOOKS {
        let found = read(at);
        // Pairs with: relocation/read.
        fence(Ordering::Acquire);
        // Acquire: pairs with: relocation/place.
        let now = place.load(Ordering::Acquire);
        if now == at {
            return Some(found);
        }
        at = now;
    }
    None
}
