//! The counter in a shared word: a number that anybody adds to and waits for.

use deck_segment::Words;
use deck_sync::atomic::{AtomicU64, Ordering};
use deck_sync::{Event, barrier};

/// The number, in two's complement.
const VALUE: usize = 0;
/// The event that is notified when it changes.
const CHANGED: usize = 1;
// As `docs/layout/job-table.md` says.
const _: () = assert!(VALUE == 0 && CHANGED == 1);

/// A view of the words of a counter.
#[derive(Clone, Copy)]
pub struct Count<'a>(&'a Words);

impl<'a> Count<'a> {
    /// The counter in these words.
    pub fn new(words: &'a Words) -> Count<'a> {
        Count(words)
    }

    fn word(self) -> &'a AtomicU64 {
        self.0.get(VALUE)
    }

    /// Notified when the number changes.
    pub fn changed(self) -> &'a Event {
        self.0.event(CHANGED)
    }

    /// The number now. What those who added to it did before is visible.
    pub fn read(self) -> i64 {
        // Acquire: pairs with: count/added.
        self.word().load(Ordering::Acquire).cast_signed()
    }

    /// Adds, and gives the new number; `None`, and nothing is added, if there is no such number.
    pub fn add(self, amount: i64) -> Option<i64> {
        let sum = |now: u64| now.cast_signed().checked_add(amount).map(i64::cast_unsigned);
        // AcqRel: pairs with: count/added.
        let before = self.word().fetch_update(Ordering::AcqRel, Ordering::Relaxed, sum).ok()?;
        deck_sync::point("counter/added");
        // Light: pairs with: wait/sleep.
        barrier::light();
        if self.changed().has_sleepers() {
            self.changed().notify();
        }
        before.cast_signed().checked_add(amount)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use deck_segment::Segment;

    #[test]
    fn a_sum_that_does_not_exist_is_not_added() {
        let segment = Segment::create("test", 4096).unwrap();
        segment.allocate(0, 4096).unwrap();
        let words = Words::in_segment(&segment, 0, 8).unwrap();
        let count = Count::new(&words);
        assert_eq!((count.add(i64::MAX), count.add(1), count.read()), (Some(i64::MAX), None, i64::MAX));
        assert_eq!((count.add(i64::MIN), count.add(-3), count.read()), (Some(-1), Some(-4), -4));
    }
}
