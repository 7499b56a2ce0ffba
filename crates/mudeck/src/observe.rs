//! A ring as those see it who look on: how much has come through it, and how much lies in it.

use deck_peers::observe::{NodeSight, Told};
use deck_segment::layout::{LINE, LINE_WORDS, SLOT};
use deck_segment::slot_offset;
use deck_transport::segment::packed::Packed;
use deck_transport::segment::packet::{Carries, Packet};
use deck_transport::segment::ring::{Position, said};
use deck_transport::{Baton, Shape};

/// What lies in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSight {
    /// Messages that were ever posted to slots, and those that came on a baton as far as they are told, modulo 2^32.
    pub posted: u32,
    /// Messages in slots whose credits have not come back: not retrieved, or retrieved a moment ago.
    pub in_slots: u32,
    /// Messages that lie on a baton and are not retrieved.
    pub on_baton: u32,
    /// How many fit, at least.
    pub messages: u32,
    /// Slots with something in them, and how many can have; several small messages may lie in one.
    pub slots_filled: u32,
    pub slots: u32,
}

impl RingSight {
    /// Messages that lie in it.
    pub fn filled(&self) -> u32 {
        self.in_slots.saturating_add(self.on_baton)
    }
}

/// How many messages lie on the batons that `poster` has told of, for `owner`, in the line of the ring which begins at
/// `line`.
fn on_batons(poster: &NodeSight, owner: &NodeSight, line: Option<u64>) -> u32 {
    let Some(words) = line.and_then(|at| owner.words::<LINE_WORDS>(at)) else { return 0 };
    let [baton, former] = [said::BATON, said::FORMER].map(|word| words[word]);
    // The lower number offers.
    let (offering, is_for_offering) = if owner.number < poster.number { (owner, true) } else { (poster, false) };
    let lies = |place: u64| {
        let words = offering.words::<{ Baton::TELLING }>(place).filter(|_| place.is_multiple_of(SLOT as u64));
        words.is_some_and(|words| Baton::has_one_in(&words, is_for_offering))
    };
    let is_told = words[said::COUNT] != 0;
    u32::from(is_told && lies(baton)) + u32::from(is_told && former != 0 && former != baton && lies(former))
}

/// What lies in the ring that `poster` tells of in `notice`, to a mail box of `owner`. `None` if it cannot be read, or
/// cannot be.
pub fn ring(poster: &NodeSight, owner: &NodeSight, notice: &Told) -> Option<RingSight> {
    let [_, credit, place, messages, bytes, area_lines, ..] = notice.facts;
    let shape = Shape::mapped(u32::try_from(messages).ok()?, bytes, u32::try_from(area_lines).ok()?);
    shape.check().ok()?;
    let slots = shape.slots();
    let line = |position: Position| place.checked_add((slot_offset(position, slots) + LINE) as u64);
    let [retired, _, head] = poster.words::<3>(credit)?;
    let (retired, head, taken) = (retired as u32, head as Position, (head >> 32) as u32);
    let messages_at = |ahead: u32| {
        let position = head.wrapping_add(ahead);
        let last = line(position).and_then(|at| owner.words::<8>(at))?[7];
        let count = if Carries::of(last) == Carries::Small { Packed::from_word(last).count() } else { 1 };
        Packet::has_arrived(last, position, slots).then_some(count)
    };
    // Where the receiver is, all may have been taken that the slot holds.
    let here = messages_at(0).map_or(0, |count| count.saturating_sub(taken));
    let has_left = here > 0 || taken > 0;
    let counts = (1..if has_left { slots } else { 1 }).map_while(messages_at);
    let (behind, slots_behind) = counts.fold((0, 0), |(messages, slots), count| (messages + count, slots + 1));
    let in_slots = here + behind;
    let slots_filled = slots_behind + u32::from(here > 0);
    let posted = retired.wrapping_add(in_slots);
    let on_baton = on_batons(poster, owner, place.checked_add(shape.hungry() as u64));
    Some(RingSight { posted, in_slots, on_baton, messages: shape.messages, slots_filled, slots: shape.limit() })
}
