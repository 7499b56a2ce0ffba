//! Memory of a heap that is no message: rings, mail boxes, credits.

use std::sync::Arc;

use deck_sync::fork;

use crate::{HeapMemory, Words};

/// A range of this node's segment that is not a buffer; given back when dropped.
#[derive(Debug)]
pub struct Region {
    heap: Arc<HeapMemory>,
    offset: usize,
    bytes: usize,
    part: usize,
}

impl Region {
    /// The heap has taken the range out of what is free.
    pub(crate) fn taken(heap: Arc<HeapMemory>, offset: usize, bytes: usize, part: usize) -> Region {
        Region { heap, offset, bytes, part }
    }

    /// The part of the heap that it lies in.
    pub(crate) fn part(&self) -> usize {
        self.part
    }

    /// Byte offset in the segment.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its words.
    pub fn words(&self) -> Words {
        Words::in_segment(self.heap.segment(), self.offset, self.bytes / 8).expect("a region lies inside its segment")
    }

    /// The heap it is in.
    pub fn heap(&self) -> &Arc<HeapMemory> {
        &self.heap
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if !fork::is_child() {
            self.heap.give_region(self.offset, self.bytes, self.part);
        }
    }
}
