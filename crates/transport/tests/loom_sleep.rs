//! Models of sleeping at a ring: no wake-up is lost, on either side. A lost one shows as a deadlock.
//!
//! The receiver sleeps on the event of its mail box after it has marked the ring cold; a sender that waits for room
//! sleeps on the event of the ring after it has asked for room. Both with `deck_sync::wait`, the only wait loop there
//! is.
#![cfg(loom)]

mod loom_memory;

use std::sync::Arc;

use deck_sync::{Calm, Crowd, Deadline, Event, Spot, Waiting, wait};
use deck_transport::{Parcel, Sender};
use loom::sync::Mutex;
use loom::thread;

use loom_memory::{Ends, Memory, bounded, message, number, small};

fn crowd() -> Arc<dyn Crowd> {
    Arc::new(Calm)
}

/// Waits for the next message, as the retriever of a mail box with one ring.
struct Retrieve<'a>(&'a mut Ends);

impl Waiting for Retrieve<'_> {
    type Output = Parcel;

    fn look(&mut self) -> Option<Parcel> {
        // A mail box takes from rings only in which it sees something.
        self.0.receiver.has_next().then(|| self.0.take()).flatten()
    }

    fn arm(&mut self) {
        self.0.receiver.set_hot(false);
    }

    fn disarm(&mut self) {
        self.0.receiver.set_hot(true);
        // From here until it is cold the word says something else than hot or cold.
        self.0.receiver.set_spot(Some(Spot { core: 0, place: 0 }));
    }
}

fn retrieve(ends: &mut Ends) -> u64 {
    let mail = ends.ring.clone();
    let event: &Event = mail.event(ends.bell);
    let parcel = wait(&mut Retrieve(ends), &[event], &crowd(), Deadline::NEVER).expect("no deadline");
    number(&parcel)
}

/// A ring as the threads of the posting node share it. They have one word to ask for room with: it is set by the first
/// of them and cleared by the last, as the mail box does.
struct Poster {
    sender: Sender<Memory>,
    asking: Mutex<u32>,
}

impl Poster {
    fn new(sender: Sender<Memory>) -> Poster {
        Poster { sender, asking: Mutex::new(0) }
    }

    fn ask_for_room(&self, more: bool) {
        let mut asking = self.asking.lock().unwrap();
        *asking = if more { *asking + 1 } else { *asking - 1 };
        if *asking == u32::from(more) {
            self.sender.ask_for_room(more);
        }
    }
}

/// Waits for room.
struct Post<'a> {
    poster: &'a Poster,
    parcel: Parcel,
    has_asked: bool,
}

impl Waiting for Post<'_> {
    type Output = ();

    fn look(&mut self) -> Option<()> {
        self.poster.sender.post(&self.parcel).ok().map(|_| ())
    }

    fn arm(&mut self) {
        if !std::mem::replace(&mut self.has_asked, true) {
            self.poster.ask_for_room(true);
        }
    }

    fn disarm(&mut self) {
        if self.has_asked {
            self.poster.ask_for_room(false);
        }
    }
}

fn post(poster: &Poster, value: u64) {
    let mut waiting = Post { poster, parcel: message(value), has_asked: false };
    wait(&mut waiting, &[poster.sender.room()], &crowd(), Deadline::NEVER).expect("no deadline");
}

/// The receiver marks the ring cold, has a fence run everywhere, looks, and sleeps; the sender writes a slot, passes a
/// light fence, looks at the mark, and rings.
///
/// Seen to fail: without the heavy fence in `wait`; without the light fence in `publish`; with the look at the mark
/// before the slot is written; without the look after `arm`.
#[test]
fn a_message_wakes_a_receiver_that_goes_to_sleep() {
    bounded(3, || {
        let (sender, mut ends) = loom_memory::ring(2);
        ends.receiver.set_hot(true);
        let poster = thread::spawn(move || {
            sender.post(&message(1)).expect("the ring is empty");
            sender
        });
        assert_eq!(retrieve(&mut ends), 1);
        let _ = poster.join().unwrap();
    });
}

