//! How rings end: closed, or with the death of either side.

use std::sync::Arc;

use deck_segment::{HeapMemory, Remote};
use deck_sync::NodeId;
use deck_sync::atomic::Ordering;
use deck_transport::segment::receiver::Glance;
use deck_transport::segment::sender::Ending;
use deck_transport::{Heaps, Parcel, Refusal, Shape};

use crate::world::{Fabric, Ring, SHAPE, assert_same, job, pattern, seat};

const SIZE: usize = 3000;

/// Knows of none.
struct NoHeaps;

impl Heaps for NoHeaps {
    fn heap_of(&self, _owner: NodeId) -> Option<Arc<HeapMemory>> {
        None
    }
}

pub fn a_closed_ring_refuses_and_gives_back_what_was_on_its_way<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    let mut parcel = a.parcel(1, &pattern(1, SIZE));
    let address = parcel.data();
    for _ in 0..4 {
        ring.must_post(&parcel);
    }
    let kept = ring.take(&b);
    let before = ring.sender.room().count();
    ring.receiver.set_closed();
    assert_ne!(ring.sender.room().count(), before, "those who wait for room are not told");
    for parcel in [&parcel, &a.parcel(1, b"short"), &a.parcel(1, &pattern(2, 300))] {
        assert!(matches!(ring.post(parcel), Err(Refusal::Closed)));
    }
    assert_eq!(ring.sender.end(Ending::Closed), 4);
    assert_eq!(ring.sender.end(Ending::Lost), 4, "ending twice is ending once");
    assert_eq!(ring.sender.ended(), Some(Ending::Closed));
    assert_eq!(a.budget.used(), 0);
    assert_same(&kept, &parcel);
    drop(kept);
    // Nobody shares the content any more: what never arrived was taken back.
    parcel.edit(&a.heap).unwrap()[0] = 0;
    assert_eq!(parcel.data(), address);
    drop(parcel);
    assert_eq!(a.heap.usage().buffers, 0);
}

pub fn what_was_taken_over_is_given_back_once_when_the_ring_closes<F: Fabric>(seed: u64) {
    if !F::Remote::IS_MAPPED {
        return;
    }
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    let (content, mut parcel) = (pattern(1, SIZE), a.parcel(1, &pattern(1, SIZE)));
    ring.must_post(&parcel);
    ring.must_post(&parcel);
    let kept = ring.take(&b);
    // As if the memory of the buffer's owner were about to be forgotten, while the sender lives.
    ring.receiver.adopt(&b, Some(a.number));
    ring.receiver.set_closed();
    ring.sender.end(Ending::Closed);
    drop(ring);
    parcel.edit(&a.heap).unwrap()[0] ^= 1;
    assert_same(&kept, &a.parcel(1, &content));
    drop((kept, parcel));
    assert_eq!(a.heap.usage().buffers, 0);
}

pub fn a_ring_whose_node_died_says_so<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let ring = Ring::<F>::shaped(&a, &b, seed, Shape { messages: 2, shares_slots: false, ..SHAPE });
    let parcel = a.parcel(1, &pattern(1, SIZE));
    ring.must_post(&parcel);
    ring.must_post(&parcel);
    assert!(matches!(ring.post(&parcel), Err(Refusal::Full)));
    let before = ring.sender.room().count();
    ring.sender.end(Ending::Lost);
    assert_ne!(ring.sender.room().count(), before, "those who wait for room are not told");
    for parcel in [&parcel, &a.parcel(1, b"short"), &a.parcel(1, &pattern(2, 300))] {
        assert!(matches!(ring.post(parcel), Err(Refusal::Lost)));
    }
    assert_eq!(a.budget.used(), 0);
    // It may have read them, and told nobody: whoever wrote into what it had a share in would be wrong.
    assert_eq!(parcel.buffer().expect("it is large").is_shared(), F::Remote::IS_MAPPED);
    drop(parcel);
    assert_eq!(a.heap.usage().buffers, 0, "a dead receiver keeps buffers");
}

