//! Two rings with a baton between them: what goes on it in turn, and what through the slots.

use std::collections::VecDeque;
use std::sync::Arc;

use deck_segment::layout::{LINE_WORDS, SLOT_WORDS};
use deck_segment::{Remote, Words};
use deck_sync::ErrorKind;
use deck_sync::atomic::Ordering;
use deck_transport::segment::ring::said;
use deck_transport::segment::sender::Ending;
use deck_transport::{Baton, Parcel, Refusal, Said};
use proptest::prelude::*;

use crate::world::{Fabric, HostMemory, Node, Ring, SHAPE, assert_same, job, jobs_that_fetch, pattern};

/// Two nodes that talk to one another. The first one may write on the baton.
pub struct Conversation {
    pub nodes: [Node; 2],
    /// The ring from each node.
    pub rings: [Ring<HostMemory>; 2],
    pub batons: [Arc<Baton>; 2],
    pub words: Words,
}

impl Conversation {
    pub fn new() -> Conversation {
        Conversation::of(job())
    }

    fn of(nodes: [Node; 2]) -> Conversation {
        Conversation::beginning_at(nodes, 0)
    }

    /// One in which so many messages, an even number, have gone each way already, on another baton and on this one.
    fn beginning_at(nodes: [Node; 2], begin: u32) -> Conversation {
        let ring = |from, to| Ring::beginning_at(&nodes[from], &nodes[to], 0, SHAPE, (begin, begin >> 1));
        let rings = [ring(0, 1), ring(1, 0)];
        let region = nodes[0].heap.region(Baton::WORDS * 8).expect("there is memory");
        let words = region.words();
        [1, 2].iter().for_each(|end| words.get(end * SLOT_WORDS).store(u64::from(begin), Ordering::Relaxed));
        let place = region.offset() as u64;
        let batons = [Arc::new(Baton::offered(&words, place, Some(region))), Arc::new(Baton::accepted(&words, place))];
        let mut talk = Conversation { nodes, rings, batons, words };
        for from in [0, 1] {
            let baton = talk.batons[from].clone();
            assert!(talk.rings[from].sender.hold_baton(baton.clone()));
            talk.rings[from].sender.start_passing(&baton);
            talk.rings[1 - from].receiver.set_baton(baton);
        }
        talk
    }

    fn post(&self, from: usize, parcel: &Parcel) -> Result<(), Refusal> {
        self.rings[from].post(parcel).map(drop)
    }

    fn take(&mut self, at: usize) -> Parcel {
        let (ring, node) = (&mut self.rings[1 - at], &self.nodes[at]);
        ring.take(node)
    }

    fn try_take(&mut self, at: usize) -> Option<Parcel> {
        let (ring, node) = (&mut self.rings[1 - at], &self.nodes[at]);
        ring.try_take(node).expect("nobody wrote nonsense")
    }

    /// What was carried, as each node knows.
    fn carried(&self) -> [u32; 2] {
        [0, 1].map(|node| self.batons[node].carried())
    }
}

/// Another baton that `node` offers.
fn offered(node: &Node) -> Arc<Baton> {
    let region = node.heap.region(Baton::WORDS * 8).expect("there is memory");
    let place = region.offset() as u64;
    Arc::new(Baton::offered(&region.words(), place, Some(region)))
}

/// Contents of every length that a slot has room for, and some of several types.
fn short_contents(node: &Node) -> Vec<Parcel> {
    let plain = (0..=120).flat_map(|size| [1u8, 5].map(|element| node.parcel(element, &pattern(size, size / 4 * 4))));
    let mixed = (1..6).map(|size| node.parcel_of(&[(1, &pattern(size, size)), (12, &pattern(size, 8))]));
    plain.chain(mixed).collect()
}

/// Contents of lengths that are copied beside slots, and some of several types.
fn copied_contents(node: &Node) -> Vec<Parcel> {
    let plain = [121, 127, 128, 129, 256, 257, 600, 1023, 1024].map(|size| node.parcel(1, &pattern(size, size)));
    let mixed = [112, 300, 1000].map(|size| node.parcel_of(&[(1, &pattern(size, size)), (12, &pattern(size, 8))]));
    plain.into_iter().chain(mixed).collect()
}

