//! Joining, being absent, leaving, and calling different things.

mod group;

use std::time::Duration;

use deck::{Completion, ErrorKind, Group, GroupOptions, Operation, Thread};
use group::{SOON, apart, job, kind, pair, together};

const A_MOMENT: Duration = Duration::from_millis(30);
const TRY: Duration = Duration::ZERO;

#[test]
fn indexes_are_given_in_the_order_of_arrival_where_nobody_asks_for_one() {
    let (_broker, nodes) = job(2);
    let threads: Vec<_> = [0, 1, 0]
        .map(|node| {
            let node = nodes[node].clone();
            std::thread::spawn(move || Group::join(&node, "any", 3, None, SOON).unwrap().index())
        })
        .into();
    let mut indexes: Vec<u32> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, [0, 1, 2]);
}

#[test]
fn impossible_sizes_indexes_and_names_are_refused() {
    let (_broker, nodes) = job(1);
    let join = |name: &str, size, index| kind(Group::join(&nodes[0], name, size, index, TRY));
    assert_eq!(join("g", 0, None), ErrorKind::Invalid);
    assert_eq!(join("g", deck::group::MEMBERS_MAX + 1, None), ErrorKind::Invalid);
    assert_eq!(join("g", 2, Some(2)), ErrorKind::Invalid);
    assert_eq!(join("", 1, None), ErrorKind::Invalid);
    assert_eq!(join(&"x".repeat(1000), 1, None), ErrorKind::Invalid);
}

#[test]
fn a_group_of_one_is_complete_at_once() {
    let (_broker, nodes) = job(1);
    let mut group = Group::join(&nodes[0], "alone", 1, None, TRY).unwrap();
    let mut sum = [0];
    group.allreduce(&[42], &mut sum, Operation::Sum, TRY).unwrap();
    assert_eq!(sum, [42]);
    group.barrier(TRY).unwrap();
}

#[test]
fn whoever_waits_for_members_in_vain_is_told_who_is_absent() {
    let (_broker, nodes) = job(1);
    let error = Group::join(&nodes[0], "three", 3, Some(1), A_MOMENT).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("index 0, index 2 are absent"), "{error}");
    // It took its place back: the same thread may come again, with the others.
    assert_eq!(together("three", &nodes, &[0, 0, 0], |group, _| group.index()), [0, 1, 2]);
}

#[test]
fn members_that_give_different_sizes_are_all_told_so() {
    let (_broker, nodes) = job(2);
    let (waiting, other) = loop {
        let node = nodes[0].clone();
        let waiting = std::thread::spawn(move || Group::join(&node, "sizes", 2, None, SOON).err());
        // Before the first has come, this one makes the group; the one that comes then disagrees with it.
        let error = Group::join(&nodes[1], "sizes", 3, None, SOON).err().unwrap();
        let waiting = waiting.join().unwrap().unwrap();
        if error.to_string().contains("it is a group of 2, not 3") {
            break (waiting, error);
        }
    };
    assert_eq!((other.kind(), other.peer()), (ErrorKind::Invalid, Some(nodes[0].number())), "{other}");
    assert_eq!((waiting.kind(), waiting.peer()), (ErrorKind::Invalid, Some(nodes[1].number())), "{waiting}");
    assert!(waiting.to_string().contains("as a group of 3, not 2"), "{waiting}");
    // The name is free again.
    let node = nodes[0].clone();
    let one = std::thread::spawn(move || Group::join(&node, "sizes", 2, None, SOON).map(drop));
    Group::join(&nodes[1], "sizes", 2, None, SOON).unwrap();
    one.join().unwrap().unwrap();
}

