//! Models of the biased lock: one thread at a time is inside, and sees what the one before it did, however the right to
//! enter freely is won and taken away. Loom's cell notices when two threads touch the value.
#![cfg(loom)]

mod bounded;

use std::sync::Arc;

use deck_sync::Biased;
use loom::thread;

use bounded::bounded;

/// The favourite enters again and again while another thread comes.
///
/// Seen to fail: without the heavy fence; without the light fence; without the second look at the favourite; without
/// the look at whether the favourite is inside; with a relaxed store when it leaves.
#[test]
fn a_favourite_and_another_are_never_inside_together() {
    bounded(4, || {
        let lock = Arc::new(Biased::eager(0u32));
        // From here on this thread is the favourite.
        *lock.lock() += 1;
        let other = {
            let lock = lock.clone();
            thread::spawn(move || *lock.lock() += 1)
        };
        *lock.lock() += 1;
        *lock.lock() += 1;
        other.join().unwrap();
        assert_eq!(*lock.lock(), 4);
    });
}

/// A favourite whose visits leave no guard behind, and another thread that takes the right away.
///
/// Seen to fail: with a visit that leaves its place before it touches the value.
#[test]
fn a_visit_of_the_favourite_is_alone() {
    bounded(4, || {
        let lock = Arc::new(Biased::eager(0u32));
        *lock.lock() += 1;
        let other = {
            let lock = lock.clone();
            thread::spawn(move || *lock.lock() += 1)
        };
        let visits = (0..2).filter(|_| lock.visit_as_favourite(|value| *value += 1).is_some()).count() as u32;
        other.join().unwrap();
        assert_eq!(*lock.lock(), 2 + visits);
        assert!(lock.visit_as_favourite(|_| ()).is_some(), "whoever was inside last is the favourite");
    });
}

/// Two threads become the favourite in turn.
#[test]
fn the_right_moves_from_thread_to_thread() {
    bounded(3, || {
        let lock = Arc::new(Biased::eager(0u32));
        let twice = |lock: Arc<Biased<u32>>| {
            move || {
                *lock.lock() += 1;
                *lock.lock() += 1;
            }
        };
        let first = thread::spawn(twice(lock.clone()));
        let second = thread::spawn(twice(lock.clone()));
        first.join().unwrap();
        second.join().unwrap();
        assert_eq!(*lock.lock(), 4);
    });
}

/// One that only tries goes away when the favourite is inside, and whoever comes next still waits for it.
///
/// Seen to fail: with a `lock` that looks whether the favourite is inside only if it has just taken the right away.
#[test]
fn one_that_tries_in_vain_leaves_no_way_in() {
    bounded(3, || {
        let lock = Arc::new(Biased::eager(0u32));
        *lock.lock() += 1;
        let other = {
            let lock = lock.clone();
            thread::spawn(move || {
                let tried = lock.try_lock().map(|mut value| *value += 1).is_some();
                *lock.lock() += 1;
                u32::from(tried)
            })
        };
        *lock.lock() += 1;
        let tried = other.join().unwrap();
        assert_eq!(*lock.lock(), 3 + tried);
    });
}
