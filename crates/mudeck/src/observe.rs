//! A ring as those see it who look on: how much has come through it, and how much lies in it.

use deck_peers::observe::{NodeSight, Told};
use deck_segment::layout::LINE;
use deck_segment::slot_offset;
use deck_transport::Shape;
use deck_transport::segment::packed::Packed;
use deck_transport::segment::packet::{Carries, Packet};
use deck_transport::segment::ring::{Position, said};

/// What lies in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSight {
    /// Messages that were ever posted, modulo 2^32.
    pub posted: u32,
    /// Those of them whose credits have not come back: not retrieved, or retrieved a moment ago.
    pub filled: u32,
    /// How many fit, at least.
    pub messages: u32,
    /// Slots with something in them, and how many can have; several small messages may lie in one.
    pub slots_filled: u32,
    pub slots: u32,
    /// Whether short messages may come on a baton, too. One that lies there is not counted, and of those that came how many is told late.
    pub has_baton: bool,
}

/// What lies in the ring that `poster` tells of in `notice`, to a mail box of `owner`. `None` if it cannot be read, or cannot be.
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
    let (behind, slots_behind) = counts.fold((0, 0), |(filled, slots), count| (filled + count, slots + 1));
    let filled = here + behind;
    let slots_filled = slots_behind + u32::from(here > 0);
    let posted = retired.wrapping_add(filled);
    let said = place.checked_add((shape.hungry() + 8 * said::COUNT) as u64);
    let has_baton = said.and_then(|at| owner.words::<1>(at)).is_some_and(|[count]| count != 0);
    Some(RingSight { posted, filled, messages: shape.messages, slots_filled, slots: shape.limit(), has_baton })
}
