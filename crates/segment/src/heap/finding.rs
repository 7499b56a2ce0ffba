//! Which buffer is it in which these bytes lie?

use std::sync::Arc;

use deck_sync::atomic::{AtomicU64, Ordering};
use deck_sync::locks::lock;

use super::HeapMemory;
use crate::buffer::{Buffer, BufferName};
use crate::layout::{LINE_WORDS, holder};

impl HeapMemory {
    /// Another share of the buffer of this node in which `content` lies. `None` if it lies in none, or if that is found
    /// out at less cost by copying it: there is no order in which buffers lie. The caller, who holds the buffer, has
    /// the content no longer to itself. Never waits.
    pub fn share_of(self: &Arc<Self>, content: &[u8]) -> Option<Buffer> {
        self.find(content, content.len() / size_of::<(AtomicU64, AtomicU64)>())
    }

    /// The same, however long it takes to find out: a few nanoseconds for each buffer of this node.
    pub fn share_of_at_any_cost(self: &Arc<Self>, content: &[u8]) -> Option<Buffer> {
        self.find(content, usize::MAX)
    }

    /// Looks at the places of `most` buffers at most.
    fn find(self: &Arc<Self>, content: &[u8], most: usize) -> Option<Buffer> {
        let begin = self.segment.offset_of(content)?;
        let own = self.own.as_ref()?;
        let count = lock(&own.blocks).count();
        if count as usize > most {
            return None;
        }
        let wanted = begin..begin + content.len();
        let name = (0..count).find_map(|index| {
            let (offset, capacity) = own.place_of(index)?;
            let is_inside = offset <= wanted.start as u64 && wanted.end as u64 <= offset + capacity;
            is_inside.then_some(BufferName { owner: self.owner.0, seat: self.seat.0, index, offset, capacity })
        })?;
        if !self.holder(name.index).hold(|| self.held.add()) {
            return None;
        }
        // The caller may be wrong about holding it.
        if !self.is_in_use(&name) {
            self.let_go(name.index);
            return None;
        }
        self.lines.get(name.index as usize * LINE_WORDS + holder::SHARES).fetch_add(1, Ordering::Relaxed);
        Some(Buffer::counted(self.clone(), name.index, name.offset as usize, name.capacity as usize, false))
    }
}
