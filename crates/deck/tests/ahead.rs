//! Groups whose calls end with the member's own part: who waits for whom, and that all are told what goes wrong.

mod group;

use std::time::{Duration, Instant};

use deck::{Completion, ErrorKind, Group, GroupOptions, Operation};
use group::{SOON, apart, job, kind, together_with};

const A_MOMENT: Duration = Duration::from_millis(30);
const TRY: Duration = Duration::ZERO;
const OWN: Completion = Completion::Own;
/// By how many calls a member gets ahead.
const AHEAD: u32 = 16;

#[test]
fn a_root_goes_on_until_the_slowest_is_too_far_behind_and_is_told_who_that_is() {
    let (_broker, nodes, [mut root, mut late]) = apart(OWN);
    for round in 0..AHEAD {
        root.bcast(0, &mut [round], TRY).unwrap();
    }
    let error = root.bcast(0, &mut [AHEAD], A_MOMENT).unwrap_err();
    assert_eq!((error.kind(), error.peer()), (ErrorKind::Timeout, Some(nodes[1].number())));
    assert!(error.to_string().contains("bcast of group \"pair\": index 1 (node 1) is absent"), "{error}");
    // What did not begin may be something else.
    assert_eq!(kind(root.barrier(TRY)), ErrorKind::Timeout);
    for round in 0..AHEAD {
        let mut got = [u32::MAX];
        late.bcast(0, &mut got, TRY).unwrap();
        assert_eq!(got, [round]);
    }
    let thread = std::thread::spawn(move || late.barrier(SOON).unwrap());
    root.barrier(SOON).unwrap();
    thread.join().unwrap();
}

#[test]
fn each_kind_waits_for_those_it_takes_from() {
    let (_broker, _nodes, [mut zero, mut one, mut two]) = apart(OWN);
    let mut all = [0u64; 3];
    // The root gives, the others wait for it alone.
    assert_eq!(kind(one.scatter(0, &[], &mut all[..1], TRY)), ErrorKind::Timeout);
    zero.scatter(0, &[5u64, 6, 7], &mut [0], TRY).unwrap();
    one.scatter(0, &[], &mut all[..1], TRY).unwrap();
    assert_eq!(all[0], 6);
    // The root takes, the others give.
    one.gather(0, &[11u64], &mut [], TRY).unwrap();
    let error = zero.gather(0, &[10], &mut all, TRY).unwrap_err();
    assert!(error.to_string().contains("index 2 (node 2) is absent"), "{error}");
    two.scatter(0, &[], &mut [0u64], TRY).unwrap();
    two.gather(0, &[12u64], &mut [], TRY).unwrap();
    zero.gather(0, &[10], &mut all, TRY).unwrap();
    assert_eq!(all, [10, 11, 12]);
    two.reduce(1, &[1u64; 500], &mut [], Operation::Sum, TRY).unwrap();
    zero.reduce(1, &[2u64; 500], &mut [], Operation::Sum, TRY).unwrap();
    let mut sum = [0u64; 500];
    one.reduce(1, &[3; 500], &mut sum, Operation::Sum, TRY).unwrap();
    assert_eq!(sum, [6; 500]);
    // Each takes from those before it.
    zero.scan(&[1u64], &mut all[..1], Operation::Sum, TRY).unwrap();
    assert_eq!(kind(two.scan(&[3u64], &mut all[2..], Operation::Sum, TRY)), ErrorKind::Timeout);
    one.scan(&[2u64], &mut all[1..2], Operation::Sum, TRY).unwrap();
    two.scan(&[3u64], &mut all[2..], Operation::Sum, TRY).unwrap();
    assert_eq!(all, [1, 3, 6]);
}

#[test]
fn long_calls_wait_for_all() {
    let (_broker, _nodes, [mut root, mut late]) = apart(OWN);
    root.bcast(0, &mut [1u8; 16 << 10], TRY).unwrap();
    let mut long = vec![2u8; (16 << 10) + 1];
    assert_eq!(kind(root.bcast(0, &mut long, TRY)), ErrorKind::Timeout);
    let thread = std::thread::spawn(move || {
        let (mut short, mut long) = (vec![0u8; 16 << 10], vec![0u8; (16 << 10) + 1]);
        late.bcast(0, &mut short, SOON).unwrap();
        late.bcast(0, &mut long, SOON).unwrap();
        (short, long)
    });
    root.bcast(0, &mut long, SOON).unwrap();
    assert_eq!(thread.join().unwrap(), (vec![1; 16 << 10], vec![2; (16 << 10) + 1]));
}

