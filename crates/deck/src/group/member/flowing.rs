//! One member's side where pieces flow: what it has given and taken, and what it waits for.

use std::sync::Arc;

use deck_mudeck::Result;
use deck_sync::atomic::Ordering;

use super::super::choose::Layout;
use super::super::protocols::course::Course;
use super::super::protocols::flow::{Counts, Flow};
use super::super::protocols::teams::Teams;
use super::{Contribution, Member};

/// What flows at a member.
#[derive(Default)]
pub struct Flowing {
    /// The pieces of the present phase, while they flow.
    pub now: Option<Flow>,
    /// Pieces of all calls before, and how long those of the last one were.
    pieces: u64,
    layout: Layout,
    /// Whom the present wait is for as well: this member has something to do when one of them has come and given so
    /// much, even if others have not.
    pub early: Vec<(u32, u64)>,
}

impl Member {
    /// The `count` pieces of the call that comes next.
    pub fn next_flow(&self, course: Course, count: u64, layout: Layout) -> Flow {
        let begin = self.flowing.pieces;
        let floor = if layout == self.flowing.layout { 0 } else { begin };
        let (members, end, slots) = (self.size(), begin + count, layout.slots);
        Flow { course, members, begin, end, slots, floor, teams: None, lends: false, in_turn: false }
    }

    /// The same where pieces go from team to team. All have ended the calls before when one of them is given.
    pub fn next_flow_by(&self, teams: &Arc<Teams>, course: Course, count: u64, layout: Layout) -> Flow {
        Flow { floor: 0, teams: Some(teams.clone()), ..self.next_flow(course, count, layout) }
    }

    /// Memory for the window of this member.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn window(&mut self, layout: Layout) -> Result<Contribution> {
        let bytes = layout.slots as usize * layout.slot;
        let offset = self.room.window(self.node.membership().heap(), self.phase + 1, bytes)?;
        Ok(self.contribution(offset))
    }

    /// How many pieces this member has given and taken.
    pub fn counts(&self) -> Counts<'_> {
        self.board.counts(self.index)
    }

    /// This member may give its next piece.
    pub fn can_give(&self, flow: &Flow) -> bool {
        flow.can_give(self.index, |index| self.board.counts(index))
    }

    /// This member may take its next piece.
    pub fn can_take(&self, flow: &Flow) -> bool {
        flow.can_take(self.index, |index| self.board.counts(index))
    }

    /// This member has done its part, and the others have read what it lends.
    pub fn has_ended(&self, flow: &Flow) -> bool {
        flow.has_ended(self.index, |index| self.board.counts(index))
    }

    /// This member has given the pieces before `number`.
    pub fn give(&self, flow: &Flow, number: u64) {
        flow.give(self.index, number, |index| self.board.counts(index), self.board.changed());
    }

    /// This member has taken the pieces before `number`, or does not need them.
    pub fn take(&self, flow: &Flow, number: u64) {
        flow.take(self.index, number, |index| self.board.counts(index), self.board.changed());
    }

    /// Before all have come to the present phase, waits are also until one of these has come and given the pieces
    /// before `number`; the first that has.
    pub fn await_early(&mut self, indexes: impl Iterator<Item = u32>, number: u64) -> Option<u32> {
        self.flowing.early.clear();
        // Where parties count, nobody is told of one member alone.
        if self.parties.firsts.is_none() {
            self.flowing.early.extend(indexes.map(|index| (index, number)));
        }
        self.flowing.early.iter().find(|early| self.has_come_early(**early)).map(|(index, _)| *index)
    }

    /// It has come to the present phase and given so much: what it has said and given is visible.
    pub(super) fn has_come_early(&self, (index, number): (u32, u64)) -> bool {
        // Acquire: pairs with: meeting/flag, ahead/told.
        self.board.told(index, self.phase).load(Ordering::Acquire) >= self.phase
            // Acquire: pairs with: flow/given.
            && self.board.counts(index).given.load(Ordering::Acquire) >= number
    }

    /// From now on waits are for the pieces of `flow`: all have arrived, and are in the same call.
    pub fn begin_flow(&mut self, flow: Flow, layout: Layout) {
        (self.flowing.now, self.flowing.layout) = (Some(flow), layout);
        self.begin_wait();
    }

    /// This member has done its part.
    pub fn end_flow(&mut self, flow: &Flow) {
        (self.flowing.now, self.flowing.pieces) = (None, flow.end);
    }
}
