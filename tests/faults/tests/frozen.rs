//! `kill -STOP`: a node that stands still is frozen, not dead, and loses nothing when it goes on.

use std::time::Duration;

use deck_testkit::expect::A_MOMENT;
use deck_testkit::{Job, SOON};

const PROGRAM: &str = deck_testkit::node_program!();
/// Longer than it takes to call a silent node frozen.
const LONG_ENOUGH: Duration = Duration::from_millis(700);

#[test]
fn posts_to_a_frozen_node_go_on_while_there_is_room_and_then_time_out_and_say_why() {
    let job = Job::launched(PROGRAM);
    let [owner, poster] = job.nodes();
    // So few that no more than these may be under way.
    owner.mailbox_for("box", 6);
    poster.clone_mailbox("box");
    poster.post("box", 0, 3, 100_000);
    owner.stop();
    poster.post("box", 3, 3, 100_000);
    let (posted, end) = poster.try_post("box", 6, 1, 100_000, LONG_ENOUGH);
    assert_eq!(posted, 0);
    end.unwrap_err().expect_frozen(&owner);
    assert_eq!(poster.state(owner.number()), "Frozen");

    poster.tell_and_see_waiting("box", "post box 6 22 100000 20000");
    owner.go_on();
    for number in 0..28 {
        let message = owner.retrieve("box", SOON).unwrap();
        assert_eq!((message.number, message.sender), (number, poster.number()));
    }
    owner.retrieve("box", A_MOMENT).unwrap_err().expect_timeout();
    assert_eq!(poster.posted("box").0, 22);
    // The first answer after it went on may still be under way.
    while poster.state(owner.number()) != "Live" {}
    drop((owner, poster));
    job.end();
}

#[test]
fn a_frozen_poster_is_no_loss_and_what_it_had_posted_arrives() {
    let job = Job::launched(PROGRAM);
    let [owner, poster, other] = job.nodes();
    owner.mailbox("box");
    for node in [&poster, &other] {
        node.clone_mailbox("box");
    }
    poster.post("box", 0, 10, 100_000);
    poster.stop();
    for number in 0..10 {
        assert_eq!(owner.retrieve("box", SOON).unwrap().number, number);
    }
    // Longer than the liveness bound: if it were taken for dead, this would tell.
    owner.retrieve("box", Duration::from_millis(1500)).unwrap_err().expect_timeout();
    assert_eq!(owner.state(poster.number()), "Frozen");
    other.post("box", 0, 1, 10_000);
    assert_eq!(owner.retrieve("box", SOON).unwrap().sender, other.number());
    poster.go_on();
    poster.post("box", 10, 10, 100_000);
    for number in 10..20 {
        assert_eq!(owner.retrieve("box", SOON).unwrap().number, number);
    }
    drop((owner, poster, other));
    job.end();
}

#[test]
fn asking_a_frozen_node_again_and_again_takes_nothing_from_anybody() {
    // The broker lives in the first one.
    let job = Job::by_name(PROGRAM);
    let [first, owner, cloner] = job.nodes();
    owner.mailbox("box");
    owner.stop();
    let ask = || cloner.ask("clone box 1").failure().expect_frozen(&owner);
    // Neither for an introduction...
    ask();
    let descriptors = first.descriptors();
    (0..200).for_each(|_| ask());
    assert_eq!(first.descriptors(), descriptors);
    owner.go_on();
    cloner.clone_mailbox("box");
    cloner.post("box", 0, 1, 100);
    assert_eq!(owner.retrieve("box", SOON).unwrap().number, 0);
    // ... nor for a ring.
    owner.mailbox("other");
    owner.stop();
    let ask = || cloner.ask("clone other 1").failure().expect_frozen(&owner);
    (0..200).for_each(|_| ask());
    owner.go_on();
    cloner.clone_mailbox("other");
    cloner.post("other", 0, 1, 100);
    assert_eq!(owner.retrieve("other", SOON).unwrap().number, 0);
    drop((first, owner, cloner));
    job.end();
}

