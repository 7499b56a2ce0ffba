//! Calls that are started and waited for later.

mod group;

use std::time::{Duration, Instant};

use deck::group::Pending;
use deck::{ErrorKind, Group, Operation};
use group::{SOON, job, kind, pair, together};

const A_MOMENT: Duration = Duration::from_millis(30);
const TRY: Duration = Duration::ZERO;

#[test]
fn calls_that_were_started_come_to_their_end_in_order_while_their_member_does_other_things() {
    let (_broker, nodes) = job(2);
    let results = together("started", &nodes, &[0, 1, 1], |group, _| {
        let me = i64::from(group.index());
        let mut sum = group.start_allreduce(&vec![me; 50_000], Operation::Sum).unwrap();
        let mut all = group.start_allgather(&[me]).unwrap();
        let mut barrier = group.start_barrier().unwrap();
        let mut rounds = 0u64;
        while barrier.test(group).unwrap().is_none() {
            rounds += 1;
        }
        // The last has ended, so have those before it.
        let all = all.wait(group, TRY).unwrap();
        let sum = sum.test(group).unwrap().expect("it has ended");
        assert_eq!(kind(barrier.test(group)), ErrorKind::Invalid, "it was taken");
        (sum[49_999], all, rounds)
    });
    for (sum, all, _) in results {
        assert_eq!((sum, all), (3, vec![0, 1, 2]));
    }
}

#[test]
fn what_has_a_root_or_parts_is_started_and_waited_for_in_any_order() {
    let (_broker, nodes) = job(2);
    for count in [1, 20_000] {
        together("roots", &nodes, &[0, 1, 1], move |group, _| {
            let me = group.index();
            let to_all: Vec<u32> = (0..3).flat_map(|to| vec![10 * me + to; count]).collect();
            let mut reduced = group.start_reduce(1, &vec![me + 1; count], Operation::Prod).unwrap();
            let mut scattered = group.start_scatter(2, if me == 2 { &to_all } else { &[] }, count).unwrap();
            let mut exchanged = group.start_alltoall(&to_all).unwrap();
            let from_each: Vec<u32> = (0..3).flat_map(|from| vec![10 * from + me; count]).collect();
            assert_eq!(exchanged.wait(group, SOON).unwrap(), from_each);
            assert_eq!(scattered.wait(group, SOON).unwrap(), vec![20 + me; count]);
            assert_eq!(reduced.wait(group, SOON).unwrap(), if me == 1 { vec![6; count] } else { Vec::new() });
        });
    }
}

#[test]
fn parts_of_different_lengths_are_started_and_waited_for_in_any_order() {
    let (_broker, nodes) = job(2);
    together("parts", &nodes, &[0, 1, 1], |group, _| {
        let me = group.index() as usize;
        let counts = [1, 20_000, 0];
        let to_all: Vec<u32> = (0..3).flat_map(|to| vec![(10 * me + to) as u32; counts[to]]).collect();
        let mut gathered = group.start_gatherv(2, &vec![me as u32; counts[me]], &counts).unwrap();
        let mut everywhere = group.start_allgatherv(&vec![me as u32; counts[me]], &counts).unwrap();
        let mut scattered = group.start_scatterv(0, &to_all, &counts, counts[me]).unwrap();
        let mut exchanged = group.start_alltoallv(&to_all, &counts, &[counts[me]; 3]).unwrap();
        let of_all: Vec<u32> = (0..3).flat_map(|from| vec![from as u32; counts[from]]).collect();
        let from_each: Vec<u32> = (0..3).flat_map(|from| vec![(10 * from + me) as u32; counts[me]]).collect();
        assert_eq!(exchanged.wait(group, SOON).unwrap(), from_each);
        assert_eq!(scattered.wait(group, SOON).unwrap(), vec![me as u32; counts[me]]);
        assert_eq!(everywhere.wait(group, SOON).unwrap(), of_all);
        assert_eq!(gathered.wait(group, SOON).unwrap(), if me == 2 { of_all } else { Vec::new() });
    });
}

#[test]
fn a_message_that_is_broadcast_is_read_where_it_lies_and_a_change_of_it_is_a_change_of_a_copy() {
    const BYTES: usize = 3 << 20;
    let (_broker, nodes) = job(2);
    together("message", &nodes, &[0, 1, 0], |group, node| {
        let is_root = group.index() == 1;
        let mut message = node.message();
        message.resize(BYTES).unwrap();
        message.edit().unwrap().fill(if is_root { 7 } else { 0 });
        let (place, mut other) = (message.as_ptr(), message.clone());
        let mut pending = group.start_bcast_message(1, message).unwrap();
        other.edit().unwrap().fill(8);
        let message = match group.index() {
            0 => loop {
                if let Some(message) = pending.test(group).unwrap() {
                    break message;
                }
                std::thread::yield_now();
            },
            _ => pending.wait(group, SOON).unwrap(),
        };
        assert!(message.size() == BYTES && message.as_bytes().iter().all(|byte| *byte == 7));
        assert_eq!(message.as_ptr() == place, is_root);
        assert_eq!(kind(pending.test(group)), ErrorKind::Invalid, "it was taken");
    });
}

