//! A node killed or stopped at every named point inside an operation.
//!
//! The points (`deck_sync::point`) exist in builds with debug assertions only.

use std::time::Duration;

use deck_testkit::expect::A_MOMENT;
use deck_testkit::{Job, Process, SOON};

const PROGRAM: &str = deck_testkit::node_program!();
/// A message of each protocol.
const SIZES: [usize; 3] = [40, 1000, 100_000];

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_poster_killed_anywhere_inside_a_post_loses_at_most_that_message() {
    for point in ["post/reserved", "post/held", "post/published", "post/rung"] {
        for size in SIZES {
            for time in [1, 2, 7] {
                let job = Job::launched(PROGRAM);
                let [owner, survivor] = job.nodes();
                let victim = job.node_with(&[("DECK_POINT", &format!("{point}:{time}"))]);
                owner.mailbox("box");
                survivor.clone_mailbox("box");
                victim.clone_mailbox("box");
                survivor.post("box", 0, 3, size);
                victim.tell("box", &format!("post box 0 20 {size} 20000"));
                let (mut from_victim, mut from_survivor, mut is_told) = (0, 0, false);
                let (acknowledged, end) = victim.posted("box");
                if end.is_some() {
                    // This size does not come by this point, or not so often.
                    victim.kill();
                }
                survivor.post("box", 3, 3, size);
                while !is_told || from_survivor < 6 {
                    match owner.retrieve("box", SOON) {
                        Ok(message) if message.sender == victim.number() => {
                            assert!(
                                !is_told && message.number == from_victim,
                                "{point}:{time}, {size} bytes: {message:?}"
                            );
                            from_victim += 1;
                        }
                        Ok(message) => {
                            assert_eq!(message.number, from_survivor);
                            from_survivor += 1;
                        }
                        Err(failure) => {
                            failure.expect("PeerLost", &victim);
                            is_told = true;
                        }
                    }
                }
                owner.retrieve("box", A_MOMENT).unwrap_err().expect_timeout();
                assert!(
                    (acknowledged..=acknowledged + 1).contains(&from_victim),
                    "{point}:{time}, {size} bytes: {acknowledged} posted, {from_victim} arrived"
                );
                drop((owner, survivor, victim));
                job.end();
            }
        }
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_poster_stopped_anywhere_inside_a_post_loses_nothing_and_holds_up_nobody_else() {
    for point in ["post/reserved", "post/held", "post/published", "post/rung"] {
        let job = Job::launched(PROGRAM);
        let [owner, survivor] = job.nodes();
        let victim = job.node_with(&[("DECK_POINT", &format!("{point}:2:stop"))]);
        owner.mailbox("box");
        survivor.clone_mailbox("box");
        victim.clone_mailbox("box");
        victim.tell("box", "post box 0 20 100000 20000");
        assert!(victim.answer("box").is_some_and(|answer| answer.is_note));
        survivor.post("box", 0, 20, 100_000);
        let mut from_victim = 0;
        let mut from_survivor = 0;
        while from_survivor < 20 {
            let message = owner.retrieve("box", SOON).unwrap();
            let next = if message.sender == victim.number() { &mut from_victim } else { &mut from_survivor };
            assert_eq!(message.number, *next);
            *next += 1;
        }
        while from_victim < 20 {
            // Once it stands at the point; points that no post comes by let it pass.
            victim.go_on();
            match owner.retrieve("box", A_MOMENT) {
                Ok(message) => {
                    assert_eq!((message.sender, message.number), (victim.number(), from_victim));
                    from_victim += 1;
                }
                Err(failure) => failure.expect_timeout(),
            }
        }
        drop((owner, survivor, victim));
        job.end();
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_retriever_killed_between_its_hold_and_the_credit_gives_every_buffer_back() {
    for (point, size, rounds) in [
        ("retrieve/held", 40, 1),
        ("retrieve/held", 1000, 1),
        ("retrieve/held", 100_000, 12),
        ("retrieve/credited", 100_000, 12),
    ] {
        let job = Job::launched(PROGRAM);
        // What rests is no loss, and more where caches are larger.
        let poster = job.node_with(&[("DECK_HEAP_REST", "1M")]);
        let other = job.node();
        other.mailbox("other");
        poster.clone_mailbox("other");
        for round in 0..rounds {
            let victim = job.node_with(&[("DECK_POINT", &format!("{point}:3"))]);
            let name = format!("box-{round}");
            victim.mailbox(&name);
            poster.clone_mailbox(&name);
            poster.post(&name, 0, 20, size);
            for number in 0..2 {
                assert_eq!(victim.hold(&name, SOON).unwrap().number, number);
            }
            victim.tell("main", &format!("hold {name} 20000"));
            assert!(victim.answer("main").is_none(), "it goes by {point}");
            victim.wait();
            let (_, end) = poster.try_post(&name, 20, 100_000, 10, SOON);
            end.unwrap_err().expect("PeerLost", &victim);
            poster.post("other", 20 * round, 20, size);
            for number in 0..20 {
                assert_eq!(other.retrieve("other", SOON).unwrap().number, 20 * round + number);
            }
        }
        // Less than what a few rounds need; it would be 24 MB if each death cost what the victim held.
        let bytes = poster.shared_bytes();
        println!("{point}, {size} bytes: {bytes} bytes after {rounds} deaths");
        assert!(bytes < 14 << 20, "memory is lost with each death: {bytes}");
        drop((poster, other));
        job.end();
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_killed_while_it_clones_leaves_the_owner_whole() {
    for point in ["clone/requested", "join/welcomed"] {
        let job = Job::launched(PROGRAM);
        let [owner, other] = job.nodes();
        owner.mailbox("box");
        other.clone_mailbox("box");
        for _ in 0..10 {
            let mut victim = job.start(&[], &[("DECK_POINT", point)]);
            if point == "clone/requested" {
                victim.joined().words();
                victim.tell("main", "clone box 20000");
            }
            assert!(victim.answer("main").is_none());
        }
        other.post("box", 0, 10, 1000);
        let mut next = 0;
        while next < 10 {
            match owner.retrieve("box", SOON) {
                Ok(message) => {
                    assert_eq!((message.sender, message.number), (other.number(), next));
                    next += 1;
                }
                // Those that got a ring before they died.
                Err(failure) => assert_eq!(failure.kind, "PeerLost", "{failure}"),
            }
        }
        drop((owner, other));
        job.end();
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn an_owner_killed_before_it_grants_a_ring_ends_the_clone_with_its_name() {
    let job = Job::launched(PROGRAM);
    let [cloner] = job.nodes();
    let owner = job.node_with(&[("DECK_POINT", "clone/granting")]);
    owner.mailbox("box");
    let failure = cloner.ask("clone box 20000").failure();
    failure.expect("PeerLost", &owner);
    drop((cloner, owner));
    job.end();
}

/// The victim dies while it creates a mail box, `other` creates it then, and a third node posts there.
fn dies_creating_a_box_that_another_creates(job: &Job, victim: &Process, other: &Process) -> Process {
    victim.tell("main", "mailbox box");
    assert!(victim.answer("main").is_none());
    victim.wait();
    while let Err(failure) = other.ask("mailbox box").result {
        failure.expect("Exists", victim);
    }
    let third = job.node();
    third.clone_mailbox("box");
    third.post("box", 0, 1, 100);
    assert_eq!(other.retrieve("box", SOON).unwrap().number, 0);
    third
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_killed_while_it_enters_a_name_leaves_the_name_free() {
    for point in ["names/entering", "names/claimed"] {
        let job = Job::launched(PROGRAM);
        let [other] = job.nodes();
        let victim = job.node_with(&[("DECK_POINT", point)]);
        let third = dies_creating_a_box_that_another_creates(&job, &victim, &other);
        drop((other, victim, third));
        job.end();
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_killed_while_it_gives_an_entry_to_another_name_leaves_both_names_free() {
    for point in ["names/taken", "names/renaming", "names/renamed"] {
        let job = Job::launched(PROGRAM);
        let [other] = job.nodes();
        let used = |number: u32| format!("used{number}");
        for name in (0..16_384).map(used) {
            other.mailbox(&name);
            other.done(&format!("close {name}"));
        }
        let victim = job.node_with(&[("DECK_POINT", point)]);
        let third = dies_creating_a_box_that_another_creates(&job, &victim, &other);
        for name in (0..16_384).step_by(1_000).map(used) {
            third.mailbox(&name);
        }
        drop((other, victim, third));
        job.end();
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_killed_while_it_leaves_has_either_left_or_died() {
    let job = Job::launched(PROGRAM);
    let [owner] = job.nodes();
    let victim = job.node_with(&[("DECK_POINT", "leave/bye")]);
    owner.mailbox("box");
    victim.clone_mailbox("box");
    victim.post("box", 0, 5, 100_000);
    victim.tell("main", "leave");
    assert!(victim.answer("main").is_none());
    for number in 0..5 {
        assert_eq!(owner.retrieve("box", SOON).unwrap().number, number);
    }
    let end = owner.retrieve("box", Duration::from_millis(300)).unwrap_err();
    let state = owner.state(victim.number());
    assert!(
        [("Timeout", "Left"), ("PeerLost", "Lost")].contains(&(end.kind.as_str(), state.as_str())),
        "{end}, {state}"
    );
    drop((owner, victim));
    job.end();
}
