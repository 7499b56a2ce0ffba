//! One member's side of a reduction to all whose parts are each worked out by one member for all (`once`).

use std::ops::Range;

use deck_mudeck::Result;
use deck_segment::content::Way;
use deck_sync::atomic::pause;
use deck_sync::point;

use super::super::call::Call;
use super::super::choose::once_parts;
use super::super::progress::share_of;
use super::super::protocols::once::Turn;
use super::super::reductions::folding::Inputs;
use super::Member;

/// Looks for a part that another one makes at this moment.
const LOOKS: u32 = 100;

impl Member {
    /// Folds what all give in `call`, of `output.len()` bytes, or takes what others have folded. All have come, and all
    /// to this call.
    pub(super) fn fold_for_all(&mut self, call: &Call, way: Way, input: &[u8], output: &mut [u8]) -> Result<()> {
        let parts = if self.shares_cores { once_parts(call.kind, output.len(), self.nodes.len()) } else { 0 };
        if parts == 0 {
            return Inputs::new(self, self.phase, input, call, way).fold(self.size(), 0, output);
        }
        // Whoever comes while one part is made begins with the next.
        let bytes = output.len();
        let mut under_way = 0u32;
        for part in 0..parts {
            let range = share_of(part, bytes, parts);
            match self.board.once(part).turn(self.phase) {
                Turn::Take { index, place } if self.take_made(index, place, &mut output[range.clone()]).is_some() => {}
                Turn::UnderWay => under_way |= 1 << part,
                turn => {
                    self.fold_part(call, way, input, range.clone(), output)?;
                    if turn == Turn::Offer {
                        point("group/folded");
                        self.offer(part, range, output);
                    }
                }
            }
        }
        for part in (0..parts).filter(|part| under_way & 1 << part != 0) {
            let range = share_of(part, bytes, parts);
            if self.await_made(part, &mut output[range.clone()]).is_none() {
                self.fold_part(call, way, input, range, output)?;
            }
        }
        Ok(())
    }

    fn fold_part(&self, call: &Call, way: Way, input: &[u8], range: Range<usize>, output: &mut [u8]) -> Result<()> {
        let (own, begins) = (&input[range.clone()], |_| range.start);
        let inputs = Inputs::new(self, self.phase, own, call, way).beginning(&begins);
        inputs.fold(self.size(), 0, &mut output[range.clone()])
    }

    /// Lays a part of `output` where all can take it. Without memory for that, all fold on their own.
    fn offer(&mut self, part: u32, range: Range<usize>, output: &[u8]) {
        if let Ok(begin) = self.room.made_once(self.node.membership().heap(), self.phase, output.len()) {
            let offset = begin + range.start;
            let written = self.own_segment().write_by(Way::ThroughCaches, offset, &output[range]);
            debug_assert!(written.is_some());
            self.board.once(part).offer(self.phase, self.index, offset as u64);
        }
    }

    /// Takes a part that another one makes at this moment; `None` if that takes too long, or it cannot lie where it is
    /// said to.
    fn await_made(&self, part: u32, output: &mut [u8]) -> Option<()> {
        let made = (0..LOOKS).find_map(|_| match self.board.once(part).turn(self.phase) {
            Turn::Take { index, place } => Some((index, place)),
            _ => {
                pause();
                None
            }
        });
        made.and_then(|(index, place)| self.take_made(index, place, output))
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
            group.member.board.once(0).told.load(deck_sync::atomic::Ordering::Relaxed)
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
                group.member.board.once(0).offer(group.member.phase() + 1, index, place);
                group.member.shares_cores = true;
                let mut sum = [0.0; 100];
                group.allreduce(&[1.0; 100], &mut sum, Operation::Sum, SOON).unwrap();
                assert_eq!(sum, [f64::from(MEMBERS); 100]);
            }
        });
    }
}
