//! Members of a group that are absent, stopped or killed.

use std::time::Duration;

use deck_testkit::{Job, Process, SOON, call_in_group, join_group};

const PROGRAM: &str = deck_testkit::node_program!();

/// All join the group "g", in the order of indexes.
fn join(members: &[&Process]) {
    join_group("g", "", members);
}

/// The same group, where calls end with the member's own part.
fn join_own(members: &[&Process]) {
    join_group("g", "own", members);
}

#[test]
fn members_of_several_nodes_get_right_results() {
    let job = Job::launched(PROGRAM);
    let members: [Process; 3] = job.nodes();
    join(&members.each_ref());
    for (kind, count) in
        [("allreduce", 1), ("allreduce", 200_000), ("bcast", 500_000), ("allgather", 3000), ("barrier", 0)]
    {
        call_in_group(&members, &format!("{kind} {count}"), 6);
    }
    drop(members);
    job.end();
}

#[test]
fn a_member_that_is_absent_at_the_deadline_is_named_to_every_other() {
    let job = Job::launched(PROGRAM);
    let members: [Process; 3] = job.nodes();
    join(&members.each_ref());
    let [one, absent, other] = &members;
    for member in [one, other] {
        member.tell("g", "collective g allreduce 100000 1 300");
    }
    for member in [one, other] {
        let failure = member.answer("g").unwrap().result.unwrap_err();
        failure.expect("Timeout", absent);
        assert!(failure.text.contains(&format!("index 1 ({}) is absent", absent.number())), "{failure}");
    }
    // Called again, by all now, it goes on.
    call_in_group(&members, "allreduce 100000", 1);
    drop(members);
    job.end();
}

/// Whoever waits for a piece of somebody who waits in turn is told who it is that could go on and does not.
#[test]
fn a_member_that_is_stopped_while_pieces_flow_is_named_to_every_other() {
    let job = Job::launched(PROGRAM);
    let members: [Process; 3] = job.nodes();
    join(&members.each_ref());
    let [one, stopped, other] = &members;
    // So that all are at it.
    for rounds in [2, 1_000_000] {
        for member in &members {
            member.tell("g", &format!("collective g bcast 1000000 {rounds} 1500"));
        }
        if rounds == 2 {
            members.iter().for_each(|member| assert!(member.answer("g").unwrap().result.is_ok()));
        }
    }
    stopped.stop();
    for member in [one, other] {
        let failure = member.answer("g").unwrap().result.unwrap_err();
        failure.expect("Timeout", stopped);
        assert!(failure.text.contains("index 1"), "{failure}");
        assert!(!failure.text.contains("index 0") && !failure.text.contains("index 2"), "{failure}");
    }
    stopped.go_on();
    drop(members);
    job.end();
}

/// All pairs of many nodes take long to meet. What is told without that is told as elsewhere.
#[test]
fn nodes_of_a_large_group_meet_when_a_call_needs_their_memory() {
    let job = Job::launched(PROGRAM);
    let members: [Process; 18] = job.nodes();
    // It comes first and has the board, so all others meet it.
    members[0].tell_and_see_waiting("g", "join-group g 18 0 20000");
    for (index, member) in members.iter().enumerate().skip(1) {
        member.tell("g", &format!("join-group g 18 {index} 20000"));
    }
    for member in &members {
        member.answer("g").unwrap().result.unwrap();
    }
    for call in ["barrier 0", "allreduce 1", "bcast 4", "gather 2", "start-distinct-scan 3"] {
        call_in_group(&members, call, 3);
    }
    let [stopped, others @ .., last] = &members;
    stopped.stop();
    others.iter().for_each(|other| other.tell("g", "collective g barrier 0 1 1500"));
    let failure = last.ask_in("g", "collective g barrier 0 1 1500").failure();
    failure.expect("Timeout", stopped);
    assert!(failure.text.contains("index 0 (node 0, frozen)"), "{failure}");
    others.iter().for_each(|other| other.answer("g").unwrap().failure().expect("Timeout", stopped));
    stopped.go_on();
    call_in_group(&members, "barrier 0", 3);
    // Its own, and that of the node which the board is in.
    assert!(last.mapped_nodes() <= 2, "{} are mapped", last.mapped_nodes());
    for call in ["allgather 100", "distinct-alltoall 1", "barrier 0"] {
        call_in_group(&members, call, 3);
    }
    assert_eq!(last.mapped_nodes(), members.len());
    drop(members);
    job.end();
}

