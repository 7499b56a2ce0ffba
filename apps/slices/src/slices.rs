//! Who has which slice: a pure state machine without clocks, messages or threads.
//!
//! ```text
//!             hand_out                finish
//!   waiting ------------> handed out --------> finished
//!      ^                   |      ^ |
//!      +-------------------+      +-+
//!       lose (last holder)        hand_out_again (its holder is slow or stopped)
//! ```
//!
//! Invariants: a finished slice never leaves that state; a slice that is neither waiting nor finished has a holder, so
//! the picture can always be completed as long as one worker lives; a worker holds one slice at most.

use std::collections::BTreeSet;
use std::time::Duration;

/// Number that the master gives to a worker, a computing thread of some node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerId(pub u32);

/// What a delivered result was worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The first result for this slice: it belongs into the picture.
    New,
    /// The slice was finished before: the result is the same and is ignored.
    Duplicate,
}

#[derive(Clone, Debug)]
struct Holder {
    worker: WorkerId,
    since: Duration,
}

#[derive(Clone, Debug, Default)]
struct Slice {
    holders: Vec<Holder>,
    finished: bool,
}

/// The slices of one picture.
#[derive(Debug)]
pub struct Slices {
    slices: Vec<Slice>,
    /// From the top, so that the picture grows in the order in which people look at it.
    waiting: BTreeSet<u32>,
    finished: u32,
    hand_outs: u64,
    /// The longest that a slice took, once one is finished.
    slowest: Option<Duration>,
}

/// A slice is not handed out a second time before this: shorter computations are not worth doing twice.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

impl Slices {
    /// `count` slices, all waiting.
    pub fn new(count: u32) -> Slices {
        Slices {
            slices: vec![Slice::default(); count as usize],
            waiting: (0..count).collect(),
            finished: 0,
            hand_outs: 0,
            slowest: None,
        }
    }

    /// The next waiting slice, now in the hands of `worker`. `now` is the time since the start.
    pub fn hand_out(&mut self, worker: WorkerId, now: Duration) -> Option<u32> {
        let slice = self.waiting.pop_first()?;
        self.give(slice, worker, now);
        Some(slice)
    }

    /// A slice whose holder is stopped, or much slower than any was before (on a starved machine), for `worker` to
    /// compute as well: whichever result comes first counts. The slice that was handed out longest ago goes first,
    /// and no slice goes to more than two workers, of those that are not stopped.
    pub fn hand_out_again(
        &mut self,
        worker: WorkerId,
        now: Duration,
        is_stopped: impl Fn(WorkerId) -> bool,
    ) -> Option<u32> {
        // Before one is finished nobody knows how long a slice takes.
        let patience = self.slowest.map(|slowest| LEAST_PATIENCE.max(slowest * 4));
        let age = |holder: &Holder| now.saturating_sub(holder.since);
        let is_stuck = |holder: &Holder| age(holder) >= LEAST_PATIENCE && is_stopped(holder.worker);
        let is_slow = |holder: &Holder| patience.is_some_and(|patience| age(holder) >= patience);
        let is_overdue = |holders: &[Holder]| match holders {
            [] => false,
            [holder] => is_slow(holder) || is_stuck(holder),
            several => several.iter().all(is_stuck),
        };
        let (_, slice) = (0..)
            .zip(&self.slices)
            .filter(|(_, slice)| !slice.finished && is_overdue(&slice.holders))
            .map(|(number, slice)| (slice.holders.iter().map(|holder| holder.since).min(), number))
            .min()?;
        self.give(slice, worker, now);
        Some(slice)
    }

    fn give(&mut self, slice: u32, worker: WorkerId, now: Duration) {
        self.slices[slice as usize].holders.push(Holder { worker, since: now });
        self.hand_outs += 1;
    }

