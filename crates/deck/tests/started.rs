//! Calls that were started, and others behind them that never come to an end.

mod group;

use deck::group::Pending;
use deck::{ErrorKind, Group, Operation};
use group::{SOON, kind, pair};

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
