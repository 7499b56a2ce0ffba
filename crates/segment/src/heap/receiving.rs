//! Buffers that other nodes hand over: their names are checked before anything is done with them.

use std::sync::Arc;

use deck_sync::{Error, ErrorKind, Result};

use super::HeapMemory;
use crate::buffer::{Buffer, BufferName};
use crate::layout::{BUFFERS, DATA, LINE, LINE_WORDS};
use crate::prefetch;

/// Bytes of content that are fetched with a buffer: what follows is then fetched ahead by the processor.
const EXPECTED: usize = 4 * LINE;
/// What is wrong with the name of a buffer that its owner has freed.
const NOT_IN_USE: &str = "that is not in use";

impl HeapMemory {
    /// The buffer that another node handed over under `name`; takes the share that was in flight. The caller has not
    /// given the credit back yet.
    ///
    /// Budget: the buffer's line, which the poster has just written, fetched together with the begin of the content;
    /// one line of this node's tables; four locked operations; no lock, no allocation, no system call.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the name does not fit this heap; [`ErrorKind::NoMemory`] if this node has too many
    /// handles of the buffer.
    pub fn receive(self: &Arc<Self>, name: &BufferName) -> Result<Buffer> {
        self.check_name(name)?;
        self.hold_received(name)?;
        Ok(Buffer::counted(self.clone(), name.index, name.offset as usize, name.capacity as usize, true))
    }

    /// Fails if the name does not fit this heap.
    #[inline]
    pub(crate) fn check_name(&self, name: &BufferName) -> Result<()> {
        let corrupt = |what: &str| Err(self.misnamed(name, what));
        let (Ok(offset), Ok(capacity)) = (usize::try_from(name.offset), usize::try_from(name.capacity)) else {
            return corrupt("of impossible size");
        };
        if name.owner != self.owner.0 || name.seat != self.seat.0 || name.index as usize >= BUFFERS {
            return corrupt("that this heap cannot have");
        }
        let inside = offset >= DATA && offset.is_multiple_of(LINE) && self.segment.at(offset, capacity).is_some();
        // Whole lines: the runs of a message lie at the end of its buffer and are read as aligned words.
        if !inside || capacity == 0 || !capacity.is_multiple_of(LINE) {
            return corrupt("outside of the heap");
        }
        if self.is_in_use(name) { Ok(()) } else { corrupt(NOT_IN_USE) }
    }

    #[cold]
    fn misnamed(&self, name: &BufferName, what: &str) -> Error {
        Error::new(ErrorKind::Corrupt, format!("a hand-over names a buffer {what}: {name:?}")).with_peer(self.owner)
    }

    /// False if the owner knows that there is no such buffer now.
    #[inline]
    pub(super) fn is_in_use(&self, name: &BufferName) -> bool {
        self.own.as_ref().is_none_or(|own| own.place_of(name.index) == Some((name.offset, name.capacity)))
    }

    /// One handle more of a buffer that was handed over under a name that was checked. What its receiver will need next
    /// is fetched all at once, instead of one after the other.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if this node has freed it meanwhile: whoever named it did not hold it;
    /// [`ErrorKind::NoMemory`] if it has too many handles of it.
    #[inline]
    pub(crate) fn hold_received(&self, name: &BufferName) -> Result<()> {
        self.check_handles(name.index)?;
        self.lines.prefetch_to_write(name.index as usize * LINE_WORDS);
        self.expect_content(name);
        if !self.holder(name.index).hold(|| self.held.add()) {
            return Err(self.misnamed(name, NOT_IN_USE));
        }
        // It may have been freed and handed out anew since the name was checked; held, it stays what it is.
        if !self.is_in_use(name) {
            self.let_go(name.index);
            return Err(self.misnamed(name, NOT_IN_USE));
        }
        Ok(())
    }

    /// A buffer was handed over: has the begin of its content fetched.
    #[inline]
    pub(crate) fn expect_content(&self, name: &BufferName) {
        for line in (0..(name.capacity as usize).min(EXPECTED)).step_by(LINE) {
            if let Some(address) = self.segment.at(name.offset as usize + line, LINE) {
                prefetch::to_read(address.as_ptr());
            }
        }
    }
}
