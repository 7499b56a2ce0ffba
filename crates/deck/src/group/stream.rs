//! The pieces of a call that flow: what a member puts into its window, and what it takes out of those of others or
//! where it lies.

use std::ops::Range;

use deck_mudeck::Result;
use deck_segment::content;
use deck_sync::atomic::Ordering;
use deck_sync::point;

use super::call::{Call, Kind};
use super::choose::Layout;
use super::difference::{IN_PLACE, length_of};
use super::member::{Contribution, Member};
use super::progress::{Lies, Progress, Step};
use super::protocols::flow::Flow;
use super::reductions::folding::Inputs;
use super::sources::{Source, Sources};

/// How far the pieces of a call have come.
pub struct Stream {
    layout: Layout,
    flow: Option<Flow>,
    window: Option<Contribution>,
    /// Where this member's pieces are read, if not in a window.
    lies: Option<Lies>,
    /// All have come, and to the same call.
    has_met: bool,
    /// What this member gives to itself is there.
    has_own: bool,
    /// From whom this member takes, by its turns.
    sources: Sources,
}

impl Stream {
    pub fn new(layout: Layout) -> Stream {
        Stream {
            layout,
            flow: None,
            window: None,
            lies: None,
            has_met: false,
            has_own: false,
            sources: Sources::default(),
        }
    }
}

impl Progress {
    /// Goes on with pieces that flow as far as is possible without waiting. `Done` when this member has done its part.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed. `Invalid` at the end.
    pub(super) fn stream(&mut self, member: &mut Member, input: &[u8], output: &mut [u8]) -> Result<Step> {
        let Some(mut stream) = self.stream.take() else { return Ok(Step::Done) };
        let result = self.stream_on(&mut stream, member, input, output);
        self.stream = Some(stream);
        result
    }

    fn stream_on(&mut self, stream: &mut Stream, member: &mut Member, input: &[u8], output: &mut [u8]) -> Result<Step> {
        let mut flow = match stream.flow.clone() {
            Some(flow) => flow,
            None => self.begin(stream, member, input)?,
        };
        let me = member.index;
        loop {
            if member.is_leaving() {
                return Ok(Step::Waiting);
            }
            let can_give = stream.lies.is_none() && member.can_give(&flow);
            if can_give {
                self.give_piece(stream, &flow, member, input);
            }
            if !self.has_given {
                self.arrive(stream, &flow, member, input);
            }
            if !stream.has_met {
                if !member.is_complete() {
                    let may_go_on = can_give
                        || self.take_early(stream, &flow, member, output)
                        || self.others_come_first(stream, member)
                        || self.take_own(stream, member, input, output);
                    if may_go_on {
                        continue;
                    }
                    return Ok(Step::Waiting);
                }
                let is_lent = match self.compare(member) {
                    Ok(all_in_place) => all_in_place,
                    Err(error) => {
                        // Nobody will take it: the next call begins at the same number.
                        member.give(&flow, flow.begin);
                        return Err(error);
                    }
                };
                stream.has_met = true;
                (flow.lends, flow.in_turn) = (stream.lies.is_some(), is_lent && self.takes_in_turn());
                stream.flow = Some(flow.clone());
                member.begin_flow(flow.clone(), stream.layout);
                if !flow.course.is_taker(me) {
                    member.take(&flow, flow.end);
                } else if flow.in_turn {
                    self.tell_turns(stream, &flow, member);
                }
            }
            let can_take = member.can_take(&flow);
            if can_take && flow.in_turn {
                self.take_turn(stream, &flow, member, output);
            } else if can_take {
                let number = member.counts().taken.load(Ordering::Relaxed);
                let piece = number.wrapping_sub(flow.begin) as usize;
                if self.failure.is_none() {
                    self.failure = self.take_piece(stream, &flow, piece, member, input, output).err();
                }
                point("group/taken");
                // What is all read in place is one piece.
                member.take(&flow, if piece + 1 >= self.pieces { flow.end } else { number + 1 });
            }
            if !can_give && !can_take && !self.take_own(stream, member, input, output) {
                if !member.has_ended(&flow) {
                    return Ok(Step::Waiting);
                }
                member.end_flow(&flow);
                return Ok(Step::Done);
            }
        }
    }

