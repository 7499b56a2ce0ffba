//! Members of a group that are killed or stopped at every named point of joining, calling and leaving.
//!
//! The points (`deck_sync::point`) exist in builds with debug assertions only.

use std::time::Instant;

use deck_testkit::expect::LIVENESS;
use deck_testkit::{Job, Process, SOON, join_group, nodes_read_programs_memory};

const PROGRAM: &str = deck_testkit::node_program!();

/// All join the group "g", in the order of indexes.
fn join(members: &[&Process]) {
    join_group("g", "", members);
}

/// The same group, where calls end with the member's own part.
fn join_own(members: &[&Process]) {
    join_group("g", "own", members);
}

/// For each of some points and calls (the time that the victim comes by the point, the kind and its count): three
/// members `join` and make many of these calls, of which one is killed; the others are told of it, in the `next_call`,
/// too, and form the group anew.
#[track_caller]
fn each_point(
    join: fn(&[&Process]),
    environment: &[(&str, &str)],
    points: &[&str],
    calls: &[(u32, &str, u32)],
    rounds: u32,
    next_call: &str,
) {
    let cases = points.iter().flat_map(|point| calls.iter().map(move |call| (*point, *call)));
    // Only long ones of these kinds flow, and only this kind is worked out in shares; nothing is taken at a barrier,
    // and what is short is written to a line.
    let comes_by = |(point, (_, kind, count)): &(&str, (u32, &str, u32))| match *point {
        "group/given" => matches!(*kind, "bcast" | "allgather"),
        "group/folded" => *kind == "allreduce" && *count > 1000,
        "group/written" => *count > 4,
        "group/taken" => *kind != "barrier",
        _ => true,
    };
    for (point, (time, kind, count)) in cases.filter(comes_by) {
        let job = Job::launched(PROGRAM);
        let [one, other] = [(); 2].map(|()| job.node_with(environment));
        let point_and_time = format!("{point}:{time}");
        let victim = job.node_with(&[environment, &[("DECK_POINT", &point_and_time)]].concat());
        join(&[&one, &victim, &other]);
        for member in [&one, &victim, &other] {
            member.tell("g", &format!("collective g {kind} {count} {rounds} 20000"));
        }
        for member in [&one, &other] {
            let failure = member.answer("g").unwrap().result.unwrap_err();
            failure.expect_death(&victim);
            assert!(failure.text.contains("index 1"), "{point}:{time} in {kind}: {failure}");
            // For good, and at once.
            member.ask_in("g", next_call).result.unwrap_err().expect_death(&victim);
        }
        for member in [&one, &other] {
            member.ask_in("g", "leave-group g").result.unwrap();
        }
        // The name is free for those who are left.
        join(&[&one, &other]);
        for member in [&one, &other] {
            member.tell("g", &format!("collective g {kind} {count} 3 20000"));
        }
        for member in [&one, &other] {
            assert_eq!(member.answer("g").unwrap().result.unwrap(), "3", "{point}:{time} in {kind}");
        }
        drop((one, other, victim));
        job.end();
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_member_killed_anywhere_inside_a_call_is_named_to_all_others() {
    let points = ["group/said", "group/arrived", "group/given", "group/folded", "group/taken"];
    let calls = [
        (1, "barrier", 0),
        (4, "allreduce", 2),
        (5, "allreduce", 300_000),
        (7, "bcast", 300_000),
        (9, "distinct-alltoallv", 90_000),
        (20, "allgather", 300_000),
    ];
    each_point(join, &[], &points, &calls, 30, "collective g barrier 0 1 20000");
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_member_killed_anywhere_inside_a_call_is_named_to_all_others_that_are_ahead_or_behind() {
    let points = ["group/written", "group/said", "group/arrived", "group/taken"];
    let calls = [(1, "bcast", 1), (8, "bcast", 500), (21, "reduce", 1), (30, "gather", 300), (40, "scatter", 2)];
    each_point(join_own, &[], &points, &calls, 100, "collective g bcast 1 1 20000");
}

/// Long arrays are read in their programs' memory, from the second call on.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_member_killed_while_others_read_its_programs_memory_is_named_to_them() {
    let mut points = vec!["group/said", "group/arrived", "group/taken"];
    if nodes_read_programs_memory(PROGRAM) {
        points.extend(["group/lent", "group/reading", "group/read"]);
    }
    let calls = [(4, "bcast", 300_000), (5, "gather", 300_000), (5, "scatter", 300_000), (6, "allgather", 300_000)];
    each_point(join, &[("DECK_ATTACH", "always")], &points, &calls, 30, "collective g barrier 0 1 20000");
}

/// The threads of a node read one another's arrays, and the next node goes on from what they have folded.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_killed_while_nodes_fold_one_after_the_other_is_named_to_all_others() {
    for point in ["group/said", "group/arrived", "group/made", "group/taken"] {
        for (time, kind) in [(6, "allreduce"), (21, "allreduce"), (33, "reduce")] {
            let job = Job::launched(PROGRAM);
            let [one] = job.nodes();
            let victim = job.node_with(&[("DECK_POINT", &format!("{point}:{time}"))]);
            let members = [(&one, "first", 0), (&one, "second", 1), (&victim, "first", 2), (&victim, "second", 3)];
            for (node, thread, index) in members {
                node.tell(thread, &format!("join-group g 4 {index} {}", SOON.as_millis()));
            }
            for (node, thread, _) in members {
                node.answer(thread).unwrap().result.unwrap();
            }
            for (node, thread, index) in members {
                node.tell(thread, &format!("collective g@{index} {kind} 300000 30 20000"));
            }
            for (_, thread, index) in &members[..2] {
                let failure = one.answer(thread).unwrap().result.unwrap_err();
                failure.expect_death(&victim);
                let is_named = ["index 2", "index 3"].iter().any(|named| failure.text.contains(named));
                assert!(is_named, "{point}:{time} in {kind}, index {index}: {failure}");
            }
            drop((one, victim));
            job.end();
        }
    }
}

/// Two fold what is longer than a piece one by one while pieces flow, and share what is much longer. What a call has
/// left in its array is the input of the one that is called after it.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_reduction_in_place_that_is_called_again_is_right() {
    for (count, point) in [
        (10_000, "group/given:1"),
        (10_000, "group/given:2"),
        (10_000, "group/taken:1"),
        (400_000, "group/said:2"),
        (400_000, "group/said:3"),
        (400_000, "group/arrived:4"),
        (400_000, "group/taken:1"),
        (400_000, "group/taken:3"),
    ] {
        let job = Job::launched(PROGRAM);
        let one = job.node_with(&[("DECK_POINT", &format!("{point}:stop"))]);
        let [other] = job.nodes();
        join(&[&one, &other]);
        let call = |member: &Process, time: u128| {
            member.tell("g", &format!("collective g allreduce-in-place {count} 1 {time}"));
        };
        let comes_on = || {
            call(&other, 100);
            other.answer("g").unwrap().result.unwrap_err().expect_timeout();
        };
        // It is there first: how far the one that stops has come is not left to chance. Of two pieces that it gives,
        // the second would else be there or not when it has taken the first.
        comes_on();
        call(&one, SOON.as_millis());
        // Once more after it has stopped, so that the other one comes as far as it can without it.
        let mut has_stopped = false;
        while !has_stopped {
            has_stopped = one.is_stopped();
            comes_on();
        }
        one.go_on();
        call(&other, SOON.as_millis());
        for member in [&one, &other] {
            assert_eq!(member.answer("g").unwrap().result.unwrap(), "1", "{count} at {point}");
        }
        drop((one, other));
        job.end();
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_member_killed_while_it_joins_makes_room_for_another() {
    for point in ["group/locked", "group/admitted"] {
        let job = Job::launched(PROGRAM);
        let [one] = job.nodes();
        let victim = job.node_with(&[("DECK_POINT", point)]);
        one.tell("g", &format!("join-group g 2 0 {}", SOON.as_millis()));
        victim.tell("g", &format!("join-group g 2 1 {}", SOON.as_millis()));
        match victim.answer("g") {
            None => {
                // Killed; where the group was not formed with it, another one takes its place.
                let [next] = job.nodes();
                while next.state(victim.number()) != "Lost" {
                    std::thread::yield_now();
                }
                let joined = next.ask_in("g", "join-group g 2 1 5000").result;
                let first = one.answer("g").unwrap().result;
                if first.is_ok() && joined.is_ok() {
                    one.tell("g", "collective g allreduce 9 1 20000");
                    next.tell("g", "collective g allreduce 9 1 20000");
                    assert!([&one, &next].iter().all(|member| member.answer("g").unwrap().result.is_ok()));
                } else {
                    // It had filled the last place: the first one was told of a death, or is alone in a group of two.
                    let failure = match first {
                        Ok(_) => one.ask_in("g", "collective g barrier 0 1 20000").result.unwrap_err(),
                        Err(failure) => failure,
                    };
                    failure.expect("PeerLost", &victim);
                }
                drop(next);
            }
            Some(answer) => panic!("{point}: it should have been killed, and answered {answer:?}"),
        }
        drop((one, victim));
        job.end();
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_try_to_join_does_not_wait_longer_for_a_node_that_is_stopped_while_it_enters_the_name() {
    let job = Job::launched(PROGRAM);
    let [other] = job.nodes();
    let victim = job.node_with(&[("DECK_POINT", "names/entering:1:stop")]);
    victim.tell("g", &format!("join-group g 1 0 {}", SOON.as_millis()));
    victim.await_stop();
    let asked = Instant::now();
    other.ask("join-group g 2 1 0").failure().expect("Timeout", &victim);
    assert!(asked.elapsed() < LIVENESS, "a try took {:?}", asked.elapsed());
    victim.go_on();
    victim.answer("g").unwrap().result.unwrap();
    drop((other, victim));
    job.end();
}

/// Nobody comes or goes afterwards, who would make those look again that wait.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_member_that_takes_its_place_at_a_board_whose_node_has_died_goes_to_the_next_one() {
    let job = Job::launched(PROGRAM);
    let late = job.node_with(&[("DECK_POINT", "group/locked:1:stop")]);
    let [victim, waiting, next] = job.nodes();
    victim.tell_and_see_waiting("g", "join-group g 3 0 20000");
    waiting.tell_and_see_waiting("g", "join-group g 3 1 20000");
    late.tell("g", "join-group g 3 2 20000");
    late.await_stop();
    victim.kill();
    while next.state(victim.number()) != "Lost" {
        std::thread::yield_now();
    }
    late.go_on();
    next.tell("g", "join-group g 3 0 20000");
    for member in [&waiting, &late, &next] {
        member.answer("g").unwrap().result.unwrap();
    }
    drop((late, waiting, next, victim));
    job.end();
}

/// It is among the members, and has not met their nodes yet. The other one waits for that until the deadline of its
/// joining.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn what_a_member_gave_that_was_ahead_and_has_gone_reaches_one_that_is_slow_to_join() {
    for is_killed in [false, true] {
        let job = Job::launched(PROGRAM);
        let [root] = job.nodes();
        let late = job.node_with(&[("DECK_POINT", "group/admitted:1:stop")]);
        root.tell_and_see_waiting("g", "join-group g 2 0 3000 own");
        late.tell("g", "join-group g 2 1 20000 own");
        late.await_stop();
        root.answer("g").unwrap().result.unwrap();
        let failure = root.ask_in("g", "collective g bcast 1000 1 500").result.unwrap_err();
        assert_eq!((failure.kind.as_str(), failure.peer), ("Timeout", Some(late.number())), "{failure}");
        late.go_on();
        assert_eq!(root.ask_in("g", "collective g bcast 1000 1 20000").result.unwrap(), "1");
        if is_killed {
            root.kill();
        } else {
            root.ask_in("g", "leave-group g").result.unwrap();
            root.end();
        }
        late.answer("g").unwrap().result.unwrap();
        assert_eq!(late.ask_in("g", "collective g bcast 1000 1 20000").result.unwrap(), "1");
        drop((root, late));
        job.end();
    }
}

/// The first node has the board and lives; its thread has left, and the other member has died. Who ends the group dies
/// too.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_killed_while_it_ends_the_last_group_of_a_name_does_not_keep_the_name() {
    let job = Job::launched(PROGRAM);
    let [one, other] = job.nodes();
    let victim = job.node_with(&[("DECK_POINT", "group/ending")]);
    one.tell_and_see_waiting("g", "join-group g 2 0 20000");
    other.ask_in("g", "join-group g 2 1 20000").result.unwrap();
    one.answer("g").unwrap().result.unwrap();
    one.ask_in("g", "leave-group g").result.unwrap();
    other.kill();
    while victim.state(other.number()) != "Lost" {
        std::thread::yield_now();
    }
    victim.tell("g", "join-group g 2 0 20000");
    assert!(victim.answer("g").is_none());
    let [next] = job.nodes();
    join(&[&next, &one]);
    drop((one, other, next, victim));
    job.end();
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_member_killed_while_it_leaves_does_not_keep_the_name() {
    for point in ["group/leaving", "group/left"] {
        let job = Job::launched(PROGRAM);
        let [one] = job.nodes();
        let victim = job.node_with(&[("DECK_POINT", point)]);
        join(&[&one, &victim]);
        victim.tell("g", "leave-group g");
        assert!(victim.answer("g").is_none());
        one.ask_in("g", "leave-group g").result.unwrap();
        let [next] = job.nodes();
        join(&[&next, &one]);
        drop((one, next, victim));
        job.end();
    }
}

/// It has joined, as its time was over, without having met all; they need not wait for its first call to come into
/// another group.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn who_has_joined_without_having_met_all_keeps_the_others_in_no_join() {
    let job = Job::launched(PROGRAM);
    let [hasty, other] = job.nodes();
    let late = job.node_with(&[("DECK_POINT", "group/admitted:1:stop")]);
    // It has the board, by which the others come.
    other.tell_and_see_waiting("main", "join-group x 3 1 40000 own");
    late.tell("main", "join-group x 3 2 40000 own");
    late.await_stop();
    hasty.done("join-group x 3 0 2000 own");
    late.go_on();
    for (index, node) in [&hasty, &other, &late].into_iter().enumerate() {
        if index > 0 {
            node.answer("main").expect("it lives").words();
        }
        node.tell("main", &format!("join-group y 3 {index} 10000 own"));
    }
    for node in [&hasty, &other, &late] {
        node.answer("main").expect("it lives").words();
    }
    drop((hasty, other, late));
    job.end();
}

/// Above 16 members threads of a node count together that they have come; how far they have given each tells by itself.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn what_a_node_that_has_left_has_given_counts_also_among_many() {
    const MEMBERS: usize = 18;
    const NEVER: (&str, &str) = ("DECK_ATTACH", "never");
    let job = Job::launched(PROGRAM);
    let [root, leaving] = [(); 2].map(|()| job.node_with(&[NEVER]));
    // It stops when it has given most of its pieces: then the others can give all of theirs.
    let late = job.node_with(&[NEVER, ("DECK_POINT", "group/given:16:stop")]);
    let node_of = |index: usize| [&root, &leaving, &late][if index < 9 { 0 } else { index / (MEMBERS - 1) + 1 }];
    let each = |members: std::ops::Range<usize>, command: &dyn Fn(usize) -> String| {
        members.for_each(|index| node_of(index).tell(&format!("m{index}"), &command(index)));
    };
    let done = |members: std::ops::Range<usize>| {
        members.for_each(|index| drop(node_of(index).answer(&format!("m{index}")).expect("it lives").words()));
    };
    each(0..MEMBERS, &|index| format!("join-group g {MEMBERS} {index} 20000"));
    done(0..MEMBERS);
    each(0..MEMBERS, &|index| format!("collective g@{index} gather 175000 1 20000"));
    late.await_stop();
    done(9..MEMBERS - 1);
    // With its members in the group.
    leaving.done("leave");
    late.go_on();
    done(0..9);
    done(MEMBERS - 1..MEMBERS);
    drop((root, leaving, late));
    job.end();
}
