//! What all members give to a reduction, folded in the order of indexes, a tile at a time.

use deck_mudeck::Result;
use deck_segment::content::Way;

use super::board::INLINE;
use super::call::Call;
use super::member::Member;
use super::reduction::combine;

/// Bytes that are folded at a time: they stay in the nearest cache.
pub const TILE: usize = 4 << 10;

/// What all members give to a reduction in one piece.
pub struct Inputs<'a> {
    member: &'a Member,
    phase: u64,
    own: &'a [u8],
    call: &'a Call,
    /// What another member gives, beside the sum: made when the first tile that does not fit into a line is folded.
    other: Vec<u8>,
}

impl<'a> Inputs<'a> {
    /// Those of `phase`, in which this member gives `own`.
    pub fn new(member: &'a Member, phase: u64, own: &'a [u8], call: &'a Call) -> Inputs<'a> {
        Inputs { member, phase, own, call, other: Vec::new() }
    }

    /// Folds what the first `members` members give into `output`, in the order of indexes.
    pub fn fold(&mut self, members: u32, output: &mut [u8]) -> Result<()> {
        for (tile, sum) in output.chunks_mut(TILE).enumerate() {
            (0..members).try_for_each(|index| self.fold_one(index, tile * TILE, sum))?;
        }
        Ok(())
    }

    /// Folds what member `index` gives from byte `from` on into `sum`, at most a tile, which holds those before it.
    pub fn fold_one(&mut self, index: u32, from: usize, sum: &mut [u8]) -> Result<()> {
        let Inputs { member, phase, own, call, other } = self;
        // A tile is read again at once.
        let read = |into: &mut [u8]| member.read(Way::ThroughCaches, index, *phase, from, into);
        match index {
            0 if member.index == 0 => sum.copy_from_slice(&own[from..from + sum.len()]),
            0 => read(sum)?,
            _ if index == member.index => combine(call.operation, call.element, sum, &own[from..from + sum.len()]),
            _ => {
                let mut line = [0; INLINE];
                let other = if sum.len() <= INLINE {
                    &mut line[..sum.len()]
                } else {
                    other.resize(TILE, 0);
                    &mut other[..sum.len()]
                };
                read(other)?;
                combine(call.operation, call.element, sum, other);
            }
        }
        Ok(())
    }
}
