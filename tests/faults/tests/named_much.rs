//! More names of segments, locks and counters, one after the other, than a job can have at a time.

use std::time::Instant;

use deck_testkit::expect::{A_MOMENT, LIVENESS};
use deck_testkit::{Answer, Job, Process};

const PROGRAM: &str = deck_testkit::node_program!();
/// As many as there may be at a time.
const MOST: u32 = 4_096;

/// Uses so many names of counters, and leaves nothing in them.
fn use_names(node: &Process, count: u32) {
    for number in 0..count {
        node.done(&format!("add used{number} 3"));
        node.done(&format!("add used{number} -3"));
        node.done(&format!("counter-close used{number}"));
    }
}

#[test]
fn names_that_nobody_needs_make_room_for_others_and_what_is_needed_stays() {
    let job = Job::launched(PROGRAM);
    let [first, second] = job.nodes();
    second.done("add kept 7");
    second.done("counter-close kept");
    second.done("lock held 0");
    first.done("segment-create shared 5000 -1");
    first.done("segment-write shared 4000 1 9");
    use_names(&first, MOST + 500);
    for number in 0..200 {
        first.done(&format!("segment-create frame{number} 10 {}", number % 2));
        assert_eq!(second.done(&format!("segment-open frame{number} 20000")), format!("10 {}", number % 2));
        first.done(&format!("segment-close frame{number}"));
        second.done(&format!("segment-write frame{number} 3 1 1"));
        second.done(&format!("segment-close frame{number}"));
    }
    // One that had this name before had another content.
    for number in [0, 1] {
        first.done(&format!("segment-create frame{number} 10 -1"));
        assert_eq!(first.done(&format!("segment-read frame{number} 3")), "0");
    }
    assert_eq!(first.done("add kept 1"), "8");
    first.ask("lock held 0").failure().expect("Timeout", &second);
    second.done("segment-open shared 20000");
    assert_eq!(second.done("segment-read shared 4000"), "9");
    drop((first, second));
    job.end();
}

#[test]
fn too_many_at_a_time_are_refused_until_one_is_closed() {
    let job = Job::launched(PROGRAM);
    let [node] = job.nodes();
    for number in 0..MOST {
        node.done(&format!("add used{number} 1"));
    }
    let refused = node.ask("add more 1").failure();
    assert_eq!(refused.kind, "NoMemory", "{refused}");
    node.done("counter-close used17");
    assert_eq!(node.ask("add more 1").failure().kind, "NoMemory", "a counter that is not 0 keeps its name");
    node.done("add used17 -1");
    node.done("counter-close used17");
    assert_eq!(node.done("add more 1"), "1");
    drop(node);
    job.end();
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_killed_while_it_opens_something_keeps_nobody_from_it_and_leaves_each_name_to_one() {
    for point in ["objects/opening", "objects/anew", "names/renaming", "names/renamed"] {
        let job = Job::launched(PROGRAM);
        let [other] = job.nodes();
        use_names(&other, MOST);
        let victim = job.node_with(&[("DECK_POINT", point)]);
        victim.tell("main", "add fresh 1");
        assert!(victim.answer("main").is_none(), "it goes by {point}");
        victim.wait();
        assert_eq!(other.done("add fresh 2"), "2", "{point}");
        for number in (0..MOST).step_by(500) {
            assert_eq!(other.done(&format!("add used{number} 1")), "1", "{point}");
        }
        assert_eq!(other.done("add fresh 2"), "4", "{point}");
        drop((other, victim));
        job.end();
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_stopped_while_it_opens_something_is_named_to_others_that_open() {
    let job = Job::launched(PROGRAM);
    let [other] = job.nodes();
    let victim = job.node_with(&[("DECK_POINT", "objects/opening:1:stop")]);
    other.done("lock opened 0");
    other.done("segment-create s 10 -1");
    victim.tell("main", "add n 1");
    victim.await_stop();
    other.ask("add n 1").failure().expect("Timeout", &victim);
    // Whoever says how long it waits does not wait longer for this.
    let asked = Instant::now();
    other.ask("segment-open s 0").failure().expect("Timeout", &victim);
    assert!(asked.elapsed() < LIVENESS, "a try took {:?}", asked.elapsed());
    // What is open is not a matter of opening.
    other.done("unlock opened");
    victim.go_on();
    assert_eq!(victim.answer("main").map(Answer::words).as_deref(), Some("1"));
    assert_eq!(other.done("wait-for n 1 20000"), "1");
    other.ask(&format!("wait-for n 2 {}", A_MOMENT.as_millis())).failure().expect_timeout();
    drop((other, victim));
    job.end();
}
