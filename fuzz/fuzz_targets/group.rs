//! A collective of two members, one of which writes whatever it likes into its lines of the board: the other one's call
//! ends with a value or an error, or goes on waiting. How long its blocks are is believed where counts differ: pieces
//! that never end keep the others busy whoever tells of them.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use deck::group::{Call, Kind};
use deck::observe::board_of_entry;
use deck::{Element, Group, Node, Operation};
use deck_peers::{Names, RESERVED};
use deck_segment::Words;
use deck_sync::atomic::Ordering;
use libfuzzer_sys::fuzz_target;

const NAME: &str = "group";
const NOW: Duration = Duration::ZERO;
const SOON: Duration = Duration::from_secs(20);
/// The most elements of a call: some lie in the line of a member, some beside it.
const ELEMENTS: usize = 3000;
/// Lines of a board for two members: of the head, and of each member about itself and about two phases.
const HEAD: usize = 2;
const OWN: usize = 3;
const LINES: usize = HEAD + 2 * OWN;
/// Words of a line in which a member says something.
const SAID: [usize; 3] = [0, LENGTH, 2];
const LENGTH: usize = 1;

/// A job of one node. Made once: joining costs system calls.
static NODE: LazyLock<Node> = LazyLock::new(|| Node::join().expect("a job of its own"));

fn join(index: u32) -> Group {
    Group::join(&NODE, NAME, 2, Some(index), SOON).expect("both come")
}

/// The words of the board at which the two have met.
fn board() -> Words {
    let name = format!("{RESERVED}group:{NAME}");
    let entry = Names::new(NODE.membership().table()).lookup(&name);
    let (_, offset) = board_of_entry(entry.expect("the group is there"));
    Words::in_segment(NODE.membership().heap().segment(), offset as usize, LINES * 8).expect("a board lies in a heap")
}

fn call(kind: u8, root: u32, count: usize) -> Call {
    let kinds = Kind::ALL;
    let kind = kinds[usize::from(kind) % kinds.len()];
    let call = Call::new(kind, u64::TYPE, count % ELEMENTS).rooted(root % 2).reducing(Operation::Sum);
    let counts = if kind.name().ends_with('v') { vec![count % ELEMENTS; 2] } else { Vec::new() };
    Call { send_counts: counts.clone(), recv_counts: counts, ..call }
}

fuzz_target!(|input: (u8, u32, u16, [[u64; 8]; OWN], [u8; 4], u64)| {
    let (kind, root, count, lines, copied, departed) = input;
    let (mut one, _other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| join(1));
        (join(0), other.join().expect("it joins"))
    });
    let board = board();
    let word = |line: usize, word: usize| board.get(line * 8 + word);
    let load = |line, at| word(line, at).load(Ordering::Acquire);
    let before: Vec<u64> = (0..LINES * 8).map(|at| load(at / 8, at % 8)).collect();

    let call = call(kind, root, usize::from(count));
    let (takes, gives) = call.bytes(0, 2).expect("it can be");
    let (input, mut output) = (vec![1; takes], vec![0; gives]);
    // What a member says is compared with what the other one has said: it is the same more often than not.
    for copied in copied {
        let ended = one.call(&call, &input, &mut output, NOW);
        if !ended.is_err_and(|error| error.kind() == deck::ErrorKind::Timeout) {
            break;
        }
        for (line, words) in lines.iter().enumerate() {
            // A member's state says who it is: it was looked at when the two met.
            let first = usize::from(line == 0);
            for at in first..8 {
                let is_believed = at == LENGTH && !call.send_counts.is_empty();
                let is_copied = line > 0 && SAID.contains(&at) && (is_believed || copied >> at & 1 == 0);
                let (own, small) = (load(HEAD + line, at), words[at] >> [0, 44, 52, 61][usize::from(copied >> 6)]);
                word(HEAD + OWN + line, at).store(if is_copied { own } else { small }, Ordering::Release);
            }
        }
        if copied & 0x20 != 0 {
            word(1, 0).store(departed >> 62, Ordering::Release);
        }
    }
    // Both leave a board that is whole, so that the next two meet at it.
    before.iter().enumerate().for_each(|(at, before)| word(at / 8, at % 8).store(*before, Ordering::Release));
});
