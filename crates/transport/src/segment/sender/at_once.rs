//! Posts as the thread that always posts here, which enters without a locked operation ([`Biased`](deck_sync::Biased)):
//! one way for each protocol, and whatever else would have to be done first is left to [`Sender::post_any`].

use deck_segment::layout::LINE;
use deck_segment::{MappedSlots, Remote};

use super::super::packet::{self, Label};
use super::{Posting, Sender};
use crate::parcel::{Parcel, Small};
use crate::protocol::{Protocol, choose};

impl<R: Remote> Sender<R> {
    /// Posts as the thread that always posts here, if there is room and nothing else is to be done; otherwise nothing
    /// happens. Never waits.
    #[inline]
    pub fn post_quickly(&self, parcel: &Parcel) -> Option<Protocol> {
        match (self.shared_slots(), parcel.small()) {
            (Some(slots), Some(small)) => self.post_small_quickly(slots, small),
            _ => self.post_longer_quickly(parcel),
        }
    }

    #[inline(always)]
    fn post_small_quickly(&self, slots: &MappedSlots, small: Small) -> Option<Protocol> {
        self.posting.visit_as_favourite(|posting| self.post_at_once(posting, slots, small))?
    }

    /// Posts a small message if nothing else is to be done. Budget: two words of the slot, the second line of credits.
    /// No locked operation, no allocation, no system call.
    #[inline(always)]
    pub(super) fn post_at_once(&self, posting: &mut Posting, slots: &MappedSlots, small: Small) -> Option<Protocol> {
        let is_passed = posting.passing.is_some() && self.pass_small(posting, small);
        (is_passed || !self.is_closed() && self.pack(posting, slots, small)).then_some(Protocol::Short)
    }

    /// Not inlined: small messages would pay for it.
    #[inline(never)]
    fn post_longer_quickly(&self, parcel: &Parcel) -> Option<Protocol> {
        if parcel.runs() != 0 {
            return None;
        }
        let posting = &self.posting;
        if packet::fits_a_line(parcel) {
            return posting.visit_as_favourite(|posting| self.post_line_at_once(posting, parcel))?;
        }
        match choose(parcel, &self.thresholds, self.shape.area_max()) {
            Protocol::Short => posting.visit_as_favourite(|posting| self.post_wide_at_once(posting, parcel))?,
            Protocol::Buffered => posting.visit_as_favourite(|posting| self.post_beside_at_once(posting, parcel))?,
            Protocol::ZeroCopy if parcel.buffer().is_some_and(|buffer| buffer.heap().owner() == self.own) => {
                posting.visit_as_favourite(|posting| self.post_zero_copy_at_once(posting, parcel))?
            }
            Protocol::ZeroCopy => None,
        }
    }

    /// Posts what fits into a line, if nothing else is to be done. Every instruction before the line is written is part
    /// of the latency. Budget: the second line of the slot; the second line of credits. No locked operation, no
    /// allocation, no system call.
    #[inline(always)]
    fn post_line_at_once(&self, posting: &mut Posting, parcel: &Parcel) -> Option<Protocol> {
        if posting.passing.is_some() && self.pass_line(posting, parcel) {
            return Some(Protocol::Short);
        }
        self.has_room(posting).then(|| {
            self.publish_short(posting, parcel);
            self.traffic.count(Protocol::Short, parcel.size());
            Protocol::Short
        })
    }

    /// Posts content of one type that takes both lines of a slot, if nothing else is to be done. Budget: these; the
    /// second line of credits. No locked operation, no allocation, no system call.
    #[inline(always)]
    fn post_wide_at_once(&self, posting: &mut Posting, parcel: &Parcel) -> Option<Protocol> {
        let (label, data) = (Label::of(parcel), parcel.data().as_ptr());
        // SAFETY: a parcel's content is readable for its size, and fits into a slot.
        if posting.passing.is_some() && unsafe { self.pass_wide(posting, label, data) } {
            return Some(Protocol::Short);
        }
        self.has_room(posting).then(|| {
            // SAFETY: a parcel's content is readable for its size.
            unsafe { self.publish_wide(posting, &label, data) };
            self.traffic.count(Protocol::Short, parcel.size());
            Protocol::Short
        })
    }

    /// Posts content of one type beside the slot, if nothing else is to be done. Budget: the lines of the content, and
    /// the slot as for shorter messages. No locked operation, no allocation, no system call.
    #[inline(always)]
    fn post_beside_at_once(&self, posting: &mut Posting, parcel: &Parcel) -> Option<Protocol> {
        let (label, data) = (Label::of(parcel), parcel.data().as_ptr());
        // SAFETY: a parcel's content is readable for its size.
        if self.may_pass_beside(posting, &label) && unsafe { self.pass_beside(posting, label, data) } {
            return Some(Protocol::Buffered);
        }
        if !self.has_room(posting) {
            return None;
        }
        let place = self.find_area(posting, parcel.size().div_ceil(LINE) as u32)?;
        // SAFETY: as above.
        unsafe { self.publish_beside(posting, &label, place, data) };
        self.traffic.count(Protocol::Buffered, parcel.size());
        Some(Protocol::Buffered)
    }

    /// Hands over a buffer of this node, if nothing else is to be done. Budget: see [`Sender::post_zero_copy`].
    #[inline(always)]
    fn post_zero_copy_at_once(&self, posting: &mut Posting, parcel: &Parcel) -> Option<Protocol> {
        let posted = self.post_zero_copy(posting, parcel).ok()?;
        self.traffic.count(posted, parcel.size());
        Some(posted)
    }
}
