//! Model of a thread that is in a call while its node leaves: when leaving goes on it writes nothing more, and what it
//! had written is seen.
#![cfg(loom)]
#![allow(dead_code, unreachable_pub)]

// The crate itself is not compiled for models: this file needs nothing of the system.
#[path = "../src/presence.rs"]
mod presence;

use std::sync::Arc;

use deck_sync::atomic::{AtomicBool, Ordering, yield_now};
use deck_sync::barrier;
use loom::cell::UnsafeCell;
use loom::thread;
use presence::Presence;

#[derive(Default)]
struct Node {
    has_left: AtomicBool,
    presence: Presence,
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
        barrier::heavy();
        while node.presence.is_inside() {
            yield_now();
        }
        // From now on the board may be another group's.
        node.board.with_mut(|_| ());
        calling.join().unwrap();
    });
}
