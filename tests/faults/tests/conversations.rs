//! Two nodes that answer one another for long, so that their messages go on a baton: one of them is killed, stopped, or leaves in the middle.

use deck_testkit::{Job, Process, SOON};

const PROGRAM: &str = deck_testkit::node_program!();
/// So many rounds, and there is a baton.
const LONG: u64 = 600;
/// Sizes that a baton carries: in one line, and in two.
const SIZES: [usize; 2] = [40, 100];

/// Mail boxes for questions to `answering` and for answers to `asking`.
fn introduce(asking: &Process, answering: &Process, name: &str) {
    answering.mailbox(&format!("questions-{name}"));
    asking.mailbox(&format!("answers-{name}"));
    asking.clone_mailbox(&format!("questions-{name}"));
    answering.clone_mailbox(&format!("answers-{name}"));
}

/// Has the two talk, each in its lane "talk".
fn begin(asking: &Process, answering: &Process, name: &str, rounds: u64, size: usize) {
    answering.tell("talk", &format!("answer questions-{name} answers-{name} {rounds} 20000"));
    asking.tell("talk", &format!("ask questions-{name} answers-{name} 0 {rounds} {size} 20000"));
}

#[track_caller]
fn expect_done(nodes: [&Process; 2], rounds: u64) {
    for node in nodes {
        assert_eq!(node.answer("talk").expect("it lives").words(), rounds.to_string());
    }
}

#[cfg(debug_assertions)]
#[test]
fn who_is_killed_anywhere_in_a_conversation_is_named_to_the_other_one_who_goes_on() {
    for point in ["post/reserved", "post/published", "retrieve/held", "retrieve/credited"] {
        for (is_asking, is_first) in [(true, true), (true, false), (false, true), (false, false)] {
            for size in SIZES {
                let job = Job::launched(PROGRAM);
                let victim = || job.node_with(&[("DECK_POINT", &format!("{point}:{LONG}"))]);
                let (victim, survivor) = if is_first {
                    let victim = victim();
                    (victim, job.node())
                } else {
                    let survivor = job.node();
                    (victim(), survivor)
                };
                let (asking, answering) = if is_asking { (&victim, &survivor) } else { (&survivor, &victim) };
                introduce(asking, answering, "first");
                begin(asking, answering, "first", 2 * LONG, size);
                let end = survivor.answer("talk").expect("it lives");
                end.failure().expect("PeerLost", &victim);
                assert!(victim.answer("talk").is_none(), "it goes by {point}");
                let next = job.node();
                introduce(&survivor, &next, "next");
                begin(&survivor, &next, "next", LONG, size);
                expect_done([&survivor, &next], LONG);
                drop((victim, survivor, next));
                job.end();
            }
        }
    }
}

#[cfg(debug_assertions)]
#[test]
fn who_is_stopped_anywhere_in_a_conversation_goes_on_where_it_was() {
    for point in ["post/reserved", "post/published", "retrieve/held"] {
        let job = Job::launched(PROGRAM);
        let answering = job.node_with(&[("DECK_POINT", &format!("{point}:{LONG}:stop"))]);
        let asking = job.node();
        introduce(&asking, &answering, "stopped");
        begin(&asking, &answering, "stopped", 2 * LONG, 40);
        answering.await_stop();
        answering.go_on();
        expect_done([&asking, &answering], 2 * LONG);
        drop((asking, answering));
        job.end();
    }
}

#[test]
fn what_is_posted_after_a_conversation_arrives_in_order_though_its_poster_leaves_at_once() {
    for size in [16, 40, 100, 5000] {
        let job = Job::launched(PROGRAM);
        let [one, other] = job.nodes();
        for (asking, answering, name) in [(&one, &other, "there"), (&other, &one, "back")] {
            introduce(asking, answering, name);
            begin(asking, answering, name, LONG, 40);
            expect_done([asking, answering], LONG);
        }
        one.post("questions-there", LONG, 4, size);
        one.done("leave");
        for number in 0..4 {
            let got = other.retrieve("questions-there", SOON).unwrap();
            assert_eq!((got.sender, got.size), (one.number(), size));
            assert_eq!(got.number, LONG + number);
        }
        drop((one, other));
        job.end();
    }
}

#[test]
fn a_second_conversation_follows_a_first_whose_mail_boxes_were_closed() {
    let job = Job::launched(PROGRAM);
    let [asking, answering] = job.nodes();
    for round in 0..4 {
        let name = round.to_string();
        introduce(&asking, &answering, &name);
        begin(&asking, &answering, &name, LONG, 40);
        expect_done([&asking, &answering], LONG);
        asking.done(&format!("close answers-{name}"));
        answering.done(&format!("close questions-{name}"));
    }
    drop((asking, answering));
    job.end();
}
