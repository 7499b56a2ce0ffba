//! Nodes that are killed, stopped or leave with shared segments in their hands.

use deck_testkit::{Job, Process};

const PROGRAM: &str = deck_testkit::node_program!();

#[test]
fn a_segment_outlives_its_killed_home_and_creator_and_is_free_after_its_last_user() {
    for job in [Job::launched(PROGRAM), Job::by_name(PROGRAM)] {
        let [home, creator, user, late] = job.nodes();
        creator.done(&format!("segment-create s 5000 {}", home.number().0));
        assert_eq!(user.done("segment-open s 20000"), format!("5000 {}", home.number().0));
        user.done("segment-write s 4000 1000 77");
        home.kill_and_wait();
        creator.kill_and_wait();
        late.done("segment-open s 20000");
        assert_eq!(late.done("segment-read s 4999"), "77");
        assert_eq!(late.ask("segment-create s 1 -1").failure().kind, "Exists");
        user.kill_and_wait();
        late.done("segment-close s");
        // The name is in use until the death of its last user is known.
        while let Err(failure) = late.ask("segment-create s 1 -1").result {
            assert_eq!(failure.kind, "Exists", "{failure}");
        }
        drop((home, creator, user, late));
        job.end();
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_killed_while_it_creates_or_opens_a_segment_leaves_the_name_free() {
    for (point, command) in [
        ("segment/claimed", "segment-create s 100000 0"),
        ("segment/asked", "segment-create s 100000 0"),
        ("segment/made", "segment-create s 100000 0"),
        ("segment/made", "segment-create s 100000 -1"),
    ] {
        let job = Job::launched(PROGRAM);
        let [home, other] = job.nodes();
        let victim = job.node_with(&[("DECK_POINT", point)]);
        other.tell_and_see_waiting("open", "segment-open s 20000");
        victim.tell("main", command);
        assert!(victim.answer("main").is_none(), "it goes by {point}");
        victim.wait();
        while let Err(failure) = home.ask("segment-create s 10 1").result {
            failure.expect("Exists", &victim);
        }
        assert_eq!(other.answer("open").unwrap().words(), "10 1");
        drop((home, other, victim));
        job.end();
    }
    let job = Job::launched(PROGRAM);
    let [home] = job.nodes();
    let victim = job.node_with(&[("DECK_POINT", "segment/asked")]);
    home.done("segment-create s 10 -1");
    victim.tell("main", "segment-open s 20000");
    assert!(victim.answer("main").is_none());
    victim.wait();
    home.done("segment-close s");
    while let Err(failure) = home.ask("segment-create s 10 -1").result {
        assert_eq!(failure.kind, "Exists", "{failure}");
    }
    drop((home, victim));
    job.end();
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_home_killed_while_it_makes_a_segment_ends_the_creation_with_its_name() {
    let job = Job::launched(PROGRAM);
    let [creator] = job.nodes();
    let home = job.node_with(&[("DECK_POINT", "segment/making")]);
    let failure = creator.ask(&format!("segment-create s 100000 {}", home.number().0)).failure();
    failure.expect("PeerLost", &home);
    creator.done("segment-create s 100000 -1");
    drop((creator, home));
    job.end();
}

/// Whether it leaves before it is asked, while it is, or before it answers.
#[test]
fn a_home_that_leaves_is_not_told_as_lost_to_who_creates_segments_there() {
    let job = Job::launched(PROGRAM);
    let [creator] = job.nodes();
    for home in (0..8).map(|_| job.node()) {
        let create = format!("segment-create s 4096 {}", home.number().0);
        creator.done(&create);
        std::thread::scope(|threads| {
            threads.spawn(|| home.done("leave"));
            creator.done("segment-close s");
            while creator.ask(&create).result.map_err(|failure| failure.expect("Closed", &home)).is_ok() {
                creator.done("segment-close s");
            }
        });
    }
    drop(creator);
    job.end();
}

/// Memory that a home made for others does not stay behind when they die.
#[test]
fn a_home_keeps_nothing_for_the_dead() {
    let job = Job::launched(PROGRAM);
    let [home] = job.nodes();
    for round in 0..6 {
        let victim = job.node();
        victim.done(&format!("segment-create s-{round} 8000000 {}", home.number().0));
        assert!(home.named_bytes() >= 8_000_000);
        victim.kill_and_wait();
        // It is told of the death by itself.
        while home.named_bytes() > 0 {}
    }
    drop(home);
    job.end();
}

/// The home hears that nobody has the old one any more when somebody has the next one of that name.
#[test]
fn a_home_keeps_no_earlier_segment_of_a_name_that_is_used_again_and_again() {
    const BYTES: u64 = 8_000_000;
    let job = Job::launched(PROGRAM);
    let [home, other, user] = job.nodes();
    let create = |home: &Process| format!("segment-create s {BYTES} {}", home.number().0);
    let mut after = Vec::new();
    user.done(&create(&home));
    for _ in 0..20 {
        home.stop();
        user.done("segment-close s");
        user.tell_and_see_waiting("main", &create(&home));
        home.go_on();
        user.answer("main").expect("it lives").words();
        after.push(home.named_bytes());
    }
    println!("the home's named segments after each round: {after:?}");
    // The thread that made the last but one may not have ended.
    assert!(after[19] <= 2 * BYTES.next_multiple_of(4096), "an earlier one is kept: {after:?}");

    // The next one has another home.
    home.stop();
    user.done("segment-close s");
    user.done(&create(&other));
    home.go_on();
    while home.named_bytes() > 0 {}
    assert!(other.named_bytes() >= BYTES);
    drop((home, other, user));
    job.end();
}
