//! Bulk content of a segment, copied in and out.
//!
//! For bytes that a protocol guards: whoever writes them is done, and has said so with release, before anybody reads them,
//! and nobody writes again before all readers are done. Content is trusted, places are not: an offset from another node
//! leads to `None`, never outside.

use crate::Segment;

impl Segment {
    /// Where `content` lies in this segment, in bytes from its begin; `None` if it is other memory. Never blocks.
    pub fn offset_of(&self, content: &[u8]) -> Option<usize> {
        let begin = self.at(0, 0)?.addr().get();
        let offset = content.as_ptr().addr().checked_sub(begin)?;
        self.at(offset, content.len()).map(|_| offset)
    }

    /// Copies the bytes at `offset` into `into`; `None` unless they lie inside. Never blocks.
    #[must_use]
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Option<()> {
        let from = self.at(offset, into.len())?;
        // SAFETY: `from` is inside the live mapping for `into.len()` bytes; `into` is borrowed exclusively; `copy` because
        // that may be a part of this segment, such as the content of a message; that nobody writes meanwhile is the protocol's matter, and a peer that does spoils content only.
        unsafe { std::ptr::copy(from.as_ptr(), into.as_mut_ptr(), into.len()) };
        Some(())
    }

    /// Copies `from` to `offset`; `None` unless there is room for it inside. Never blocks.
    #[must_use]
    pub fn write(&self, offset: usize, from: &[u8]) -> Option<()> {
        let to = self.at(offset, from.len())?;
        // SAFETY: as in `read`; `copy` because `from` may be content of this segment too, such as that of a message.
        unsafe { std::ptr::copy(from.as_ptr(), to.as_ptr(), from.len()) };
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
        assert_eq!(segment.write(4092, b"hello"), None);
        assert_eq!(segment.read(usize::MAX, &mut read), None);
        assert_eq!(segment.offset_of(&read), None);
    }
}
