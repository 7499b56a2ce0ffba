//! Models of the ring: one or two threads of a node post, another node retrieves.
//!
//! Everything runs on the code that ships; only the memory is loom's, and rings are as small as they can be (4 slots, 1
//! or 2 messages), so that few messages go more than once around. Weakenings that were seen to fail are named at each
//! model.
#![cfg(loom)]

mod loom_memory;

use std::sync::Arc;

use deck_sync::atomic::{Ordering, pause};
use deck_transport::segment::ring::credit;
use deck_transport::{Parcel, Sender};
use loom::thread;

use loom_memory::{Ends, Memory, bounded, message, number, small, wide};

/// Retrieves `count` messages, looking again and again.
fn retrieve_all(ends: &mut Ends, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        match ends.take() {
            Some(parcel) => numbers.push(number(&parcel)),
            None => pause(),
        }
    }
    assert!(ends.take().is_none(), "more messages than were posted");
    numbers
}

/// One thread posts what `make` makes of the numbers up to `count`.
fn post_over_laps((sender, mut ends): (Sender<Memory>, Ends), count: u64, make: fn(u64) -> Parcel) {
    ends.receiver.set_hot(true);
    let poster = thread::spawn(move || {
        for value in 0..count {
            let parcel = make(value);
            while sender.post(&parcel).is_err() {
                pause();
            }
        }
    });
    assert_eq!(retrieve_all(&mut ends, count as usize), (0..count).collect::<Vec<_>>());
    poster.join().unwrap();
}

/// As many credits as slots: a slot is written again as soon as the credit for it is there.
///
/// Seen to fail: with a relaxed store or load of the last word of a line (torn); with a tag that is the same in every
/// lap (doubled); with a credit given before the slot was read (reordered, torn).
#[test]
fn nothing_is_lost_doubled_reordered_or_torn_over_the_laps_of_a_ring() {
    bounded(3, || post_over_laps(loom_memory::ring(4), 6, message));
}

/// Messages whose content lies in the first line of their slots, between such as have one line only.
///
/// Seen to fail: with a relaxed store or load of the last word (torn).
#[test]
fn content_in_the_first_line_of_a_slot_is_not_torn() {
    bounded(2, || {
        post_over_laps(loom_memory::ring(4), 6, |value| if value % 2 == 0 { wide(value) } else { message(value) })
    });
}

/// One credit: sender and receiver take turns, and the ring is full after every message.
///
/// Seen to fail: as above, but for the early credit, which does no harm to a ring with more slots than credits.
#[test]
fn nothing_is_lost_doubled_reordered_or_torn_in_a_ring_with_one_credit() {
    bounded(3, || post_over_laps(loom_memory::ring(1), 5, message));
}

/// Small messages, seven to a slot, which the receiver takes while more are added; the eighth begins another slot.
///
/// Seen to fail: with a relaxed load of the last word of a slot (torn); with a receiver that leaves a slot as soon as
/// the next one is in use, without another look at it, or that takes a slot for drained with each message (lost).
#[test]
fn small_messages_are_added_to_a_slot_while_it_is_read() {
    bounded(2, || post_over_laps(loom_memory::shared_ring(), 8, small));
}

/// Every other message closes the slot of the small one before it, over more than a lap: the slot that the receiver is
/// at is not written again before it has left it.
///
/// Seen to fail: with a relaxed load of the last word.
#[test]
fn a_slot_of_small_messages_ends_with_the_first_that_is_not() {
    bounded(3, || {
        post_over_laps(
            loom_memory::shared_ring(),
            7,
            |value| if value % 2 == 0 { small(value) } else { message(value) },
        )
    });
}

/// Who sees that a ring is closed for good may let go of its credits: somebody else has that memory then.
///
/// Seen to fail: where the ring is closed for good at once.
#[test]
fn nothing_is_told_to_a_ring_that_is_closed_for_good() {
    bounded(3, || {
        let (sender, mut ends) = loom_memory::ring(1);
        let words = ends.credit.clone();
        let told = || {
            let told = [credit::RETIRED, credit::BYTES, credit::HEAD, credit::HOT, credit::CLOSED];
            (told.map(|word| words.get(word).load(Ordering::Relaxed)), words.event(credit::ROOM).count())
        };
        let closer = thread::spawn(move || ends.receiver.set_closed());
        let seen = sender.is_closed_for_good().then(told);
        closer.join().unwrap();
        assert!(sender.is_closed() && sender.is_closed_for_good());
        assert!(seen.is_none_or(|seen| seen == told()));
    });
}

/// Posts `values` in this order, trying again while there is no room.
fn post_all(sender: &Arc<Sender<Memory>>, values: &'static [u64]) -> thread::JoinHandle<()> {
    let sender = sender.clone();
    thread::spawn(move || {
        for value in values {
            while sender.post(&message(*value)).is_err() {
                pause();
            }
        }
    })
}

/// Two threads of one node share a ring: each one's messages arrive in its order and none is lost, whoever publishes
/// first.
///
/// Seen to fail: with a reservation by load and store instead of a compare-and-swap; with a relaxed store or load of
/// the last word of a line.
#[test]
fn threads_of_one_node_keep_their_own_order() {
    bounded(3, || {
        let (sender, mut ends) = loom_memory::ring(4);
        ends.receiver.set_hot(true);
        let sender = Arc::new(sender);
        let (low, high) = (post_all(&sender, &[0, 1]), post_all(&sender, &[100]));
        let numbers = retrieve_all(&mut ends, 3);
        let low_numbers: Vec<u64> = numbers.iter().copied().filter(|number| *number < 100).collect();
        assert_eq!(low_numbers, [0, 1]);
        assert!(numbers.contains(&100));
        low.join().unwrap();
        high.join().unwrap();
    });
}

/// Two threads of one node fight for one credit that the receiver gives again and again: no slot is overwritten.
///
/// Seen to fail: with a reservation by load and store.
#[test]
fn threads_of_one_node_never_exceed_the_credits() {
    bounded(3, || {
        let (sender, mut ends) = loom_memory::ring(1);
        ends.receiver.set_hot(true);
        let sender = Arc::new(sender);
        let (first, second) = (post_all(&sender, &[1]), post_all(&sender, &[2]));
        let mut numbers = retrieve_all(&mut ends, 2);
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2]);
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// A ring is full after as many messages as it has credits, whoever posted them.
///
/// Seen to fail: with `used > messages` in place of `used >= messages`.
#[test]
fn threads_that_race_for_the_last_credit_cannot_both_have_it() {
    bounded(3, || {
        let (sender, mut ends) = loom_memory::ring(1);
        ends.receiver.set_hot(true);
        let sender = Arc::new(sender);
        let post = |value: u64| {
            let sender = sender.clone();
            thread::spawn(move || sender.post(&message(value)).is_ok())
        };
        let (first, second) = (post(1), post(2));
        let posted = [first.join().unwrap(), second.join().unwrap()];
        assert_eq!(posted.iter().filter(|is_posted| **is_posted).count(), 1);
        assert_eq!(retrieve_all(&mut ends, 1), [if posted[0] { 1 } else { 2 }]);
    });
}
