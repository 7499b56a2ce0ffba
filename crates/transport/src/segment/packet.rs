//! What is in a slot: nearly always a line of 64 bytes that moves data, length, order and arrival at once.
//!
//! ```text
//! byte 0 .. 61   payload
//! byte 62        sequence: low 8 bits of the position
//! byte 63        bits 0-5 length of the payload (63: the payload is an announcement), bits 6-7 tag of the lap
//! ```
//!
//! An announcement tells in bytes 56 and 57 of what kind and type it is. The line before belongs to the slot too:
//! content that is too long for one line begins there ([`Packet::Wide`]). Everything in a slot is written by another
//! process: [`Packet::read`] refuses what cannot be.

use deck_segment::BufferName;
use deck_segment::fabric::Line;
use deck_segment::layout::SLOT_CONTENT;
use deck_sync::atomic::{AtomicU64, Ordering};

use super::packed::{self, Packed};
use super::ring::{Position, Stamp};
use crate::parcel::{BYTES, MIXED, Parcel};

/// Payload bytes of a line.
pub const PAYLOAD: usize = 62;
/// Content bytes, with types, of one line.
pub const TYPED: usize = 56;
pub(super) const ANNOUNCEMENT: u8 = 63;
/// The most runs a message may have; more is nonsense. Few in tests: these many take gigabytes.
pub const RUNS_MAX: u32 = if cfg!(test) { 1 << 10 } else { 1 << 28 };
/// No message has so many bytes.
const SIZE_LIMIT: u64 = 1 << 48;

// docs/layout/slot.md
const _: () = assert!(PAYLOAD + 2 == deck_segment::layout::LINE && TYPED + 6 == PAYLOAD);
const _: () = assert!(PAYLOAD == crate::parcel::INLINE && SLOT_CONTENT == deck_segment::layout::LINE + TYPED);
const _: () = assert!(ANNOUNCEMENT as usize > PAYLOAD && ANNOUNCEMENT < 1 << 6);

pub(super) mod kind {
    pub const TYPED: u8 = 1;
    pub const BUFFERED: u8 = 2;
    pub const HAND_OVER: u8 = 3;
    pub const REQUEST: u8 = 4;
    pub const PACKED: u8 = 5;
    pub const WIDE: u8 = 6;
}

/// What kind of packet a slot has, told by its last word alone. The rest of it may be nonsense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// All of one message, in one line.
    Line,
    /// The end of one message that begins in the line before.
    Wide,
    /// Small messages.
    Small,
    /// The place of a buffered message.
    Beside,
    /// The name of a buffer.
    HandOver,
    /// Something else, or nothing that exists.
    Other,
}

impl Carries {
    /// What a slot has with this last word.
    #[inline]
    pub fn of(last: u64) -> Carries {
        if (last >> 56) as u8 & 63 != ANNOUNCEMENT {
            return Carries::Line;
        }
        match last as u8 {
            kind::TYPED => Carries::Line,
            kind::WIDE => Carries::Wide,
            kind::PACKED => Carries::Small,
            kind::BUFFERED => Carries::Beside,
            kind::HAND_OVER => Carries::HandOver,
            _ => Carries::Other,
        }
    }
}

/// Content types and size, common to all announcements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Code of the element type, or [`MIXED`].
    pub element: u8,
    /// Bytes of content.
    pub size: u64,
    /// Runs behind it.
    pub runs: u32,
}

impl Label {
    /// That of a message.
    pub fn of(parcel: &Parcel) -> Label {
        Label { element: parcel.element(), size: parcel.size() as u64, runs: parcel.runs() as u32 }
    }
}

/// Whether a message needs no more than one line of its slot.
#[inline]
pub fn fits_a_line(parcel: &Parcel) -> bool {
    Parcel::needed(parcel.size(), parcel.runs()) <= if parcel.element() == BYTES { PAYLOAD } else { TYPED }
}

