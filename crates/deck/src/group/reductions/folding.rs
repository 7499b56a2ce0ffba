//! What all members give to a reduction, folded in the order of indexes, a tile at a time.

use deck_mudeck::Result;
use deck_segment::content::{Content, Way};

use super::super::board::INLINE;
use super::super::call::Call;
use super::super::member::Member;
use super::operation::{From, combine};

/// Bytes that are folded at a time: they stay in the nearest cache.
pub const TILE: usize = 4 << 10;
/// Bytes that are folded before they are given: a core stands still until what it has copied past the caches has left
/// it.
pub const AT_ONCE: usize = 32 << 10;

/// What all members give to a reduction in one piece.
pub struct Inputs<'a> {
    member: &'a Member,
    phase: u64,
    own: &'a [u8],
    call: &'a Call,
    way: Way,
    /// Where a piece begins in what a member gives, unless it gives nothing else.
    begins: Option<&'a dyn Fn(u32) -> usize>,
}

impl<'a> Inputs<'a> {
    /// Those of `phase`, in which this member gives `own`, to be taken in the way `way`.
    pub fn new(member: &'a Member, phase: u64, own: &'a [u8], call: &'a Call, way: Way) -> Inputs<'a> {
        Inputs { member, phase, own, call, way, begins: None }
    }

    /// The same where the piece begins so far into what each member gives.
    pub fn beginning(self, begins: &'a dyn Fn(u32) -> usize) -> Inputs<'a> {
        Inputs { begins: Some(begins), ..self }
    }

    /// Folds what the first `members` members give from byte `from` on into `output`, in the order of indexes.
    pub fn fold(&self, members: u32, from: usize, output: &mut [u8]) -> Result<()> {
        let mut tiles = (from..).step_by(TILE).zip(output.chunks_mut(TILE));
        tiles.try_for_each(|(from, sum)| self.fold_tile(members, from, sum))
    }

    fn fold_tile(&self, members: u32, from: usize, sum: &mut [u8]) -> Result<()> {
        if members == 1 {
            return self.fold_one(0, from, sum);
        }
        let (mut first, mut second) = ([0; INLINE], [0; INLINE]);
        let both = From::Two(self.given(0, from, sum.len(), &mut first)?, self.given(1, from, sum.len(), &mut second)?);
        combine(self.call.operation, self.call.element, sum, both);
        (2..members).try_for_each(|index| self.fold_one(index, from, sum))
    }

    /// Folds what member `index` gives from byte `from` on into `sum`, which holds those before it.
    pub fn fold_one(&self, index: u32, from: usize, sum: &mut [u8]) -> Result<()> {
        let mut line = [0; INLINE];
        let given = self.given(index, from, sum.len(), &mut line)?;
        match index {
            0 => given.read(0, sum),
            _ => combine(self.call.operation, self.call.element, sum, From::One(given)),
        }
        Ok(())
    }

    /// What member `index` gives, where it lies, or from its line.
    fn given<'b>(&'b self, index: u32, from: usize, bytes: usize, line: &'b mut [u8; INLINE]) -> Result<Content<'b>> {
        if index == self.member.index {
            return Ok(Content::of(&self.own[from..from + bytes]));
        }
        let begin = self.begins.map_or(0, |begin| begin(index));
        let content = self.member.content(self.way, index, self.phase, begin + from, bytes, line)?;
        // What was given past the caches comes from memory, which is far away.
        if self.way == Way::PastCaches && bytes == TILE {
            content.ask_for_next();
        }
        Ok(content)
    }
}
