//! `deck why`: what is told of collectives that do not end, and of groups that do not form.

use std::time::Instant;

use deck_testkit::see::{self, nodes_of, waits};
use deck_testkit::{Job, join_group};
use serde_json::Value;

fn program() -> &'static str {
    see::seen(deck_testkit::node_program!())
}

#[test]
fn a_collective_that_cannot_end_tells_who_is_absent_and_where_it_is_instead() {
    let job = Job::launched(program());
    let [zero, one, two] = job.nodes();
    two.mailbox("elsewhere");
    join_group("g", "", &[&zero, &one, &two]);
    zero.tell("g", "collective g barrier 0 1 40000");
    one.tell("g", "collective g barrier 0 1 40000");
    two.tell("g", "retrieve elsewhere 40000");
    let told = waits(job.name(), 3);
    let lost = &told["waits"][2];
    assert_eq!((lost["node"].as_u64(), lost["for"].as_str()), (Some(2), Some("retrieve")));
    assert_eq!(lost["note"], "no node has a clone of it");
    for wait in &told["waits"].as_array().unwrap()[..2] {
        assert_eq!((&wait["for"], &wait["text"]), (&"collective".into(), &"in barrier of group \"g\"".into()));
        let absent = wait["absent"].as_array().unwrap();
        assert_eq!(absent.len(), 1, "{wait}");
        assert_eq!((&absent[0]["index"], &absent[0]["node"]), (&2.into(), &2.into()));
        assert_eq!(absent[0]["thread"], lost["thread"]);
        assert!(
            absent[0]["where"].as_str().unwrap().ends_with("waits to retrieve from mail box \"elsewhere\""),
            "{wait}"
        );
    }
    let listed = see::told("ls", job.name());
    assert_eq!((&listed["groups"][0]["name"], &listed["groups"][0]["members"][2]["node"]), (&"g".into(), &2.into()));
    drop((zero, one, two));
    job.end();
}

#[test]
fn of_many_that_wait_alike_a_few_are_told_one_by_one_and_all_if_one_asks() {
    const EACH: usize = 10;
    let job = Job::launched(program());
    let [zero, one] = job.nodes();
    let members = || (0..2 * EACH).map(|index| (if index < EACH { &zero } else { &one }, format!("g{index}"), index));
    for (node, thread, index) in members() {
        node.tell(&thread, &format!("join-group g {} {index} 40000", 2 * EACH));
    }
    members().for_each(|(node, thread, _)| drop(node.answer(&thread).unwrap().words()));
    for (node, thread, index) in members().take(EACH) {
        node.tell(&thread, &format!("collective g@{index} barrier 0 1 40000"));
    }
    let told = waits(job.name(), EACH);
    assert!(told["waits"].as_array().unwrap().iter().all(|wait| wait["absent"].as_array().unwrap().len() == EACH));
    let [few, all] = [&["why", job.name()][..], &["why", job.name(), "--all"]].map(see::said_with);
    let counts = |text: &str| [" waits in barrier", "absent: index "].map(|part| text.matches(part).count());
    assert_eq!(counts(&few), [8, 8 * 8], "{few}");
    let more = "    and 2 threads more wait in barrier of group \"g\" (--all shows each)\n";
    assert!(few.contains(more) && few.contains("      absent: and 2 members more (--all shows each)\n"), "{few}");
    assert_eq!((counts(&all), all.contains("--all")), ([EACH, EACH * EACH], false), "{all}");
    drop((zero, one));
    job.end();
}

#[test]
fn a_wait_for_members_has_begun_when_it_began_whoever_comes_meanwhile() {
    let job = Job::launched(program());
    let [zero, one] = job.nodes();
    join_group("g", "", &[&zero, &one]);
    zero.tell("g", "collective g barrier 0 1 40000");
    one.tell("w", "join-group half 2 0 40000");
    let (before, looked) = (waits(job.name(), 2), Instant::now());
    let other: [_; 1] = job.nodes();
    let elapsed = looked.elapsed().as_secs_f64();
    let after = waits(job.name(), 2);
    for (index, goal) in ["collective", "group"].into_iter().enumerate() {
        let [before, after] = [&before, &after].map(|told| &told["waits"][index]);
        assert_eq!(after["for"], goal);
        let since = |wait: &Value| wait["since_seconds"].as_f64().unwrap();
        // They are told in milliseconds.
        assert!(since(after) > since(before) + elapsed - 0.002, "{elapsed} s between {before} and {after}");
    }
    drop((zero, one, other));
    job.end();
}