    /// Numbers the pieces and finds room for those that this member gives.
    fn begin(&mut self, stream: &mut Stream, member: &mut Member, input: &[u8]) -> Result<Flow> {
        let flow = member.next_flow(Call::course(self.call.kind, self.call.root), self.pieces as u64, stream.layout);
        if flow.course.is_giver(member.index, flow.members) {
            stream.lies = self.lies(member, input);
            if stream.lies.is_none() {
                stream.window = Some(member.window(stream.layout)?);
            }
            member.give(&flow, flow.begin);
        }
        stream.flow = Some(flow.clone());
        Ok(flow)
    }

    /// Comes to the meeting with which the call begins, and tells where its pieces will lie.
    fn arrive(&mut self, stream: &Stream, flow: &Flow, member: &mut Member, input: &[u8]) {
        let (word, length) = (self.call.word(), self.length(member));
        match (&stream.window, stream.lies) {
            (Some(window), _) => member.arrive_long(word, length, window),
            (None, Some(lies)) => {
                self.arrive_in_place(lies, member, length, input);
                // After it has come: that wakes whoever waits for both.
                member.give(flow, flow.end);
                point("group/lent");
            }
            (None, None) => member.arrive_short(word, length, &[]),
        }
        self.has_given = true;
    }

    fn give_piece(&self, stream: &Stream, flow: &Flow, member: &Member, input: &[u8]) {
        let number = member.counts().given.load(Ordering::Relaxed);
        let block = self.block();
        let piece = self.piece_at(number.wrapping_sub(flow.begin) as usize, block);
        if let Some(window) = &stream.window {
            let slot = stream.layout.begin_of(flow, number.wrapping_sub(flow.begin) as usize);
            if self.call.kind.gives_parts() {
                for to in (0..flow.members).filter(|to| *to != member.index) {
                    let (part, begin) = (to as usize * block, to as usize * piece.len());
                    window.write(self.giving, slot + begin, &input[part + piece.start..part + piece.end]);
                }
            } else {
                window.write(self.giving, slot, &input[piece]);
            }
        }
        point("group/given");
        member.give(flow, number + 1);
    }

    /// Are all there in a moment, so that a root can read what they give before its own part? Meanwhile they are held
    /// up, if they lend it.
    fn others_come_first(&self, stream: &Stream, member: &Member) -> bool {
        let is_root = self.call.kind == Kind::Gather && member.index == self.call.root;
        is_root && !stream.has_own && member.is_soon_complete()
    }

    /// Takes what the member gives to itself, for which nobody waits. False if that is there already.
    fn take_own(&self, stream: &mut Stream, member: &Member, input: &[u8], output: &mut [u8]) -> bool {
        if std::mem::replace(&mut stream.has_own, true) {
            return false;
        }
        let (block, me, is_root) = (self.block(), member.index as usize, member.index == self.call.root);
        let own = me * block..(me + 1) * block;
        match self.call.kind {
            Kind::Gather if is_root => content::copy(self.taking, &mut output[own], &input[..block]),
            Kind::Allgather => content::copy(self.taking, &mut output[own], &input[..block]),
            Kind::Scatter if is_root => content::copy(self.taking, &mut output[..block], &input[own]),
            Kind::Alltoall => content::copy(self.taking, &mut output[own.clone()], &input[own]),
            _ => {}
        }
        true
    }

    /// Is what others give taken from one after the other, where all of one's is there? What is folded is taken from
    /// all at once.
    fn takes_in_turn(&self) -> bool {
        !self.call.kind.is_reduction()
    }

    /// Takes all that the next member gives, where it lies, and tells those who have been read. All have come.
    fn take_turn(&mut self, stream: &mut Stream, flow: &Flow, member: &Member, output: &mut [u8]) {
        let turn = stream.sources.in_order();
        if self.failure.is_none() {
            let from = flow.source_at(member.index, turn);
            self.failure = self.take_from(from, 0..self.block(), 0, member, output).err();
        }
        stream.sources.set(turn, Source::Taken);
        point("group/taken");
        self.tell_turns(stream, flow, member);
    }

