//! Too little memory is an error with a remedy at the call that asks for it, never a signal later.

use std::time::Duration;

use deck_testkit::{Job, MemoryGroup, Process, SOON, call_in_group, join_group};

const PROGRAM: &str = deck_testkit::node_program!();

/// Has a node post to itself without retrieving until memory is out, and then shows that it goes on.
#[track_caller]
fn fill_up(node: &Process, size: usize) {
    node.mailbox_for("box", 4096);
    node.clone_mailbox("box");
    let (posted, end) = node.try_post("box", 0, 4096, size, Duration::from_millis(100));
    let failure = end.expect_err("memory has no end");
    println!("after {posted} messages of {size} bytes: {failure}");
    // The mail box's bytes or the node's budget may be what ends first; then it is those that the error names.
    assert!(["NoMemory", "Timeout"].contains(&failure.kind.as_str()), "{failure}");
    assert!(failure.text.contains(';') && failure.text.contains("[D0"), "no remedy: {failure}");
    for number in 0..posted {
        assert_eq!(node.retrieve("box", SOON).unwrap().number, number);
    }
    node.post("box", 0, 1, size);
    assert_eq!(node.retrieve("box", SOON).unwrap().number, 0);
}

#[test]
fn a_small_segment_fills_up_with_an_error_that_says_what_to_do() {
    let job = Job::launched(PROGRAM);
    let node = job.node_with(&[("DECK_HEAP", "8M"), ("DECK_BUDGET", "1G")]);
    fill_up(&node, 100_000);
    node.done("mailbox huge");
    node.clone_mailbox("huge");
    let failure = node.try_post("huge", 0, 1, 64 << 20, SOON).1.unwrap_err();
    assert_eq!(failure.kind, "NoMemory", "{failure}");
    assert!(failure.text.contains("DECK_HEAP"), "the remedy names the variable: {failure}");
    drop(node);
    job.end();
}

#[test]
fn a_small_budget_holds_posts_back_with_an_error_that_says_what_to_do() {
    let job = Job::launched(PROGRAM);
    let node = job.node_with(&[("DECK_BUDGET", "1M")]);
    fill_up(&node, 100_000);
    let failure = node.try_post("box", 0, 1, 2 << 20, SOON).1.unwrap_err();
    assert_eq!(failure.kind, "TooLarge", "{failure}");
    assert!(failure.text.contains("DECK_BUDGET"), "{failure}");
    drop(node);
    job.end();
}

#[test]
fn whoever_meets_many_nodes_one_after_the_other_takes_no_memory_for_each() {
    let job = Job::by_name(PROGRAM);
    let [first, last] = job.nodes();
    last.mailbox("box");
    let meet = |count: usize| {
        let guests: Vec<Process> = (0..count).map(|_| job.node()).collect();
        for guest in &guests {
            guest.clone_mailbox("box");
        }
        let bytes = last.private_bytes();
        for guest in guests {
            guest.end();
        }
        bytes
    };
    // An allocator keeps what was freed from the second time on.
    let before = meet(8);
    let after = [(); 4].map(|()| meet(8)).into_iter().max().expect("four numbers");
    println!("{before} bytes, and {after} after others had been met");
    assert!(after < before + (4 << 20), "{before} bytes, and {after} after others had been met");
    drop((first, last));
    job.end();
}

#[test]
fn a_collective_may_be_larger_than_budget_and_heap() {
    let job = Job::launched(PROGRAM);
    let members = [(); 2].map(|()| job.node_with(&[("DECK_HEAP", "8M"), ("DECK_BUDGET", "100K")]));
    join_group("g", "", &members.each_ref());
    let even = ["bcast", "reduce", "gather", "scatter", "allreduce", "allgather", "alltoall", "scan"];
    let kinds = even.into_iter().chain(["gatherv", "scatterv", "allgatherv", "alltoallv"]);
    for kind in kinds.flat_map(|kind| [format!("distinct-{kind}"), format!("start-distinct-{kind}")]) {
        call_in_group(&members, &format!("{kind} 2000000"), 2);
    }
    drop(members);
    job.end();
}

#[test]
fn a_collective_for_which_there_is_no_memory_goes_on_when_called_again() {
    let job = Job::launched(PROGRAM);
    let root = job.node_with(&[("DECK_HEAP", "8M"), ("DECK_BUDGET", "1G")]);
    let other = job.node();
    join_group("g", "", &[&root, &other]);
    other.mailbox_for("box", 64);
    root.clone_mailbox("box");
    let (posted, end) = root.try_post("box", 0, 64, 3 << 20, Duration::from_millis(100));
    assert_eq!(end.unwrap_err().kind, "NoMemory");
    other.tell("g", "collective g bcast 1000000 1 20000");
    let failure = root.ask_in("g", "collective g bcast 1000000 1 20000").failure();
    assert_eq!(failure.kind, "NoMemory", "{failure}");
    for number in 0..posted {
        assert_eq!(other.retrieve("box", SOON).unwrap().number, number);
    }
    // Each leaves more in a row than the call needs. What was retrieved is free by and by: at the latest when as much
    // again has been posted.
    let goes_on = |number: &u64| {
        let result = root.ask_in("g", "collective g bcast 1000000 1 20000").result;
        root.post("box", *number, 1, 100);
        assert_eq!(other.retrieve("box", SOON).unwrap().number, *number);
        result.map_or_else(|failure| failure.kind != "NoMemory", |rounds| rounds == "1")
    };
    assert!((posted..posted + 64).any(|number| goes_on(&number)));
    other.answer("g").unwrap().result.unwrap();
    drop((root, other));
    job.end();
}

