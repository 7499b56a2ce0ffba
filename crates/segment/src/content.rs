//! Bulk content of a segment, copied in and out.
//!
//! For bytes that a protocol guards: whoever writes them is done, and has said so with release, before anybody reads
//! them, and nobody writes again before all readers are done. Content is trusted, places are not: an offset from
//! another node leads to `None`, never outside.
//!
//! Nobody can keep another process from writing against the protocol. So these bytes are never borrowed as Rust slices,
//! whose content the compiler may take as constant: they are copied, or read by value, a chunk at a time ([`Content`]).
//!
//! Long copies go past the caches (non-temporal stores) unless whoever copies knows better: to fetch lines that will be
//! overwritten, and later to take them out of another core's cache, costs more than memory does: up to ten times where
//! two cores share no cache. Where they share one, what several read right afterwards is found there twice as fast as
//! in memory. A message that is packed is to be read by one other, and goes past the caches if they cannot hold it:
//! [`copy_packed`].

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::layout::LINE;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::past_caches;
use crate::{Segment, caches, prefetch};

/// Copies of so many bytes and more go past the caches.
pub const STREAM_FROM: usize = 16 << 10;

/// Bytes that are fetched at a time by those who read them in a row: they stay in the first-level cache till they are
/// read.
pub const FETCHED: usize = 4 << 10;

/// Bytes that the C library copies at a time. Of as many as a second-level cache holds it may copy in a slower way, and
/// of more past the caches, which is not what was asked for.
const COPIED: usize = 128 << 10;

/// What is packed stays in the caches up to so many second-level caches of a core: that of the one that packs, and of
/// the one that reads.
const CACHES_HOLD: usize = 2;

/// The way of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By ordinary stores: the copy is in the caches afterwards.
    ThroughCaches,
    /// As that, and what is copied is fetched first: for those who alone read it, so that it is quickly written anew
    /// (`docs/design/070-buffers-rest.md`).
    Fetched,
    /// By non-temporal stores, where the processor has them.
    PastCaches,
}

impl Way {
    /// The way of a copy of `bytes` of which nothing more is known.
    pub fn of(bytes: usize) -> Way {
        if bytes >= STREAM_FROM { Way::PastCaches } else { Way::ThroughCaches }
    }
}

/// Copies `from` to `to`, which is as long.
///
/// # Panics
/// If their lengths differ.
pub fn copy(way: Way, to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len());
    // SAFETY: two slices of that length.
    unsafe { copy_raw(way, from.as_ptr(), to.as_mut_ptr(), from.len()) };
}

/// Copies what is packed into a message that another core is to read: what its caches cannot hold, beside what they are
/// used for, goes past them. `docs/design/070-buffers-rest.md` has the measurements.
///
/// # Safety
/// `from` can be read and `to` be written for `bytes` bytes, and they do not overlap.
#[inline]
pub unsafe fn copy_packed(from: *const u8, to: *mut u8, bytes: usize) {
    // Short ones do not even ask.
    let is_long = bytes > STREAM_FROM && bytes > CACHES_HOLD * caches::second_level();
    // SAFETY: as the caller promises.
    unsafe { copy_raw(if is_long { Way::PastCaches } else { Way::ThroughCaches }, from, to, bytes) }
}

/// Copies to lines that another core has: all of them are asked for at once, as the copy would take them away one after
/// the other.
///
/// # Safety
/// `from` can be read and `to`, which begins a line, be written for `bytes` bytes. Where they overlap, what is written
/// is not told.
#[inline]
pub unsafe fn copy_to_other_core(from: *const u8, to: *mut u8, bytes: usize) {
    prefetch::all_to_write(to, bytes);
    // SAFETY: as the caller promises.
    unsafe { std::ptr::copy(from, to, bytes) }
}

/// # Safety
/// `from` can be read and `to` be written for `bytes` bytes. Where they overlap, what is written is not told.
unsafe fn copy_raw(way: Way, from: *const u8, to: *mut u8, bytes: usize) {
    match way {
        // SAFETY: as the caller promises.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        Way::PastCaches => unsafe { past_caches::copy(from, to, bytes) },
        // SAFETY: as the caller promises.
        _ if bytes <= COPIED => unsafe { std::ptr::copy(from, to, bytes) },
        // SAFETY: as the caller promises.
        _ => unsafe { copy_long(from, to, bytes) },
    }
}

