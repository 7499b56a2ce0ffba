//! `kill -9`: what the others are told, what they keep, and what is free again.

use std::time::{Duration, Instant};

use deck_testkit::expect::{A_MOMENT, LIVENESS};
use deck_testkit::{Chance, Job, Process, SOON};

const PROGRAM: &str = deck_testkit::node_program!();

/// Reads the end of a waiting lane and checks that it tells the death of `victim` in time.
#[track_caller]
fn expect_told(waiting: &Process, lane: &str, victim: &Process, killed: Instant) {
    let (_, end) = waiting.posted(lane);
    let took = killed.elapsed();
    println!("{}, {lane}: told {took:?} after the kill", waiting.number());
    end.expect("it lives").failure().expect("PeerLost", victim);
    assert!(took < LIVENESS, "{lane}: {took:?}");
}

#[test]
fn every_wait_that_needs_a_killed_owner_ends_in_time_with_its_name() {
    let job = Job::launched(PROGRAM);
    let [owner, poster, cloner, retriever] = job.nodes();
    owner.mailbox_for("full", 2);
    owner.mailbox("other");
    retriever.mailbox("mine");
    owner.clone_mailbox("mine");
    poster.clone_mailbox("full");
    poster.post("full", 0, 2, 100);
    retriever.tell_and_see_waiting("retrieve", "retrieve mine 20000");
    poster.tell_and_see_waiting("post", "post full 2 1 100 20000");
    // It cannot answer, so that the clone waits.
    owner.stop();
    cloner.tell_and_see_waiting("clone", "clone other 20000");
    let killed = owner.kill();
    expect_told(&poster, "post", &owner, killed);
    expect_told(&cloner, "clone", &owner, killed);
    expect_told(&retriever, "retrieve", &owner, killed);

    poster.try_post("full", 3, 1, 100, SOON).1.unwrap_err().expect("PeerLost", &owner);
    retriever.retrieve("mine", A_MOMENT).unwrap_err().expect_timeout();
    for node in [&poster, &cloner, &retriever] {
        assert_eq!(node.state(owner.number()), "Lost");
    }
    // The names are free, and the others go on.
    cloner.mailbox("full");
    poster.clone_mailbox("full");
    poster.post("full", 0, 1, 100);
    assert_eq!(cloner.retrieve("full", SOON).unwrap().sender, poster.number());
    drop((owner, poster, cloner, retriever));
    job.end();
}

#[test]
fn a_loss_is_told_while_another_node_keeps_the_mail_box_busy() {
    let job = Job::launched(PROGRAM);
    let [owner, busy, victim] = job.nodes();
    owner.mailbox("box");
    busy.clone_mailbox("box");
    victim.clone_mailbox("box");
    // Whoever has retrieved several times in a row takes the short way.
    busy.post("box", 0, 8, 48);
    (0..8).for_each(|_| assert_eq!(owner.retrieve("box", SOON).unwrap().sender, busy.number()));
    victim.post("box", 0, 1, 48);
    victim.kill_and_wait();
    while owner.state(victim.number()) != "Lost" {}
    const BACKLOG: usize = 28;
    busy.post("box", 8, BACKLOG as u64, 48);
    let told = (0..BACKLOG).find_map(|_| owner.retrieve("box", SOON).err());
    told.expect("the loss comes before the last of the backlog").expect("PeerLost", &victim);
    drop((owner, busy, victim));
    job.end();
}

#[test]
fn all_that_a_killed_poster_had_posted_arrives_and_then_each_mail_box_tells_its_loss_once() {
    let job = Job::launched(PROGRAM);
    let mut chance = Chance::new(job.seed());
    let [receiver, survivor] = job.nodes();
    for round in 0..8 {
        let victim = job.node();
        let boxes = [format!("one-{round}"), format!("two-{round}")];
        for name in &boxes {
            receiver.mailbox_for(name, 256);
            survivor.clone_mailbox(name);
            victim.clone_mailbox(name);
        }
        let size = [40, 1000, 100_000][round % 3];
        for name in &boxes {
            victim.tell(name, &format!("post {name} 0 200 {size} 20000"));
        }
        // It dies while it posts, after so many of the first.
        for _ in 0..chance.below(200) {
            assert!(victim.answer(&boxes[0]).is_some_and(|answer| answer.is_note));
        }
        victim.kill();
        survivor.post(&boxes[0], 0, 50, size);
        survivor.post(&boxes[1], 0, 50, size);
        for name in &boxes {
            let (mut from_victim, mut from_survivor, mut is_told) = (0, 0, false);
            while !is_told || from_survivor < 50 {
                match receiver.retrieve(name, SOON) {
                    Ok(message) if message.sender == victim.number() => {
                        assert!(!is_told, "a message after the loss");
                        assert_eq!(message.number, from_victim);
                        from_victim += 1;
                    }
                    Ok(message) => {
                        assert_eq!((message.sender, message.number), (survivor.number(), from_survivor));
                        from_survivor += 1;
                    }
                    Err(failure) => {
                        failure.expect("PeerLost", &victim);
                        assert!(!std::mem::replace(&mut is_told, true), "told twice");
                    }
                }
            }
            receiver.retrieve(name, A_MOMENT).unwrap_err().expect_timeout();
            // What was read of the first before the kill was posted as well.
            let (acknowledged, _) = victim.posted(name);
            assert!(from_victim >= acknowledged, "{from_victim} of {acknowledged} arrived at {name}");
            receiver.done(&format!("close {name}"));
        }
    }
    drop((receiver, survivor));
    job.end();
}

