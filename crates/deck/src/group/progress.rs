//! A collective on its way: which round a member is in, what it gives in that round and what it takes.
//!
//! It holds no buffers: they are passed at each step. So a call whose deadline passed can be called again, with the
//! same buffers, and goes on where it was; and a call that was started without waiting owns its buffers.

mod comparing;
mod fitting;
mod giving;
mod sharing;
mod taking;

use std::ops::Range;
use std::sync::Arc;

use deck_mudeck::{Error, ErrorKind, Result};
use deck_segment::attach;
use deck_segment::content::Way;
use deck_sync::{Shared, Shelf, Stays, point, vectors};

use super::attaching::Attachment;
use super::board::INLINE;
use super::call::{Call, Kind};
use super::choose::{Choice, choose, may_be_ahead, relay_piece};
use super::difference::{IN_PLACE, SHOWS_OUTPUT};
use super::member::Member;
use super::protocols::course::Course;
use super::reductions::relay::Relay;
use super::room::LONG;
use super::stream::Stream;
use super::ways::Route;
pub(super) use sharing::share_of;

/// What a round is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Inputs are given.
    Inputs,
    /// Each member gives what it has worked out (shared work).
    Results,
    /// All have read what others gave in place.
    End,
}

/// Where all that a member gives is read without a copy of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lies {
    /// At this place of its node's segment.
    InLibrary(usize),
    /// In its program's memory.
    InProgram,
}

impl Lies {
    /// Where the piece lies that begins so far into it.
    fn from(self, begin: usize) -> Lies {
        match self {
            Lies::InLibrary(place) => Lies::InLibrary(place + begin),
            // It is one piece.
            Lies::InProgram => Lies::InProgram,
        }
    }
}

/// A collective of one member, under way.
pub struct Progress {
    pub call: Call,
    choice: Choice,
    /// How it copies what it gives, and what it takes.
    pub(super) giving: Way,
    pub(super) taking: Way,
    /// What this member gives is read in its program's memory if it can be; and what the others have been told of that.
    attaches: bool,
    attachment: Option<Attachment>,
    /// A copy of what this member gives, from when it has left the call at a deadline.
    kept: Option<Shared>,
    /// Where in library memory others have been told to read in its input and its output.
    shown: [Option<usize>; 2],
    /// The phase in which the call begins, once that is known, if threads of this node may read what this member gives
    /// where it lies.
    pub(super) begins_in: Option<u64>,
    /// Where this member need not wait for everybody: from whom it takes.
    course: Option<Course>,
    round: Round,
    piece: usize,
    /// How many pieces there are, and bytes of a block in each; settled by the first round.
    pub(super) pieces: usize,
    step: usize,
    /// Somebody gives in place.
    has_end: bool,
    /// This member has arrived at the present round.
    pub(super) has_given: bool,
    /// Pieces that flow.
    pub(super) stream: Option<Box<Stream>>,
    /// A reduction that goes from team to team.
    pub(super) relay: Option<Box<Relay>>,
    /// This member cannot go on, but does not keep the others from doing so.
    pub(super) failure: Option<Error>,
    has_ended: bool,
}

impl Progress {
    pub fn new(call: &Call, member: &Member, route: Route) -> Progress {
        let block = call.block();
        let choice = choose(call.kind, block, member.size() as usize);
        let teams = member.teams().zip(member.shelf()).filter(|_| choice.is_shared);
        let relay = teams.and_then(|(teams, shelf)| {
            let piece = relay_piece(call.kind, block, member.size() as usize, teams.count())?;
            Some(Box::new(Relay::new(call.kind, teams.clone(), shelf.clone(), block, piece)))
        });
        Progress {
            call: call.clone(),
            choice,
            giving: route.giving(),
            taking: route.taking(),
            attaches: route == Route::Attached,
            attachment: None,
            kept: None,
            shown: [None; 2],
            begins_in: None,
            course: (member.may_be_ahead() && may_be_ahead(call.kind, block, member.size() as usize))
                .then(|| Call::course(call.kind, call.root)),
            round: Round::Inputs,
            piece: 0,
            pieces: if call.kind.has_counts() || block <= choice.piece { 1 } else { block.div_ceil(choice.piece) },
            step: choice.piece,
            has_end: false,
            has_given: false,
            stream: choice.flow.map(|layout| Box::new(Stream::new(layout))),
            relay,
            failure: None,
            has_ended: false,
        }
    }

    /// True once the others may have seen something of it, until it has ended.
    pub fn is_under_way(&self) -> bool {
        let has_begun = self.has_given || self.piece > 0 || self.round != Round::Inputs;
        !self.has_ended && (has_begun || self.relay.as_ref().is_some_and(|relay| relay.has_begun()))
    }

