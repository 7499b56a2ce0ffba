//! A collective on its way: which round a member is in, what it gives in that round and what it takes.
//!
//! It holds no buffers: they are passed at each step. So a call whose deadline passed can be called again, with the same
//! buffers, and goes on where it was; and a call that was started without waiting owns its buffers.

use std::ops::Range;

use deck_mudeck::{Error, ErrorKind, Result};
use deck_sync::point;

use super::board::INLINE;
use super::call::{Call, Kind};
use super::choose::{Choice, choose};
use super::member::Member;
use super::reduction::combine;

/// Bytes that are folded at a time: they stay in the nearest cache.
const TILE: usize = 8 << 10;
/// Blocks of shared work begin at multiples of this: whole elements, whole cache lines.
const BLOCK_STEP: usize = 64;

/// What a round is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Inputs are given.
    Inputs,
    /// Each member gives what it has worked out (shared work).
    Results,
}

/// A collective of one member, under way.
pub struct Progress {
    pub call: Call,
    choice: Choice,
    round: Round,
    piece: usize,
    /// How many pieces there are; known after the first round where members have different counts.
    pieces: usize,
    /// This member has arrived at the present round.
    has_given: bool,
    /// This member cannot go on, but does not keep the others from doing so.
    failure: Option<Error>,
}

impl Progress {
    pub fn new(call: &Call, member: &Member) -> Progress {
        let block = call.count * call.element.size();
        let choice = choose(call.kind, block, member.size() as usize);
        let pieces = if call.kind.has_counts() { 1 } else { block.div_ceil(choice.piece).max(1) };
        Progress { call: call.clone(), choice, round: Round::Inputs, piece: 0, pieces, has_given: false, failure: None }
    }

    /// True once the others may have seen something of it.
    pub fn is_under_way(&self) -> bool {
        self.has_given || self.piece > 0 || self.round == Round::Results
    }

    /// Goes on as far as is possible without waiting; true at the end.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed. `Invalid` and `Corrupt` at the end.
    pub fn advance(&mut self, member: &mut Member, input: &[u8], output: &mut [u8]) -> Result<Step> {
        loop {
            if !self.has_given {
                if let Err(error) = self.give(member, input, output) {
                    if error.kind() == ErrorKind::NoMemory {
                        return Err(error);
                    }
                    // The others go on without this part of the result, and are told so when they read it.
                    give_one(member, self.call.word(), self.length(member), &[])?;
                    self.failure = Some(error);
                }
                self.has_given = true;
            }
            if !member.is_complete() {
                return Ok(Step::Waiting);
            }
            self.has_given = false;
            if self.piece == 0 && self.round == Round::Inputs {
                self.compare(member)?;
            }
            if self.failure.is_none() && !(self.choice.is_shared && self.round == Round::Inputs) {
                self.failure = self.take(member, input, output).err();
            }
            point("group/taken");
            if self.choice.is_shared && self.round == Round::Inputs {
                self.round = Round::Results;
                continue;
            }
            self.round = Round::Inputs;
            self.piece += 1;
            if self.piece >= self.pieces {
                return self.failure.take().map_or(Ok(Step::Done), Err);
            }
        }
    }

    fn element_bytes(&self) -> usize {
        self.call.element.size()
    }

    /// The present piece of a block of `bytes`.
    fn piece_of(&self, bytes: usize) -> Range<usize> {
        let from = (self.piece * self.choice.piece).min(bytes);
        from..(from + self.choice.piece).min(bytes)
    }

    /// The block of the present piece (of `bytes`) that member `index` works on.
    fn share_of(&self, index: u32, bytes: usize, members: u32) -> Range<usize> {
        let block = bytes.div_ceil(members as usize).next_multiple_of(BLOCK_STEP);
        let from = (index as usize * block).min(bytes);
        from..(from + block).min(bytes)
    }

