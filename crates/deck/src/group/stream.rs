//! The pieces of a call that flow: what a member puts into its window, and what it takes out of those of others.

use deck_mudeck::Result;
use deck_segment::content;
use deck_sync::atomic::Ordering;
use deck_sync::point;

use super::call::{Call, Kind};
use super::choose::Layout;
use super::difference::IN_PLACE;
use super::flow::Flow;
use super::folding::Inputs;
use super::member::{Contribution, Member};
use super::progress::{Lies, Progress, Step};

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
}

impl Stream {
    pub fn new(layout: Layout) -> Stream {
        Stream { layout, flow: None, window: None, lies: None, has_met: false, has_own: false }
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
        let flow = match stream.flow.clone() {
            Some(flow) => flow,
            None => self.begin(stream, member, input)?,
        };
        let me = member.index;
        loop {
            let (can_give, _) = member.can(&flow);
            if can_give {
                self.give_piece(stream, &flow, member, input);
            }
            if !self.has_given {
                self.arrive(stream, member, input);
            }
            if !can_give && !stream.has_own {
                self.take_own(member, input, output);
                stream.has_own = true;
            }
            if !stream.has_met {
                if !member.is_complete() {
                    if can_give {
                        continue;
                    }
                    return Ok(Step::Waiting);
                }
                if let Err(error) = self.compare(member) {
                    // Nobody will take it: the next call begins at the same number.
                    member.give(flow.begin);
                    return Err(error);
                }
                stream.has_met = true;
                member.begin_flow(flow.clone(), stream.layout);
                if !flow.course.is_taker(me) {
                    member.take(flow.end);
                }
            }
            let (_, can_take) = member.can(&flow);
            if can_take {
                let number = member.counts().taken.load(Ordering::Relaxed);
                let piece = number.wrapping_sub(flow.begin) as usize;
                if self.failure.is_none() {
                    self.failure = self.take_piece(stream, &flow, piece, member, input, output).err();
                }
                point("group/taken");
                // What is all read in place is one piece.
                member.take(if piece + 1 >= self.pieces { flow.end } else { number + 1 });
            }
            if !can_give && !can_take {
                if !member.is_over(&flow) {
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
            member.give(if stream.lies.is_some() { flow.end } else { flow.begin });
        }
        stream.flow = Some(flow.clone());
        Ok(flow)
    }

    /// Comes to the meeting with which the call begins, and tells where its pieces will lie.
    fn arrive(&mut self, stream: &Stream, member: &mut Member, input: &[u8]) {
        let (word, length) = (self.call.word(), self.length(member));
        match (&stream.window, stream.lies) {
            (Some(window), _) => member.arrive_long(word, length, window),
            (None, Some(lies)) => self.arrive_in_place(lies, member, length, input),
            (None, None) => member.arrive_short(word, length, &[]),
        }
        self.has_given = true;
    }

    fn give_piece(&self, stream: &Stream, flow: &Flow, member: &Member, input: &[u8]) {
        let number = member.counts().given.load(Ordering::Relaxed);
        let block = self.block();
        let piece = self.piece_at(number.wrapping_sub(flow.begin) as usize, block);
        if let Some(window) = &stream.window {
            let slot = (number % stream.layout.slots) as usize * stream.layout.slot;
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
        member.give(number + 1);
    }

    /// What the member gives to itself.
    fn take_own(&self, member: &Member, input: &[u8], output: &mut [u8]) {
        let (block, me, is_root) = (self.block(), member.index as usize, member.index == self.call.root);
        let own = me * block..(me + 1) * block;
        match self.call.kind {
            Kind::Gather if is_root => content::copy(self.taking, &mut output[own], &input[..block]),
            Kind::Allgather => content::copy(self.taking, &mut output[own], &input[..block]),
            Kind::Scatter if is_root => content::copy(self.taking, &mut output[..block], &input[own]),
            Kind::Alltoall => content::copy(self.taking, &mut output[own.clone()], &input[own]),
            _ => {}
        }
    }

    fn take_piece(
        &self,
        stream: &Stream,
        flow: &Flow,
        number: usize,
        member: &Member,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<()> {
        let (phase, me, block) = (member.phase(), member.index, self.block());
        let piece = self.piece_at(number, block);
        let slot = ((flow.begin + number as u64) % stream.layout.slots) as usize * stream.layout.slot;
        // A giver gives each its own part, or all the same.
        let part = if self.call.kind.gives_parts() { me as usize } else { 0 };
        let (in_window, in_place) = (slot + part * piece.len(), part * block + piece.start);
        let begins = |index: u32| match member.heard(index, phase).length & IN_PLACE {
            0 => in_window,
            _ => in_place,
        };
        match self.call.kind {
            Kind::Reduce | Kind::Allreduce | Kind::Scan => {
                let members = if self.call.kind == Kind::Scan { me + 1 } else { flow.members };
                let inputs = Inputs::new(member, phase, &input[piece.clone()], &self.call, self.taking);
                inputs.beginning(&begins).fold(members, &mut output[piece])
            }
            Kind::Bcast | Kind::Scatter => {
                let root = self.call.root;
                member.read(self.taking, root, phase, begins(root), &mut output[piece])
            }
            _ => (0..flow.members).filter(|from| *from != me).try_for_each(|from| {
                let block = from as usize * block;
                let target = &mut output[block + piece.start..block + piece.end];
                member.read(self.taking, from, phase, begins(from), target)
            }),
        }
    }
}
