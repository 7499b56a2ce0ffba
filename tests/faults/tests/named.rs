//! Nodes that are killed or stopped with mutexes, condition variables, barriers and counters in their hands.

use std::time::Instant;

use deck_testkit::expect::LIVENESS;
use deck_testkit::{Answer, Job, Process};

const PROGRAM: &str = deck_testkit::node_program!();

/// The end of a wait that was under way when `victim` was killed.
#[track_caller]
fn told(waiting: &Process, lane: &str, killed: Instant) -> Answer {
    let end = waiting.answer(lane).expect("it lives");
    let took = killed.elapsed();
    println!("{}, {lane}: told {took:?} after the kill", waiting.number());
    assert!(took < LIVENESS, "{lane}: {took:?}");
    end
}

/// Also where the killed one was the first node, that the others had joined through.
#[test]
fn a_killed_holder_loses_its_mutex_to_the_one_that_waits_who_is_told() {
    for job in [Job::launched(PROGRAM), Job::by_name(PROGRAM)] {
        let [holder, waiter, other] = job.nodes();
        holder.done("lock m 0");
        let refused = waiter.ask("lock m 30").failure();
        refused.expect("Timeout", &holder);
        waiter.tell_and_see_waiting("wait", "lock m 20000");
        let killed = holder.kill();
        told(&waiter, "wait", killed).failure().expect("OwnerDied", &holder);
        waiter.ask_in("wait", "unlock m").words();
        // Told once.
        other.done("lock m 20000");
        // What is opened for the first time needs no broker.
        other.done("add fresh 1");
        assert_eq!(waiter.done("wait-for fresh 1 20000"), "1");
        drop((holder, waiter, other));
        job.end();
    }
}

/// Nodes that have not met, and nobody to tell the one that the other has died.
#[test]
fn a_death_is_noticed_while_the_node_that_all_joined_through_is_stopped() {
    let job = Job::by_name(PROGRAM);
    let [first, waiter, victim] = job.nodes();
    victim.done("lock m 0");
    victim.done("add n 1");
    victim.done("segment-create s 5000 -1");
    victim.tell_and_see_waiting("barrier", "barrier b 3 20000");
    for (lane, wait) in [("lock", "lock m 20000"), ("barrier", "barrier b 3 20000"), ("count", "wait-for n 2 20000")] {
        waiter.tell_and_see_waiting(lane, wait);
    }
    first.stop();
    let killed = victim.kill();
    for (lane, kind) in [("lock", "OwnerDied"), ("barrier", "PeerLost"), ("count", "PeerLost")] {
        told(&waiter, lane, killed).failure().expect(kind, &victim);
    }
    waiter.done("segment-create s 10 -1");
    first.go_on();
    drop((first, waiter, victim));
    job.end();
}

/// Nor does anybody wait for it who wants to meet it: that is an error, or what is made in its place is found.
#[test]
fn nobody_waits_to_meet_a_node_that_has_died_unnoticed() {
    let job = Job::by_name(PROGRAM);
    let [first, opens, clones, victim] = job.nodes();
    victim.done("segment-create s 5000 -1");
    victim.mailbox_for("box", 16);
    first.stop();
    victim.kill_and_wait();
    // In this order: whoever has waited long enough frees the names, and a clone waits for the next box of that name
    // then.
    clones.tell_and_see_waiting("clone", "clone box 20000");
    opens.tell_and_see_waiting("open", "segment-open s 20000");
    clones.answer("clone").unwrap().failure().expect("PeerLost", &victim);
    while let Err(failure) = opens.ask("segment-create s 10 -1").result {
        assert_eq!(failure.kind, "Exists", "{failure}");
    }
    assert!(opens.answer("open").unwrap().words().starts_with("10 "));
    first.go_on();
    drop((first, opens, clones, victim));
    job.end();
}

/// The same where it died before anybody asked for what it held, and those who ask only try.
#[test]
fn one_that_has_died_unnoticed_holds_up_nobody_who_tries() {
    let job = Job::by_name(PROGRAM);
    let [first, tries, victim] = job.nodes();
    victim.done("lock m 0");
    victim.done("segment-create s 5000 -1");
    first.stop();
    victim.kill_and_wait();
    while let Err(failure) = tries.ask("segment-create s 10 -1").result {
        assert_eq!(failure.kind, "Exists", "{failure}");
    }
    let mut refused = tries.ask("lock m 0").failure();
    while refused.kind == "Timeout" {
        refused = tries.ask("lock m 0").failure();
    }
    refused.expect("OwnerDied", &victim);
    first.go_on();
    // The one that slept through it lets others in as before.
    let next = job.node();
    next.done("add n 1");
    drop((first, tries, victim, next));
    job.end();
}

