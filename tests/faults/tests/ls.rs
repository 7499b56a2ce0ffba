//! `deck ls`: what is told of jobs that are busy, and of which job it is.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Instant;

use deck_testkit::see::{self, deck, nodes_of, said, told, waits};
use deck_testkit::{Job, SOON};
use serde_json::Value;

fn program() -> &'static str {
    see::seen(deck_testkit::node_program!())
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
    assert_eq!(see::told("ls", job.name())["mailboxes"][0]["filled"], 0);
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
    // A machine that hwloc describes and takes for this one, which has no NUMA node 900: whoever binds to it is
    // refused.
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

#[test]
fn who_died_while_nobody_tells_is_seen_to_be_gone_with_what_it_held() {
    let job = Job::by_name(program());
    let [broker, dead, asks] = job.nodes();
    dead.ask_in("w", "lock m 1000").words();
    broker.stop();
    broker.await_stop();
    dead.kill_and_wait();
    let listed = told("ls", job.name());
    let states = [0, 1, 2].map(|node| listed["nodes"][node]["state"].as_str().unwrap());
    assert_eq!(states, ["frozen", "lost", "live"], "{listed}");
    assert_eq!(listed["things"][0]["state"], "free, its last holder is gone", "{listed}");
    // Whoever asks for its state again and again is told in the end, though the broker does not go on.
    let watchdog = Instant::now() + SOON;
    while asks.state(dead.number()) != "Lost" {
        assert!(Instant::now() < watchdog, "its end is not told");
    }
    broker.go_on();
    drop((broker, dead, asks));
    job.end();
}

#[test]
fn every_field_of_the_json_objects_stands_in_the_guide() {
    let job = Job::launched(program());
    let nodes: [_; 2] = job.nodes();
    nodes.iter().zip(["a", "b"]).for_each(|(node, name)| node.mailbox(name));
    nodes.iter().zip(["b", "a"]).for_each(|(node, name)| node.clone_mailbox(name));
    nodes[0].ask_in("w", "segment-create things 5000 0").words();
    nodes.iter().zip(["a", "b"]).for_each(|(node, name)| node.tell("w", &format!("retrieve {name} 40000")));
    let stuck = waits(job.name(), 2);
    nodes[0].tell("joins", "join-group half 3 0 40000");
    let (joins, listed) = (waits(job.name(), 3), told("ls", job.name()));
    let lists = [("cycles", &stuck), ("mailboxes", &listed), ("groups", &listed), ("segments", &listed)];
    for (list, told) in lists {
        assert!(!told[list].as_array().unwrap().is_empty(), "{list}: {told}");
    }
    let all = Value::from_iter([stuck, joins, listed]);
    let guide = include_str!("../../../docs/guide/why.md");
    for name in see::fields(&all) {
        assert!(guide.contains(&format!("`{name}`")), "docs/guide/why.md says nothing of `{name}`");
    }
    drop(nodes);
    job.end();
}

/// Descriptors are what nodes are looked at through.
#[test]
fn with_few_descriptors_all_nodes_are_seen_or_none() {
    let job = Job::launched(program());
    let nodes: [_; 8] = job.nodes();
    let look = |limit: &str, command: &str| {
        let line = format!(r#"ulimit {limit} 12 && exec "$0" {command} "$1" --json"#);
        Command::new("sh").args(["-c", &line]).arg(deck()).arg(job.name()).output().expect("there is a shell")
    };
    for command in ["ls", "why"] {
        let ended = look("-S -n", command);
        let told: Value = serde_json::from_slice(&ended.stdout).expect("one JSON object");
        let seen = told["jobs"][0]["nodes"].as_array().unwrap().iter().filter(|node| node["process"].is_u64());
        assert_eq!(seen.count(), nodes.len(), "{command}: {told}");
        let ended = look("-n", command);
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), ended.stdout.len()), (Some(1), 0), "{command}: {errors}");
        assert!(errors.contains("Too many open files") && errors.trim_end().ends_with("[D0107]"), "{errors}");
    }
    drop(nodes);
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
    let told = see::told("why", &node.pid().to_string());
    assert_eq!((&told["job"], &told["processes"]), (&"".into(), &Value::from(vec![node.pid()])));
    drop(node);
    lonely.end();
    let ended = Command::new(deck()).args(["why", "no-such-job"]).output().expect("deck starts");
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1));
    assert!(errors.starts_with("deck why: you have no job \"no-such-job\"") && errors.contains("deck ls"), "{errors}");
    assert!(errors.trim_end().ends_with("[D0105]"), "{errors}");
    for wrong in [&["why", "a", "b"][..], &["why", ""]] {
        let ended = Command::new(deck()).args(wrong).output().expect("deck starts");
        assert_eq!(ended.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&ended.stderr).contains("type: deck why [JOB] [--all] [--json]"));
    }
    drop((one, _other));
    job.end();
}
