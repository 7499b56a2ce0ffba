//! `deck why` and `deck ls`: what is told of jobs that are stuck, stopped, or busy.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Instant;

use deck_testkit::{Job, SOON, join_group, products};
use serde_json::{Value, json};

const PROGRAM: &str = deck_testkit::node_program!();

/// The `deck` command, built for the profile that this test runs in.
fn deck() -> &'static Path {
    static DECK: OnceLock<PathBuf> = OnceLock::new();
    DECK.get_or_init(|| products::build(&[&["-p", "deck-cli", "--bin", "deck"]]).join("deck"))
}

/// The nodes' program. What is built is built before a job begins, whose watchdog would count the time.
fn program() -> &'static str {
    deck();
    PROGRAM
}

/// What a command tells of a job.
#[track_caller]
fn told(command: &str, job: &str) -> Value {
    let ended = Command::new(deck()).args([command, job, "--json"]).output().expect("deck starts");
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && errors.is_empty(), "deck {command} {job}: {}: {errors}", ended.status);
    let mut value: Value = serde_json::from_slice(&ended.stdout).expect("one JSON object");
    assert_eq!(value["jobs"].as_array().map(Vec::len), Some(1), "{value}");
    value["jobs"][0].take()
}

/// The same in words.
#[track_caller]
fn said(command: &str, job: &str) -> String {
    let ended = Command::new(deck()).args([command, job]).output().expect("deck starts");
    assert!(ended.status.success(), "deck {command} {job}: {}", ended.status);
    String::from_utf8(ended.stdout).expect("text")
}

/// For longer than that threads have waited when a cycle is told that one outside of DECK could end: the first thread of each node here reads
/// what the test writes.
const NOT_YOUNG: f64 = 0.4;

/// Looks until as many threads wait, which they write down as they go to sleep, and have done so for a while. The watchdog ends what
/// never comes.
#[track_caller]
fn waits(job: &str, count: usize) -> Value {
    let is_old = |wait: &Value| wait["since_seconds"].as_f64().expect("seconds") > NOT_YOUNG;
    loop {
        let told = told("why", job);
        let waits = told["waits"].as_array().expect("a list");
        if waits.len() == count && waits.iter().all(is_old) {
            return told;
        }
    }
}

/// Node and kind of each wait in a cycle.
fn cycle(told: &Value, index: usize) -> Vec<(u64, String)> {
    let waits = told["cycles"][index]["waits"].as_array().expect("a cycle");
    let wait = |at: &Value| &told["waits"][at.as_u64().expect("a place") as usize];
    waits
        .iter()
        .map(wait)
        .map(|wait| (wait["node"].as_u64().unwrap(), wait["for"].as_str().unwrap().to_owned()))
        .collect()
}

fn nodes_of(list: &Value) -> Vec<u64> {
    list.as_array().expect("a list").iter().map(|whom| whom["node"].as_u64().unwrap()).collect()
}

#[test]
fn two_nodes_that_retrieve_from_one_another_are_told_as_a_cycle_until_one_posts() {
    let job = Job::launched(program());
    let [one, other] = job.nodes();
    one.mailbox("a");
    other.mailbox("b");
    one.clone_mailbox("b");
    other.clone_mailbox("a");
    one.tell("w", "retrieve a 40000");
    other.tell("w", "retrieve b 40000");
    let told = waits(job.name(), 2);
    assert_eq!(cycle(&told, 0), [(0, "retrieve".to_owned()), (1, "retrieve".to_owned())]);
    assert_eq!(told["cycles"].as_array().unwrap().len(), 1, "{told}");
    for (index, (name, whom)) in [("a", 1), ("b", 0)].into_iter().enumerate() {
        let wait = &told["waits"][index];
        assert_eq!((wait["name"].as_str(), nodes_of(&wait["on"])), (Some(name), vec![whom, 1 - whom]), "{wait}");
        let (since, left) = (wait["since_seconds"].as_f64().unwrap(), wait["left_seconds"].as_f64().unwrap());
        assert!(since >= 0.0 && left > 0.0 && since + left > 30.0 && since + left < 40.01, "{wait}");
    }
    // Their first threads read what the test writes: they may end it.
    assert!(nodes_of(&told["cycles"][0]["unless"]).contains(&0), "{told}");

    other.post("a", 0, 1, 100);
    one.answer("w").unwrap().words();
    let told = waits(job.name(), 1);
    assert_eq!((told["cycles"].as_array().unwrap().len(), told["waits"][0]["node"].as_u64()), (0, Some(1)), "{told}");
    drop((one, other));
    job.end();
}