    /// It has come to its end, be that an error.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Goes on as far as is possible without waiting; true at the end.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed. All others at the end.
    pub fn advance(&mut self, member: &mut Member, input: &[u8], output: &mut [u8]) -> Result<Step> {
        if member.may_be_ahead()
            && !self.is_under_way()
            && !member.is_open(self.course.map(|_| self.given_bytes(member)))
        {
            return Ok(Step::Waiting);
        }
        if self.stream.is_some() {
            if self.stream(member, input, output)? == Step::Waiting {
                return Ok(Step::Waiting);
            }
            self.stream = None;
            return self.end();
        }
        if self.relay.is_some() {
            if self.relay(member, input, output)? == Step::Waiting {
                return Ok(Step::Waiting);
            }
            if self.round == Round::Inputs {
                return self.end();
            }
        }
        loop {
            if !self.has_given {
                if let Err(error) = self.give(member, input, output) {
                    if error.kind() == ErrorKind::NoMemory {
                        return Err(error);
                    }
                    // The others go on without this part of the result, and are told so when they read it.
                    member.arrive_without(self.call.word(), self.length(member));
                    self.failure = Some(error);
                }
                self.has_given = true;
                if let Some(course) = self.course {
                    member.await_sources(course);
                }
            }
            if !member.is_complete() {
                if self.course.is_some() {
                    member.settle_meanwhile();
                }
                return Ok(Step::Waiting);
            }
            self.has_given = false;
            if self.piece == 0 && self.round == Round::Inputs {
                self.compare(member)?;
            } else {
                // All are in this call: there is nothing to compare in its later rounds.
                member.settle();
            }
            match self.round {
                Round::Inputs if self.choice.is_shared => {
                    self.round = Round::Results;
                    continue;
                }
                Round::Inputs | Round::Results => {
                    if self.failure.is_none() {
                        self.failure = self.take(member, input, output).err();
                    }
                    if self.failure.is_none() && self.is_one_copy(member) {
                        let course = Call::course(self.call.kind, self.call.root);
                        member.note_lent(self.call.kind, course, self.block());
                    }
                    point("group/taken");
                    self.piece += 1;
                    let is_last = self.piece >= self.pieces;
                    self.round = if is_last { Round::End } else { Round::Inputs };
                    if !is_last || self.has_end {
                        continue;
                    }
                }
                Round::End => {}
            }
            return self.end();
        }
    }

    /// All that is given lies in library memory: it is folded there, without teams.
    pub(super) fn fold_in_place(&mut self) {
        self.round = Round::Results;
    }

    fn end(&mut self) -> Result<Step> {
        self.has_ended = true;
        self.failure.take().map_or(Ok(Step::Done), Err)
    }

    /// Bytes that this member gives beside its line in a call that is one piece.
    fn given_bytes(&self, member: &Member) -> usize {
        let bytes = self.bytes_of_all_blocks(member);
        if self.is_giver(member.index, member.size()) && bytes > INLINE { bytes } else { 0 }
    }

    /// Bytes that a giver gives in the whole call.
    fn bytes_of_all_blocks(&self, member: &Member) -> usize {
        self.block() * self.call.kind.blocks(member.size() as usize)
    }

    /// One piece, which each member copies to where the others read it, and one that is not long.
    fn is_one_copy(&self, member: &Member) -> bool {
        let is_one = self.pieces == 1 && !self.choice.is_shared && !self.call.kind.has_counts();
        is_one && self.bytes_of_all_blocks(member) < LONG
    }

    pub(super) fn block(&self) -> usize {
        self.call.block()
    }

    pub(super) fn element_bytes(&self) -> usize {
        self.call.element.size()
    }

    /// The present piece of a block of `bytes`.
    fn piece_of(&self, bytes: usize) -> Range<usize> {
        self.piece_at(self.piece, bytes)
    }

    /// Piece `number` of a block of `bytes`.
    pub(super) fn piece_at(&self, number: usize, bytes: usize) -> Range<usize> {
        let from = number.saturating_mul(self.step).min(bytes);
        from..from.saturating_add(self.step).min(bytes)
    }

    /// What this member says as its length: elements where all have the same, else the bytes of its longest block.
    pub(super) fn length(&self, member: &Member) -> u64 {
        let is_root = member.index == self.call.root;
        let longest = |counts: &[usize]| counts.iter().max().map_or(0, |count| (count * self.element_bytes()) as u64);
        match self.call.kind {
            Kind::Gatherv | Kind::Allgatherv => self.block() as u64,
            Kind::Scatterv if !is_root => 0,
            Kind::Scatterv | Kind::Alltoallv => longest(&self.call.send_counts),
            _ => self.call.count as u64,
        }
    }