#[test]
fn each_answer_goes_on_the_baton_whatever_it_has_and_the_slots_stay_empty() {
    for nodes in jobs_that_fetch() {
        let passes_copies = nodes[0].heap.fetching().passes_copies();
        let mut talk = Conversation::of(nodes);
        let mut contents = short_contents(&talk.nodes[0]);
        if passes_copies {
            contents.extend(copied_contents(&talk.nodes[0]));
        }
        for (count, parcel) in contents.iter().enumerate() {
            for node in [0, 1] {
                talk.post(node, parcel).unwrap();
                assert!(talk.rings[node].receiver.has_next());
                let got = talk.take(1 - node);
                assert_same(&got, parcel);
            }
            assert_eq!(talk.carried(), [2 * (count as u32 + 1); 2]);
        }
        for ring in &talk.rings {
            assert_eq!(ring.receiver.head(), 0, "no slot was used");
            assert_eq!(ring.receiver.messages(), contents.len() as u32);
            assert_eq!(ring.sender.posted(), contents.len() as u32);
        }
    }
}

#[test]
fn what_is_copied_is_taken_also_into_memory_that_was_there_and_counts_as_copied() {
    for nodes in jobs_that_fetch() {
        let mut talk = Conversation::of(nodes);
        let contents = copied_contents(&talk.nodes[0]);
        let mut into = Parcel::default();
        for (number, parcel) in contents.iter().enumerate() {
            talk.post(number % 2, parcel).unwrap();
            let (ring, node) = (&mut talk.rings[number % 2], &talk.nodes[1 - number % 2]);
            ring.take_into(&mut into, node);
            assert_same(&into, parcel);
        }
        let by_protocol = [0, 1].map(|node: usize| talk.rings[node].sender.traffic().by_protocol());
        assert_eq!(by_protocol, [[0, contents.len() as u64 / 2, 0]; 2]);
    }
}

#[test]
fn what_is_posted_before_the_answer_comes_goes_through_slots_and_keeps_its_order() {
    let mut talk = Conversation::new();
    let parcels: Vec<Parcel> = (0..6).map(|number| talk.nodes[0].parcel(1, &pattern(number, 40))).collect();
    for parcel in &parcels[..3] {
        talk.post(0, parcel).unwrap();
    }
    assert_eq!(talk.carried(), [1, 0]);
    let got = talk.take(1);
    assert_same(&got, &parcels[0]);
    talk.post(1, &parcels[0]).unwrap();
    talk.take(0);
    // Two lie in slots: nothing may overtake them.
    talk.post(0, &parcels[3]).unwrap();
    assert_eq!(talk.carried(), [2, 2]);
    for parcel in &parcels[1..4] {
        let got = talk.take(1);
        assert_same(&got, parcel);
    }
    // Until that is told, the sender does not know; the receiver tells it when it finds nothing more.
    talk.post(0, &parcels[4]).unwrap();
    assert_eq!(talk.carried(), [2, 2]);
    let got = talk.take(1);
    assert_same(&got, &parcels[4]);
    assert!(talk.try_take(1).is_none());
    talk.post(0, &parcels[5]).unwrap();
    assert_eq!(talk.carried(), [3, 2]);
    let got = talk.take(1);
    assert_same(&got, &parcels[5]);
}

#[test]
fn longer_messages_go_the_usual_way_and_those_after_them_wait_for_them() {
    let mut talk = Conversation::new();
    let (long, short) = (talk.nodes[0].parcel(1, &pattern(1, 5000)), talk.nodes[0].parcel(1, b"short"));
    for parcel in [&long, &short, &long, &short] {
        talk.post(0, parcel).unwrap();
    }
    assert_eq!(talk.carried(), [0, 0]);
    for parcel in [&long, &short, &long, &short] {
        let got = talk.take(1);
        assert_same(&got, parcel);
    }
    assert!(talk.try_take(1).is_none());
    talk.post(0, &short).unwrap();
    assert_eq!(talk.carried(), [1, 0]);
}

