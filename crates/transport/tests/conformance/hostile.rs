//! Bytes that a corrupt peer wrote: an error that names it, never a panic, never memory outside.

use deck_segment::layout::{BUFFERS, DATA, LINE_WORDS};
use deck_segment::{BufferName, Remote};
use deck_sync::atomic::Ordering;
use deck_sync::{Error, ErrorKind};
use deck_transport::segment::packet::{Label, Packet};
use deck_transport::segment::ring::credit;
use deck_transport::{Parcel, Refusal};

use crate::world::{Fabric, Node, Ring, assert_same, job, pattern};

/// Writes the line of `position` that tells of a message, as the sender could.
fn write<F: Fabric>(ring: &Ring<F>, position: u32, line: [u64; 8]) {
    for (word, value) in line.into_iter().enumerate() {
        ring.words.get(ring.slot_word(position, word)).store(value, Ordering::Release);
    }
}

/// A ring in whose first slot `line` lies.
fn ring_with<F: Fabric>(nodes: &[Node; 2], seed: u64, line: [u64; 8]) -> Ring<F> {
    let ring = Ring::<F>::new(&nodes[0], &nodes[1], seed);
    write(&ring, 0, line);
    ring
}

fn expect_corrupt(outcome: Result<Option<Parcel>, Error>) {
    match outcome {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert_eq!(error.peer().map(|peer| peer.0), Some(0), "{error}");
        }
        Ok(taken) => panic!("taken as {taken:?}"),
    }
}

pub fn a_slot_with_another_sequence_is_corrupt<F: Fabric>(seed: u64) {
    let nodes = job::<2>();
    let mut ring = Ring::<F>::new(&nodes[0], &nodes[1], seed);
    let line = Packet::Short { bytes: [7; 62], size: 5 }.write(3, ring.shape.slots());
    write(&ring, 0, line);
    assert!(ring.receiver.has_next());
    expect_corrupt(ring.try_take(&nodes[1]));
    // And again: nothing was consumed.
    expect_corrupt(ring.try_take(&nodes[1]));
}

pub fn a_tag_that_does_not_exist_is_corrupt<F: Fabric>(seed: u64) {
    let nodes = job::<2>();
    let mut ring = ring_with::<F>(&nodes, seed, [0, 0, 0, 0, 0, 0, 0, 3 << 62]);
    assert!(ring.receiver.has_next());
    expect_corrupt(ring.try_take(&nodes[1]));
}

pub fn small_messages_that_cannot_be_are_corrupt<F: Fabric>(seed: u64) {
    let nodes = job::<2>();
    // As docs/layout/slot.md has it: kind, element code, seven sizes, how many.
    let label = |element: u64, sizes: u64, count: u64| 5 | element << 8 | sizes << 16 | count << 44;
    let place = |sequence: u64| sequence << 48 | 63 << 56 | 1 << 62;
    for (what, last) in [
        ("no message", label(1, 8, 0) | place(0)),
        ("a size over 8", label(1, 9, 1) | place(0)),
        ("no element type", label(0, 8, 1) | place(0)),
        ("several element types", label(255, 8, 1) | place(0)),
        ("another sequence", label(1, 8, 1) | place(1)),
    ] {
        let mut ring = ring_with::<F>(&nodes, seed, [1, 2, 3, 4, 5, 6, 7, last]);
        assert!(ring.receiver.has_next(), "{what}");
        expect_corrupt(ring.try_take(&nodes[1]));
    }
    let mut ring = ring_with::<F>(&nodes, seed, [1, 2, 3, 4, 5, 6, 7, label(1, 0x488, 3) | place(0)]);
    assert_eq!(ring.take(&nodes[1]).bytes(), 1u64.to_le_bytes());
    assert_eq!(ring.take(&nodes[1]).bytes(), 2u64.to_le_bytes());
    // One was taken away again.
    write(&ring, 0, [1, 2, 3, 4, 5, 6, 7, label(1, 0x48, 2) | place(0)]);
    expect_corrupt(ring.try_take(&nodes[1]));
    // Of a slot that was drained, what tells that there is something says why it cannot be taken.
    let mut ring = ring_with::<F>(&nodes, seed, [1, 2, 3, 4, 5, 6, 7, label(1, 8, 1) | place(0)]);
    ring.take(&nodes[1]);
    assert!(!ring.receiver.has_next());
    write(&ring, 0, [0, 0, 0, 0, 0, 0, 0, 3 << 62]);
    assert!(ring.receiver.has_next());
    expect_corrupt(ring.try_take(&nodes[1]));
}