#[test]
fn a_stopped_holder_keeps_its_mutex_and_the_others_are_told_that_it_is_frozen() {
    let job = Job::launched(PROGRAM);
    let [holder, waiter] = job.nodes();
    holder.done("lock m 0");
    holder.stop();
    let refused = waiter.ask("lock m 30").failure();
    refused.expect_frozen(&holder);
    waiter.tell_and_see_waiting("wait", "lock m 20000");
    holder.go_on();
    holder.done("unlock m");
    waiter.answer("wait").unwrap().words();
    drop((holder, waiter));
    job.end();
}

#[test]
fn waits_for_what_a_stopped_node_may_have_to_do_end_and_say_that_it_is_frozen_without_blaming_it() {
    let job = Job::launched(PROGRAM);
    let [victim, waiter] = job.nodes();
    victim.tell_and_see_waiting("wait", "barrier b 3 20000");
    victim.done("add c 1");
    victim.done("signal v");
    waiter.done("lock m 0");
    victim.stop();
    for wait in ["barrier b 3 500", "wait-for c 5 500", "await v m 500"] {
        let failure = waiter.ask(wait).failure();
        failure.expect_timeout();
        // It waits at the barrier itself, and its end would break that.
        let told = format!("frozen, and perhaps what it waits for: {}:", victim.number());
        assert!(
            failure.peer.is_none() && failure.text.contains(&told) && !failure.text.contains("end it"),
            "{failure}"
        );
    }
    victim.go_on();
    waiter.tell_and_see_waiting("third", "barrier b 3 20000");
    waiter.done("barrier b 3 20000");
    for (node, lane) in [(&victim, "wait"), (&waiter, "third")] {
        node.answer(lane).unwrap().words();
    }
    drop((victim, waiter));
    job.end();
}

