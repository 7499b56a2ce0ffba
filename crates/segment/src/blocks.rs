//! The owner's private tables of its heap: which ranges are allocated, which buffers wait for reuse.
//!
//! Small buffers come in classes (four to a doubling, so at most a quarter is wasted) and keep their range for the next
//! buffer of the class. Large ones are whole pages; when too many of them are idle their memory goes back to the system.
//!
//! Which idle buffer of a class is next depends on its size ([`crate::rest`]): the one that was given back last, or the one
//! that was given back first, and that only when it has rested.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use deck_sync::{Error, ErrorKind, Result};

use crate::extents::Extents;
use crate::heap::HeapUse;
use crate::huge::HUGE;
use crate::layout::{BUFFERS, DATA, HOLDERS, LINE, PAGE};
use crate::rest::Rest;
use crate::{Segment, limits};

/// Buffers above this are whole pages and not kept in classes.
const LARGE: usize = 1 << 20;
/// The least by which the heap grows.
const GROWTH: usize = 256 << 10;
/// Idle large buffers beyond this go back to the system.
const IDLE_MAX: usize = 64 << 20;
/// Pending buffers of a class that are looked at before a new one is made.
const LOOKS: usize = 4;
/// Buffer lines are allocated this many bytes at a time.
const LINES_GROWTH: usize = 64 << 10;

#[derive(Clone, Copy, Debug)]
struct Block {
    offset: usize,
    capacity: usize,
    pending: bool,
    /// What [`Blocks::handed_out`] was when its owner let go of it.
    left_at: u64,
}

#[derive(Debug, Default)]
struct Class {
    /// Those given back first are in front.
    idle: VecDeque<u32>,
    pending: VecDeque<u32>,
}

#[derive(Debug)]
pub struct Blocks {
    segment: Arc<Segment>,
    rest: Rest,
    /// Bytes of all buffers ever handed out that rest after use: the clock of their rest.
    handed_out: u64,
    /// Ranges that are allocated and free.
    ready: Extents,
    /// Ranges that are not allocated.
    holes: Extents,
    allocated: usize,
    held: usize,
    held_buffers: usize,
    lines_allocated: usize,
    blocks: Vec<Block>,
    unused_indexes: Vec<u32>,
    classes: Vec<Class>,
    idle_large: BTreeSet<(usize, u32)>,
    idle_large_bytes: usize,
    pending_large: VecDeque<u32>,
}

/// Class of a size and the capacity of that class: 64, 128, 192, 256, then four steps to a doubling.
fn class_of(bytes: usize) -> (usize, usize) {
    let lines = bytes.div_ceil(LINE);
    if lines <= 4 {
        return (lines - 1, lines * LINE);
    }
    let doubling = (lines - 1).ilog2() as usize;
    let step = 1usize << (doubling - 2);
    let steps = lines.div_ceil(step);
    (doubling * 4 + steps - 9, steps * step * LINE)
}

impl Blocks {
    pub fn new(segment: Arc<Segment>, rest: Rest) -> Blocks {
        let mut holes = Extents::default();
        holes.give(DATA, segment.bytes() - DATA);
        Blocks {
            segment,
            rest,
            handed_out: 0,
            ready: Extents::default(),
            holes,
            allocated: HOLDERS,
            held: 0,
            held_buffers: 0,
            lines_allocated: 0,
            blocks: Vec::new(),
            unused_indexes: Vec::new(),
            classes: Vec::new(),
            idle_large: BTreeSet::new(),
            idle_large_bytes: 0,
            pending_large: VecDeque::new(),
        }
    }

    /// Indexes ever used.
    pub fn count(&self) -> u32 {
        self.blocks.len() as u32
    }

    pub fn usage(&self) -> HeapUse {
        HeapUse { allocated_bytes: self.allocated, held_bytes: self.held, buffers: self.held_buffers }
    }

    /// A buffer for `bytes`: index, offset, capacity. `claim` tells whether a pending buffer is free now and claims it if
    /// so; `freed` is told of each one that was claimed.
    pub fn take(
        &mut self,
        bytes: usize,
        claim: &dyn Fn(u32) -> bool,
        freed: &dyn Fn(u32),
    ) -> Result<(u32, usize, usize)> {
        let index =
            if bytes > LARGE { self.take_large(bytes, claim, freed)? } else { self.take_small(bytes, claim, freed)? };
        let block = self.blocks[index as usize];
        self.held += block.capacity;
        self.held_buffers += 1;
        Ok((index, block.offset, block.capacity))
    }