/// Positions, numbers of messages on the baton, and counts of messages wrap after 2^32, each one elsewhere.
#[test]
fn answers_go_on_the_baton_also_where_all_counts_wrap() {
    const AGAIN: u32 = if cfg!(miri) { 150 } else { 300 };
    let before: &[u32] = if cfg!(miri) { &[4, 256] } else { &[0, 2, 4, 254, 256, 258, 400] };
    for before in before {
        let begin = 0u32.wrapping_sub(*before);
        let mut talk = Conversation::beginning_at(job(), begin);
        for number in 0..AGAIN as usize {
            let parcel = talk.nodes[0].parcel(1, &pattern(number, number % 100));
            for node in [0, 1] {
                talk.post(node, &parcel).unwrap();
                let got = talk.take(1 - node);
                assert_same(&got, &parcel);
            }
        }
        assert_eq!(talk.carried(), [begin.wrapping_add(2 * AGAIN); 2]);
        for ring in &talk.rings {
            assert_eq!((ring.receiver.head(), ring.receiver.messages()), (begin, begin.wrapping_add(AGAIN)));
        }
    }
}

#[test]
fn those_who_look_on_are_told_how_much_has_come_on_the_baton() {
    let mut talk = Conversation::new();
    let parcel = talk.nodes[0].parcel(1, b"short");
    for _ in 0..300 {
        for node in [0, 1] {
            talk.post(node, &parcel).unwrap();
            while talk.try_take(1 - node).is_some() {}
        }
    }
    assert!(talk.rings.iter().all(|ring| ring.sender.has_retired(250)), "nobody can see that they talk");
}

#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn a_sender_whose_receiver_never_looks_in_vain_is_told_now_and_then() {
    let mut talk = Conversation::new();
    let parcel = talk.nodes[0].parcel(1, b"short");
    for _ in 0..70_000 {
        for node in [0, 1] {
            talk.post(node, &parcel).unwrap();
            talk.take(1 - node);
        }
    }
    assert!(talk.rings.iter().all(|ring| ring.sender.has_retired(1 << 16)), "nothing was told");
    assert_eq!(talk.rings[0].receiver.head(), 0);
}

#[test]
fn nothing_is_expected_on_a_baton_that_was_left_aside_until_something_comes_there() {
    let mut talk = Conversation::new();
    let (short, long) = (talk.nodes[0].parcel(1, b"short"), talk.nodes[0].parcel(1, &pattern(1, 5000)));
    assert!(talk.rings[0].receiver.awaits_baton() && !talk.rings[1].receiver.awaits_baton());
    for _ in 0..100 {
        talk.post(0, &long).unwrap();
        talk.take(1);
    }
    assert!(!talk.rings[0].receiver.awaits_baton());
    talk.rings[0].settle_credits(&talk.nodes[1]);
    talk.post(0, &short).unwrap();
    assert_eq!(talk.carried(), [1, 0]);
    let got = talk.take(1);
    assert_same(&got, &short);
    talk.post(1, &short).unwrap();
    assert!(talk.rings[0].receiver.awaits_baton());
}

#[test]
fn the_memory_of_a_baton_stays_as_long_as_its_ring_though_nothing_is_posted_there_any_more() {
    let ends: [fn(&Ring<HostMemory>); 2] =
        [|ring| ring.sender.stop(Ending::Closed), |ring| assert_eq!(ring.sender.end(Ending::Lost), 0)];
    for end in ends {
        let talk = Conversation::new();
        let before = Arc::strong_count(&talk.batons[0]);
        end(&talk.rings[0]);
        assert_eq!(Arc::strong_count(&talk.batons[0]), before, "somebody else may have what was passed last");
    }
}

