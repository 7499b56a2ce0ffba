//! Calls of one round from begin to end: each member gives all in one, and one meeting is the whole call.
//!
//! These are the steps of `progress`, without what only longer calls need: such calls are made often, and what counts
//! is the time from seeing the others to being seen by them. Whatever does not go straight on (somebody is late, or in
//! another call) is left to `progress`, which goes on where this stops.

use deck_mudeck::Result;
use deck_segment::content::Way;
use deck_sync::{Deadline, point};

use super::super::board::{INLINE, Said};
use super::super::call::{Call, Kind};
use super::super::choose::{is_direct, may_be_ahead};
use super::super::difference::length_of;
use super::super::lending::Place;
use super::super::protocols::course::Course;
use super::super::reductions::folding::Inputs;
use super::super::ways::Route;
use super::{Contribution, Member};

/// How far a call came.
#[derive(Debug)]
pub enum Direct {
    /// At its end.
    Done,
    /// This member has said what it gives; the rest is left to do. An error is that of waiting for the others.
    Said(Result<()>),
    /// Nothing has happened: it is no such call, or cannot begin yet.
    Nothing,
}

impl Member {
    /// Makes `call` with `input` and `output`, which are as long as it needs, if it has one round and nothing comes in
    /// between. Blocks until the deadline.
    #[inline]
    pub fn call_direct(
        &mut self,
        call: &Call,
        route: Route,
        input: &[u8],
        output: &mut [u8],
        deadline_from_now: impl Fn() -> Deadline,
    ) -> Direct {
        let bytes = call.block();
        if self.parties.firsts.is_some() || !is_direct(call.kind, bytes, self.nodes.len()) {
            return Direct::Nothing;
        }
        let (word, length, course) = (call.word(), call.count as u64, Call::course(call.kind, call.root));
        let is_ahead = self.may_be_ahead() && may_be_ahead(call.kind, bytes, self.nodes.len());
        let given = self.given(call, course, bytes, input, output);
        let beside = if given.len() > INLINE { given.len() } else { 0 };
        let lent = if beside > 0 { self.lent(call.kind, bytes) } else { None };
        let own = if lent.is_none() { beside } else { 0 };
        if self.may_be_ahead() && !self.is_open(is_ahead.then_some(own)) {
            return Direct::Nothing;
        }
        if beside == 0 {
            self.arrive_short(word, length, given);
        } else {
            let place = match lent {
                Some(place) => place.borrowed_by(self.index, self.phase + 1, call.kind, bytes, &mut self.room),
                None => match self.place(beside, is_ahead) {
                    Ok(offset) => Place { owner: self.index, offset },
                    Err(_) => return Direct::Nothing,
                },
            };
            self.write_parts(call.kind, route.giving(), place, bytes, given);
            point("group/written");
            self.arrive(&Said { call: word, length, place: place.told_by(self.index) }, &[]);
        }
        if is_ahead {
            self.await_sources(course);
        }
        if !self.is_complete() {
            if is_ahead {
                self.settle_meanwhile();
            }
            if let Err(error) = self.await_briefly(call.kind, deadline_from_now) {
                return Direct::Said(Err(error));
            }
        }
        let is_alike = |index| {
            // Its own line would have to be fetched from the cache of whoever has read it last.
            if index == self.index {
                return true;
            }
            let said = self.board.heard(index, self.phase);
            said.call == word && length_of(said.length) == length
        };
        let awaited = if is_ahead { course } else { Course::Between };
        if !awaited.sources(self.index, self.size()).all(is_alike) {
            return Direct::Said(Ok(()));
        }
        if !is_ahead {
            self.settle();
        }
        let taken = self.take_direct(call, self.taking(call, route.taking(), bytes), bytes, input, output);
        point("group/taken");
        if taken.is_ok() {
            self.note_lent(call.kind, course, bytes);
        }
        // What cannot be taken is told by the general way.
        if taken.is_ok() { Direct::Done } else { Direct::Said(Ok(())) }
    }

