//! How content leaves a parcel and comes into one: in the words of a slot, as a buffer that is handed over, or copied
//! with its runs behind it.

use std::sync::Arc;

use deck_segment::fabric::Line;
use deck_segment::{Buffer, BufferName, HeapMemory};
use deck_sync::Result;
use deck_sync::atomic::{AtomicU64, Ordering};

use super::{INLINE, Inline, Parcel, Store};
use crate::segment::packed;
use crate::segment::packet::Label;

/// A longer buffer of another node goes back to it when other content is copied into its message: its owner may need
/// the memory, and whoever has the message does not know that it has that still. For shorter ones it would take as long
/// as the copy, or longer, to get a buffer of this node each time.
const FOREIGN_MAX: usize = 64 << 10;

/// Whether `bytes` bytes may be copied into a buffer that has other content.
#[inline]
fn is_for_copies(buffer: &Buffer, bytes: usize) -> bool {
    buffer.may_hold(bytes) && (buffer.capacity() <= FOREIGN_MAX || buffer.is_own())
}

/// Content of one type that fits into a word. No larger than what a call passes in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Small {
    pub word: u64,
    size: u8,
    pub element: u8,
}

impl Small {
    /// Bytes of it.
    #[inline]
    pub fn size(self) -> usize {
        usize::from(self.size)
    }
}

impl Parcel {
    /// Content of up to [`INLINE`] bytes of one type, in the words of a slot that it lies in.
    #[inline]
    pub(crate) fn set_words<const N: usize>(&mut self, words: &[AtomicU64; N], size: usize, element: u8) {
        if let Store::Buffer(_) = self.store {
            self.give_up_buffer();
        }
        if let Store::Inline(inline) = &mut self.store {
            let used = if size <= size_of::<u64>() { 1 } else { N };
            // Word by word from there to here: over a line on the stack the processor would wait for its own stores.
            for (word, source) in inline.0.iter_mut().zip(&words[..used]) {
                // Relaxed: ordered by the acquire of the last word.
                *word = source.load(Ordering::Relaxed);
            }
        }
        (self.size, self.element, self.runs) = (size, element, 0);
    }

    /// On its own, so that what has none is emptied or replaced without a stack frame.
    #[cold]
    #[inline(never)]
    pub(super) fn give_up_buffer(&mut self) {
        self.store = Store::Inline(Inline::default());
        self.aside.drop();
    }

    /// The content, if it is of one type and fits into a word; what is behind [`Parcel::size`] is anything.
    #[inline]
    pub(crate) fn small(&self) -> Option<Small> {
        let line = self.inline_line().filter(|_| self.size <= packed::BYTES && self.runs == 0)?;
        Some(Small { word: line[0], size: self.size as u8, element: self.element })
    }

    /// Inline content as it would lie in a slot; what is behind [`Parcel::size`] is anything.
    #[inline]
    pub(crate) fn inline_line(&self) -> Option<&Line> {
        match &self.store {
            Store::Inline(inline) => Some(&inline.0),
            Store::Buffer(_) => None,
        }
    }

    /// A buffer of `heap` is handed over, in place of the content.
    ///
    /// # Errors
    /// As [`HeapMemory::receive`]; nothing has changed then.
    #[inline]
    pub(crate) fn receive(&mut self, label: &Label, name: &BufferName, heap: &Arc<HeapMemory>) -> Result<()> {
        match &mut self.store {
            Store::Buffer(buffer) if Arc::ptr_eq(buffer.heap(), heap) => buffer.receive_again(name)?,
            store => {
                *store = Store::Buffer(heap.receive(name)?);
                self.aside.drop();
            }
        }
        (self.size, self.element, self.runs) = (label.size as usize, label.element, label.runs as usize);
        Ok(())
    }

    /// A buffer that was handed over.
    pub(crate) fn set_buffer(&mut self, buffer: Buffer, size: usize, element: u8, runs: usize) {
        self.store = Store::Buffer(buffer);
        self.aside.drop();
        (self.size, self.element, self.runs) = (size, element, runs);
    }

    /// Writes content and, at the next multiple of 8, runs in the order in which they lie in memory.
    pub(crate) fn collect(&self, into: &mut [u8]) {
        into[..self.size].copy_from_slice(self.bytes());
        let from = self.size.next_multiple_of(8);
        for (place, index) in (0..self.runs).rev().enumerate() {
            // SAFETY: as in `run`.
            let word = unsafe { self.run_address(index).read() };
            into[from + 8 * place..from + 8 * place + 8].copy_from_slice(&word.to_ne_bytes());
        }
    }

    /// Where content and runs lie in the order in which they travel: where they are if there are no runs, otherwise in
    /// `memory`, into which they are written and which has room for them.
    pub(crate) fn collected(&self, memory: &mut [u8]) -> *const u8 {
        if self.runs == 0 {
            return self.data().as_ptr();
        }
        self.collect(memory);
        memory.as_ptr()
    }

    /// Copies content of one type into the memory that is here, if it has room and nobody shares it.
    ///
    /// # Safety
    /// `data` points to as many readable bytes as the label says.
    #[inline]
    pub(crate) unsafe fn copy_in_place(&mut self, label: &Label, data: *const u8) -> bool {
        let size = label.size as usize;
        let fits = match &self.store {
            Store::Inline(_) => size <= INLINE,
            Store::Buffer(buffer) => is_for_copies(buffer, size),
        };
        if label.runs != 0 || !fits {
            return false;
        }
        // SAFETY: the memory has room for `size` bytes and is nobody else's; `data` is readable (caller). If a peer has
        // named a buffer there they overlap, and content alone is spoilt.
        unsafe { std::ptr::copy(data, self.data_mut().as_ptr(), size) };
        (self.size, self.element, self.runs) = (size, label.element, 0);
        true
    }

    /// Copies content and runs that travelled together, into memory of this node.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`](deck_sync::ErrorKind::NoMemory); nothing has changed then.
    ///
    /// # Safety
    /// `data` points to as many readable bytes as the label says.
    pub(crate) unsafe fn copy_collected(
        &mut self,
        label: &Label,
        data: *const u8,
        heap: &Arc<HeapMemory>,
    ) -> Result<()> {
        let (size, runs) = (label.size as usize, label.runs as usize);
        // SAFETY: `data` is readable (caller).
        if unsafe { self.copy_in_place(label, data) } {
            return Ok(());
        }
        // What was in the parcel is replaced: only its memory is of use, and only if nobody shares it.
        let mut target = Parcel::default();
        if self.buffer().is_some_and(|buffer| is_for_copies(buffer, 0)) {
            std::mem::swap(&mut target.store, &mut self.store);
        }
        if let Err(error) = target.detach(heap, size, runs) {
            if target.buffer().is_some() {
                std::mem::swap(&mut target.store, &mut self.store);
            }
            return Err(error);
        }
        let end = target.end() - 8 * runs;
        // SAFETY: `detach` made room for content and runs; `data` is readable (caller), and other memory unless a peer
        // has named a buffer there.
        unsafe {
            std::ptr::copy(data, target.data_mut().as_ptr(), size);
            let from = data.add(if runs == 0 { size } else { size.next_multiple_of(8) });
            std::ptr::copy(from, target.data_mut().as_ptr().add(end), 8 * runs);
        }
        (target.size, target.element, target.runs) = (size, label.element, runs);
        *self = target;
        Ok(())
    }
}