#[test]
fn a_closed_ring_passes_nothing_more_and_what_it_has_passed_is_found() {
    let mut talk = Conversation::new();
    let parcel = talk.nodes[0].parcel(1, b"short");
    talk.post(0, &parcel).unwrap();
    talk.rings[0].sender.stop(Ending::Closed);
    assert!(matches!(talk.post(0, &parcel), Err(Refusal::Closed)));
    assert!(!talk.rings[0].sender.hold_baton(talk.batons[0].clone()));
    assert!(!talk.rings[0].sender.say(Said { baton: 0, mailbox: 0, ring: 0, count: 0 }));
    let got = talk.take(1);
    assert_same(&got, &parcel);
    // The other way goes on: once on the baton, whose turn it is, and through slots from then on.
    for _ in 0..3 {
        talk.post(1, &parcel).unwrap();
        let got = talk.take(0);
        assert_same(&got, &parcel);
    }
    assert_eq!(talk.carried(), [2, 2]);
    talk.rings[1].receiver.set_closed();
    assert!(matches!(talk.post(1, &parcel), Err(Refusal::Closed)));
}

#[test]
fn a_sender_passes_nothing_before_the_other_node_looks_there() {
    let mut talk = Conversation::new();
    let parcel = talk.nodes[0].parcel(1, b"short");
    let next = offered(&talk.nodes[0]);
    assert!(talk.rings[0].sender.hold_baton(next.clone()));
    talk.post(0, &parcel).unwrap();
    // Of another one that was offered before.
    talk.rings[0].sender.start_passing(&talk.batons[0]);
    talk.post(0, &parcel).unwrap();
    assert_eq!(next.carried(), 0);
    for _ in 0..2 {
        talk.take(1);
    }
    let kept = (0..20).take_while(|_| talk.rings[0].sender.hold_baton(next.clone())).count();
    assert!((10..20).contains(&kept), "{kept}: they are kept as long as the ring");
}

#[test]
fn what_is_said_beside_the_messages_is_heard_once_and_after_what_came_before() {
    let mut talk = Conversation::new();
    let parcel = talk.nodes[0].parcel(1, b"short");
    assert_eq!(talk.rings[0].receiver.hear(), None);
    let said = |baton| Said { baton, mailbox: 7, ring: 8, count: 2 };
    assert!(talk.rings[0].sender.say(said(128)));
    assert!(talk.rings[0].sender.say(said(256)));
    talk.post(0, &parcel).unwrap();
    assert_eq!(talk.rings[0].receiver.hear(), None, "there is a message on the baton");
    talk.take(1);
    assert_eq!(talk.rings[0].receiver.hear(), Some(said(256)), "the newest");
    assert!(talk.rings[0].receiver.has_heard_last(&said(256)));
    assert!(!talk.rings[0].receiver.has_heard_last(&Said { count: 1, ..said(128) }));
    assert_eq!(talk.rings[0].receiver.hear(), None);
}

#[test]
fn those_who_look_on_are_told_where_the_last_message_before_a_new_baton_may_lie() {
    let talk = Conversation::new();
    let parcel = talk.nodes[0].parcel(1, b"short");
    let former = |talk: &Conversation| {
        let ring = &talk.rings[0];
        ring.words.get(ring.sender.shape().hungry() / 8 + said::FORMER).load(Ordering::Relaxed)
    };
    let said = |baton: &Baton| Said { baton: baton.place(), mailbox: 7, ring: 8, count: 0 };
    let offer = |talk: &Conversation| {
        let next = offered(&talk.nodes[0]);
        assert!(talk.rings[0].sender.hold_baton(next.clone()) && talk.rings[0].sender.say(said(&next)));
        next
    };
    // On the first one nothing was passed yet.
    offer(&talk);
    assert_eq!(former(&talk), 0);
    let used = offer(&talk);
    talk.rings[0].sender.start_passing(&used);
    talk.post(0, &parcel).unwrap();
    for _ in 0..2 {
        offer(&talk);
        assert_eq!(former(&talk), used.place(), "nothing was passed on the others");
    }
}

