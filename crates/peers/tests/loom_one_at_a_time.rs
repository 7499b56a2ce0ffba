//! Model of what one node at a time does in a job's table: two threads are never inside at once, each sees what the one
//! before did, and one that has died inside keeps nobody out.
#![cfg(loom)]
#![allow(dead_code, unreachable_pub)]

// The crate itself is not compiled for models: these two files need nothing of the system.
#[path = "../src/names/entries.rs"]
mod entries;
#[path = "../src/names/one_at_a_time.rs"]
mod one_at_a_time;

use std::sync::Arc;
use std::time::Duration;

use deck_segment::{Seat, Words};
use deck_sync::NodeId;
use deck_sync::atomic::{AtomicU64, Ordering};
use entries::Seating;
use loom::cell::UnsafeCell;
use loom::thread;
use one_at_a_time::OneAtATime;

const DEAD: u32 = 9;

/// Everybody is there but one.
#[derive(Clone, Debug)]
struct Job;

impl Seating for Job {
    fn node_on(&self, Seat(seat): Seat) -> Option<NodeId> {
        Some(NodeId(u32::from(seat)))
    }

    fn is_live(&self, node: NodeId) -> bool {
        node != NodeId(DEAD)
    }
}

/// What is done inside. Loom reports two accesses that no order keeps apart.
struct Work {
    turns: OneAtATime<Job>,
    done: AtomicU64,
    access: UnsafeCell<()>,
}

impl Work {
    fn add(&self, node: u32) {
        let _inside = self.turns.enter(NodeId(node), Duration::MAX).unwrap();
        self.access.with_mut(|_| {
            let done = self.done.load(Ordering::Relaxed);
            self.done.store(done + 1, Ordering::Relaxed);
        });
    }
}

/// Seen to fail: with an entry that does not acquire, with an end that does not release, and where a live node's turn
/// is taken.
#[test]
fn two_are_never_inside_at_once_also_after_one_that_died_inside() {
    for last in [0, u64::from(DEAD) + 1] {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(4);
        builder.check(move || {
            let word = Words::model(1);
            word.get(0).store(last, Ordering::Relaxed);
            let work = Work { turns: OneAtATime::new(Job, word), done: AtomicU64::new(0), access: UnsafeCell::new(()) };
            let work = Arc::new(work);
            let other = work.clone();
            let other = thread::spawn(move || other.add(2));
            work.add(1);
            other.join().unwrap();
            assert_eq!(work.done.load(Ordering::Relaxed), 2);
        });
    }
}
