//! Buffers: one for each content, held as long as anybody needs it, and then used again.

use deck_segment::{FetchBack, Remote};
use deck_transport::{Parcel, Protocol, Shape};

use crate::world::{Fabric, Node, Ring, SHAPE, assert_same, job, jobs_that_fetch, pattern};

const SIZE: usize = 3000;

fn is_empty(node: &Node) -> bool {
    node.heap.usage().buffers == 0
}

pub fn memory_comes_back_when_everything_was_retrieved_and_dropped<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    let before = (a.heap.usage().held_bytes, b.heap.usage().held_bytes);
    for size in [100, 600, SIZE, 70_000, if seed == 0 { 3 << 20 } else { 9000 }] {
        let kept: Vec<Parcel> = (0..5)
            .map(|index| {
                ring.must_post(&a.parcel(1, &pattern(index, size)));
                ring.take(&b)
            })
            .collect();
        drop(kept);
        ring.settle(&b);
    }
    // Whoever let go last may have been the other node: the owner finds out when it next looks.
    [2 << 20, 100, 600, SIZE, 70_000, 9000].into_iter().for_each(|size| a.use_memory_again(size));
    assert!(is_empty(&a), "{:?}", a.heap.usage());
    assert!(is_empty(&b), "{:?}", b.heap.usage());
    assert_eq!((a.heap.usage().held_bytes, b.heap.usage().held_bytes), before);
    assert_eq!(a.budget.used(), 0);
}

pub fn a_retrieved_buffer_comes_back_however_many_short_messages_followed_it<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    for shorts in [0, 1, 63, 64, 65, 200] {
        ring.must_post(&a.parcel(1, &pattern(1, SIZE)));
        drop(ring.take(&b));
        for _ in 0..shorts {
            ring.must_post(&a.parcel(1, b"short"));
            drop(ring.take(&b));
            ring.drive(&b).unwrap();
        }
        ring.settle(&b);
        assert_eq!((a.budget.used(), a.heap.usage().buffers), (0, 0), "{shorts} short messages later");
    }
}

pub fn a_retrieved_buffer_is_let_go_of_though_only_short_messages_follow_it<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    ring.must_post(&a.parcel(1, &pattern(1, SIZE)));
    drop(ring.take(&b));
    ring.settle_credits(&b);
    assert_ne!(a.budget.used(), 0);
    // Each takes a slot of its own.
    for _ in 0..2 * SHAPE.messages {
        ring.must_post(&a.parcel(1, &[7; 50]));
        drop(ring.take(&b));
        ring.drive(&b).unwrap();
    }
    assert_eq!(a.budget.used(), 0);
}

pub fn whoever_comes_by_lets_go_of_buffers_only_where_nobody_has_posted_any_since<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    for _ in 0..3 {
        ring.must_post(&a.parcel(1, &pattern(1, SIZE)));
        drop(ring.take(&b));
        ring.settle_credits(&b);
        assert!(ring.sender.reap_if_idle(), "the next post may do it");
        assert_ne!(a.budget.used(), 0);
        ring.must_post(&a.parcel(1, b"short"));
        drop(ring.take(&b));
        assert!(!ring.sender.reap_if_idle());
        assert_eq!(a.budget.used(), 0);
    }
    // One that never stops is left alone for a while only.
    let comes_by = |_: &u32| {
        ring.must_post(&a.parcel(1, &pattern(1, SIZE)));
        drop(ring.take(&b));
        ring.settle_credits(&b);
        ring.sender.reap_if_idle()
    };
    assert_eq!((0..100).take_while(comes_by).count(), 8);
    assert_eq!(a.budget.used(), 0);
}

pub fn a_buffer_is_used_again_once_nobody_holds_it<F: Fabric>(seed: u64) {
    // Large ones rest first, so more of them are in turn.
    let resting = 70_000;
    for (size, rounds) in [(SIZE, 200), (resting, if cfg!(miri) { 10 } else { 500 })] {
        let [a, b] = job();
        let mut ring = Ring::<F>::new(&a, &b, seed);
        let at_once = if a.heap.rest().is_for(size) { a.heap.rest().bytes() / size } else { 0 };
        let mut addresses = std::collections::BTreeSet::new();
        let mut held: std::collections::VecDeque<Parcel> = Default::default();
        for round in 0..rounds {
            let parcel = a.parcel(1, &pattern(round, size));
            addresses.insert(parcel.data());
            ring.must_post(&parcel);
            drop(parcel);
            held.push_back(ring.take(&b));
            if held.len() > 3 {
                // Retrieved long ago and dropped only now: nobody may have written over it.
                let wanted = a.parcel(1, &pattern(round - 3, size));
                assert_same(&held.pop_front().expect("four are held"), &wanted);
            }
            ring.settle(&b);
        }
        let most = 20 + at_once;
        assert!(addresses.len() < most, "{} buffers of {size} bytes for at most six at a time", addresses.len());
    }
}

