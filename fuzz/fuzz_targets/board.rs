//! The board of a group with bytes of another process in it, as those see it who look on: so many members, or none can
//! be told.
#![no_main]

use std::os::fd::AsFd;
use std::sync::LazyLock;

use deck::NodeId;
use deck::group::MEMBERS_MAX;
use deck::observe::GroupSight;
use deck_segment::{Segment, Words};
use deck_sync::atomic::Ordering;
use libfuzzer_sys::fuzz_target;

/// Words of memory, beyond which there is nothing.
const WORDS: usize = 512;

/// The heap in which boards lie. Made once: a segment costs system calls.
static HEAP: LazyLock<(std::sync::Arc<Segment>, Words)> = LazyLock::new(|| {
    let segment = Segment::create("heap", WORDS * 8).expect("there is memory");
    segment.allocate(0, WORDS * 8).expect("there is memory");
    let words = Words::in_segment(&segment, 0, WORDS).expect("the segment has this size");
    (segment, words)
});

fuzz_target!(|input: ([u64; 64], [u64; 6], [u8; 6])| {
    let (line, mut facts, narrow) = input;
    let (segment, words) = &*HEAP;
    for word in 0..WORDS {
        let (value, shift) = (line[word % line.len()], usize::from(narrow[word % narrow.len()]));
        words.get(word).store(value.rotate_left(word as u32 / 64) >> [0, 62, 54, 48][shift % 4], Ordering::Relaxed);
    }
    // Often a place where there is something, and sizes that can be.
    facts.iter_mut().zip(narrow).for_each(|(fact, shift)| *fact >>= [0, 52, 58, 61][usize::from(shift) % 4]);
    let [offset, size, phase, asking, how, more] = facts;
    for offset in [offset, offset % 8 * 64] {
        let Some(group) = GroupSight::of(segment.as_fd(), NodeId(0), offset, size) else { continue };
        let Some(found) = group.members((phase, asking), [how, more]) else { continue };
        assert!((1..=MEMBERS_MAX as usize).contains(&found.len()));
        assert!(size == 0 || found.len() as u64 == size);
        assert!((0..).zip(&found).all(|(index, member)| member.index == index));
    }
});
