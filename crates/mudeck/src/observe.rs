//! A ring as those see it who look on: how much has come through it, and how much lies in it.

use deck_peers::observe::{NodeSight, Told};
use deck_segment::layout::LINE;
use deck_transport::Shape;
use deck_transport::segment::packet::Packet;
use deck_transport::segment::ring::Position;

/// What lies in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSight {
    /// Messages that were ever posted, modulo 2^32.
    pub posted: Position,
    /// Those of them whose credits have not come back: not retrieved, or retrieved a moment ago.
    pub filled: u32,
    /// How many fit, at least.
    pub messages: u32,
}

/// What lies in the ring that `poster` tells of in `notice`, to a mail box of `owner`. `None` if it cannot be read, or cannot be.
pub fn ring(poster: &NodeSight, owner: &NodeSight, notice: &Told) -> Option<RingSight> {
    let [_, credit, place, messages, bytes, area_lines, ..] = notice.facts;
    let shape = Shape {
        messages: u32::try_from(messages).ok()?,
        bytes,
        area_lines: u32::try_from(area_lines).ok()?,
        is_mapped: true,
    };
    shape.check().ok()?;
    let slots = shape.slots();
    let slot = |position: Position| place.checked_add(u64::from(position & (slots - 1)) * LINE as u64);
    let [retired] = poster.words::<1>(credit)?;
    let retired = retired as Position;
    let has_arrived = |ahead: &u32| {
        let position = retired.wrapping_add(*ahead);
        let last = slot(position).and_then(|at| owner.words::<8>(at)).map(|words| words[7]);
        last.is_some_and(|last| Packet::has_arrived(last, position, slots))
    };
    let filled = (0..slots).take_while(has_arrived).count() as u32;
    Some(RingSight { posted: retired.wrapping_add(filled), filled, messages: shape.messages })
}
