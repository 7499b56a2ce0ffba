//! Short messages, and copied ones, on a [`Baton`] in place of slots, and what is said beside the messages to come to
//! one.

use std::sync::Arc;

use deck_segment::Remote;
use deck_sync::point;

use super::super::baton::Baton;
use super::super::packet::{self, Label};
use super::super::ring::{Said, said};
use super::{Posting, Sender};
use crate::parcel::{Parcel, Small};
use crate::protocol::Protocol;

/// The most batons that a ring had before. They are kept as long as the ring: until it has heard of the next one, the
/// other node looks there.
const FORMER_MAX: usize = 16;

/// Where more than one message in three goes through slots although there is a baton, it does not pay: the two sides do
/// not talk in turn. A message that could not be passed counts as two that were, and nothing is passed for a while once
/// so many more could not.
const MISS: u32 = 2;
const MISSES_MAX: u32 = 64;
/// What the other side passes is a reason to go on unless it may have been on its way when the pause began: that is
/// over after so many messages.
const ON_THE_WAY: u64 = 16;

/// The baton of a ring.
pub(super) struct Passing {
    baton: Arc<Baton>,
    /// Whether the other node has it, too.
    is_ready: bool,
    /// Messages posted when it was written last: so many still, and no slot has anything that is not retrieved.
    posted: Option<u64>,
    misses: u32,
    pause: Option<Pause>,
}

/// Nothing is passed for a while.
struct Pause {
    /// Messages posted when it began.
    since: u64,
    /// What the baton had carried at the last look.
    carried: u32,
}

impl Passing {
    fn new(baton: Arc<Baton>) -> Passing {
        Passing { baton, is_ready: false, posted: None, misses: 0, pause: None }
    }

    pub(super) fn into_baton(self) -> Arc<Baton> {
        self.baton
    }

    /// Whether the messages are to go through slots, of which `posted` were posted.
    #[inline]
    fn pauses(&mut self, posted: u64) -> bool {
        let Some(pause) = &mut self.pause else { return false };
        let carried = self.baton.carried();
        if std::mem::replace(&mut pause.carried, carried) != carried && posted - pause.since > ON_THE_WAY {
            self.go_on();
        }
        self.pause.is_some()
    }

    /// True if it was paused.
    fn go_on(&mut self) -> bool {
        self.misses = 0;
        self.pause.take().is_some()
    }

    fn note_miss(&mut self, posted: u64) {
        self.misses += MISS;
        if self.misses >= MISSES_MAX {
            self.pause = Some(Pause { since: posted, carried: self.baton.carried() });
        }
    }
}

impl<R: Remote> Sender<R> {
    /// Holds `baton` in place of another one, on which nothing is passed any more. False if there were too many, or
    /// nothing is posted here any more.
    pub fn hold_baton(&self, baton: Arc<Baton>) -> bool {
        let mut posting = self.posting.lock_as_guest();
        if self.ended().is_some() || self.is_closed() || posting.former.len() >= FORMER_MAX {
            return false;
        }
        if let Some(former) = posting.passing.replace(Passing::new(baton)) {
            posting.passed_before = if former.posted.is_some() { former.baton.place() } else { posting.passed_before };
            posting.former.push(former.into_baton());
        }
        true
    }

    /// From now on short messages may be passed on `baton`, if that is the one that is held: the other node looks
    /// there.
    pub fn start_passing(&self, baton: &Arc<Baton>) {
        if let Some(passing) = &mut self.posting.lock_as_guest().passing {
            passing.is_ready |= Arc::ptr_eq(&passing.baton, baton);
        }
    }

    /// Goes on with `baton`, on which nothing was passed for a while as the two sides did not talk in turn. False if
    /// that is not so.
    pub fn go_on_passing(&self, baton: &Arc<Baton>) -> bool {
        let mut posting = self.posting.lock_as_guest();
        posting.passing.as_mut().is_some_and(|passing| Arc::ptr_eq(&passing.baton, baton) && passing.go_on())
    }

    /// The baton that is held, and whether messages may be passed on it.
    pub fn baton(&self) -> Option<(Arc<Baton>, bool)> {
        self.posting.lock_as_guest().passing.as_ref().map(|passing| (passing.baton.clone(), passing.is_ready))
    }

    /// Says something beside the messages. False if nothing is posted here any more.
    pub fn say(&self, what: Said) -> bool {
        let mut posting = self.posting.lock_as_guest();
        if self.ended().is_some() || self.is_closed() {
            return false;
        }
        posting.said += 1;
        let line = self.place.ring + self.shape.hungry();
        // Release (in the fabric): pairs with: ring/said. First: whoever hears a part of this finds that it was begun.
        self.remote.write_word(line + 8 * said::BEGUN, posting.said);
        self.remote.flush();
        let words = [
            (said::FORMER, posting.passed_before),
            (said::BATON, what.baton),
            (said::MAILBOX, what.mailbox),
            (said::RING, what.ring),
        ];
        words.into_iter().for_each(|(word, value)| self.remote.write_word(line + 8 * word, value));
        self.remote.flush();
        // Release (in the fabric): pairs with: ring/said.
        self.remote.write_word(line + 8 * said::COUNT, posting.said);
        self.remote.flush();
        true
    }