    /// What this member says as its length: elements where all have the same, else the bytes of its longest block.
    fn length(&self, member: &Member) -> u64 {
        let is_root = member.index == self.call.root;
        let longest = |counts: &[usize]| counts.iter().max().map_or(0, |count| (count * self.element_bytes()) as u64);
        match self.call.kind {
            Kind::Gatherv | Kind::Allgatherv => (self.call.count * self.element_bytes()) as u64,
            Kind::Scatterv if !is_root => 0,
            Kind::Scatterv | Kind::Alltoallv => longest(&self.call.send_counts),
            _ => self.call.count as u64,
        }
    }

    /// Puts this member's part of the round where all can read it, and arrives.
    fn give(&self, member: &mut Member, input: &[u8], output: &[u8]) -> Result<()> {
        let (call, word, length) = (&self.call, self.call.word(), self.length(member));
        if self.round == Round::Results {
            return self.give_results(member, word, length);
        }
        let is_root = member.index == call.root;
        let block = call.count * self.element_bytes();
        match call.kind {
            Kind::Bcast if is_root => give_one(member, word, length, &output[self.piece_of(block)]),
            Kind::Gather | Kind::Gatherv if is_root => give_one(member, word, length, &[]),
            Kind::Reduce
            | Kind::Allreduce
            | Kind::Scan
            | Kind::Gather
            | Kind::Gatherv
            | Kind::Allgather
            | Kind::Allgatherv => give_one(member, word, length, &input[self.piece_of(block)]),
            Kind::Scatter | Kind::Scatterv if !is_root => give_one(member, word, length, &[]),
            Kind::Scatter | Kind::Alltoall | Kind::Scatterv | Kind::Alltoallv => self.give_parts(member, input),
            Kind::Barrier | Kind::Bcast => give_one(member, word, length, &[]),
        }
    }

    /// Gives a block to each member: one behind the other. With different counts, the bytes of all blocks stand in front.
    fn give_parts(&self, member: &mut Member, input: &[u8]) -> Result<()> {
        let (word, length, size) = (self.call.word(), self.length(member), member.size());
        let blocks: Vec<usize> = (0..size).map(|index| self.sent_to(index)).collect();
        let head: Vec<u8> = match self.call.kind.has_counts() {
            true => blocks.iter().flat_map(|bytes| (*bytes as u64).to_ne_bytes()).collect(),
            false => Vec::new(),
        };
        let total = head.len() + blocks.iter().map(|bytes| self.piece_of(*bytes).len()).sum::<usize>();
        let mut begin = 0;
        let parts = blocks.iter().map(|bytes| {
            let piece = self.piece_of(*bytes);
            let part = &input[begin + piece.start..begin + piece.end];
            begin += bytes;
            part
        });
        if total <= INLINE {
            let content: Vec<u8> = head.iter().copied().chain(parts.flatten().copied()).collect();
            member.arrive_short(word, length, &content);
            return Ok(());
        }
        let contribution = member.room(total)?;
        contribution.write(0, &head);
        let mut at = head.len();
        for part in parts {
            contribution.write(at, part);
            at += part.len();
        }
        member.arrive_long(word, length, &contribution);
        Ok(())
    }

    /// Bytes of the block for member `index`.
    fn sent_to(&self, index: u32) -> usize {
        let count = if self.call.kind.has_counts() { self.call.send_counts[index as usize] } else { self.call.count };
        count * self.element_bytes()
    }

