//! `deck why`: what is told of jobs whose threads wait for messages, semaphores and locks, and of those that are
//! stopped.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::{Duration, Instant};

use deck_sync::Service;
use deck_testkit::see::{self, cycle, nodes_of, said, stuck, told, waits};
use deck_testkit::{Job, join_group};
use serde_json::{Value, json};
use tempfile::tempdir;

fn program() -> &'static str {
    see::seen(deck_testkit::node_program!())
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
    let told = stuck(job.name(), 2);
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

/// Node 0 waits at nine mail boxes, and only the last one has somebody who posts to it: node 2, which runs no DECK
/// call.
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
    assert!(texts.contains(&"for node 1 to make segment \"there\""), "{told:#}");
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
    // 6000 messages in turn, each for a node that has to get a core first.
    let job = Job::launched(program()).with_limit(Duration::from_secs(240));
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
    let told = stuck(job.name(), 2);
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
    assert_eq!(cycle(&stuck(job.name(), 2), 0), [(0, "retrieve".to_owned()), (1, "retrieve".to_owned())]);
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
    assert_eq!(cycle(&stuck(job.name(), 2), 0), [(0, "retrieve".to_owned()), (1, "retrieve".to_owned())]);
    helper.stop();
    assert_eq!(waits(job.name(), 2)["cycles"], Value::Array(vec![]));
    // Who was stopped before that is not known where all are.
    one.stop();
    other.stop();
    assert_eq!(cycle(&stuck(job.name(), 2), 0), [(0, "retrieve".to_owned()), (1, "retrieve".to_owned())]);
    [&one, &other, &helper].into_iter().for_each(|node| node.go_on());
    helper.post("a", 0, 1, 100);
    helper.post("b", 0, 1, 100);
    [&one, &other].into_iter().for_each(|node| drop(node.answer("w").unwrap().words()));
    drop((one, other, helper));
    job.end();
}

/// Its threads, which have no names of their own, are called so too.
#[test]
fn the_threads_of_a_program_that_is_called_like_one_of_decks_own_are_told() {
    let folder = tempdir().expect("the temporary folder can be written");
    let called = folder.path().join(Path::new(Service::Broker.name()).file_name().unwrap());
    symlink(program(), &called).expect("a link");
    let job = Job::launched(called.to_str().expect("a plain path"));
    let [node] = job.nodes();
    node.tell("w", "take permits 40000");
    let told = waits(job.name(), 1);
    assert_eq!(told["waits"][0]["thread_name"], called.file_name().unwrap().to_str().unwrap(), "{told}");
    drop(node);
    job.end();
}

/// Of the second two, one waits for what a node could do that is still to come.
#[test]
fn who_waits_for_the_end_of_a_thread_waits_for_that_one() {
    let job = Job::launched(program());
    let [node] = job.nodes();
    node.mailbox("box");
    let join = |lane, what, goal, look: &dyn Fn() -> Value| {
        node.tell(lane, what);
        let told = look();
        let all = told["waits"].as_array().unwrap();
        let joined = &all.iter().find(|wait| wait["for"] == goal).unwrap()["thread"];
        let is_for_it = |wait: &&Value| wait["for"] == "join" && wait["on"] == json!([{ "node": 0, "thread": joined }]);
        assert_eq!(all.iter().filter(is_for_it).count(), 1, "{goal}: {told}");
        told
    };
    let told = join("one", "join take permits 40000", "semaphore", &|| stuck(job.name(), 2));
    let in_cycle = BTreeSet::from_iter(cycle(&told, 0));
    assert_eq!(in_cycle, ["join", "semaphore"].map(|goal| (0, goal.to_owned())).into(), "{told}");
    let told = join("other", "join retrieve box 40000", "retrieve", &|| waits(job.name(), 4));
    assert_eq!(told["cycles"], Value::Array(vec![]), "{told}");
    drop(node);
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

/// It is the turn of one that is stopped: the others see the mutex free and do not take it, until one takes the turn.
#[test]
fn a_wait_for_a_mutex_has_begun_when_it_began_whoever_gets_it_meanwhile() {
    let job = Job::launched(program());
    let [holder, stopped, others] = job.nodes();
    holder.ask_in("w", "lock m 1000").words();
    stopped.tell("w", "lock m 40000");
    waits(job.name(), 1);
    stopped.stop();
    ["one", "other"].into_iter().for_each(|lane| others.tell(lane, "lock m 40000"));
    let (mut before, looked) = (waits(job.name(), 3), Instant::now());
    holder.ask_in("w", "unlock m").words();
    while see::told("ls", job.name())["things"][0]["state"] != "held by node 2" {}
    // Who has not got it may be awake just now.
    let (elapsed, mut after) = loop {
        let (elapsed, told) = (looked.elapsed().as_secs_f64(), told("why", job.name()));
        if told["waits"].as_array().unwrap().len() == 2 {
            break (elapsed, told);
        }
    };
    let after = after["waits"][1].take();
    let is_it = |wait: &&mut Value| wait["thread"] == after["thread"];
    let before = before["waits"].as_array_mut().unwrap().iter_mut().find(is_it).unwrap().take();
    let [since, left] = ["since_seconds", "left_seconds"].map(|key| {
        let [before, after] = [&before, &after].map(|wait| wait[key].as_f64().unwrap());
        after - before
    });
    // They are told in milliseconds.
    assert!(since > elapsed - 0.002 && (since + left).abs() < 0.004, "{elapsed} s between {before} and {after}");
    stopped.go_on();
    drop((holder, stopped, others));
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
    let told = stuck(job.name(), 2);
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
        ("counter", "wait-for sum 6 40000", vec![0, 1], "until counter \"sum\", which is 5, is 6 or more"),
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
    let listed = see::told("ls", job.name());
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
    let listed = see::told("ls", job.name());
    assert_eq!((&listed["mailboxes"][0]["name"], &listed["mailboxes"][0]["node"]), (&"a".into(), &0.into()));
    one.go_on();
    other.go_on();
    drop((one, other));
    job.end();
}