    /// What this member gives of `input`, or of `output` where that is read.
    #[inline]
    fn given<'a>(&self, call: &Call, course: Course, bytes: usize, input: &'a [u8], output: &'a [u8]) -> &'a [u8] {
        match call.kind {
            Kind::Barrier => &[],
            _ if !course.is_giver(self.index, self.size()) => &[],
            Kind::Bcast => &output[..bytes],
            Kind::Scatter | Kind::Alltoall => &input[..bytes * self.nodes.len()],
            _ => &input[..bytes],
        }
    }

    /// Where this member gives next, in blocks of `block` bytes, if the other one of two has lent it a place.
    #[inline]
    fn lent(&self, kind: Kind, block: usize) -> Option<Place> {
        self.lending.as_ref()?.borrowed(self.phase, kind, block, &self.room, &self.segments)
    }

    /// Memory for what this member gives in blocks of `block` bytes, if the other one of two has lent some.
    pub fn borrowed(&mut self, kind: Kind, block: usize) -> Option<Contribution> {
        let place = self.lent(kind, block)?.borrowed_by(self.index, self.phase + 1, kind, block, &mut self.room);
        let segment = self.segment_of(place.owner).clone();
        Some(Contribution { segment, offset: place.offset, told: place.told_by(self.index) })
    }

    /// This member has taken its part of a call of one copy, in blocks of `block` bytes: where the other one of two has
    /// copied what it gave, this one may give next.
    #[inline]
    pub fn note_lent(&mut self, kind: Kind, course: Course, block: usize) {
        if let Some(lending) = &mut self.lending
            && lending.is_lent(course, block)
        {
            let said = self.board.heard(1 - self.index, self.phase);
            // It lies in the other one's own array where the length says so.
            if said.length == length_of(said.length) {
                lending.note(self.phase, said.place, kind, block);
            }
        }
    }

    /// Writes what is `given` to its place, without what this member has for itself: nobody reads that.
    fn write_parts(&self, kind: Kind, way: Way, place: Place, bytes: usize, given: &[u8]) {
        let segment = self.segment_of(place.owner);
        let part = self.index as usize * bytes;
        let own = if kind.gives_parts() { part..part + bytes } else { 0..0 };
        for (from, others) in [(0, &given[..own.start]), (own.end, &given[own.end..])] {
            let written = segment.write_by(way, place.offset + from, others);
            debug_assert!(written.is_some());
        }
    }

    /// Takes this member's part of what all have said.
    fn take_direct(&mut self, call: &Call, way: Way, bytes: usize, input: &[u8], output: &mut [u8]) -> Result<()> {
        let part = self.index as usize * bytes;
        match call.kind {
            Kind::Bcast | Kind::Scatter if self.index != call.root => {
                let from = if call.kind == Kind::Bcast { 0 } else { part };
                self.read(way, call.root, self.phase, from, &mut output[..bytes])
            }
            Kind::Scatter => {
                output[..bytes].copy_from_slice(&input[part..part + bytes]);
                Ok(())
            }
            Kind::Reduce | Kind::Gather if self.index != call.root => Ok(()),
            Kind::Allreduce => self.fold_for_all(call, way, &input[..bytes], &mut output[..bytes]),
            Kind::Reduce | Kind::Scan => {
                let members = if call.kind == Kind::Scan { self.index + 1 } else { self.size() };
                Inputs::new(self, self.phase, &input[..bytes], call, way).fold(members, 0, &mut output[..bytes])
            }
            Kind::Gather | Kind::Allgather => self.take_blocks(way, 0, &input[..bytes], output),
            Kind::Alltoall => self.take_blocks(way, part, &input[part..part + bytes], output),
            _ => Ok(()),
        }
    }

    /// A block of each, which begins at byte `from` of what it gives; this member has its `own`.
    fn take_blocks(&self, way: Way, from: usize, own: &[u8], output: &mut [u8]) -> Result<()> {
        if own.is_empty() {
            return Ok(());
        }
        for (index, block) in (0..self.size()).zip(output.chunks_exact_mut(own.len())) {
            if index == self.index {
                block.copy_from_slice(own);
            } else {
                self.read(way, index, self.phase, from, block)?;
            }
        }
        Ok(())
    }
}
