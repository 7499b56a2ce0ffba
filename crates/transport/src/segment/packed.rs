//! Several small messages in one slot.
//!
//! What a stream of small messages costs is the lines that go from one core to the other. So a message of up to 8 bytes
//! is added to the slot before it, if that has room for it, whether or not the receiver has taken what is there
//! already: a word of content, then the last word of the slot, which says how many there are. The receiver stays at
//! such a slot until the next one is in use.

use deck_segment::layout::LINE_WORDS;

use super::packet::{ANNOUNCEMENT, kind};
use super::ring::Stamp;
use crate::parcel::MIXED;

/// Messages that a slot has room for.
pub const MESSAGES: u32 = 7;
/// The most bytes of each.
pub const BYTES: usize = 8;

const ELEMENT: u32 = 8;
const SIZES: u32 = 16;
const SIZE_BITS: u32 = 4;
const COUNT: u32 = SIZES + MESSAGES * SIZE_BITS;
const COUNT_MASK: u64 = 7;
/// The lowest bit of each size.
const LOWEST_BITS: u64 = 0x111_1111;

const _: () = assert!(BYTES == 8 && SIZE_BITS == 4 && MESSAGES == 7 && MESSAGES as usize == LINE_WORDS - 1);

/// The last word of a slot with small messages of one element type.
///
/// ```text
/// bits 0-7 kind, 8-15 element code, 16-43 seven sizes of 4 bits, 44-46 how many messages, 47 zero; then as in every slot
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed(u64);

impl Packed {
    /// No slot: nothing can be added.
    pub const NONE: Packed = Packed(COUNT_MASK << COUNT);

    /// That of the slot with this stamp and its first message, of `size` bytes.
    #[inline]
    pub fn first(size: usize, element: u8, stamp: Stamp) -> Packed {
        let label = u64::from(kind::PACKED) | u64::from(element) << ELEMENT | (size as u64) << SIZES | 1 << COUNT;
        Packed(label | stamp.with(ANNOUNCEMENT))
    }

    /// With one message more, if it can be added.
    #[inline]
    pub fn and(self, size: usize, element: u8) -> Option<Packed> {
        let count = self.count();
        let has_room = count < MESSAGES && self.element() == element;
        has_room.then(|| Packed((self.0 | (size as u64) << (SIZES + SIZE_BITS * count)) + (1 << COUNT)))
    }

    /// The last word of a slot that carries small messages. What it says may be impossible.
    #[inline]
    pub fn from_word(last: u64) -> Packed {
        Packed(last)
    }

    /// As it stands in the slot.
    #[inline]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Without what tells the position of its slot.
    pub fn content(self) -> Packed {
        Packed(self.0 & (u64::MAX >> 16))
    }

    /// The word of the last message in the slot.
    #[inline]
    pub fn last(self) -> usize {
        (self.count() as usize).wrapping_sub(1) % LINE_WORDS
    }

    /// How many messages there are.
    #[inline]
    pub fn count(self) -> u32 {
        (self.0 >> COUNT & COUNT_MASK) as u32
    }

    /// Code of the type of their elements.
    #[inline]
    pub fn element(self) -> u8 {
        (self.0 >> ELEMENT) as u8
    }

    /// Bytes of the message at `index`, below [`MESSAGES`].
    #[inline]
    pub fn size(self, index: u32) -> usize {
        (self.0 >> (SIZES + SIZE_BITS * index) & ((1 << SIZE_BITS) - 1)) as usize
    }

    /// True if what it says can be: the last word was written by another process.
    #[inline]
    pub fn is_possible(self) -> bool {
        let sizes = self.0 >> SIZES & ((1 << (SIZE_BITS * self.count())) - 1);
        // Of each size: more than 8 are those with the highest bit and another one.
        let (highest, lower) = (sizes >> 3 & LOWEST_BITS, (sizes | sizes >> 1 | sizes >> 2) & LOWEST_BITS);
        highest & lower == 0 && self.count() != 0 && self.element() != 0 && self.element() != MIXED
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::packet::{Carries, Packet};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_added_is_read(sizes in prop::collection::vec(0usize..=8, 1..8), element in 1u8..13, position: u32) {
            let mut packed = Packed::first(sizes[0], element, Stamp::of(position, 64));
            for size in &sizes[1..] {
                packed = packed.and(*size, element).expect("there is room for seven");
            }
            prop_assert_eq!(packed.and(1, element + 1), None);
            prop_assert_eq!(packed.and(1, element).is_none(), sizes.len() == 7);
            prop_assert!(Packet::has_arrived(packed.word(), position, 64));
            prop_assert_eq!(Carries::of(packed.word()), Carries::Small);
            let read = Packed::from_word(packed.word());
            prop_assert_eq!((read.count() as usize, read.element()), (sizes.len(), element));
            for (index, size) in sizes.iter().enumerate() {
                prop_assert_eq!(read.size(index as u32), *size);
            }
            prop_assert!(read.is_possible());
        }
    }

    proptest! {
        #[test]
        fn what_cannot_be_is_found_out(word: u64) {
            let packed = Packed(word);
            let fits = (0..packed.count()).all(|index| packed.size(index) <= BYTES);
            let is_possible = fits && packed.count() > 0 && packed.element() != 0 && packed.element() != MIXED;
            prop_assert_eq!(packed.is_possible(), is_possible);
        }
    }

    #[test]
    fn nothing_can_be_added_to_no_slot() {
        assert_eq!(Packed::NONE.and(0, 0), None);
    }
}
