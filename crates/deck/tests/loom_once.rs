//! Model of results that one member makes for all: whoever takes one sees all of that of its phase, while nobody writes
//! to it.
#![cfg(loom)]

use std::sync::Arc;

use deck::protocols::once::{Once, Turn};
use deck_sync::atomic::{AtomicU64, Ordering};
use loom::cell::UnsafeCell;
use loom::thread;

struct Member {
    /// The last phase to which it has come.
    phase: AtomicU64,
    /// What it has made for all.
    made: AtomicU64,
    /// Loom reports a read and a write of it that no order keeps apart.
    access: UnsafeCell<()>,
}

impl Member {
    fn new() -> Member {
        // All have come to the first one.
        Member { phase: AtomicU64::new(1), made: AtomicU64::new(0), access: UnsafeCell::new(()) }
    }
}

struct Shared {
    members: Vec<Member>,
    words: [AtomicU64; 3],
}

impl Shared {
    /// Member `me` comes to `phase`, waits for all and gets the result. True if it was another one's.
    fn call(&self, me: usize, phase: u64) -> bool {
        self.members[me].phase.store(phase, Ordering::Release);
        for other in &self.members {
            while other.phase.load(Ordering::Acquire) < phase {
                thread::yield_now();
            }
        }
        let [claimed, told, place] = &self.words;
        let once = Once { claimed, told, place };
        match once.turn(phase) {
            Turn::Take { index, place } => {
                assert_eq!(place, phase + 100 * u64::from(index));
                let Member { made, access, .. } = &self.members[index as usize];
                assert_eq!(access.with(|_| made.load(Ordering::Relaxed)), phase);
                index as usize != me
            }
            Turn::Offer => {
                let Member { made, access, .. } = &self.members[me];
                access.with_mut(|_| made.store(phase, Ordering::Relaxed));
                once.offer(phase, me as u32, phase + 100 * me as u64);
                false
            }
            Turn::UnderWay => false,
        }
    }
}

/// So many members call, in so many phases.
fn model(members: usize, phases: u64, preemptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let shared = Arc::new(Shared {
            members: (0..members).map(|_| Member::new()).collect(),
            words: [(); 3].map(|()| AtomicU64::new(0)),
        });
        let call = move |shared: &Shared, me| (1..=phases).filter(|phase| shared.call(me, *phase)).count();
        let others: Vec<_> = (1..members)
            .map(|me| {
                let shared = shared.clone();
                thread::spawn(move || call(&shared, me))
            })
            .collect();
        let taken: usize = call(&shared, 0) + others.into_iter().map(|other| other.join().unwrap()).sum::<usize>();
        assert!(taken <= phases as usize * (members - 1), "one makes it in each phase");
    });
}

/// Seen to fail: with a relaxed store of what is told; with a relaxed look at it.
#[test]
fn what_is_taken_is_that_of_its_phase() {
    model(2, 3, 3);
}

/// Seen to fail: if whoever asks before there is one makes it for all.
#[test]
fn one_makes_it_for_all() {
    model(3, 1, 2);
}
