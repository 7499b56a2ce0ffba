//! Models of a job's barrier, counter, and of the word that decides who creates a segment.
#![cfg(loom)]

use std::sync::Arc;

use deck::shared::{Arrivals, Count, Phase, Registry, Round};
use deck_segment::Words;
use deck_sync::atomic::{AtomicU64, Ordering};
use deck_sync::{Calm, Crowd, Deadline, NodeId, Waiting, wait};
use loom::thread;

fn bounded(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}

struct Until<F>(F);

impl<F: FnMut() -> bool> Waiting for Until<F> {
    type Output = ();
    fn look(&mut self) -> Option<()> {
        (self.0)().then_some(())
    }
}

fn pass(words: &Words) {
    let crowd: Arc<dyn Crowd> = Arc::new(Calm);
    let arrivals = Arrivals::new(words);
    let Some(round) = arrivals.arrive() else { return };
    wait(&mut Until(|| arrivals.is_over(round)), &[arrivals.opened()], &crowd, Deadline::NEVER).unwrap();
}

/// Two pass twice, and each sees what the other did before it came.
///
/// Seen to fail: with relaxed arrivals; without the wake-up of the last one.
#[test]
fn a_barrier_opens_for_all_and_shows_what_they_did() {
    bounded(3, || {
        let words = Words::model(8);
        Arrivals::new(&words).set_size(2).unwrap();
        let done = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let come = |me: usize, words: Words, done: Arc<[AtomicU64; 2]>| {
            move || {
                for round in 1..=2 {
                    done[me].store(round, Ordering::Relaxed);
                    pass(&words);
                    assert!(done[1 - me].load(Ordering::Relaxed) >= round);
                }
            }
        };
        let other = thread::spawn(come(1, words.clone(), done.clone()));
        come(0, words, done)();
        other.join().unwrap();
    });
}

/// One gives up while the other comes: either both are through, or neither counts.
#[test]
fn an_arrival_is_taken_back_or_has_counted() {
    bounded(4, || {
        let words = Words::model(8);
        Arrivals::new(&words).set_size(2).unwrap();
        let other = {
            let words = words.clone();
            thread::spawn(move || -> Option<Round> { Arrivals::new(&words).arrive() })
        };
        let arrivals = Arrivals::new(&words);
        let mine = arrivals.arrive();
        let gave_up = mine.is_some_and(|round| arrivals.withdraw(round));
        let theirs = other.join().unwrap();
        match (gave_up, theirs) {
            (true, Some(round)) => assert!(!arrivals.is_over(round) && arrivals.arrived() == 1),
            (true, None) => panic!("the round was over without both"),
            (false, theirs) => assert_eq!((theirs.is_none(), arrivals.arrived()), (mine.is_some(), 0)),
        }
    });
}

/// Whoever waits for a number wakes when it is reached and sees what those who added did before.
///
/// Seen to fail: without the light fence before the look for sleepers.
#[test]
fn a_counter_wakes_whoever_it_is_enough_for() {
    bounded(3, || {
        let words = Words::model(8);
        let done = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let adders = [0, 1].map(|me: usize| {
            let (words, done) = (words.clone(), done.clone());
            thread::spawn(move || {
                done[me].store(1, Ordering::Relaxed);
                Count::new(&words).add(1).unwrap();
            })
        });
        let crowd: Arc<dyn Crowd> = Arc::new(Calm);
        let count = Count::new(&words);
        wait(&mut Until(|| count.read() >= 2), &[count.changed()], &crowd, Deadline::NEVER).unwrap();
        assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1));
        adders.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Two create a segment whose last user has gone: one of them does, in the next generation.
#[test]
fn a_name_is_claimed_by_one() {
    bounded(4, || {
        let words = Words::model(8);
        let create = |me: u32, words: Words| {
            move || {
                let registry = Registry::new(&words);
                let generation = registry.claim(NodeId(me), &|_| true, &|| false).ok()?;
                registry.publish(NodeId(me), generation, NodeId(me), u64::from(me));
                Some(generation)
            }
        };
        // Until it is published, or also after that, as nobody holds it, the other one may come.
        let other = thread::spawn(create(7, words.clone()));
        let generations = [create(8, words.clone())(), other.join().unwrap()];
        assert!(generations.iter().any(Option::is_some) && generations[0] != generations[1]);
        let state = Registry::new(&words).state();
        let Phase::Ready(home) = state.phase else { panic!("{state:?}") };
        assert_eq!(u64::from(home.0), Registry::new(&words).bytes());
    });
}