pub fn content_that_is_too_long_for_a_slot_is_corrupt<F: Fabric>(seed: u64) {
    let nodes = job::<2>();
    // As docs/layout/slot.md has it: kind, element code, bytes of content, runs.
    let label = |element: u64, bytes: u64, runs: u64| 6 | element << 8 | bytes << 16 | runs << 24 | 63 << 56 | 1 << 62;
    for (what, last) in [
        ("a byte too many", label(1, 121, 0)),
        ("the most that can be said", label(1, 255, 0)),
        ("no room for the runs", label(255, 105, 2)),
        ("no element type", label(0, 64, 0)),
        ("several element types without runs", label(255, 64, 0)),
        ("runs of one element type", label(1, 64, 2)),
        ("another sequence", label(1, 64, 0) | 1 << 48),
    ] {
        let mut ring = ring_with::<F>(&nodes, seed, [1, 2, 3, 4, 5, 6, 7, last]);
        assert!(ring.receiver.has_next(), "{what}");
        expect_corrupt(ring.try_take(&nodes[1]));
    }
    let mut ring = Ring::<F>::new(&nodes[0], &nodes[1], seed);
    let first_line = ring.slot_word(0, 0) - LINE_WORDS;
    (0..8u64).for_each(|word| ring.words.get(first_line + word as usize).store(100 + word, Ordering::Release));
    write(&ring, 0, [108, 109, 110, 111, 112, 113, 114, label(1, 120, 0)]);
    let wanted: Vec<u8> = (100..115u64).flat_map(u64::to_le_bytes).collect();
    assert_eq!(ring.take(&nodes[1]).bytes(), wanted);
}

/// Random numbers (splitmix64, Steele et al. 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

pub fn random_slots_are_read_or_refused<F: Fabric>(seed: u64) {
    let mut random = Random(seed);
    let nodes = job::<2>();
    let mut ring = Ring::<F>::new(&nodes[0], &nodes[1], seed);
    let posted = nodes[0].parcel(1, &pattern(1, 3000));
    for _ in 0..2000 {
        // A new ring now and then would be slow: a slot that was refused is written over.
        let position = ring.receiver.head();
        let mut line: [u64; 8] = std::array::from_fn(|_| random.next());
        let good =
            Packet::Request { label: Label { element: 1, size: 1, runs: 0 } }.write(position, ring.shape.slots());
        // Sequence, tag and length are right more often than chance would have it, and so are kinds and small numbers.
        line[7] = (line[7] & !(0xffff << 48)) | (good[7] & (0xffff << 48));
        line[7] = (line[7] & !0xffff) | (random.next() % 7) | (random.next() % 14) << 8;
        for word in &mut line[..6] {
            match random.next() % 4 {
                0 => *word &= 0xffff,
                1 => *word &= 0xffff_0000_ffff,
                _ => {}
            }
        }
        if random.next().is_multiple_of(4)
            && let Some(buffer) = posted.buffer()
        {
            // Nearly the name of a buffer that is there.
            let name = buffer.name();
            line[2] = u64::from(name.owner) | u64::from(name.seat) << 32;
            line[3] = u64::from(name.index);
            line[4] = name.offset + (random.next() % 2) * 64;
            line[5] = name.capacity + (random.next() % 3) * 4;
        }
        write(&ring, position, line);
        let _ = ring.receiver.progress(&nodes[1].heap);
        match ring.try_take(&nodes[1]) {
            Ok(Some(parcel)) => {
                // Whatever it is, all of it can be read.
                let sum: u64 = parcel.bytes().iter().map(|byte| u64::from(*byte)).sum();
                let runs = (0..parcel.run_count()).filter_map(|index| parcel.run(index)).count();
                assert!(runs == parcel.run_count(), "{sum}");
            }
            Ok(None) => {}
            Err(error) => assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NoMemory), "{error}"),
        }
        // What a sender that is still sane would find.
        let _ = nodes[0].heap.usage();
    }
}