#[test]
fn a_member_that_dies_before_others_have_met_it_is_named_to_all() {
    let job = Job::launched(PROGRAM);
    let members: [Process; 18] = job.nodes();
    join(&members.each_ref());
    let [killed, others @ ..] = &members;
    killed.kill_and_wait();
    for (number, call) in ["barrier 0", "allreduce 1000"].into_iter().enumerate() {
        for other in &others[number..] {
            other.tell("g", &format!("collective g {call} 1 20000"));
            other.answer("g").unwrap().result.unwrap_err().expect("PeerLost", killed);
        }
    }
    drop(members);
    job.end();
}

#[test]
fn members_that_are_ahead_of_others_get_right_results() {
    let job = Job::launched(PROGRAM);
    let members: [Process; 3] = job.nodes();
    join_own(&members.each_ref());
    for (kind, count) in [
        ("bcast", 1),
        ("gather", 1),
        ("bcast", 1000),
        ("scatter", 1),
        ("reduce", 3),
        ("scatter", 600),
        ("gather", 500),
        ("bcast", 100_000),
        ("reduce", 700),
        ("barrier", 0),
    ] {
        call_in_group(&members, &format!("{kind} {count}"), 300);
    }
    drop(members);
    job.end();
}

/// Members are ahead of the one that is stopped by different numbers of calls, and some wait for others that wait for
/// it.
#[test]
fn whom_members_that_are_ahead_wait_for_in_the_end_is_named_to_every_other() {
    for kind in ["bcast", "reduce", "gather", "scatter"] {
        let job = Job::launched(PROGRAM);
        let members: [Process; 4] = job.nodes();
        join_own(&members.each_ref());
        let [one, stopped, three, four] = &members;
        stopped.stop();
        for member in [one, three, four] {
            member.tell("g", &format!("collective g {kind} 2 1000 1500"));
        }
        for member in [one, three, four] {
            let failure = member.answer("g").unwrap().result.unwrap_err();
            failure.expect("Timeout", stopped);
            assert!(failure.text.contains("index 1 (node 1, frozen) is absent"), "{kind}: {failure}");
        }
        stopped.go_on();
        drop(members);
        job.end();
    }
}

#[test]
fn a_member_that_is_ahead_and_waits_is_told_of_a_death() {
    // One waits because it is too far ahead, the other because it takes from the victim.
    those_who_wait_are_told_of_a_death(join_own, "collective g reduce 1 1000 60000");
}

#[test]
fn a_stopped_member_is_called_frozen_and_loses_nothing() {
    let job = Job::launched(PROGRAM);
    let members: [Process; 2] = job.nodes();
    join(&members.each_ref());
    let [one, stopped] = &members;
    stopped.stop();
    let failure = one.ask_in("g", "collective g allreduce 3 1 800").result.unwrap_err();
    failure.expect_frozen(stopped);
    stopped.go_on();
    one.tell("g", "collective g allreduce 3 1 20000");
    stopped.tell("g", "collective g allreduce 3 1 20000");
    assert!([one, stopped].iter().all(|member| member.answer("g").unwrap().result.is_ok()));
    drop(members);
    job.end();
}

/// Three members of a group: the first, at whose node its board is, the one that came last, as index 1, and one that
/// was stopped before the last could meet it.
fn joined_beside_a_stopped_member(first_index: u32, stopped_index: u32, options: &str) -> (Job, [Process; 3]) {
    let job = Job::launched(PROGRAM);
    let members = job.nodes();
    let [one, last, stopped] = &members;
    // These two have met, so that joining is all that they wait for.
    one.mailbox("box");
    stopped.clone_mailbox("box");
    one.tell_and_see_waiting("g", &format!("join-group g 3 {first_index} 20000 {options}"));
    stopped.tell_and_see_waiting("g", &format!("join-group g 3 {stopped_index} 20000 {options}"));
    stopped.stop();
    last.ask_in("g", &format!("join-group g 3 1 300 {options}")).result.expect("all have come");
    (job, members)
}

