//! Models of a job's barrier, counter, and of the word that decides who creates a segment.
#![cfg(loom)]

use std::sync::Arc;

use deck::shared::{Arrivals, Count, Phase, Registry, Round};
use deck_segment::Words;
use deck_sync::atomic::{AtomicU64, Ordering, pause};
use deck_sync::barrier::without_light;
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

/// The same with those who look again and again: only the word of the arrivals orders what they did.
///
/// Seen to fail: with arrivals that do not acquire, or do not release; with a relaxed look at the round.
#[test]
fn a_barrier_shows_what_all_did_by_its_word_alone() {
    without_light(|| {
        bounded(3, || {
            let words = Words::model(8);
            Arrivals::new(&words).set_size(2).unwrap();
            let done = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let come = |me: usize, words: Words, done: Arc<[AtomicU64; 2]>| {
                move || {
                    done[me].store(1, Ordering::Relaxed);
                    let arrivals = Arrivals::new(&words);
                    if let Some(round) = arrivals.arrive() {
                        while !arrivals.is_over(round) {
                            pause();
                        }
                    }
                    assert_eq!(done[1 - me].load(Ordering::Relaxed), 1);
                }
            };
            let others = [0, 1].map(|me| thread::spawn(come(me, words.clone(), done.clone())));
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    });
}

/// One gives up and finds that the round is over: it sees what the other did before it came.
///
/// Seen to fail: with a look at the round of who gives up that does not acquire.
#[test]
fn whoever_gives_up_too_late_sees_what_the_other_did() {
    without_light(|| {
        bounded(4, || {
            let words = Words::model(8);
            let arrivals = Arrivals::new(&words);
            arrivals.set_size(2).unwrap();
            let round = arrivals.arrive().unwrap();
            let done = Arc::new(AtomicU64::new(0));
            let giving_up = {
                let (words, done) = (words.clone(), done.clone());
                thread::spawn(move || {
                    if !Arrivals::new(&words).withdraw(round) {
                        assert_eq!(done.load(Ordering::Relaxed), 1);
                    }
                })
            };
            done.store(1, Ordering::Relaxed);
            let _ = arrivals.arrive();
            giving_up.join().unwrap();
        });
    });
}

/// One gives up whose round is over, while somebody comes to the next one: that arrival stays.
///
/// Seen to fail: with one that gives up whatever the round is.
#[test]
fn whoever_gives_up_too_late_takes_back_nobody_elses_arrival() {
    bounded(4, || {
        let words = Words::model(8);
        let arrivals = Arrivals::new(&words);
        arrivals.set_size(2).unwrap();
        let round = arrivals.arrive().unwrap();
        let coming = {
            let words = words.clone();
            thread::spawn(move || [(); 2].map(|()| Arrivals::new(&words).arrive().is_some()))
        };
        let gave_up = arrivals.withdraw(round);
        let waits = coming.join().unwrap();
        assert_eq!(waits, if gave_up { [true, false] } else { [false, true] });
        assert_eq!(arrivals.arrived(), u32::from(!gave_up));
    });
}

/// One gives up, and whoever comes then is the first again: what the other did before it gave up is seen by whoever
/// ends the round.
///
/// Seen to fail: with one that gives up and does not release.
#[test]
fn what_was_done_before_giving_up_is_seen_by_whoever_comes_later() {
    without_light(|| {
        bounded(4, || {
            let words = Words::model(8);
            let arrivals = Arrivals::new(&words);
            arrivals.set_size(2).unwrap();
            let round = arrivals.arrive().unwrap();
            let done = Arc::new(AtomicU64::new(0));
            let giving_up = {
                let (words, done) = (words.clone(), done.clone());
                thread::spawn(move || {
                    done.store(1, Ordering::Relaxed);
                    Arrivals::new(&words).withdraw(round)
                })
            };
            let is_first = arrivals.arrive().is_some();
            assert!(!is_first || done.load(Ordering::Relaxed) == 1);
            assert_eq!(giving_up.join().unwrap(), is_first);
        });
    });
}

/// Whoever reads a number sees what those who added to it did before, by the number alone; also who adds.
///
/// Seen to fail: with a relaxed read; with additions that do not acquire, or do not release.
#[test]
fn a_number_shows_what_those_did_who_added_to_it() {
    without_light(|| {
        bounded(3, || {
            let words = Words::model(8);
            let done = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let see = |done: &[AtomicU64; 2], number: i64| {
                let seen = done.iter().filter(|done| done.load(Ordering::Relaxed) == 1).count();
                assert!(seen as i64 >= number);
            };
            let adders = [0, 1].map(|me: usize| {
                let (words, done) = (words.clone(), done.clone());
                thread::spawn(move || {
                    done[me].store(1, Ordering::Relaxed);
                    see(&done, Count::new(&words).add(1).unwrap());
                })
            });
            let reader = {
                let (words, done) = (words.clone(), done.clone());
                thread::spawn(move || see(&done, Count::new(&words).read()))
            };
            adders.into_iter().chain([reader]).for_each(|thread| thread.join().unwrap());
        });
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

/// Whoever finds a segment ready knows its size.
///
/// Seen to fail: with a relaxed look at the state; with one that publishes and does not release.
#[test]
fn whoever_finds_a_segment_ready_knows_its_size() {
    bounded(4, || {
        let words = Words::model(8);
        let looking = {
            let words = words.clone();
            thread::spawn(move || {
                let registry = Registry::new(&words);
                let is_ready = matches!(registry.state().phase, Phase::Ready(_));
                assert!(!is_ready || registry.bytes() == 77);
            })
        };
        let (registry, me) = (Registry::new(&words), NodeId(7));
        let generation = registry.claim(me, &|_| true, &|| false).unwrap();
        assert!(registry.publish(me, generation, me, 77));
        looking.join().unwrap();
    });
}