#[test]
fn who_waits_for_the_last_group_of_a_name_to_end_is_told_who_is_still_in_it() {
    let job = Job::launched(program());
    let [zero, one, two] = job.nodes();
    join_group("g", "", &[&zero, &one]);
    zero.ask_in("g", "leave-group g").words();
    two.tell("g", "join-group g 2 0 40000");
    let told = waits(job.name(), 1);
    let wait = &told["waits"][0];
    assert_eq!((&wait["for"], &wait["text"]), (&"group".into(), &"for the last group \"g\" to end".into()));
    let absent = wait["absent"].as_array().unwrap();
    assert_eq!((absent.len(), &absent[0]["index"], nodes_of(&wait["on"])), (1, &1.into(), vec![1]), "{wait}");
    one.ask_in("g", "leave-group g").words();
    let told = waits(job.name(), 1);
    assert_eq!(told["waits"][0]["text"], "for all to join group \"g\"");
    drop((zero, one, two));
    job.end();
}

#[test]
fn an_absent_member_is_looked_for_in_the_thread_that_called_last() {
    let job = Job::launched(program());
    let [zero, one] = job.nodes();
    one.mailbox("elsewhere");
    join_group("joins", "", &[&zero, &one]);
    [&zero, &one].into_iter().for_each(|node| node.tell("calls", "collective g barrier 0 1 40000"));
    [&zero, &one].into_iter().for_each(|node| drop(node.answer("calls").unwrap().words()));
    one.tell("calls", "retrieve elsewhere 40000");
    zero.tell("calls", "collective g barrier 0 1 40000");
    let told = waits(job.name(), 2);
    let absent = &told["waits"][0]["absent"][0];
    assert_eq!(
        (&told["waits"][1]["for"], &absent["thread"]),
        (&"retrieve".into(), &told["waits"][1]["thread"]),
        "{told}"
    );
    drop((zero, one));
    job.end();
}

/// Absent is the root of the call in which a member waits, and nobody else who has not come.
#[test]
fn members_that_are_ahead_tell_for_whom_they_wait() {
    let job = Job::launched(program());
    let nodes: [_; 3] = job.nodes();
    join_group("g", "own", &nodes.each_ref());
    for node in [&nodes[0], &nodes[2]] {
        node.tell("g", "collective g bcast 1 1000 40000");
    }
    let told = waits(job.name(), 2);
    for wait in told["waits"].as_array().unwrap() {
        assert_eq!((&wait["for"], &wait["text"]), (&"collective".into(), &"in bcast of group \"g\"".into()));
        let absent = wait["absent"].as_array().unwrap();
        assert_eq!((absent.len(), &absent[0]["index"], &absent[0]["node"]), (1, &1.into(), &1.into()), "{wait}");
    }
    drop(nodes);
    job.end();
}

/// One of the two waits for a piece of the other, or both for room: absent is who is stopped.
#[test]
fn pieces_of_a_collective_that_flow_no_more_tell_who_keeps_them_up() {
    let job = Job::launched(program());
    let nodes: [_; 3] = job.nodes();
    join_group("g", "", &nodes.each_ref());
    nodes.iter().for_each(|node| node.tell("g", "collective g allgather 1000000 1000000 40000"));
    nodes[2].stop();
    let told = waits(job.name(), 2);
    for wait in told["waits"].as_array().unwrap() {
        let absent = wait["absent"].as_array().unwrap();
        assert_eq!((absent.len(), &absent[0]["index"]), (1, &2.into()), "{wait}");
    }
    nodes[2].go_on();
    drop(nodes);
    job.end();
}
