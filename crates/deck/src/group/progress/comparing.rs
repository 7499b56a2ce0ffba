//! The first round of a call tells whether all are in it, and how it goes on.

use deck_mudeck::{Error, Result};

use super::super::difference::{IN_PLACE, SHOWS_OUTPUT, difference, length_of};
use super::super::member::Member;
use super::Progress;

impl Progress {
    /// After the first round: are all in the same call? All members come to the same verdict, and all end the call with
    /// it. True if all that is given is read in place. Where this member has not waited for all, it compares its own
    /// call with those that it takes from, and the others later.
    pub(in super::super) fn compare(&mut self, member: &mut Member) -> Result<bool> {
        let (phase, me, size) = (member.phase(), member.index, member.size());
        if let Some(course) = self.course {
            let different = difference(member, phase, me, course.sources(me, size));
            return different.map_or(Ok(false), |error| {
                member.tell_now();
                self.differs(error)
            });
        }
        let has_counts = self.call.kind.has_counts();
        let first = member.heard(0, phase);
        let (mut longest, mut all_in_place, mut differs) = (0, self.choice.may_be_in_place, false);
        for index in 0..size {
            let said = member.heard(index, phase);
            let is_in_place = said.length & IN_PLACE != 0;
            all_in_place &= is_in_place || !self.is_giver(index, size);
            self.has_end |= is_in_place || said.length & SHOWS_OUTPUT != 0;
            let (length, first_length) = (length_of(said.length), length_of(first.length));
            differs |= said.call != first.call || (!has_counts && length != first_length);
            longest = longest.max(length);
        }
        member.settle();
        if differs && let Some(error) = difference(member, phase, 0, 0..size) {
            return self.differs(error);
        }
        if has_counts {
            self.pieces = usize::try_from(longest).unwrap_or(usize::MAX).div_ceil(self.step).max(1);
        } else if all_in_place {
            self.step = self.choice.piece_in_place;
            self.pieces = self.block().div_ceil(self.step).max(1);
        }
        Ok(all_in_place && !has_counts)
    }

    /// Nobody reads what was given.
    fn differs(&mut self, error: Error) -> Result<bool> {
        self.has_ended = true;
        Err(error)
    }
}
