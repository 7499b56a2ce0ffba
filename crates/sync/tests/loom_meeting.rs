//! Whoever passes a phase sees what every member wrote before it arrived, on both levels, and exactly one completes it.
//!
//! Three members in two parties, two phases, counters as they are in a new meeting. Waiting is a loop of looks: the wait
//! loop has a model of its own.
#![cfg(loom)]

use deck_sync::atomic::{AtomicU64, Ordering, pause};
use deck_sync::{Event, Meeting};
use loom::sync::Arc;
use loom::thread;

struct Shared {
    parties: [AtomicU64; 2],
    arrived: AtomicU64,
    complete: AtomicU64,
    changed: Event,
    written: [AtomicU64; 3],
    completed: AtomicU64,
}

const PARTY_OF: [usize; 3] = [0, 0, 1];

fn attend(shared: &Shared, member: usize, phases: u64) {
    let party = PARTY_OF[member];
    let meeting = Meeting {
        party: &shared.parties[party],
        party_members: [2, 1][party],
        arrived: &shared.arrived,
        parties: 2,
        complete: &shared.complete,
        changed: &shared.changed,
    };
    for phase in 1..=phases {
        shared.written[member].store(phase, Ordering::Relaxed);
        if meeting.arrive(phase) {
            shared.completed.fetch_add(1, Ordering::Relaxed);
        }
        while !meeting.is_complete(phase) {
            pause();
        }
        for other in &shared.written {
            assert!(other.load(Ordering::Relaxed) >= phase);
        }
    }
}

fn model(phases: u64) {
    loom::model(move || {
        let zero = || AtomicU64::new(0);
        let shared = Arc::new(Shared {
            parties: [zero(), zero()],
            arrived: zero(),
            complete: zero(),
            changed: Event::new(),
            written: [zero(), zero(), zero()],
            completed: zero(),
        });
        let others: Vec<_> = [1, 2]
            .map(|member| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || attend(&shared, member, phases))
            })
            .into();
        attend(&shared, 0, phases);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(shared.completed.load(Ordering::Relaxed), phases);
    });
}

#[test]
fn all_that_was_written_before_a_phase_is_seen_after_it() {
    model(1);
}