/// Makes the slot of `position` one that was taken and never written, as a kill leaves it.
fn unwrite<F: Fabric>(ring: &Ring<F>, position: u32) {
    ring.words.get(ring.slot_word(position, 7)).store(0, Ordering::Release);
}

pub fn what_was_posted_before_the_sender_died_is_delivered<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::shaped(&a, &b, seed, Shape { messages: 8, ..SHAPE });
    let parcels: Vec<_> = (0..8).map(|index| a.parcel(1, &pattern(index, [10, 300][index % 2]))).collect();
    for parcel in &parcels {
        ring.must_post(parcel);
    }
    // One thread at a time is inside a post: only the last slot can be unwritten.
    unwrite(&ring, 7);
    for parcel in &parcels[..7] {
        assert_same(&ring.take(&b), parcel);
    }
    ring.expect_nothing(&b);
}

pub fn buffers_of_a_dead_sender_are_taken_over_before_it_is_forgotten<F: Fabric>(seed: u64) {
    if !F::Remote::IS_MAPPED {
        // Where nothing is handed over there is nothing to take over.
        return;
    }
    let [owner, dying, b] = job();
    let mut first = Ring::<F>::new(&owner, &dying, seed);
    let mut second = Ring::<F>::new(&dying, &b, seed);
    let wanted: Vec<_> = (0..5).map(|index| pattern(index, SIZE)).collect();
    for content in &wanted {
        first.must_post(&owner.parcel(1, content));
        second.must_post(&first.take(&dying));
    }
    first.settle(&dying);
    unwrite(&second, 4);
    // One was retrieved before the death; of the others one was never written.
    assert!(second.take(&b).bytes() == wanted[0]);
    second.receiver.adopt(&b, None);
    second.receiver.adopt(&b, None);
    owner.heap.forget_seat(seat(dying.number.0));
    owner.use_memory_again(SIZE);
    assert_eq!(owner.heap.usage().buffers, 3, "held by whoever took over");
    for content in &wanted[1..4] {
        assert!(second.take(&b).bytes() == *content, "its memory was used again");
    }
    second.expect_nothing(&b);
    owner.use_memory_again(SIZE);
    assert_eq!(owner.heap.usage().buffers, 0);
}

pub fn what_was_posted_on_by_a_node_that_left_is_held_although_it_let_go_of_the_message<F: Fabric>(seed: u64) {
    if !F::Remote::IS_MAPPED {
        return;
    }
    let [owner, leaving, b] = job();
    let mut first = Ring::<F>::new(&owner, &leaving, seed);
    let second = Ring::<F>::new(&leaving, &b, seed);
    let content = pattern(1, SIZE);
    first.must_post(&owner.parcel(1, &content));
    let message = first.take(&leaving);
    second.must_post(&message);
    first.settle(&leaving);
    let Ring { sender, mut receiver, .. } = second;
    drop(sender);
    drop(message);
    owner.use_memory_again(SIZE);
    receiver.adopt(&b, None);
    owner.heap.forget_seat(seat(leaving.number.0));
    owner.use_memory_again(SIZE);
    let mut parcel = Parcel::default();
    assert!(receiver.take(&mut parcel, &b.heap, &b).unwrap().is_some());
    assert!(parcel.bytes() == content, "its memory was used again");
    drop(parcel);
    assert_eq!(owner.heap.usage().buffers, 0);
}

