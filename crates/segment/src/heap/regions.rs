//! Memory of a heap that is no buffer: see [`Region`].

use std::sync::Arc;

use deck_sync::Result;
use deck_sync::atomic::Ordering;

use super::HeapMemory;
use crate::Region;
use crate::layout::{LINE, SLOT};

impl HeapMemory {
    /// A zeroed region of `bytes` for a ring or a mail box, at a multiple of [`SLOT`], near to the calling thread. Only
    /// in the owner.
    ///
    /// # Errors
    /// [`NoMemory`](deck_sync::ErrorKind::NoMemory) with the remedy.
    pub fn region(self: &Arc<Self>, bytes: usize) -> Result<Region> {
        self.region_in(bytes, self.own.as_ref().map_or(0, |own| own.numa.here()))
    }

    /// As [`HeapMemory::region`], on the NUMA node that `other` lies on.
    ///
    /// # Errors
    /// As [`HeapMemory::region`].
    pub fn region_near(self: &Arc<Self>, bytes: usize, other: &Region) -> Result<Region> {
        self.region_in(bytes, other.part())
    }

    pub(super) fn region_in(self: &Arc<Self>, bytes: usize, part: usize) -> Result<Region> {
        self.check_size(bytes, "set DECK_HEAP to more")?;
        let bytes = bytes.next_multiple_of(LINE);
        let (offset, part) = self.or_with_reserve(|| {
            self.take_growing(|_, blocks, supply| {
                // Two lines that a processor fetches together are to be one slot.
                let (taken, part) = blocks.take_range(bytes + LINE, part, supply)?;
                let offset = taken.next_multiple_of(SLOT);
                blocks.give_range(if offset == taken { offset + bytes } else { taken }, LINE, part);
                Ok((offset, part))
            })
        })?;
        let region = Region::taken(self.clone(), offset, bytes, part);
        let words = region.words();
        (0..words.count()).for_each(|word| words.get(word).store(0, Ordering::Relaxed));
        Ok(region)
    }

    /// A region goes.
    pub(crate) fn give_region(&self, offset: usize, bytes: usize, part: usize) {
        if let Ok((_, mut blocks)) = self.blocks() {
            blocks.give_range(offset, bytes, part);
        }
    }
}