/// Joining waits for 100 ms at most until all have met one another; where that was too short, the first call waits.
#[test]
fn a_member_that_has_joined_need_not_wait_in_its_first_call() {
    let (_broker, nodes) = job(2);
    for _ in 0..50 {
        let began = Instant::now();
        together_with(OWN, "first", &nodes, &[0, 1, 0], move |group, _| {
            let all_have_met = began.elapsed() < Duration::from_millis(100);
            let mut data = [group.index()];
            group.bcast(0, &mut data, if group.index() == 0 && all_have_met { TRY } else { SOON }).unwrap();
            assert_eq!(data, [0]);
        });
    }
}

#[test]
fn what_a_member_gives_stays_until_all_have_read_it() {
    let (_broker, nodes) = job(2);
    let wrong = together_with(OWN, "stays", &nodes, &[0, 1, 0, 1], |group, _| {
        let mut wrong = 0;
        for round in 0..2000u32 {
            let mut data = vec![round; 50 + round as usize % 997];
            let is_root = round % 3 == group.index();
            if !is_root {
                data.fill(u32::MAX);
            }
            group.bcast(round % 3, &mut data, SOON).unwrap();
            wrong += data.iter().filter(|element| **element != round).count();
        }
        wrong
    });
    assert_eq!(wrong, [0; 4]);
}

/// A long call has more rounds than a member has lines. Seen to fail: without settling each round.
#[test]
fn rounds_of_long_calls_are_no_differences() {
    let (_broker, nodes) = job(2);
    together_with(OWN, "rounds", &nodes, &[0, 1, 1], |group, _| {
        let me = group.index();
        let counts = [20_000_000, 5, 1];
        for round in 0..6u32 {
            let own = vec![me as u8; counts[me as usize]];
            let mut all = vec![9; counts.iter().sum()];
            group.gatherv(round % 3, &own, &mut all, &counts, SOON).unwrap();
            if me == round % 3 {
                assert_eq!((all[19_999_999], all[20_000_000], all[20_000_005]), (0, 1, 2));
            }
            for root in 0..3 * AHEAD + round {
                group.bcast(root % 3, &mut vec![me as u8; root as usize], SOON).unwrap();
            }
        }
    });
}

/// Whoever waits for somebody who waits in turn is told who it is that could go on and does not.
#[test]
fn absent_is_who_could_go_on() {
    let (_broker, nodes, [mut zero, one, mut two]) = apart(OWN);
    assert_eq!(kind(zero.gather(0, &[1u8], &mut [0; 3], TRY)), ErrorKind::Timeout);
    two.gather(0, &[1u8], &mut [], TRY).unwrap();
    let error = two.bcast(0, &mut [0u8], A_MOMENT).unwrap_err();
    assert_eq!((error.kind(), error.peer()), (ErrorKind::Timeout, Some(nodes[1].number())));
    assert!(error.to_string().contains("index 1 (node 1) is absent"), "{error}");
    drop(one);
}

#[test]
fn absent_is_who_could_go_on_also_where_long_contributions_have_filled_their_places() {
    let (_broker, nodes, [mut zero, mut one, _two]) = apart(OWN);
    let mut got = vec![0u8; 4096];
    let mut given = 0;
    while one.bcast(1, &mut vec![given; 4096], TRY).is_ok() {
        zero.bcast(1, &mut got, TRY).unwrap();
        assert_eq!(got, vec![given; 4096]);
        given += 1;
    }
    assert!((1..AHEAD as u8).contains(&given), "{given}");
    let error = zero.bcast(1, &mut got, A_MOMENT).unwrap_err();
    assert_eq!((error.kind(), error.peer()), (ErrorKind::Timeout, Some(nodes[2].number())), "{error}");
    assert!(error.to_string().contains("index 2 (node 2) is absent"), "{error}");
}

