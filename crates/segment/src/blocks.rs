//! The owner's private tables of its heap: which ranges are allocated, which buffers wait for reuse.
//!
//! Small buffers come in classes (four to a doubling, so at most a quarter is wasted) and keep their range for the next
//! buffer of the class. Large ones are whole pages; when too many of them are idle their memory goes back to the
//! system.
//!
//! On a machine with several NUMA nodes there is a part for each of them ([`crate::Numa`]), with ranges, classes and
//! idle buffers of its own; a part that has nothing left takes from the others.
//!
//! Which idle buffer of a class is next depends on its size ([`crate::rest`]): the one that was given back last, or the
//! one that was given back first, and that only when it has rested; but one whose reader had fetched it, before all
//! others.

mod growing;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use deck_sync::atomic::Ordering;
use deck_sync::{Error, ErrorKind};

use crate::extents::Extents;
use crate::heap::HeapUse;
use crate::layout::{BUFFERS, DATA, HOLDERS, LINE, LINE_WORDS, PAGE, holder, readers};
use crate::rest::Rest;
use crate::{Numa, Segment, Words};

pub use growing::{Growth, Lack, Supply};

/// Buffers above this are whole pages and not kept in classes.
const LARGE: usize = 1 << 20;
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
    /// The part of the heap that it lies in.
    part: usize,
    /// What [`Blocks::handed_out`] was when its owner let go of it.
    left_at: u64,
}

/// What belongs to one NUMA node.
#[derive(Debug, Default)]
struct Part {
    /// Ranges that are allocated and free.
    ready: Extents,
    classes: Vec<Class>,
    idle_large: BTreeSet<(usize, u32)>,
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
    /// Those of all buffers.
    lines: Words,
    rest: Rest,
    /// Bytes of all buffers ever handed out that rest after use: the clock of their rest.
    handed_out: u64,
    numa: Arc<Numa>,
    parts: Vec<Part>,
    /// Ranges that are not allocated.
    holes: Extents,
    allocated: usize,
    held: usize,
    held_buffers: usize,
    lines_allocated: usize,
    blocks: Vec<Block>,
    /// The most indexes that there can be.
    indexes_max: usize,
    unused_indexes: Vec<u32>,
    idle_large_bytes: usize,
    pending_large: VecDeque<u32>,
    /// Ranges that the kernel is being asked for.
    growing: usize,
    /// Ranges that are to go back to the system.
    leaving: Vec<(usize, usize)>,
    /// How many of them are on their way.
    on_their_way: usize,
}

/// Is a buffer of this capacity one for so many bytes? Of large ones, up to a quarter is wasted as well.
pub fn is_fit(capacity: usize, bytes: usize) -> bool {
    if bytes <= LARGE {
        return capacity == class_of(bytes).1;
    }
    let least = bytes.next_multiple_of(PAGE);
    (least..=least.saturating_add(least / 4)).contains(&capacity)
}