#[test]
fn an_index_that_is_taken_and_a_group_that_is_full_are_refused() {
    let (_broker, nodes, [one, other]) = pair();
    assert_eq!(kind(Group::join(&nodes[0], "pair", 2, None, SOON)), ErrorKind::Exists);
    drop((one, other));
    let first = {
        let node = nodes[0].clone();
        std::thread::spawn(move || {
            loop {
                // The other one may have it while it tries.
                match Group::join(&node, "taken", 2, Some(1), SOON) {
                    Err(error) if error.kind() == ErrorKind::Exists => {}
                    joined => return joined.map(drop),
                }
            }
        })
    };
    loop {
        match kind(Group::join(&nodes[1], "taken", 2, Some(1), TRY)) {
            ErrorKind::Exists => break,
            other => assert_eq!(other, ErrorKind::Timeout),
        }
    }
    Group::join(&nodes[1], "taken", 2, Some(0), SOON).unwrap();
    first.join().unwrap().unwrap();
}

#[test]
fn a_name_can_be_used_again_and_again() {
    let (_broker, nodes) = job(2);
    let held: Vec<_> = nodes.iter().map(|node| node.membership().heap().held()).collect();
    for round in 0..50u32 {
        let sums = together("again", &nodes, &[0, 1, 1], move |group, _| {
            let mut sum = vec![0; 100_000];
            group.allreduce(&vec![round; 100_000], &mut sum, Operation::Sum, SOON).unwrap();
            sum[99_999]
        });
        assert_eq!(sums, [3 * round; 3]);
    }
    let after: Vec<_> = nodes.iter().map(|node| node.membership().heap().held()).collect();
    assert_eq!(held, after);
}

#[test]
fn a_name_is_used_again_with_another_size_and_completion_once_all_have_left() {
    let (_broker, nodes, [one, other]) = pair();
    let own = GroupOptions { completion: Completion::Own };
    let again = |size, timeout| Group::join_with(&nodes[0], "pair", size, Some(0), &own, timeout);
    drop(one);
    for size in [1, 2, 3] {
        let error = again(size, TRY).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(error.to_string().contains("the last group of that name has not ended, index 1"), "{error}");
    }
    drop(other);
    again(1, SOON).unwrap();
}

#[test]
fn whoever_only_tries_gets_a_name_whose_last_members_have_left_or_are_gone() {
    let (_broker, nodes, [one, _other]) = pair();
    drop(one);
    nodes[1].clone().leave().unwrap();
    Group::join(&nodes[0], "pair", 1, None, TRY).unwrap();
}

#[test]
fn a_large_broadcast_from_library_memory_is_one_buffer_that_all_read() {
    const BYTES: usize = 8 << 20;
    let (_broker, nodes) = job(2);
    let taken = together("one buffer", &nodes, &[0, 1, 1], |group, node| {
        let (mut message, mut array) = (node.message(), vec![0u8; BYTES]);
        message.resize(BYTES).unwrap();
        let content = message.edit().unwrap();
        content.fill(7);
        let is_root = group.index() == 0;
        group.barrier(SOON).unwrap();
        let held = || node.membership().heap().usage().held_bytes;
        let before = held();
        group.bcast(0, if is_root { content } else { &mut array }, SOON).unwrap();
        assert!(is_root || array.iter().all(|byte| *byte == 7));
        let in_place = held() - before;
        group.barrier(SOON).unwrap();
        let mut started = group.start_bcast_message(0, message).unwrap();
        let message = started.wait(group, SOON).unwrap();
        assert!(message.as_bytes().iter().all(|byte| *byte == 7) && held() == before);
        group.barrier(SOON).unwrap();
        // From the root's own memory it goes through a window.
        group.bcast(0, &mut array, SOON).unwrap();
        let through_a_window = held() - before;
        group.barrier(SOON).unwrap();
        (in_place, through_a_window > 0)
    });
    assert_eq!(taken, [(0, true), (0, false), (0, false)]);
}

