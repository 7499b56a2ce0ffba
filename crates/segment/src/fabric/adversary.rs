//! The test fabric: only writes and interrupts exist, and 64-byte packets land in any order until a flush.
//!
//! It is the contract of [`Remote`] turned into an adversary: whatever the contract allows to happen late or in another
//! order does, driven by a seed, and nothing that it forbids ever does. A protocol that passes here does not rely on
//! what only host memory gives.

use std::sync::{Arc, Mutex};

use deck_sync::atomic::Ordering;
use deck_sync::locks::lock;

use super::{Line, Remote, Slots};
use crate::layout::{LINE, LINE_WORDS, SLOT, SLOT_CONTENT};
use crate::{Segment, Words, slot_offset};

/// The segment of another node behind a fabric that reorders. Clones are the same connection.
#[derive(Clone, Debug)]
pub struct Adversary {
    words: Words,
    flight: Arc<Mutex<Flight>>,
}

#[derive(Debug)]
struct Flight {
    packets: Vec<Packet>,
    random: u64,
}

/// One write of at most 64 bytes inside one line: which words, which values.
#[derive(Debug)]
struct Packet {
    first: usize,
    values: Vec<u64>,
}

impl Adversary {
    /// Writes to `segment`, in an order drawn from `seed`.
    ///
    /// # Panics
    /// If the segment is not whole words, which no segment is.
    pub fn new(segment: &Arc<Segment>, seed: u64) -> Adversary {
        let words = Words::in_segment(segment, 0, segment.bytes() / 8).expect("a segment is whole words");
        Adversary { words, flight: Arc::new(Mutex::new(Flight { packets: Vec::new(), random: seed | 1 })) }
    }

    /// Lets some of what is in flight land, in any order. To be called now and then, as time passes on a real fabric.
    pub fn advance(&self) {
        let mut flight = self.lock();
        let count = flight.packets.len();
        self.land(&mut flight, count.div_ceil(2));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Flight> {
        lock(&self.flight)
    }

    fn send(&self, first: usize, values: &[u64]) {
        assert!(first + values.len() <= self.words.count(), "a write outside of the segment");
        assert_eq!(first / LINE_WORDS, (first + values.len() - 1) / LINE_WORDS, "a packet crosses a line");
        let mut flight = self.lock();
        let meets = |packet: &Packet| packet.first < first + values.len() && first < packet.first + packet.values.len();
        let again = flight.packets.iter().any(meets);
        assert!(!again, "an address was written twice without a flush in between");
        flight.packets.push(Packet { first, values: values.to_vec() });
        if flight.draw(3) == 0 {
            self.land(&mut flight, 1);
        }
    }

    fn land(&self, flight: &mut Flight, count: usize) {
        for _ in 0..count.min(flight.packets.len()) {
            let index = flight.draw(flight.packets.len());
            let packet = flight.packets.swap_remove(index);
            for (offset, value) in packet.values.iter().enumerate() {
                // Release: pairs with: ring/slot, ring/credit. A packet lands as a whole, its last word last.
                self.words.get(packet.first + offset).store(*value, Ordering::Release);
            }
        }
    }
}

impl Flight {
    /// A number below `bound` (xorshift64, Marsaglia 2003).
    fn draw(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % bound.max(1) as u64) as usize
    }
}

/// The slots of a ring behind the fabric: each line is written with a packet.
#[derive(Clone, Debug)]
pub struct Packets {
    adversary: Adversary,
    offset: usize,
    count: u32,
}

impl Slots for Packets {
    fn write(&self, position: u32, line: &Line, last: u64) {
        let mut packet = *line;
        packet[LINE_WORDS - 1] = last;
        self.adversary.send((self.offset + slot_offset(position, self.count) + LINE) / 8, &packet);
    }

    unsafe fn write_whole(&self, position: u32, data: *const u8, bytes: usize, last: u64) {
        assert!(bytes <= SLOT_CONTENT, "{bytes} bytes for a slot");
        let mut slot = [0u8; SLOT];
        // SAFETY: `data` is readable for `bytes` (caller), the array has so many.
        unsafe { std::ptr::copy_nonoverlapping(data, slot.as_mut_ptr(), bytes) };
        let (first, second) = slot.split_at(LINE);
        self.adversary.send((self.offset + slot_offset(position, self.count)) / 8, &words_of(first));
        self.adversary.flush();
        let line: Line = words_of(second).try_into().expect("as many words as a line has");
        self.write(position, &line, last);
    }
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

impl Remote for Adversary {
    const IS_MAPPED: bool = false;

    type Slots = Packets;

    fn slots(&self, offset: usize, count: u32) -> Packets {
        assert!(offset.is_multiple_of(SLOT) && count.is_power_of_two());
        Packets { adversary: self.clone(), offset, count }
    }

    fn write_word(&self, offset: usize, value: u64) {
        assert!(offset.is_multiple_of(8));
        self.send(offset / 8, &[value]);
    }

    unsafe fn write_bytes(&self, offset: usize, data: *const u8, bytes: usize) {
        assert!(offset.is_multiple_of(LINE));
        for from in (0..bytes).step_by(LINE) {
            let mut line = [0u8; LINE];
            let part = LINE.min(bytes - from);
            // SAFETY: `data` is readable for `bytes` bytes (caller), of which `from..from + part` is a part.
            unsafe { std::ptr::copy_nonoverlapping(data.add(from), line.as_mut_ptr(), part) };
            self.send((offset + from) / 8, &words_of(&line[..part.next_multiple_of(8)]));
        }
    }

    fn flush(&self) {
        let mut flight = self.lock();
        let all = flight.packets.len();
        self.land(&mut flight, all);
    }

    fn set_bits(&self, offset: usize, bits: u64) {
        self.flush();
        // Release: pairs with: ring/bell.
        self.words.get(offset / 8).fetch_or(bits, Ordering::Release);
    }

    fn interrupt(&self, offset: usize) {
        self.flush();
        self.words.event(offset / 8).notify();
    }
}
