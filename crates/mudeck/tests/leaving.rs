//! Leaving a job in order: nothing is lost, nothing is told as a loss, and nobody's memory changes.

mod job;

use std::time::Duration;

use deck_mudeck::{ErrorKind, FOREVER, NodeState, select};
use job::{
    SOON, TRY, expect_filled, filled, invited, job_name, job_of, leave_seen_by, named, post_until_refused,
    reuse_memory, wait_for_retriever, wait_until,
};

#[test]
fn a_post_to_a_mail_box_of_a_node_that_left_says_closed_and_names_the_node() {
    let (_broker, [here, leaving]) = job_of();
    let number = leaving.number();
    let _mailbox = leaving.mailbox("left").unwrap();
    let clone = here.clone_mailbox("left", SOON).unwrap();
    leave_seen_by(leaving, &here);
    let refused = post_until_refused(&here, &clone);
    assert_eq!((refused.error.kind(), refused.error.peer()), (ErrorKind::Closed, Some(number)));
    // The message comes back, and it stays like this.
    let again = clone.post(refused.message, TRY).unwrap_err();
    assert_eq!((again.error.kind(), again.error.peer()), (ErrorKind::Closed, Some(number)));
}

#[test]
fn a_message_that_outlives_its_node_cannot_grow_and_says_what_to_do() {
    let (_broker, [leaving]) = job_of();
    let mut message = filled(&leaving, 8, 1);
    leaving.leave().unwrap();
    let error = message.pack(&[1u8; 100_000]).unwrap_err();
    assert_eq!((error.kind(), error.remedy()), (ErrorKind::NotInitialized, "join again"), "{error}");
}

#[test]
fn one_that_left_in_order_is_not_lost_for_whoever_posts_on_what_a_third_node_made() {
    let (_broker, [here, leaving, third]) = job_of();
    let number = leaving.number();
    let (mailbox, _left) = (here.mailbox("here").unwrap(), leaving.mailbox("left").unwrap());
    let clone = here.clone_mailbox("left", SOON).unwrap();
    third.clone_mailbox("here", SOON).unwrap().post(filled(&third, 100_000, 1), SOON).unwrap();
    let passing = mailbox.retrieve(SOON).unwrap();
    leave_seen_by(leaving, &here);
    let refused = clone.post(passing, SOON).unwrap_err();
    assert_eq!((refused.error.kind(), refused.error.peer()), (ErrorKind::Closed, Some(number)));
    expect_filled(&refused.message, 100_000, 1);
}

#[test]
fn a_name_that_another_node_claims_after_its_owner_left_leads_to_the_new_mail_box() {
    let (_broker, [here, leaving, heir]) = job_of();
    let number = leaving.number();
    let _old = leaving.mailbox("name").unwrap();
    let old_clone = here.clone_mailbox("name", SOON).unwrap();
    leaving.leave().unwrap();
    // The name is free as soon as leaving has returned.
    let new = heir.mailbox("name").unwrap();
    let new_clone = here.clone_mailbox("name", SOON).unwrap();
    assert_eq!(new_clone.owner(), heir.number());
    new_clone.post(filled(&here, 5000, 1), SOON).unwrap();
    expect_filled(&new.retrieve(SOON).unwrap(), 5000, 1);
    let refused = post_until_refused(&here, &old_clone);
    assert_eq!((refused.error.kind(), refused.error.peer()), (ErrorKind::Closed, Some(number)));
    assert_eq!(new.retrieve(TRY).unwrap_err().kind(), ErrorKind::Timeout);
}

#[test]
fn the_address_of_a_mail_box_whose_node_left_says_closed() {
    let (_broker, [here, leaving]) = job_of();
    let mailbox = here.mailbox("addresses").unwrap();
    let replies = leaving.anonymous_mailbox().unwrap();
    let mut message = leaving.message();
    message.pack_mailbox(replies.address()).unwrap();
    leaving.clone_mailbox("addresses", SOON).unwrap().post(message, SOON).unwrap();
    let mut received = mailbox.retrieve(SOON).unwrap();
    leave_seen_by(leaving, &here);
    let error = received.unpack_mailbox(SOON).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert!(error.to_string().starts_with("cloning a mail box: node 1 has left the job: closed"), "{error}");
}

#[test]
fn a_mail_box_that_is_only_selected_from_can_be_cloned_however_many_have_come_and_left() {
    let (broker, [here]) = job_of();
    let mailbox = here.mailbox("stop").unwrap();
    for _ in 0..260 {
        let visitor = invited(&broker);
        visitor.clone_mailbox("stop", SOON).unwrap();
        leave_seen_by(visitor, &here);
        assert_eq!(select(&[&mailbox], TRY).unwrap_err().kind(), ErrorKind::Timeout);
    }
}

