//! Phases that a fixed number of members pass together.
//!
//! Members are divided into parties. Each party has a flag, which tells the last phase that the whole party has
//! reached; everybody looks at all flags. A party of one raises its flag itself: a single store into a line of its own,
//! which may carry what the member has to say as well. In a larger party the members count themselves first, and the
//! last one raises the flag. Nobody is a leader by name: with more members than cores no arrival waits for one certain
//! thread to get a core, so a phase costs each member one turn. Flags and counts only grow, so that nothing is ever
//! reset while a late member looks at it. Counting in parties is the combining of arrivals of Yew, Tzeng and Lawrie
//! (1987) with two levels; flags that all look at are the all-to-all form of the dissemination barrier (Hensgen,
//! Finkel, Manber, 1988).
//!
//! Arriving costs no locked operation for a party of one. A member that goes to sleep announces itself at the event,
//! passes a heavy fence and looks again; whoever arrives passes a light fence and looks for sleepers, and wakes them if
//! nobody else is missing.

use crate::Event;
use crate::atomic::{AtomicU64, Ordering, fence};
use crate::barrier;

/// The words of a meeting, in memory that all members reach.
#[derive(Clone, Copy, Debug)]
pub struct Meeting<'a, F> {
    /// The flag of a party for a phase: one word for all phases, or one for the odd and one for the even.
    pub flag: F,
    /// How many parties there are.
    pub parties: usize,
    /// The caller's.
    pub own: usize,
    /// Arrivals in the caller's party, of all phases, and how many members it has; `None` for a party of one.
    pub counter: Option<(&'a AtomicU64, u64)>,
    /// What members sleep on.
    pub changed: &'a Event,
}

impl<'a, F: Fn(usize, u64) -> &'a AtomicU64> Meeting<'a, F> {
    /// The caller arrives at `phase`: the first is 1, and each member arrives at each phase once, after the one before
    /// is complete. Never blocks.
    #[inline]
    pub fn arrive(&self, phase: u64) {
        if let Some((counter, members)) = self.counter {
            // Release: pairs with: meeting/counter. Each publishes what it wrote before.
            // Acquire: pairs with: meeting/counter. Whoever comes last has seen all of it.
            let arrived = counter.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
            if arrived != phase.wrapping_mul(members) {
                return;
            }
        }
        // Release: pairs with: meeting/flag. Before the fence of `wake`: pairs with: meeting/wake.
        (self.flag)(self.own, phase).store(phase, Ordering::Release);
        // Light: pairs with: wait/sleep.
        barrier::light();
        if self.changed.has_sleepers() {
            self.wake(phase);
        }
    }

    #[cold]
    fn wake(&self, phase: u64) {
        // SeqCst: pairs with: meeting/wake. Of two that arrive at the same time and see sleepers, at least one sees
        // both flags.
        fence(Ordering::SeqCst);
        if self.is_complete(phase, &mut 0) {
            self.changed.notify();
        }
    }

    /// True once every member has arrived at `phase`, which the caller has: all that they wrote before is visible then.
    /// `seen` is 0 at first and remembers how far the looks at this phase have come.
    #[inline]
    pub fn is_complete(&self, phase: u64, seen: &mut usize) -> bool {
        while *seen < self.parties {
            // A party of one is its caller. Its flag is in the cache of whoever has read it last, and would have to be
            // fetched from there.
            let is_caller = *seen == self.own && self.counter.is_none();
            // Acquire: pairs with: meeting/flag.
            if !is_caller && (self.flag)(*seen, phase).load(Ordering::Acquire) < phase {
                return false;
            }
            *seen += 1;
        }
        true
    }
}
