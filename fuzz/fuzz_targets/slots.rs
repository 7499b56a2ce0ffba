//! A whole ring with bytes of another process in every slot, in the area and on a baton: each message is taken, refused
//! as corrupt, or not there, and all of what was taken can be read.
#![no_main]

use std::os::fd::AsFd;
use std::sync::{Arc, LazyLock};

use deck_segment::fabric::Host;
use deck_segment::layout::{DATA, SLOT_WORDS};
use deck_segment::{HeapMemory, HeapOptions, Seat, slot_offset};
use deck_sync::atomic::Ordering;
use deck_sync::{ErrorKind, NodeId};
use deck_transport::segment::receiver::ReceiverParts;
use deck_transport::segment::ring::tag;
use deck_transport::{Baton, Heaps, Parcel, Receiver, Shape};
use libfuzzer_sys::fuzz_target;

/// Four slots.
const SHAPE: Shape = Shape { messages: 3, bytes: 1 << 20, area_lines: 4, is_mapped: true, shares_slots: true };

/// The receiver's own heap and that of the sender as the receiver sees it. Made once: a segment costs system calls.
struct Job {
    own: Arc<HeapMemory>,
    other: Arc<HeapMemory>,
}

impl Heaps for Job {
    fn heap_of(&self, owner: NodeId) -> Option<Arc<HeapMemory>> {
        [&self.own, &self.other].into_iter().find(|heap| heap.owner() == owner).cloned()
    }
}

static JOB: LazyLock<Job> = LazyLock::new(|| {
    let options = HeapOptions::of(DATA + (4 << 20));
    let create = |node| HeapMemory::create(NodeId(node), Seat(node as u16), &options).expect("there is memory");
    let (own, other) = (create(1), create(0));
    let fd = other.segment().as_fd().try_clone_to_owned().expect("a file descriptor");
    let other = HeapMemory::adopt(fd, NodeId(0), Seat(0), Seat(1), own.fetching()).expect("a good segment");
    Job { own, other }
});

fuzz_target!(|input: ([[u64; SLOT_WORDS]; 4], [u64; 32], Option<[u64; SLOT_WORDS]>)| {
    let (mut slots, area, passed) = input;
    assert_eq!(SHAPE.slots() as usize, slots.len());
    let ring = JOB.own.region(SHAPE.ring_bytes()).expect("there is memory");
    let credit = JOB.own.region(SHAPE.credit_bytes()).expect("there is memory");
    for (position, slot) in (0u32..).zip(&mut slots) {
        // Sequence and tag are right: without them nothing else is looked at.
        let last = &mut slot[SLOT_WORDS - 1];
        let head = u64::from(position) | u64::from(tag(position, SHAPE.slots())) << 14 | (*last >> 56 & 63) << 8;
        *last = *last << 16 >> 16 | head << 48;
        let place = slot_offset(position, SHAPE.slots()) / 8;
        (0..SLOT_WORDS).for_each(|word| ring.words().get(place + word).store(slot[word], Ordering::Relaxed));
    }
    for (index, word) in area.iter().enumerate() {
        ring.words().get(SHAPE.area() / 8 + index).store(*word, Ordering::Relaxed);
    }
    let mut receiver = Receiver::new(ReceiverParts {
        from: NodeId(0),
        shape: SHAPE,
        ring: ring.words(),
        credit: credit.offset(),
        region: Some(ring),
        remote: Host::new(JOB.own.segment().clone()),
        fetching: JOB.own.fetching(),
    });
    if let Some(mut line) = passed {
        let region = JOB.own.region(Baton::WORDS * 8).expect("there is memory");
        let words = region.words();
        // The first message, which the other end writes.
        let last = &mut line[SLOT_WORDS - 1];
        *last = *last << 16 >> 16 | (1 | u64::from(tag(1, 1)) << 14 | (*last >> 56 & 63) << 8) << 48;
        (0..SLOT_WORDS).for_each(|word| words.get(word).store(line[word], Ordering::Relaxed));
        for (index, word) in area.iter().enumerate() {
            words.get(Baton::TELLING + index).store(*word, Ordering::Relaxed);
        }
        receiver.set_baton(Arc::new(Baton::accepted(&words, region.offset() as u64)));
    }
    // Four slots, with up to seven small messages in each, and what came on the baton.
    for _ in 0..29 {
        let mut parcel = Parcel::default();
        match receiver.take(&mut parcel, &JOB.own, &*JOB) {
            Ok(Some(_)) => {
                assert_eq!(parcel.bytes().len(), parcel.size());
                std::hint::black_box(parcel.bytes().iter().fold(0u8, |sum, byte| sum ^ byte));
                (0..parcel.run_count().min(1000)).for_each(|index| assert!(parcel.run(index).is_some()));
            }
            Ok(None) => return,
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NoMemory), "{error}");
                return;
            }
        }
    }
});
