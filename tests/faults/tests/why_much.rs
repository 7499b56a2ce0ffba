//! `deck why` of a node that has more than there is room to tell of.

use std::process::Command;

use deck_testkit::Job;
use deck_testkit::see::{self, said, waits};
use serde_json::Value;

/// Notices of a node for other things than waits, and one more for a mail box that is not among them.
const MORE_THAN_ARE_TOLD: usize = 15_360 + 1;

/// Threads of one node, each waiting for as many members as there are in the group besides them.
const THREADS: usize = 200;
const MEMBERS: usize = 1000;
/// What `deck why` may have of its own, in KiB: all answers at once would take four times as much.
const DATA_KIB: usize = 64 << 10;

#[test]
fn much_is_told_in_json_without_much_memory() {
    let job = Job::launched(see::seen(deck_testkit::node_program!()));
    let [node] = job.nodes();
    for index in 0..THREADS {
        node.tell(&format!("t{index}"), &format!("join-group g {MEMBERS} {index} 40000"));
    }
    let limited = || {
        let text = format!("ulimit -d {DATA_KIB} && exec \"$0\" why \"$1\" --json");
        let ended = Command::new("sh").args(["-c", &text]).arg(see::deck()).arg(job.name()).output().unwrap();
        assert!(ended.status.success(), "{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
        let mut told: Value = serde_json::from_slice(&ended.stdout).unwrap();
        told["jobs"][0].take()
    };
    let told = see::waits_of(limited, THREADS);
    let absent = told["waits"].as_array().unwrap().iter().map(|wait| wait["absent"].as_array().unwrap().len());
    assert_eq!(absent.sum::<usize>(), THREADS * (MEMBERS - THREADS));
    drop(node);
    job.end();
}

#[test]
fn a_wait_is_told_however_many_mail_boxes_there_are() {
    let job = Job::launched(see::seen(deck_testkit::node_program!()));
    let [node] = job.nodes();
    node.mailbox("first");
    node.done(&format!("mailboxes-without-names {MORE_THAN_ARE_TOLD}"));
    let text = said("why", job.name());
    assert!(text.contains("no thread is known to wait in DECK"), "{text}");
    assert!(text.contains("could not be noted, for want of room"), "{text}");
    node.tell("w", "retrieve first 40000");
    let told = waits(job.name(), 1);
    assert_eq!((&told["waits"][0]["for"], &told["waits"][0]["name"]), (&"retrieve".into(), &"first".into()), "{told}");
    assert!(told["nodes"][0]["untold"].as_u64().unwrap() >= 2, "{told}");
    drop(node);
    job.end();
}
