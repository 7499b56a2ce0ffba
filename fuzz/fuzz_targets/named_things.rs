//! The words of a mutex, a condition variable, a barrier, a counter and a segment's name, with what another process
//! wrote there: each call ends with a value or an error, at once if it is not to wait.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use deck::observe;
use deck::shared::{Barrier, Condition, Counter, Mutex, Segment};
use deck::{ErrorKind, Node};
use deck_peers::{Object, ObjectKind, OpenObject};
use deck_sync::Deadline;
use deck_sync::atomic::Ordering;
use libfuzzer_sys::fuzz_target;

const NAME: &str = "thing";
const NOW: Duration = Duration::ZERO;

/// A node with one thing of each kind. Made once: joining costs system calls.
struct Things {
    node: Node,
    mutex: Mutex,
    condition: Condition,
    barrier: Barrier,
    counter: Counter,
    /// This node says that it has the segment.
    _segment: OpenObject,
}

static THINGS: LazyLock<Things> = LazyLock::new(|| {
    let node = Node::join().expect("a job of its own");
    let turn = node.membership().opening(Deadline::NEVER).expect("nobody else opens anything");
    let segment = turn.open(turn.enter(ObjectKind::Segment, NAME, |_, _| true).expect("there is room"));
    drop(turn);
    Things {
        mutex: Mutex::open(&node, NAME).expect("there is room"),
        condition: Condition::open(&node, NAME).expect("there is room"),
        barrier: Barrier::open(&node, NAME, 2).expect("there is room"),
        counter: Counter::open(&node, NAME).expect("there is room"),
        _segment: segment,
        node,
    }
});

impl Things {
    /// The thing of this kind, with `words` in it.
    fn scribbled(&self, kind: ObjectKind, words: &[u64; 8]) -> Object {
        let object = self.node.membership().objects().find(kind, NAME).expect("it was entered");
        (0..8).for_each(|word| object.words().get(word).store(words[word], Ordering::Relaxed));
        object
    }
}

fuzz_target!(|input: ([[u64; 8]; 5], [u8; 5], i64)| {
    let (mut words, narrow, amount) = input;
    // Of some all words are small numbers, of some the upper halves are: most that stands there means a node, a thread
    // or a count.
    for (words, narrow) in words.iter_mut().zip(narrow) {
        words.iter_mut().for_each(|word| *word >>= [0, 62, 56, 42, 27, 22][usize::from(narrow) % 6]);
    }
    let [mutex, condition, barrier, counter, segment] = words;
    let things = &*THINGS;

    std::hint::black_box(observe::value(&things.scribbled(ObjectKind::Counter, &counter)));
    let _ = things.counter.add(amount);
    let _ = things.counter.wait_for(amount, NOW);

    std::hint::black_box(observe::arrivals(&things.scribbled(ObjectKind::Barrier, &barrier)));
    let _ = things.barrier.wait(NOW);

    std::hint::black_box(observe::holder(&things.scribbled(ObjectKind::Mutex, &mutex)));
    let _ = things.mutex.holder();
    drop(things.mutex.lock(NOW));

    // The mutex is one that can be had.
    things.scribbled(ObjectKind::Mutex, &[0; 8]);
    things.scribbled(ObjectKind::Condition, &condition);
    let guard = things.mutex.lock(NOW).expect("it is free");
    drop(things.condition.wait(guard, NOW));
    let _ = things.condition.signal();
    let _ = things.condition.broadcast();

    std::hint::black_box(observe::segment(&things.scribbled(ObjectKind::Segment, &segment)));
    match Segment::open(&things.node, NAME, NOW) {
        Ok(opened) => panic!("{opened:?} was never created"),
        Err(error) => assert_ne!(error.kind(), ErrorKind::Invalid, "{error}"),
    }
});