#[test]
fn a_call_whose_deadline_passes_names_the_absent_and_goes_on_when_called_again() {
    let (_broker, nodes, [mut one, mut other]) = pair();
    let mut sum = [0.0; 3];
    let error = one.allreduce(&[1.0, 2.0, 3.0], &mut sum, Operation::Sum, A_MOMENT).unwrap_err();
    assert_eq!((error.kind(), error.peer()), (ErrorKind::Timeout, Some(nodes[1].number())));
    assert!(error.to_string().contains("index 1 (node 1) is absent"), "{error}");
    assert!(error.to_string().contains("allreduce of group \"pair\""), "{error}");
    assert_eq!(kind(one.barrier(TRY)), ErrorKind::Invalid);
    let thread = std::thread::spawn(move || {
        let mut sum = [0.0; 3];
        other.allreduce(&[0.5; 3], &mut sum, Operation::Sum, SOON).unwrap();
        sum
    });
    one.allreduce(&[1.0, 2.0, 3.0], &mut sum, Operation::Sum, SOON).unwrap();
    assert_eq!((sum, thread.join().unwrap()), ([1.5, 2.5, 3.5], [1.5, 2.5, 3.5]));
    assert_eq!(nodes.len(), 2);
}

#[test]
fn members_that_call_different_things_are_all_told_and_go_on() {
    let (_broker, nodes) = job(2);
    let told = together("different", &nodes, &[0, 1, 0], |group, _| {
        let mut out = [0u8; 4];
        let error = match group.index() {
            0 => group.bcast(1, &mut out, SOON),
            1 => group.allreduce(&[1u8; 4], &mut out, Operation::Max, SOON),
            _ => group.bcast(1, &mut out, SOON),
        }
        .unwrap_err();
        let different = group.bcast(0, &mut out[..=group.index() as usize], SOON).unwrap_err();
        group.barrier(SOON).unwrap();
        (error, different)
    });
    for (error, different) in told {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(
            error.to_string().contains("index 1 called allreduce of 4 Uint8 Max, index 0 bcast of 4 Uint8, root 1")
        );
        assert!(different.to_string().contains("index 1 called bcast of 2 Uint8"), "{different}");
    }
}

#[test]
fn counts_that_do_not_fit_are_told_to_those_who_have_them() {
    let (_broker, _nodes, [mut one, mut other]) = pair();
    let thread = std::thread::spawn(move || {
        let mut out = [0u16; 3];
        // Member 0 sends two, not three.
        let error = other.scatterv(0, &[], &[], &mut out, SOON).unwrap_err();
        other.barrier(SOON).unwrap();
        error
    });
    let mut own = [0u16; 1];
    one.scatterv(0, &[7, 8, 9], &[1, 2], &mut own, SOON).unwrap();
    assert_eq!(own, [7]);
    one.barrier(SOON).unwrap();
    let error = thread.join().unwrap();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("gives 2 elements, not 3"), "{error}");
}

#[test]
fn counts_that_do_not_fit_are_found_before_anything_is_taken() {
    let (_broker, nodes) = job(2);
    together("before", &nodes, &[0, 1, 0], |group, _| {
        let me = group.index() as usize;
        // Long ones are taken in pieces.
        for length in [1, 300_000] {
            let (own, before) = (vec![me as u8; length], vec![9; 3 * length + 1]);
            // The last one is one too long.
            let fitting = [length; 3];
            let wrong = [length, length, length + 1];
            let expected = if me == 0 { &wrong } else { &fitting };
            let refused = |result: Result<(), deck::Error>, out: &[u8]| {
                let error = result.unwrap_err();
                assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("index 2 gives"), "{error}");
                assert_eq!(out, before);
            };
            let mut out = before.clone();
            let gathered = group.gatherv(0, &own, &mut out, &wrong, SOON);
            if me == 0 {
                refused(gathered, &out)
            } else {
                gathered.unwrap()
            }
            out.clone_from(&before);
            let gathered = group.allgatherv(&own, &mut out, expected, SOON);
            if me == 0 {
                refused(gathered, &out)
            } else {
                gathered.unwrap()
            }
            out.clone_from(&before);
            let exchanged = group.alltoallv(&own.repeat(3), &fitting, &mut out, expected, SOON);
            if me == 0 { refused(exchanged, &out) } else { exchanged.unwrap() }
        }
    });
}