    /// The number of the next message on the baton, if the mail box is open, it is this end's turn and no message in a
    /// slot would be overtaken.
    #[inline]
    fn to_pass(&self, passing: &mut Passing) -> Option<u32> {
        let posted = self.traffic.messages();
        if !passing.is_ready || passing.pauses(posted) {
            return None;
        }
        let is_next = || passing.posted == Some(posted) || self.has_retired(posted as u32);
        let number = passing.baton.to_write().filter(|_| !self.is_closed() && is_next());
        if number.is_none() {
            passing.note_miss(posted);
        }
        number
    }

    /// After a message was passed. Whoever comes by at slots lets go of long messages that were retrieved; where none
    /// is used any more, that is here.
    #[inline]
    fn has_passed(&self, posting: &mut Posting, protocol: Protocol, bytes: usize) {
        self.announce();
        self.traffic.count(protocol, bytes);
        if let Some(passing) = &mut posting.passing {
            passing.posted = Some(self.traffic.messages());
            passing.misses = passing.misses.saturating_sub(1);
        }
        self.reap_some(posting, 1);
    }

    /// Passes a small message on, if that can be. Budget: two words of the baton's line, the second line of credits. No
    /// locked operation, no allocation, no system call. Not inlined: a ring without a baton would pay for it.
    #[inline(never)]
    pub(super) fn pass_small(&self, posting: &mut Posting, small: Small) -> bool {
        let Some(passing) = &mut posting.passing else { return false };
        let Some(number) = self.to_pass(passing) else { return false };
        point("post/reserved");
        let last = packet::small_word(small.size(), small.element, Baton::stamp(number));
        passing.baton.write_word(number, small.word, last);
        self.has_passed(posting, Protocol::Short, small.size());
        true
    }

    /// Passes a message on that fits into a line, if that can be. Budget: the baton's line, the second line of credits.
    /// No locked operation, no allocation, no system call. Not inlined: a ring without a baton would pay for it.
    #[inline(never)]
    pub(super) fn pass_line(&self, posting: &mut Posting, parcel: &Parcel) -> bool {
        let Some(passing) = &mut posting.passing else { return false };
        let Some(number) = self.to_pass(passing) else { return false };
        point("post/reserved");
        let mut memory = None;
        let (line, last) = Self::line(parcel, Baton::stamp(number), &mut memory);
        passing.baton.write(number, line, last);
        self.has_passed(posting, Protocol::Short, parcel.size());
        true
    }

    /// Passes a message on that takes a slot, if that can be: content and runs of `label` at `data`. Budget: both lines
    /// of the baton, the second line of credits. No locked operation, no allocation, no system call. Not inlined: a
    /// ring without a baton would pay for it.
    ///
    /// # Safety
    /// `data` is readable for what the label needs, which is no more than a slot has room for.
    #[inline(never)]
    pub(super) unsafe fn pass_wide(&self, posting: &mut Posting, label: Label, data: *const u8) -> bool {
        let Some(passing) = &mut posting.passing else { return false };
        let Some(number) = self.to_pass(passing) else { return false };
        point("post/reserved");
        let last = packet::wide_word(&label, Baton::stamp(number));
        // SAFETY: as the caller promises.
        unsafe { passing.baton.write_whole(number, data, packet::needed(&label) as usize, last) };
        self.has_passed(posting, Protocol::Short, label.size as usize);
        true
    }

    /// Whether what `label` tells of, which is copied, may go on the baton.
    #[inline]
    pub(super) fn may_pass_beside(&self, posting: &Posting, label: &Label) -> bool {
        posting.passing.is_some() && self.passes_beside && packet::needed(label) <= Baton::CONTENT as u64
    }

    /// Passes a message on that takes no slot but is copied, if that can be: content and runs of `label` at `data`,
    /// after [`Sender::may_pass_beside`]. Budget: the lines of the content, the baton's line, the second line of
    /// credits. No locked operation, no allocation, no system call. Not inlined: a ring without a baton would pay for
    /// it.
    ///
    /// # Safety
    /// `data` is readable for what the label needs.
    #[inline(never)]
    pub(super) unsafe fn pass_beside(&self, posting: &mut Posting, label: Label, data: *const u8) -> bool {
        let Some(passing) = &mut posting.passing else { return false };
        let Some(number) = self.to_pass(passing) else { return false };
        point("post/reserved");
        let line = packet::buffered_line(&label, 0, 0, Baton::stamp(number));
        // SAFETY: as the caller promises.
        unsafe { passing.baton.write_beside(number, data, packet::needed(&label) as usize, &line) };
        self.has_passed(posting, Protocol::Buffered, label.size as usize);
        true
    }

    /// As [`Sender::pass_beside`], whatever `parcel` has.
    pub(super) fn pass_collected(&self, posting: &mut Posting, parcel: &Parcel) -> bool {
        let label = Label::of(parcel);
        if !self.may_pass_beside(posting, &label) {
            return false;
        }
        let mut memory = [0u8; Baton::CONTENT];
        let data = parcel.collected(&mut memory);
        // SAFETY: content and runs are readable there, as long as parcel and memory live.
        unsafe { self.pass_beside(posting, label, data) }
    }
}
