//! One member's side where pieces flow: what it has given and taken, and what it waits for.

use std::sync::Arc;

use deck_mudeck::Result;

use super::super::choose::Layout;
use super::super::flow::{Counts, Course, Flow};
use super::super::teams::Teams;
use super::{Contribution, Member};

impl Member {
    /// The `count` pieces of the call that comes next.
    pub fn next_flow(&self, course: Course, count: u64, layout: Layout) -> Flow {
        let begin = self.pieces;
        let floor = if layout == self.layout { 0 } else { begin };
        Flow { course, members: self.size(), begin, end: begin + count, slots: layout.slots, floor, teams: None }
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

    /// This member may give its next piece, or take it.
    pub fn can(&self, flow: &Flow) -> (bool, bool) {
        let counts = |index| self.board.counts(index);
        (flow.can_give(self.index, counts), flow.can_take(self.index, counts))
    }

    /// This member has done its part.
    pub fn is_over(&self, flow: &Flow) -> bool {
        flow.is_over(self.index, |index| self.board.counts(index))
    }

    /// This member has given the pieces before `number`.
    pub fn give(&self, number: u64) {
        self.counts().give(number, self.board.changed());
    }

    /// This member has taken the pieces before `number`, or does not need them.
    pub fn take(&self, number: u64) {
        self.counts().take(number, self.board.changed());
    }

    /// From now on waits are for the pieces of `flow`: all have arrived, and are in the same call.
    pub fn begin_flow(&mut self, flow: Flow, layout: Layout) {
        (self.flow, self.layout) = (Some(flow), layout);
        self.begin_wait();
    }

    /// This member has done its part.
    pub fn end_flow(&mut self, flow: &Flow) {
        (self.flow, self.pieces) = (None, flow.end);
    }
}