/// What a slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Raw bytes, in the slot.
    Short {
        /// The content, then zeros.
        bytes: [u8; PAYLOAD],
        /// Bytes of content.
        size: u8,
    },
    /// Typed content with its runs, in the slot.
    Typed {
        /// Types and size.
        label: Label,
        /// Content and, at the next multiple of 8, runs.
        bytes: [u8; TYPED],
    },
    /// Content with its runs from the begin of the slot on, over both lines.
    Wide {
        /// Types and size.
        label: Label,
    },
    /// Content in the area beside the slots.
    Buffered {
        /// Types and size.
        label: Label,
        /// The line of the area in which the content begins.
        line: u32,
        /// How far the area is used with this message: counts lines from the begin of time, 31 bits.
        area_end: u32,
    },
    /// A buffer handed over.
    HandOver {
        /// Types and size.
        label: Label,
        /// Where the buffer is.
        name: BufferName,
    },
    /// Content that waits for an address to be written to.
    Request {
        /// Types and size.
        label: Label,
    },
    /// Small messages, in the slot.
    Packed {
        /// How many, their type and sizes.
        packed: Packed,
        /// The content of each, then anything.
        words: [u64; packed::MESSAGES as usize],
    },
}

/// Why a slot makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonsense(pub &'static str);

impl Packet {
    /// The line of this packet at `position`.
    ///
    /// Lines are made and read as words: bytes written one by one and read as a word make the processor wait for its
    /// own stores.
    #[inline]
    pub fn write(&self, position: Position, slots: u32) -> Line {
        let stamp = Stamp::of(position, slots);
        match self {
            Packet::Short { bytes, size } => {
                let mut content = [0u8; 64];
                content[..PAYLOAD].copy_from_slice(bytes);
                short_line(&to_line(&content), usize::from(*size), stamp)
            }
            Packet::Typed { label, bytes } => {
                let mut content = [0u8; 64];
                content[..TYPED].copy_from_slice(bytes);
                typed_line(&to_line(&content), label, stamp)
            }
            Packet::Wide { label } => [0, 0, 0, 0, 0, 0, 0, wide_word(label, stamp)],
            Packet::Buffered { label, line, area_end } => buffered_line(label, *line, *area_end, stamp),
            Packet::HandOver { label, name } => hand_over_line(label, name, stamp),
            Packet::Request { label } => request_line(label, stamp),
            Packet::Packed { packed, words } => {
                let mut packet: Line = [0; 8];
                packet[..words.len()].copy_from_slice(words);
                packet[7] = packed.content().word() | stamp.with(ANNOUNCEMENT);
                packet
            }
        }
    }

    /// Whether the last word of a slot says that `position` has arrived.
    #[inline]
    pub fn has_arrived(last: u64, position: Position, slots: u32) -> bool {
        Stamp::of(position, slots).has_arrived(last)
    }

    /// Reads the line that has arrived at `position`.
    ///
    /// # Errors
    /// [`Nonsense`] for a wrong sequence, kind, length or count: a corrupt peer.
    #[inline]
    pub fn read(line: &Line, position: Position) -> Result<Packet, Nonsense> {
        let last = line[7];
        if (last >> 48) as u8 != position as u8 {
            return Err(Nonsense("the sequence number is not the next one"));
        }
        let length = (last >> 56) as u8 & 63;
        if length != ANNOUNCEMENT {
            return Ok(Packet::Short { bytes: array(&to_bytes(line)), size: length });
        }
        let (kind, element) = (last as u8, (last >> 8) as u8);
        if Carries::of(last) == Carries::Small {
            let packed = Packed::from_word(last);
            if !packed.is_possible() {
                return Err(Nonsense("a slot with small messages that cannot be"));
            }
            return Ok(Packet::Packed { packed: packed.content(), words: std::array::from_fn(|index| line[index]) });
        }
        if kind == kind::TYPED || kind == kind::WIDE {
            let label = Label { element, size: last >> 16 & 255, runs: (last >> 24) as u32 & 255 };
            check(&label)?;
            let is_wide = kind == kind::WIDE;
            if needed(&label) > (if is_wide { SLOT_CONTENT } else { TYPED }) as u64 {
                return Err(Nonsense("a short message is longer than its place"));
            }
            return Ok(if is_wide {
                Packet::Wide { label }
            } else {
                Packet::Typed { label, bytes: array(&to_bytes(line)) }
            });
        }
        let label = Label { element, runs: (line[0] >> 32) as u32, size: line[1] };
        check(&label)?;
        match kind {
            kind::BUFFERED => Ok(Packet::Buffered { label, line: line[2] as u32, area_end: (line[2] >> 32) as u32 }),
            kind::HAND_OVER => {
                let name = BufferName {
                    owner: line[2] as u32,
                    seat: (line[2] >> 32) as u16,
                    index: line[3] as u32,
                    offset: line[4],
                    capacity: line[5],
                };
                if needed(&label) > name.capacity {
                    return Err(Nonsense("a message is larger than its buffer"));
                }
                Ok(Packet::HandOver { label, name })
            }
            kind::REQUEST => Ok(Packet::Request { label }),
            _ => Err(Nonsense("the kind of packet is unknown")),
        }
    }
}