/// Takes `index` from a queue that it came to only lately, if it is there.
fn remove(queue: &mut VecDeque<u32>, index: u32) -> bool {
    queue.iter().rposition(|other| *other == index).and_then(|at| queue.remove(at)).is_some()
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
    pub fn new(segment: Arc<Segment>, rest: Rest, numa: Arc<Numa>) -> Blocks {
        let mut holes = Extents::default();
        holes.give(DATA, segment.bytes() - DATA);
        let lines = Words::in_segment(&segment, HOLDERS, BUFFERS * LINE_WORDS).expect("a heap has room for its tables");
        Blocks {
            segment,
            lines,
            rest,
            handed_out: 0,
            parts: (0..numa.count()).map(|_| Part::default()).collect(),
            numa,
            holes,
            allocated: HOLDERS,
            held: 0,
            held_buffers: 0,
            lines_allocated: 0,
            blocks: Vec::new(),
            indexes_max: BUFFERS,
            unused_indexes: Vec::new(),
            idle_large_bytes: 0,
            pending_large: VecDeque::new(),
            growing: 0,
            leaving: Vec::new(),
            on_their_way: 0,
        }
    }

    /// Lets there be no more than `indexes_max` buffers at a time.
    #[cfg(all(test, not(loom)))]
    pub fn limit(&mut self, indexes_max: usize) {
        self.indexes_max = indexes_max;
    }

    /// Indexes ever used.
    pub fn count(&self) -> u32 {
        self.blocks.len() as u32
    }

    pub fn usage(&self) -> HeapUse {
        HeapUse { allocated_bytes: self.allocated, held_bytes: self.held, buffers: self.held_buffers }
    }

    /// A buffer for `bytes` in `part`: index, offset, capacity. It is `back` if that fits and nobody has it.
    pub fn take(
        &mut self,
        bytes: usize,
        part: usize,
        back: Option<u32>,
        supply: Supply<'_>,
    ) -> Result<(u32, usize, usize), Lack> {
        let back = back.filter(|index| self.take_this(*index, bytes, part, supply.claim));
        let index = match back {
            Some(index) => index,
            None if bytes > LARGE => self.take_large(bytes, part, supply)?,
            None => self.take_small(bytes, part, supply)?,
        };
        let block = self.blocks[index as usize];
        self.held += block.capacity;
        self.held_buffers += 1;
        Ok((index, block.offset, block.capacity))
    }

    /// Takes this buffer, if it fits, lies in `part`, and nobody has it.
    fn take_this(&mut self, index: u32, bytes: usize, part: usize, claim: &dyn Fn(u32) -> bool) -> bool {
        let is_one = |block: &&Block| is_fit(block.capacity, bytes) && block.part == part;
        let Some(Block { capacity, pending, .. }) = self.blocks.get(index as usize).filter(is_one).copied() else {
            return false;
        };
        if pending {
            let is_free = claim(index);
            if is_free {
                self.forget_pending(index);
                self.settle(index);
            }
            return is_free;
        }
        if capacity > LARGE {
            return self.take_idle_large(part, capacity, index);
        }
        remove(&mut self.class((part, class_of(capacity).0)).idle, index)
    }

    fn take_small(&mut self, bytes: usize, part: usize, supply: Supply<'_>) -> Result<u32, Lack> {
        let (number, capacity) = class_of(bytes);
        if self.rest.is_for(capacity) {
            return self.take_rested((part, number), capacity, supply);
        }
        if let Some(index) = self.class((part, number)).idle.pop_back() {
            return Ok(index);
        }
        match self.take_pending((part, number), supply.claim) {
            Some(index) => Ok(index),
            None => self.new_block(capacity, part, supply),
        }
    }

    fn class(&mut self, (part, number): (usize, usize)) -> &mut Class {
        let classes = &mut self.parts[part].classes;
        if classes.len() <= number {
            classes.resize_with(number + 1, Class::default);
        }
        &mut classes[number]
    }

    fn take_pending(&mut self, class: (usize, usize), claim: &dyn Fn(u32) -> bool) -> Option<u32> {
        for _ in 0..LOOKS.min(self.class(class).pending.len()) {
            let index = self.class(class).pending.pop_front()?;
            if claim(index) {
                self.settle(index);
                return Some(index);
            }
            self.class(class).pending.push_back(index);
        }
        None
    }

    /// The buffer that has rested longest, or a new one as long as none has rested enough.
    fn take_rested(&mut self, class: (usize, usize), capacity: usize, supply: Supply<'_>) -> Result<u32, Lack> {
        self.handed_out += capacity as u64;
        if let Some(index) = self.take_pending(class, supply.claim) {
            self.shelve(index);
        }
        let oldest = self.class(class).idle.front().copied();
        if !oldest.is_some_and(|index| self.was_fetched(index) || self.has_rested(index)) {
            self.dissolve_rested();
            match self.new_block(capacity, class.0, supply) {
                Err(lack @ Lack::Memory(..)) if supply.may_grow => {
                    self.handed_out -= capacity as u64;
                    return Err(lack);
                }
                Err(lack) if oldest.is_none() => return Err(lack),
                Err(_) => {}
                made => return made,
            }
        }
        self.class(class).idle.pop_front().ok_or(Lack::Memory(capacity, class.0))
    }

    fn has_rested(&self, index: u32) -> bool {
        self.handed_out - self.blocks[index as usize].left_at > self.rest.bytes() as u64
    }

    /// True if the last one to read it has fetched it: then it need not rest.
    fn was_fetched(&self, index: u32) -> bool {
        let word = self.lines.get(index as usize * LINE_WORDS + holder::READERS);
        // Relaxed: a hint.
        word.load(Ordering::Relaxed) == readers::FETCHED
    }

    /// Takes apart buffers that have rested and that nobody has asked for since, if there is more idle than rest takes:
    /// a program that goes from one size to another does not keep memory for both.
    fn dissolve_rested(&mut self) {
        let resting = |index: &u32| self.rest.is_for(self.blocks[*index as usize].capacity);
        let idle = self.parts.iter().flat_map(|part| &part.classes).flat_map(|class| &class.idle);
        let idle: Vec<u32> = idle.copied().filter(resting).collect();
        let bytes: usize = idle.iter().map(|index| self.blocks[*index as usize].capacity).sum();
        if bytes <= 2 * self.rest.bytes() {
            return;
        }
        let rested: BTreeSet<u32> = idle.into_iter().filter(|index| self.has_rested(*index)).collect();
        self.classes().for_each(|class| class.idle.retain(|index| !rested.contains(index)));
        for index in rested {
            self.dissolve(index);
        }
    }

    /// An idle buffer becomes a free range.
    fn dissolve(&mut self, index: u32) {
        let block = self.blocks[index as usize];
        self.parts[block.part].ready.give(block.offset, block.capacity);
        self.unused_indexes.push(index);
    }

    fn take_large(&mut self, bytes: usize, part: usize, supply: Supply<'_>) -> Result<u32, Lack> {
        for _ in 0..self.pending_large.len() {
            let Some(index) = self.pending_large.pop_front() else { break };
            if (supply.claim)(index) {
                self.settle(index);
                self.shelve(index);
            } else {
                self.pending_large.push_back(index);
            }
        }
        let capacity = bytes.next_multiple_of(PAGE);
        let fits = self.parts[part].idle_large.range((capacity, 0)..).next().copied();
        match fits.filter(|(size, _)| is_fit(*size, bytes)) {
            Some((size, index)) => {
                self.take_idle_large(part, size, index);
                Ok(index)
            }
            None => self.new_block(capacity, part, supply),
        }
    }

    fn take_idle_large(&mut self, part: usize, capacity: usize, index: u32) -> bool {
        let was_idle = self.parts[part].idle_large.remove(&(capacity, index));
        if was_idle {
            self.idle_large_bytes -= capacity;
        }
        was_idle
    }

    fn new_block(&mut self, capacity: usize, part: usize, supply: Supply<'_>) -> Result<u32, Lack> {
        let (offset, part) = self.take_range(capacity, part, supply)?;
        self.held -= capacity;
        let block = Block { offset, capacity, pending: false, part, left_at: 0 };
        if self.unused_indexes.is_empty() && self.blocks.len() >= self.indexes_max {
            // Before giving up: the indexes of what is idle, or that somebody else has let go of meanwhile.
            self.sweep(supply.claim);
        }
        if let Some(index) = self.unused_indexes.pop() {
            self.blocks[index as usize] = block;
            return Ok(index);
        }
        let index = self.blocks.len();
        let give_back = |blocks: &mut Blocks, error: Error| {
            blocks.parts[part].ready.give(offset, capacity);
            Err(Lack::Error(error))
        };
        if index >= self.indexes_max {
            return give_back(
                self,
                Error::new(ErrorKind::NoMemory, format!("this node holds {} messages at a time", self.indexes_max))
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

    /// A buffer that nobody holds any more.
    pub fn give(&mut self, index: u32) {
        let block = &mut self.blocks[index as usize];
        if std::mem::take(&mut block.pending) {
            // It came back to us while it was pending: the queue still has it.
            self.forget_pending(index);
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
        self.pending_like(index).push_back(index);
    }

    fn forget_pending(&mut self, index: u32) {
        remove(self.pending_like(index), index);
    }

    /// Where buffers like this one are while only others hold them.
    fn pending_like(&mut self, index: u32) -> &mut VecDeque<u32> {
        let Block { capacity, part, .. } = self.blocks[index as usize];
        match capacity > LARGE {
            true => &mut self.pending_large,
            false => &mut self.class((part, class_of(capacity).0)).pending,
        }
    }

    fn settle(&mut self, index: u32) {
        let block = &mut self.blocks[index as usize];
        block.pending = false;
        self.held -= block.capacity;
        self.held_buffers -= 1;
    }

    fn shelve(&mut self, index: u32) {
        let block = self.blocks[index as usize];
        if block.capacity <= LARGE {
            let was_fetched = self.rest.is_for(block.capacity) && self.was_fetched(index);
            let idle = &mut self.class((block.part, class_of(block.capacity).0)).idle;
            if was_fetched { idle.push_front(index) } else { idle.push_back(index) }
        } else if self.idle_large_bytes + block.capacity > IDLE_MAX {
            self.allocated -= block.capacity;
            self.leaving.push((block.offset, block.capacity));
            self.unused_indexes.push(index);
        } else {
            self.parts[block.part].idle_large.insert((block.capacity, index));
            self.idle_large_bytes += block.capacity;
        }
    }

    /// Looks at all pending buffers: those that nobody holds any more become idle.
    pub fn look_at_pending(&mut self, claim: &dyn Fn(u32) -> bool) {
        let mut pending: Vec<u32> = self.pending_large.drain(..).collect();
        self.classes().for_each(|class| pending.extend(class.pending.drain(..)));
        for index in pending {
            if claim(index) {
                self.settle(index);
                self.shelve(index);
            } else {
                self.blocks[index as usize].pending = false;
                self.await_others(index);
            }
        }
    }

    /// Takes apart everything idle or free by now, so that its memory can become something else.
    fn sweep(&mut self, claim: &dyn Fn(u32) -> bool) {
        self.look_at_pending(claim);
        let mut idle: Vec<u32> = Vec::new();
        self.idle_large_bytes = 0;
        for part in &mut self.parts {
            idle.extend(std::mem::take(&mut part.idle_large).into_iter().map(|(_, index)| index));
            part.classes.iter_mut().for_each(|class| idle.extend(class.idle.drain(..)));
        }
        idle.into_iter().for_each(|index| self.dissolve(index));
    }

    fn classes(&mut self) -> impl Iterator<Item = &mut Class> {
        self.parts.iter_mut().flat_map(|part| part.classes.iter_mut())
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