/// Node 0 waits at nine mail boxes, and only the last one has somebody who posts to it: node 2, which runs no DECK call.
#[test]
fn who_selects_among_more_mail_boxes_than_are_noted_waits_for_anybody() {
    let job = Job::launched(program());
    let nodes: [_; 3] = job.nodes();
    let names: Vec<String> = (0..9).map(|number| format!("box-{number}")).collect();
    names.iter().for_each(|name| nodes[0].mailbox(name));
    nodes[1].mailbox("b");
    names[..8].iter().for_each(|name| nodes[1].clone_mailbox(name));
    nodes[2].clone_mailbox("box-8");
    nodes[0].clone_mailbox("b");
    nodes[0].tell("w", &format!("select 40000 {}", names.join(" ")));
    nodes[1].tell("w", "retrieve b 40000");
    let told = waits(job.name(), 2);
    let wait = &told["waits"][0];
    assert_eq!((&wait["for"], nodes_of(&wait["on"])), (&"select".into(), vec![0, 1, 2]), "{wait}");
    assert_eq!(wait["note"], "8 of its mail boxes are known, and there may be more");
    let text = wait["text"].as_str().unwrap();
    assert!(text.starts_with("to retrieve from one of 8 mail boxes or more, "), "{wait}");
    nodes[2].post("box-8", 0, 1, 100);
    assert_eq!(nodes[0].answer("w").unwrap().result.unwrap(), "8");
    // Of so few all are known.
    nodes[0].tell("w", "select 40000 box-0 box-1 box-2");
    let told = waits(job.name(), 2);
    let text = told["waits"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("to retrieve from one of 3 mail boxes, mail box \"box-"), "{told}");
    nodes[1].post("box-2", 0, 1, 100);
    nodes[0].answer("w").unwrap().words();
    drop(nodes);
    job.end();
}

/// Two of three were started by hand, and the third will be.
#[test]
fn who_waits_for_whoever_comes_is_in_no_cycle_where_more_nodes_may_come() {
    let job = Job::by_name(program());
    let [one, other] = job.nodes();
    // They have met: the group is all that joining it waits for.
    one.mailbox("door");
    other.clone_mailbox("door");
    for (lane, what) in [("meets", "barrier meeting 3 40000"), ("waits", "wait-for sum 1 40000")] {
        [&one, &other].into_iter().for_each(|node| node.tell(lane, what));
    }
    one.tell("joins", "join-group half 3 0 40000");
    other.tell("joins", "join-group half 3 1 40000");
    let told = waits(job.name(), 6);
    assert_eq!(told["cycles"], Value::Array(vec![]), "{told:#}");
    assert!(told["waits"].as_array().unwrap().iter().all(|wait| wait["on_newcomers"] == true), "{told:#}");
    drop((one, other));
    job.end();
}

#[test]
fn who_waits_for_a_node_that_is_stopped_tells_that_it_is_and_for_what() {
    let job = Job::launched(program());
    let here = job.node_with(&[("DECK_TIMEOUT", "40")]);
    let stopped = job.node();
    // They have met: what is waited for is the segment.
    stopped.mailbox("door");
    here.clone_mailbox("door");
    stopped.ask_in("w", "lock held 1000").words();
    stopped.stop();
    here.tell("locks", "lock held 40000");
    here.tell("makes", "segment-create there 5000 1");
    let told = waits(job.name(), 2);
    let texts: Vec<&str> =
        told["waits"].as_array().unwrap().iter().map(|wait| wait["text"].as_str().unwrap()).collect();
    assert!(texts.contains(&"to be passed segment \"there\""), "{told:#}");
    let text = said("why", job.name());
    let holder = "on node 1, which is frozen: one of its threads that waits for nothing in DECK";
    assert!(text.contains(holder) && text.contains("on node 1, which is frozen\n"), "{text}");
    stopped.go_on();
    stopped.ask_in("w", "unlock held").words();
    ["locks", "makes"].into_iter().for_each(|lane| drop(here.answer(lane).unwrap().words()));
    drop((here, stopped));
    job.end();
}

