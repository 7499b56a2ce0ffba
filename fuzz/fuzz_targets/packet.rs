//! A slot as another process wrote it: read or refused, and what is read says nothing impossible.
#![no_main]

use deck_segment::layout::SLOT_CONTENT;
use deck_transport::segment::packed::MESSAGES;
use deck_transport::segment::packet::{Packet, TYPED, needed};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: ([u64; 8], u32, u8)| {
    let (line, position, slots) = input;
    let slots = 4u32 << (slots % 15);
    let arrived = Packet::has_arrived(line[7], position, slots);
    let Ok(packet) = Packet::read(&line, position) else { return };
    match &packet {
        Packet::Short { size, .. } => assert!(*size <= 62),
        Packet::Typed { label, .. } => assert!(needed(label) <= TYPED as u64),
        Packet::Wide { label } => assert!(needed(label) <= SLOT_CONTENT as u64),
        Packet::HandOver { label, name } => assert!(needed(label) <= name.capacity),
        Packet::Packed { packed, .. } => {
            assert!((1..=MESSAGES).contains(&packed.count()));
            assert!((0..packed.count()).all(|index| packed.size(index) <= 8));
        }
        Packet::Buffered { label, .. } | Packet::Request { label } => assert!(label.size < 1 << 48),
    }
    // What was understood is written as something that is understood the same way.
    let again = packet.write(position, slots);
    assert_eq!(Packet::read(&again, position), Ok(packet));
    assert!(Packet::has_arrived(again[7], position, slots));
    assert!(!arrived || line[7] >> 62 == again[7] >> 62);
});
