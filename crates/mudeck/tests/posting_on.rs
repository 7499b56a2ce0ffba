//! A received message that is posted on: one buffer for all, wherever it came from and whoever leaves meanwhile.

mod job;

use deck_mudeck::{ErrorKind, Message, Node};
use deck_sync::atomic::{AtomicUsize, Ordering};
use job::{
    SOON, TRY, expect_filled, filled, job_of, leave_seen_by, post_until_refused, reuse_memory, wait_for_retriever,
    wait_until,
};

#[test]
fn a_buffer_that_came_by_a_third_node_and_by_its_owner_is_one_buffer_with_one_holder() {
    let (_broker, [owner, between, last]) = job_of();
    let (middle_box, last_box) = (between.mailbox("between").unwrap(), last.mailbox("last").unwrap());
    let message = filled(&owner, 4096, 1);
    owner.clone_mailbox("between", SOON).unwrap().post_shared(&message, SOON).unwrap();
    let passing = middle_box.retrieve(SOON).unwrap();
    between.clone_mailbox("last", SOON).unwrap().post_shared(&passing, SOON).unwrap();
    let by_third = last_box.retrieve(SOON).unwrap();
    // Only now do the owner and the last node meet.
    let direct = owner.clone_mailbox("last", SOON).unwrap();
    direct.post_shared(&message, SOON).unwrap();
    let by_owner = last_box.retrieve(SOON).unwrap();
    assert_eq!(by_third.as_ptr(), by_owner.as_ptr(), "the owner's memory is mapped once");
    drop((by_owner, passing, message));
    // Short of credits the owner looks which of its buffers are free again.
    for _ in 0..3 {
        direct.post(filled(&owner, 8192, 7), SOON).unwrap();
        last_box.retrieve(SOON).unwrap();
    }
    let _reused = reuse_memory(&owner);
    expect_filled(&by_third, 4096, 1);
}

#[test]
fn a_message_that_was_posted_on_arrives_after_its_first_owner_left() {
    for _ in 0..5 {
        let (_broker, [owner, between, last]) = job_of();
        let (middle_box, last_box) = (between.mailbox("between").unwrap(), last.mailbox("last").unwrap());
        owner.clone_mailbox("between", SOON).unwrap().post(filled(&owner, 4096, 1), SOON).unwrap();
        let passing = middle_box.retrieve(SOON).unwrap();
        let clone = between.clone_mailbox("last", SOON).unwrap();
        clone.post_shared(&passing, SOON).unwrap();
        leave_seen_by(owner, &last);
        // In the mail box already, and posted when its owner is long gone; what comes behind is not held up.
        clone.post(passing, SOON).unwrap();
        clone.post(filled(&between, 8, 2), SOON).unwrap();
        expect_filled(&last_box.retrieve(SOON).unwrap(), 4096, 1);
        expect_filled(&last_box.retrieve(SOON).unwrap(), 4096, 1);
        expect_filled(&last_box.retrieve(SOON).unwrap(), 8, 2);
    }
}

#[test]
fn a_message_kept_from_a_node_that_left_can_still_be_posted_on_to_a_node_that_never_met_it() {
    let (_broker, [owner, between, last]) = job_of();
    let middle_box = between.mailbox("between").unwrap();
    let _theirs = owner.mailbox("theirs").unwrap();
    let witness = between.clone_mailbox("theirs", SOON).unwrap();
    owner.clone_mailbox("between", SOON).unwrap().post(filled(&owner, 100_000, 1), SOON).unwrap();
    let passing = middle_box.retrieve(SOON).unwrap();
    owner.leave().unwrap();
    post_until_refused(&between, &witness);
    let last_box = last.mailbox("last").unwrap();
    between.clone_mailbox("last", SOON).unwrap().post(passing, SOON).unwrap();
    expect_filled(&last_box.retrieve(SOON).unwrap(), 100_000, 1);
}

#[test]
fn a_message_kept_from_a_node_that_left_can_still_be_posted_on_within_the_node() {
    for _ in 0..20 {
        let (_broker, [owner, here]) = job_of();
        let (front, worker) = (here.mailbox("front").unwrap(), here.mailbox("worker").unwrap());
        let to_front = owner.clone_mailbox("front", SOON).unwrap();
        for byte in 1..=2 {
            to_front.post(filled(&owner, 8192, byte), SOON).unwrap();
        }
        let [first, second] = [(); 2].map(|()| front.retrieve(SOON).unwrap());
        leave_seen_by(owner, &here);
        // While its heap is being forgotten, and most likely after that.
        worker.post(first, SOON).unwrap();
        worker.post(filled(&here, 8, 3), SOON).unwrap();
        expect_filled(&worker.retrieve(SOON).unwrap(), 8192, 1);
        expect_filled(&worker.retrieve(SOON).unwrap(), 8, 3);
        worker.post(second, SOON).unwrap();
        expect_filled(&worker.retrieve(SOON).unwrap(), 8192, 2);
    }
}

