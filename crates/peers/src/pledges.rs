//! Threads of this node that count in the words of a named thing, and take that back when the node leaves; and those
//! that are in calls ([`crate::presence`]).
//!
//! Nobody else can take it back: others see only that the node has left in order, and go on. So leaving comes after it.
//! It is a matter of a look for a thread that is awake, and of a wake-up for one that sleeps.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use deck_sync::atomic::{AtomicU32, Ordering};
use deck_sync::cancellation::postponed_while;
use deck_sync::locks::lock;
use deck_sync::{About, Deadline, Event, Goal, barrier};

use crate::membership::{Membership, Until};
use crate::presence::Presence;

/// Whoever does not come out within this time is stopped where it is, and the node counts as lost ...
const KEPT_WITHIN: Duration = Duration::from_secs(1);
/// ... unless it was the whole process that was stopped: then all have so much more.
const ONCE_MORE: Duration = Duration::from_millis(200);

/// How many threads of a node are inside.
#[derive(Debug, Default)]
pub(crate) struct Pledges {
    inside: AtomicU32,
    presences: Mutex<Vec<Weak<Presence>>>,
    fewer: Event,
}

/// While it lives, the node does not leave.
pub struct Pledge<'a>(&'a Membership);

impl Membership {
    /// The calling thread is going to count for something until it drops the guard, and has waits in between end when
    /// the node leaves. `None` once the node has left or begun to. Never blocks.
    pub fn pledge(&self) -> Option<Pledge<'_>> {
        // SeqCst: pairs with: pledges/leaving. Either leaving sees the thread or the thread sees leaving.
        self.pledges.inside.fetch_add(1, Ordering::SeqCst);
        let pledge = Pledge(self);
        // SeqCst: pairs with: pledges/leaving.
        (!self.has_left.load(Ordering::SeqCst)).then_some(pledge)
    }

    /// The place of a thread whose calls the node does not leave under. Never blocks.
    pub fn presence(&self) -> Arc<Presence> {
        let presence = Arc::new(Presence::default());
        let mut presences = lock(&self.pledges.presences);
        presences.retain(|presence| presence.strong_count() > 0);
        presences.push(Arc::downgrade(&presence));
        presence
    }

    /// The calling thread is inside from now on; false, and it is not, once the node has left or begun to. Never
    /// blocks.
    #[inline]
    pub fn enter(&self, presence: &Presence) -> bool {
        let has_entered = presence.enter(&self.has_left);
        if !has_entered {
            // For a moment it looked as if it had.
            self.pledges.fewer.notify();
        }
        has_entered
    }

    /// The calling thread is outside again. Never blocks.
    #[inline]
    pub fn step_out(&self, presence: &Presence) {
        if presence.leave(&self.has_left) {
            self.pledges.fewer.notify();
        }
    }

    /// Leaving has begun: waits until all threads that counted have taken that back, and those in calls have come out.
    /// False if one does not.
    pub(crate) fn redeem_pledges(&self) -> bool {
        // Heavy: pairs with: presence/leaving. Nobody looks again: the fence of all processes may miss a core.
        barrier::heavy_within();
        let is_inside = |presence: &Weak<Presence>| presence.upgrade().is_some_and(|presence| presence.is_inside());
        // SeqCst: pairs with: pledges/leaving.
        let has_none = || self.pledges.inside.load(Ordering::SeqCst) == 0;
        let is_redeemed = || has_none() && !lock(&self.pledges.presences).iter().any(is_inside);
        if is_redeemed() {
            return true;
        }
        // Light: pairs with: wait/sleep.
        barrier::light();
        self.table.changed().notify();
        let wait = |within| {
            let deadline = Deadline::after(within);
            let attempt = || {
                let mut until = Until(|| is_redeemed().then_some(()), About::new(Goal::Join, ""));
                deck_sync::wait(&mut until, &[&self.pledges.fewer], self.crowd(), deadline)
            };
            // Leaving cannot be cancelled.
            postponed_while(attempt, |interrupted| interrupted.kind()).is_ok()
        };
        wait(KEPT_WITHIN) || wait(ONCE_MORE)
    }
}

impl Drop for Pledge<'_> {
    fn drop(&mut self) {
        // SeqCst: pairs with: pledges/leaving. Whoever leaves sees that nobody is inside, or is told.
        self.0.pledges.inside.fetch_sub(1, Ordering::SeqCst);
        // SeqCst: pairs with: pledges/leaving.
        if self.0.has_left.load(Ordering::SeqCst) {
            self.0.pledges.fewer.notify();
        }
    }
}

impl std::fmt::Debug for Pledge<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pledge({})", self.0.number())
    }
}