/// Bytes of memory that content and runs of a label need.
pub fn needed(label: &Label) -> u64 {
    if label.runs == 0 { label.size } else { label.size.next_multiple_of(8) + 8 * u64::from(label.runs) }
}

fn check(label: &Label) -> Result<(), Nonsense> {
    if label.size >= SIZE_LIMIT || label.runs > RUNS_MAX {
        return Err(Nonsense("an impossible length"));
    }
    if (label.element == MIXED) != (label.runs > 0) || label.element == 0 {
        return Err(Nonsense("an impossible element type"));
    }
    if label.runs > 0 && u64::from(label.runs) > label.size {
        return Err(Nonsense("more runs than bytes"));
    }
    Ok(())
}

/// The first `N` bytes.
fn array<const N: usize>(bytes: &[u8; 64]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[..N]);
    out
}

/// The line of raw bytes: `content` as a parcel has it, `size` bytes of it in use.
#[inline]
pub fn short_line(content: &Line, size: usize, stamp: Stamp) -> Line {
    let mut line = *content;
    line[7] = short_word(line[7], size, stamp);
    line
}

/// The last word of that line; `word` is that of the content.
#[inline]
pub fn short_word(word: u64, size: usize, stamp: Stamp) -> u64 {
    word & (u64::MAX >> 16) | stamp.with(size as u8)
}

/// The line of up to [`TYPED`] bytes with types: `content` as a parcel has it, then its runs.
#[inline]
pub fn typed_line(content: &Line, label: &Label, stamp: Stamp) -> Line {
    let mut line = *content;
    line[7] = typed_word(label, stamp);
    line
}

/// The last word of that line.
#[inline]
pub fn typed_word(label: &Label, stamp: Stamp) -> u64 {
    labelled_word(kind::TYPED, label, stamp)
}

/// The last word of content of one type that fits into one word.
#[inline]
pub fn small_word(size: usize, element: u8, stamp: Stamp) -> u64 {
    if element == BYTES {
        return stamp.with(size as u8);
    }
    typed_word(&Label { element, size: size as u64, runs: 0 }, stamp)
}

/// The last word of a [`Packet::Wide`].
#[inline]
pub fn wide_word(label: &Label, stamp: Stamp) -> u64 {
    labelled_word(kind::WIDE, label, stamp)
}

/// A last word that has all of the label of short content.
#[inline]
fn labelled_word(kind: u8, label: &Label, stamp: Stamp) -> u64 {
    let kind = u64::from(kind) | u64::from(label.element) << 8;
    kind | label.size << 16 | u64::from(label.runs as u8) << 24 | stamp.with(ANNOUNCEMENT)
}

/// The line of what lies elsewhere: four words that tell where.
#[inline]
fn announcement_line(kind: u8, label: &Label, place: [u64; 4], stamp: Stamp) -> Line {
    let last = u64::from(kind) | u64::from(label.element) << 8 | stamp.with(ANNOUNCEMENT);
    [u64::from(label.runs) << 32, label.size, place[0], place[1], place[2], place[3], 0, last]
}

/// The line of a [`Packet::Buffered`].
#[inline]
pub fn buffered_line(label: &Label, line: u32, area_end: u32, stamp: Stamp) -> Line {
    let place = [u64::from(line) | u64::from(area_end) << 32, 0, 0, 0];
    announcement_line(kind::BUFFERED, label, place, stamp)
}

/// The line of a [`Packet::HandOver`].
#[inline]
pub fn hand_over_line(label: &Label, name: &BufferName, stamp: Stamp) -> Line {
    let owner = u64::from(name.owner) | u64::from(name.seat) << 32;
    let place = [owner, u64::from(name.index), name.offset, name.capacity];
    announcement_line(kind::HAND_OVER, label, place, stamp)
}