    /// A result has come from `worker`, which need not be a holder any more: a node that was given up may have posted
    /// before it died.
    ///
    /// # Panics
    /// If there is no such slice: whoever unpacks a message checks that.
    pub fn finish(&mut self, worker: WorkerId, slice: u32, now: Duration) -> Delivery {
        let state = &mut self.slices[slice as usize];
        if let Some(holder) = state.holders.iter().position(|holder| holder.worker == worker) {
            let since = state.holders.swap_remove(holder).since;
            self.slowest = self.slowest.max(Some(now.saturating_sub(since)));
        }
        if std::mem::replace(&mut state.finished, true) {
            return Delivery::Duplicate;
        }
        self.waiting.remove(&slice);
        self.finished += 1;
        Delivery::New
    }

    /// `worker` will deliver nothing any more: its slice waits again unless someone else has it too. Returns how many
    /// slices wait again, 0 or 1.
    pub fn lose(&mut self, worker: WorkerId) -> u32 {
        let mut again = 0;
        for (number, slice) in (0..).zip(&mut self.slices) {
            let before = slice.holders.len();
            slice.holders.retain(|holder| holder.worker != worker);
            if !slice.finished && slice.holders.is_empty() && before > 0 {
                self.waiting.insert(number);
                again += 1;
            }
        }
        again
    }

    /// Whether a slice is in the picture.
    ///
    /// # Panics
    /// If there is no such slice.
    pub fn is_finished(&self, slice: u32) -> bool {
        self.slices[slice as usize].finished
    }

    /// Whether every slice is in the picture.
    pub fn all_finished(&self) -> bool {
        self.finished as usize == self.slices.len()
    }

    /// Slices in the picture.
    pub fn finished(&self) -> u32 {
        self.finished
    }

