//! Content, types and order.

use deck_sync::atomic::Ordering;
use deck_transport::segment::packet::Carries;
use deck_transport::{Parcel, Protocol, Shape};

use crate::world::{Fabric, Ring, SHAPE, assert_same, job, pattern};

const BYTE: u8 = 1;
const INT32: u8 = 5;
const DOUBLE: u8 = 12;

pub fn every_size_arrives_intact_and_with_its_type<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    let edges = [511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097];
    for size in (0..=200).chain(edges) {
        for element in [BYTE, DOUBLE] {
            let posted = a.parcel(element, &pattern(size, size));
            ring.must_post(&posted);
            assert_same(&ring.take(&b), &posted);
        }
    }
    ring.expect_nothing(&b);
}

/// Content that has become short in a buffer that it has had for longer.
pub fn short_content_takes_one_line_wherever_it_lies<F: Fabric>(seed: u64) {
    let [a, b] = job();
    // Without slots that small messages share, each message has a position.
    let mut ring = Ring::<F>::shaped(&a, &b, seed, Shape { shares_slots: false, ..SHAPE });
    let mut position = 0;
    for (size, carries) in
        [(0, Carries::Line), (8, Carries::Line), (62, Carries::Line), (63, Carries::Wide), (120, Carries::Wide)]
    {
        let mut posted = Parcel::default();
        posted.set_capacity(1000, &a.heap).unwrap();
        posted.resize(size, &a.heap).unwrap();
        posted.edit(&a.heap).unwrap().copy_from_slice(&pattern(size, size));
        assert!(posted.buffer().is_some());
        let (mut inline, mut buffered) = (Parcel::default(), Parcel::default());
        buffered.set_capacity(1000, &b.heap).unwrap();
        // By the long way and by the short one, into what has a buffer and what has none.
        for _ in 0..3 {
            for into in [&mut inline, &mut buffered] {
                assert_eq!(ring.must_post(&posted), Protocol::Short);
                ring.take_into(into, &b);
                assert_same(into, &posted);
                let last = ring.words.get(ring.slot_word(position, 7)).load(Ordering::Acquire);
                assert_eq!(Carries::of(last), carries, "{size} bytes");
                position += 1;
            }
        }
    }
}

pub fn large_messages_arrive_intact<F: Fabric>(seed: u64) {
    // The largest one on few seeds only: the test fabric moves it packet by packet.
    let sizes: &[usize] = if seed < 2 { &[100_000, 1 << 20, 300_001] } else { &[30_001] };
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    for size in sizes {
        let posted = a.parcel(INT32, &pattern(*size, *size));
        assert_eq!(ring.must_post(&posted), Protocol::ZeroCopy);
        assert_same(&ring.take(&b), &posted);
    }
}

pub fn content_of_several_types_arrives_with_its_runs<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    let (long, short) = (pattern(1, 3000), pattern(2, 24));
    for (first, second, third) in [
        (1, 4, 8),
        (8, 8, 8),
        (3, 16, 24),
        (61, 4, 24),
        (24, 8, 16),
        (80, 8, 8),
        (81, 8, 8),
        (200, 24, 8),
        (3000, 24, 8),
        (1001, 3, 8),
    ] {
        let parts: [(u8, &[u8]); 4] =
            [(BYTE, &long[..first]), (INT32, &short[..second]), (DOUBLE, &short[..third]), (INT32, &short[..4])];
        for count in 2..=4 {
            let posted = a.parcel_of(&parts[..count]);
            assert_eq!(posted.runs(), count);
            ring.must_post(&posted);
            assert_same(&ring.take(&b), &posted);
        }
    }
}

pub fn messages_arrive_in_the_order_posted_across_protocols<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    let sizes = [3, 5000, 300, 0, 62, 63, 120, 121, 900, 10, 512, 2000];
    let mut protocols = Vec::new();
    for round in 0..20 {
        let posted: Vec<_> =
            sizes.iter().enumerate().map(|(index, size)| a.parcel(BYTE, &pattern(round * 10 + index, *size))).collect();
        protocols.extend(posted.iter().map(|parcel| ring.must_post(parcel)));
        posted.iter().for_each(|parcel| assert_same(&ring.take(&b), parcel));
    }
    for protocol in [Protocol::Short, Protocol::Buffered, Protocol::ZeroCopy] {
        assert!(protocols.contains(&protocol), "{protocol:?} was never chosen");
    }
}

fn run_through<F: Fabric>(ring: &mut Ring<F>, nodes: &[crate::world::Node; 2], count: usize) {
    let [a, b] = nodes;
    let sizes = [8, 200, 62, 5, 400, 70, 120, 1500];
    let (mut posted, mut taken) = (0, 0);
    while taken < count {
        let parcel = a.parcel(BYTE, &pattern(posted, sizes[posted % sizes.len()]));
        if posted < count && ring.post(&parcel).is_ok() {
            posted += 1;
            continue;
        }
        // Full: take some, not all, so that both ends wrap at different times.
        for _ in 0..=(taken % 5).min(posted - taken - 1) {
            let wanted = a.parcel(BYTE, &pattern(taken, sizes[taken % sizes.len()]));
            assert_same(&ring.take(b), &wanted);
            taken += 1;
        }
        // Credits are on their way back.
        ring.drive(b).unwrap();
    }
    ring.expect_nothing(b);
}

pub fn laps_sequences_and_the_area_wrap_without_a_trace<F: Fabric>(seed: u64) {
    for messages in [1, 3, 4, 5, 64] {
        let nodes = job::<2>();
        let mut ring = Ring::<F>::shaped(&nodes[0], &nodes[1], seed, Shape { messages, area_lines: 16, ..SHAPE });
        run_through(&mut ring, &nodes, 700);
    }
}

pub fn positions_and_area_lines_wrap_at_the_end_of_their_counters<F: Fabric>(seed: u64) {
    for (messages, position, area) in [(4, u32::MAX - 10, (1 << 31) - 7), (7, u32::MAX, (1 << 31) - 1), (64, !63, 5)] {
        let nodes = job::<2>();
        let shape = Shape { messages, area_lines: 16, ..SHAPE };
        let mut ring = Ring::<F>::beginning_at(&nodes[0], &nodes[1], seed, shape, (position, area));
        run_through(&mut ring, &nodes, 300);
    }
}

pub fn a_message_that_finds_the_area_full_goes_another_way<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::shaped(&a, &b, seed, Shape { area_lines: 8, ..SHAPE });
    let posted: Vec<_> = (0..6).map(|index| a.parcel(DOUBLE, &pattern(index, 200))).collect();
    let protocols: Vec<_> = posted.iter().map(|parcel| ring.must_post(parcel)).collect();
    assert!(protocols.contains(&Protocol::Buffered) && protocols.contains(&Protocol::ZeroCopy), "{protocols:?}");
    // What fits into a slot needs no room there.
    let in_slot = a.parcel(DOUBLE, &pattern(9, 120));
    assert_eq!(ring.must_post(&in_slot), Protocol::Short);
    posted.iter().chain([&in_slot]).for_each(|parcel| assert_same(&ring.take(&b), parcel));
}
