//! Where members share the work of a reduction: each works out one block of a piece, and all collect the blocks.

use std::ops::Range;

use deck_mudeck::Result;
use deck_segment::content::{self, Way};
use deck_sync::point;

use super::super::call::Kind;
use super::super::member::Member;
use super::super::reductions::folding::{AT_ONCE, Inputs};
use super::Progress;

/// Blocks of shared work begin at multiples of this: whole elements, whole cache lines.
const BLOCK_STEP: usize = 64;

/// The share of a piece of `bytes` that member `index` of `members` works on.
pub(in super::super) fn share_of(index: u32, bytes: usize, members: u32) -> Range<usize> {
    let block = bytes.div_ceil(members as usize).next_multiple_of(BLOCK_STEP);
    let from = (index as usize * block).min(bytes);
    from..(from + block).min(bytes)
}

impl Progress {
    /// Works out this member's share of the piece, and gives it.
    pub(super) fn give_results(&mut self, member: &mut Member, input: &[u8], output: &mut [u8]) -> Result<()> {
        let (word, length, phase) = (self.call.word(), self.length(member), member.phase());
        let piece = self.piece_of(self.block());
        let share = share_of(member.index, piece.len(), member.size());
        if share.is_empty() {
            member.arrive_short(word, length, &[]);
            return Ok(());
        }
        if self.failure.is_some() {
            member.arrive_without(word, length);
            return Ok(());
        }
        let kind = self.call.kind;
        // Whoever wants the result as well gets it here; an allreduce may be read there.
        let keeps = kind == Kind::Allreduce || (kind == Kind::Reduce && member.index == self.call.root);
        let place = if kind == Kind::Allreduce { self.in_library(member, output) } else { None };
        let rows = if kind == Kind::Scan { member.size() as usize } else { 1 };
        let contribution = match (kind, keeps, place) {
            (Kind::Reduce, true, _) | (_, _, Some(_)) => None,
            _ => Some(member.room(share.len() * rows, false)?),
        };
        let inputs = Inputs::new(member, phase, &input[piece.clone()], &self.call, self.taking);
        let step = AT_ONCE.min(share.len());
        // Others read it in the output, so it is to go past the caches there.
        let is_shown_past = place.is_some() && self.giving == Way::PastCaches;
        let mut made = if keeps && !is_shown_past { Vec::new() } else { vec![0; step] };
        for from in share.clone().step_by(step) {
            let (bytes, at) = (step.min(share.end - from), from - share.start);
            let result = piece.start + from..piece.start + from + bytes;
            let sum = if made.is_empty() { &mut output[result.clone()] } else { &mut made[..bytes] };
            if rows > 1 {
                for row in 0..rows {
                    inputs.fold_one(row as u32, from, sum)?;
                    if let Some(contribution) = &contribution {
                        contribution.write(self.giving, row * share.len() + at, sum);
                    }
                }
                continue;
            }
            inputs.fold(member.size(), from, sum)?;
            if let Some(contribution) = &contribution {
                contribution.write(self.giving, at, sum);
            }
            if is_shown_past {
                content::copy(self.giving, &mut output[result], &made[..bytes]);
            }
        }
        point("group/folded");
        match (contribution, place) {
            (Some(contribution), _) => member.arrive_long(word, length, &contribution),
            (None, Some(place)) => {
                self.shown[1] = Some(place);
                member.arrive_at(word, length, place + piece.start + share.start);
            }
            (None, None) => member.arrive_short(word, length, &[]),
        }
        Ok(())
    }

    /// Collects the shares of a piece from the members `from` who worked them out, each `begin` bytes into what it
    /// gives. What one of them is to have of its own share is there if `has_own`.
    pub(in super::super) fn collect(
        &self,
        (from, begin): (Range<u32>, usize),
        has_own: bool,
        way: Way,
        member: &Member,
        output: &mut [u8],
    ) -> Result<()> {
        for index in from.clone().filter(|index| !has_own || *index != member.index) {
            let share = share_of(index - from.start, output.len(), from.len() as u32);
            let row = if self.call.kind == Kind::Scan { (member.index - from.start) as usize * share.len() } else { 0 };
            if !share.is_empty() {
                member.read(way, index, member.phase(), begin + row, &mut output[share])?;
            }
        }
        Ok(())
    }
}