/// What another process can write there, with the turn at its end.
#[test]
fn nonsense_on_a_baton_is_corrupt_and_never_taken() {
    let number = 1u64;
    let stamp = |length: u64| number << 48 | length << 56 | (1 + number % 2) << 62;
    for (last, size) in [
        // Copied, and longer than what lies there.
        (stamp(63) | 2 | 1 << 8, 1025),
        (stamp(63) | 2 | 1 << 8, u64::MAX),
        (stamp(63) | 2, 8),
        // Its only runs of several types are none.
        (stamp(63) | 2 | 255 << 8, 1000),
    ]
    .into_iter()
    .chain(
        [
            // Another message's number.
            stamp(5) ^ 2 << 48,
            // Kinds that lie elsewhere, that do not exist, and small messages, which are no kind of their own here.
            stamp(63) | 3 | 1 << 8,
            stamp(63) | 4 | 1 << 8,
            stamp(63) | 5 | 1 << 8 | 1 << 44,
            stamp(63) | 99,
            // Too long for the line and for the slot, no element type, runs without a type of their own.
            stamp(63) | 1 | 1 << 8 | 57 << 16,
            stamp(63) | 6 | 1 << 8 | 121 << 16,
            stamp(63) | 1 | 5 << 16,
            stamp(63) | 1 | 1 << 8 | 5 << 16 | 1 << 24,
        ]
        .map(|last| (last, 0)),
    ) {
        let mut talk = Conversation::new();
        talk.words.get(SLOT_WORDS - LINE_WORDS + 1).store(size, Ordering::Relaxed);
        talk.words.get(SLOT_WORDS - 1).store(last, Ordering::Release);
        for _ in 0..2 {
            let error = talk.rings[0].try_take(&talk.nodes[1]).expect_err("nonsense");
            assert_eq!((error.kind(), error.peer().map(|peer| peer.0)), (ErrorKind::Corrupt, Some(0)), "{last:#x}");
        }
    }
}

/// Offers are for memory that both can write; over other fabrics nobody hears anything.
pub fn nothing_is_heard_where_pages_are_not_mapped<F: Fabric>(seed: u64) {
    let [a, b] = job();
    let mut ring = Ring::<F>::new(&a, &b, seed);
    assert!(ring.sender.say(Said { baton: 128, mailbox: 1, ring: 1, count: 0 }));
    ring.settle_credits(&b);
    assert_eq!(ring.receiver.hear().is_some(), F::Remote::IS_MAPPED);
}

#[derive(Clone, Debug)]
enum Step {
    /// A node posts so many bytes.
    Post(usize, usize),
    /// A node retrieves.
    Take(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![4 => 0usize..9, 4 => 0usize..121, 1 => 121usize..3000];
    prop_oneof![(0usize..2, size).prop_map(|(node, size)| Step::Post(node, size)), (0usize..2).prop_map(Step::Take),]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..Default::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn any_conversation_is_that_of_two_queues(
        kind in 0usize..2,
        begin in prop_oneof![Just(0), (0u32..20).prop_map(|before| 0u32.wrapping_sub(2 * before))],
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut talk = Conversation::beginning_at(jobs_that_fetch().nth(kind).expect("two kinds"), begin);
        let mut queues: [VecDeque<Parcel>; 2] = Default::default();
        for (index, step) in steps.into_iter().enumerate() {
            match step {
                Step::Post(node, size) => {
                    let parcel = talk.nodes[node].parcel(1, &pattern(index, size));
                    match talk.post(node, &parcel) {
                        Ok(()) => queues[node].push_back(parcel),
                        Err(Refusal::Full) => prop_assert!(queues[node].len() >= 28),
                        Err(other) => prop_assert!(false, "{:?}", other),
                    }
                }
                Step::Take(node) => match queues[1 - node].pop_front() {
                    Some(wanted) => {
                        prop_assert!(talk.rings[1 - node].receiver.has_next());
                        let got = talk.take(node);
                        assert_same(&got, &wanted);
                    }
                    None => prop_assert!(talk.try_take(node).is_none(), "a message that nobody posted"),
                },
            }
        }
        for node in [0, 1] {
            for wanted in std::mem::take(&mut queues[1 - node]) {
                let got = talk.take(node);
                assert_same(&got, &wanted);
            }
            prop_assert!(talk.try_take(node).is_none());
        }
    }
}
