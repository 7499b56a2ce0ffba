//! Memory for what a member gives, where that does not fit into its line.

use std::sync::Arc;

use deck_mudeck::Result;
use deck_segment::Segment;
use deck_segment::content::Way;

use super::Member;

/// Memory that other members will read.
pub struct Contribution {
    pub(super) segment: Arc<Segment>,
    pub(super) offset: usize,
    /// Where others find it.
    pub(super) told: u64,
}

impl Contribution {
    /// Writes at byte `at`. What is larger than was asked for is a bug of the caller.
    pub fn write(&self, way: Way, at: usize, content: &[u8]) {
        let written = self.segment.write_by(way, self.offset + at, content);
        debug_assert!(written.is_some());
    }
}

impl Member {
    /// Memory for a contribution of `bytes` to the next phase: its offset in this node's segment. Where this member may
    /// be ahead of others with it, the phase is open for it.
    ///
    /// # Errors
    /// `NoMemory`.
    pub(super) fn place(&mut self, bytes: usize, is_ahead: bool) -> Result<usize> {
        let (heap, phase) = (self.node.membership().heap(), self.phase + 1);
        match is_ahead {
            true => self.room.take_ahead(heap, phase, bytes),
            false => self.room.take(heap, phase, bytes, self.nodes.len()),
        }
    }

    /// As [`Member::place`], to be written to.
    pub fn room(&mut self, bytes: usize, is_ahead: bool) -> Result<Contribution> {
        let offset = self.place(bytes, is_ahead)?;
        Ok(self.contribution(offset))
    }

    /// What lies at byte `offset` of this node's segment.
    pub(super) fn contribution(&self, offset: usize) -> Contribution {
        Contribution { segment: self.own_segment().clone(), offset, told: offset as u64 }
    }
}
