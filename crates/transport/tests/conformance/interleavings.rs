//! Any order of posting, retrieving and closing, against the simplest ring there is: a queue with room for so many.

use std::collections::VecDeque;

use deck_sync::atomic::Ordering;
use deck_transport::segment::ring::credit;
use deck_transport::segment::sender::Ending;
use deck_transport::{Parcel, Refusal, Shape};
use proptest::prelude::*;

use crate::world::{Fabric, Ring, SHAPE, assert_same, job, pattern};

#[derive(Clone, Debug)]
pub enum Step {
    /// Posts this many bytes, the last few of them of another type.
    Post(usize, usize),
    Take,
    /// Time passes.
    Drive,
    /// The receiver closes.
    Close,
    /// What the node of the sender does when it is told.
    End,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![3 => 0usize..10, 3 => 0usize..70, 2 => 60usize..600, 2 => 600usize..5000];
    prop_oneof![
        12 => (size, prop_oneof![Just(0usize), 1usize..30]).prop_map(|(size, other)| Step::Post(size, other)),
        9 => Just(Step::Take),
        3 => Just(Step::Drive),
        1 => Just(Step::Close),
        1 => Just(Step::End),
    ]
}

pub fn shapes_and_steps() -> impl Strategy<Value = (Shape, Vec<Step>)> {
    let shape =
        (1u32..10, 5000u64..20_000, 2u32..6, any::<bool>()).prop_map(|(messages, bytes, area, shares_slots)| Shape {
            messages,
            bytes,
            area_lines: 1 << area,
            shares_slots,
            ..SHAPE
        });
    (shape, prop::collection::vec(step(), 1..120))
}

pub fn run<F: Fabric>(shape: Shape, steps: &[Step], seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::shaped(&a, &b, seed, shape);
    let mut queue: VecDeque<Parcel> = VecDeque::new();
    let (mut is_closed, mut is_ended) = (false, false);
    for (index, step) in steps.iter().enumerate() {
        match step {
            Step::Post(size, other) => {
                let content = pattern(index, size + other);
                let parcel = a.parcel_of(&[(1, &content[..*size]), (12, &content[*size..])]);
                let credit = ring.credit.get(credit::RETIRED).load(Ordering::Acquire);
                match ring.post(&parcel) {
                    Ok(_) => {
                        assert!(!is_closed && !is_ended, "posted to a closed ring");
                        queue.push_back(parcel);
                        let in_a_slot = if shape.shares_slots { 7 } else { 1 };
                        let limit = in_a_slot * shape.limit() as usize;
                        assert!(queue.len() <= limit, "more in flight than there are credits");
                    }
                    Err(Refusal::Closed) => assert!(is_closed || is_ended, "closed, and nobody closed it"),
                    Err(Refusal::Full) => assert!(!queue.is_empty() || credit != 0, "a new ring is full"),
                    Err(other) => panic!("{other:?}"),
                }
            }
            // Closed: the owner looks no longer.
            Step::Take if is_closed => {}
            Step::Take => match queue.pop_front() {
                Some(wanted) => assert_same(&ring.take(&b), &wanted),
                None => assert!(ring.try_take(&b).unwrap().is_none(), "a message that nobody posted"),
            },
            Step::Drive => ring.drive(&b).unwrap(),
            Step::Close => {
                ring.receiver.set_closed();
                is_closed = true;
            }
            Step::End if is_closed => {
                ring.sender.end(Ending::Closed);
                is_ended = true;
            }
            Step::End => {}
        }
    }
    if is_closed {
        ring.sender.end(Ending::Closed);
    } else {
        queue.drain(..).for_each(|wanted| assert_same(&ring.take(&b), &wanted));
        ring.expect_nothing(&b);
        ring.settle(&b);
    }
    queue.clear();
    assert_eq!(a.budget.used(), 0);
    assert_eq!(a.heap.usage().buffers, 0);
}