#[test]
fn a_message_made_by_another_node_of_the_process_can_be_posted_within_a_node_that_never_met_it() {
    let (_broker, [maker, here]) = job_of();
    let mailbox = here.mailbox("own").unwrap();
    mailbox.post(filled(&maker, 100_000, 1), SOON).unwrap();
    expect_filled(&mailbox.retrieve(SOON).unwrap(), 100_000, 1);
}

#[test]
fn a_message_made_by_another_node_of_the_process_arrives_where_that_node_was_never_met() {
    let (_broker, [maker, poster, last]) = job_of();
    let last_box = last.mailbox("last").unwrap();
    let clone = poster.clone_mailbox("last", SOON).unwrap();
    // From the second on, this thread posts by the short way.
    for _ in 0..3 {
        clone.post(filled(&poster, 4096, 1), SOON).unwrap();
        expect_filled(&last_box.retrieve(SOON).unwrap(), 4096, 1);
    }
    clone.post(filled(&maker, 100_000, 2), SOON).unwrap();
    expect_filled(&last_box.retrieve(SOON).unwrap(), 100_000, 2);
}

#[test]
fn a_sleeping_retriever_is_woken_by_the_first_message_from_an_unknown_nodes_memory() {
    for _ in 0..10 {
        let (_broker, [owner, between, last]) = job_of();
        let (middle_box, last_box) = (between.mailbox("between").unwrap(), last.mailbox("last").unwrap());
        owner.clone_mailbox("between", SOON).unwrap().post(filled(&owner, 4096, 1), SOON).unwrap();
        let passing = middle_box.retrieve(SOON).unwrap();
        let clone = between.clone_mailbox("last", SOON).unwrap();
        std::thread::scope(|scope| {
            let retriever = scope.spawn(|| last_box.retrieve(SOON).unwrap());
            wait_for_retriever(&last_box);
            clone.post_shared(&passing, SOON).unwrap();
            expect_filled(&retriever.join().unwrap(), 4096, 1);
        });
    }
}

/// Has `between` forward `count` messages of `owner` to the mail box "last" and give its own holds back.
fn forward(owner: &Node, between: &Node, count: usize) {
    let mailbox = between.mailbox("between").unwrap();
    let (to_between, to_last) =
        (owner.clone_mailbox("between", SOON).unwrap(), between.clone_mailbox("last", SOON).unwrap());
    for _ in 0..count {
        to_between.post(filled(owner, 4096, 1), SOON).unwrap();
    }
    for _ in 0..count {
        to_last.post(mailbox.retrieve(SOON).unwrap(), SOON).unwrap();
    }
    // Afterwards the owner itself remembers none of them as posted.
    for _ in 0..16 {
        to_between.post(filled(owner, 8192, 5), SOON).unwrap();
        mailbox.retrieve(SOON).unwrap();
    }
}

#[test]
fn forwarded_messages_keep_their_content_when_the_forwarder_leaves_at_once() {
    const COUNT: usize = 24;
    for _ in 0..5 {
        let (_broker, [owner, between, last]) = job_of();
        let last_box = last.mailbox("last").unwrap();
        forward(&owner, &between, COUNT);
        let reused = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let owner = &owner;
            let reused = &reused;
            // The owner takes all the memory it may while the forwarder leaves and its messages are still on their way.
            let reuser = scope.spawn(move || {
                let messages: Vec<Message> = (0..2000).map(|number| reuse_one(owner, reused, number)).collect();
                drop(messages);
            });
            wait_until("the owner takes memory", || reused.load(Ordering::Relaxed) > 0);
            leave_seen_by(between, &last);
            for _ in 0..COUNT / 2 {
                expect_filled(&last_box.retrieve(SOON).unwrap(), 4096, 1);
            }
            reuser.join().unwrap();
            let _reused = reuse_memory(owner);
            for _ in 0..COUNT / 2 {
                expect_filled(&last_box.retrieve(SOON).unwrap(), 4096, 1);
            }
        });
        assert_eq!(last_box.retrieve(TRY).unwrap_err().kind(), ErrorKind::Timeout);
    }
}

fn reuse_one(owner: &Node, reused: &AtomicUsize, number: usize) -> Message {
    reused.store(number + 1, Ordering::Relaxed);
    filled(owner, 4096, 0xee)
}

#[test]
fn a_forwarded_message_that_is_held_keeps_its_content_when_forwarder_and_owner_both_leave() {
    let (_broker, [owner, between, last]) = job_of();
    let last_box = last.mailbox("last").unwrap();
    forward(&owner, &between, 4);
    let held = [(); 2].map(|()| last_box.retrieve(SOON).unwrap());
    leave_seen_by(between, &last);
    drop(reuse_memory(&owner));
    held.iter().for_each(|message| expect_filled(message, 4096, 1));
    leave_seen_by(owner, &last);
    held.iter().for_each(|message| expect_filled(message, 4096, 1));
    for _ in 0..2 {
        expect_filled(&last_box.retrieve(SOON).unwrap(), 4096, 1);
    }
}