    /// Works out this member's share of the piece, and gives it.
    fn give_results(&self, member: &mut Member, word: u64, length: u64) -> Result<()> {
        let piece = self.piece_of(self.call.count * self.element_bytes()).len();
        let share = self.share_of(member.index, piece, member.size());
        if self.failure.is_some() || share.is_empty() {
            return give_one(member, word, length, &[]);
        }
        let inputs = member.phase();
        let is_scan = self.call.kind == Kind::Scan;
        let rows = if is_scan { member.size() as usize } else { 1 };
        let contribution = member.room(share.len() * rows)?;
        let (mut sum, mut next) = ([0; TILE], [0; TILE]);
        let mut from = share.start;
        while from < share.end {
            let tile = TILE.min(share.end - from);
            let (sum, next) = (&mut sum[..tile], &mut next[..tile]);
            let at = from - share.start;
            for index in 0..member.size() {
                if index == 0 {
                    member.read(index, inputs, from, sum)?;
                } else {
                    member.read(index, inputs, from, next)?;
                    combine(self.call.operation, self.call.element, sum, next);
                }
                if is_scan {
                    contribution.write(index as usize * share.len() + at, sum);
                }
            }
            if !is_scan {
                contribution.write(at, sum);
            }
            from += tile;
        }
        member.arrive_long(word, length, &contribution);
        Ok(())
    }

    /// After the first round: are all in the same call? All members come to the same verdict, and all end the call with it.
    fn compare(&mut self, member: &Member) -> Result<()> {
        let phase = member.phase();
        let has_counts = self.call.kind.has_counts();
        let first = member.heard(0, phase);
        let mut longest = 0;
        for index in 0..member.size() {
            let said = member.heard(index, phase);
            if said.call != first.call || (!has_counts && said.length != first.length) {
                let what = format!(
                    "{}: index {index} called {}, index 0 {}",
                    member.doing(self.call.kind),
                    Call::describe(said.call, said.length),
                    Call::describe(first.call, first.length)
                );
                return Err(Error::new(ErrorKind::Invalid, what)
                    .with_peer(member.nodes[index as usize])
                    .with_remedy("call the same in every member, with the same root, type, operation and count"));
            }
            longest = longest.max(said.length);
        }
        if has_counts {
            self.pieces = usize::try_from(longest).unwrap_or(usize::MAX).div_ceil(self.choice.piece).max(1);
        }
        Ok(())
    }

    /// Takes this member's part of the round, which is complete.
    fn take(&self, member: &Member, input: &[u8], output: &mut [u8]) -> Result<()> {
        let (call, phase, me) = (&self.call, member.phase(), member.index);
        let is_root = me == call.root;
        let block = call.count * self.element_bytes();
        let piece = self.piece_of(block);
        match call.kind {
            Kind::Barrier => Ok(()),
            Kind::Bcast if is_root => Ok(()),
            Kind::Bcast => member.read(call.root, phase, 0, &mut output[piece]),
            Kind::Reduce if !is_root => Ok(()),
            Kind::Reduce | Kind::Allreduce | Kind::Scan if self.round == Round::Results => {
                self.collect(member, &mut output[piece])
            }
            Kind::Reduce | Kind::Allreduce => self.fold(member, member.size(), &mut output[piece]),
            Kind::Scan => self.fold(member, me + 1, &mut output[piece]),
            Kind::Gather | Kind::Gatherv if !is_root => Ok(()),
            Kind::Gather | Kind::Gatherv | Kind::Allgather | Kind::Allgatherv => self.gather(member, input, output),
            Kind::Scatter | Kind::Scatterv => self.take_part(member, call.root, input, &mut output[..block]),
            Kind::Alltoall | Kind::Alltoallv => {
                let mut begin = 0;
                for index in 0..member.size() {
                    let bytes = self.received_from(index);
                    self.take_part(member, index, input, &mut output[begin..begin + bytes])?;
                    begin += bytes;
                }
                Ok(())
            }
        }
    }

    /// Bytes of the block from member `index`.
    fn received_from(&self, index: u32) -> usize {
        let count = match self.call.kind {
            Kind::Gatherv | Kind::Allgatherv | Kind::Alltoallv => self.call.recv_counts[index as usize],
            _ => self.call.count,
        };
        count * self.element_bytes()
    }

