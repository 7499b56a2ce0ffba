//! The content of a message: bytes in front, element types behind.
//!
//! Content up to [`INLINE`] bytes lives in the parcel itself; more lives in a library buffer that can be handed over.
//! As long as all elements have one type, that type is a field of the parcel. With a second type, *runs* (type and
//! bytes of consecutive elements of one type) are written at the end of the same memory, growing downwards, so that
//! they travel with the buffer:
//!
//! ```text
//! 0        size                 capacity - 8 * runs      capacity
//! | content | free              | last run ... first run |
//! ```

mod aside;
mod short;
mod travel;

use std::ptr::NonNull;
use std::sync::Arc;

use deck_segment::content;
use deck_segment::fabric::Line;
use deck_segment::{Buffer, HeapMemory};
use deck_sync::{Error, ErrorKind, Result, fork};

use crate::segment::packet::RUNS_MAX;

use aside::Aside;
use short::copy_short;
pub(crate) use travel::Small;

/// The most bytes of content that need no buffer; what one line of a slot can carry.
pub const INLINE: usize = 62;
/// The most bytes that inline content and its runs may take, so that they fit into a line with their types.
const INLINE_MIXED: usize = 56;
/// The shortest copy for which the content is fetched: a program that takes out element after element would fetch each
/// line many times.
const FETCHED_FROM: usize = 256;
/// Element code of content with several types.
pub const MIXED: u8 = 255;
/// Element code of raw bytes.
pub const BYTES: u8 = 1;

#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Inline(Line);

#[derive(Clone, Debug)]
enum Store {
    Inline(Inline),
    Buffer(Buffer),
}

/// Content with its element types. Cloning shares a buffer; changing a shared one copies it first.
#[derive(Clone, Debug)]
pub struct Parcel {
    store: Store,
    size: usize,
    element: u8,
    runs: usize,
    aside: Aside,
}

/// A run: consecutive elements of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Code of the element type.
    pub element: u8,
    /// Bytes of all its elements.
    pub bytes: usize,
}

impl Run {
    const BYTES_BITS: u32 = 56;

    fn to_word(self) -> u64 {
        u64::from(self.element) << Self::BYTES_BITS | self.bytes as u64
    }

    fn from_word(word: u64) -> Run {
        Run { element: (word >> Self::BYTES_BITS) as u8, bytes: (word & ((1 << Self::BYTES_BITS) - 1)) as usize }
    }
}

impl Default for Parcel {
    fn default() -> Parcel {
        Parcel { store: Store::Inline(Inline::default()), size: 0, element: BYTES, runs: 0, aside: Aside::default() }
    }
}

impl Parcel {
    /// Gives an empty parcel room for `bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`]; it is as before then.
    pub fn set_capacity(&mut self, bytes: usize, heap: &Arc<HeapMemory>) -> Result<()> {
        if bytes > INLINE {
            self.store = Store::Buffer(heap.allocate(bytes)?);
        }
        Ok(())
    }

    /// Bytes of content.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Code of the type of all elements, or [`MIXED`].
    pub fn element(&self) -> u8 {
        self.element
    }

    /// How many runs there are; 0 while all elements have one type.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Bytes of memory, runs included.
    pub fn capacity(&self) -> usize {
        match &self.store {
            Store::Inline(_) => INLINE,
            Store::Buffer(buffer) => buffer.capacity(),
        }
    }

    /// Where runs end.
    fn end(&self) -> usize {
        match &self.store {
            Store::Inline(_) => 64,
            Store::Buffer(buffer) => buffer.capacity(),
        }
    }

    /// The buffer, if the content is in one.
    pub fn buffer(&self) -> Option<&Buffer> {
        match &self.store {
            Store::Inline(_) => None,
            Store::Buffer(buffer) => Some(buffer),
        }
    }

    /// Address of the content, 64-byte aligned, valid until the parcel is changed, moved or dropped.
    pub fn data(&self) -> NonNull<u8> {
        match &self.store {
            Store::Inline(inline) => NonNull::from(&inline.0).cast(),
            Store::Buffer(buffer) => buffer.data(),
        }
    }

