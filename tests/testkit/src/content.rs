//! What messages of tests consist of: every byte follows from who made the message, for which stream, its number and
//! size.
//!
//! A receiver therefore finds a lost, doubled, swapped or damaged message without being told what was sent. Messages of
//! 16 bytes and more say themselves what they are; shorter ones are recognized by a receiver that knows what comes
//! next.

use crate::chance::mix;

/// Bytes that say what a message is.
pub const HEADER: usize = 16;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The node that made it.
    pub maker: u32,
    /// The stream that it belongs to.
    pub stream: u32,
    /// Its number in the stream.
    pub number: u64,
}

/// The stream of a mail box's name (FNV-1a).
pub fn stream(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn word(identity: Identity, size: usize, index: usize) -> u64 {
    let key = mix(identity.number ^ u64::from(identity.maker) << 32 ^ u64::from(identity.stream) << 8 ^ size as u64);
    mix(key.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

fn header(identity: Identity) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&identity.number.to_le_bytes());
    header[8..12].copy_from_slice(&identity.maker.to_le_bytes());
    header[12..].copy_from_slice(&identity.stream.to_le_bytes());
    header
}

/// Fills `bytes` with the content of a message of that size.
pub fn fill(identity: Identity, bytes: &mut [u8]) {
    let size = bytes.len();
    let header = header(identity);
    let said = size.min(HEADER);
    bytes[..said].copy_from_slice(&header[..said]);
    for (index, chunk) in bytes[said..].chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&word(identity, size, index).to_le_bytes()[..chunk.len()]);
    }
}

/// What the message says it is, if it is long enough to say so.
pub fn identity(bytes: &[u8]) -> Option<Identity> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let number = u64::from(word(0)?) | u64::from(word(4)?) << 32;
    Some(Identity { number, maker: word(8)?, stream: word(12)? })
}

/// True if `bytes` are the content of this message, all of it.
pub fn is_whole(identity: Identity, bytes: &[u8]) -> bool {
    let header = header(identity);
    let said = bytes.len().min(HEADER);
    let mut words = bytes[said..].chunks(8).enumerate();
    bytes[..said] == header[..said]
        && words.all(|(index, chunk)| *chunk == word(identity, bytes.len(), index).to_le_bytes()[..chunk.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_recognized_and_every_change_is_seen() {
        let it = Identity { maker: 3, stream: stream("box"), number: 77 };
        for size in [0, 1, 15, 16, 17, 100, 1003] {
            let mut bytes = vec![0; size];
            fill(it, &mut bytes);
            assert!(is_whole(it, &bytes));
            assert_eq!(identity(&bytes), (size >= HEADER).then_some(it));
            for at in (0..size).step_by(7) {
                bytes[at] ^= 0x10;
                assert!(!is_whole(it, &bytes), "byte {at} of {size}");
                bytes[at] ^= 0x10;
            }
            if size > 0 {
                assert!(!is_whole(Identity { number: 78, ..it }, &bytes));
            }
            // Behind the header everything depends on the size; a cut there is seen by the size alone.
            if size > HEADER + 1 {
                assert!(!is_whole(it, &bytes[..size - 1]));
            }
        }
    }
}