#[test]
fn the_names_of_a_killed_node_can_be_claimed_as_soon_as_its_death_is_known() {
    let job = Job::launched(PROGRAM);
    let [owner, next] = job.nodes();
    for name in ["a", "b", "c"] {
        owner.mailbox(name);
        assert_eq!(next.ask(&format!("mailbox {name}")).failure().kind, "Exists");
    }
    let killed = owner.kill();
    for name in ["a", "b", "c"] {
        while let Err(failure) = next.ask(&format!("mailbox {name}")).result {
            failure.expect("Exists", &owner);
            assert!(killed.elapsed() < LIVENESS, "{failure}");
        }
    }
    println!("claimed {:?} after the kill", killed.elapsed());
    drop((owner, next));
    job.end();
}

#[test]
fn a_node_that_leaves_in_order_is_no_loss() {
    let job = Job::launched(PROGRAM);
    let [owner, leaver] = job.nodes();
    owner.mailbox("box");
    leaver.mailbox("leavers");
    leaver.clone_mailbox("box");
    owner.clone_mailbox("leavers");
    leaver.post("box", 0, 20, 100_000);
    leaver.done("leave");
    // Whether its process lives on makes no difference.
    assert_eq!(owner.state(leaver.number()), "Left");
    for number in 0..10 {
        assert_eq!(owner.retrieve("box", SOON).unwrap().number, number);
    }
    leaver.kill();
    leaver.wait();
    for number in 10..20 {
        assert_eq!(owner.retrieve("box", SOON).unwrap().number, number);
    }
    owner.retrieve("box", A_MOMENT).unwrap_err().expect_timeout();
    assert_eq!(owner.try_post("leavers", 0, 1, 10, SOON).1.unwrap_err().kind, "Closed");
    assert_eq!(owner.state(leaver.number()), "Left");
    drop((owner, leaver));
    job.end();
}

#[test]
fn when_all_nodes_are_killed_at_once_nothing_is_left() {
    for job in [Job::launched(PROGRAM), Job::by_name(PROGRAM)] {
        let nodes: [Process; 4] = job.nodes();
        for node in &nodes {
            node.mailbox(&format!("of-{}", node.number().0));
        }
        for node in &nodes {
            for other in nodes.iter().filter(|other| other.number() != node.number()) {
                let name = format!("of-{}", other.number().0);
                node.clone_mailbox(&name);
                node.tell(&name, &format!("post {name} 0 1000 50000 20000"));
            }
        }
        nodes.iter().map(Process::kill).for_each(|_| ());
        nodes.iter().map(Process::wait).for_each(|_| ());
        drop(nodes);
        job.end();
    }
}

#[test]
fn a_message_that_was_posted_on_survives_the_death_of_every_node_that_it_came_from() {
    let job = Job::launched(PROGRAM);
    let [maker, middle, last] = job.nodes();
    middle.mailbox("first");
    last.mailbox("second");
    maker.clone_mailbox("first");
    middle.clone_mailbox("second");
    maker.post("first", 0, 30, 300_000);
    for _ in 0..30 {
        middle.done("forward first second 20000");
    }
    for _ in 0..5 {
        last.hold("second", SOON).unwrap();
    }
    middle.kill();
    for number in 5..30 {
        let message = last.hold("second", SOON).unwrap();
        assert_eq!((message.sender, message.maker, message.number), (middle.number(), maker.number(), number));
    }
    last.hold("second", SOON).unwrap_err().expect("PeerLost", &middle);
    assert_eq!(last.done("check"), "30");
    // Posting to the dead has taken nothing that is still needed.
    maker.mailbox("elsewhere");
    last.clone_mailbox("elsewhere");
    maker.clone_mailbox("second");
    maker.post("second", 0, 20, 300_000);
    assert_eq!(last.done("check"), "30");
    maker.kill();
    maker.wait();
    assert_eq!(last.done("check"), "30");
    for number in 0..20 {
        assert_eq!(last.hold("second", SOON).unwrap().number, number);
    }
    last.hold("second", SOON).unwrap_err().expect("PeerLost", &maker);
    assert_eq!(last.done("check"), "50");
    last.done("release");
    drop((maker, middle, last));
    job.end();
}