pub fn content_that_is_replaced_after_post_is_written_elsewhere_while_it_rests<F: Fabric>(seed: u64) {
    for [a, b] in jobs_that_fetch() {
        let mut ring = Ring::<F>::new(&a, &b, seed);
        let size = 70_000;
        let mut parcel = a.parcel(1, &pattern(0, size));
        for round in 1..30 {
            ring.must_post(&parcel);
            let taken = ring.take(&b);
            // The thread waits for an answer.
            if let Some(mut back) = FetchBack::due(&a.heap) {
                (0..if cfg!(miri) { 0 } else { 2000 }).for_each(|_| _ = back.go_on(&a.heap));
            }
            let before = parcel.data();
            parcel.resize(size, &a.heap).expect("there is memory");
            assert_ne!(parcel.data(), before, "the receiver still holds it");
            parcel.edit(&a.heap).expect("there is memory").copy_from_slice(&pattern(round, size));
            assert_same(&taken, &a.parcel(1, &pattern(round - 1, size)));
            drop(taken);
            ring.settle(&b);
        }
        assert_eq!(parcel.bytes(), pattern(29, size));
    }
}

pub fn content_that_is_changed_after_post_arrives_as_it_was_posted<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    let original = pattern(1, SIZE);
    let mut parcel = a.parcel(1, &original);
    let address = parcel.data();
    ring.must_post(&parcel);
    assert_eq!(parcel.data(), address, "posting moved the content");
    parcel.edit(&a.heap).unwrap().fill(0xee);
    assert_ne!(parcel.data(), address, "what others will read was written over");
    ring.must_post(&parcel);
    // SAFETY: four readable bytes.
    unsafe { parcel.append(1, [1u8, 2, 3, 4].as_ptr(), 4, &a.heap) }.unwrap();
    ring.must_post(&parcel);
    parcel.clear();
    parcel.resize(SIZE, &a.heap).unwrap();
    parcel.edit(&a.heap).unwrap().fill(0x11);
    assert!(ring.take(&b).bytes() == original);
    assert!(ring.take(&b).bytes() == [0xee; SIZE]);
    let third = ring.take(&b);
    assert!(third.bytes()[..SIZE] == [0xee; SIZE] && third.bytes()[SIZE..] == [1, 2, 3, 4]);
}

pub fn a_sender_that_is_alone_again_changes_in_place<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    let mut parcel = a.parcel(1, &pattern(1, SIZE));
    let address = parcel.data();
    for _ in 0..5 {
        ring.must_post(&parcel);
        drop(ring.take(&b));
        ring.settle(&b);
        parcel.edit(&a.heap).unwrap()[0] += 1;
        assert_eq!(parcel.data(), address, "a copy that nobody needed");
    }
}

pub fn a_message_that_is_posted_again_and_again_is_shared_while_somebody_has_it<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    let mut parcel = a.parcel(1, &pattern(1, SIZE));
    let other = a.parcel(1, &pattern(2, SIZE));
    for round in 0..3u8 {
        let address = parcel.data();
        let mut into = Parcel::default();
        for _ in 0..10 {
            ring.must_post(&parcel);
            ring.take_into(&mut into, &b);
            assert_same(&into, &parcel);
            let held = into.clone();
            // In place of itself while a clone has it too, of another one, and of another one's place.
            for next in [&parcel, &other, &other, &parcel] {
                ring.must_post(next);
                ring.take_into(&mut into, &b);
                assert_same(&into, next);
            }
            assert_same(&held, &parcel);
            ring.settle(&b);
        }
        parcel.edit(&a.heap).unwrap()[0] = round;
        if F::Remote::IS_MAPPED {
            assert_ne!(parcel.data(), address, "the receiver reads it");
        }
        assert_ne!(into.bytes()[0], round);
        let address = parcel.data();
        ring.must_post(&parcel);
        ring.must_post(&parcel);
        drop((ring.take(&b), ring.take(&b), into));
        ring.settle(&b);
        parcel.edit(&a.heap).unwrap()[0] = 0xaa;
        assert_eq!(parcel.data(), address, "a copy that nobody needed");
    }
    drop((parcel, other));
    assert_eq!(a.heap.usage().buffers, 0);
}