#[test]
fn a_clone_of_a_frozen_nodes_mail_box_times_out_and_says_why() {
    let job = Job::launched(PROGRAM);
    let [owner, cloner] = job.nodes();
    owner.mailbox("box");
    owner.stop();
    cloner.ask(&format!("clone box {}", LONG_ENOUGH.as_millis())).failure().expect_frozen(&owner);
    owner.go_on();
    cloner.clone_mailbox("box");
    cloner.post("box", 0, 1, 100);
    assert_eq!(owner.retrieve("box", SOON).unwrap().number, 0);
    drop((owner, cloner));
    job.end();
}

#[test]
fn a_clone_that_timed_out_leaves_no_second_ring_behind() {
    let job = Job::launched(PROGRAM);
    let [owner, cloner] = job.nodes();
    owner.mailbox("met");
    owner.mailbox("box");
    // They know each other, so that only the ring is asked for.
    cloner.clone_mailbox("met");
    owner.stop();
    for _ in 0..3 {
        cloner.ask("clone box 50").failure().expect_timeout();
    }
    owner.go_on();
    cloner.clone_mailbox("box");
    cloner.post("box", 0, 1, 100);
    assert_eq!(owner.retrieve("box", SOON).unwrap().number, 0);
    cloner.kill();
    assert_eq!(owner.retrieve("box", SOON).unwrap_err().kind, "PeerLost");
    assert_eq!(owner.retrieve("box", A_MOMENT).unwrap_err().kind, "Timeout", "the loss was told twice");
    drop((owner, cloner));
    job.end();
}

#[test]
fn a_segment_that_only_a_frozen_node_has_times_out_and_says_why() {
    let job = Job::launched(PROGRAM);
    let [home, opener] = job.nodes();
    home.done("segment-create s 5000 -1");
    home.stop();
    opener.ask(&format!("segment-open s {}", LONG_ENOUGH.as_millis())).failure().expect_frozen(&home);
    opener.ask("segment-open s 0").failure().expect_timeout();
    home.go_on();
    assert_eq!(opener.done("segment-open s 20000"), format!("5000 {}", home.number().0));
    drop((home, opener));
    job.end();
}

#[test]
fn a_node_that_dies_while_it_is_frozen_is_lost_like_any_other() {
    let job = Job::launched(PROGRAM);
    let [owner, poster] = job.nodes();
    owner.mailbox_for("box", 2);
    poster.clone_mailbox("box");
    poster.post("box", 0, 2, 100);
    owner.stop();
    poster.tell_and_see_waiting("box", "post box 2 1 100 20000");
    owner.kill();
    let failure = poster.answer("box").expect("it lives").failure();
    failure.expect("PeerLost", &owner);
    drop((owner, poster));
    job.end();
}

#[test]
fn a_frozen_node_is_not_taken_for_dead_when_the_node_that_listens_dies() {
    let job = Job::by_name(PROGRAM);
    let [first, second, frozen] = job.nodes();
    frozen.mailbox("box");
    second.mailbox("back");
    frozen.clone_mailbox("back");
    second.clone_mailbox("box");
    frozen.stop();
    first.kill();
    // Others come and go while it stands still.
    let third = job.node();
    third.ask("clone nothing 1500").failure().expect_timeout();
    assert_eq!(second.state(frozen.number()), "Frozen");
    second.post("box", 0, 3, 100_000);
    frozen.go_on();
    for number in 0..3 {
        assert_eq!(frozen.retrieve("box", SOON).unwrap().number, number);
    }
    frozen.post("back", 0, 3, 100_000);
    for number in 0..3 {
        assert_eq!(second.retrieve("back", SOON).unwrap().number, number);
    }
    third.clone_mailbox("box");
    third.post("box", 0, 1, 100_000);
    assert_eq!(frozen.retrieve("box", SOON).unwrap().sender, third.number());
    // It has come to the new node that listens: its own end is noticed, too.
    frozen.kill();
    assert_eq!(second.retrieve("back", SOON).unwrap_err().kind, "PeerLost");
    drop((first, second, frozen, third));
    job.end();
}