#[test]
fn an_orderly_departure_gives_select_nothing_to_find() {
    let (_broker, [here, leaving]) = job_of();
    let mailbox = here.mailbox("quiet").unwrap();
    let _theirs = leaving.mailbox("theirs").unwrap();
    let witness = here.clone_mailbox("theirs", SOON).unwrap();
    let _clone = leaving.clone_mailbox("quiet", SOON).unwrap();
    leave_seen_by(leaving, &here);
    post_until_refused(&here, &witness);
    let found = select(&[&mailbox], Duration::from_millis(50));
    assert_eq!(found.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(mailbox.retrieve(TRY).unwrap_err().kind(), ErrorKind::Timeout);
}

#[test]
fn select_finds_what_a_node_posted_before_it_left() {
    let (_broker, [here, leaving]) = job_of();
    let mailbox = here.mailbox("last words").unwrap();
    leaving.clone_mailbox("last words", SOON).unwrap().post(filled(&leaving, 5000, 1), SOON).unwrap();
    leave_seen_by(leaving, &here);
    assert_eq!(select(&[&mailbox], SOON).unwrap(), 0);
    expect_filled(&mailbox.retrieve(TRY).unwrap(), 5000, 1);
    assert_eq!(select(&[&mailbox], Duration::from_millis(50)).unwrap_err().kind(), ErrorKind::Timeout);
}

#[test]
fn two_receivers_of_one_buffer_stay_apart_when_its_sender_leaves() {
    let (_broker, [leaving, one, two]) = job_of();
    let boxes = [one.mailbox("one").unwrap(), two.mailbox("two").unwrap()];
    let _theirs = leaving.mailbox("theirs").unwrap();
    let witnesses = [&one, &two].map(|node| (node, node.clone_mailbox("theirs", SOON).unwrap()));
    let message = filled(&leaving, 4096, 1);
    for name in ["one", "two"] {
        leaving.clone_mailbox(name, SOON).unwrap().post_shared(&message, SOON).unwrap();
    }
    let mut first = boxes[0].retrieve(SOON).unwrap();
    drop(message);
    leaving.leave().unwrap();
    for (node, clone) in &witnesses {
        post_until_refused(node, clone);
    }
    first.edit().unwrap().fill(9);
    expect_filled(&boxes[1].retrieve(SOON).unwrap(), 4096, 1);
    expect_filled(&first, 4096, 9);
}

#[test]
fn a_message_kept_after_leaving_does_not_disturb_the_node_that_comes_next() {
    let (broker, [owner, leaving]) = job_of();
    let mailbox = leaving.mailbox("before").unwrap();
    let message = filled(&owner, 4096, 1);
    owner.clone_mailbox("before", SOON).unwrap().post_shared(&message, SOON).unwrap();
    let kept = mailbox.retrieve(SOON).unwrap();
    leave_seen_by(leaving, &owner);

    let next = invited(&broker);
    let next_mailbox = next.mailbox("after").unwrap();
    let clone = owner.clone_mailbox("after", SOON).unwrap();
    clone.post_shared(&message, SOON).unwrap();
    let theirs = next_mailbox.retrieve(SOON).unwrap();
    drop(message);
    for _ in 0..2 {
        clone.post(filled(&owner, 8192, 3), SOON).unwrap();
        next_mailbox.retrieve(SOON).unwrap();
    }
    let reused = reuse_memory(&owner);
    expect_filled(&kept, 4096, 1);
    drop((kept, mailbox, reused));
    let _reused = reuse_memory(&owner);
    expect_filled(&theirs, 4096, 1);
}

#[test]
fn a_message_kept_by_the_node_that_listened_outlives_its_departure() {
    let name = job_name("kept");
    let (listening, owner) = (named(&name), named(&name));
    let mailbox = listening.mailbox("kept").unwrap();
    let clone = owner.clone_mailbox("kept", SOON).unwrap();
    clone.post(filled(&owner, 4096, 1), SOON).unwrap();
    let kept = mailbox.retrieve(SOON).unwrap();
    for _ in 0..2 {
        clone.post(filled(&owner, 8192, 2), SOON).unwrap();
        mailbox.retrieve(SOON).unwrap();
    }
    leave_seen_by(listening, &owner);
    // Whoever comes now is let in by the next node that listens, and so are its clones and its departure.
    for round in 0..20 {
        let guest = named(&name);
        let theirs = guest.mailbox("guest").unwrap();
        owner.clone_mailbox("guest", SOON).unwrap().post(filled(&owner, 4096, round), SOON).unwrap();
        expect_filled(&theirs.retrieve(SOON).unwrap(), 4096, round);
        leave_seen_by(guest, &owner);
        let _reused = reuse_memory(&owner);
        expect_filled(&kept, 4096, 1);
    }
}

#[test]
fn a_retrieve_without_end_ends_when_its_own_node_leaves() {
    let (_broker, [node]) = job_of();
    let mailbox = node.mailbox("own").unwrap();
    std::thread::scope(|scope| {
        let retriever = scope.spawn(|| mailbox.retrieve(FOREVER).unwrap_err().kind());
        wait_for_retriever(&mailbox);
        node.clone().leave().unwrap();
        assert_eq!(retriever.join().unwrap(), ErrorKind::NotInitialized);
    });
}

#[test]
fn several_nodes_that_leave_at_once_lose_nothing_of_what_they_posted() {
    let (_broker, [here, one, two, three]) = job_of();
    let mailbox = here.mailbox("all").unwrap();
    let leaving = [one, two, three].map(|node| {
        std::thread::spawn(move || {
            let clone = node.clone_mailbox("all", SOON).unwrap();
            let number = node.number();
            for size in [8, 600, 5000, 100_000] {
                clone.post(filled(&node, size, number.0 as u8), SOON).unwrap();
            }
            node.leave().unwrap();
            number
        })
    });
    let numbers = leaving.map(|thread| thread.join().unwrap());
    for _ in 0..12 {
        let message = mailbox.retrieve(SOON).unwrap();
        expect_filled(&message, message.size(), message.sender().unwrap().0 as u8);
    }
    for number in numbers {
        wait_until("the departure is known", || here.state(number).unwrap() == NodeState::Left);
    }
    assert_eq!(mailbox.retrieve(TRY).unwrap_err().kind(), ErrorKind::Timeout);
}
