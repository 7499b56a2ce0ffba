//! A few nodes of a job in one process, and rings between them.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use deck_segment::fabric::Host;
use deck_segment::fabric::adversary::Adversary;
use deck_segment::layout::{DATA, LINE};
use deck_segment::{Fetching, HeapMemory, HeapOptions, Remote, Rest, Seat, Segment, Words, slot_offset};
use deck_sync::{Error, NodeId};
use deck_transport::segment::receiver::ReceiverParts;
use deck_transport::segment::sender::SenderParts;
use deck_transport::{Bell, Budget, Heaps, Parcel, Protocol, Receiver, Refusal, RingPlace, Sender, Shape, Thresholds};

/// How many orders of events each test sees on the test fabric.
pub const SEEDS: u64 = 20;

/// A kind of fabric under test.
pub trait Fabric: 'static {
    type Remote: Remote + Clone;

    fn connect(segment: &Arc<Segment>, seed: u64) -> Self::Remote;

    /// Lets time pass.
    fn advance(_remote: &Self::Remote) {}
}

pub struct HostMemory;

impl Fabric for HostMemory {
    type Remote = Host;

    fn connect(segment: &Arc<Segment>, _seed: u64) -> Host {
        Host::new(segment.clone())
    }
}

pub struct TestFabric;

impl Fabric for TestFabric {
    type Remote = Adversary;

    fn connect(segment: &Arc<Segment>, seed: u64) -> Adversary {
        Adversary::new(segment, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed)
    }

    fn advance(remote: &Adversary) {
        remote.advance();
    }
}

/// Says which seed a failure belongs to.
pub fn with_seed(seed: u64, test: impl FnOnce()) {
    struct Told(u64);
    impl Drop for Told {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("the seed was {}", self.0);
            }
        }
    }
    let _told = Told(seed);
    test();
}

/// One node: its heap, the heaps of the others as it sees them, its budget.
pub struct Node {
    pub number: NodeId,
    pub heap: Arc<HeapMemory>,
    heaps: HashMap<u32, Arc<HeapMemory>>,
    pub budget: Arc<Budget>,
}

impl Heaps for Node {
    fn heap_of(&self, owner: NodeId) -> Option<Arc<HeapMemory>> {
        self.heaps.get(&owner.0).cloned()
    }
}

impl Node {
    /// Content of one type.
    pub fn parcel(&self, element: u8, content: &[u8]) -> Parcel {
        self.parcel_of(&[(element, content)])
    }

    /// Makes and drops more buffers for `bytes` than there are, so that the node finds out which of those that only
    /// others held are free by now, and writes over them.
    pub fn use_memory_again(&self, bytes: usize) {
        let content = vec![0xdd; bytes];
        drop((0..if bytes > 1 << 20 { 4 } else { 60 }).map(|_| self.parcel(1, &content)).collect::<Vec<_>>());
    }

    /// Content of several types.
    pub fn parcel_of(&self, parts: &[(u8, &[u8])]) -> Parcel {
        let mut parcel = Parcel::default();
        for (element, content) in parts {
            // SAFETY: the slice is readable for its length.
            unsafe { parcel.append(*element, content.as_ptr(), content.len(), &self.heap) }.expect("there is memory");
        }
        parcel
    }
}

/// Seats far apart, so that their bits lie in different words.
pub fn seat(node: u32) -> Seat {
    Seat(u16::try_from(node * 100).expect("few nodes"))
}

/// `COUNT` nodes that were introduced to one another, each with `budget` bytes, whose lines are fetched as `fetching`
/// says.
pub fn job_of<const COUNT: usize>(budget: u64, fetching: Fetching) -> [Node; COUNT] {
    // Whatever caches this machine has: fewer bytes than `use_memory_again` takes.
    let options = HeapOptions { fetching, rest: Rest::new(1 << 20), ..HeapOptions::of(DATA + (64 << 20)) };
    let own: Vec<Arc<HeapMemory>> = (0..COUNT as u32)
        .map(|node| HeapMemory::create(NodeId(node), seat(node), &options).expect("there is memory"))
        .collect();
    std::array::from_fn(|index| {
        let me = index as u32;
        let see = |other: &Arc<HeapMemory>| {
            let owner = other.owner();
            if owner.0 == me {
                return (me, other.clone());
            }
            let fd = other.segment().as_fd().try_clone_to_owned().expect("a file descriptor");
            (owner.0, HeapMemory::adopt(fd, owner, other.seat(), seat(me), other.fetching()).expect("a good segment"))
        };
        Node {
            number: NodeId(me),
            heap: own[index].clone(),
            heaps: own.iter().map(see).collect(),
            budget: Budget::new(budget),
        }
    })
}

pub fn job_with_budget<const COUNT: usize>(budget: u64) -> [Node; COUNT] {
    job_of(budget, Fetching::of_this_machine())
}

pub fn job<const COUNT: usize>() -> [Node; COUNT] {
    job_with_budget(BUDGET)
}

/// One of each kind.
pub fn jobs_that_fetch<const COUNT: usize>() -> impl Iterator<Item = [Node; COUNT]> {
    [Fetching::ByReaders, Fetching::ByWriters].into_iter().map(|fetching| job_of(BUDGET, fetching))
}

const BUDGET: u64 = 64 << 20;

/// Number of the bell of a ring among those of its word.
pub const BELL: usize = 5;

/// A ring from one node to a mail box of another.
pub struct Ring<F: Fabric> {
    pub sender: Arc<Sender<F::Remote>>,
    pub receiver: Receiver<F::Remote>,
    /// The ring's memory at the receiver, with the bell and the event of the mail box behind it.
    pub words: Words,
    pub shape: Shape,
    /// The credit line at the sender and what follows.
    pub credit: Words,
    there: F::Remote,
    back: F::Remote,
    receiver_bytes: usize,
}