/// The line of a [`Packet::Request`].
#[inline]
pub fn request_line(label: &Label, stamp: Stamp) -> Line {
    announcement_line(kind::REQUEST, label, [0; 4], stamp)
}

/// The line of content that is not as a line has it: in a buffer, or with runs.
#[inline(never)]
pub fn collected_line(parcel: &Parcel, stamp: Stamp) -> Line {
    let label = Label::of(parcel);
    if label.element == BYTES {
        let mut bytes = [0; 64];
        parcel.collect(&mut bytes[..PAYLOAD]);
        return short_line(&to_line(&bytes), label.size as usize, stamp);
    }
    let mut bytes = [0; 64];
    parcel.collect(&mut bytes[..TYPED]);
    typed_line(&to_line(&bytes), &label, stamp)
}

/// Size and element type of a line that has arrived with `stamp`, if all of its content is in it and of one type: what
/// the hot path decodes, from the `last` word alone. Anything else is for [`Packet::read`].
#[inline]
pub fn simple(last: u64, stamp: Stamp) -> Option<(usize, u8)> {
    if !stamp.is_next(last) {
        return None;
    }
    let length = (last >> 56) as u8 & 63;
    if length != ANNOUNCEMENT {
        return Some((usize::from(length), BYTES));
    }
    labelled(last, kind::TYPED, TYPED)
}

/// As [`simple`], of a line that is of [`Carries::Wide`].
#[inline]
pub fn wide(last: u64, stamp: Stamp) -> Option<Label> {
    let (size, element) = stamp.is_next(last).then(|| labelled(last, kind::WIDE, SLOT_CONTENT))??;
    Some(Label { element, size: size as u64, runs: 0 })
}

/// Size and element type that a last word tells, if all elements have it and the content is no longer than `most`
/// bytes.
#[inline]
fn labelled(last: u64, kind: u8, most: usize) -> Option<(usize, u8)> {
    let (element, size, runs) = ((last >> 8) as u8, (last >> 16) as u8, (last >> 24) as u8);
    let is_simple = last as u8 == kind && runs == 0 && usize::from(size) <= most;
    (is_simple && element != 0 && element != MIXED).then_some((usize::from(size), element))
}

/// Label, line of the area, and end of the area in use, from a line that has arrived with `stamp` and whose last word
/// says that it is of [`Carries::Beside`]. Nonsense and messages with runs are for [`Packet::read`].
#[inline]
pub fn buffered(words: &[AtomicU64; 8], last: u64, stamp: Stamp) -> Option<(Label, u32, u32)> {
    let label = announced(words, last, stamp)?;
    let place = words[2].load(Ordering::Relaxed);
    Some((label, place as u32, (place >> 32) as u32))
}

/// As [`buffered`], from a line of [`Carries::HandOver`].
#[inline]
pub fn handed_over(words: &[AtomicU64; 8], last: u64, stamp: Stamp) -> Option<(Label, BufferName)> {
    let label = announced(words, last, stamp)?;
    let [owner, index, offset, capacity] = std::array::from_fn(|index| words[2 + index].load(Ordering::Relaxed));
    let name = BufferName { owner: owner as u32, seat: (owner >> 32) as u16, index: index as u32, offset, capacity };
    (label.size <= capacity).then_some((label, name))
}

/// The label of what lies elsewhere, if it makes sense and has no runs.
#[inline]
fn announced(words: &[AtomicU64; 8], last: u64, stamp: Stamp) -> Option<Label> {
    // Relaxed, here and above: ordered by the acquire of the last word.
    let element = (last >> 8) as u8;
    let (runs, size) = ((words[0].load(Ordering::Relaxed) >> 32) as u32, words[1].load(Ordering::Relaxed));
    let is_plain = stamp.is_next(last) && runs == 0 && size < SIZE_LIMIT && element != 0 && element != MIXED;
    is_plain.then_some(Label { element, size, runs: 0 })
}

fn to_line(bytes: &[u8; 64]) -> Line {
    let mut line = [0; 8];
    for (word, chunk) in line.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
    }
    line
}

fn to_bytes(line: &Line) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (word, chunk) in line.iter().zip(bytes.chunks_exact_mut(8)) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// A label for raw bytes, for tests and benchmarks.
pub fn raw(size: u64) -> Label {
    Label { element: BYTES, size, runs: 0 }
}

#[cfg(all(test, not(loom)))]
mod tests;