#[test]
fn limits_of_the_process_are_told_when_it_joins_or_asks_for_memory() {
    // Address space, and size of files.
    for limit in ["--as=80000000", "--fsize=1000000"] {
        let job = Job::alone(PROGRAM);
        let mut node = job.start(&["prlimit", limit], &[]);
        let failure = node.joined().failure();
        println!("{limit}: {failure}");
        assert_eq!(failure.kind, "NoMemory", "{failure}");
        assert!(failure.text.contains("ulimit"), "{failure}");
        assert_eq!(node.wait().code(), Some(3), "it was not ended by a signal");
        drop(node);
        job.end();
    }
}

/// What joining allocates, one after the other, fits or does not: then it says so, and does not abort.
#[test]
fn a_node_joins_or_says_why_not_whatever_its_address_space() {
    for mebibytes in (80..200).step_by(6) {
        let job = Job::alone(PROGRAM);
        let mut node = job.start(&["prlimit", &format!("--as={}", mebibytes << 20)], &[]);
        if let Err(failure) = node.joined().result {
            assert_eq!(failure.kind, "NoMemory", "{mebibytes} MiB: {failure}");
            assert_eq!(node.wait().code(), Some(3), "{mebibytes} MiB: it was not ended by a signal");
        }
        drop(node);
        job.end();
    }
}

#[test]
fn a_node_finds_room_in_little_address_space() {
    for (limit, heap) in
        [("--as=2000000000", None), ("--as=500000000", None), ("--as=500000000", Some(("DECK_HEAP", "64M")))]
    {
        let job = Job::alone(PROGRAM);
        let mut node = job.start(&["prlimit", limit], heap.as_slice());
        node.joined().words();
        fill_up(&node, 1_000_000);
        drop(node);
        job.end();
    }
}

#[test]
fn nodes_in_little_address_space_have_room_for_one_another() {
    let job = Job::launched(PROGRAM);
    let nodes = [(); 2].map(|()| {
        let mut node = job.start(&["prlimit", "--as=800000000", "--fsize=150000000"], &[]);
        node.joined().words();
        node
    });
    nodes[0].mailbox_for("box", 16);
    nodes[1].clone_mailbox("box");
    for size in [100, 100_000, 4_000_000] {
        nodes[1].post("box", 0, 1, size);
        assert_eq!(nodes[0].retrieve("box", SOON).unwrap().number, 0);
    }
    drop(nodes);
    job.end();
}

/// A group with `bytes` of memory; says why not if there can be none.
fn memory_group(name: &str, bytes: u64) -> Option<MemoryGroup> {
    MemoryGroup::new(name, bytes).map_err(|why| println!("skipped: {why}")).ok()
}

/// The error of a growth for which the group has too little memory.
#[track_caller]
fn expect_what_was_wanted_and_what_to_do(failure: &deck_testkit::Failure) {
    println!("{failure}");
    assert_eq!(failure.kind, "NoMemory", "{failure}");
    for word in ["wanted ", "are left of the memory limit of control group", "raise the memory limit", "[D0204]"] {
        assert!(failure.text.contains(word), "it does not say {word:?}: {failure}");
    }
}

#[test]
fn a_message_too_large_for_the_control_group_is_refused_before_any_page_is_touched() {
    let Some(group) = memory_group("deck-little", 96 << 20) else { return };
    let job = Job::launched(PROGRAM);
    let wrapper = group.wrapper();
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let mut node = job.start(&wrapper, &[("DECK_HEAP", "4G"), ("DECK_BUDGET", "4G")]);
    node.joined().words();
    node.done(&format!("mailbox box 64 {}", 1 << 30));
    node.clone_mailbox("box");
    // One that is larger than the whole group, and one for which it is large enough but not any more.
    for size in [1 << 30, 90 << 20] {
        let (posted, end) = node.try_post("box", 0, 1, size, SOON);
        assert_eq!(posted, 0);
        expect_what_was_wanted_and_what_to_do(&end.unwrap_err());
    }
    // Many that fit, until no further one does; and then room is made by retrieving.
    let (posted, end) = node.try_post("box", 0, 64, 3 << 20, Duration::from_millis(100));
    let failure = end.expect_err("the group is smaller than 64 such messages");
    assert!(posted > 5, "{posted} messages of 3 MiB in 96 MiB: {failure}");
    expect_what_was_wanted_and_what_to_do(&failure);
    for number in 0..posted {
        assert_eq!(node.retrieve("box", SOON).unwrap().number, number);
    }
    node.post("box", 0, 1, 3 << 20);
    assert_eq!(node.retrieve("box", SOON).unwrap().number, 0);
    assert_eq!(group.kills(), 0, "the kernel killed a process of the group");
    assert!(node.end().success(), "it was ended by a signal");
    drop(node);
    job.end();
}

#[test]
fn a_node_for_which_the_control_group_is_too_small_is_told_when_it_joins() {
    // Enough for the program itself, which touches little more than its own code, and not for the reserve that is left
    // alone.
    let Some(group) = memory_group("deck-least", 12 << 20) else { return };
    let job = Job::alone(PROGRAM);
    let wrapper = group.wrapper();
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let mut node = job.start(&wrapper, &[]);
    expect_what_was_wanted_and_what_to_do(&node.joined().failure());
    assert_eq!(node.wait().code(), Some(3), "it was ended by a signal");
    assert_eq!(group.kills(), 0, "the kernel killed a process of the group");
    drop(node);
    job.end();
}
