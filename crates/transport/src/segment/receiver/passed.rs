//! Short messages, and copied ones, that come on a [`Baton`] beside the slots, and what the sender says to come to one.
//!
//! What has come on the baton comes before all that is in slots and was not known to be there: its sender knew that
//! everything it had posted before was retrieved.

use std::sync::Arc;

use deck_segment::fabric::Line;
use deck_segment::layout::LINE_WORDS;
use deck_segment::{HeapMemory, Remote};
use deck_sync::atomic::Ordering;
use deck_sync::{Away, Result};

use super::super::baton::{Baton, Piece};
use super::super::packet::{self, Carries, Packet};
use super::super::ring::{Position, Said, said};
use super::{Expected, Glance, Receiver};
use crate::parcel::Parcel;
use crate::protocol::Protocol;

/// Messages on the baton after which the sender is told how many were retrieved, for those who look on.
const TOLD_AFTER: u32 = 256;
/// The same where nobody ever looks in vain: counts of messages are compared by difference.
const TOLD_AT_ONCE_AFTER: u32 = 1 << 16;
/// So many messages in a row through slots, and nothing is expected on the baton.
const UNUSED_AFTER: u32 = 64;

impl<R: Remote> Receiver<R> {
    /// From now on messages may come on `baton`, in place of another one on which nothing is under way.
    pub fn set_baton(&mut self, baton: Arc<Baton>) {
        (self.baton, self.passed_at) = (Some(baton), self.messages);
    }

    /// Where messages may come beside the slots.
    pub fn baton(&self) -> Option<&Arc<Baton>> {
        self.baton.as_ref()
    }

    /// Whether the sender may write on the baton, and has not left it aside for long: each look there takes it away.
    #[inline]
    pub fn awaits_baton(&self) -> bool {
        self.uses_baton() && self.baton.as_ref().is_some_and(|baton| baton.is_awaited())
    }

    /// Whether a wait for the next message looks away in between: if what came last is anything to go by.
    #[inline]
    pub fn away(&self) -> Away {
        match self.expected {
            _ if !self.awaits_baton() => Away::No,
            Expected::Line => Away::Line,
            Expected::Slot | Expected::Beside(_) | Expected::Passed(_) => Away::Lines,
        }
    }

    #[inline]
    fn uses_baton(&self) -> bool {
        self.baton.is_some() && self.messages.wrapping_sub(self.passed_at) < UNUSED_AFTER
    }

    /// A message was taken that had come on the baton.
    #[inline]
    fn count_passed(&mut self) {
        self.count_short();
        self.passed_at = self.messages;
        if self.messages.wrapping_sub(self.told) >= TOLD_AT_ONCE_AFTER {
            self.tell();
        }
    }

    #[inline]
    fn said(&self, word: usize) -> u64 {
        // Acquire: pairs with: ring/said.
        self.ring.get(self.hungry + word).load(Ordering::Acquire)
    }

    /// Whether the sender has said something that was not heard.
    #[inline]
    pub(super) fn is_spoken_to(&self) -> bool {
        R::IS_MAPPED && self.said(said::COUNT) != self.heard
    }

    /// What the sender has said since this was asked last: the newest.
    pub fn hear(&mut self) -> Option<Said> {
        // What came on the baton before that is taken first: it may be another one from now on.
        if !self.is_spoken_to() || self.is_passed() {
            return None;
        }
        let count = self.said(said::COUNT);
        let [baton, mailbox, ring] = [said::BATON, said::MAILBOX, said::RING].map(|word| self.said(word));
        // It says something else meanwhile, or has begun to: that will be heard.
        if self.said(said::BEGUN) != count {
            return None;
        }
        self.heard = count;
        Some(Said { baton, mailbox, ring, count })
    }

    /// Whether nothing was heard since `said`.
    pub fn has_heard_last(&self, said: &Said) -> bool {
        self.heard == said.count
    }

    /// Whether a message has come on the baton.
    #[inline]
    pub(super) fn is_passed(&self) -> bool {
        self.baton.as_ref().is_some_and(|baton| baton.arrived().is_some())
    }

    /// Whether the sender, which may pass nothing before it knows that its slots are empty, is to be told so; or how
    /// much has come on the baton.
    #[inline]
    pub(super) fn is_to_tell_for_baton(&self) -> bool {
        self.uses_baton()
            && ((self.head, self.taken) != (self.told_head, self.told_taken)
                || self.messages.wrapping_sub(self.told) >= TOLD_AFTER)
    }

