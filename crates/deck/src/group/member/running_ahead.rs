//! One member's side where members may be ahead of others: when it may say something, and what it compares later.

use std::time::Duration;

use deck_mudeck::{Error, ErrorKind, Result};
use deck_sync::atomic::Ordering;
use deck_sync::{Deadline, cancellation};

use super::super::board::Said;
use super::super::call::{Call, Kind};
use super::super::difference::{difference, length_of};
use super::super::protocols::ahead::{self, Awaited};
use super::super::protocols::course::Course;
use super::Member;

/// The phase in which members that may be ahead of others say nothing but that they have met the nodes of all.
const MET: u64 = 1;
/// How long joining waits for others to meet all: it takes less, unless a node is stopped.
const MET_WITHIN: Duration = Duration::from_millis(100);

/// What a member knows of others that are behind it.
#[derive(Default)]
pub struct Comparison {
    /// To which phase all have come as far as this member knows.
    settled: u64,
    /// Up to which phase it has compared what all said.
    compared: u64,
    /// Differences of which this member has been told already: a bit for each of the last phases.
    told: u64,
    /// One that is yet to be told.
    late: Option<Error>,
}

impl Member {
    /// From now on this member can read what others give, even when they are gone. No call goes on before all have said
    /// so, where one that is ahead could have done its part, and left the job, before another has met it.
    pub(super) fn tell_met(&mut self) {
        if self.may_be_ahead() {
            self.phase = MET;
            let said = Said { call: Call::barrier().word(), ..Said::default() };
            self.say(&said, &[]);
            ahead::tell(self.board.told(self.index, MET), MET, self.board.changed());
        }
    }

    /// Waits a moment until all have said so, if this one has: then the first call need not. Whoever is absent or gone
    /// is told to that. One that has joined without having met all, as its time was over, does not say so before it
    /// calls. Blocks until the deadline, and [`MET_WITHIN`] at most.
    pub fn await_met(&mut self, deadline: Deadline) {
        let deadline = deadline.min(Deadline::after(MET_WITHIN));
        if self.may_be_ahead()
            && self.has_met()
            && !self.is_open(Some(0))
            && let Err(error) = self.wait(Kind::Barrier, deadline)
            && error.kind() == ErrorKind::Cancelled
        {
            cancellation::postpone();
        }
    }

    /// Members may be ahead of others in this group.
    #[inline]
    pub fn may_be_ahead(&self) -> bool {
        !self.ahead.is_none()
    }

    /// Out of line: where all meet it is not wanted.
    #[inline(never)]
    pub(super) fn have_come(&self) -> bool {
        let sources = self.awaited.course.sources(self.index, self.size());
        // Relaxed: this member's thread alone.
        let mut looked = self.looked.load(Ordering::Relaxed);
        let have_come =
            self.awaited.have_come(self.index, sources, |index, phase| self.board.told(index, phase), &mut looked);
        self.looked.store(looked, Ordering::Relaxed);
        have_come
    }

    /// May this member say something in the next phase? Where it may be ahead of others with a contribution of `bytes`,
    /// the slowest must not be too far behind; elsewhere all must have come as far as it has. Until then waits are for
    /// that.
    #[inline(never)]
    pub fn is_open(&mut self, bytes: Option<usize>) -> bool {
        let next = self.phase + 1;
        let floor = match bytes {
            None => self.phase,
            Some(0) => self.ahead.floor(next),
            Some(bytes) => {
                let Member { board, room, comparison, index, nodes, phase: said, .. } = self;
                let told = |index, phase| board.told(index, phase);
                let sources = Course::Between.sources(*index, nodes.len() as u32);
                // Also this member, which has said nothing yet in the next phase.
                let have_come = |phase| {
                    phase <= comparison.settled
                        || phase <= *said && Awaited::all(phase).have_come(*index, sources.clone(), told, &mut 0)
                };
                self.ahead.floor(next).max(room.choose_ahead(bytes, have_come))
            }
        };
        let floor = floor.max(MET);
        if floor > self.comparison.settled {
            if self.awaited != Awaited::all(floor) {
                self.awaited = Awaited::all(floor);
                // Relaxed: for whoever asks why nothing more comes from this member.
                self.board.awaited(self.index).store(floor, Ordering::Relaxed);
                self.begin_wait();
            }
            if !self.have_come() {
                return false;
            }
            self.comparison.settled = floor;
        }
        self.compare_to(floor);
        true
    }

