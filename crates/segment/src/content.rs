//! Bulk content of a segment, copied in and out.
//!
//! For bytes that a protocol guards: whoever writes them is done, and has said so with release, before anybody reads them,
//! and nobody writes again before all readers are done. Content is trusted, places are not: an offset from another node
//! leads to `None`, never outside.
//!
//! Long copies go past the caches (non-temporal stores) unless whoever copies knows better: to fetch lines that will be
//! overwritten, and later to take them out of another core's cache, costs more than memory does. From 16 KiB on that was faster
//! for messages on every machine it was tried on, and ten times where two cores share no cache. Where they share one, what
//! several read right afterwards is found there twice as fast as in memory.

use crate::Segment;

/// Copies of so many bytes and more go past the caches.
pub const STREAM_FROM: usize = 16 << 10;

/// The way of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By ordinary stores: the copy is in the caches afterwards.
    ThroughCaches,
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

/// # Safety
/// `from` can be read and `to` be written for `bytes` bytes. Where they overlap, what is written is not told.
unsafe fn copy_raw(way: Way, from: *const u8, to: *mut u8, bytes: usize) {
    match way {
        // SAFETY: as the caller promises.
        Way::PastCaches => unsafe { stream_raw(from, to, bytes) },
        // SAFETY: as the caller promises.
        Way::ThroughCaches => unsafe { std::ptr::copy(from, to, bytes) },
    }
}

/// # Safety
/// As [`copy_raw`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn stream_raw(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LINE: usize = 64;
    let head = to.align_offset(LINE).min(bytes);
    let lines = (bytes - head) / LINE;
    // SAFETY: all addresses are inside the caller's `bytes` bytes. Streaming stores want multiples of 16: `to + head` is one of 64.
    // The fence at the end orders them before every later store of this thread, so that a release publishes them.
    unsafe {
        std::ptr::copy(from, to, head);
        let (mut source, mut target) = (from.add(head).cast::<__m128i>(), to.add(head).cast::<__m128i>());
        for _ in 0..lines {
            let [a, b, c, d] = [0, 1, 2, 3].map(|quarter| _mm_loadu_si128(source.add(quarter)));
            _mm_stream_si128(target, a);
            _mm_stream_si128(target.add(1), b);
            _mm_stream_si128(target.add(2), c);
            _mm_stream_si128(target.add(3), d);
            (source, target) = (source.add(4), target.add(4));
        }
        _mm_sfence();
        let done = head + lines * LINE;
        std::ptr::copy(from.add(done), to.add(done), bytes - done);
    }
}

/// # Safety
/// As [`copy_raw`].
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn stream_raw(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { std::ptr::copy(from, to, bytes) }
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
    pub fn content(&self, offset: usize, bytes: usize) -> Option<&[u8]> {
        let from = self.at(offset, bytes)?;
        // SAFETY: `from` is inside the mapping, which lives as long as this segment, for `bytes` bytes. That nobody writes meanwhile is
        // the protocol's matter; a peer that does, or that tells a place where the caller writes, spoils content only, which has
        // no invalid values.
        Some(unsafe { std::slice::from_raw_parts(from.as_ptr(), bytes) })
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
        // SAFETY: `from` is inside the live mapping for `into.len()` bytes; `into` is borrowed exclusively, and where it is a part
        // of this segment, such as the content of a message, that is told to nobody else; that nobody writes meanwhile is the
        // protocol's matter, and a peer that does spoils content only.
        unsafe { copy_raw(way, from.as_ptr(), into.as_mut_ptr(), into.len()) };
        Some(())
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
        assert_eq!(segment.content(4091, 5), Some(&b"hello"[..]));
        assert_eq!(segment.content(4092, 5), None);
        assert_eq!(segment.write(4092, b"hello"), None);
        assert_eq!(segment.read(usize::MAX, &mut read), None);
        assert_eq!(segment.offset_of(&read), None);
    }

    #[test]
    fn long_copies_have_every_byte_wherever_they_begin_and_end() {
        let segment = Segment::create("test", 1 << 20).unwrap();
        segment.allocate(0, 1 << 20).unwrap();
        let content: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
        for (from, bytes, place) in
            [(0, 65536, 0), (1, 65536, 7), (13, 40_000, 63), (5, 16_385, 64), (3, 130, 1), (0, 0, 5)]
        {
            let from = &content[from..from + bytes];
            let mut read = vec![0; bytes];
            segment.write(place, from).unwrap();
            segment.read(place, &mut read).unwrap();
            assert_eq!(read, from);
            for way in [Way::ThroughCaches, Way::PastCaches] {
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