pub fn impossible_lengths_places_and_names_are_corrupt<F: Fabric>(seed: u64) {
    let nodes = job::<2>();
    let parcel = nodes[0].parcel(1, &pattern(1, 3000));
    let name = parcel.buffer().expect("it is large").name();
    let end = nodes[0].heap.segment().bytes() as u64;
    let label = |size: u64| Label { element: 1, size, runs: 0 };
    let hand_over = |size: u64, change: fn(&mut BufferName, u64)| {
        let mut name = name;
        change(&mut name, end);
        Packet::HandOver { label: label(size), name }
    };
    let mixed = |size: u64, runs: u32| Packet::HandOver { label: Label { element: 255, size, runs }, name };
    let cases = [
        Packet::Buffered { label: label(3000), line: 0, area_end: 1 },
        Packet::Buffered { label: label(64), line: 32, area_end: 1 },
        Packet::Buffered { label: label(65), line: 31, area_end: 1 },
        Packet::Buffered { label: label(1), line: u32::MAX, area_end: 1 },
        Packet::Buffered { label: Label { element: 255, size: 100, runs: 90 }, line: 20, area_end: 1 },
        Packet::Buffered { label: label(1 << 48), line: 0, area_end: 1 },
        Packet::Buffered { label: Label { element: 0, size: 9, runs: 0 }, line: 0, area_end: 1 },
        hand_over(name.capacity + 1, |_, _| ()),
        hand_over(9, |name, _| name.seat += 1),
        hand_over(9, |name, _| name.index = BUFFERS as u32),
        hand_over(9, |name, _| name.index = u32::MAX),
        hand_over(9, |name, end| name.offset = end),
        hand_over(9, |name, end| name.offset = end - 64),
        hand_over(9, |name, _| name.offset = u64::MAX - 63),
        hand_over(9, |name, _| name.offset += 1),
        hand_over(9, |name, _| name.offset = DATA as u64 - 64),
        hand_over(9, |name, _| name.capacity = u64::MAX),
        hand_over(0, |name, _| name.capacity = 0),
        hand_over(9, |name, _| name.capacity -= 3),
        hand_over(9, |name, _| name.capacity -= 8),
        mixed(8, 9),
        mixed(3000, 1 << 29),
        mixed(3000, 2000),
        Packet::HandOver { label: Label { element: 255, size: 9, runs: 0 }, name },
        Packet::HandOver { label: Label { element: 3, size: 9, runs: 1 }, name },
    ];
    for packet in cases {
        let mut ring = ring_with::<F>(&nodes, seed, packet.write(0, 64));
        assert!(ring.receiver.has_next(), "{packet:?}");
        expect_corrupt(ring.try_take(&nodes[1]));
    }
    // A name of a node that nobody knows yet: it may be introduced later.
    if F::Remote::IS_MAPPED {
        let stranger = hand_over(9, |name, _| name.owner = 77);
        let mut ring = ring_with::<F>(&nodes, seed, stranger.write(0, 64));
        assert!(ring.try_take(&nodes[1]).unwrap().is_none());
    }
    // A name of a buffer of one's own that is not in use.
    let free = nodes[1].parcel(1, &pattern(1, 3000)).buffer().expect("it is large").name();
    let packet = Packet::HandOver { label: label(9), name: free };
    let mut ring = ring_with::<F>(&nodes, seed, packet.write(0, 64));
    assert_eq!(ring.try_take(&nodes[1]).unwrap_err().kind(), ErrorKind::Corrupt);
    // What belongs to the other kind of fabric, and a kind that there is not.
    if F::Remote::IS_MAPPED {
        let mut ring = ring_with::<F>(&nodes, seed, Packet::Request { label: label(9) }.write(0, 64));
        expect_corrupt(ring.try_take(&nodes[1]));
    }
    let kind = Packet::Request { label: label(9) }.write(0, 64);
    let mut ring = ring_with::<F>(&nodes, seed, [kind[0], kind[1], 0, 0, 0, 0, 0, kind[7] & !0xff | 9]);
    expect_corrupt(ring.try_take(&nodes[1]));
}

