//! One member's side when others do not come: whom it waits for, and who of them never will.

use deck_mudeck::{NodeState, Result};

use super::super::absent::{self, Absent};
use super::super::board::Place;
use super::super::call::Kind;
use super::super::protocols::ahead::Awaited;
use super::Member;

impl Member {
    /// Is member `index` one of those for whom the present wait waits?
    pub(super) fn is_missing(&self, index: u32) -> bool {
        match &self.flowing.now {
            None => {
                let Awaited { phase, course } = self.awaited();
                course.sources(self.index, self.size()).contains(&index) && !self.board.has_said(index, phase)
            }
            Some(flow) => flow.can_go_on(index, |index| self.board.counts(index)),
        }
    }

    /// Looks, without waiting, whether somebody is gone for whom the present phase waits.
    ///
    /// # Errors
    /// `PeerLost` and `Closed` naming who will never come.
    pub fn look(&mut self, kind: Kind) -> Result<()> {
        let now = (self.board.departed(), self.membership().table().changes());
        if now == self.seen { Ok(()) } else { self.look_around(kind) }
    }

    /// Somebody has come or gone: was it a member that is still needed?
    pub(super) fn look_around(&mut self, kind: Kind) -> Result<()> {
        self.seen = (self.board.departed(), self.membership().table().changes());
        self.check()?;
        // With pieces that flow members may have left whom this phase does not need.
        self.has_lost = (0..self.size()).any(|index| index != self.index && !self.is_live(index));
        let gone = self.gone();
        // After that: who is gone may have done before what is waited for.
        if self.can_go_on() {
            self.look_again_for_the_lost();
            return Ok(());
        }
        if gone.is_empty() {
            return Ok(());
        }
        let error = absent::lost(&self.doing(kind), &gone);
        self.broken = Some(error.clone());
        Err(error)
    }

    /// Somebody has left whom nothing needed until now: for what comes next that may matter.
    #[inline]
    pub(super) fn look_again_for_the_lost(&mut self) {
        if self.has_lost {
            self.seen.1 = self.seen.1.wrapping_sub(1);
        }
    }

    /// Members that will never arrive at the present phase. A dead one counts even if it had said its part: it may not
    /// have got as far as arriving. It counts even if this member needs it in no call yet: those whom it needs now may.
    /// What one had said that left stands, whether it left the group or the whole job; except where parties count: then
    /// a phase that was said need not be counted.
    fn gone(&self) -> Vec<Absent> {
        let table = self.membership().table();
        let is_needed = |index| match &self.flowing.now {
            None => self.is_missing(index),
            Some(flow) => flow.is_needed(index, |index| self.board.counts(index)),
        };
        self.those(|index| match self.board.place(index) {
            Place::Present(node) => match table.state(node) {
                Some(NodeState::Left) if self.parties.firsts.is_none() || self.flowing.now.is_some() => {
                    is_needed(index)
                }
                _ => !table.is_live(node),
            },
            Place::Left(_) | Place::Free => is_needed(index),
        })
    }

    pub(super) fn is_live(&self, index: u32) -> bool {
        matches!(self.board.place(index), Place::Present(node) if self.membership().table().is_live(node))
    }

    /// Whom an error names when a wait ends before all have come.
    pub(super) fn absent(&self) -> Vec<Absent> {
        if self.ahead.is_none() || self.flowing.now.is_some() {
            return self.those(|index| self.is_missing(index));
        }
        let behind = self.behind();
        self.those(|index| behind[index as usize])
    }

    pub(super) fn those(&self, is_absent: impl Fn(u32) -> bool) -> Vec<Absent> {
        let others = (0..self.size()).filter(|index| *index != self.index && is_absent(*index));
        others
            .map(|index| {
                let node = self.nodes[index as usize];
                let has_left = matches!(self.board.place(index), Place::Left(_));
                let state = if has_left { Some(NodeState::Left) } else { self.membership().state(node) };
                Absent { index, node: Some(node), state }
            })
            .collect()
    }
}
