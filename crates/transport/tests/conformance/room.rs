//! Room: credits, bytes, budget, and how the two ends wake one another.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use deck_segment::fabric::Host;
use deck_segment::{Remote, Segment};
use deck_sync::atomic::{AtomicBool, Ordering, yield_now};
use deck_sync::{Crowd, ErrorKind, Spot};
use deck_transport::segment::ring::{credit, hot};
use deck_transport::{Protocol, Refusal, Shape};

use crate::world::{BELL, Fabric, Ring, SHAPE, assert_same, job, job_with_budget, pattern};

pub fn a_full_ring_refuses_and_accepts_again_after_one_take<F: Fabric>(seed: u64) {
    for messages in [1, 2, 3, 4, 5, 8, 9, 64] {
        for (size, shares_slots) in [(8, false), (8, true), (300, false), (300, true), (2000, true)] {
            let [a, b] = job();
            let shape = Shape { messages, area_lines: 1024, shares_slots, ..SHAPE };
            let in_a_slot = if size == 8 && shares_slots && F::Remote::IS_MAPPED { 7 } else { 1 };
            let mut ring = Ring::<F>::shaped(&a, &b, seed, shape);
            let mut posted = VecDeque::new();
            let mut next = 0;
            let mut fill = |ring: &Ring<F>, posted: &mut VecDeque<_>| {
                loop {
                    let parcel = a.parcel(1, &pattern(next, size));
                    match ring.post(&parcel) {
                        Ok(_) => posted.push_back(parcel),
                        Err(Refusal::Full) => return,
                        Err(other) => panic!("{other:?}"),
                    }
                    next += 1;
                }
            };
            fill(&ring, &mut posted);
            assert_eq!(posted.len(), in_a_slot * shape.limit() as usize);
            for _ in 0..3 * messages {
                assert_same(&ring.take(&b), &posted.pop_front().expect("one was posted"));
                // The credit is on its way.
                for _ in 0..20 {
                    ring.drive(&b).unwrap();
                }
                fill(&ring, &mut posted);
                // Credits may be held back, but never so many that the promised room is not there.
                assert!(posted.len() >= messages as usize, "room for {} of {messages}", posted.len());
            }
        }
    }
}

pub fn a_ring_of_one_message_takes_one_after_the_other<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::shaped(&a, &b, seed, Shape { messages: 1, shares_slots: false, ..SHAPE });
    for round in 0..300 {
        let parcel = a.parcel(1, &pattern(round, [5, 100, 3000][round % 3]));
        ring.must_post(&parcel);
        assert!(matches!(ring.post(&parcel), Err(Refusal::Full)));
        assert_same(&ring.take(&b), &parcel);
        for _ in 0..20 {
            ring.drive(&b).unwrap();
        }
    }
}

pub fn bytes_are_limited_but_an_empty_ring_takes_any_size<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::shaped(&a, &b, seed, Shape { bytes: 10_000, ..SHAPE });
    let (small, large) = (a.parcel(1, &pattern(1, 4000)), a.parcel(1, &pattern(2, 50_000)));
    for _ in 0..5 {
        // Twice 4,000 bytes fit into 10,000; three times do not, and nothing larger does beside anything.
        ring.must_post(&small);
        ring.must_post(&small);
        assert!(matches!(ring.post(&small), Err(Refusal::Full)));
        assert!(matches!(ring.post(&large), Err(Refusal::Full)));
        assert_eq!(ring.must_post(&a.parcel(1, b"short ones need no bytes")), Protocol::Short);
        assert_same(&ring.take(&b), &small);
        ring.settle_credits(&b);
        assert!(matches!(ring.post(&large), Err(Refusal::Full)));
        ring.must_post(&small);
        (0..3).for_each(|_| drop(ring.take(&b)));
        ring.settle_credits(&b);
        ring.must_post(&large);
        assert!(matches!(ring.post(&small), Err(Refusal::Full)));
        assert_same(&ring.take(&b), &large);
        ring.settle_credits(&b);
    }
}

