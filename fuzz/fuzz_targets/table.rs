//! The job's table with words of another process in it, as every node and those who look on read it: whatever is asked
//! has an answer.
#![no_main]

use std::os::fd::AsFd;
use std::sync::LazyLock;
use std::time::Duration;

use deck_peers::{MailboxId, NODES_MAX, Names, ObjectKind, Objects, Table};
use deck_segment::{Seat, Words};
use deck_sync::NodeId;
use deck_sync::atomic::Ordering;
use libfuzzer_sys::fuzz_target;

const NAME: &str = "name";
/// Words of the longest entry of a name.
const ENTRY: usize = 32;

/// A table with two nodes, a mail box and a mutex, and the places around all that is written there.
struct Job {
    table: Table,
    words: Words,
    places: Vec<usize>,
}

static JOB: LazyLock<Job> = LazyLock::new(|| {
    let table = Table::create("fuzz", 3).expect("there is memory");
    let [(owner, seat), (_, other)] = [1, 2].map(|process| table.seat_node(process, false).expect("there is room"));
    let owner = MailboxId { owner, index: 1, generation: 1 };
    Names::new(&table).claim(NAME, owner, seat, Duration::ZERO).expect("nobody has it");
    Objects::new(&table).enter(ObjectKind::Mutex, NAME, other, |_, _| true).expect("there is room");
    let count = table.segment().bytes() / 8;
    let words = Words::in_segment(table.segment(), 0, count).expect("all of it");
    let written = (0..count).filter(|place| words.get(*place).load(Ordering::Relaxed) != 0);
    let mut places: Vec<usize> = written.flat_map(|place| place..(place + ENTRY).min(count)).collect();
    places.sort_unstable();
    places.dedup();
    Job { table, words, places }
});

/// Asks all that there is to ask.
fn ask(table: &Table) {
    let nodes = [0, 1, 2, 3, NODES_MAX - 1, NODES_MAX, u32::MAX].map(NodeId);
    for node in nodes {
        let told = (table.state(node), table.is_live(node), table.seat_of(node), table.pid_of(node));
        // The order is asked of those only that have gone.
        std::hint::black_box((told, (node.0 < NODES_MAX).then(|| table.order_of_going(node))));
    }
    for seat in [0, 1, 2, Seat::COUNT as u16 - 1].map(Seat) {
        std::hint::black_box((table.node_on(seat), table.keeps(seat), table.core_mask(seat)));
    }
    assert!(table.count() <= NODES_MAX);
    assert!(table.live().len() <= Seat::COUNT);
    std::hint::black_box((table.job(), table.awaits_nodes()));
    let (names, objects) = (Names::new(table), Objects::new(table));
    std::hint::black_box((names.lookup(NAME), names.lookup("another"), names.all()));
    let found = objects.find(ObjectKind::Mutex, NAME).into_iter();
    for object in found.chain(objects.all().into_iter().map(|(_, _, object)| object)) {
        std::hint::black_box((object.holding(), object.lost(), object.holding_lost()));
    }
}

fuzz_target!(|input: [(u16, u64, u8); 12]| {
    let job = &*JOB;
    let place = |at: u16| job.words.get(job.places[usize::from(at) % job.places.len()]);
    let before: Vec<u64> = input.iter().map(|(at, ..)| place(*at).load(Ordering::Relaxed)).collect();
    for (at, value, narrow) in input {
        place(at).store(value >> [0, 40, 56, 62][usize::from(narrow) % 4], Ordering::Relaxed);
    }
    ask(&job.table);
    // A copy is what those who look on have. It takes long.
    if input[0].1.is_multiple_of(8)
        && let Ok(copy) = Table::copy_of(job.table.segment().as_fd())
    {
        ask(&copy);
    }
    input.iter().zip(before).rev().for_each(|((at, ..), before)| place(*at).store(before, Ordering::Relaxed));
});