/// Kept out of short copies, which are made in every call.
///
/// # Safety
/// As for [`copy_raw`].
#[cold]
unsafe fn copy_long(from: *const u8, to: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(COPIED) {
        // SAFETY: as the caller promises, of a part of it.
        unsafe { std::ptr::copy(from.add(at), to.add(at), COPIED.min(bytes - at)) }
    }
}

/// Bytes that lie where others may write, read by value where they lie.
///
/// No reference to them ever exists. What is written while they are read spoils what is read, and nothing else.
///
/// ```
/// use deck_segment::content::Content;
/// let content = Content::of(b"by value");
/// assert_eq!(content.chunk::<5>(3), *b"value");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    begin: NonNull<u8>,
    bytes: usize,
    memory: PhantomData<&'a Segment>,
}

impl<'a> Content<'a> {
    /// Those of `bytes`, to be read in the same way as what others gave.
    pub fn of(bytes: &'a [u8]) -> Content<'a> {
        Content { begin: NonNull::from(bytes).cast(), bytes: bytes.len(), memory: PhantomData }
    }

    /// How many there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The `BYTES` bytes from byte `from` on. Never blocks.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline(always)]
    #[must_use]
    pub fn chunk<const BYTES: usize>(&self, from: usize) -> [u8; BYTES] {
        assert!(BYTES <= self.bytes && from <= self.bytes - BYTES, "it ends before byte {from} and {BYTES} more");
        // SAFETY: `begin` can be read for `bytes` bytes as long as the segment or slice lives that 'a borrows, and the
        // assertion keeps the chunk inside. It may begin anywhere: the read is unaligned. Any bytes are a valid array.
        // Whoever writes meanwhile breaks the protocol and spoils the value, of which no reference was made.
        unsafe { self.begin.add(from).cast::<[u8; BYTES]>().read_unaligned() }
    }

    /// Asks for as many bytes as these that lie after them, which will be read next. Never blocks.
    pub fn ask_for_next(&self) {
        let end = self.begin.as_ptr().wrapping_add(self.bytes);
        (0..self.bytes).step_by(LINE).for_each(|at| prefetch::to_read(end.wrapping_add(at)));
    }

    /// Copies what begins at byte `from` into `into`. Never blocks.
    ///
    /// # Panics
    /// If there is less.
    pub fn read(&self, from: usize, into: &mut [u8]) {
        assert!(into.len() <= self.bytes && from <= self.bytes - into.len(), "it ends before the copy does");
        // SAFETY: readable as in `chunk`; `into` is borrowed exclusively, and where it lies in the same segment nothing
        // is told about the content: `copy` allows overlaps.
        unsafe { std::ptr::copy(self.begin.as_ptr().add(from), into.as_mut_ptr(), into.len()) };
    }
}

impl Segment {
    /// Where `content` lies in this segment, in bytes from its begin; `None` if it is other memory. Never blocks.
    pub fn offset_of(&self, content: &[u8]) -> Option<usize> {
        let begin = self.at(0, 0)?.addr().get();
        let offset = content.as_ptr().addr().checked_sub(begin)?;
        self.at(offset, content.len()).map(|_| offset)
    }

    /// The bytes at `offset`, to be read where they lie; `None` unless they lie inside. Never blocks.
    #[must_use]
    pub fn content(&self, offset: usize, bytes: usize) -> Option<Content<'_>> {
        let begin = self.at(offset, bytes)?;
        Some(Content { begin, bytes, memory: PhantomData })
    }

    /// Fetches the bytes at `offset` for a reader who alone reads all of them; `None` unless they lie inside. Never
    /// blocks. If somebody writes there meanwhile, against the protocol, that may be lost.
    #[must_use]
    pub fn fetch(&self, offset: usize, bytes: usize) -> Option<()> {
        let begin = self.at(offset, bytes)?;
        // SAFETY: inside the live mapping, which is writable; that nobody writes meanwhile is the protocol's matter,
        // and content alone is spoilt where somebody does.
        unsafe { prefetch::fetch(begin, bytes) };
        Some(())
    }

    /// Copies the bytes at `offset` into `into`; `None` unless they lie inside. Never blocks.
    #[must_use]
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Option<()> {
        self.read_by(Way::of(into.len()), offset, into)
    }

    /// As [`Segment::read`], by a way of the caller's choice.
    #[must_use]
    pub fn read_by(&self, way: Way, offset: usize, into: &mut [u8]) -> Option<()> {
        let from = self.at(offset, into.len())?;
        if way == Way::Fetched {
            return self.read_fetched(offset, into);
        }
        // SAFETY: `from` is inside the live mapping for `into.len()` bytes; `into` is borrowed exclusively, and where
        // it is a part of this segment, such as the content of a message, that is told to nobody else; that nobody
        // writes meanwhile is the protocol's matter, and a peer that does spoils content only.
        unsafe { copy_raw(way, from.as_ptr(), into.as_mut_ptr(), into.len()) };
        Some(())
    }

