//! A small heap: memory of retrieved messages is there again for the next one, and impossible sizes are refused.

mod job;

use std::sync::Once;

use deck_mudeck::{ErrorKind, Node};
use deck_peers::Broker;
use job::{SOON, expect_filled, filled, job_of, wait_until};

/// A job of nodes with 8 MiB for messages each.
fn small_job<const COUNT: usize>() -> (Broker, [Node; COUNT]) {
    static ONCE: Once = Once::new();
    // SAFETY: every test of this program comes here before it does anything else, so that no other thread is past this
    // line; and whatever else looks at the environment does so through the standard library, which has a lock for it.
    ONCE.call_once(|| unsafe { std::env::set_var("DECK_HEAP", "8M") });
    job_of()
}

#[test]
fn buffers_of_retrieved_messages_are_free_again_whatever_mail_box_they_went_to() {
    let (_broker, [here, poster]) = small_job();
    let boxes: Vec<_> = (0..8).map(|number| here.mailbox(&format!("box {number}")).unwrap()).collect();
    for (number, mailbox) in boxes.iter().enumerate() {
        let clone = poster.clone_mailbox(&format!("box {number}"), SOON).unwrap();
        clone.post(filled(&poster, 2 << 20, number as u8), SOON).unwrap();
        expect_filled(&mailbox.retrieve(SOON).unwrap(), 2 << 20, number as u8);
    }
}

#[test]
fn a_buffer_that_was_retrieved_comes_back_though_nobody_looks_into_the_mail_box_again() {
    const LONG: usize = 3800 << 10;
    let (_broker, [here, poster]) = small_job();
    for owner in [&here, &poster] {
        let mailbox = owner.mailbox("seldom looked into").unwrap();
        let clone = poster.clone_mailbox("seldom looked into", SOON).unwrap();
        clone.post(filled(&poster, LONG, 1), SOON).unwrap();
        expect_filled(&mailbox.retrieve(SOON).unwrap(), LONG, 1);
        let first = poster.message_with_capacity(LONG).unwrap();
        // The heap has room for two. Whoever keeps the credit of the one that was posted is asked for it.
        wait_until("there is memory", || poster.message_with_capacity(LONG).is_ok());
        drop((first, mailbox));
    }
}

#[test]
fn a_long_buffer_goes_back_when_its_message_gets_other_content() {
    const LONG: usize = 3800 << 10;
    let (_broker, [here, poster]) = small_job();
    let mailbox = here.mailbox("all sizes").unwrap();
    let clone = poster.clone_mailbox("all sizes", SOON).unwrap();
    for size in [8, 100, 200, 1000] {
        let mut into = here.message();
        for (size, byte) in [(LONG, 1), (size, 2)] {
            clone.post(filled(&poster, size, byte), SOON).unwrap();
            mailbox.retrieve_into(&mut into, SOON).unwrap();
            expect_filled(&into, size, byte);
        }
        let first = poster.message_with_capacity(LONG).unwrap();
        wait_until("there is memory", || poster.message_with_capacity(LONG).is_ok());
        drop(first);
    }
}

#[test]
fn a_full_heap_refuses_and_has_room_again_when_its_messages_are_gone() {
    let (_broker, [node]) = small_job();
    for _ in 0..3 {
        let mut messages = Vec::new();
        let error = loop {
            match node.message_with_capacity(1 << 20) {
                Ok(message) => messages.push(message),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::NoMemory, "{error}");
        assert!((1..=8).contains(&messages.len()), "{} messages of 1 MiB in 8 MiB", messages.len());
    }
}

#[test]
fn sizes_beyond_all_memory_are_refused_and_leave_the_message_as_it_was() {
    let (_broker, [node]) = small_job();
    let mut message = filled(&node, 1000, 1);
    for size in [usize::MAX, usize::MAX - 1, usize::MAX - 63, usize::MAX - 4095, usize::MAX / 2 + 1, 1 << 60] {
        assert_eq!(node.message_with_capacity(size).err().unwrap().kind(), ErrorKind::NoMemory, "{size} bytes");
        assert_eq!(message.resize(size).unwrap_err().kind(), ErrorKind::NoMemory, "{size} bytes");
        expect_filled(&message, 1000, 1);
    }
}

#[test]
fn a_message_for_which_there_is_no_memory_holds_nobody_else_up() {
    const LONG: usize = 700;
    let (_broker, [here, one, other]) = small_job();
    let mailbox = here.mailbox("full").unwrap();
    let [first, second] = [&one, &other].map(|node| node.clone_mailbox("full", SOON).unwrap());
    let mut into = here.message();
    let held: Vec<_> = std::iter::repeat_with(|| here.message_with_capacity(LONG)).map_while(Result::ok).collect();
    for round in 0..4u8 {
        first.post(filled(&one, LONG, round), SOON).unwrap();
        second.post(filled(&other, 8, round), SOON).unwrap();
    }
    for round in 0..4u8 {
        while let Err(error) = mailbox.retrieve_into(&mut into, SOON) {
            assert_eq!(error.kind(), ErrorKind::NoMemory, "{error}");
        }
        expect_filled(&into, 8, round);
    }
    assert_eq!(mailbox.retrieve_into(&mut into, SOON).unwrap_err().kind(), ErrorKind::NoMemory);
    drop(held);
    for round in 0..4u8 {
        mailbox.retrieve_into(&mut into, SOON).unwrap();
        expect_filled(&into, LONG, round);
    }
}
