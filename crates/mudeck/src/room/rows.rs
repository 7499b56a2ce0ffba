//! Threads of one node that wait for room in the same ring: of those that need as much one at a time waits for that,
//! the others for their turn. Whoever needs something else waits in another row: what is too little for one may do for
//! another.
//!
//! What tells of room tells of it once, for all of the node. If all waited for that, each credit would wake all of
//! them, most would find nothing, and each would fence for all cores before it sleeps again: with a hundred threads,
//! hundreds of microseconds for each message. So whoever has found room wakes the next one, and nobody else.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use deck_sync::atomic::{AtomicBool, Ordering};
use deck_sync::locks::lock;
use deck_sync::{About, Crowd, Deadline, Event, Interrupted, Waiting, barrier};

/// Where threads come to wait for room, in the order in which they came.
#[derive(Default)]
pub(crate) struct Rows(Mutex<Vec<Row>>);

/// Its first thread waits for room, or has been told to; these are the others.
struct Row {
    need: usize,
    turns: VecDeque<Arc<Turn>>,
}

#[derive(Default)]
struct Turn {
    has_come: AtomicBool,
    told: Event,
}

/// The calling thread is the first of its row, which waits for room, until this is dropped.
#[must_use = "the others wait for it to go"]
pub(crate) struct First<'a> {
    rows: &'a Rows,
    need: usize,
}

struct ForTurn<'a, A> {
    turn: &'a Turn,
    about: About<'a>,
    /// Called once if the thread goes to sleep.
    asleep: Option<A>,
}

impl<A: FnOnce()> Waiting for ForTurn<'_, A> {
    type Output = ();

    fn look(&mut self) -> Option<()> {
        // Acquire: pairs with: rows/turn.
        self.turn.has_come.load(Ordering::Acquire).then_some(())
    }

    fn arm(&mut self) {
        if let Some(asleep) = self.asleep.take() {
            asleep();
        }
    }

    fn about(&self) -> Option<About<'_>> {
        Some(self.about)
    }
}

impl Rows {
    /// Waits until nobody waits for room who came before and needs as much. `asleep` is called before the first sleep,
    /// and those who look on are told what the wait is `about`. Blocks until the deadline.
    ///
    /// # Errors
    /// Why the wait ended.
    pub fn come<'a>(
        &'a self,
        need: usize,
        about: About<'a>,
        asleep: impl FnOnce(),
        crowd: &Arc<dyn Crowd>,
        deadline: Deadline,
    ) -> Result<First<'a>, Interrupted> {
        let first = || First { rows: self, need };
        let turn = {
            let mut rows = lock(&self.0);
            let Some(row) = rows.iter_mut().find(|row| row.need == need) else {
                rows.push(Row { need, turns: VecDeque::new() });
                return Ok(first());
            };
            let turn = Arc::new(Turn::default());
            row.turns.push_back(turn.clone());
            turn
        };
        let mut waiting = ForTurn { turn: &turn, about, asleep: Some(asleep) };
        let waited = deck_sync::wait(&mut waiting, &[&turn.told], crowd, deadline);
        if waited.is_err() {
            lock(&self.0).iter_mut().for_each(|row| row.turns.retain(|other| !Arc::ptr_eq(other, &turn)));
            // Relaxed: told under the lock.
            if turn.has_come.load(Ordering::Relaxed) {
                drop(first());
            }
        }
        waited.map(|()| first())
    }
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        let next = {
            let mut rows = lock(&self.rows.0);
            let Some(place) = rows.iter().position(|row| row.need == self.need) else { return };
            let next = rows[place].turns.pop_front();
            match &next {
                // Release: pairs with: rows/turn.
                Some(next) => next.has_come.store(true, Ordering::Release),
                None => drop(rows.swap_remove(place)),
            }
            next
        };
        if let Some(next) = next {
            // Light: pairs with: wait/sleep.
            barrier::light();
            if next.told.has_sleepers() {
                next.told.notify();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use deck_sync::{Alone, Goal};

    use super::*;
    use crate::testing::{SOON, wait_until};

    fn about<'a>() -> About<'a> {
        About::new(Goal::Room, "")
    }

    #[test]
    fn threads_come_in_turn_and_who_gives_up_keeps_nobody() {
        let (rows, crowd, came) = (Rows::default(), Alone::shared(), Mutex::new(Vec::new()));
        let come = |deadline| rows.come(8, about(), || (), &crowd, deadline);
        let first = come(Deadline::NOW).unwrap();
        assert_eq!(come(Deadline::NOW).err(), Some(Interrupted::Deadline));
        drop(rows.come(9, about(), || (), &crowd, Deadline::NOW).unwrap());
        std::thread::scope(|scope| {
            for number in 0..3 {
                let (come, came) = (&come, &came);
                scope.spawn(move || {
                    let _first = come(Deadline::after(SOON)).unwrap();
                    lock(came).push(number);
                });
                wait_until("it waits for its turn", || lock(&rows.0)[0].turns.len() == number + 1);
            }
            drop(first);
        });
        assert_eq!(*lock(&came), [0, 1, 2]);
        drop(come(Deadline::NOW).unwrap());
        assert!(lock(&rows.0).is_empty());
    }
}
