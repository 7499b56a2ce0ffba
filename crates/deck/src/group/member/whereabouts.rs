//! Where the members are that share cores: whom a wait lets run, and who moves to another core.

use deck_sync::atomic::Ordering;
use deck_sync::{Deadline, Whereabouts, current_core};

use super::Member;

impl Member {
    /// Where those are whom the present phase still waits for; tells the others where this member is.
    pub(super) fn whereabouts(&self) -> Whereabouts {
        if self.parties.firsts.is_some() {
            // Too many to look at each.
            return Whereabouts::Unknown;
        }
        // Relaxed, all of them: hints.
        let (core, own) = (u64::from(current_core()) + 1, self.board.core(self.index));
        if own.load(Ordering::Relaxed) != core {
            own.store(core, Ordering::Relaxed);
        }
        let looked = if self.flowing.now.is_some() { 0 } else { self.looked.load(Ordering::Relaxed) as u32 };
        let mut whereabouts = Whereabouts::Elsewhere;
        for index in (looked..self.size()).filter(|index| *index != self.index && self.is_missing(*index)) {
            match self.board.core(index).load(Ordering::Relaxed) {
                known if known == core => return Whereabouts::Here,
                0 => whereabouts = Whereabouts::Unknown,
                _ => {}
            }
        }
        whereabouts
    }

    /// Are there more threads than cores? Then it sees to it that the members are spread evenly over the cores.
    #[cold]
    pub(super) fn look_at_the_crowd(&mut self, deadline: Deadline) {
        self.shares_cores = self.membership().crowd().is_crowded();
        if self.shares_cores && self.parties.firsts.is_none() && !deadline.is_now() && !self.can_go_on() {
            // Relaxed: hints.
            let core = |index| (self.board.core(index).load(Ordering::Relaxed) as u32).checked_sub(1);
            self.spread.look(self.index as usize, (0..self.nodes.len() as u32).map(core));
        }
    }
}