#[test]
fn one_that_dies_or_stops_in_the_row_for_a_mutex_holds_up_nobody() {
    for is_killed in [true, false] {
        let job = Job::launched(PROGRAM);
        let [holder, victim, other] = job.nodes();
        holder.done("lock m 0");
        victim.tell_and_see_waiting("wait", "lock m 20000");
        other.tell_and_see_waiting("wait", "lock m 20000");
        if is_killed {
            victim.kill_and_wait();
        } else {
            victim.stop();
        }
        holder.done("unlock m");
        other.answer("wait").unwrap().words();
        other.ask_in("wait", "unlock m").words();
        // Nor those who only try.
        holder.done("lock m 0");
        holder.done("unlock m");
        if !is_killed {
            victim.go_on();
            victim.answer("wait").unwrap().words();
        }
        drop((holder, victim, other));
        job.end();
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_killed_while_it_locks_or_unlocks_leaves_the_mutex_to_the_next() {
    for (point, is_told) in [("mutex/taken", true), ("mutex/freed", false)] {
        for time in [1, 3] {
            let job = Job::launched(PROGRAM);
            let [other, waiter] = job.nodes();
            let victim = job.node_with(&[("DECK_POINT", &format!("{point}:{time}"))]);
            for _ in 1..time {
                victim.done("lock m 20000");
                victim.done("unlock m");
            }
            if !is_told {
                victim.done("lock m 20000");
                waiter.tell_and_see_waiting("wait", "lock m 20000");
            }
            victim.tell("main", if is_told { "lock m 20000" } else { "unlock m" });
            assert!(victim.answer("main").is_none(), "it goes by {point}");
            if is_told {
                waiter.tell("wait", "lock m 20000");
            }
            let end = waiter.answer("wait").unwrap();
            if is_told {
                end.failure().expect("OwnerDied", &victim);
            } else {
                end.words();
            }
            waiter.ask_in("wait", "unlock m").words();
            other.done("lock m 20000");
            drop((other, waiter, victim));
            job.end();
        }
    }
}

#[test]
fn a_signal_is_not_lost_on_a_waiter_that_was_killed() {
    let job = Job::launched(PROGRAM);
    let [victim, waiter, other] = job.nodes();
    for (node, lane) in [(&victim, "wait"), (&waiter, "wait")] {
        node.ask_in(lane, "lock m 20000").words();
        node.tell_and_see_waiting(lane, "await c m 20000");
    }
    let killed = victim.kill();
    // Whatever woke it, the signal or the death: it has the mutex.
    other.done("signal c");
    told(&waiter, "wait", killed).words();
    // If it was the signal, the death may end the next wait: a wait may end without a signal.
    for node in [&waiter, &other] {
        while node.state(victim.number()) != "Lost" {}
    }
    // The row is in order again: one behind the dead one is reached.
    waiter.tell_and_see_waiting("wait", "await c m 20000");
    other.done("lock m 20000");
    other.done("unlock m");
    other.done("signal c");
    waiter.answer("wait").unwrap().words();
    waiter.ask_in("wait", "unlock m").words();
    drop((victim, waiter, other));
    job.end();
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn one_killed_while_it_wakes_others_still_wakes_them() {
    for (point, wait, wake) in [
        ("condition/called", "await c m 20000", "signal c"),
        ("barrier/opened", "barrier b 2 20000", "barrier b 2 20000"),
        ("counter/added", "wait-for n 1 20000", "add n 1"),
    ] {
        let job = Job::launched(PROGRAM);
        let [waiter] = job.nodes();
        let victim = job.node_with(&[("DECK_POINT", point)]);
        waiter.ask_in("wait", "lock m 20000").words();
        waiter.tell_and_see_waiting("wait", wait);
        victim.tell("main", wake);
        assert!(victim.answer("main").is_none(), "it goes by {point}");
        waiter.answer("wait").unwrap().words();
        drop((waiter, victim));
        job.end();
    }
}

#[test]
fn a_death_breaks_a_barrier_and_is_told_to_all_now_and_later() {
    for job in [Job::launched(PROGRAM), Job::by_name(PROGRAM)] {
        let [victim, waiter, other] = job.nodes();
        victim.tell_and_see_waiting("wait", "barrier b 3 20000");
        waiter.tell_and_see_waiting("wait", "barrier b 3 20000");
        let killed = victim.kill();
        told(&waiter, "wait", killed).failure().expect("PeerLost", &victim);
        other.ask("barrier b 3 20000").failure().expect("PeerLost", &victim);
        // Also when its seat has been given to another node.
        victim.wait();
        let next = job.node();
        for node in [&next, &waiter] {
            node.ask("barrier b 3 20000").failure().expect("PeerLost", &victim);
        }
        waiter.tell("wait", "barrier survivors 2 20000");
        other.done("barrier survivors 2 20000");
        waiter.answer("wait").unwrap().words();
        drop((victim, waiter, other, next));
        job.end();
    }
}

/// Its end comes before its thread has taken back that it had come.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_barrier_does_not_open_one_short_when_a_node_leaves_and_ends_with_a_thread_in_it() {
    let job = Job::launched(PROGRAM);
    let [waiter, other] = job.nodes();
    let victim = job.node_with(&[("DECK_POINT", "barrier/withdrawing")]);
    victim.tell_and_see_waiting("wait", "barrier b 3 20000");
    waiter.tell_and_see_waiting("wait", "barrier b 3 20000");
    victim.tell("main", "leave");
    assert!(victim.answer("wait").is_none(), "it goes by the point");
    // Whoever comes as the last one before its end is told may pass: it had come.
    waiter.answer("wait").unwrap().failure().expect("PeerLost", &victim);
    other.ask("barrier b 3 20000").failure().expect("PeerLost", &victim);
    drop((waiter, other, victim));
    job.end();
}

#[test]
fn a_death_ends_the_waits_for_a_counter_once() {
    let job = Job::launched(PROGRAM);
    let [victim, waiter, other] = job.nodes();
    assert_eq!(victim.done("add n 1"), "1");
    // It has it open before the death, and waits after it.
    assert_eq!(other.done("add n 0"), "1");
    waiter.tell_and_see_waiting("wait", "wait-for n 2 20000");
    let killed = victim.kill();
    told(&waiter, "wait", killed).failure().expect("PeerLost", &victim);
    waiter.tell_and_see_waiting("wait", "wait-for n 2 20000");
    other.ask("wait-for n 2 20000").failure().expect("PeerLost", &victim);
    let missing = other.ask("wait-for n 2 20").failure();
    missing.expect_timeout();
    assert_eq!(other.done("add n 1"), "2");
    assert_eq!(waiter.answer("wait").unwrap().words(), "2");
    drop((victim, waiter, other));
    job.end();
}

#[test]
fn the_death_of_a_node_that_had_closed_a_counter_ends_no_wait_for_it() {
    let job = Job::launched(PROGRAM);
    let [victim, waiter, other] = job.nodes();
    for node in [&victim, &waiter, &other] {
        node.done("add n 0");
    }
    victim.done("counter-close n");
    waiter.tell_and_see_waiting("wait", "wait-for n 1 20000");
    victim.kill_and_wait();
    for node in [&waiter, &other] {
        while node.state(victim.number()) != "Lost" {
            std::thread::yield_now();
        }
        let missing = node.ask("wait-for n 1 20").failure();
        assert_eq!(missing.kind, "Timeout", "{missing}");
    }
    assert_eq!(other.done("add n 1"), "1");
    assert_eq!(waiter.answer("wait").unwrap().words(), "1");
    drop((victim, waiter, other));
    job.end();
}

#[test]
fn of_two_deaths_at_once_both_are_told() {
    let job = Job::launched(PROGRAM);
    let [one, two, waiter] = job.nodes();
    for node in [&one, &two, &waiter] {
        node.done("add n 0");
    }
    // Nobody looks in between.
    one.kill_and_wait();
    two.kill_and_wait();
    let mut dead: Vec<_> = (0..2).map(|_| waiter.ask("wait-for n 1 20000").failure().peer).collect();
    dead.sort();
    assert_eq!(dead, [Some(one.number()), Some(two.number())]);
    let missing = waiter.ask("wait-for n 1 20").failure();
    missing.expect_timeout();
    drop((one, two, waiter));
    job.end();
}
