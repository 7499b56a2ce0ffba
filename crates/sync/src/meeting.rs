//! Phases that a fixed number of members pass together, counted on two levels.
//!
//! Members are divided into parties (the threads of one node). Whoever arrives adds one to its party's count; the last of
//! a party adds one to the count of parties; the last of all opens the phase and wakes who sleeps. Nobody is a leader by
//! name: with more members than cores no arrival waits for one certain thread to get a core, so a phase costs each member
//! one turn. Counts only grow, so that nothing is ever reset while a late member looks at it. The combining of arrivals is
//! that of a software combining tree (Yew, Tzeng, Lawrie, 1987) with two levels; the release is the one word of a
//! central barrier (Mellor-Crummey, Scott, 1991), whose phase number takes the place of a sense.

use crate::Event;
use crate::atomic::{AtomicU64, Ordering};

/// The words of a meeting, in memory that all members reach.
#[derive(Clone, Copy, Debug)]
pub struct Meeting<'a> {
    /// Arrivals in the caller's party, of all phases.
    pub party: &'a AtomicU64,
    /// Members of that party.
    pub party_members: u64,
    /// Arrivals of whole parties, of all phases.
    pub arrived: &'a AtomicU64,
    /// How many parties there are.
    pub parties: u64,
    /// The last phase that is complete.
    pub complete: &'a AtomicU64,
    /// Notified when a phase is complete.
    pub changed: &'a Event,
}

impl Meeting<'_> {
    /// The caller arrives at `phase`: the first is 1, and each member arrives at each phase once, after the one before is
    /// complete. True for the one that completes it. Never blocks.
    pub fn arrive(&self, phase: u64) -> bool {
        // AcqRel: pairs with: meeting/arrive. Whoever comes last has seen all that the others wrote before they arrived.
        let in_party = self.party.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        if in_party != phase.wrapping_mul(self.party_members) {
            return false;
        }
        // AcqRel: pairs with: meeting/arrive.
        let of_parties = self.arrived.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        if of_parties != phase.wrapping_mul(self.parties) {
            return false;
        }
        // Release: pairs with: meeting/complete.
        self.complete.store(phase, Ordering::Release);
        self.changed.notify();
        true
    }

    /// True once every member has arrived at `phase`: all that they wrote before is visible then.
    #[inline]
    pub fn is_complete(&self, phase: u64) -> bool {
        // Acquire: pairs with: meeting/complete.
        self.complete.load(Ordering::Acquire) >= phase
    }
}