#[test]
fn a_member_that_leaves_is_named_to_all_whose_calls_need_it() {
    let (_broker, nodes) = job(3);
    let told = together("leaving", &nodes, &[0, 1, 2], |group, _| {
        group.barrier(SOON).unwrap();
        if group.index() == 1 {
            return None;
        }
        let error = group.barrier(SOON).unwrap_err();
        assert_eq!(kind(group.barrier(SOON)), ErrorKind::Closed, "for good");
        Some(error)
    });
    for error in told.into_iter().flatten() {
        assert_eq!((error.kind(), error.peer()), (ErrorKind::Closed, Some(nodes[1].number())));
        assert!(error.to_string().contains("index 1 (node 1, left) is absent"), "{error}");
    }
}

#[test]
fn a_member_that_has_done_its_part_may_leave() {
    let (_broker, nodes) = job(2);
    for _ in 0..200 {
        let sums = together("part", &nodes, &[0, 1, 0], |group, _| {
            let mut sum = [0];
            group.allreduce(&[1], &mut sum, Operation::Sum, SOON).unwrap();
            sum[0]
        });
        assert_eq!(sums, [3; 3]);
    }
}

#[test]
fn a_member_that_leaves_while_its_pieces_are_on_their_way_is_named_to_whoever_takes_them() {
    const BYTES: usize = 5 << 20;
    let (_broker, nodes, [mut root, mut leaver, mut late]) = apart(Completion::Everyone);
    let taker = std::thread::spawn(move || {
        let mut all = vec![0; 3 * BYTES];
        root.gather(0, &vec![0u8; BYTES], &mut all, SOON).unwrap_err()
    });
    assert_eq!(kind(leaver.gather(0, &vec![1u8; BYTES], &mut [], A_MOMENT)), ErrorKind::Timeout);
    drop(leaver);
    // Now all have come, and what the one has given until it left is taken.
    assert_eq!(kind(late.gather(0, &vec![2u8; BYTES], &mut [], SOON)), ErrorKind::Closed);
    let error = taker.join().unwrap();
    assert_eq!((error.kind(), error.peer()), (ErrorKind::Closed, Some(nodes[1].number())), "{error}");
}

#[test]
fn a_node_that_leaves_its_job_is_named_and_its_own_members_are_sent_home() {
    let (_broker, mut nodes, [mut one, mut other]) = pair();
    let (leaving, number) = (nodes.pop().unwrap(), nodes[0].count() - 1);
    let waiting = std::thread::spawn(move || one.barrier(SOON).unwrap_err());
    leaving.leave().unwrap();
    let error = waiting.join().unwrap();
    assert_eq!((error.kind(), error.peer().map(|peer| peer.0)), (ErrorKind::Closed, Some(number)), "{error}");
    assert_eq!(kind(other.barrier(SOON)), ErrorKind::NotInitialized);
}

#[test]
fn a_cancelled_member_is_told_who_is_absent_and_may_go_on() {
    let (_broker, _nodes, [mut one, mut other]) = pair();
    let (send, receive) = std::sync::mpsc::channel();
    let thread = Thread::spawn(move || {
        send.send(one.barrier(SOON).unwrap_err()).unwrap();
        one.barrier(SOON).unwrap();
    })
    .unwrap();
    thread.canceller().cancel();
    let error = receive.recv().unwrap();
    other.barrier(SOON).unwrap();
    thread.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(error.to_string().contains("index 1"), "{error}");
}

#[test]
fn the_same_inputs_give_the_same_bits_in_every_run_wherever_members_are() {
    let (_broker, nodes) = job(3);
    let mut seen: Vec<Vec<u64>> = Vec::new();
    for on in [[0, 1, 2, 0], [0, 0, 0, 0], [2, 1, 1, 0]] {
        for length in [3, 40_000] {
            let sums = together("bits", &nodes, &on, move |group, _| {
                let own: Vec<f64> =
                    (0..length).map(|at| 1.0 / f64::from(1 + at + 7919 * (group.index() as i32 + 1))).collect();
                let mut sum = vec![0.0; own.len()];
                group.allreduce(&own, &mut sum, Operation::Sum, SOON).unwrap();
                sum[..3].iter().map(|value| value.to_bits()).collect::<Vec<_>>()
            });
            seen.extend(sums);
        }
    }
    assert!(seen.iter().all(|bits| *bits == seen[0]));
}