/// Each of them waits for the one before it almost all the time, and no moment is the same in all.
#[test]
fn nodes_that_pass_a_token_around_are_never_told_as_a_cycle() {
    const NODES: usize = 6;
    const ROUNDS: usize = 1000;
    let job = Job::launched(program());
    let nodes: [_; NODES] = job.nodes();
    let name = |number: usize| format!("box-{}", number % NODES);
    nodes.iter().enumerate().for_each(|(number, node)| node.mailbox(&name(number)));
    nodes.iter().enumerate().for_each(|(number, node)| node.clone_mailbox(&name(number + 1)));
    for (number, node) in nodes.iter().enumerate() {
        let forward = format!("forward {} {} 40000", name(number), name(number + 1));
        (0..ROUNDS).for_each(|_| node.tell("w", &forward));
    }
    // Each looks at every byte before it passes it on.
    nodes[NODES - 1].post(&name(0), 0, 1, 300_000);
    let (passed, has_passed) = channel();
    std::thread::scope(|scope| {
        let nodes = &nodes;
        scope.spawn(move || {
            for node in nodes {
                (0..ROUNDS).for_each(|_| drop(node.answer("w").unwrap().words()));
            }
            drop(passed);
        });
        let mut looks = 0;
        while has_passed.try_recv() == Err::<(), _>(TryRecvError::Empty) {
            let told = told("why", job.name());
            assert_eq!(told["cycles"], Value::Array(vec![]), "look {looks}: {told:#}");
            looks += 1;
        }
        assert!(looks > 0);
    });
    drop(nodes);
    job.end();
}

/// The owner needs no clone to post to its mail box, and nothing tells that it is going to.
#[test]
fn another_thread_of_the_owner_may_post_to_its_mail_box() {
    let job = Job::launched(program());
    let [owner, other] = job.nodes();
    owner.mailbox("box");
    other.clone_mailbox("box");
    join_group("main", "", &[&owner, &other]);
    owner.tell("main", "retrieve box 40000");
    other.tell("main", "collective g barrier 0 1 40000");
    let told = waits(job.name(), 2);
    assert_eq!(cycle(&told, 0), [(0, "retrieve".to_owned()), (1, "collective".to_owned())]);
    // Its other threads, which read what the test writes.
    assert!(nodes_of(&told["cycles"][0]["unless"]).contains(&0), "{told}");
    other.post("box", 0, 1, 100);
    owner.answer("main").unwrap().words();
    owner.ask_in("main", "collective g barrier 0 1 40000").words();
    drop((owner, other));
    job.end();
}

#[test]
fn who_was_stopped_before_it_could_take_its_message_is_in_no_cycle() {
    let job = Job::launched(program());
    let [stopped, other] = job.nodes();
    stopped.mailbox("a");
    other.mailbox("b");
    stopped.clone_mailbox("b");
    other.clone_mailbox("a");
    stopped.tell_and_see_waiting("w", "retrieve a 40000");
    stopped.stop();
    other.post("a", 0, 1, 100);
    other.tell_and_see_waiting("w", "retrieve b 40000");
    // Or else it would do without: who is stopped may go on.
    other.stop();
    assert_eq!(waits(job.name(), 2)["cycles"], Value::Array(vec![]));
    other.go_on();
    stopped.go_on();
    stopped.answer("w").unwrap().words();
    drop((stopped, other));
    job.end();
}

#[test]
fn who_was_stopped_before_it_could_take_the_message_of_a_node_that_left_is_in_no_cycle() {
    let job = Job::launched(program());
    let [stopped, other, leaving] = job.nodes();
    stopped.mailbox("a");
    other.mailbox("b");
    stopped.clone_mailbox("b");
    [&other, &leaving].into_iter().for_each(|node| node.clone_mailbox("a"));
    stopped.tell_and_see_waiting("w", "retrieve a 40000");
    other.tell_and_see_waiting("w", "retrieve b 40000");
    assert_eq!(cycle(&waits(job.name(), 2), 0), [(0, "retrieve".to_owned()), (1, "retrieve".to_owned())]);
    stopped.stop();
    leaving.post("a", 0, 1, 100);
    leaving.done("leave");
    other.stop();
    assert_eq!(waits(job.name(), 2)["cycles"], Value::Array(vec![]));
    other.go_on();
    stopped.go_on();
    stopped.answer("w").unwrap().words();
    drop((stopped, other, leaving));
    job.end();
}