    /// As [`Parcel::data`], for writing.
    fn data_mut(&mut self) -> NonNull<u8> {
        match &mut self.store {
            Store::Inline(inline) => NonNull::from(&mut inline.0).cast(),
            Store::Buffer(buffer) => buffer.data(),
        }
    }

    /// The content. The nodes of a job are trusted not to change what they posted (DESIGN, promise 9).
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `size` bytes from `data` lie inside the inline array or the buffer (checked on receipt), are
        // allocated, and change only through `&mut self` or after the buffer was found not to be shared.
        unsafe { std::slice::from_raw_parts(self.data().as_ptr(), self.size) }
    }

    /// Fetches `bytes` bytes of the content from byte `from` on, or what there is of them: for whoever reads all of
    /// these.
    pub fn fetch(&self, from: usize, bytes: usize) {
        if let Store::Buffer(buffer) = &self.store {
            let from = from.min(self.size);
            let bytes = bytes.min(self.size - from);
            // A last element that is taken out alone is not fetched.
            buffer.fetch(from, bytes, self.size - (from + bytes) < FETCHED_FROM);
        }
    }

    /// Copies what begins at byte `from` into `into`, and fetches it on the way if it is worth it.
    ///
    /// # Panics
    /// If there is less.
    #[inline]
    pub fn read(&self, from: usize, into: &mut [u8]) {
        let bytes = &self.bytes()[from..from + into.len()];
        if into.len() < FETCHED_FROM {
            // SAFETY: both are as long, and a slice that is written is no other one.
            unsafe { copy_short(bytes.as_ptr(), into.as_mut_ptr(), into.len()) };
            return;
        }
        for (index, (to, piece)) in into.chunks_mut(content::FETCHED).zip(bytes.chunks(content::FETCHED)).enumerate() {
            self.fetch(from + index * content::FETCHED, piece.len());
            to.copy_from_slice(piece);
        }
    }

    /// The content for writing; copied first if anybody else shares it.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`]; nothing has changed then.
    #[inline]
    pub fn edit(&mut self, heap: &Arc<HeapMemory>) -> Result<&mut [u8]> {
        if !self.is_open_to(self.size) {
            self.detach(heap, self.size, self.runs)?;
        }
        // SAFETY: as in `bytes`, and nobody else shares the memory.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.data_mut().as_ptr(), self.size) })
    }

    /// Empties the parcel; its memory is kept for new content unless somebody else shares it.
    #[inline]
    pub fn clear(&mut self) {
        // A buffer of another node goes back to it.
        if self.buffer().is_some_and(|buffer| buffer.is_shared() || !buffer.is_own()) {
            self.give_up_buffer();
        }
        (self.size, self.element, self.runs) = (0, BYTES, 0);
    }

    /// Makes the content `bytes` raw bytes, undefined.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`]; nothing has changed then.
    #[inline]
    pub fn resize(&mut self, bytes: usize, heap: &Arc<HeapMemory>) -> Result<()> {
        if !self.is_open_to(bytes) {
            self.make_room(bytes, heap)?;
        }
        (self.size, self.element, self.runs) = (bytes, BYTES, 0);
        Ok(())
    }

    /// Whether `bytes` bytes of content may be written with nothing to be done before: the short way of most messages.
    /// What it takes stands between a message that has come and its answer, and counts twice where that no longer fits
    /// into what the processor does ahead: `docs/design/019-batons.md`.
    #[inline]
    fn is_open_to(&self, bytes: usize) -> bool {
        match &self.store {
            Store::Inline(_) => bytes <= INLINE,
            Store::Buffer(buffer) => !buffer.has_travelled() && buffer.may_hold(bytes) && !fork::is_child(),
        }
    }

    /// Memory of its own for `bytes` bytes of new content.
    #[inline(never)]
    fn make_room(&mut self, bytes: usize, heap: &Arc<HeapMemory>) -> Result<()> {
        fork::check()?;
        self.let_rest(bytes, heap);
        match &self.store {
            Store::Buffer(buffer) if buffer.may_hold(bytes) => {
                buffer.renew();
                return Ok(());
            }
            _ => self.aside.drop(),
        }
        self.store =
            if bytes <= INLINE { Store::Inline(Inline::default()) } else { Store::Buffer(heap.allocate(bytes)?) };
        Ok(())
    }

    /// Content is about to be replaced as a whole: puts another buffer in place of one that others have read and that
    /// had better rest or be fetched back. Nothing changes if there is none to be had.
    fn let_rest(&mut self, bytes: usize, heap: &Arc<HeapMemory>) {
        if let Store::Buffer(buffer) = &mut self.store
            && buffer.wants_change()
            && bytes <= buffer.capacity()
            && bytes > INLINE
            && !self.aside.change(buffer, bytes)
        {
            // What is aside will come back, and this one is free.
            if self.aside.is_there() && !buffer.wants_rest() && !buffer.is_shared() {
                return;
            }
            match heap.allocate(buffer.capacity()) {
                Ok(other) => self.aside.put(std::mem::replace(buffer, other)),
                Err(_) => _ = buffer.is_shared() && self.aside.change_anyhow(buffer, bytes),
            }
        }
    }

    /// Appends `bytes` bytes of elements with code `element`.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`]; [`ErrorKind::TooLarge`] for more bytes or runs than a message may have. Nothing has
    /// changed then.
    ///
    /// # Safety
    /// `data` points to `bytes` readable bytes, or is anything if `bytes` is 0.
    #[inline]
    pub unsafe fn append(&mut self, element: u8, data: *const u8, bytes: usize, heap: &Arc<HeapMemory>) -> Result<()> {
        // Most messages are short and of one type.
        let goes_on = self.goes_on_with(element);
        if let Store::Inline(inline) = &mut self.store
            && goes_on
            && (1..=INLINE - self.size).contains(&bytes)
        {
            // SAFETY: the line has room for `bytes` bytes behind `size`; `data` is readable (caller), and what the
            // parcel holds itself ends before that.
            unsafe { copy_short(data, inline.0.as_mut_ptr().cast::<u8>().add(self.size), bytes) };
            (self.size, self.element) = (self.size + bytes, element);
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.append_any(element, data, bytes, heap) }
    }

    /// Whether all content is of one type after an element with this code, too.
    #[inline]
    fn goes_on_with(&self, element: u8) -> bool {
        self.runs == 0 && (self.size == 0 || self.element == element)
    }

    /// [`Parcel::append`] of whatever it is.
    ///
    /// # Safety
    /// As there.
    unsafe fn append_any(&mut self, element: u8, data: *const u8, bytes: usize, heap: &Arc<HeapMemory>) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let too_large = || Error::new(ErrorKind::TooLarge, format!("packing {bytes} bytes onto {}", self.size));
        let size = self.size.checked_add(bytes).filter(|size| *size < 1 << 48).ok_or_else(too_large)?;
        if self.goes_on_with(element) && self.is_open_to(size) {
            // SAFETY: there is room for `size` bytes that nobody else shares; `data` is readable (caller), and what the
            // parcel holds itself ends before that.
            unsafe { content::copy_packed(data, self.data_mut().as_ptr().add(self.size), bytes) };
            (self.size, self.element) = (size, element);
            return Ok(());
        }
        let last = self.run(self.run_count().saturating_sub(1));
        let (runs, is_new_type) = match last {
            None => (0, false),
            Some(last) if last.element == element => (self.runs, false),
            Some(_) => (self.runs.max(1) + 1, true),
        };
        if runs > RUNS_MAX as usize {
            return Err(Error::new(ErrorKind::TooLarge, format!("changing the element type {RUNS_MAX} times"))
                .with_remedy("pack elements of one type one after the other, or send it in parts"));
        }
        let was_empty = last.is_none();
        // Content packed onto itself moves with the content.
        let inside = (data as usize).wrapping_sub(self.data().as_ptr() as usize);
        let is_own = inside < self.size && bytes <= self.size - inside;
        self.detach(heap, size, runs)?;
        let data = if is_own { self.data().as_ptr().wrapping_add(inside).cast_const() } else { data };
        // SAFETY: `detach` made room for `size` bytes that nobody else shares, and moved the content with its own
        // bytes, which end before the room begins; `data` is readable (caller).
        unsafe { content::copy_packed(data, self.data_mut().as_ptr().add(self.size), bytes) };
        if is_new_type {
            if self.runs == 0 {
                self.write_run(0, Run { element: self.element, bytes: self.size });
            }
            self.write_run(runs - 1, Run { element, bytes });
            self.element = MIXED;
            self.runs = runs;
        } else if self.runs > 0 {
            let last = Run { element, bytes: last.map_or(0, |last| last.bytes) + bytes };
            self.write_run(self.runs - 1, last);
        } else if was_empty {
            self.element = element;
        }
        self.size = size;
        Ok(())
    }

    /// How many runs a reader sees: one for content of one type, none for no content.
    pub fn run_count(&self) -> usize {
        if self.size == 0 { 0 } else { self.runs.max(1) }
    }

    /// Run `index`, or `None` past the last. Element codes and bytes may be anything if a peer wrote nonsense: the
    /// reader checks them against [`Parcel::size`].
    pub fn run(&self, index: usize) -> Option<Run> {
        if index >= self.run_count() {
            None
        } else if self.runs == 0 {
            Some(Run { element: self.element, bytes: self.size })
        } else {
            // SAFETY: `runs` words lie between content and end (checked on receipt and in `detach`), 8-byte aligned as
            // the end is a multiple of 8.
            Some(Run::from_word(unsafe { self.run_address(index).read() }))
        }
    }

    fn run_address(&self, index: usize) -> *mut u64 {
        let offset = self.end() - 8 * (index + 1);
        // SAFETY: inside the memory of the parcel, see `run`.
        unsafe { self.data().as_ptr().add(offset).cast() }
    }

    fn write_run(&mut self, index: usize, run: Run) {
        // SAFETY: `detach` made room for the run in memory that nobody else shares.
        unsafe {
            let offset = self.end() - 8 * (index + 1);
            self.data_mut().as_ptr().add(offset).cast::<u64>().write(run.to_word());
        }
    }

    /// Bytes of memory that content and runs need.
    pub fn needed(size: usize, runs: usize) -> usize {
        if runs == 0 { size } else { size.next_multiple_of(8) + 8 * runs }
    }

    /// Makes sure that nobody else shares the memory and that it has room for `size` bytes and `runs` runs.
    #[inline(never)]
    fn detach(&mut self, heap: &Arc<HeapMemory>, size: usize, runs: usize) -> Result<()> {
        fork::check()?;
        let needed = Parcel::needed(size, runs);
        if self.size == 0 {
            self.let_rest(needed, heap);
        }
        match &self.store {
            Store::Inline(_) if needed <= if runs == 0 { INLINE } else { INLINE_MIXED } => Ok(()),
            Store::Buffer(buffer) if buffer.may_hold(needed) => {
                buffer.renew();
                Ok(())
            }
            _ => self.move_away(heap, size, needed),
        }
    }

    /// Moves to memory of its own with room for `needed` bytes, of which `size` are content.
    fn move_away(&mut self, heap: &Arc<HeapMemory>, size: usize, needed: usize) -> Result<()> {
        self.aside.drop();
        // Growing by halves keeps packing piece by piece linear; an exact fit is better for what will not grow.
        let capacity = if size > self.size { needed.max(self.capacity() + self.capacity() / 2) } else { needed };
        let buffer = match heap.allocate(capacity) {
            // What would be spare is not there; what is needed may be.
            Err(error) if error.kind() == ErrorKind::NoMemory && capacity > needed => heap.allocate(needed)?,
            result => result?,
        };
        let new_end = buffer.capacity();
        // SAFETY: the new buffer has room for `needed` bytes and is not shared; the old memory holds `self.size` bytes
        // and `self.runs` runs at its end; the two are different memory.
        unsafe {
            content::copy_packed(self.data().as_ptr(), buffer.data().as_ptr(), self.size);
            let bytes = 8 * self.runs;
            let (from, to) =
                (self.data().as_ptr().add(self.end() - bytes), buffer.data().as_ptr().add(new_end - bytes));
            std::ptr::copy_nonoverlapping(from, to, bytes);
        }
        self.store = Store::Buffer(buffer);
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