pub fn the_budget_is_shared_by_the_rings_of_a_node<F: Fabric>(seed: u64) {
    let [a, b, c] = job_with_budget(10_000);
    let mut to_b = Ring::<F>::new(&a, &b, seed);
    let mut to_c = Ring::<F>::new(&a, &c, seed + 1);
    let parcel = a.parcel(1, &pattern(1, 4000));
    to_b.must_post(&parcel);
    to_c.must_post(&parcel);
    assert_eq!(a.budget.used(), 8000);
    assert!(matches!(to_b.post(&parcel), Err(Refusal::Budget)));
    assert!(matches!(to_c.post(&parcel), Err(Refusal::Budget)));
    // What is not zero-copy is held elsewhere and costs no budget.
    to_b.must_post(&a.parcel(1, &pattern(2, 100)));
    assert_same(&to_c.take(&c), &parcel);
    to_c.settle(&c);
    assert_eq!(a.budget.used(), 4000);
    to_c.must_post(&parcel);
    drop(to_b.take(&b));
    drop(to_b.take(&b));
    drop(to_c.take(&c));
    to_b.settle(&b);
    to_c.settle(&c);
    assert_eq!(a.budget.used(), 0);
}

pub fn what_a_ring_has_left_of_the_budget_is_there_for_others<F: Fabric>(seed: u64) {
    let [a, b, c] = job_with_budget(10_000);
    let (mut to_b, to_c) = (Ring::<F>::new(&a, &b, seed), Ring::<F>::new(&a, &c, seed + 1));
    let (large, small) = (a.parcel(1, &pattern(1, 4000)), a.parcel(1, &pattern(2, 2000)));
    to_b.must_post(&large);
    to_b.must_post(&large);
    drop((to_b.take(&b), to_b.take(&b)));
    to_b.settle_credits(&b);
    // Lets go of the two and keeps their bytes for the next ones.
    to_b.must_post(&small);
    to_b.must_post(&small);
    assert!(a.budget.used() <= 10_000);
    let posted = to_c.post(&large);
    assert!(to_b.sender.reap());
    if posted.is_err() {
        to_c.must_post(&large);
    }
    assert_eq!(a.budget.used(), 8000);
    drop((to_b.take(&b), to_b.take(&b)));
    to_b.settle(&b);
    assert_eq!(a.budget.used(), 4000);
}

pub fn what_would_be_copied_is_larger_than_the_budget_too_whoever_posts<F: Fabric>(seed: u64) {
    let [a, b] = job_with_budget(500);
    let mut ring = Ring::<F>::new(&a, &b, seed);
    let (short, long) = (a.parcel(1, &pattern(1, 8)), a.parcel(1, &pattern(2, 800)));
    for _ in 0..20 {
        // After some posts of one thread it goes another way.
        ring.must_post(&short);
        assert_same(&ring.take(&b), &short);
        match ring.post(&long) {
            Err(Refusal::Failed(error)) => assert_eq!(error.kind(), ErrorKind::TooLarge),
            other => panic!("{other:?}"),
        }
    }
}

pub fn more_than_the_budget_can_never_be_posted<F: Fabric>(seed: u64) {
    let [a, b] = job_with_budget(10_000);
    let ring = Ring::<F>::new(&a, &b, seed);
    match ring.post(&a.parcel(1, &pattern(1, 10_001))) {
        Err(Refusal::Failed(error)) => assert_eq!(error.kind(), ErrorKind::TooLarge),
        other => panic!("{other:?}"),
    }
    assert_eq!(a.budget.used(), 0);
    ring.must_post(&a.parcel(1, &pattern(1, 10_000)));
}

pub fn several_threads_post_and_each_keeps_its_order<F: Fabric>(seed: u64) {
    const THREADS: usize = 3;
    let count = if seed == 0 && !cfg!(miri) { 400 } else { 60 };
    let [a, b] = job();
    let mut ring = Ring::<F>::shaped(&a, &b, seed, Shape { messages: 16, area_lines: 16, ..SHAPE });
    let content = |thread: usize, index: usize| {
        let mut bytes = pattern(thread * 1000 + index, [8, 300, 62, 1500][index % 4]);
        bytes[0] = thread as u8;
        bytes
    };
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (sender, a, failed) = (ring.sender.clone(), &a, &failed);
            scope.spawn(move || {
                for index in 0..count {
                    let parcel = a.parcel(1, &content(thread, index));
                    while let Err(refusal) = sender.post(&parcel) {
                        assert!(matches!(refusal, Refusal::Full), "{refusal:?}");
                        if failed.load(Ordering::Relaxed) {
                            return;
                        }
                        yield_now();
                    }
                }
            });
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut next = [0; THREADS];
            while next.iter().sum::<usize>() < THREADS * count {
                let Some(parcel) = ring.try_take(&b).unwrap() else {
                    ring.drive(&b).unwrap();
                    yield_now();
                    continue;
                };
                let thread = usize::from(parcel.bytes()[0]);
                assert!(parcel.bytes() == content(thread, next[thread]), "thread {thread}, message {}", next[thread]);
                next[thread] += 1;
            }
        }));
        failed.store(outcome.is_err(), Ordering::Relaxed);
        outcome.unwrap();
    });
    ring.expect_nothing(&b);
    ring.settle(&b);
    assert_eq!(a.heap.usage().buffers, 0);
}

