//! A control frame as another process said it: understood or refused, and what is understood is said the same way.
#![no_main]

use deck_peers::Refusal;
use deck_peers::wire::Frame;
use libfuzzer_sys::fuzz_target;

/// Understood or not: the words of a frame.
fn decode(bytes: &[u8]) {
    let Some(frame) = Frame::decode(bytes) else { return };
    assert_eq!(frame.encode(), bytes);
    std::hint::black_box((frame.is_question(), frame.is_said_once()));
    if let Frame::Refuse { reason } | Frame::RingRefuse { reason, .. } | Frame::SegmentRefuse { reason, .. } = frame {
        let refused = Refusal::from_word(reason);
        std::hint::black_box((refused.of_a_join(Refusal::because_of(reason)), refused.of_a_ring()));
    }
}

fuzz_target!(|input: (u8, [u64; 8], &[u8])| {
    let (code, fields, bytes) = input;
    decode(bytes);
    // The prefix is right, without which nothing else is looked at, and so is the number of fields, one time out of
    // many.
    let mut frame = Frame::Bye {}.encode();
    frame.truncate(8);
    frame.extend(u64::from(code % 64).to_le_bytes());
    decode(&[&frame, bytes].concat());
    for field in fields {
        decode(&frame);
        frame.extend(field.to_le_bytes());
    }
    decode(&frame);
});