/// It knows where its own content lies before it has met the node of any member, even its own.
#[test]
fn a_call_can_be_started_by_a_member_that_has_met_nobody_yet() {
    for options in ["", "own"] {
        let (job, members) = joined_beside_a_stopped_member(2, 0, options);
        let [one, last, stopped] = &members;
        last.ask_in("g", "collective g start-allreduce 4096 1 300").result.unwrap_err().expect_frozen(stopped);
        stopped.go_on();
        for member in [one, stopped] {
            member.answer("g").unwrap().result.expect("it joins");
            member.tell("g", "collective g allreduce 4096 1 20000");
            member.tell("g", "collective g barrier 0 1 20000");
        }
        last.ask_in("g", "collective g barrier 0 1 20000").result.unwrap();
        for _ in ["allreduce", "barrier"] {
            assert!([one, stopped].iter().all(|member| member.answer("g").unwrap().result.is_ok()));
        }
        drop(members);
        job.end();
    }
}

/// Once all have come there is a group, and nobody ends it for want of time.
#[test]
fn whoever_comes_last_and_cannot_meet_a_stopped_member_in_time_is_in_the_group() {
    for options in ["", "own"] {
        let (job, members) = joined_beside_a_stopped_member(0, 2, options);
        let [one, last, stopped] = &members;
        let failure = last.ask_in("g", "collective g allreduce 3 1 300").result.unwrap_err();
        failure.expect_frozen(stopped);
        stopped.go_on();
        last.tell("g", "collective g allreduce 3 2 20000");
        for joining in [one, stopped] {
            joining.answer("g").unwrap().result.expect("it joins");
            joining.tell("g", "collective g allreduce 3 2 20000");
        }
        for member in &members {
            assert_eq!(member.answer("g").unwrap().result.unwrap(), "2");
        }
        drop(members);
        job.end();
    }
}

/// Who joins while a member goes for good has nothing to leave; who has joined has.
#[test]
fn whoever_cannot_meet_a_member_that_is_gone_is_told_to_form_another_group() {
    for (leaves, kind) in [(true, "Closed"), (false, "PeerLost")] {
        let (job, [one, last, stopped]) = joined_beside_a_stopped_member(2, 0, "");
        if leaves {
            last.done("leave");
        } else {
            last.kill_and_wait();
        }
        // Nobody can be met by who was asked to meet it before.
        while one.done(&format!("state {}", last.number().0)) == "Live" {}
        stopped.go_on();
        let failure = stopped.answer("g").unwrap().failure();
        failure.expect(kind, &last);
        assert!(failure.text.contains("; form another group of those who are left"), "{failure}");
        drop((one, last, stopped));
        job.end();

        let job = Job::launched(PROGRAM);
        let members: [Process; 18] = job.nodes();
        join(&members.each_ref());
        let [gone, others @ ..] = &members;
        if leaves {
            gone.done("leave");
        } else {
            gone.kill_and_wait();
        }
        others.iter().for_each(|other| other.tell("g", "collective g allreduce 1000 1 20000"));
        for other in others {
            let failure = other.answer("g").unwrap().failure();
            failure.expect(kind, gone);
            assert!(failure.text.contains("form another one"), "{failure}");
        }
        drop(members);
        job.end();
    }
}

#[test]
fn a_member_that_waits_sleeps_and_is_told_of_a_death() {
    those_who_wait_are_told_of_a_death(join, "collective g barrier 0 1 60000");
}

/// Of three members that `join` a group, two are in `call`, and the third is killed.
#[track_caller]
fn those_who_wait_are_told_of_a_death(join: fn(&[&Process]), call: &str) {
    let job = Job::launched(PROGRAM);
    let members: [Process; 3] = job.nodes();
    join(&members.each_ref());
    let [one, victim, other] = &members;
    one.tell_and_see_waiting("g", call);
    other.tell_and_see_waiting("g", call);
    victim.kill();
    for member in [one, other] {
        let answer = member.answer("g").unwrap();
        answer.result.unwrap_err().expect_death(victim);
        assert!(answer.took < SOON);
    }
    drop(members);
    job.end();
}