    /// While this member waits for those it takes from, it looks how far all have come and compares what they said:
    /// then that does not keep up its next call.
    #[inline(never)]
    pub fn settle_meanwhile(&mut self) {
        let sources = Course::Between.sources(self.index, self.size());
        while self.comparison.settled + 1 < self.phase {
            let next = Awaited::all(self.comparison.settled + 1);
            if !next.have_come(self.index, sources.clone(), |index, phase| self.board.told(index, phase), &mut 0) {
                break;
            }
            self.comparison.settled += 1;
        }
        self.compare_to(self.comparison.settled);
    }

    fn compare_to(&mut self, phase: u64) {
        while self.comparison.compared < phase {
            self.comparison.compared += 1;
            self.compare_late(self.comparison.compared);
        }
    }

    /// Only those from whom this member takes are awaited in the present phase.
    pub fn await_sources(&mut self, course: Course) {
        self.awaited.course = course;
    }

    /// All have come to the present phase, and this member has compared what they said.
    #[inline]
    pub fn settle(&mut self) {
        (self.comparison.settled, self.comparison.compared) = (self.phase, self.phase);
    }

    /// This member is told now that what others said in the present phase differs.
    pub fn tell_now(&mut self) {
        self.comparison.told |= 1 << (self.phase % 64);
    }

    /// At the end of a call.
    ///
    /// # Errors
    /// `Invalid`, once, if an earlier call differed and that is yet to be told: this one was carried out.
    #[inline]
    pub fn tell_late(&mut self) -> Result<()> {
        self.comparison.late.take().map_or(Ok(()), Err)
    }

    /// Compares what all said in an earlier phase, in which this member waited for some of them only.
    fn compare_late(&mut self, phase: u64) {
        let bit = 1 << (phase % 64);
        let is_told = self.comparison.told & bit != 0;
        self.comparison.told &= !bit;
        let is_alike = |index| {
            let said = self.board.heard(index, phase);
            (said.call, said.length) == self.said[self.ahead.line(phase)]
        };
        if (0..self.size()).filter(|index| *index != self.index).all(is_alike) {
            return;
        }
        if let Some(error) = difference(self, phase, 0, 0..self.size())
            && !is_told
        {
            self.comparison.late.get_or_insert(error.context("an earlier call differed"));
        }
    }

    /// Those for whom the present wait waits, or for whom they wait in turn, who could go on and have not.
    pub(super) fn behind(&self) -> Vec<bool> {
        let size = self.size();
        let is_missing = |index: u32, phase: u64| !self.board.has_said(index, phase);
        let mut seen = vec![false; size as usize];
        let mut behind = seen.clone();
        let mut open: Vec<u32> = (0..size).filter(|index| self.is_missing(*index)).collect();
        while let Some(index) = open.pop() {
            if std::mem::replace(&mut seen[index as usize], true) {
                continue;
            }
            // It is in the call of that phase, or waits to be allowed to say something in the next.
            let phase = self.board.last_said(index);
            let said = self.board.heard(index, phase);
            let sources = Call::course_said(said.call, length_of(said.length), size).sources(index, size);
            let floor = self.ahead.floor(phase + 1).max(self.board.awaited(index).load(Ordering::Relaxed).min(phase));
            let needs =
                |other: &u32| (sources.contains(other) && is_missing(*other, phase)) || is_missing(*other, floor);
            let awaited: Vec<u32> = (0..size).filter(needs).collect();
            behind[index as usize] = awaited.is_empty();
            open.extend(awaited);
        }
        behind
    }
}
