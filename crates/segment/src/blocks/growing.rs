//! Where the ranges of buffers come from: what is allocated and free, and the heap as it grows.

use deck_sync::atomic::Ordering;
use deck_sync::{Error, ErrorKind, Result};

use super::Blocks;
use crate::huge::HUGE;
use crate::layout::{DATA, LINE_WORDS, PAGE, header};
use crate::{MemoryFacts, Words, limits};

/// The least by which the heap grows.
const GROWTH: usize = 256 << 10;

impl Blocks {
    /// A range of `bytes` in `part`, growing the heap if need be, or in another part if there is no other way: its
    /// offset and where it lies.
    pub fn take_range(&mut self, bytes: usize, part: usize, claim: &dyn Fn(u32) -> bool) -> Result<(usize, usize)> {
        let found = match self.parts[part].ready.take(bytes) {
            Some(offset) => (offset, part),
            None => match self.grow(bytes, part) {
                Ok(()) => self.take_ready(bytes, part).ok_or_else(|| self.exhausted(bytes))?,
                Err(error) => {
                    // Before giving up: everything that somebody else has let go of meanwhile.
                    self.sweep(claim);
                    match self.take_ready(bytes, part) {
                        Some(found) => found,
                        None => {
                            self.grow(bytes, part).map_err(|_| error)?;
                            self.take_ready(bytes, part).ok_or_else(|| self.exhausted(bytes))?
                        }
                    }
                }
            },
        };
        self.held += bytes;
        Ok(found)
    }

    /// From `part` first, then from any.
    fn take_ready(&mut self, bytes: usize, part: usize) -> Option<(usize, usize)> {
        let others = (0..self.parts.len()).filter(|other| *other != part);
        std::iter::once(part).chain(others).find_map(|part| Some((self.parts[part].ready.take(bytes)?, part)))
    }

    pub(super) fn exhausted(&self, bytes: usize) -> Error {
        let size = limits::size((self.segment.bytes() - DATA) as u64);
        Error::new(ErrorKind::NoMemory, format!("no {bytes} bytes in a row are left in this node's heap of {size}"))
            .with_remedy("free messages, or set DECK_HEAP to more than that")
    }

    fn grow(&mut self, bytes: usize, part: usize) -> Result<()> {
        let least = bytes.next_multiple_of(PAGE);
        let usual = GROWTH.max((self.allocated / 4).min(16 << 20)).next_multiple_of(PAGE).max(least);
        // A heap that stays small does not take a huge page for its few messages.
        let huge = (self.segment.has_huge_pages() && usual.max(self.allocated) >= HUGE)
            .then(|| (usual.next_multiple_of(HUGE), HUGE));
        // In a tight place the usual growth may be too much where the least is not.
        let mut failed = None;
        for (wanted, align) in huge.into_iter().chain([(usual, PAGE), (least, PAGE)]) {
            let Some(offset) = self.holes.take_lowest(wanted, align) else { continue };
            match self.allocate(offset, wanted, part) {
                Ok(()) => {
                    self.allocated += wanted;
                    self.parts[part].ready.give(offset, wanted);
                    return Ok(());
                }
                Err(error) => {
                    // Some of it may have been there.
                    self.segment.release(offset, wanted);
                    self.holes.give(offset, wanted);
                    failed = Some(error);
                }
            }
        }
        Err(failed.unwrap_or_else(|| self.exhausted(bytes)))
    }

    /// Allocates a range where `part` has its memory, and tells what it is like.
    fn allocate(&self, offset: usize, bytes: usize, part: usize) -> Result<()> {
        let result = self.allocate_near(offset, bytes, part);
        if let Some(words) = Words::in_segment(&self.segment, 0, LINE_WORDS) {
            let huge_pages = self.segment.has_huge_pages() && self.allocated >= HUGE;
            // Relaxed: for people.
            words.get(header::MEMORY).store(MemoryFacts::of(huge_pages, &self.numa).to_word(), Ordering::Relaxed);
        }
        result
    }

    fn allocate_near(&self, offset: usize, bytes: usize, part: usize) -> Result<()> {
        let Some(address) = self.segment.at(offset, bytes).filter(|_| self.numa.binds()) else {
            return self.segment.allocate(offset, bytes);
        };
        self.numa.bind(address, bytes, part);
        self.segment.allocate(offset, bytes)?;
        self.segment.touch(offset, bytes);
        self.numa.verify(address, bytes, part);
        Ok(())
    }

    /// Gives a range of `part` back.
    pub fn give_range(&mut self, offset: usize, bytes: usize, part: usize) {
        self.held -= bytes;
        self.parts[part].ready.give(offset, bytes);
    }
}