pub const SHAPE: Shape = Shape { messages: 64, bytes: 64 << 20, area_lines: 32, is_mapped: true, shares_slots: true };

impl<F: Fabric> Ring<F> {
    pub fn new(from: &Node, to: &Node, seed: u64) -> Ring<F> {
        Ring::shaped(from, to, seed, SHAPE)
    }

    pub fn shaped(from: &Node, to: &Node, seed: u64, shape: Shape) -> Ring<F> {
        Ring::beginning_at(from, to, seed, shape, (0, 0))
    }

    /// A ring whose counters of positions and area lines are not new.
    pub fn beginning_at(from: &Node, to: &Node, seed: u64, shape: Shape, begin: (u32, u32)) -> Ring<F> {
        let shape = Shape { is_mapped: F::Remote::IS_MAPPED, ..shape };
        shape.check().expect("a possible shape");
        let ring = to.heap.region(shape.ring_bytes() + LINE).expect("there is memory");
        let credit = from.heap.region(shape.credit_bytes()).expect("there is memory");
        let bell = ring.offset() + shape.ring_bytes();
        let place = RingPlace { ring: ring.offset(), bell: Bell { bit: 8 * bell + BELL, event: bell + 8 } };
        let receiver_bytes = to.heap.segment().bytes();
        place.check(&shape, receiver_bytes).expect("a possible place");
        let (there, back) = (F::connect(to.heap.segment(), seed), F::connect(from.heap.segment(), !seed));
        let (words, credit_words, credit_offset) = (ring.words(), credit.words(), credit.offset());
        let mut sender = Sender::new(SenderParts {
            remote: there.clone(),
            place,
            shape,
            own: from.number,
            receiver: to.number,
            credit: credit_words.clone(),
            region: Some(credit),
            budget: from.budget.clone(),
            thresholds: Thresholds::default(),
            fetching: from.heap.fetching(),
        });
        let mut receiver = Receiver::new(ReceiverParts {
            from: from.number,
            shape,
            ring: words.clone(),
            region: Some(ring),
            remote: back.clone(),
            credit: credit_offset,
            fetching: to.heap.fetching(),
        });
        if begin != (0, 0) {
            sender.begin_at(begin.0, begin.1);
            receiver.begin_at(begin.0, begin.1);
        }
        receiver.set_hot(true);
        Ring { sender: Arc::new(sender), receiver, words, shape, credit: credit_words, there, back, receiver_bytes }
    }

    pub fn post(&self, parcel: &Parcel) -> Result<Protocol, Refusal> {
        self.sender.post(parcel)
    }

    /// Posts what has to find room.
    pub fn must_post(&self, parcel: &Parcel) -> Protocol {
        self.post(parcel).expect("there is room")
    }

    /// The next message, if it is there now.
    pub fn try_take(&mut self, at: &Node) -> Result<Option<Parcel>, Error> {
        let mut parcel = Parcel::default();
        Ok(self.try_take_into(&mut parcel, at)?.then_some(parcel))
    }

    /// Whether there was one, which is in place of the content of `parcel` now.
    pub fn try_take_into(&mut self, parcel: &mut Parcel, at: &Node) -> Result<bool, Error> {
        Ok(self.receiver.take(parcel, &at.heap, at)?.is_some())
    }

    /// What control threads do, and time that passes.
    pub fn drive(&mut self, at: &Node) -> Result<(), Error> {
        self.sender.progress(self.receiver_bytes)?;
        self.receiver.progress(&at.heap)?;
        self.receiver.tell();
        F::advance(&self.there);
        F::advance(&self.back);
        Ok(())
    }

    /// The next message, which has to come.
    pub fn take(&mut self, at: &Node) -> Parcel {
        let mut parcel = Parcel::default();
        self.take_into(&mut parcel, at);
        parcel
    }

    /// As [`Ring::take`], in place of the content of `parcel`.
    pub fn take_into(&mut self, parcel: &mut Parcel, at: &Node) {
        for _ in 0..1000 {
            if self.try_take_into(parcel, at).expect("nobody wrote nonsense") {
                return;
            }
            self.drive(at).expect("nobody wrote nonsense");
        }
        panic!("no message came");
    }

    /// No message is there, and none comes.
    pub fn expect_nothing(&mut self, at: &Node) {
        for _ in 0..10 {
            assert!(self.try_take(at).expect("nobody wrote nonsense").is_none(), "a message that nobody posted");
            self.drive(at).expect("nobody wrote nonsense");
        }
    }

    /// The credits for what was retrieved are told.
    pub fn settle_credits(&mut self, at: &Node) {
        for _ in 0..20 {
            self.drive(at).expect("nobody wrote nonsense");
        }
    }

    /// The sender lets go of everything that was retrieved.
    pub fn settle(&mut self, at: &Node) {
        self.settle_credits(at);
        assert!(!self.sender.reap(), "something is still in flight");
    }

    /// Word `word` of the line of `position` that tells of a message.
    pub fn slot_word(&self, position: u32, word: usize) -> usize {
        (slot_offset(position, self.shape.slots()) + LINE) / 8 + word
    }
}

/// Bytes that tell one message from another and one place in it from another.
pub fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251 + seed * 17) as u8).collect()
}

/// Two parcels with the same content and the same types.
pub fn assert_same(got: &Parcel, wanted: &Parcel) {
    assert_eq!(got.size(), wanted.size());
    assert!(got.bytes() == wanted.bytes(), "the content of {} bytes differs", wanted.size());
    let runs = |parcel: &Parcel| (0..parcel.run_count()).map(|index| parcel.run(index)).collect::<Vec<_>>();
    assert_eq!(runs(got), runs(wanted));
}