pub fn a_sender_that_asked_for_room_is_told_of_every_credit<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::shaped(&a, &b, seed, Shape { messages: 2, shares_slots: false, ..SHAPE });
    let parcel = a.parcel(1, b"x");
    ring.must_post(&parcel);
    ring.must_post(&parcel);
    let before = ring.sender.room().count();
    drop(ring.take(&b));
    assert_eq!(ring.sender.room().count(), before, "told without having asked");
    ring.sender.ask_for_room(true);
    drop(ring.take(&b));
    assert_ne!(ring.sender.room().count(), before, "not told");
    ring.sender.ask_for_room(false);
    let before = ring.sender.room().count();
    ring.must_post(&parcel);
    drop(ring.take(&b));
    assert_eq!(ring.sender.room().count(), before, "told although it asks no longer");
}

pub fn a_receiver_is_rung_for_while_its_ring_is_cold_only<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    let bell = ring.shape.ring_bytes() / 8;
    let rung = |ring: &Ring<F>| (ring.words.get(bell).load(Ordering::Acquire), ring.words.event(bell + 1).count());
    let parcel = a.parcel(1, b"x");
    ring.must_post(&parcel);
    assert_eq!(rung(&ring), (0, 0));
    ring.receiver.set_hot(false);
    ring.must_post(&parcel);
    assert_eq!(rung(&ring), (1 << BELL, 1));
    ring.receiver.set_hot(true);
    ring.must_post(&parcel);
    assert_eq!(rung(&ring), (1 << BELL, 1));
    (0..3).for_each(|_| drop(ring.take(&b)));
}

pub fn a_receiver_of_a_hot_ring_is_called_where_it_says_until_it_is_cold<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    let spot = Spot { core: 5, place: 3 };
    let told = |ring: &Ring<F>| ring.credit.get(credit::HOT).load(Ordering::Acquire);
    let bell = ring.shape.ring_bytes() / 8;
    ring.receiver.set_spot(Some(spot));
    assert_eq!(told(&ring), spot.to_word());
    ring.must_post(&a.parcel(1, b"x"));
    assert_eq!(ring.words.event(bell + 1).count(), 0, "rung though the ring is hot");
    ring.receiver.set_hot(false);
    ring.receiver.set_spot(Some(spot));
    assert_eq!(told(&ring), hot::NO, "called though nobody looks");
    ring.receiver.set_hot(true);
    assert_eq!(told(&ring), hot::YES);
    ring.receiver.set_spot(Some(spot));
    ring.receiver.set_spot(None);
    assert_eq!(told(&ring), hot::YES, "called though there are cores enough");
    drop(ring.take(&b));
}

/// Host memory among those who share cores.
struct Crowded;

static CALLED: Mutex<Vec<Spot>> = Mutex::new(Vec::new());

impl Crowd for Crowded {
    fn resume(&self) {}
    fn rest(&self) {}
    fn is_crowded(&self) -> bool {
        true
    }
    fn call(&self, spot: Spot) {
        CALLED.lock().unwrap().push(spot);
    }
}

impl Fabric for Crowded {
    type Remote = Host;

    fn connect(segment: &Arc<Segment>, _seed: u64) -> Host {
        let crowd: Arc<dyn Crowd> = Arc::new(Crowded);
        Host::in_crowd(segment.clone(), &crowd, 0)
    }
}

#[test]
fn who_posts_calls_the_receiver_back_to_the_core_that_it_gave_away() {
    let [a, b] = job();
    let mut ring = Ring::<Crowded>::new(&a, &b, 0);
    let spot = Spot { core: 5, place: 3 };
    ring.must_post(&a.parcel(1, b"x"));
    ring.receiver.set_spot(Some(spot));
    ring.must_post(&a.parcel(1, b"y"));
    ring.must_post(&a.parcel(1, &[7; 8]));
    ring.receiver.set_hot(false);
    ring.must_post(&a.parcel(1, b"z"));
    assert_eq!(*CALLED.lock().unwrap(), [spot; 2]);
    (0..4).for_each(|_| drop(ring.take(&b)));
}
