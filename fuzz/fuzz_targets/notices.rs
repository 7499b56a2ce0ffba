//! What a node tells those who look on, with bytes of another process in every notice: each is read or left out.
#![no_main]

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use deck_peers::observe::notices_of;
use deck_segment::Segment;
use deck_segment::layout::PAGE;
use libfuzzer_sys::fuzz_target;

/// Words of a notice.
const WORDS: usize = 32;
/// The longest name, in bytes.
const NAME: usize = 96;

/// A file for the notices. Made once: it costs system calls.
static NOTICES: LazyLock<File> = LazyLock::new(|| {
    let segment = Segment::create("notices", PAGE + 4 * WORDS * 8).expect("there is memory");
    segment.as_fd().try_clone_to_owned().expect("a file descriptor").into()
});

fuzz_target!(|input: ([[u64; WORDS]; 2], [u64; 5])| {
    let (mut notices, rest) = input;
    for notice in &mut notices {
        // It stands still, and is of a kind: without that nothing else is looked at. Small numbers are what most words
        // are to be.
        notice[0] &= !1;
        notice[1] = notice[1] % 5;
        notice[2..8].iter_mut().filter(|word| **word % 3 != 0).for_each(|word| *word >>= 40);
    }
    let [node, job, heap, used, untold] = rest;
    let magic = u64::from_le_bytes(*b"DECKNOTE");
    let used = if used % 4 == 0 { used } else { used % 4 };
    let head = [magic, 1, node, job, heap, used, untold];
    let write = |words: &[u64], at: usize| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        NOTICES.write_all_at(&bytes, at as u64).expect("it is memory");
    };
    write(&head, 0);
    write(notices.as_flattened(), PAGE);
    let Some((told, found)) = notices_of(&NOTICES) else { return };
    assert_eq!(found, untold);
    assert!(told.len() as u64 <= used);
    assert!(told.iter().all(|told| told.name.chars().count() <= NAME));
});