#[test]
fn a_member_that_has_done_its_part_may_leave() {
    let (_broker, nodes) = job(2);
    for _ in 0..100 {
        let got = together_with(OWN, "part", &nodes, &[0, 1, 0], |group, _| {
            let mut data = vec![group.index(); 300];
            group.bcast(2, &mut data, SOON).unwrap();
            let mut sum = [0];
            group.reduce(1, &[data[299]], &mut sum, Operation::Sum, SOON).unwrap();
            sum[0]
        });
        assert_eq!(got, [0, 6, 0]);
    }
}

#[test]
fn a_member_that_has_done_its_part_may_leave_the_job_and_not_the_group() {
    let (_broker, mut nodes, [mut root, mut leaves, mut late]) = apart(OWN);
    leaves.reduce(0, &[2u64], &mut [], Operation::Sum, TRY).unwrap();
    let root = std::thread::spawn(move || {
        let mut sum = [0u64];
        root.reduce(0, &[1u64], &mut sum, Operation::Sum, SOON).map(|()| sum[0])
    });
    nodes.remove(1).leave().unwrap();
    late.reduce(0, &[3u64], &mut [], Operation::Sum, TRY).unwrap();
    assert_eq!(root.join().unwrap().unwrap(), 6);
    // What comes next needs it.
    assert_eq!(kind(late.bcast(1, &mut [0u8], SOON)), ErrorKind::Closed);
}

#[test]
fn a_member_that_left_is_named_to_those_whose_calls_need_it_and_to_the_others_in_the_end() {
    let (_broker, nodes, [mut zero, mut one, two]) = apart(OWN);
    drop(two);
    zero.bcast(0, &mut [7u8], TRY).unwrap();
    let mut got = [0u8];
    one.bcast(0, &mut got, TRY).unwrap();
    assert_eq!(got, [7]);
    let error = one.bcast(2, &mut got, SOON).unwrap_err();
    assert_eq!((error.kind(), error.peer()), (ErrorKind::Closed, Some(nodes[2].number())), "{error}");
    assert!(error.to_string().contains("index 2 (node 2, left) is absent"), "{error}");
    assert_eq!(kind(one.barrier(SOON)), ErrorKind::Closed, "for good");
    let mut calls = 1;
    let error = loop {
        match zero.bcast(0, &mut got, SOON) {
            Ok(()) => calls += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), error.peer(), calls), (ErrorKind::Closed, Some(nodes[2].number()), AHEAD), "{error}");
}

/// Whoever looks at one that called something else is told in that call, each other member in a later one, and all go
/// on.
#[test]
fn members_that_call_different_things_are_all_told_and_go_on() {
    let (_broker, nodes) = job(2);
    for all_meet in [true, false] {
        let told = together_with(OWN, "different", &nodes, &[0, 1, 0, 1], move |group, _| {
            let me = group.index();
            let mut errors = Vec::new();
            // Member 0 and 1 take themselves for the root. Member 2 looks at 0, and 3 at 1.
            let (mut data, root) = ([me], me % 2);
            errors.extend(group.bcast(root, &mut data, SOON).err());
            for round in 0..2 * AHEAD {
                let mut data = [me];
                match group.bcast(round % 4, &mut data, SOON) {
                    Ok(()) => assert_eq!(data, [round % 4]),
                    Err(error) => errors.push(error),
                }
                if all_meet && round == 0 {
                    errors.extend(group.barrier(SOON).err());
                    assert_eq!(errors.len(), 1);
                }
            }
            errors
        });
        for errors in told {
            assert_eq!((errors.len(), errors[0].kind()), (1, ErrorKind::Invalid), "{errors:?}");
            let text = errors[0].to_string();
            assert!(
                text.contains("index 1 called bcast of 1 Uint32, root 1, index 0 bcast of 1 Uint32, root 0"),
                "{text}"
            );
            assert!(text.contains("an earlier call differed"), "{text}");
        }
    }
}

#[test]
fn a_call_that_differs_from_that_of_its_root_is_told_at_once() {
    let (_broker, nodes) = job(1);
    let told = together_with(OWN, "length", &nodes, &[0, 0], |group, _| {
        let mut data = vec![9u8; 1 + group.index() as usize];
        let first = group.bcast(0, &mut data, SOON);
        let second = group.barrier(SOON);
        group.barrier(SOON).unwrap();
        (first.err(), second.err())
    });
    let [(None, Some(late)), (Some(now), None)] = &told[..] else { panic!("{told:?}") };
    assert!(now.to_string().contains("index 0 called bcast of 1 Uint8, root 0, index 1 bcast of 2"), "{now}");
    assert!(late.to_string().contains("index 1 called bcast of 2 Uint8, root 0, index 0 bcast of 1"), "{late}");
}