pub fn what_could_not_be_taken_over_from_a_dead_sender_is_passed_over<F: Fabric>(seed: u64) {
    if !F::Remote::IS_MAPPED {
        return;
    }
    let [owner, dying, b] = job();
    let mut first = Ring::<F>::new(&owner, &dying, seed);
    let mut second = Ring::<F>::new(&dying, &b, seed);
    first.must_post(&owner.parcel(1, &pattern(0, SIZE)));
    first.must_post(&owner.parcel(1, &pattern(1, SIZE)));
    (0..2).for_each(|_| _ = second.must_post(&first.take(&dying)));
    first.settle(&dying);
    // The one that was retrieved has told where the heap lies.
    second.take(&b);
    second.receiver.adopt(&NoHeaps, None);
    owner.heap.forget_seat(seat(dying.number.0));
    owner.use_memory_again(SIZE);
    // Too late, whoever asks.
    second.receiver.adopt(&b, Some(owner.number));
    assert_eq!(second.receiver.take_simple(&mut Parcel::default()), Glance::Unclear);
    assert!(second.try_take(&b).unwrap().is_none(), "nobody held it");
    second.receiver.skip_one();
    assert!(!second.receiver.has_next());
}

pub fn a_ring_is_quiet_when_everything_that_was_reserved_has_arrived<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    for index in 0..3 {
        ring.must_post(&a.parcel(1, &pattern(index, 20)));
    }
    let tail = ring.sender.end(Ending::Closed);
    assert_eq!(tail, 3);
    assert!(!ring.receiver.is_quiet(tail + 1), "one more was reserved");
    assert!(ring.receiver.is_quiet(tail));
}

pub fn a_receiver_knows_when_it_has_taken_all<F: Fabric>(seed: u64) {
    // Small messages share slots where memory is mapped, so the last slot may be one that more could be added to.
    for sizes in [vec![8], vec![8; 7], vec![8; 9], vec![8, 20], vec![20, 8]] {
        let [a, b] = job();
        let mut ring = Ring::<F>::new(&a, &b, seed);
        sizes.iter().enumerate().for_each(|(index, size)| _ = ring.must_post(&a.parcel(1, &pattern(index, *size))));
        let tail = ring.sender.end(Ending::Closed);
        for _ in &sizes {
            assert!(!ring.receiver.has_taken_all(tail), "{sizes:?}");
            ring.take(&b);
        }
        assert!(ring.receiver.has_taken_all(tail), "{sizes:?}");
        assert!(!ring.receiver.has_taken_all(tail.wrapping_add(1)), "{sizes:?}");
    }
}

pub fn a_drained_slot_is_not_written_again_before_it_was_left<F: Fabric>(seed: u64) {
    if !F::Remote::IS_MAPPED {
        // There no slot is shared, and none is drained.
        return;
    }
    let [a, b] = job();
    // As many slots as there are, one of them for the receiver to stay at.
    let mut ring = Ring::<F>::shaped(&a, &b, seed, Shape { messages: 3, ..SHAPE });
    assert_eq!((ring.shape.slots(), ring.shape.limit()), (4, 4));
    ring.must_post(&a.parcel(1, b"small"));
    ring.take(&b);
    ring.settle_credits(&b);
    let whole: Vec<_> = (0..4).map(|index| a.parcel(1, &pattern(index, 20))).collect();
    whole[..3].iter().for_each(|parcel| _ = ring.must_post(parcel));
    assert!(matches!(ring.post(&whole[3]), Err(Refusal::Full)), "the receiver is still at the slot");
    assert_same(&ring.take(&b), &whole[0]);
    ring.settle_credits(&b);
    ring.must_post(&whole[3]);
    whole[1..].iter().for_each(|wanted| assert_same(&ring.take(&b), wanted));
    ring.expect_nothing(&b);
}

pub fn a_ring_is_quiet_although_its_receiver_is_still_at_a_drained_slot<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::shaped(&a, &b, seed, Shape { messages: 4, ..SHAPE });
    ring.must_post(&a.parcel(1, b"small"));
    ring.take(&b);
    ring.settle(&b);
    (0..4).for_each(|index| _ = ring.must_post(&a.parcel(1, &pattern(index, 20))));
    let tail = ring.sender.end(Ending::Lost);
    ring.settle(&b);
    assert!(ring.receiver.is_quiet(tail));
}
