//! One member's side of a reduction to all that one member works out for all (`once`).

use deck_mudeck::Result;
use deck_segment::content::Way;

use super::super::call::Call;
use super::super::choose::may_be_made_once;
use super::super::folding::Inputs;
use super::super::once::Turn;
use super::Member;

impl Member {
    /// Folds what all give in `call`, of `output.len()` bytes, or takes what another one has folded. All have come, and all to this call.
    pub(super) fn fold_for_all(&mut self, call: &Call, way: Way, input: &[u8], output: &mut [u8]) -> Result<()> {
        let phase = self.phase;
        let turn = match self.shares_cores && may_be_made_once(call.kind, output.len(), self.nodes.len()) {
            true => self.board.once().turn(phase),
            false => Turn::Alone,
        };
        if let Turn::Take { index, place } = turn
            && self.take_made(index, place, output).is_some()
        {
            return Ok(());
        }
        Inputs::new(self, phase, input, call, way).fold(self.size(), output)?;
        if turn == Turn::Offer {
            // Without memory for it, all fold on their own.
            if let Ok(offset) = self.room.made_once(self.node.membership().heap(), phase, output.len()) {
                let written = self.own_segment().write_by(Way::ThroughCaches, offset, output);
                debug_assert!(written.is_some());
                self.board.once().offer(phase, self.index, offset as u64);
            }
        }
        Ok(())
    }

    /// `None` if what member `index` has made cannot lie at `place`.
    fn take_made(&self, index: u32, place: u64, output: &mut [u8]) -> Option<()> {
        let segment = self.segments.get(index as usize)?;
        segment.read_by(Way::ThroughCaches, usize::try_from(place).ok()?, output)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use deck_mudeck::Node;

    use super::super::super::{Group, Operation};

    const SOON: Duration = Duration::from_secs(20);
    const MEMBERS: u32 = 4;

    /// Runs `member` in a thread for each member of a group whose members take it that they share cores.
    fn together<T: Send>(name: &str, member: impl Fn(Group) -> T + Sync) -> Vec<T> {
        let node = Node::join().unwrap();
        std::thread::scope(|scope| {
            let member = &member;
            let threads: Vec<_> = (0..MEMBERS)
                .map(|index| {
                    let node = node.clone();
                    scope.spawn(move || member(Group::join(&node, name, MEMBERS, Some(index), SOON).unwrap()))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no member panics")).collect()
        })
    }

    #[test]
    fn whoever_takes_what_another_one_has_folded_has_the_same() {
        let made: Vec<u64> = together("folded once", |mut group| {
            for call in 0..600u32 {
                // More bytes from time to time, so that memory for results is outgrown.
                let count = 60 + (call as usize * call as usize / 100) % 2000;
                let value = |index: u32, at: usize| f64::from(index + call) / 3.0 + at as f64;
                let input: Vec<f64> = (0..count).map(|at| value(group.index(), at)).collect();
                let folded = |at| (1..MEMBERS).fold(value(0, at), |sum, index| sum + value(index, at));
                let mut sum = vec![0.0; count];
                group.member.shares_cores = true;
                group.allreduce(&input, &mut sum, Operation::Sum, SOON).unwrap();
                assert!(sum.into_iter().eq((0..count).map(folded)), "call {call}");
            }
            group.member.board.once().told.load(deck_sync::atomic::Ordering::Relaxed)
        });
        // Somebody has offered what it has folded.
        assert!(made.iter().all(|made| *made > 0));
    }

    #[test]
    fn a_result_that_cannot_lie_where_it_is_said_to_is_made_again() {
        together("misled", |mut group| {
            group.barrier(SOON).unwrap();
            for (index, place) in [(2, u64::MAX / 2), (1000, 64), (2, u64::MAX)] {
                // All say the same before anybody comes to that phase.
                group.member.board.once().offer(group.member.phase() + 1, index, place);
                group.member.shares_cores = true;
                let mut sum = [0.0; 100];
                group.allreduce(&[1.0; 100], &mut sum, Operation::Sum, SOON).unwrap();
                assert_eq!(sum, [f64::from(MEMBERS); 100]);
            }
        });
    }
}
