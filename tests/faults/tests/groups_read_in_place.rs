//! Members that are killed, stopped or away at their deadline while others read, or are about to read, what they give
//! in their programs' memory.
//!
//! The points (`deck_sync::point`) exist in builds with debug assertions only.

use deck_testkit::{Job, Process, SOON, call_in_group, join_group, nodes_read_programs_memory};

const PROGRAM: &str = deck_testkit::node_program!();
const ALWAYS: (&str, &str) = ("DECK_ATTACH", "always");
/// A broadcast of the first member, long enough to be read in its program's memory.
const BCAST: &str = "collective g bcast 300000 1";

/// Two members of the group "g", the giver and the reader of that broadcast, with traps if they are to have some. Each
/// knows that the other one reads its program's memory.
#[track_caller]
fn giver_and_reader(giver: &[(&str, &str)], reader: &[(&str, &str)]) -> (Job, [Process; 2]) {
    let job = Job::launched(PROGRAM);
    let members = [giver, reader].map(|traps| job.node_with(&[&[ALWAYS], traps].concat()));
    join_group("g", "", &members.each_ref());
    call_in_group(&members, "barrier 0", 1);
    (job, members)
}

/// Both are in the broadcast, the giver for so many milliseconds, and the reader stops at this point.
#[track_caller]
fn stopped_while_it_reads(point: &str, giver_time: u128) -> (Job, [Process; 2]) {
    let (job, [giver, reader]) = giver_and_reader(&[], &[("DECK_POINT", &format!("{point}:1:stop"))]);
    giver.tell("g", &format!("{BCAST} {giver_time}"));
    reader.tell("g", &format!("{BCAST} {}", SOON.as_millis()));
    reader.await_stop();
    (job, [giver, reader])
}

/// The same, and the giver has left the call at its deadline. It has no such array any more.
#[track_caller]
fn stopped_until_the_giver_is_away(point: &str) -> (Job, [Process; 2]) {
    let (job, [giver, reader]) = stopped_while_it_reads(point, 1000);
    giver.answer("g").unwrap().failure().expect_timeout();
    (job, [giver, reader])
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_member_that_was_stopped_while_it_reads_has_what_was_given_though_the_giver_is_away() {
    if !nodes_read_programs_memory(PROGRAM) {
        return;
    }
    for point in ["group/reading", "group/read"] {
        let (job, members) = stopped_until_the_giver_is_away(point);
        let [giver, reader] = &members;
        reader.go_on();
        assert_eq!(reader.answer("g").unwrap().result.unwrap(), "1", "{point}");
        assert_eq!(giver.ask_in("g", &format!("{BCAST} 20000")).result.unwrap(), "1", "{point}");
        call_in_group(&members, "allgather 300000", 2);
        drop(members);
        job.end();
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_member_that_was_stopped_while_it_reads_is_told_that_the_giver_has_left_the_group() {
    if !nodes_read_programs_memory(PROGRAM) {
        return;
    }
    for point in ["group/reading", "group/read"] {
        let (job, [giver, reader]) = stopped_until_the_giver_is_away(point);
        giver.ask_in("g", "leave-group g").result.unwrap();
        reader.go_on();
        let failure = reader.answer("g").unwrap().failure();
        failure.expect("Closed", &giver);
        assert!(failure.text.contains("index 0"), "{point}: {failure}");
        drop((giver, reader));
        job.end();
    }
}

/// The reader, which was stopped before it read, is told that the giver has died once it is gone in this way.
#[track_caller]
fn told_of_the_death(gone: impl FnOnce(&Process)) {
    if !nodes_read_programs_memory(PROGRAM) {
        return;
    }
    let (job, [giver, reader]) = stopped_while_it_reads("group/reading", SOON.as_millis());
    gone(&giver);
    reader.go_on();
    reader.answer("g").unwrap().failure().expect_death(&giver);
    reader.ask_in("g", "collective g barrier 0 1 20000").failure().expect_death(&giver);
    drop((giver, reader));
    job.end();
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_member_that_was_stopped_before_it_reads_is_told_that_the_giver_has_died() {
    told_of_the_death(|giver| _ = giver.kill_and_wait());
}

/// There is a process with the giver's number, and what lies in its memory is not what was given.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_member_that_was_stopped_before_it_reads_is_told_that_the_givers_process_has_begun_another_program() {
    told_of_the_death(|giver| {
        giver.tell("main", "become exec sleep 1000 >&-");
        // Its output is closed: the other program is there.
        assert!(giver.answer("g").is_none());
    });
}

/// It has a copy of what it gives, and has not told the others where that is.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_member_killed_while_it_leaves_a_call_at_its_deadline_is_named_to_all_others() {
    if !nodes_read_programs_memory(PROGRAM) {
        return;
    }
    let (job, [giver, reader]) = giver_and_reader(&[("DECK_POINT", "group/kept")], &[]);
    giver.tell("g", &format!("{BCAST} 100"));
    assert!(giver.answer("g").is_none());
    let failure = reader.ask_in("g", &format!("{BCAST} 20000")).failure();
    failure.expect_death(&giver);
    assert!(failure.text.contains("index 0"), "{failure}");
    drop((giver, reader));
    job.end();
}

/// It has read what one gives, before the last one has come, and told nobody. Where it has given all itself, and nobody
/// waits for it to read, that call ends well for those who did not hear of its death before.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_member_killed_after_it_has_read_before_all_have_come_is_named_to_all_others() {
    let mut ways = vec![("never", 10_000)];
    if nodes_read_programs_memory(PROGRAM) {
        ways.push(("always", 300_000));
    }
    for (attach, count) in ways {
        let environment = ("DECK_ATTACH", attach);
        let job = Job::launched(PROGRAM);
        let victim = job.node_with(&[environment, ("DECK_POINT", "group/taken-early")]);
        let others = [(); 2].map(|()| job.node_with(&[environment]));
        let [one, last] = &others;
        join_group("g", "", &[&victim, one, last]);
        for member in [&victim, one, last] {
            member.tell("g", "collective g barrier 0 1 20000");
        }
        assert!([&victim, one, last].iter().all(|member| member.answer("g").unwrap().result.is_ok()));
        let call = format!("collective g allgather {count} 1 20000");
        victim.tell("g", &call);
        one.tell("g", &call);
        assert!(victim.answer("g").is_none());
        last.tell("g", &call);
        for member in [one, last] {
            match member.answer("g").unwrap().result {
                Ok(rounds) if attach == "never" => assert_eq!(rounds, "1"),
                result => result.unwrap_err().expect_death(&victim),
            }
            member.ask_in("g", "collective g barrier 0 1 20000").failure().expect_death(&victim);
        }
        one.ask_in("g", "leave-group g").result.unwrap();
        last.ask_in("g", "leave-group g").result.unwrap();
        join_group("g", "", &[one, last]);
        call_in_group(&others, &format!("allgather {count}"), 3);
        drop((others, victim));
        job.end();
    }
}