    /// What this member says beside its length if others may read results in its output.
    pub(super) fn shows_output(&self, member: &Member, output: &[u8]) -> u64 {
        let is_shown = self.choice.is_shared && self.call.kind == Kind::Allreduce;
        if is_shown && self.in_library(member, output).is_some() { SHOWS_OUTPUT } else { 0 }
    }

    /// The place of `whole` in library memory, if it is read there.
    pub(super) fn in_library(&self, member: &Member, whole: &[u8]) -> Option<usize> {
        if self.choice.may_be_in_place { member.offset_of(whole) } else { None }
    }

    /// Where this member gives the `whole` of what it gives in this call, if it can be read where it lies.
    pub(super) fn lies(&self, member: &Member, whole: &[u8]) -> Option<Lies> {
        let is_attached = || self.attaches && attach::can_be_read(whole);
        self.in_library(member, whole).map(Lies::InLibrary).or_else(|| is_attached().then_some(Lies::InProgram))
    }

    /// Says that the `whole` of what this member gives is read where it `lies`, and arrives.
    pub(super) fn arrive_in_place(&mut self, lies: Lies, member: &mut Member, length: u64, whole: &[u8]) {
        let (word, length) = (self.call.word(), length | IN_PLACE);
        match lies {
            Lies::InLibrary(place) => {
                self.shown[0] = member.offset_of(whole);
                member.arrive_at(word, length, place);
            }
            Lies::InProgram => self.attachment = Some(member.arrive_attached(word, length, whole)),
        }
    }

    /// Where this member lays out what it gives for the threads of its node, and for which call; `None` if nobody reads
    /// it there. Asked when the next phase is the first of the call, if that has not begun.
    pub fn lays_out(&mut self, member: &Member) -> Option<(Arc<Shelf>, u64)> {
        let is_read = || self.attaches && self.is_giver(member.index, member.size()) || self.relay.is_some();
        let shelf = member.shelf().filter(|_| self.begins_in.is_some() || is_read())?;
        Some((shelf.clone(), *self.begins_in.get_or_insert(member.phase() + 1)))
    }

    /// What this member gives and gets, which is what all steps are to be called with: a broadcast's root gives what
    /// would be its output.
    pub fn arrays<'a>(&self, member: &Member, input: &'a [u8], output: &'a mut [u8]) -> (&'a [u8], &'a mut [u8]) {
        let is_bcast_root = self.call.kind == Kind::Bcast && self.call.root == member.index;
        if is_bcast_root && input.is_empty() { (output, &mut []) } else { (input, output) }
    }

    /// The program gets its arrays back before the call has ended. If it has an array `laid_out` or attached, others
    /// read a copy from now on.
    pub fn give_back(&mut self, input: &[u8], is_laid_out: bool) -> Stays {
        if self.kept.is_none() && (is_laid_out || self.attachment.is_some()) {
            let copied = vectors::copied(input, "for what others are to read");
            self.kept = copied.ok().map(|copy| -> Shared { Arc::new(copy) });
            point("group/kept");
        }
        if let Some(attachment) = &mut self.attachment {
            attachment.give_back(self.kept.clone());
        }
        self.kept.clone().map_or(Stays::NotKept, Stays::Copy)
    }

    /// The program gets its arrays back though the call has not come to its end, or not well: what others have been
    /// told to read in messages stays as it is.
    pub fn keep_shown(&mut self, member: &mut Member, input: &[u8], output: &[u8]) {
        for (shown, array) in self.shown.iter_mut().zip([input, output]) {
            if let Some(place) = shown.take()
                && member.offset_of(array) == Some(place)
            {
                member.keep(array);
            }
        }
    }

    /// The program is back in the call.
    pub fn resume(&mut self, input: &[u8]) {
        if let Some(attachment) = &mut self.attachment {
            attachment.resume(input);
        }
    }

    /// Does member `index` give anything that others read?
    fn is_giver(&self, index: u32, members: u32) -> bool {
        match self.call.kind {
            Kind::Barrier => false,
            kind => self.choice.is_shared || Call::course(kind, self.call.root).is_giver(index, members),
        }
    }

    /// Bytes of the block for member `index`.
    fn sent_to(&self, index: u32) -> usize {
        let count = if self.call.kind.has_counts() { self.call.send_counts[index as usize] } else { self.call.count };
        count * self.element_bytes()
    }
}

/// How far [`Progress::advance`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The call is at its end.
    Done,
    /// Others have not come yet.
    Waiting,
}