    fn take_small(&mut self, bytes: usize, claim: &dyn Fn(u32) -> bool, freed: &dyn Fn(u32)) -> Result<u32> {
        let (class, capacity) = class_of(bytes);
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, Class::default);
        }
        if self.rest.is_for(capacity) {
            return self.take_rested(class, capacity, claim, freed);
        }
        if let Some(index) = self.classes[class].idle.pop_back() {
            return Ok(index);
        }
        match self.take_pending(class, claim, freed) {
            Some(index) => Ok(index),
            None => self.new_block(capacity, claim, freed),
        }
    }

    fn take_pending(&mut self, class: usize, claim: &dyn Fn(u32) -> bool, freed: &dyn Fn(u32)) -> Option<u32> {
        for _ in 0..LOOKS.min(self.classes[class].pending.len()) {
            let index = self.classes[class].pending.pop_front()?;
            if claim(index) {
                self.settle(index, freed);
                return Some(index);
            }
            self.classes[class].pending.push_back(index);
        }
        None
    }

    /// The buffer that has rested longest, or a new one as long as none has rested enough. As each one handed out brings the
    /// others nearer to the end of their rest, at most [`Rest::bytes`] become new for that reason.
    fn take_rested(
        &mut self,
        class: usize,
        capacity: usize,
        claim: &dyn Fn(u32) -> bool,
        freed: &dyn Fn(u32),
    ) -> Result<u32> {
        self.handed_out += capacity as u64;
        if let Some(index) = self.take_pending(class, claim, freed) {
            self.classes[class].idle.push_back(index);
        }
        let has_rested = |index: &u32| self.handed_out - self.blocks[*index as usize].left_at > self.rest.bytes() as u64;
        if self.classes[class].idle.front().is_some_and(has_rested) {
            return Ok(self.classes[class].idle.pop_front().expect("there is one in front"));
        }
        self.new_block(capacity, claim, freed).or_else(|error| self.classes[class].idle.pop_front().ok_or(error))
    }

    fn take_large(&mut self, bytes: usize, claim: &dyn Fn(u32) -> bool, freed: &dyn Fn(u32)) -> Result<u32> {
        for _ in 0..self.pending_large.len() {
            let Some(index) = self.pending_large.pop_front() else { break };
            if claim(index) {
                self.settle(index, freed);
                self.shelve(index);
            } else {
                self.pending_large.push_back(index);
            }
        }
        let capacity = bytes.next_multiple_of(PAGE);
        let fits = self.idle_large.range((capacity, 0)..).next().copied();
        match fits.filter(|(size, _)| *size <= capacity + capacity / 4) {
            Some((size, index)) => {
                self.idle_large.remove(&(size, index));
                self.idle_large_bytes -= size;
                Ok(index)
            }
            None => self.new_block(capacity, claim, freed),
        }
    }

    fn new_block(&mut self, capacity: usize, claim: &dyn Fn(u32) -> bool, freed: &dyn Fn(u32)) -> Result<u32> {
        let offset = self.take_range(capacity, claim, freed)?;
        self.held -= capacity;
        let block = Block { offset, capacity, pending: false, left_at: 0 };
        if let Some(index) = self.unused_indexes.pop() {
            self.blocks[index as usize] = block;
            return Ok(index);
        }
        let index = self.blocks.len();
        let give_back = |blocks: &mut Blocks, error: Error| {
            blocks.ready.give(offset, capacity);
            Err(error)
        };
        if index >= BUFFERS {
            return give_back(
                self,
                Error::new(ErrorKind::NoMemory, format!("this node holds {BUFFERS} messages at a time"))
                    .with_remedy("destroy or clear messages that are no longer needed"),
            );
        }
        if (index + 1) * LINE > self.lines_allocated {
            if let Err(error) = self.segment.allocate(HOLDERS + self.lines_allocated, LINES_GROWTH) {
                return give_back(self, error);
            }
            self.lines_allocated += LINES_GROWTH;
            self.allocated += LINES_GROWTH;
        }
        self.blocks.push(block);
        Ok(index as u32)
    }

    /// A range of `bytes`, growing the heap if need be.
    pub fn take_range(&mut self, bytes: usize, claim: &dyn Fn(u32) -> bool, freed: &dyn Fn(u32)) -> Result<usize> {
        let found = match self.ready.take(bytes) {
            Some(offset) => Some(offset),
            None => match self.grow(bytes) {
                Ok(()) => self.ready.take(bytes),
                Err(error) => {
                    // Before giving up: everything that somebody else has let go of meanwhile.
                    self.sweep(claim, freed);
                    match self.ready.take(bytes) {
                        Some(offset) => Some(offset),
                        None => {
                            return self
                                .grow(bytes)
                                .map_err(|_| error)
                                .and_then(|()| self.ready.take(bytes).ok_or_else(|| self.exhausted(bytes)))
                                .inspect(|_| self.held += bytes);
                        }
                    }
                }
            },
        };
        let offset = found.ok_or_else(|| self.exhausted(bytes))?;
        self.held += bytes;
        Ok(offset)
    }

    fn exhausted(&self, bytes: usize) -> Error {
        let size = limits::size((self.segment.bytes() - DATA) as u64);
        Error::new(ErrorKind::NoMemory, format!("no {bytes} bytes in a row are left in this node's heap of {size}"))
            .with_remedy("free messages, or set DECK_HEAP to more than that")
    }

    fn grow(&mut self, bytes: usize) -> Result<()> {
        let least = bytes.next_multiple_of(PAGE);
        let usual = GROWTH.max((self.allocated / 4).min(16 << 20)).next_multiple_of(PAGE).max(least);
        // A heap that stays small does not take a huge page for its few messages.
        let huge = (self.segment.has_huge_pages() && usual.max(self.allocated) >= HUGE)
            .then(|| (usual.next_multiple_of(HUGE), HUGE));
        // In a tight place the usual growth may be too much where the least is not.
        let mut failed = None;
        for (wanted, align) in huge.into_iter().chain([(usual, PAGE), (least, PAGE)]) {
            let Some(offset) = self.holes.take_lowest(wanted, align) else { continue };
            match self.segment.allocate(offset, wanted) {
                Ok(()) => {
                    self.allocated += wanted;
                    self.ready.give(offset, wanted);
                    return Ok(());
                }
                Err(error) => {
                    self.holes.give(offset, wanted);
                    failed = Some(error);
                }
            }
        }
        Err(failed.unwrap_or_else(|| self.exhausted(bytes)))
    }

    /// Gives a range back.
    pub fn give_range(&mut self, offset: usize, bytes: usize) {
        self.held -= bytes;
        self.ready.give(offset, bytes);
    }

    /// A buffer that nobody holds any more.
    pub fn give(&mut self, index: u32) {
        let block = &mut self.blocks[index as usize];
        if std::mem::take(&mut block.pending) {
            // It came back to us while it was pending: the queue still has it.
            self.classes.iter_mut().for_each(|class| class.pending.retain(|other| *other != index));
            self.pending_large.retain(|other| *other != index);
        }
        self.held -= self.blocks[index as usize].capacity;
        self.held_buffers -= 1;
        self.blocks[index as usize].left_at = self.handed_out;
        self.shelve(index);
    }

    /// A buffer that only other nodes hold.
    pub fn await_others(&mut self, index: u32) {
        let block = &mut self.blocks[index as usize];
        if std::mem::replace(&mut block.pending, true) {
            return;
        }
        block.left_at = self.handed_out;
        if block.capacity > LARGE {
            self.pending_large.push_back(index);
        } else {
            let (class, _) = class_of(block.capacity);
            self.classes[class].pending.push_back(index);
        }
    }

    fn settle(&mut self, index: u32, freed: &dyn Fn(u32)) {
        let block = &mut self.blocks[index as usize];
        block.pending = false;
        self.held -= block.capacity;
        self.held_buffers -= 1;
        freed(index);
    }

    fn shelve(&mut self, index: u32) {
        let block = self.blocks[index as usize];
        if block.capacity <= LARGE {
            let (class, _) = class_of(block.capacity);
            self.classes[class].idle.push_back(index);
        } else if self.idle_large_bytes + block.capacity > IDLE_MAX {
            self.segment.release(block.offset, block.capacity);
            self.allocated -= block.capacity;
            self.holes.give(block.offset, block.capacity);
            self.unused_indexes.push(index);
        } else {
            self.idle_large.insert((block.capacity, index));
            self.idle_large_bytes += block.capacity;
        }
    }

    /// Looks at all pending buffers: those that nobody holds any more become idle.
    pub fn look_at_pending(&mut self, claim: &dyn Fn(u32) -> bool, freed: &dyn Fn(u32)) {
        let mut pending: Vec<u32> = self.pending_large.drain(..).collect();
        self.classes.iter_mut().for_each(|class| pending.extend(class.pending.drain(..)));
        for index in pending {
            if claim(index) {
                self.settle(index, freed);
                self.shelve(index);
            } else {
                self.blocks[index as usize].pending = false;
                self.await_others(index);
            }
        }
    }

    /// Takes apart everything idle or free by now, so that its memory can become something else.
    fn sweep(&mut self, claim: &dyn Fn(u32) -> bool, freed: &dyn Fn(u32)) {
        self.look_at_pending(claim, freed);
        let mut idle: Vec<u32> = std::mem::take(&mut self.idle_large).into_iter().map(|(_, index)| index).collect();
        self.idle_large_bytes = 0;
        self.classes.iter_mut().for_each(|class| idle.extend(class.idle.drain(..)));
        for index in idle {
            let block = self.blocks[index as usize];
            self.ready.give(block.offset, block.capacity);
            self.unused_indexes.push(index);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "a million sizes")]
    fn classes_are_dense_and_waste_at_most_a_quarter() {
        let mut last = (usize::MAX, 0);
        for bytes in 1..=LARGE {
            let (class, capacity) = class_of(bytes);
            assert!(capacity >= bytes && capacity.is_multiple_of(LINE));
            assert!(bytes <= 256 || capacity <= bytes + bytes / 4 + LINE, "{bytes} in {capacity}");
            assert_eq!(class_of(capacity), (class, capacity));
            if class != last.0 {
                assert_eq!(class, last.0.wrapping_add(1), "{bytes}");
                last = (class, capacity);
            }
            assert_eq!(capacity, last.1);
        }
    }
}