#[test]
fn buffers_that_killed_nodes_held_come_back_to_their_owner() {
    let job = Job::launched(PROGRAM);
    let [owner] = job.nodes();
    let size = 1_000_000;
    let mut after = Vec::new();
    for round in 0..6 {
        let [holder, on] = job.nodes();
        let (first, second) = (format!("holder-{round}"), format!("on-{round}"));
        holder.mailbox(&first);
        on.mailbox(&second);
        owner.clone_mailbox(&first);
        holder.clone_mailbox(&second);
        owner.post(&first, 0, 32, size);
        // Some are held, some under way, some never retrieved.
        for _ in 0..10 {
            holder.hold(&first, SOON).unwrap();
            holder.done(&format!("forward {first} {second} 20000"));
        }
        for _ in 0..5 {
            on.hold(&second, SOON).unwrap();
        }
        holder.kill();
        on.kill();
        // The seats are free again once the owner has forgotten both.
        let _ = (holder.wait(), on.wait());
        after.push(owner.shared_bytes());
    }
    println!("the owner's segment after each round: {after:?}");
    // What is held when the next round begins may be that of the last round, not of all.
    assert!(after[5] <= after[1].max(2 * 32 * 1_100_000), "memory is lost with each death: {after:?}");
    drop(owner);
    job.end();
}

/// Ends a process that a node had started and left behind.
fn end_orphan(pid: &str) {
    let ended = std::process::Command::new("kill").args(["-9", pid]).status();
    assert!(ended.is_ok_and(|status| status.success()), "{pid} was not there any more");
}

#[test]
fn a_program_that_a_node_started_does_not_keep_the_node_alive() {
    let job = Job::launched(PROGRAM);
    let [parent, other] = job.nodes();
    other.mailbox("box");
    parent.clone_mailbox("box");
    let child = parent.done("sh exec sleep 1000");
    other.tell_and_see_waiting("retrieve", "retrieve box 20000");
    let killed = parent.kill();
    expect_told(&other, "retrieve", &parent, killed);
    end_orphan(&child);
    drop((parent, other));
    job.end();
}

#[test]
fn a_forked_child_cannot_call_and_does_not_keep_its_node_alive() {
    for job in [Job::launched(PROGRAM), Job::by_name(PROGRAM)] {
        let [parent, other] = job.nodes();
        for (owner, name) in [(&parent, "parents"), (&other, "others")] {
            owner.mailbox(name);
            parent.clone_mailbox(name);
        }
        other.clone_mailbox("parents");
        parent.post("others", 0, 3, 100_000);
        let child = parent.done("fork parents");
        let failures = parent.answer("child").expect("the child says how it went").words();
        assert!(failures.split(' ').all(|kind| kind == "NotInitialized"), "{failures}");
        // The parent goes on as if nothing had happened.
        parent.post("others", 3, 3, 100_000);
        other.post("parents", 0, 3, 100_000);
        for number in 0..3 {
            assert_eq!(parent.retrieve("parents", SOON).unwrap().number, number);
        }
        for number in 0..6 {
            assert_eq!(other.retrieve("others", SOON).unwrap().number, number);
        }
        other.tell_and_see_waiting("retrieve", "retrieve others 20000");
        let killed = parent.kill();
        expect_told(&other, "retrieve", &parent, killed);
        // The name is free, and in a job by name the survivor takes over although the child lives.
        let third = job.node();
        third.mailbox("parents");
        end_orphan(&child);
        drop((parent, other, third));
        job.end();
    }
}

/// Has a node post on the next message; false if it is killed by that.
fn forwards(between: &Process) -> bool {
    loop {
        between.tell("forward", "forward between last 20000");
        match between.answer("forward").map(|answer| answer.result) {
            Some(Ok(_)) => return true,
            // Of one whose message was posted on before.
            Some(Err(failure)) => assert_eq!(failure.kind, "PeerLost", "{failure}"),
            None => return false,
        }
    }
}

/// Waits until a node that retrieves from "last" has so few descriptors.
#[track_caller]
fn expect_descriptors(last: &Process, most: usize, point: &str) {
    let since = Instant::now();
    while last.descriptors() > most {
        assert!(since.elapsed() < SOON, "{point}: {} descriptors, not {most}", last.descriptors());
        let _ = last.retrieve("last", Duration::ZERO);
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn heaps_of_the_dead_are_forgotten_when_whoever_posts_on_from_them_is_done_or_killed() {
    // Killed when it has introduced the heap and posted nothing, or posted and not noted that. Or it lives on.
    for point in ["post/held:1", "post/published:1", "post/held:1000"] {
        let job = Job::launched(PROGRAM);
        let last = job.node();
        last.mailbox("last");
        let descriptors = last.descriptors();
        let mut nodes = Vec::new();
        for _ in 0..3 {
            let between = job.node_with(&[("DECK_POINT", point)]);
            between.mailbox("between");
            between.clone_mailbox("last");
            let lives = (0..3).all(|_| {
                let worker = job.node();
                worker.clone_mailbox("between");
                worker.post("between", 0, 1, 100_000);
                worker.kill_and_wait();
                forwards(&between)
            });
            assert_eq!(lives, point.ends_with("1000"), "{point}");
            if lives {
                between.done("close between");
                nodes.push(between);
            }
            // Socket, process and segment of each node that it has met.
            expect_descriptors(&last, descriptors + 3 * nodes.len(), point);
        }
        drop((last, nodes));
        job.end();
    }
}