#[test]
fn those_who_wait_while_a_node_is_stopped_that_could_help_them_are_in_no_cycle() {
    let job = Job::launched(program());
    let [one, other, helper] = job.nodes();
    one.mailbox("a");
    other.mailbox("b");
    [&other, &helper].into_iter().for_each(|node| node.clone_mailbox("a"));
    [&one, &helper].into_iter().for_each(|node| node.clone_mailbox("b"));
    one.tell("w", "retrieve a 40000");
    other.tell("w", "retrieve b 40000");
    assert_eq!(cycle(&waits(job.name(), 2), 0), [(0, "retrieve".to_owned()), (1, "retrieve".to_owned())]);
    helper.stop();
    assert_eq!(waits(job.name(), 2)["cycles"], Value::Array(vec![]));
    // Who was stopped before that is not known where all are.
    one.stop();
    other.stop();
    assert_eq!(cycle(&waits(job.name(), 2), 0), [(0, "retrieve".to_owned()), (1, "retrieve".to_owned())]);
    [&one, &other, &helper].into_iter().for_each(|node| node.go_on());
    helper.post("a", 0, 1, 100);
    helper.post("b", 0, 1, 100);
    [one, other].into_iter().for_each(|node| drop(node.answer("w").unwrap().words()));
    drop(helper);
    job.end();
}

#[test]
fn a_mutex_that_is_free_is_told_as_free() {
    let job = Job::launched(program());
    let [stopped, other] = job.nodes();
    other.ask_in("w", "lock m 1000").words();
    stopped.tell_and_see_waiting("w", "lock m 40000");
    stopped.stop();
    other.ask_in("w", "unlock m").words();
    let told = waits(job.name(), 1);
    assert_eq!(
        (&told["waits"][0]["note"], nodes_of(&told["waits"][0]["on"])),
        (&"it is free".into(), vec![]),
        "{told}"
    );
    stopped.go_on();
    stopped.answer("w").unwrap().words();
    drop((stopped, other));
    job.end();
}

#[test]
fn mutexes_that_are_locked_crosswise_are_a_cycle_of_threads() {
    let job = Job::by_name(program());
    let [one, other] = job.nodes();
    one.ask_in("w", "lock a 1000").words();
    other.ask_in("w", "lock b 1000").words();
    one.tell("w", "lock b 40000");
    other.tell("w", "lock a 40000");
    let told = waits(job.name(), 2);
    assert_eq!(cycle(&told, 0), [(0, "mutex".to_owned()), (1, "mutex".to_owned())]);
    for (at, holder) in [(0, 1), (1, 0)] {
        let (wait, other) = (&told["waits"][at], &told["waits"][holder]);
        let on = &wait["on"][0];
        assert_eq!((&on["node"], &on["thread"]), (&other["node"], &other["thread"]), "{told}");
    }
    assert_eq!(told["cycles"][0]["unless"].as_array().unwrap().len(), 0, "{told}");
    drop((one, other));
    job.end();
}

#[test]
fn every_kind_of_wait_is_told_with_who_could_end_it() {
    let job = Job::launched(program());
    let [here, there] = job.nodes();
    // The other node has them open too, and comes to the barrier for a moment only.
    there.ask("barrier all 3 0").failure();
    for what in ["add sum 5", "signal changed", "lock held 1000", "segment-create here 5000 1"] {
        there.done(what);
    }
    here.tell("condition", "lock own 1000");
    here.answer("condition").unwrap().words();
    let expected = [
        ("condition", "await changed own 40000", vec![0, 1], "for a signal of condition variable \"changed\""),
        ("semaphore", "take permits 40000", vec![0], "for a semaphore of its node"),
        ("mutex", "lock held 40000", vec![1], "to lock mutex \"held\""),
        ("barrier", "barrier all 3 40000", vec![0, 1], "at barrier \"all\": 1 of 3 threads have come"),
        ("counter", "wait-for sum 6 40000", vec![0, 1], "for counter \"sum\", which is 5"),
        ("name", "clone nobody 40000", vec![0, 1], "for somebody to create mail box \"nobody\""),
        ("segment", "segment-open nothing 40000", vec![0, 1], "for somebody to create segment \"nothing\""),
        ("group", "join-group half 2 0 40000", vec![0, 1], "for all to join group \"half\""),
    ];
    expected.iter().for_each(|(lane, what, ..)| here.tell(lane, what));
    let told = waits(job.name(), expected.len());
    for (_, what, on, text) in &expected {
        let is_it = |wait: &&Value| wait["text"].as_str().unwrap().starts_with(text);
        let wait = told["waits"].as_array().unwrap().iter().find(is_it);
        let wait = wait.unwrap_or_else(|| panic!("{what}: {told}"));
        assert_eq!((&wait["node"], nodes_of(&wait["on"])), (&0.into(), on.clone()), "{wait}");
    }
    let listed = self::told("ls", job.name());
    assert_eq!(listed["segments"], json!([{ "name": "here", "home": 1, "bytes": 5000, "nodes": [1] }]), "{listed}");
    let states = listed["things"].as_array().unwrap();
    for (kind, name, state) in
        [("mutex", "held", "held by node 1"), ("barrier", "all", "1 of 3 threads have come"), ("counter", "sum", "5")]
    {
        let thing = states.iter().find(|thing| thing["kind"] == kind && thing["name"] == name);
        assert_eq!(thing.map(|thing| &thing["state"]), Some(&state.into()), "{listed}");
    }
    drop((here, there));
    job.end();
}

