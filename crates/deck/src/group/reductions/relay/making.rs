//! What a member makes of a piece: its share, folded over its team, from where the team before it has come.

use std::ops::Range;

use deck_mudeck::{Error, ErrorKind, Result};
use deck_segment::content::{Content, Way};

use super::super::super::board::INLINE;
use super::super::super::call::{Call, Kind};
use super::super::super::member::{LOOK, Member};
use super::super::super::progress::Progress;
use super::super::folding::TILE;
use super::super::operation::{From, combine};
use super::{Relay, share_in};

/// A member's share of a piece.
pub(super) struct Share {
    /// Where it lies in the piece, and how long that is.
    of_piece: Range<usize>,
    piece: usize,
    /// Where the piece begins in an array.
    begin: usize,
    /// Its number, which tells where it lies in windows.
    number: u64,
    /// It is a result, which this member wants.
    is_result: bool,
    /// How many others want of it, one behind the other.
    rows: usize,
}

/// What the team before this member's has made of a part of the share.
struct Before {
    part: Range<usize>,
    /// Who has made it, and where the part begins in that member's window.
    index: u32,
    from: usize,
}

impl Progress {
    /// What this member makes of piece `piece` of the call, the one of this number of all, if it makes anything.
    pub(super) fn share_to_make(&self, relay: &Relay, number: u64, piece: usize, member: &Member) -> Option<Share> {
        let (kind, own) = (self.call.kind, relay.teams.own());
        let (team, is_last) = (relay.teams.members(own), own + 1 == relay.teams.count());
        let range = relay.range(piece, self.block());
        let of_piece = share_in(&team, member.index, range.len());
        let is_root = kind == Kind::Reduce && member.index == self.call.root;
        let is_result = is_last && (kind == Kind::Allreduce || is_root);
        let rows = match kind {
            Kind::Scan => team.len(),
            _ if is_last && is_root => 0,
            _ => 1,
        };
        let share = Share { of_piece, piece: range.len(), begin: range.start, number, is_result, rows };
        (!share.of_piece.is_empty()).then_some(share)
    }

    /// Makes `share`: for others in its window, and to `output` what this member wants itself.
    ///
    /// # Errors
    /// Those of reading what others give.
    pub(super) fn make(&self, relay: &Relay, share: &Share, member: &Member, output: &mut [u8]) -> Result<()> {
        let team = relay.teams.members(relay.teams.own());
        let at_a_time = (LOOK / team.len()).next_multiple_of(TILE);
        for before in self.parts(relay, share, member.index) {
            for from in before.part.clone().step_by(at_a_time) {
                let to = (from + at_a_time).min(before.part.end);
                self.make_part(relay, share, &before, from..to, member, output)?;
            }
        }
        Ok(())
    }

    /// Makes `part` of a share, for as long as nobody of the team can have its array back.
    fn make_part(
        &self,
        relay: &Relay,
        share: &Share,
        before: &Before,
        part: Range<usize>,
        member: &Member,
        output: &mut [u8],
    ) -> Result<()> {
        let (team, look) = (relay.teams.members(relay.teams.own()), relay.shelf.look());
        let arrays = team.clone().map(|index| member.laid_out(&look, index, self.begins_in.unwrap_or(0)));
        let arrays = arrays.collect::<Result<Vec<&[u8]>>>()?;
        let wanted = if self.call.kind == Kind::Scan { Some((member.index - team.start) as usize) } else { None };
        let slot = relay.slot(share.number, relay.teams.own());
        let window = relay.window.as_ref().filter(|_| share.rows > 0);
        let write = |row: usize, from: usize, sum: &[u8]| {
            if let Some(window) = window {
                window.write(self.giving, slot + row * share.of_piece.len() + from - share.of_piece.start, sum);
            }
        };
        let mut tile = [0; TILE];
        for from in part.clone().step_by(TILE) {
            let to = (from + TILE).min(part.end);
            let here = share.begin + from..share.begin + to;
            let mut line = [0; INLINE];
            let at = before.from + from - before.part.start;
            let (way, phase) = (Way::ThroughCaches, member.phase());
            let first = match relay.teams.own() {
                0 => None,
                _ => Some(member.content(way, before.index, phase, at, to - from, &mut line)?),
            };
            let inputs = Tile { call: &self.call, first, arrays: &arrays, here: here.clone() };
            let tile = &mut tile[..to - from];
            let Some(wanted) = wanted else {
                let sum = if share.is_result { &mut output[here] } else { tile };
                inputs.fold(sum)?;
                write(0, from, sum);
                continue;
            };
            for row in 0..share.rows {
                inputs.fold_one(row, tile)?;
                write(row, from, tile);
                if row == wanted {
                    output[here.clone()].copy_from_slice(tile);
                }
            }
        }
        Ok(())
    }

    /// The parts of a share, each of which one member of the team before has made; all of it where there is none.
    fn parts(&self, relay: &Relay, share: &Share, me: u32) -> Vec<Before> {
        let all = share.of_piece.clone();
        let Some(number) = relay.teams.own().checked_sub(1) else {
            return vec![Before { part: all, index: 0, from: 0 }];
        };
        let team = relay.teams.members(number);
        let [makers, _] = relay.teams.beside(me);
        let parts = makers.map(|index| {
            let made = share_in(&team, index, share.piece);
            let part = made.start.max(all.start)..made.end.min(all.end);
            // What goes on is what the last one of the team has come to.
            let row = if self.call.kind == Kind::Scan { (team.len() - 1) * made.len() } else { 0 };
            let from = relay.slot(share.number, number) + row + part.start.saturating_sub(made.start);
            Before { part, index, from }
        });
        parts.filter(|before| !before.part.is_empty()).collect()
    }
}

/// What is folded at a time.
struct Tile<'a> {
    call: &'a Call,
    /// What the team before has made of it.
    first: Option<Content<'a>>,
    /// The arrays of the team, and where it lies in each.
    arrays: &'a [&'a [u8]],
    here: Range<usize>,
}

impl Tile<'_> {
    fn given(&self, position: usize) -> Result<Content<'_>> {
        let given = self.arrays[position].get(self.here.clone()).map(Content::of);
        given.ok_or_else(|| Error::new(ErrorKind::Corrupt, "a member has laid out less than it said"))
    }

    fn combine(&self, sum: &mut [u8], from: From<'_>) {
        combine(self.call.operation, self.call.element, sum, from);
    }

    /// Folds all to `sum`.
    fn fold(&self, sum: &mut [u8]) -> Result<()> {
        let folded = match (self.first, self.arrays.len()) {
            (None, 2..) => {
                self.combine(sum, From::Two(self.given(0)?, self.given(1)?));
                2
            }
            _ => {
                self.fold_one(0, sum)?;
                1
            }
        };
        (folded..self.arrays.len()).try_for_each(|position| self.fold_one(position, sum))
    }

    /// Folds what the member at `position` gives to `sum`, which holds those before it.
    fn fold_one(&self, position: usize, sum: &mut [u8]) -> Result<()> {
        let given = self.given(position)?;
        match (position, self.first) {
            (0, None) => given.read(0, sum),
            (0, Some(first)) => self.combine(sum, From::Two(first, given)),
            _ => self.combine(sum, From::One(given)),
        }
        Ok(())
    }
}
