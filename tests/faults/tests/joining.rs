//! Coming into a job: by name, all at once, while the node that listens dies, and from a wrong environment.

use std::collections::BTreeSet;
use std::time::Duration;

use deck_testkit::{Chance, Job, Process, SOON, storm};

const PROGRAM: &str = deck_testkit::node_program!();

/// Posts a message from one node to the other under a fresh name.
#[track_caller]
fn expect_to_meet(one: &Process, other: &Process, name: &str) {
    other.mailbox(name);
    one.clone_mailbox(name);
    one.post(name, 0, 1, 1000);
    assert_eq!(other.retrieve(name, SOON).unwrap().sender, one.number());
}

#[test]
fn nodes_started_by_hand_with_the_same_job_name_meet_and_others_can_join_later() {
    let job = Job::by_name(PROGRAM);
    let [first, second] = job.nodes();
    assert_eq!((first.number().0, second.number().0), (0, 1));
    expect_to_meet(&first, &second, "one");
    expect_to_meet(&second, &first, "two");
    let third = job.node();
    assert_eq!(third.number().0, 2);
    expect_to_meet(&third, &first, "three");
    expect_to_meet(&second, &third, "four");
    for node in [&first, &second, &third] {
        assert_eq!(node.done("count"), "3");
    }
    drop((first, second, third));
    job.end();
}

#[test]
fn when_the_node_that_listens_dies_names_stay_and_the_job_can_still_be_joined() {
    let job = Job::by_name(PROGRAM);
    let [first, second, third] = job.nodes();
    second.mailbox("kept");
    third.clone_mailbox("kept");
    first.mailbox("freed");
    first.kill();
    // Somebody joins at once, and somebody else when the dust has settled.
    let fourth = job.node();
    assert_eq!(fourth.number().0, 3);
    expect_to_meet(&third, &fourth, "new");
    third.post("kept", 0, 1, 1000);
    fourth.clone_mailbox("kept");
    fourth.post("kept", 0, 1, 1000);
    let mut senders = [(); 2].map(|()| second.retrieve("kept", SOON).unwrap().sender);
    senders.sort();
    assert_eq!(senders, [third.number(), fourth.number()]);
    second.mailbox("freed");
    // The next one to listen dies as well.
    second.kill();
    let fifth = job.node();
    assert_eq!(fifth.number().0, 4);
    expect_to_meet(&fourth, &fifth, "newer");
    expect_to_meet(&third, &fifth, "newest");
    drop((first, second, third, fourth, fifth));
    job.end();
}