#[test]
fn a_job_whose_processes_are_all_stopped_tells_the_same() {
    let job = Job::by_name(program());
    let [one, other] = job.nodes();
    one.mailbox("a");
    other.clone_mailbox("a");
    one.tell("w", "retrieve a 40000");
    waits(job.name(), 1);
    // The first one has the broker too.
    one.stop();
    other.stop();
    let told = told("why", job.name());
    let states: Vec<_> = told["nodes"].as_array().unwrap().iter().map(|node| node["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["frozen", "frozen"]);
    assert_eq!((told["waits"][0]["for"].as_str(), nodes_of(&told["waits"][0]["on"])), (Some("retrieve"), vec![1, 0]));
    let listed = self::told("ls", job.name());
    assert_eq!((&listed["mailboxes"][0]["name"], &listed["mailboxes"][0]["node"]), (&"a".into(), &0.into()));
    one.go_on();
    other.go_on();
    drop((one, other));
    job.end();
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
    assert_eq!(lost["note"], "no node has cloned it");
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
    let listed = self::told("ls", job.name());
    assert_eq!((&listed["groups"][0]["name"], &listed["groups"][0]["members"][2]["node"]), (&"g".into(), &2.into()));
    drop((zero, one, two));
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

#[test]
fn a_full_mail_box_is_seen_and_who_posts_to_it_waits_for_its_owner() {
    let job = Job::launched(program());
    let [owner, poster] = job.nodes();
    owner.mailbox_for("box", 6);
    poster.clone_mailbox("box");
    poster.post("box", 0, 6, 100);
    let listed = told("ls", job.name());
    let mailbox = &listed["mailboxes"][0];
    assert_eq!(
        (&mailbox["name"], &mailbox["filled"], &mailbox["from"][0]["node"]),
        (&"box".into(), &6.into(), &1.into())
    );
    poster.tell("w", "post box 6 1 100 40000");
    let told = waits(job.name(), 1);
    let wait = &told["waits"][0];
    assert_eq!((&wait["for"], &wait["node"], nodes_of(&wait["on"])), (&"post".into(), &1.into(), vec![0]), "{wait}");
    for number in 0..7 {
        assert_eq!(owner.retrieve("box", SOON).unwrap().number, number);
    }
    assert_eq!(waits(job.name(), 0)["cycles"], Value::Array(vec![]));
    assert_eq!(self::told("ls", job.name())["mailboxes"][0]["filled"], 0);
    drop((owner, poster));
    job.end();
}

#[test]
fn small_messages_that_share_a_slot_are_counted_one_by_one() {
    let job = Job::launched(program());
    let [owner, poster] = job.nodes();
    owner.mailbox("box");
    poster.clone_mailbox("box");
    for filled in 1..20 {
        poster.post("box", filled, 1, if filled % 9 == 0 { 40 } else { 8 });
        assert_eq!(told("ls", job.name())["mailboxes"][0]["filled"], filled);
    }
    let listed = told("ls", job.name());
    let from = &listed["mailboxes"][0]["from"][0];
    let [filled, slots_filled, slots] =
        ["filled", "slots_filled", "slots"].map(|key| from[key].as_u64().unwrap_or_else(|| panic!("{key}: {listed}")));
    assert!(slots_filled < filled && slots_filled <= slots, "{listed}");
    let text = said("ls", job.name());
    assert!(text.contains(&format!("from node 1: {filled} messages in {slots_filled} of {slots} slots, ")), "{text}");
    drop((owner, poster));
    job.end();
}

#[test]
fn what_the_memory_of_a_node_is_like_is_told_and_refused_places_are_no_failure() {
    let job = Job::launched(program());
    let owner = job.node_with(&[("DECK_NUMA", "never")]);
    // A machine that hwloc describes and takes for this one, which has no NUMA node 900: whoever binds to it is refused.
    let machine = ("HWLOC_SYNTHETIC", "numa:2(indexes=900,901) pu:64");
    let poster = job.node_with(&[("DECK_NUMA", "always"), machine, ("HWLOC_THISSYSTEM", "1")]);
    owner.mailbox("box");
    poster.clone_mailbox("box");
    poster.post("box", 0, 3, 1 << 20);
    for number in 0..3 {
        assert_eq!(owner.retrieve("box", SOON).unwrap().number, number);
    }
    let listed = told("ls", job.name());
    let [plain, bound] = [0, 1].map(|node| &listed["nodes"][node]["memory"]);
    assert!(plain["bytes"].as_u64() > Some(0) && plain["numa_nodes"] == 0 && plain["refused"] == false, "{listed}");
    assert!(bound["bytes"].as_u64() > Some(1 << 20), "{listed}");
    if bound["numa_nodes"] == 0 {
        println!("not tested: hwloc is not installed (libhwloc.so.15)");
    } else {
        assert_eq!((&bound["numa_nodes"], &bound["refused"]), (&2.into(), &true.into()), "{listed}");
    }
    drop((owner, poster));
    job.end();
}

#[test]
fn a_busy_mail_box_has_a_rate() {
    let job = Job::launched(program());
    let [owner, poster] = job.nodes();
    owner.mailbox("box");
    poster.clone_mailbox("box");
    let (seen, is_seen) = channel::<()>();
    std::thread::scope(|scope| {
        let (owner, poster) = (&owner, &poster);
        scope.spawn(move || {
            for number in (0..).take_while(|_| is_seen.try_recv() == Err(TryRecvError::Empty)) {
                poster.post("box", number, 1, 100);
                owner.retrieve("box", SOON).unwrap();
            }
        });
        loop {
            let listed = told("ls", job.name());
            let mailbox = &listed["mailboxes"][0];
            if mailbox["per_second"].as_f64().unwrap() > 0.0 {
                assert_eq!(mailbox["per_second"], mailbox["from"][0]["per_second"], "{listed}");
                break;
            }
        }
        drop(seen);
    });
    drop((owner, poster));
    job.end();
}

/// A shell knows the number of what it has started, which looks after those that know the job.
#[test]
fn a_job_is_known_by_who_has_started_it() {
    let line = r#""$0" run -n 1 "$1"; true"#;
    let mut shell = Command::new("sh")
        .args(["-c", line])
        .args([deck().as_os_str(), program().as_ref()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is a shell");
    let mut first = String::new();
    BufReader::new(shell.stdout.take().expect("a pipe")).read_line(&mut first).expect("a line");
    assert_eq!(told("ls", &shell.id().to_string())["nodes"].as_array().unwrap().len(), 1, "after {first}");
    drop(shell.stdin.take());
    assert!(shell.wait().expect("it ends").success());
}

#[test]
fn a_job_is_known_by_any_of_its_processes_and_what_is_none_is_an_error() {
    let job = Job::launched(program());
    let [one, _other] = job.nodes();
    let told = told("ls", &one.pid().to_string());
    assert_eq!((&told["job"], told["nodes"].as_array().unwrap().len()), (&job.name().into(), 2));
    let lonely = Job::alone(program());
    let node = lonely.node();
    let told = self::told("why", &node.pid().to_string());
    assert_eq!((&told["job"], &told["processes"]), (&"".into(), &Value::from(vec![node.pid()])));
    drop(node);
    lonely.end();
    let ended = Command::new(deck()).args(["why", "no-such-job"]).output().expect("deck starts");
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1));
    assert!(errors.starts_with("deck why: you have no job \"no-such-job\"") && errors.contains("deck ls"), "{errors}");
    assert!(errors.trim_end().ends_with("[D0105]"), "{errors}");
    let ended = Command::new(deck()).args(["why", "a", "b"]).output().expect("deck starts");
    assert_eq!(ended.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("type: deck why [JOB] [--json]"));
    drop((one, _other));
    job.end();
}
