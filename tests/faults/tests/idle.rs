//! A node that waits costs nothing.

use std::time::Duration;

use deck_testkit::{Job, SOON};

const PROGRAM: &str = deck_testkit::node_program!();

#[test]
fn a_node_that_waits_for_seconds_uses_next_to_no_processor_time() {
    let job = Job::launched(PROGRAM);
    let [idle, other] = job.nodes();
    idle.mailbox("box");
    other.clone_mailbox("box");
    other.post("box", 0, 10, 1000);
    for number in 0..10 {
        assert_eq!(idle.retrieve("box", SOON).unwrap().number, number);
    }
    let before = idle.processor_time();
    idle.retrieve("box", Duration::from_secs(3)).unwrap_err().expect_timeout();
    let used = idle.processor_time() - before;
    println!("3 s in a retrieve cost {used:?} of processor time");
    // The aim is 5 ms; a bound that a busy machine cannot break by accident.
    assert!(used < Duration::from_millis(100), "{used:?}");
    drop((idle, other));
    job.end();
}

#[test]
fn a_node_that_waits_for_what_others_hold_uses_next_to_no_processor_time() {
    let job = Job::by_name(PROGRAM);
    let [first, holder, idle] = job.nodes();
    holder.done("lock m 0");
    // What has to be told once is told.
    idle.ask("lock m 100").failure().expect_timeout();
    let before = idle.processor_time();
    idle.ask("lock m 3000").failure().expect_timeout();
    let used = idle.processor_time() - before;
    println!("3 s in a wait for a mutex cost {used:?} of processor time");
    assert!(used < Duration::from_millis(100), "{used:?}");
    drop((first, holder, idle));
    job.end();
}