    /// Folds the contributions of the first `members` members into `output`, in the order of indexes.
    fn fold(&self, member: &Member, members: u32, output: &mut [u8]) -> Result<()> {
        // Clearing a whole tile would cost a short reduction more than the rest of it.
        let (mut short, mut long);
        let next: &mut [u8] = if output.len() <= INLINE {
            short = [0; INLINE];
            &mut short
        } else {
            long = [0; TILE];
            &mut long
        };
        for (tile, sum) in output.chunks_mut(TILE).enumerate() {
            member.read(0, member.phase(), tile * TILE, sum)?;
            let next = &mut next[..sum.len()];
            for index in 1..members {
                member.read(index, member.phase(), tile * TILE, next)?;
                combine(self.call.operation, self.call.element, sum, next);
            }
        }
        Ok(())
    }

    /// Collects the shares of a piece from those who worked them out.
    fn collect(&self, member: &Member, output: &mut [u8]) -> Result<()> {
        for index in 0..member.size() {
            let share = self.share_of(index, output.len(), member.size());
            let row = if self.call.kind == Kind::Scan { member.index as usize * share.len() } else { 0 };
            if !share.is_empty() {
                member.read(index, member.phase(), row, &mut output[share])?;
            }
        }
        Ok(())
    }

    fn gather(&self, member: &Member, input: &[u8], output: &mut [u8]) -> Result<()> {
        let mut begin = 0;
        for index in 0..member.size() {
            let bytes = self.received_from(index);
            if self.call.kind.has_counts() {
                self.expect(member, index, member.heard(index, member.phase()).length, bytes)?;
            }
            let piece = self.piece_of(bytes);
            let target = &mut output[begin + piece.start..begin + piece.end];
            if index == member.index {
                target.copy_from_slice(&input[piece]);
            } else if !target.is_empty() {
                member.read(index, member.phase(), 0, target)?;
            }
            begin += bytes;
        }
        Ok(())
    }

    /// Takes the present piece of the block that member `index` has for this one into `output`, which is the whole block.
    fn take_part(&self, member: &Member, index: u32, input: &[u8], output: &mut [u8]) -> Result<()> {
        let (me, phase) = (member.index, member.phase());
        let piece = self.piece_of(output.len());
        if index == me {
            let begin: usize = (0..me).map(|other| self.sent_to(other)).sum();
            self.expect(member, index, self.sent_to(me) as u64, output.len())?;
            output[piece.clone()].copy_from_slice(&input[begin + piece.start..begin + piece.end]);
            return Ok(());
        }
        let mut begin = me as usize * piece.len();
        if self.call.kind.has_counts() {
            let mut head = vec![0u8; 8 * member.size() as usize];
            member.read(index, phase, 0, &mut head)?;
            let blocks: Vec<u64> = head.as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect();
            self.expect(member, index, blocks[me as usize], output.len())?;
            let before =
                blocks[..me as usize].iter().map(|bytes| self.piece_of(usize::try_from(*bytes).unwrap_or(0)).len());
            begin = head.len() + before.sum::<usize>();
        }
        if piece.is_empty() { Ok(()) } else { member.read(index, phase, begin, &mut output[piece]) }
    }

    /// # Errors
    /// `Invalid` unless member `index` gives as many bytes as this one expects.
    fn expect(&self, member: &Member, index: u32, gives: u64, expected: usize) -> Result<()> {
        if gives == expected as u64 {
            return Ok(());
        }
        let bytes = self.element_bytes();
        let (gives, expected) = (gives / bytes as u64, expected / bytes);
        let what = format!("{}: index {index} gives {gives} elements, not {expected}", member.doing(self.call.kind));
        Err(Error::new(ErrorKind::Invalid, what)
            .with_peer(member.nodes[index as usize])
            .with_remedy("give the same counts at both ends"))
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

/// Gives one block, and arrives.
fn give_one(member: &mut Member, word: u64, length: u64, content: &[u8]) -> Result<()> {
    if content.len() <= INLINE {
        member.arrive_short(word, length, content);
        return Ok(());
    }
    let contribution = member.room(content.len())?;
    contribution.write(0, content);
    member.arrive_long(word, length, &contribution);
    Ok(())
}