#[test]
fn the_node_that_has_the_board_may_die_before_all_have_come() {
    let job = Job::launched(PROGRAM);
    let [first, second, third] = job.nodes();
    first.tell_and_see_waiting("g", "join-group g 2 0 60000");
    second.tell("g", "join-group g 3 1 20000");
    assert_eq!(second.answer("g").unwrap().result.unwrap_err().kind, "Invalid");
    first.kill();
    for member in [&second, &third] {
        // Until its death is told, its place is taken.
        while member.state(first.number()) != "Lost" {
            std::thread::yield_now();
        }
    }
    join(&[&second, &third]);
    second.tell("g", "collective g allgather 5 3 20000");
    third.tell("g", "collective g allgather 5 3 20000");
    assert!([&second, &third].iter().all(|member| member.answer("g").unwrap().result.is_ok()));
    drop((first, second, third));
    job.end();
}

/// What the error of a death advises: whoever is first to leave comes to the name before the others have left.
#[test]
fn those_who_are_left_after_a_death_form_a_smaller_group_of_the_same_name() {
    for completion in ["", "own"] {
        let job = Job::launched(PROGRAM);
        let members: [Process; 3] = job.nodes();
        join(&members.each_ref());
        let [one, victim, other] = &members;
        victim.kill();
        for member in [one, other] {
            member.ask_in("g", "collective g barrier 0 1 20000").result.unwrap_err().expect_death(victim);
        }
        one.ask_in("g", "leave-group g").result.unwrap();
        one.tell_and_see_waiting("g", &format!("join-group g 2 0 20000 {completion}"));
        other.ask_in("g", "leave-group g").result.unwrap();
        other.ask_in("g", &format!("join-group g 2 1 20000 {completion}")).result.unwrap();
        one.answer("g").unwrap().result.unwrap();
        for member in [one, other] {
            member.tell("g", "collective g allreduce 9 3 20000");
        }
        assert!([one, other].iter().all(|member| member.answer("g").unwrap().result.is_ok()));
        drop(members);
        job.end();
    }
}

#[test]
fn a_name_is_free_for_another_size_when_the_last_of_its_members_was_killed() {
    // All had come, and some have left; or they wait for a third.
    for is_formed in [true, false] {
        let job = Job::launched(PROGRAM);
        let members: [Process; 3] = job.nodes();
        let [one, other, victim] = &members;
        if is_formed {
            join(&members.each_ref());
            for member in [one, other] {
                member.ask_in("g", "leave-group g").result.unwrap();
            }
        } else {
            one.tell("g", "join-group g 3 0 1000");
            victim.tell_and_see_waiting("g", "join-group g 3 1 60000");
            assert_eq!(one.answer("g").unwrap().result.unwrap_err().kind, "Timeout");
        }
        victim.kill();
        for member in [one, other] {
            // Until its death is told, it waits there for a group of three.
            while !is_formed && member.state(victim.number()) != "Lost" {
                std::thread::yield_now();
            }
        }
        join(&[one, other]);
        drop(members);
        job.end();
    }
}

#[test]
fn groups_come_and_go_beside_deaths() {
    let job = Job::launched(PROGRAM).with_limit(Duration::from_secs(120));
    let [one, other] = job.nodes();
    for round in 0..20 {
        let [victim] = job.nodes();
        join(&[&one, &victim, &other]);
        for member in [&one, &victim, &other] {
            member.tell("g", "collective g allreduce 1000 1000000 60000");
        }
        if round % 2 == 0 {
            victim.kill();
        } else {
            victim.end();
        }
        for member in [&one, &other] {
            let failure = member.answer("g").unwrap().result.unwrap_err();
            assert!(matches!(failure.kind.as_str(), "PeerLost" | "Closed"), "{failure}");
            assert_eq!(failure.peer, Some(victim.number()));
        }
        for member in [&one, &other] {
            member.ask_in("g", "leave-group g").result.unwrap();
        }
    }
    drop((one, other));
    job.end();
}