/// A message takes the place of the one before it, whose buffer is of the same node: that way has checks of its own.
pub fn impossible_names_are_corrupt_in_place_of_the_last_message_too<F: Fabric>(seed: u64) {
    if !F::Remote::IS_MAPPED {
        return;
    }
    let nodes = job::<2>();
    let [posted, another] = [1, 2].map(|seed| nodes[0].parcel(1, &pattern(seed, 3000)));
    let end = nodes[0].heap.segment().bytes() as u64;
    let wrongs: [fn(&mut BufferName, u64); 8] = [
        |name, _| name.seat += 1,
        |name, _| name.index = BUFFERS as u32,
        |name, end| name.offset = end,
        |name, end| name.offset = end - 64,
        |name, _| name.offset += 1,
        |name, _| name.offset = DATA as u64 - 64,
        |name, _| name.capacity = u64::MAX - 63,
        |name, _| name.capacity += 4,
    ];
    let mut ring = Ring::<F>::new(&nodes[0], &nodes[1], seed);
    ring.must_post(&posted);
    let mut into = Parcel::default();
    ring.take_into(&mut into, &nodes[1]);
    // In place of another buffer, and of the same one.
    for (next, wrong) in [&another, &posted].into_iter().flat_map(|next| wrongs.map(|wrong| (next, wrong))) {
        let mut name = next.buffer().expect("it is large").name();
        wrong(&mut name, end);
        write(&ring, 1, Packet::HandOver { label: Label { element: 1, size: 9, runs: 0 }, name }.write(1, 64));
        let refused = ring.try_take_into(&mut into, &nodes[1]).expect_err("there is no such buffer");
        assert_eq!((refused.kind(), refused.peer()), (ErrorKind::Corrupt, Some(nodes[0].number)), "{name:?}");
        assert_same(&into, &posted);
    }
}

pub fn a_slot_that_changes_after_it_was_answered_is_corrupt<F: Fabric>(seed: u64) {
    if F::Remote::IS_MAPPED {
        // Nothing is answered where buffers are handed over.
        return;
    }
    let nodes = job::<2>();
    let mut ring = Ring::<F>::new(&nodes[0], &nodes[1], seed);
    ring.must_post(&nodes[0].parcel(1, &pattern(1, 3000)));
    for _ in 0..50 {
        ring.drive(&nodes[1]).unwrap();
    }
    // The content has landed in a buffer of 3,072 bytes; now the slot says that it is larger.
    write(&ring, 0, Packet::Request { label: Label { element: 1, size: 1 << 30, runs: 0 } }.write(0, 64));
    expect_corrupt(ring.try_take(&nodes[1]));
}

pub fn credits_that_are_ahead_are_corrupt<F: Fabric>(seed: u64) {
    let [a, b] = job();
    // Less than a lap ahead harms nobody but the receiver, whose messages are overwritten.
    for ahead in [100, 1 << 20, u32::MAX / 2] {
        let ring = Ring::<F>::new(&a, &b, seed);
        ring.must_post(&a.parcel(1, &pattern(1, 3000)));
        ring.credit.get(credit::HEAD).store(u64::from(1 + ahead), Ordering::Release);
        // As long as there are credits that it knows of the sender does not look.
        while ring.post(&a.parcel(1, b"short")).is_ok() {}
        for parcel in [&a.parcel(1, b"short"), &a.parcel(1, &pattern(1, 300)), &a.parcel(1, &pattern(1, 3000))] {
            match ring.post(parcel) {
                Err(Refusal::Failed(error)) => {
                    assert_eq!((error.kind(), error.peer()), (ErrorKind::Corrupt, Some(b.number)));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

pub fn credits_that_are_ahead_let_go_of_nothing<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let ring = Ring::<F>::new(&a, &b, seed);
    ring.must_post(&a.parcel(1, &pattern(1, 3000)));
    let head = ring.credit.get(credit::HEAD);
    for ahead in [1, 100, 1 << 20, u32::MAX / 2] {
        head.store(u64::from(1 + ahead), Ordering::Release);
        assert!(ring.sender.reap(), "{ahead}");
        assert_eq!(a.heap.usage().buffers, 1, "{ahead}");
    }
    head.store(1, Ordering::Release);
    assert!(!ring.sender.reap());
    assert_eq!(a.heap.usage().buffers, 0);
}

pub fn impossible_addresses_are_corrupt<F: Fabric>(seed: u64) {
    if F::Remote::IS_MAPPED {
        return;
    }
    let [a, b] = job();
    let end = b.heap.segment().bytes() as u64;
    let (data, size) = (DATA as u64, 3072);
    for (offset, capacity) in [(end, size), (end - 64, size), (!63, size), (data, 100), (data, 3001), (data, u64::MAX)]
    {
        let ring = Ring::<F>::new(&a, &b, seed);
        ring.must_post(&a.parcel(1, &pattern(1, 3000)));
        let answers = ring.shape.answers() / 8;
        ring.credit.get(answers + 1).store(capacity, Ordering::Release);
        ring.credit.get(answers).store(offset | 1, Ordering::Release);
        let error = ring.sender.progress(end as usize).unwrap_err();
        assert_eq!((error.kind(), error.peer()), (ErrorKind::Corrupt, Some(b.number)));
    }
}