    /// A piece is fetched, then copied, while it is in the nearest cache.
    fn read_fetched(&self, offset: usize, into: &mut [u8]) -> Option<()> {
        (offset..).step_by(FETCHED).zip(into.chunks_mut(FETCHED)).try_for_each(|(offset, piece)| {
            self.fetch(offset, piece.len())?;
            self.read_by(Way::ThroughCaches, offset, piece)
        })
    }

    /// Copies `from` to `offset`; `None` unless there is room for it inside. Never blocks.
    #[must_use]
    pub fn write(&self, offset: usize, from: &[u8]) -> Option<()> {
        self.write_by(Way::of(from.len()), offset, from)
    }

    /// As [`Segment::write`], by a way of the caller's choice.
    #[must_use]
    pub fn write_by(&self, way: Way, offset: usize, from: &[u8]) -> Option<()> {
        let to = self.at(offset, from.len())?;
        // SAFETY: as in `read_by`.
        unsafe { copy_raw(way, from.as_ptr(), to.as_ptr(), from.len()) };
        Some(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn content_is_copied_inside_and_refused_outside() {
        let segment = Segment::create("test", 4096).unwrap();
        segment.allocate(0, 4096).unwrap();
        let mut read = [0; 5];
        assert_eq!(segment.write(4091, b"hello"), Some(()));
        assert_eq!(segment.read(4091, &mut read), Some(()));
        assert_eq!(&read, b"hello");
        let content = segment.content(4091, 5).unwrap();
        assert_eq!((content.bytes(), content.chunk(1)), (5, *b"ell"));
        content.read(2, &mut read[..3]);
        assert_eq!(&read, b"llolo");
        assert!(segment.content(4092, 5).is_none());
        assert_eq!(segment.write(4092, b"hello"), None);
        assert_eq!(segment.read(usize::MAX, &mut read), None);
        assert_eq!(segment.offset_of(&read), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "memory that is not there")]
    fn content_that_ends_outside_lies_nowhere() {
        let segment = Segment::create("test", 4096).unwrap();
        let begin = segment.at(0, 4096).unwrap();
        // SAFETY: nobody reads the bytes, some of which are not there.
        let lies_at = |from: usize, bytes: usize| unsafe {
            segment.offset_of(std::slice::from_raw_parts(begin.as_ptr().add(from), bytes))
        };
        assert_eq!([lies_at(0, 4096), lies_at(4091, 5), lies_at(4091, 6)], [Some(0), Some(4091), None]);
    }

    #[test]
    #[should_panic(expected = "it ends before byte 4")]
    fn a_chunk_ends_where_the_content_does() {
        let _: [u8; 2] = Content::of(b"hello").chunk(4);
    }

    #[test]
    fn a_copy_ends_where_the_content_does() {
        let reads = |from: usize, bytes: usize| {
            let read = || Content::of(b"hello").read(from, &mut vec![0; bytes]);
            std::panic::catch_unwind(read).is_ok()
        };
        assert!(reads(0, 5) && reads(4, 1) && reads(5, 0));
        for (from, bytes) in [(0, 6), (1, 5), (5, 1), (6, 0), (usize::MAX, 1)] {
            assert!(!reads(from, bytes), "{bytes} bytes from {from} on");
        }
    }

    #[test]
    fn long_copies_have_every_byte_wherever_they_begin_and_end() {
        let segment = Segment::create("test", 1 << 20).unwrap();
        segment.allocate(0, 1 << 20).unwrap();
        let content: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
        for (from, bytes, place) in
            [(7, 280_001, 9), (0, 65536, 0), (1, 65536, 7), (13, 40_000, 63), (5, 16_385, 64), (3, 130, 1), (0, 0, 5)]
        {
            let from = &content[from..from + bytes];
            let mut read = vec![0; bytes];
            segment.write(place, from).unwrap();
            segment.read(place, &mut read).unwrap();
            assert_eq!(read, from);
            for way in [Way::ThroughCaches, Way::Fetched, Way::PastCaches] {
                read.fill(0);
                segment.write_by(way, place + 3, from).unwrap();
                segment.read_by(way, place + 3, &mut read).unwrap();
                assert_eq!(read, from);
                read.fill(0);
                copy(way, &mut read, from);
                assert_eq!(read, from);
            }
        }
    }
}
