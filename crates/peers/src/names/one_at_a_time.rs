//! What one node at a time does in the job's table: a word says which one, and a dead one does not count.

use std::time::Duration;

use deck_segment::Words;
use deck_sync::atomic::{Ordering, yield_now};
use deck_sync::{Deadline, NodeId};

use super::entries::Seating;

/// Bits of the word that say who is inside. Those above count the turns.
const WHO_BITS: u32 = 32;
const WHO: u64 = (1 << WHO_BITS) - 1;

/// Whose turn it is.
#[derive(Clone, Debug)]
pub(crate) struct OneAtATime<S> {
    seating: S,
    /// The node, plus 1, that is inside, or 0; and how many have been.
    word: Words,
}

impl<S: Seating> OneAtATime<S> {
    /// The word says who is inside.
    pub fn new(seating: S, word: Words) -> OneAtATime<S> {
        OneAtATime { seating, word }
    }

    /// Until the guard goes no other thread is inside. What others have done inside is visible. Of who has died inside
    /// nothing may be left half done that the next one does not mend. A node that leaves has to wait for its threads
    /// that are inside: it does not count any more from then on. Others may be faster for as long as they take turns.
    ///
    /// # Errors
    /// The node that was inside, in the same turn, for as long as this is to be `patient`: it is stopped, or kept from
    /// running.
    pub fn enter(&self, me: NodeId, patient: Duration) -> Result<Inside<'_>, NodeId> {
        let word = self.word.get(0);
        let (mut now, mut same, mut until) = (0, None, Deadline::after(patient));
        loop {
            let inside = u32::try_from(now & WHO).ok().and_then(|who| who.checked_sub(1)).map(NodeId);
            if let Some(inside) = inside.filter(|inside| self.seating.is_live(*inside)) {
                if same != Some(now) {
                    (same, until) = (Some(now), Deadline::after(patient));
                } else if until.has_passed() {
                    return Err(inside);
                }
                yield_now();
                // Relaxed: whoever finds nobody inside looks again below.
                now = word.load(Ordering::Relaxed);
                continue;
            }
            let mine = (now >> WHO_BITS).wrapping_add(1) << WHO_BITS | (u64::from(me.0) + 1);
            // AcqRel: pairs with: one_at_a_time/word.
            match word.compare_exchange(now, mine, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok(Inside { word: &self.word, mine }),
                Err(other) => now = other,
            }
        }
    }
}

/// The calling thread is inside.
#[must_use = "it is inside until this is dropped"]
pub(crate) struct Inside<'a> {
    word: &'a Words,
    mine: u64,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let nobody = self.mine & !WHO;
        // Release: pairs with: one_at_a_time/word. In vain if this node does not count as live any more.
        let _ = self.word.get(0).compare_exchange(self.mine, nobody, Ordering::Release, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Instant;

    use deck_segment::{Seat, Segment};

    use super::*;

    const PATIENT: Duration = Duration::from_millis(5);

    /// Everybody is there; with each look at that, nodes go on with their turns, as long as they take them.
    struct Busy {
        word: Words,
        until: Option<Instant>,
    }

    impl Seating for Busy {
        fn node_on(&self, _: Seat) -> Option<NodeId> {
            None
        }

        fn is_live(&self, _: NodeId) -> bool {
            if let Some(until) = self.until {
                let (word, is_over) = (self.word.get(0), Instant::now() > until);
                let next = (word.load(Ordering::Relaxed) >> WHO_BITS).wrapping_add(1) << WHO_BITS;
                word.store(if is_over { next } else { next | 8 }, Ordering::Relaxed);
            }
            true
        }
    }

    fn turns(until: Option<Instant>) -> OneAtATime<Busy> {
        let segment = Segment::create("test", 4096).unwrap();
        segment.allocate(0, 4096).unwrap();
        let word = Words::in_segment(&segment, 0, 1).unwrap();
        word.get(0).store(8, Ordering::Relaxed);
        OneAtATime::new(Busy { word: word.clone(), until }, word)
    }

    #[test]
    fn whoever_stays_inside_is_told_and_turns_that_pass_are_waited_for() {
        assert_eq!(turns(None).enter(NodeId(1), PATIENT).err(), Some(NodeId(7)));
        let passing = turns(Some(Instant::now() + 10 * PATIENT));
        let Ok(inside) = passing.enter(NodeId(1), PATIENT) else { panic!("they go on") };
        assert_eq!(passing.word.get(0).load(Ordering::Relaxed) & WHO, 2);
        drop(inside);
        assert_eq!(passing.word.get(0).load(Ordering::Relaxed) & WHO, 0);
    }
}
