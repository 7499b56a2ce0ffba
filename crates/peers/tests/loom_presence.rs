//! Models of a thread that is in a call while its node leaves: when leaving goes on it writes nothing more, what it had
//! written is seen, and whoever waits for that sleeps no longer. A lost wake-up shows as a deadlock.
#![cfg(loom)]
#![allow(dead_code, unreachable_pub)]

// The crate itself is not compiled for models: this file needs nothing of the system.
#[path = "../src/presence.rs"]
mod presence;

use std::sync::Arc;

use deck_sync::atomic::{AtomicBool, Ordering, yield_now};
use deck_sync::{Calm, Crowd, Deadline, Event, Waiting, barrier, wait};
use loom::cell::UnsafeCell;
use loom::thread;
use presence::Presence;

#[derive(Default)]
struct Node {
    has_left: AtomicBool,
    presence: Presence,
    /// Notified where a thread came out, as `pledges` does.
    fewer: Event,
    /// What the thread writes to. Loom reports an access that no order keeps apart from it.
    board: UnsafeCell<()>,
}

/// Seen to fail: without either fence, without the second look of who enters, and without release or acquire of the
/// end.
#[test]
fn nothing_is_written_once_the_node_has_left() {
    loom::model(|| {
        let node = Arc::new(Node::default());
        let calling = {
            let node = node.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    if !node.presence.enter(&node.has_left) {
                        return;
                    }
                    node.board.with_mut(|_| ());
                    let _ = node.presence.leave(&node.has_left);
                }
            })
        };
        node.has_left.store(true, Ordering::SeqCst);
        // Pairs with: presence/leaving.
        barrier::heavy_within();
        while node.presence.is_inside() {
            yield_now();
        }
        // From now on the board may be another group's.
        node.board.with_mut(|_| ());
        calling.join().unwrap();
    });
}

struct Outside<'a>(&'a Node);

impl Waiting for Outside<'_> {
    type Output = ();
    fn look(&mut self) -> Option<()> {
        (!self.0.presence.is_inside()).then_some(())
    }
}

/// Loom takes sequentially consistent accesses for weaker than they are, so whoever is refused passes a light fence
/// before it notifies.
///
/// Seen to fail: without the light fence of who comes out; with a thread that is refused and does not tell that it is
/// outside again.
#[test]
fn whoever_leaves_and_sleeps_is_woken_by_the_thread_that_comes_out() {
    loom::model(|| {
        let node = Arc::new(Node::default());
        let leaving = {
            let node = node.clone();
            thread::spawn(move || {
                node.has_left.store(true, Ordering::SeqCst);
                barrier::heavy_within();
                let crowd: Arc<dyn Crowd> = Arc::new(Calm);
                wait(&mut Outside(&node), &[&node.fewer], &crowd, Deadline::NEVER).expect("there is no deadline");
            })
        };
        if !node.presence.enter(&node.has_left) {
            barrier::light();
            node.fewer.notify();
        } else if node.presence.leave(&node.has_left) {
            node.fewer.notify();
        }
        leaving.join().unwrap();
    });
}