    /// Tells whom it has read of those that are read in turn.
    fn tell_turns(&self, stream: &Stream, flow: &Flow, member: &Member) {
        let turns = stream.sources.in_order();
        if turns > 0 {
            member.take(flow, flow.count_after(turns));
        }
    }

    /// Takes all that one member gives that has come and given it while others have not come, in whatever order they
    /// come; false if there is nothing to take yet. Nobody is told of it before all have come, as they may not be in
    /// the same call. Whoever has a window itself gives first.
    fn take_early(&self, stream: &mut Stream, flow: &Flow, member: &mut Member, output: &mut [u8]) -> bool {
        // Relaxed: its own.
        let has_given = stream.window.is_none() || member.counts().given.load(Ordering::Relaxed) >= flow.end;
        if !has_given || !flow.course.is_taker(member.index) || !self.takes_in_turn() {
            return false;
        }
        let me = member.index;
        let open = stream.sources.open(flow.turns());
        let Some(from) = member.await_early(open.map(|turn| flow.source_at(me, turn)), flow.end) else { return false };
        let said = member.heard(from, member.phase());
        let is_alike = said.call == self.call.word() && length_of(said.length) == self.length(member);
        let taken = match said.length & IN_PLACE {
            _ if !is_alike => None,
            0 => (0..self.pieces).try_for_each(|number| {
                let (piece, slot) = (self.piece_at(number, self.block()), stream.layout.begin_of(flow, number));
                self.take_from(from, piece, slot, member, output).ok()
            }),
            _ => self.take_from(from, 0..self.block(), 0, member, output).ok(),
        };
        stream.sources.set(flow.turn_of(me, from), if taken.is_some() { Source::Taken } else { Source::HeldUp });
        point("group/taken-early");
        true
    }

    /// Takes the `piece` of a block that member `from` gives: out of its window, where the piece begins at `slot`, or
    /// where it lies.
    fn take_from(&self, from: u32, piece: Range<usize>, slot: usize, member: &Member, output: &mut [u8]) -> Result<()> {
        let (phase, block) = (member.phase(), self.block());
        let begin = match member.heard(from, phase).length & IN_PLACE {
            0 => slot + self.part(member) * piece.len(),
            _ => self.part(member) * block + piece.start,
        };
        let before = if matches!(self.call.kind, Kind::Bcast | Kind::Scatter) { 0 } else { from as usize * block };
        member.read(self.taking, from, phase, begin, &mut output[before..][piece])
    }

    /// Which block of those that a giver gives is for this member: each has its own, or all the same.
    fn part(&self, member: &Member) -> usize {
        if self.call.kind.gives_parts() { member.index as usize } else { 0 }
    }

    /// Takes piece `number` of what all give from whom not all is taken yet.
    fn take_piece(
        &self,
        stream: &Stream,
        flow: &Flow,
        number: usize,
        member: &Member,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<()> {
        let (me, piece) = (member.index, self.piece_at(number, self.block()));
        let slot = stream.layout.begin_of(flow, number);
        if self.takes_in_turn() {
            return (0..flow.turns())
                .filter(|turn| stream.sources.of(*turn) != Source::Taken)
                .try_for_each(|turn| self.take_from(flow.source_at(me, turn), piece.clone(), slot, member, output));
        }
        let phase = member.phase();
        let in_place = piece.start;
        let begins = |index: u32| match member.heard(index, phase).length & IN_PLACE {
            0 => slot,
            _ => in_place,
        };
        let members = if self.call.kind == Kind::Scan { me + 1 } else { flow.members };
        let inputs = Inputs::new(member, phase, &input[piece.clone()], &self.call, self.taking);
        inputs.beginning(&begins).fold(members, 0, &mut output[piece])
    }
}

impl Layout {
    /// Where in a window piece `number` of the call begins.
    fn begin_of(self, flow: &Flow, number: usize) -> usize {
        ((flow.begin + number as u64) % self.slots) as usize * self.slot
    }
}