/// The same again and again: the ring is hot after a wait and cold before the next sleep.
///
/// Seen to fail: as above.
#[test]
fn a_receiver_that_was_woken_can_sleep_again() {
    bounded(2, || {
        let (sender, mut ends) = loom_memory::ring(2);
        ends.receiver.set_hot(true);
        let poster = thread::spawn(move || {
            sender.post(&message(1)).expect("the ring is empty");
            sender.post(&message(2)).expect("there are two credits");
            sender
        });
        assert_eq!(retrieve(&mut ends), 1);
        assert_eq!(retrieve(&mut ends), 2);
        let _ = poster.join().unwrap();
    });
}

/// The receiver sleeps at a slot that more is added to, or whose next one is written.
///
/// Seen to fail: with a look for the next slot only, or for what is added only.
#[test]
fn a_small_message_that_is_added_wakes_as_well() {
    for make in [small as fn(u64) -> Parcel, message] {
        bounded(3, move || {
            let (sender, mut ends) = loom_memory::shared_ring();
            ends.receiver.set_hot(true);
            sender.post(&small(1)).expect("the ring is empty");
            assert_eq!(retrieve(&mut ends), 1);
            let poster = thread::spawn(move || {
                sender.post(&make(2)).expect("there are three credits");
                sender
            });
            assert_eq!(retrieve(&mut ends), 2);
            let _ = poster.join().unwrap();
        });
    }
}

/// The sender asks for room, has a fence run everywhere, tries again, and sleeps; the receiver gives the credit, passes
/// a light fence, looks whether it was asked, and notifies.
///
/// Seen to fail: without the heavy fence in `wait`; without the light fence in `tell`; with the look at the question
/// before the credit is given.
#[test]
fn a_credit_wakes_a_sender_that_goes_to_sleep() {
    bounded(3, || {
        let (sender, mut ends) = loom_memory::ring(1);
        ends.receiver.set_hot(true);
        sender.post(&message(1)).expect("the ring is empty");
        let retriever = thread::spawn(move || {
            let parcel = ends.take().expect("it was posted");
            assert_eq!(number(&parcel), 1);
            ends
        });
        post(&Poster::new(sender), 2);
        let mut ends = retriever.join().unwrap();
        assert_eq!(number(&ends.take().expect("it was posted")), 2);
    });
}

/// Both may sleep: a full ring on one side, an empty one on the other.
///
/// Seen to fail: as above.
#[test]
fn sender_and_receiver_wake_one_another_in_turn() {
    bounded(2, || {
        let (sender, mut ends) = loom_memory::ring(1);
        ends.receiver.set_hot(true);
        let poster = thread::spawn(move || {
            let poster = Poster::new(sender);
            post(&poster, 1);
            post(&poster, 2);
            poster
        });
        assert_eq!(retrieve(&mut ends), 1);
        assert_eq!(retrieve(&mut ends), 2);
        let _ = poster.join().unwrap();
    });
}

/// Two threads of one node sleep for room in one ring.
///
/// Seen to fail: with threads that set and clear the question each for itself, without counting.
#[test]
fn every_thread_that_asked_for_room_is_woken() {
    bounded(2, || {
        let (sender, mut ends) = loom_memory::ring(1);
        ends.receiver.set_hot(true);
        sender.post(&message(0)).expect("the ring is empty");
        let poster = Arc::new(Poster::new(sender));
        let wait_for_room = |value: u64| {
            let poster = poster.clone();
            thread::spawn(move || post(&poster, value))
        };
        let (first, second) = (wait_for_room(1), wait_for_room(2));
        assert_eq!(retrieve(&mut ends), 0);
        let mut numbers = [retrieve(&mut ends), retrieve(&mut ends)];
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2]);
        first.join().unwrap();
        second.join().unwrap();
    });
}