pub fn a_message_that_goes_to_and_fro_is_one_buffer_and_nobodys_at_the_end<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let (mut to, mut fro) = (Ring::<F>::new(&a, &b, seed), Ring::<F>::new(&b, &a, seed + 1));
    let mut parcel = a.parcel(1, &pattern(1, SIZE));
    let address = parcel.data();
    let (mut there, mut back) = (Parcel::default(), Parcel::default());
    // More often than shares are counted at a time, at either end; and several times there before it comes back.
    for round in 0..50 {
        for _ in 0..=round % 3 {
            to.must_post(&parcel);
            to.take_into(&mut there, &b);
        }
        fro.must_post(&there);
        fro.take_into(&mut back, &a);
        assert_same(&back, &parcel);
        to.settle(&b);
        fro.settle(&a);
        if F::Remote::IS_MAPPED {
            assert_eq!(back.data(), address, "it was copied");
        }
        if round == 30 && F::Remote::IS_MAPPED {
            parcel.edit(&a.heap).unwrap()[0] ^= 0xff;
            assert_ne!(parcel.data(), address, "others read it");
            parcel = back.clone();
        }
    }
    drop((there, back));
    let address = parcel.data();
    parcel.edit(&a.heap).unwrap()[0] ^= 0xff;
    assert_eq!(parcel.data(), address, "a copy that nobody needed");
    drop(parcel);
    assert!(is_empty(&a) && is_empty(&b));
}

pub fn one_message_is_posted_to_several_rings<F: Fabric>(seed: u64) {
    let [a, b, c] = job();
    let mut rings = [Ring::<F>::new(&a, &b, seed), Ring::<F>::new(&a, &b, seed + 1)];
    let mut to_c = Ring::<F>::new(&a, &c, seed + 2);
    let parcel = a.parcel(1, &pattern(1, SIZE));
    for _ in 0..3 {
        rings.iter().for_each(|ring| assert_eq!(ring.must_post(&parcel), Protocol::ZeroCopy));
        to_c.must_post(&parcel);
    }
    assert_eq!(a.heap.usage().buffers, 1, "one message is one buffer");
    for _ in 0..3 {
        for ring in &mut rings {
            let got = ring.take(&b);
            assert_same(&got, &parcel);
            if F::Remote::IS_MAPPED {
                let owner = got.buffer().expect("it has a buffer").heap().owner();
                assert_eq!(owner, a.number, "it was copied");
            }
        }
        assert_same(&to_c.take(&c), &parcel);
    }
    rings.iter_mut().for_each(|ring| ring.settle(&b));
    to_c.settle(&c);
    drop(parcel);
    assert!(is_empty(&a));
}

pub fn a_received_message_is_posted_on_to_a_third_node<F: Fabric>(seed: u64) {
    let [a, b, c] = job();
    let mut first = Ring::<F>::new(&a, &b, seed);
    let mut second = Ring::<F>::new(&b, &c, seed + 1);
    for round in 0..20 {
        let wanted = pattern(round, SIZE);
        first.must_post(&a.parcel(1, &wanted));
        let got = first.take(&b);
        second.must_post(&got);
        if F::Remote::IS_MAPPED {
            assert_eq!(b.heap.usage().buffers, 0, "it was copied on the way");
        }
        // The one in the middle lets go before the last one looks, and so does the first.
        drop(got);
        first.settle(&b);
        a.use_memory_again(SIZE);
        let last = second.take(&c);
        second.settle(&c);
        a.use_memory_again(SIZE);
        assert!(last.bytes() == wanted);
    }
    a.use_memory_again(SIZE);
    b.use_memory_again(SIZE);
    assert!([&a, &b, &c].into_iter().all(is_empty));
}

pub fn a_message_that_went_around_comes_home<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let shape = Shape { messages: 4, ..SHAPE };
    let mut there = Ring::<F>::shaped(&a, &b, seed, shape);
    let mut back = Ring::<F>::shaped(&b, &a, seed + 1, shape);
    for round in 0..30 {
        let wanted = pattern(round, SIZE);
        let parcel = a.parcel(1, &wanted);
        let address = parcel.data();
        there.must_post(&parcel);
        drop(parcel);
        let middle = there.take(&b);
        there.settle(&b);
        back.must_post(&middle);
        drop(middle);
        let home = back.take(&a);
        assert!(home.bytes() == wanted);
        if F::Remote::IS_MAPPED {
            assert_eq!(home.data(), address, "it came home as a copy");
        }
        if round % 2 == 0 {
            back.settle(&a);
        }
        drop(home);
        back.settle(&a);
    }
    a.use_memory_again(SIZE);
    b.use_memory_again(SIZE);
    assert!(is_empty(&a) && is_empty(&b));
}