#[test]
fn calls_that_were_started_go_ahead_too() {
    let (_broker, _nodes, [mut root, mut late]) = apart(OWN);
    let count = AHEAD + 4;
    let mut started: Vec<_> = (0..count).map(|round| root.start_bcast(0, vec![round]).unwrap()).collect();
    let ended = started.iter_mut().filter_map(|pending| pending.test(&mut root).unwrap()).count();
    assert_eq!(ended, AHEAD as usize);
    let thread = std::thread::spawn(move || {
        for round in 0..count {
            let mut got = [u32::MAX];
            late.bcast(0, &mut got, SOON).unwrap();
            assert_eq!(got, [round]);
        }
    });
    for (round, pending) in (0..).zip(&mut started).skip(AHEAD as usize) {
        assert_eq!(pending.wait(&mut root, SOON).unwrap(), [round]);
    }
    thread.join().unwrap();
}

#[test]
fn a_call_that_was_started_and_tells_that_an_earlier_one_differed_has_its_result_too() {
    let (_broker, nodes) = job(1);
    let told = together_with(OWN, "late", &nodes, &[0, 0], |group, _| {
        let _ = group.bcast(0, &mut vec![9u8; 1 + group.index() as usize], SOON);
        let mut sum = group.start_allreduce(&[group.index() + 20], Operation::Sum).unwrap();
        let late = sum.wait(group, SOON).err().filter(|_| group.index() == 0);
        let waited = late.is_some().then(|| sum.wait(group, TRY).unwrap());
        assert_eq!(kind(sum.test(group)), ErrorKind::Invalid, "it was taken");
        (late, waited)
    });
    let (Some(late), Some(sum)) = &told[0] else { panic!("{told:?}") };
    assert!(late.kind() == ErrorKind::Invalid && late.to_string().contains("an earlier call differed"), "{late}");
    assert_eq!(sum, &[41]);
}

#[test]
fn that_a_call_differed_is_not_told_to_a_request_that_was_dropped_but_by_the_next_call() {
    let (_broker, nodes) = job(1);
    let told = together_with(OWN, "dropped", &nodes, &[0, 0], |group, _| {
        let _ = group.bcast(0, &mut vec![9u8; 1 + group.index() as usize], SOON);
        drop(group.start_allreduce(&[group.index()], Operation::Sum).unwrap());
        let told = group.barrier(SOON).err();
        group.barrier(SOON).unwrap();
        told
    });
    let Some(late) = &told[0] else { panic!("{told:?}") };
    assert!(late.kind() == ErrorKind::Invalid && late.to_string().contains("an earlier call differed"), "{late}");
}

#[test]
fn members_that_disagree_about_the_completion_are_all_told() {
    let (_broker, nodes) = job(2);
    let join = |node: &deck::Node, completion, timeout| {
        Group::join_with(node, "promise", 2, None, &GroupOptions { completion }, timeout)
    };
    let (waiting, other) = loop {
        let node = nodes[0].clone();
        let waiting = std::thread::spawn(move || {
            let options = GroupOptions { completion: Completion::Own };
            Group::join_with(&node, "promise", 2, None, &options, SOON).err()
        });
        // Before the first has come, this one makes the group; the one that comes then disagrees with it.
        let error = join(&nodes[1], Completion::Everyone, SOON).err().unwrap();
        let waiting = waiting.join().unwrap().unwrap();
        if error.to_string().contains("its completion is Own, not Everyone") {
            break (waiting, error);
        }
    };
    assert_eq!((other.kind(), other.peer()), (ErrorKind::Invalid, Some(nodes[0].number())), "{other}");
    assert_eq!((waiting.kind(), waiting.peer()), (ErrorKind::Invalid, Some(nodes[1].number())), "{waiting}");
    assert!(waiting.to_string().contains("another completion"), "{waiting}");
    // The name is free again.
    let node = nodes[0].clone();
    let one = std::thread::spawn(move || Group::join(&node, "promise", 2, None, SOON).unwrap());
    join(&nodes[1], Completion::Everyone, SOON).unwrap();
    one.join().unwrap();
}
