//! Where the ranges of buffers come from: what is allocated and free, and what is on its way from the system or back.
//!
//! The kernel takes up to a second for that, so nobody has the lock of the heap then ([`crate::heap`]).

use deck_sync::atomic::Ordering;
use deck_sync::{Error, ErrorKind, Result};

use super::Blocks;
use crate::huge::HUGE;
use crate::layout::{DATA, LINE_WORDS, PAGE, header};
use crate::{MemoryFacts, Words, limits};

/// The least by which the heap grows.
const GROWTH: usize = 256 << 10;

/// Where memory may come from.
#[derive(Clone, Copy)]
pub struct Supply<'a> {
    /// Memory that is not there is asked for; otherwise that was refused, and what is there has to do.
    pub may_grow: bool,
    /// Tells whether a pending buffer is free now, and claims it if so.
    pub claim: &'a dyn Fn(u32) -> bool,
}

/// What was lacking.
#[derive(Debug)]
pub enum Lack {
    /// So many bytes in this part: the heap is to grow, without its lock, and then it is tried again.
    Memory(usize, usize),
    /// Something else.
    Error(Error),
}

/// A range that the kernel is being asked for: neither a hole any more nor ready yet.
#[derive(Debug)]
pub struct Growth {
    pub offset: usize,
    pub bytes: usize,
    pub part: usize,
}

impl Blocks {
    /// A range of `bytes` in `part`, or in another part if the heap cannot grow: its offset and where it lies.
    pub fn take_range(&mut self, bytes: usize, part: usize, supply: Supply<'_>) -> Result<(usize, usize), Lack> {
        let lack = Lack::Memory(bytes, part);
        let found = match self.parts[part].ready.take(bytes) {
            Some(offset) => (offset, part),
            None if supply.may_grow => return Err(lack),
            None => {
                // Before giving up: everything that somebody else has let go of meanwhile.
                self.sweep(supply.claim);
                let found = self.take_ready(bytes, part);
                if found.is_none() {
                    self.vacate(bytes);
                }
                found.ok_or(lack)?
            }
        };
        self.held += bytes;
        Ok(found)
    }

    /// From `part` first, then from any.
    fn take_ready(&mut self, bytes: usize, part: usize) -> Option<(usize, usize)> {
        let others = (0..self.parts.len()).filter(|other| *other != part);
        std::iter::once(part).chain(others).find_map(|part| Some((self.parts[part].ready.take(bytes)?, part)))
    }

    pub fn exhausted(&self, bytes: usize) -> Error {
        let size = limits::size((self.segment.bytes() - DATA) as u64);
        Error::new(ErrorKind::NoMemory, format!("no {bytes} bytes in a row are left in this node's heap of {size}"))
            .with_remedy("free messages, or set DECK_HEAP to more than that")
    }

    /// By how much the heap may grow for `bytes`, and at multiples of what, from the best to the least.
    pub fn growths(&self, bytes: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let least = bytes.next_multiple_of(PAGE);
        let usual = GROWTH.max((self.allocated / 4).min(16 << 20)).next_multiple_of(PAGE).max(least);
        // A heap that stays small does not take a huge page for its few messages.
        let huge = (self.segment.has_huge_pages() && usual.max(self.allocated) >= HUGE)
            .then(|| (usual.next_multiple_of(HUGE), HUGE));
        // In a tight place the usual growth may be too much where the least is not; and where others grow it at this
        // moment, there will be enough for those who come later.
        let more = huge.into_iter().chain([(usual, PAGE)]);
        more.take(if self.growing == 0 { 2 } else { 0 }).chain([(least, PAGE)])
    }

    /// Begins to grow by `bytes`, at a multiple of `align`, if there is so much address space in a row.
    pub fn begin_growth(&mut self, bytes: usize, align: usize, part: usize) -> Option<Growth> {
        let offset = self.holes.take_lowest(bytes, align)?;
        self.growing += 1;
        Some(Growth { offset, bytes, part })
    }

    /// What was begun is done, or was refused.
    pub fn end_growth(&mut self, Growth { offset, bytes, part }: Growth, is_there: bool) {
        self.growing -= 1;
        if is_there {
            self.allocated += bytes;
            self.parts[part].ready.give(offset, bytes);
        } else {
            self.holes.give(offset, bytes);
        }
        if let Some(words) = Words::in_segment(&self.segment, 0, LINE_WORDS) {
            let huge_pages = self.segment.has_huge_pages() && self.allocated >= HUGE;
            // Relaxed: for people.
            words.get(header::MEMORY).store(MemoryFacts::of(huge_pages, &self.numa).to_word(), Ordering::Relaxed);
        }
    }

    /// Gives a range of `part` back.
    pub fn give_range(&mut self, offset: usize, bytes: usize, part: usize) {
        self.held -= bytes;
        self.parts[part].ready.give(offset, bytes);
    }

    /// Where free ranges and holes beside them are `bytes` in a row only together, these ranges go back to the system:
    /// then they are one hole. Elsewhere nothing happens.
    fn vacate(&mut self, bytes: usize) {
        let ready = self.parts.iter().enumerate();
        let ready = ready.flat_map(|(part, of_it)| of_it.ready.ranges().map(move |range| (range, Some(part))));
        let holes = self.holes.ranges().chain(self.leaving.iter().copied()).map(|range| (range, None));
        let mut free: Vec<_> = ready.chain(holes).collect();
        free.sort_unstable();
        let is_next =
            |((offset, bytes), _): &(_, _), (next, _): &((usize, usize), Option<usize>)| offset + bytes == next.0;
        // Of what is at its ends, whole pages: others have the rest.
        let pages = |run: &[((usize, usize), Option<usize>)]| {
            let (((first, _), _), ((last, last_bytes), _)) = (run.first()?, run.last()?);
            let (begin, end) = (first.next_multiple_of(PAGE), (last + last_bytes) / PAGE * PAGE);
            (begin.checked_add(bytes)? <= end).then_some((begin, end))
        };
        let Some((run, (begin, end))) = free.chunk_by(is_next).find_map(|run| Some((run, pages(run)?))) else { return };
        for ((offset, bytes), part) in run {
            let (from, to) = (begin.max(*offset), end.min(offset + bytes));
            if let Some(part) = part
                && from < to
            {
                self.parts[*part].ready.take_at(from, to - from);
                self.allocated -= to - from;
                self.leaving.push((from, to - from));
            }
        }
    }

    /// What is to go back to the system, offsets and bytes: neither idle any more nor a hole yet.
    pub fn leave(&mut self) -> Vec<(usize, usize)> {
        self.on_their_way += self.leaving.len();
        std::mem::take(&mut self.leaving)
    }

    /// These have gone back.
    pub fn have_left(&mut self, left: &[(usize, usize)]) {
        self.on_their_way -= left.len();
        left.iter().for_each(|(offset, bytes)| self.holes.give(*offset, *bytes));
    }

    /// Whether there are ranges that are neither holes nor ready, but soon will be: the kernel is at them.
    pub fn is_on_its_way(&self) -> bool {
        self.growing + self.on_their_way > 0
    }
}