    /// How many times a slice was handed out beyond the first time. Exact once all are finished.
    pub fn recomputed(&self) -> u64 {
        let first_times = self.slices.len() - self.waiting.len();
        self.hand_outs.saturating_sub(first_times as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const A: WorkerId = WorkerId(0);
    const B: WorkerId = WorkerId(1);
    const START: Duration = Duration::ZERO;

    #[test]
    fn every_slice_is_handed_out_once_from_the_top() {
        let mut slices = Slices::new(3);
        for expected in 0..3 {
            assert_eq!(slices.hand_out(A, START), Some(expected));
            assert_eq!(slices.finish(A, expected, START), Delivery::New);
        }
        assert_eq!(slices.hand_out(A, START), None);
        assert!(slices.all_finished());
        assert_eq!(slices.recomputed(), 0);
    }

    #[test]
    fn a_lost_worker_costs_one_recomputation() {
        let mut slices = Slices::new(2);
        assert_eq!(slices.hand_out(A, START), Some(0));
        assert_eq!(slices.hand_out(B, START), Some(1));
        assert_eq!(slices.lose(A), 1);
        assert_eq!(slices.lose(A), 0, "told twice");
        slices.finish(B, 1, START);
        assert_eq!(slices.hand_out(B, START), Some(0));
        slices.finish(B, 0, START);
        assert!(slices.all_finished());
        assert_eq!(slices.recomputed(), 1);
    }

    #[test]
    fn a_result_that_a_lost_worker_had_posted_counts_once() {
        let mut slices = Slices::new(1);
        slices.hand_out(A, START);
        slices.lose(A);
        assert_eq!(slices.finish(A, 0, START), Delivery::New);
        assert_eq!(slices.hand_out(B, START), None, "nothing left to compute");
        assert_eq!(slices.finish(B, 0, START), Delivery::Duplicate);
        assert_eq!(slices.finished(), 1);
    }

    fn nobody(_: WorkerId) -> bool {
        false
    }

    #[test]
    fn before_a_slice_is_finished_only_a_stopped_holder_is_overtaken() {
        let mut slices = Slices::new(2);
        slices.hand_out(A, START);
        slices.hand_out(B, START);
        let (soon, late) = (Duration::from_millis(500), Duration::from_secs(60));
        let (c, is_b) = (WorkerId(2), |holder| holder == B);
        assert_eq!(slices.hand_out_again(c, late, nobody), None, "slices may take so long");
        assert_eq!(slices.hand_out_again(c, soon, is_b), None, "it may go on");
        assert_eq!(slices.hand_out_again(c, late, is_b), Some(1));
        assert_eq!(slices.finish(c, 1, late), Delivery::New);
        assert_eq!(slices.recomputed(), 1);
    }

    #[test]
    fn a_slice_whose_holders_are_all_stopped_goes_to_a_third_worker() {
        let mut slices = Slices::new(1);
        slices.hand_out(A, START);
        let (late, later) = (Duration::from_secs(60), Duration::from_secs(120));
        assert_eq!(slices.hand_out_again(B, late, |holder| holder == A), Some(0));
        let c = WorkerId(2);
        assert_eq!(slices.hand_out_again(c, later, |holder| holder == A), None, "one of them goes on");
        assert_eq!(slices.hand_out_again(c, late, |_| true), None, "it has just begun");
        assert_eq!(slices.hand_out_again(c, later, |_| true), Some(0));
        assert_eq!(slices.finish(c, 0, later), Delivery::New);
    }

    #[test]
    fn a_slow_holder_is_overtaken_only_after_patience() {
        let mut slices = Slices::new(2);
        slices.hand_out(A, START);
        slices.hand_out(B, START);
        let (half, two) = (Duration::from_millis(500), Duration::from_secs(2));
        slices.finish(B, 1, half);
        assert_eq!(slices.hand_out_again(B, half, nobody), None, "a quarter of the patience");
        assert_eq!(slices.hand_out_again(B, two, nobody), Some(0));
        assert_eq!(slices.hand_out_again(WorkerId(2), two * 9, nobody), None, "two have it already");
        assert_eq!(slices.lose(B), 0, "the first holder still has it");
        assert_eq!(slices.finish(A, 0, two), Delivery::New);
    }

    #[derive(Clone, Debug)]
    enum Event {
        Ask(u32),
        Deliver(u32),
        Die(u32),
        Wait,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            4 => (0u32..6).prop_map(Event::Ask),
            3 => (0u32..6).prop_map(Event::Deliver),
            1 => (1u32..6).prop_map(Event::Die),
            1 => Just(Event::Wait),
        ]
    }

    proptest! {
        /// Whatever happens to the workers 1 to 5, worker 0 finishes the picture, and each slice enters it once.
        #[test]
        fn the_picture_is_completed_through_any_sequence_of_deaths(
            count in 1u32..30, events in proptest::collection::vec(event(), 0..200),
        ) {
            let mut slices = Slices::new(count);
            let mut held = BTreeMap::new();
            let mut picture = BTreeSet::new();
            let mut dead = BTreeSet::new();
            let mut now = Duration::ZERO;
            let finish = (0..).flat_map(|_| [Event::Ask(0), Event::Deliver(0), Event::Wait]).take(count as usize * 6 + 6);
            let deaths = (1..6).map(Event::Die);
            for event in events.into_iter().chain(deaths).chain(finish) {
                match event {
                    Event::Ask(worker) if !dead.contains(&worker) && !held.contains_key(&worker) => {
                        let slice = slices.hand_out(WorkerId(worker), now)
                            .or_else(|| slices.hand_out_again(WorkerId(worker), now, |holder| holder.0 % 2 == 0));
                        if let Some(slice) = slice {
                            prop_assert!(!picture.contains(&slice), "finished slice {slice} handed out");
                            held.insert(worker, slice);
                        }
                    }
                    Event::Deliver(worker) => {
                        if let Some(slice) = held.remove(&worker) {
                            let delivery = slices.finish(WorkerId(worker), slice, now);
                            prop_assert_eq!(delivery == Delivery::New, picture.insert(slice));
                        }
                    }
                    Event::Die(worker) => {
                        let again = slices.lose(WorkerId(worker));
                        prop_assert!(again <= u32::from(held.remove(&worker).is_some()));
                        dead.insert(worker);
                    }
                    Event::Wait => now += Duration::from_secs(3),
                    Event::Ask(_) => {}
                }
                prop_assert_eq!(slices.finished() as usize, picture.len());
            }
            prop_assert!(slices.all_finished());
            prop_assert_eq!(picture.len() as u32, count);
        }
    }
}
