//! Models of the wait loop and of the asymmetric fence: no wake-up is lost. A lost one shows as a deadlock.
//!
//! Loom knows the futex as one lock and one condition variable, and a wait that does not spin. Weakenings that were
//! seen to fail are named at each model.
#![cfg(loom)]

use std::sync::Arc;

use deck_sync::atomic::{AtomicU64, Ordering};
use deck_sync::{Calm, Crowd, Deadline, Event, Waiting, barrier, wait};
use loom::thread;

/// What is waited for, and whether whoever brings it has to ring: the two words of every handshake in DECK.
struct Door {
    there: AtomicU64,
    hot: AtomicU64,
    event: Event,
}

impl Door {
    fn new(hot: u64) -> Arc<Door> {
        Arc::new(Door { there: AtomicU64::new(0), hot: AtomicU64::new(hot), event: Event::new() })
    }

    /// The side that runs often: no lock, no system call while the door is hot.
    fn bring(&self) {
        self.there.fetch_add(1, Ordering::Release);
        barrier::light();
        if self.hot.load(Ordering::Relaxed) == 0 {
            self.event.notify();
        }
    }

    fn take(&self) -> Option<()> {
        let one_less = |there: u64| there.checked_sub(1);
        self.there.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_less).ok().map(|_| ())
    }
}

/// One of those who wait.
struct Visitor<'a> {
    door: &'a Door,
    /// Tells whoever brings something whether to ring; otherwise it always rings.
    marks: bool,
}

impl Waiting for Visitor<'_> {
    type Output = ();

    fn look(&mut self) -> Option<()> {
        self.door.take()
    }

    fn arm(&mut self) {
        if self.marks {
            self.door.hot.store(0, Ordering::Relaxed);
        }
    }

    fn disarm(&mut self) {
        if self.marks {
            self.door.hot.store(1, Ordering::Relaxed);
        }
    }
}

fn visit(door: &Door, marks: bool) {
    let crowd: Arc<dyn Crowd> = Arc::new(Calm);
    wait(&mut Visitor { door, marks }, &[&door.event], &crowd, Deadline::NEVER).expect("there is no deadline");
}

/// Each side writes its word and reads the other's: with the light fence on one side and the heavy one on the other, at
/// least one of them sees the other.
///
/// Seen to fail: without either fence.
#[test]
fn of_a_light_and_a_heavy_fence_one_side_sees_the_other() {
    loom::model(|| {
        let words = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let often = thread::spawn({
            let words = words.clone();
            move || {
                words.0.store(1, Ordering::Relaxed);
                barrier::light();
                words.1.load(Ordering::Relaxed)
            }
        });
        words.1.store(1, Ordering::Relaxed);
        barrier::heavy();
        let seen = words.0.load(Ordering::Relaxed);
        assert!(often.join().unwrap() == 1 || seen == 1, "neither side saw the other");
    });
}

/// One waits and marks the door cold before it sleeps; one brings something and rings only at a cold door; twice, so
/// that the door is hot again in between.
///
/// Seen to fail: without the heavy fence or without the look after `arm` in `wait`; without the light fence in `bring`;
/// with a `notify` that does not count.
#[test]
fn whoever_rings_only_at_a_cold_door_wakes_the_one_who_marked_it() {
    loom::model(|| {
        let door = Door::new(1);
        let other = thread::spawn({
            let door = door.clone();
            move || {
                door.bring();
                door.bring();
            }
        });
        visit(&door, true);
        visit(&door, true);
        other.join().unwrap();
    });
}

/// Two wait for two things, and one notification has to be enough for both if it comes after both are there.
///
/// Loom takes sequentially consistent accesses for weaker than they are, so the model passes a light fence before it
/// notifies, as rings do.
///
/// Seen to fail: with a wake that wakes one only; without the heavy fence in `wait`; without the light fence; with a
/// count that is noted after the look.
#[test]
fn one_notification_wakes_every_waiter() {
    // Three threads: at most two switches that nobody asked for.
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let door = Door::new(0);
        let visitor = || {
            let door = door.clone();
            thread::spawn(move || visit(&door, false))
        };
        let (first, second) = (visitor(), visitor());
        door.there.store(2, Ordering::Release);
        barrier::light();
        door.event.notify();
        first.join().unwrap();
        second.join().unwrap();
        assert!(!door.event.has_sleepers());
    });
}
