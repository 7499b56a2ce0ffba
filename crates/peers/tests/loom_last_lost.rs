//! Model of the list of those that died last: whoever reads it while others are written down finds those that were,
//! each in its place.
#![cfg(loom)]
#![allow(dead_code, unreachable_pub)]

// The crate itself is not compiled for models: this file needs nothing of the system.
#[path = "../src/names/last_lost.rs"]
mod last_lost;

use std::sync::Arc;

use deck_sync::NodeId;
use deck_sync::atomic::AtomicU64;
use last_lost::{LastLost, Reclaimed, WORDS};
use loom::thread;

/// The `nth` that dies.
fn node(nth: u64) -> NodeId {
    NodeId(nth as u32 + 100)
}

struct Entry {
    count: AtomicU64,
    places: [AtomicU64; WORDS],
}

impl Entry {
    fn last_lost(&self) -> LastLost<'_> {
        LastLost { count: &self.count, places: self.places.each_ref() }
    }
}

/// Seen to fail: without either fence, with a count that is not released or acquired, and where the oldest place is
/// read, too.
#[test]
fn whoever_reads_while_nodes_are_written_down_finds_them_in_their_places() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(|| {
        let entry = Entry { count: AtomicU64::new(0), places: [(); WORDS].map(|()| AtomicU64::new(0)) };
        let before = Reclaimed::KNOWN + 1;
        (0..before).for_each(|nth| entry.last_lost().write(node(nth)));
        let entry = Arc::new(entry);
        let other = entry.clone();
        // The model sees that reads and writes depend on one another where the thread that began later reads.
        let reading = thread::spawn(move || {
            let Reclaimed { count, last } = other.last_lost().read();
            assert!((before..=before + 2).contains(&count));
            assert_eq!(last, (count - Reclaimed::KNOWN..count).map(node).collect::<Vec<_>>());
        });
        for nth in before..before + 2 {
            entry.last_lost().write(node(nth));
        }
        reading.join().unwrap();
        assert_eq!(entry.last_lost().read().count, before + 2);
    });
}
