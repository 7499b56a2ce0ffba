//! What one node at a time does in the job's table: a word says which one, and a dead one does not count.

use deck_segment::Words;
use deck_sync::atomic::{Ordering, yield_now};
use deck_sync::{Deadline, NodeId};

use super::entries::Seating;

/// Whose turn it is.
#[derive(Clone, Debug)]
pub(crate) struct OneAtATime<S> {
    seating: S,
    /// The node, plus 1, that is inside; 0: nobody.
    word: Words,
}

impl<S: Seating> OneAtATime<S> {
    /// The word says who is inside.
    pub fn new(seating: S, word: Words) -> OneAtATime<S> {
        OneAtATime { seating, word }
    }

    /// Until the guard goes no other thread is inside. What others have done inside is visible. Of who has died inside
    /// nothing may be left half done that the next one does not mend. A node that leaves has to wait for its threads
    /// that are inside: it does not count any more from then on.
    ///
    /// # Errors
    /// The node that was inside all the time until the deadline: it is stopped, or kept from running.
    pub fn enter(&self, me: NodeId, deadline: Deadline) -> Result<Inside<'_>, NodeId> {
        let (word, mine) = (self.word.get(0), u64::from(me.0) + 1);
        let mut now = 0;
        loop {
            // AcqRel: pairs with: one_at_a_time/word.
            match word.compare_exchange(now, mine, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(Inside { word: &self.word, mine }),
                Err(other) => now = other,
            }
            let inside = u32::try_from(now).ok().and_then(|now| now.checked_sub(1)).map(NodeId);
            if let Some(inside) = inside.filter(|inside| self.seating.is_live(*inside)) {
                if deadline.has_passed() {
                    return Err(inside);
                }
                now = 0;
                yield_now();
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
        // Release: pairs with: one_at_a_time/word. In vain if this node does not count as live any more.
        let _ = self.word.get(0).compare_exchange(self.mine, 0, Ordering::Release, Ordering::Relaxed);
    }
}
