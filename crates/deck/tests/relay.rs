//! Long reductions of threads of few nodes, in which arrays are read where they lie: deadlines that pass meanwhile, and
//! members that leave.

mod group;

use std::time::Duration;

use deck::{Completion, ErrorKind, Group, Operation};
use group::{SOON, joined, kind};

const TRY: Duration = Duration::ZERO;
/// Elements: several pieces, and so many that few nodes share them out in this way.
const COUNT: usize = 80_000;

/// What member `index` gives: sums of it depend on the order.
fn given(index: u32) -> Vec<f64> {
    (0..COUNT).map(|at| 1.0 + f64::from((at as u32 * 31 + index * 977) % 3001) / 7.0).collect()
}

/// What members 0 to `last` give, folded in the order of indexes.
fn sum(last: u32) -> Vec<f64> {
    (1..=last).fold(given(0), |sum, index| sum.iter().zip(given(index)).map(|(sum, given)| sum + given).collect())
}

#[test]
fn a_program_has_its_array_back_at_the_deadline_and_others_read_what_was_in_it() {
    for completion in [Completion::Everyone, Completion::Own] {
        for on in [&[0, 0, 0, 0][..], &[0, 0, 1, 1], &[0, 1, 1, 1, 2, 2, 2]] {
            let (_broker, _nodes, mut groups) = joined(completion, on);
            let last = on.len() as u32 - 1;
            let mut arrays: Vec<_> = (0..=last).map(|index| (given(index), vec![0.0; COUNT], false)).collect();
            // All are in the hands of one thread: each goes as far as it can at once, and then the program has its
            // array.
            while arrays.iter().any(|(_, _, has_ended)| !has_ended) {
                for (group, (input, output, has_ended)) in groups.iter_mut().zip(&mut arrays) {
                    if *has_ended {
                        continue;
                    }
                    match group.allreduce(input, output, Operation::Sum, TRY) {
                        Ok(()) => *has_ended = true,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{error}"),
                    }
                    input.fill(f64::NAN);
                }
            }
            for (_, output, _) in &arrays {
                assert!(*output == sum(last), "members on {on:?}, {completion:?}");
            }
        }
    }
}

#[test]
fn calls_that_were_started_go_on_one_after_the_other() {
    let (_broker, _nodes, mut groups) = joined(Completion::Everyone, &[0, 0, 1, 1]);
    let mut start = |group: &mut Group| {
        let input = given(group.index());
        let scan = group.start_scan(&input, Operation::Sum).unwrap();
        (scan, group.start_allreduce(&input, Operation::Sum).unwrap())
    };
    let mut pending: Vec<_> = groups.iter_mut().map(&mut start).collect();
    let mut ended = vec![false; groups.len()];
    while ended.contains(&false) {
        for ((group, (scan, all)), ended) in groups.iter_mut().zip(&mut pending).zip(&mut ended) {
            if !*ended && let Some(total) = all.test(group).unwrap() {
                assert!(total == sum(3));
                assert!(scan.test(group).unwrap().unwrap() == sum(group.index()));
                *ended = true;
            }
        }
    }
}

#[test]
fn a_member_that_leaves_in_the_middle_is_named() {
    let (_broker, _nodes, mut groups) = joined(Completion::Everyone, &[0, 0, 1, 1]);
    let mut output = vec![0.0; COUNT];
    let mut call =
        |group: &mut Group, timeout| group.allreduce(&given(group.index()), &mut output, Operation::Sum, timeout);
    for group in &mut groups {
        assert_eq!(kind(call(group, TRY)), ErrorKind::Timeout);
    }
    drop(groups.remove(0));
    for group in &mut groups {
        let error = call(group, SOON).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        assert!(error.to_string().contains("index 0"), "{error}");
    }
}

#[test]
fn a_member_that_has_done_its_part_may_leave_and_others_read_what_it_gave() {
    let (_broker, _nodes, mut groups) = joined(Completion::Everyone, &[0, 0, 0]);
    let mut outputs = vec![vec![0.0; COUNT]; groups.len()];
    let mut call = |group: &mut Group, timeout| {
        let index = group.index();
        group.allreduce(&given(index), &mut outputs[index as usize], Operation::Sum, timeout)
    };
    // All come to the first meeting, and the last one to come, which is the first one, makes its share.
    for index in [2, 1, 0] {
        assert_eq!(kind(call(&mut groups[index], TRY)), ErrorKind::Timeout);
    }
    drop(groups.remove(0));
    // The next one waits for the last one, and for nobody else.
    assert_eq!(kind(call(&mut groups[0], TRY)), ErrorKind::Timeout);
    for group in groups.iter_mut().rev() {
        call(group, SOON).unwrap();
    }
    assert!(outputs[1] == sum(2) && outputs[2] == sum(2));
}
