//! Long reductions of groups whose members are threads of few nodes: folded by one team after the other, with no copy of what is given.
//!
//! A *team* is the members of one node (`teams`), who read one another's arrays where they lie (`neighbours`). The first team folds what
//! its own members give to a piece, each member a share of it; the next one goes on from there with what its own give, and what the last one has is the
//! result. So what members give is read once and copied by nobody, one partial result per team goes from node to node, and the order of
//! folding is that of the indexes. Pieces follow one another: while a team folds one, the team before it folds the next.
//!
//! A *step* is what lies between two meetings: each member collects its part of the result that was ready at the last one, and makes its
//! share of the piece that its team is at. All arrays have been read when all have come to the last meeting.

mod making;

use std::ops::Range;
use std::sync::Arc;

use deck_mudeck::Result;
use deck_sync::{Shelf, point};

use super::call::Kind;
use super::member::Member;
use super::progress::{Lies, Progress, Step, share_of};
use super::teams::Teams;

/// How far a reduction is.
pub struct Relay {
    teams: Arc<Teams>,
    shelf: Arc<Shelf>,
    piece: usize,
    pieces: usize,
    /// Meetings that are complete.
    met: usize,
}

impl Relay {
    /// Of a reduction of `bytes` in pieces of `piece`.
    pub fn new(teams: Arc<Teams>, shelf: Arc<Shelf>, bytes: usize, piece: usize) -> Relay {
        Relay { teams, shelf, piece, pieces: bytes.div_ceil(piece), met: 0 }
    }

    /// The others may have seen something of it.
    pub fn has_begun(&self) -> bool {
        self.met > 0
    }

    /// Meetings after the first one.
    fn steps(&self) -> usize {
        self.pieces + self.teams.count() - 1
    }

    /// The piece that team `number` makes in the present step: others are to be made before, or there are no more.
    fn made_by(&self, number: usize) -> Option<usize> {
        (self.met.checked_sub(number + 1)).filter(|piece| *piece < self.pieces)
    }

    /// The piece of which team `number` has told in the last meeting what it has made.
    fn told_by(&self, number: usize) -> Option<usize> {
        (self.met.checked_sub(number + 2)).filter(|piece| *piece < self.pieces)
    }

    /// Where piece `number` lies in an array of `bytes`.
    fn range(&self, number: usize, bytes: usize) -> Range<usize> {
        number * self.piece..((number + 1) * self.piece).min(bytes)
    }
}

/// The share of a piece of `bytes` that member `index` of a `team` makes.
fn share_in(team: &Range<u32>, index: u32, bytes: usize) -> Range<usize> {
    share_of(index - team.start, bytes, team.len() as u32)
}

impl Progress {
    /// Goes on with a reduction by teams as far as is possible without waiting. What all give may lie in library memory, as is known after the first
    /// meeting: then there is no more of this.
    ///
    /// # Errors
    /// As [`Progress::advance`].
    pub(super) fn relay(&mut self, member: &mut Member, input: &[u8], output: &mut [u8]) -> Result<Step> {
        let Some(mut relay) = self.relay.take() else { return Ok(Step::Done) };
        let result = self.relay_on(&mut relay, member, input, output);
        if !matches!(result, Ok(Step::Done)) {
            self.relay = Some(relay);
        }
        result
    }

    fn relay_on(&mut self, relay: &mut Relay, member: &mut Member, input: &[u8], output: &mut [u8]) -> Result<Step> {
        loop {
            if !self.has_given {
                if relay.met == 0 {
                    self.begin_relay(member, input, output);
                } else if self.step(relay, member, output)? == Step::Done {
                    return Ok(Step::Done);
                }
                self.has_given = true;
            }
            if !member.is_complete() {
                return Ok(Step::Waiting);
            }
            self.has_given = false;
            if relay.met > 0 {
                member.settle();
            } else if self.compare(member)? {
                self.fold_in_place();
                return Ok(Step::Done);
            }
            relay.met += 1;
        }
    }

    /// Comes to the meeting with which the call begins.
    fn begin_relay(&mut self, member: &mut Member, input: &[u8], output: &[u8]) {
        let (word, length) = (self.call.word(), self.length(member) | self.shows_output(member, output));
        match self.in_library(member, input) {
            Some(place) => self.arrive_in_place(Lies::InLibrary(place), member, length, input),
            None => member.arrive_short(word, length, &[]),
        }
    }

    /// One step up to the next meeting, to which this member comes then. `Done` if the last meeting was the last one.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    fn step(&mut self, relay: &Relay, member: &mut Member, output: &mut [u8]) -> Result<Step> {
        if self.failure.is_none() {
            self.failure = self.collect_made(relay, member, output).err();
        }
        point("group/taken");
        if relay.met > relay.steps() {
            return Ok(Step::Done);
        }
        let (word, length) = (self.call.word(), self.length(member));
        let Some(share) = self.share_to_make(relay, member) else {
            member.arrive_short(word, length, &[]);
            return Ok(Step::Waiting);
        };
        let contribution = if self.failure.is_none() { self.room_to_make(&share, member)? } else { None };
        if self.failure.is_none() {
            self.failure = self.make(relay, &share, member, contribution.as_ref(), output).err();
        }
        match contribution {
            // The others go on without this part of the result, and are told so when they read it.
            _ if self.failure.is_some() => member.arrive_without(word, length),
            Some(contribution) => member.arrive_long(word, length, &contribution),
            None => member.arrive_short(word, length, &[]),
        }
        Ok(Step::Waiting)
    }

    /// Collects this member's part of the piece of which was told what the last team has made of it, or in a scan its own team.
    fn collect_made(&self, relay: &Relay, member: &Member, output: &mut [u8]) -> Result<()> {
        let (kind, me) = (self.call.kind, member.index);
        let number = if kind == Kind::Scan { relay.teams.own() } else { relay.teams.count() - 1 };
        let is_wanted = kind != Kind::Reduce || me == self.call.root;
        let Some(piece) = relay.told_by(number).filter(|_| is_wanted) else { return Ok(()) };
        let team = relay.teams.members(number);
        let output = &mut output[relay.range(piece, self.block())];
        let way = member.taking(&self.call, self.taking, output.len());
        self.collect(team, true, way, member, output)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use deck_mudeck::NodeId;

    use super::*;

    #[test]
    fn each_team_makes_each_piece_once_and_after_the_one_before_it_has_told_of_it() {
        let nodes = [0, 0, 1, 1, 1, 2, 2].map(NodeId);
        for pieces in [1, 2, 5] {
            let teams = Arc::new(Teams::of(&nodes, 0).unwrap());
            let shelf = Arc::new(Shelf::new(nodes.len()));
            let mut relay = Relay::new(teams.clone(), shelf, pieces * 64 - 1, 64);
            let (mut made, mut told) = (vec![0; teams.count()], vec![0; teams.count()]);
            for met in 1..=relay.steps() + 1 {
                relay.met = met;
                for team in 0..teams.count() {
                    if let Some(piece) = relay.told_by(team) {
                        assert_eq!(piece, told[team]);
                        told[team] += 1;
                    }
                    if let Some(piece) = relay.made_by(team).filter(|_| met <= relay.steps()) {
                        assert_eq!(piece, made[team]);
                        made[team] += 1;
                        assert!(team == 0 || relay.told_by(team - 1) == Some(piece));
                    }
                }
            }
            assert_eq!((made, told), (vec![pieces; teams.count()], vec![pieces; teams.count()]));
        }
    }
}
