//! The barrier in a shared word: how many have arrived, and how often everybody had.
//!
//! Both stand in one word, so the last one to arrive opens the barrier and begins the next round in the same step, and
//! a waiter that gives up takes its arrival back only if its round is not over.

use deck_segment::Words;
use deck_sync::atomic::{AtomicU64, Ordering};
use deck_sync::{Event, barrier};

/// How many have to arrive; 0 until somebody says so.
const SIZE: usize = 0;
/// Round in the upper half, arrived in the lower.
const ARRIVALS: usize = 1;
/// The event that is notified when a round is over.
const OPENED: usize = 2;
// As `docs/layout/job-table.md` says.
const _: () = assert!(SIZE == 0 && ARRIVALS == 1 && OPENED == 2);

/// A round of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round(u32);

/// A view of the words of a barrier.
#[derive(Clone, Copy)]
pub struct Arrivals<'a>(&'a Words);

impl<'a> Arrivals<'a> {
    /// The barrier in these words.
    pub fn new(words: &'a Words) -> Arrivals<'a> {
        Arrivals(words)
    }

    fn word(self) -> &'a AtomicU64 {
        self.0.get(ARRIVALS)
    }

    /// Notified when a round is over.
    pub fn opened(self) -> &'a Event {
        self.0.event(OPENED)
    }

    /// Says how many have to arrive.
    ///
    /// # Errors
    /// What somebody else has said before.
    pub fn set_size(self, size: u32) -> Result<(), u32> {
        match self.0.get(SIZE).compare_exchange(0, u64::from(size), Ordering::Relaxed, Ordering::Relaxed) {
            Err(said) if said != u64::from(size) => Err(said as u32),
            _ => Ok(()),
        }
    }

    /// How many have to arrive; 0 if nobody has said.
    pub fn size(self) -> u32 {
        self.0.get(SIZE).load(Ordering::Relaxed) as u32
    }

    /// How many have arrived in this round.
    pub fn arrived(self) -> u32 {
        self.word().load(Ordering::Relaxed) as u32
    }

    /// Arrives: the round to wait for, or `None` for the last one, which has ended the round.
    pub fn arrive(self) -> Option<Round> {
        let size = self.0.get(SIZE).load(Ordering::Relaxed);
        let mut now = self.word().load(Ordering::Relaxed);
        loop {
            let (round, arrived) = (now >> 32, (now & 0xffff_ffff) + 1);
            let is_last = arrived >= size;
            // Somebody may have scribbled over it.
            let next = if is_last { (round + 1) << 32 } else { now.wrapping_add(1) };
            // AcqRel: pairs with: arrivals/round. What each did before it arrived is before what each does afterwards.
            match self.word().compare_exchange(now, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if is_last => {
                    deck_sync::point("barrier/opened");
                    // Light: pairs with: wait/sleep.
                    barrier::light();
                    self.opened().notify();
                    return None;
                }
                Ok(_) => return Some(Round(round as u32)),
                Err(other) => now = other,
            }
        }
    }

    /// True once the round is over.
    pub fn is_over(self, round: Round) -> bool {
        // Acquire: pairs with: arrivals/round.
        (self.word().load(Ordering::Acquire) >> 32) as u32 != round.0
    }

    /// Takes an arrival back; false if the round is over.
    pub fn withdraw(self, round: Round) -> bool {
        // AcqRel and Acquire: pairs with: arrivals/round. If the round is over, what the others did before they
        // came is visible.
        let taken_back = self.word().fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
            ((now >> 32) as u32 == round.0 && now & 0xffff_ffff > 0).then(|| now - 1)
        });
        taken_back.is_ok()
    }
}
