//! Two nodes that answer one another for long, so that their messages go on a baton: one of them is killed, stopped, or
//! leaves in the middle, and somebody looks on.

use deck_testkit::see::{self, cycle, stuck, told, waits};
use deck_testkit::{Job, Process, SOON};
use serde_json::{Value, json};

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

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
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

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
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

/// What `deck ls` tells of the one ring to a mail box.
fn ring_to(job: &Job, mailbox: &str) -> Value {
    let mut listed = told("ls", job.name());
    let found = listed["mailboxes"].as_array_mut().expect("a list").iter_mut().find(|found| found["name"] == mailbox);
    let found = found.unwrap_or_else(|| panic!("{mailbox} is not told"));
    assert_eq!((found["from"].as_array().map(Vec::len), &found["filled"]), (Some(1), &found["from"][0]["filled"]));
    found["from"][0].take()
}

/// Has the two talk until a message of the one who asks lies on a baton, and nothing else anywhere: how long that takes
/// is chance.
fn talk_until_passed(job: &Job, asking: &Process, answering: &Process, name: &str) {
    loop {
        begin(asking, answering, name, LONG, 40);
        expect_done([asking, answering], LONG);
        let questions = format!("questions-{name}");
        asking.post(&questions, 0, 1, 40);
        let ring = ring_to(job, &questions);
        assert_eq!(ring["filled"], 1, "{ring}");
        if ring["on_baton"] == 1 {
            return;
        }
        answering.retrieve(&questions, SOON).unwrap();
    }
}

/// Two nodes that have talked until a question lies on the baton, and what comes then; each of the two asks once.
fn passed_each_way(name: &str, then: impl Fn(&Job, &Process, &Process)) {
    for is_lower_asking in [true, false] {
        let job = Job::launched(see::seen(PROGRAM));
        let [one, other] = job.nodes();
        let (asking, answering) = if is_lower_asking { (&one, &other) } else { (&other, &one) };
        introduce(asking, answering, name);
        talk_until_passed(&job, asking, answering, name);
        then(&job, asking, answering);
        drop((one, other));
        job.end();
    }
}

#[test]
fn a_message_on_a_baton_is_told_as_one_that_lies_there_until_it_is_retrieved() {
    passed_each_way("seen", |job, asking, answering| {
        let text = see::said("ls", job.name());
        assert!(text.contains("1 message in 0 of ") && text.contains(" slots and on a baton, "), "{text}");
        let holds = |name: &str, counts: [u64; 3]| {
            let ring = ring_to(job, name);
            assert_eq!(
                json!([ring["filled"], ring["on_baton"], ring["slots_filled"]]),
                json!(counts),
                "{name}: {ring}"
            );
        };
        holds("answers-seen", [0, 0, 0]);
        // Longer ones go beside it, and come after it.
        asking.post("questions-seen", 1, 2, 5000);
        holds("questions-seen", [3, 1, 2]);
        answering.stop();
        holds("questions-seen", [3, 1, 2]);
        answering.go_on();
        for (number, size) in [(0, 40), (1, 5000), (2, 5000)] {
            let got = answering.retrieve("questions-seen", SOON).unwrap();
            assert_eq!((got.number, got.size), (number, size));
        }
        // Who has not retrieved since tells nobody, and it is known.
        assert_eq!(ring_to(job, "questions-seen")["on_baton"], 0);
    });
}

#[test]
fn those_who_retrieve_from_one_another_after_a_conversation_are_a_cycle_also_if_all_are_stopped() {
    passed_each_way("stuck", |job, asking, answering| {
        answering.retrieve("questions-stuck", SOON).unwrap();
        // The last one on the baton was a question, and then an answer.
        for _ in 0..2 {
            asking.tell("w", "retrieve answers-stuck 40000");
            answering.tell("w", "retrieve questions-stuck 40000");
            let all = [(0, "retrieve".to_owned()), (1, "retrieve".to_owned())];
            assert_eq!(cycle(&stuck(job.name(), 2), 0), all, "they wait");
            [asking, answering].into_iter().for_each(|node| node.stop());
            let told = stuck(job.name(), 2);
            assert_eq!(told["cycles"].as_array().map(Vec::len), Some(1), "{told:#}");
            assert_eq!(cycle(&told, 0), all);
            [asking, answering].into_iter().for_each(|node| node.go_on());
            asking.post("questions-stuck", 0, 1, 5000);
            answering.post("answers-stuck", 0, 1, 5000);
            [asking, answering].into_iter().for_each(|node| drop(node.answer("w").expect("it lives").words()));
            begin(asking, answering, "stuck", LONG, 40);
            expect_done([asking, answering], LONG);
        }
    });
}

#[test]
fn who_was_stopped_before_it_could_take_its_message_from_a_baton_is_in_no_cycle() {
    passed_each_way("late", |job, asking, answering| {
        answering.retrieve("questions-late", SOON).unwrap();
        // It is the turn of the one who answers.
        asking.tell_and_see_waiting("w", "retrieve answers-late 40000");
        asking.stop();
        answering.post("answers-late", 0, 1, 40);
        assert_eq!(ring_to(job, "answers-late")["on_baton"], 1, "it went another way");
        answering.tell_and_see_waiting("w", "retrieve questions-late 40000");
        answering.stop();
        assert_eq!(waits(job.name(), 2)["cycles"], Value::Array(vec![]));
        [asking, answering].into_iter().for_each(|node| node.go_on());
        asking.answer("w").expect("it lives").words();
    });
}