#[test]
fn a_job_never_splits_when_the_node_that_listens_dies_while_others_join() {
    let job = Job::by_name(PROGRAM);
    let mut chance = Chance::new(job.seed());
    let mut nodes: Vec<Process> = job.nodes::<3>().into();
    let mut highest = 2;
    for _ in 0..storm::rounds(20) {
        let mut joining = job.start(&[], &[]);
        let pause = Duration::from_micros(chance.below(4000) as u64);
        std::thread::park_timeout(pause);
        nodes.remove(0).kill();
        joining.joined().words();
        // A number that the dead node had given and could not tell is passed over.
        assert!((highest + 1..=highest + 2).contains(&joining.number().0), "it has joined another job");
        highest = joining.number().0;
        expect_to_meet(&nodes[0], &joining, &format!("meeting-{highest}"));
        nodes.push(joining);
    }
    drop(nodes);
    job.end();
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_that_listens_may_die_at_any_step_of_welcoming_another() {
    // The first time is its own.
    for point in ["table/seating:2", "broker/seated:2", "table/seating:4", "broker/seated:4"] {
        let job = Job::by_name(PROGRAM);
        let listens = job.node_with(&[("DECK_POINT", point)]);
        let mut others: Vec<Process> = Vec::new();
        for _ in 0..4 {
            let mut joining = job.start(&[], &[]);
            joining.joined().words();
            others.push(joining);
        }
        listens.wait();
        // Each of them can listen for the others, whoever welcomed it.
        for round in 0..3 {
            let newest = job.node();
            for (index, other) in others.iter().enumerate() {
                expect_to_meet(other, &newest, &format!("box-{round}-{index}"));
            }
            others.remove(0).kill();
            others.push(newest);
        }
        drop((listens, others));
        job.end();
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn an_introduction_that_died_with_the_broker_is_made_again() {
    for (one, other) in [(0, 1), (1, 0)] {
        let job = Job::by_name(PROGRAM);
        let listens = job.node_with(&[("DECK_POINT", "broker/introducing")]);
        let nodes = job.nodes::<2>();
        nodes[other].mailbox("box");
        nodes[one].clone_mailbox("box");
        nodes[one].post("box", 0, 5, 1000);
        for number in 0..5 {
            assert_eq!(nodes[other].retrieve("box", SOON).unwrap().number, number);
        }
        listens.wait();
        drop((listens, nodes));
        job.end();
    }
}

#[test]
fn a_node_that_listens_and_has_no_descriptors_left_says_so() {
    let job = Job::by_name(PROGRAM);
    let mut listens = job.start(&["prlimit", "--nofile=64"], &[]);
    listens.joined().words();
    let mut others: Vec<Process> = Vec::new();
    let failure = loop {
        let mut joining = job.start(&[], &[]);
        match joining.joined().result {
            Ok(_) => others.push(joining),
            Err(failure) => break failure,
        }
        assert!(others.len() < 64, "the limit is felt");
    };
    assert_eq!(failure.kind, "NoMemory", "{failure}");
    assert!(failure.text.contains("descriptors"), "{failure}");
    // Those who came before are served, and room that is made is used.
    expect_to_meet(&others[0], &others[1], "box");
    for other in others.drain(..4) {
        other.kill();
    }
    expect_to_meet(&job.node(), &others[0], "later");
    drop((listens, others));
    job.end();
}

#[test]
fn a_node_that_takes_over_with_too_few_descriptors_is_not_dead_nor_are_those_whom_it_cannot_let_in() {
    let job = Job::by_name(PROGRAM);
    let first = job.node();
    let mut second = job.start(&["prlimit", "--nofile=32"], &[]);
    second.joined().words();
    let mut others: Vec<Process> = (0..10).map(|_| job.node()).collect();
    first.kill();
    // Longer than it takes stock.
    for _ in 0..2 {
        others[0].ask("clone nothing 800").failure().expect_timeout();
    }
    let states =
        |from: &Process, of: &[Process]| -> Vec<String> { of.iter().map(|other| from.state(other.number())).collect() };
    assert_eq!(others[0].state(second.number()), "Live");
    assert_eq!(states(&others[0], &others[1..]), ["Live"; 9]);
    // Room that is made is used.
    for other in others.drain(..7) {
        other.kill();
    }
    expect_to_meet(&others[0], &others[1], "one");
    expect_to_meet(&others[1], &others[2], "two");
    expect_to_meet(&others[2], &second, "three");
    drop((first, second, others));
    job.end();
}

#[test]
fn processes_started_all_at_once_form_exactly_one_job() {
    for _ in 0..5 {
        let job = Job::by_name(PROGRAM);
        let mut nodes: [Process; 8] = std::array::from_fn(|_| job.start(&[], &[]));
        let numbers: BTreeSet<u32> = nodes
            .iter_mut()
            .map(|node| {
                node.joined().words();
                node.number().0
            })
            .collect();
        assert!(numbers.into_iter().eq(0..8), "numbers are given in order, each once");
        nodes[0].mailbox("all");
        for node in &nodes[1..] {
            assert_eq!(node.done("count"), "8");
            node.clone_mailbox("all");
            node.post("all", 0, 1, 100);
        }
        let senders: BTreeSet<_> = (1..8).map(|_| nodes[0].retrieve("all", SOON).unwrap().sender).collect();
        assert_eq!(senders.len(), 7);
        drop(nodes);
        job.end();
    }
}

#[test]
fn a_wrong_environment_is_refused_with_the_remedy_instead_of_a_lonely_node() {
    let job = Job::alone(PROGRAM);
    let long = "x".repeat(64);
    let wrong = [
        ("DECK_JOB", "two words", "Invalid", "DECK_JOB"),
        ("DECK_JOB", "", "Invalid", "DECK_JOB"),
        ("DECK_JOB", "../up", "Invalid", "DECK_JOB"),
        ("DECK_JOB", &long, "Invalid", "DECK_JOB"),
        ("DECK_LAUNCH_FD", "garbage", "Invalid", "deck run"),
        ("DECK_LAUNCH_FD", "-1", "Invalid", "deck run"),
        ("DECK_LAUNCH_FD", "987", "NotInitialized", "deck run"),
        // It is there, and it is no socket.
        ("DECK_LAUNCH_FD", "0", "NotInitialized", "deck run"),
        ("DECK_HEAP", "little", "Invalid", "DECK_HEAP"),
        ("DECK_TIMEOUT", "soon", "Invalid", "DECK_TIMEOUT"),
    ];
    for (variable, value, kind, remedy) in wrong {
        let mut node = job.start(&[], &[(variable, value)]);
        let failure = node.joined().failure();
        assert_eq!(failure.kind, kind, "{variable}={value}: {failure}");
        assert!(failure.text.contains(remedy), "{variable}={value}: {failure}");
        assert_eq!(node.wait().code(), Some(3));
    }
    job.end();
}

#[test]
fn a_node_that_leaves_and_one_that_dies_make_room_without_giving_their_numbers_away() {
    let job = Job::launched(PROGRAM);
    let keeper = job.node();
    for round in 1..=30 {
        let node = job.node();
        assert_eq!(node.number().0, round);
        if round % 2 == 0 {
            node.done("leave");
        }
        drop(node);
    }
    assert_eq!(keeper.done("count"), "31");
    drop(keeper);
    job.end();
}

#[test]
fn nodes_that_have_to_find_a_new_broker_are_not_taken_for_dead() {
    for _ in 0..3 {
        let job = Job::by_name(PROGRAM);
        let [first, second, third, fourth] = job.nodes();
        third.mailbox("thirds");
        fourth.mailbox("fourths");
        third.clone_mailbox("fourths");
        // One that may be the next to listen stands still, and then dies.
        second.stop();
        first.kill();
        for node in [&third, &fourth] {
            node.ask("clone nothing 300").failure().expect_timeout();
        }
        second.kill();
        let joiner = job.node();
        assert_eq!(joiner.number().0, 4);
        for node in [&third, &fourth] {
            assert_eq!(joiner.state(node.number()), "Live");
        }
        joiner.clone_mailbox("thirds");
        joiner.clone_mailbox("fourths");
        fourth.clone_mailbox("thirds");
        for poster in [&joiner, &fourth] {
            poster.post("thirds", 0, 1, 1000);
            assert_eq!(third.retrieve("thirds", SOON).unwrap().sender, poster.number());
        }
        for poster in [&joiner, &third] {
            poster.post("fourths", 0, 1, 1000);
            assert_eq!(fourth.retrieve("fourths", SOON).unwrap().sender, poster.number());
        }
        assert_eq!(job.node().number().0, 5);
        drop((first, second, third, fourth, joiner));
        job.end();
    }
}

#[test]
fn a_node_that_stands_still_keeps_nobody_from_taking_over_and_finds_the_new_one_when_it_goes_on() {
    let job = Job::by_name(PROGRAM);
    let [first, second, third] = job.nodes();
    second.stop();
    first.kill();
    let joiner = job.node();
    assert_eq!(joiner.number().0, 3);
    expect_to_meet(&third, &joiner, "without");
    second.go_on();
    expect_to_meet(&joiner, &second, "again");
    assert_eq!(joiner.state(second.number()), "Live");
    drop((first, second, third, joiner));
    job.end();
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn whoever_takes_over_may_die_before_anybody_has_come() {
    for _ in 0..3 {
        let job = Job::by_name(PROGRAM);
        let first = job.node();
        let dying = [(); 2].map(|()| job.node_with(&[("DECK_POINT", "broker/taking-over")]));
        let last = job.node();
        last.mailbox("kept");
        first.kill();
        let joiner = job.node();
        joiner.clone_mailbox("kept");
        joiner.post("kept", 0, 1, 1000);
        assert_eq!(last.retrieve("kept", SOON).unwrap().sender, joiner.number());
        drop((first, dying, last, joiner));
        job.end();
    }
}
