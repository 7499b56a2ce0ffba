//! The shape of a ring and its place as another node tells them: whatever passes the check lies inside.
#![no_main]

use deck_transport::{Bell, RingPlace, Shape};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u32, u64, u32, bool, [usize; 3], usize)| {
    let (messages, bytes, area_lines, is_mapped, [ring, bit, event], segment_bytes) = input;
    let shape = Shape { messages, bytes, area_lines, is_mapped, shares_slots: true };
    let place = RingPlace { ring, bell: Bell { bit, event } };
    if shape.check().is_err() || place.check(&shape, segment_bytes).is_err() {
        return;
    }
    assert!(shape.slots() >= messages && shape.slots().is_power_of_two());
    assert!(shape.area_max() * 2 == area_lines as usize * 64);
    let end = ring + shape.ring_bytes();
    assert!(end <= segment_bytes && ring + shape.done() <= end);
    assert!(bit / 64 * 8 + 8 <= segment_bytes && event + 8 <= segment_bytes);
});
