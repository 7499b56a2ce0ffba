//! Host memory as loom knows it, and the two ends of a ring over it.
#![allow(dead_code, reason = "each file of models uses a part")]

use std::sync::Arc;

use deck_segment::{Fetching, HeapMemory, MappedSlots, Remote, Seat, Words};
use deck_sync::NodeId;
use deck_sync::atomic::Ordering;
use deck_transport::segment::receiver::ReceiverParts;
use deck_transport::segment::sender::SenderParts;
use deck_transport::{Baton, Bell, Budget, Glance, Heaps, Parcel, Receiver, RingPlace, Sender, Shape, Thresholds};

const BYTE: u8 = 1;
const INT32: u8 = 5;
/// Bytes of a [`wide`] message: no buffer is needed for it, which a model has not.
const WIDE: usize = 60;

/// Another node's memory: stores as in `fabric::Host`.
pub struct Memory(pub Words);

impl Remote for Memory {
    const IS_MAPPED: bool = true;

    type Slots = MappedSlots;

    fn slots(&self, offset: usize, count: u32) -> MappedSlots {
        assert_eq!(offset, 0, "a model has nothing but the ring");
        MappedSlots::of(&self.0, count)
    }

    fn write_word(&self, offset: usize, value: u64) {
        // Release: pairs with: ring/credit.
        self.0.get(offset / 8).store(value, Ordering::Release);
    }

    unsafe fn write_bytes(&self, _offset: usize, _data: *const u8, _bytes: usize) {
        unreachable!("models post what fits into a slot");
    }

    fn flush(&self) {}

    fn set_bits(&self, offset: usize, bits: u64) {
        // Release: pairs with: ring/bell.
        self.0.get(offset / 8).fetch_or(bits, Ordering::Release);
    }

    fn interrupt(&self, offset: usize) {
        self.0.event(offset / 8).notify();
    }
}

/// Nobody's heap is known: nothing is handed over.
struct NoHeaps;

impl Heaps for NoHeaps {
    fn heap_of(&self, _owner: NodeId) -> Option<Arc<HeapMemory>> {
        None
    }
}

/// The receiving end with what its node has.
pub struct Ends {
    pub receiver: Receiver<Memory>,
    /// The ring's memory, with the bell behind it, and the event of the mail box.
    pub ring: Words,
    pub bell: usize,
    /// What the sender is told.
    pub credit: Words,
    heap: Arc<HeapMemory>,
}

impl Ends {
    /// The next message, if it is there: by the quick way first, as a mail box does.
    pub fn take(&mut self) -> Option<Parcel> {
        let mut parcel = Parcel::default();
        match self.receiver.take_simple(&mut parcel) {
            Glance::Taken(_) => return Some(parcel),
            Glance::Nothing => return None,
            Glance::Unclear => {}
        }
        let taken = self.receiver.take(&mut parcel, &self.heap, &NoHeaps).expect("nobody wrote nonsense");
        taken.map(|_| parcel)
    }
}

/// A ring of up to four slots, with a credit for each of `messages`.
pub fn ring(messages: u32) -> (Sender<Memory>, Ends) {
    ring_of(messages, false)
}

/// One node's part in a conversation: the ring that it posts to, and the one that it retrieves from.
pub struct Talker {
    pub sender: Sender<Memory>,
    pub ends: Ends,
}

/// Two nodes with a ring each way and a baton between them, which the first may write.
pub fn conversation(shares_slots: bool) -> [Talker; 2] {
    let words = Words::model(Baton::WORDS);
    let batons = [Arc::new(Baton::offered(&words, 0, None)), Arc::new(Baton::accepted(&words, 0))];
    let [there, back] = [(); 2].map(|()| ring_of(3, shares_slots));
    let talkers = [Talker { sender: there.0, ends: back.1 }, Talker { sender: back.0, ends: there.1 }];
    let mut of = batons.into_iter();
    talkers.map(|mut talker| {
        let baton = of.next().expect("one for each");
        talker.ends.receiver.set_hot(true);
        talker.ends.receiver.set_baton(baton.clone());
        assert!(talker.sender.hold_baton(baton.clone()));
        talker.sender.start_passing(&baton);
        talker
    })
}

/// A ring whose four slots small messages share.
pub fn shared_ring() -> (Sender<Memory>, Ends) {
    ring_of(3, true)
}

fn ring_of(messages: u32, shares_slots: bool) -> (Sender<Memory>, Ends) {
    let shape = Shape { messages, bytes: 1, area_lines: 4, is_mapped: true, shares_slots };
    let bell = shape.ring_bytes() / 8;
    let ring = Words::model(bell + 1);
    let credit = Words::model(shape.credit_bytes() / 8);
    let heap = HeapMemory::model(NodeId(0), Seat(0)).expect("a page of memory");
    let sender = Sender::new(SenderParts {
        remote: Memory(ring.clone()),
        place: RingPlace { ring: 0, bell: Bell { bit: bell * 64, event: bell * 8 } },
        shape,
        own: NodeId(0),
        receiver: NodeId(1),
        credit: credit.clone(),
        region: None,
        budget: Budget::new(1),
        thresholds: Thresholds::default(),
        fetching: Fetching::default(),
    });
    let receiver = Receiver::new(ReceiverParts {
        from: NodeId(0),
        shape,
        ring: ring.clone(),
        region: None,
        remote: Memory(credit.clone()),
        credit: 0,
        fetching: Fetching::default(),
    });
    (sender, Ends { receiver, ring, bell, credit, heap })
}

/// Content that shows if a line is torn: a number in its first word and its complement in the last.
pub fn message(value: u64) -> Parcel {
    let mut content = [0u8; 62];
    content[..8].copy_from_slice(&value.to_le_bytes());
    content[48..56].copy_from_slice(&(!value).to_le_bytes());
    content[56..].fill(value as u8);
    parcel(BYTE, &content)
}

/// Content that begins in the line before the one that tells of it, as it has a type and is too long for that: a number
/// in every word.
pub fn wide(value: u64) -> Parcel {
    parcel(INT32, &[value.to_le_bytes(); 8].concat()[..WIDE])
}

/// Content that shares its slot with others: the number alone.
pub fn small(value: u64) -> Parcel {
    parcel(BYTE, &value.to_le_bytes())
}

fn parcel(element: u8, content: &[u8]) -> Parcel {
    let heap = HeapMemory::model(NodeId(0), Seat(0)).expect("a page of memory");
    let mut parcel = Parcel::default();
    // SAFETY: the slice is readable for its length.
    unsafe { parcel.append(element, content.as_ptr(), content.len(), &heap) }.expect("it fits inline");
    parcel
}

/// What [`message`], [`small`] or [`wide`] put in.
pub fn number(parcel: &Parcel) -> u64 {
    let word = |at: usize| u64::from_le_bytes(parcel.bytes()[at..at + 8].try_into().expect("eight bytes"));
    let value = word(0);
    if parcel.size() == 8 {
        return value;
    }
    if parcel.size() == WIDE {
        let content = [value.to_le_bytes(); 8].concat();
        assert_eq!(parcel.bytes(), &content[..WIDE], "a torn slot");
        return value;
    }
    assert_eq!(word(48), !value, "a torn line");
    assert!(parcel.bytes()[56..].iter().all(|byte| *byte == value as u8), "a torn line");
    value
}

/// Runs a model with at most `preemptions` switches that nobody asked for.
pub fn bounded(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(run);
}