    /// Takes the message that has come on the baton, if it is simple; `None` if nothing has. Budget: the baton's line,
    /// or both of them if it takes a slot; the sender's line of credits once in 65,536 messages. No locked operation,
    /// no allocation, no system call. Not inlined: a ring without a baton would pay for it.
    #[inline(never)]
    pub(super) fn take_passed_simple(&mut self, into: &mut Parcel) -> Option<Glance> {
        let baton = self.baton.as_ref()?;
        if let Expected::Passed(piece) = self.expected {
            baton.expect(piece);
        }
        let (number, last) = baton.arrived()?;
        let stamp = Baton::stamp(number);
        if let Some((size, element)) = packet::simple(last, stamp) {
            into.set_words(baton.line(), size, element);
            self.expected = Expected::Line;
        } else if let Some(label) = packet::wide(last, stamp) {
            // SAFETY: the slot is readable for what the label needs.
            if !baton.with_content(|data| unsafe { into.copy_in_place(&label, data) }) {
                return Some(Glance::Unclear);
            }
            self.expected = Expected::Passed(Piece::first_line(self.fetching));
        } else {
            return Some(self.take_passed_beside(number, last, into));
        }
        baton.taken(number);
        self.count_passed();
        Some(Glance::Taken(Protocol::Short))
    }

    /// Takes the message that has come behind the slot of the baton, if it is of one type and `into` has a buffer for
    /// it. Not inlined: shorter messages would pay for it.
    #[inline(never)]
    fn take_passed_beside(&mut self, number: Position, last: u64, into: &mut Parcel) -> Glance {
        let Some(baton) = &self.baton else { return Glance::Unclear };
        let label = match Carries::of(last) {
            Carries::Beside => packet::buffered(baton.line(), last, Baton::stamp(number)).map(|(label, ..)| label),
            _ => None,
        };
        let Some(label) = label.filter(|label| label.size <= Baton::CONTENT as u64) else { return Glance::Unclear };
        // SAFETY: the content is readable for what the label needs, which has no runs.
        if !unsafe { into.copy_in_place(&label, baton.content(label.size as usize)) } {
            return Glance::Unclear;
        }
        baton.taken(number);
        self.expected = Expected::Passed(Piece::behind(self.fetching, label.size as usize));
        self.count_passed();
        Glance::Taken(Protocol::Buffered)
    }

    /// Takes the message that has come on the baton, if one has. Budget: a look at the baton's line if none has; that
    /// of `take_passed_simple`, and for elements of several types or the first ones that a parcel takes also their runs
    /// or a buffer of this node's heap. No system call but for a heap that has to grow.
    ///
    /// # Errors
    /// As [`Receiver::take`].
    pub(super) fn take_passed(&mut self, into: &mut Parcel, heap: &Arc<HeapMemory>) -> Result<Option<Protocol>> {
        match self.take_passed_simple(into) {
            None => return Ok(None),
            Some(Glance::Taken(protocol)) => return Ok(Some(protocol)),
            Some(_) => {}
        }
        let Some((baton, (number, last))) = self.baton.as_ref().and_then(|baton| Some((baton, baton.arrived()?)))
        else {
            return Ok(None);
        };
        // Relaxed: ordered by the acquire of the last word.
        let mut line: Line = std::array::from_fn(|word| baton.line()[word].load(Ordering::Relaxed));
        line[LINE_WORDS - 1] = last;
        let mut protocol = Protocol::Short;
        let expected = match Packet::read(&line, number) {
            Ok(Packet::Typed { label, bytes }) => {
                // SAFETY: `Packet::read` has checked that content and runs lie in `bytes`.
                unsafe { into.copy_collected(&label, bytes.as_ptr(), heap)? };
                Expected::Line
            }
            Ok(Packet::Wide { label }) => {
                // SAFETY: `Packet::read` has checked that content and runs lie in the slot.
                baton.with_content(|data| unsafe { into.copy_collected(&label, data, heap) })?;
                Expected::Passed(Piece::first_line(self.fetching))
            }
            Ok(Packet::Buffered { label, .. }) if packet::needed(&label) <= Baton::CONTENT as u64 => {
                let bytes = packet::needed(&label) as usize;
                // SAFETY: content and runs are readable, as they are no more than there is.
                unsafe { into.copy_collected(&label, baton.content(bytes), heap)? };
                protocol = Protocol::Buffered;
                Expected::Passed(Piece::behind(self.fetching, bytes))
            }
            Ok(_) => return Err(self.nonsense("what came on the baton does not lie there")),
            Err(nonsense) => return Err(self.nonsense(nonsense.0)),
        };
        baton.taken(number);
        self.expected = expected;
        self.count_passed();
        Ok(Some(protocol))
    }
}