#[test]
fn a_result_for_which_there_is_no_memory_is_refused_and_nothing_is_started() {
    let (_broker, _nodes, [mut one, mut other]) = pair();
    let counts = [1 << 50, 1];
    assert_eq!(kind(one.start_allgatherv(&[0u8], &counts)), ErrorKind::NoMemory);
    let pending = one.start_allreduce(&[1], Operation::Sum).unwrap();
    let mut waited = other.start_allreduce(&[2], Operation::Sum).unwrap();
    assert_eq!(waited.wait(&mut other, SOON).unwrap(), [3]);
    drop(pending);
}

#[test]
fn a_short_call_that_was_started_needs_nothing_more_from_its_member() {
    let (_broker, _nodes, [mut one, mut other]) = pair();
    let mut pending = one.start_allreduce(&[20], Operation::Sum).unwrap();
    // `one` does nothing now; its part is said.
    let mut sum = [0];
    other.allreduce(&[22], &mut sum, Operation::Sum, SOON).unwrap();
    assert_eq!(sum, [42]);
    assert_eq!(pending.test(&mut one).unwrap(), Some(vec![42]));
}

#[test]
fn a_blocking_call_first_finishes_what_was_started() {
    let (_broker, nodes) = job(2);
    let results = together("mixed", &nodes, &[0, 1], |group, _| {
        let mut pending = group.start_bcast(1, vec![group.index(); 30_000]).unwrap();
        let mut sum = [0];
        group.allreduce(&[1], &mut sum, Operation::Sum, SOON).unwrap();
        (pending.wait(group, TRY).unwrap()[29_999], sum[0])
    });
    assert_eq!(results, [(1, 2); 2]);
}

#[test]
fn a_pending_call_that_is_not_answered_ends_its_wait_at_the_deadline() {
    let (_broker, nodes, [mut one, mut other]) = pair();
    let mut pending = one.start_barrier().unwrap();
    let began = Instant::now();
    let error = pending.wait(&mut one, A_MOMENT).unwrap_err();
    assert!(began.elapsed() >= A_MOMENT);
    assert_eq!((error.kind(), error.peer()), (ErrorKind::Timeout, Some(nodes[1].number())));
    let thread = std::thread::spawn(move || other.barrier(SOON));
    pending.wait(&mut one, SOON).unwrap();
    thread.join().unwrap().unwrap();
}

#[test]
fn what_was_started_ends_with_the_name_of_who_left() {
    let (_broker, nodes, [mut one, other]) = pair();
    let mut pending = one.start_gather(0, &[1, 2, 3]).unwrap();
    drop(other);
    let error = pending.wait(&mut one, SOON).unwrap_err();
    assert_eq!((error.kind(), error.peer()), (ErrorKind::Closed, Some(nodes[1].number())), "{error}");
}

/// A member that has started a sum and a barrier: the other one has come to the sum, and left.
fn left_alone(then: impl Fn(&mut Group, Pending<u8>, Pending<u8>)) {
    let (_broker, _nodes, [mut group, mut other]) = pair();
    let sum = group.start_allreduce(&[1u8], Operation::Sum).unwrap();
    let barrier = group.start_barrier().unwrap();
    other.allreduce(&[2u8], &mut [0], Operation::Sum, SOON).unwrap();
    drop(other);
    then(&mut group, sum, barrier);
}

#[test]
fn a_call_that_has_ended_gives_its_result_though_the_look_finds_that_a_later_one_never_will() {
    left_alone(|group, mut sum, mut barrier| {
        assert_eq!(sum.wait(group, SOON).unwrap(), [3]);
        assert_eq!(kind(barrier.wait(group, SOON)), ErrorKind::Closed);
    });
    left_alone(|group, mut sum, mut barrier| {
        assert_eq!(sum.test(group).unwrap(), Some(vec![3]));
        assert_eq!(kind(barrier.test(group)), ErrorKind::Closed);
    });
}

#[test]
fn a_call_that_has_ended_gives_its_result_after_a_later_one_has_failed() {
    left_alone(|group, mut sum, mut barrier| {
        assert_eq!(kind(barrier.wait(group, SOON)), ErrorKind::Closed);
        assert_eq!(sum.wait(group, SOON).unwrap(), [3]);
    });
    left_alone(|group, mut sum, mut barrier| {
        assert_eq!(kind(barrier.test(group)), ErrorKind::Closed);
        assert_eq!(sum.test(group).unwrap(), Some(vec![3]));
    });
}
