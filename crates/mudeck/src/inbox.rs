//! The receiving side of a mail box: its rings, which of them are polled, and what the next message is.
//!
//! Looking for work costs the same with two or a thousand silent senders: a look polls the rings that were active
//! lately (*hot*) and one count that posters change when they ring. A ring becomes hot when its bell rings, and cold
//! when the retriever wants to sleep or the ring has been silent for long; a poster rings only while its ring is cold.

use std::sync::Arc;

use deck_segment::fabric::Host;
use deck_segment::{HeapMemory, Region};
use deck_sync::{Away, Error, ErrorKind, Event, NodeId, Result, Spot, barrier};
use deck_transport::{Bell, Bells, Glance, Heaps, Parcel, Protocol, Receiver, Said, Traffic};

use self::ring::loss;
pub(crate) use self::ring::{Ended, Ring};
use crate::doubts::Doubts;
use crate::turns::{NOBODY, Turns};

mod ring;

/// So many rings of a mail box get memory for themselves alone.
const FEW_RINGS: usize = 4;
/// Messages taken from one ring before the others have their turn.
const TURN: u32 = 16;
/// Rings of which lines are fetched at the same time.
const EXPECTED: usize = 16;

/// What a quick look at a mail box brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// A message from this node, which was taken.
    From(NodeId),
    /// Nothing, and there is nothing else to do.
    Nothing,
    /// The same, and whoever posts next is to write where was looked, see [`deck_transport::Baton`]: looks have time
    /// between them.
    Awaited(Away),
    /// Something that takes more than a quick look.
    Unclear,
}

impl Look {
    #[inline]
    pub fn away(self) -> Away {
        if let Look::Awaited(away) = self { away } else { Away::No }
    }
}

/// What a look at a mail box brings.
pub(crate) enum Arrival {
    /// A message from this node, taken into the parcel.
    Message(NodeId, Protocol),
    /// Something that is told instead of a message; and the ring that is given up for it, if its sender still lives.
    Trouble(Error, Option<Box<Ring>>),
    /// What this node has said beside the messages of the ring with this number.
    Said(NodeId, u64, Said),
}

/// Has a ring polled, if there is one with this index.
fn heat(rings: &mut [Option<Ring>], hot: &mut Turns, index: usize) {
    if let Some(Some(ring)) = rings.get_mut(index) {
        ring.silent = 0;
        ring.receiver.set_hot(true);
        hot.add(index);
    }
}

pub(crate) struct Inbox {
    area: Arc<Region>,
    bells: Bells,
    rings: Vec<Option<Ring>>,
    hot: Turns,
    turn: u32,
    /// The event's count at the last look at the bells.
    seen: u32,
    /// Posters were told where to call.
    is_called: bool,
    doubts: Doubts,
}

impl Inbox {
    pub fn new(area: Arc<Region>) -> Inbox {
        Inbox {
            bells: Bells::new(area.words()),
            area,
            rings: Vec::new(),
            hot: Turns::NONE,
            turn: 0,
            seen: 0,
            is_called: false,
            doubts: Doubts::default(),
        }
    }

    pub fn event(&self) -> &Event {
        self.bells.event()
    }

    /// Has posters of hot rings call at `spot` whoever waits here, from now on until the rings are cold; those of cold
    /// ones ring. Or nowhere.
    pub fn be_called_at(&mut self, spot: Option<Spot>) {
        if spot.is_none() && !self.is_called {
            return;
        }
        self.is_called = spot.is_some();
        for index in &self.hot.rings {
            if let Some(ring) = &mut self.rings[*index]
                && ring.ended.is_none()
            {
                ring.receiver.set_spot(spot);
            }
        }
    }

    /// Keeps the event and the bells allocated.
    pub fn area(&self) -> &Arc<Region> {
        &self.area
    }

    /// A place for a ring of `from` that is to be added: its index. Nodes that have one already leave room for each of
    /// the others.
    pub fn free_place(&mut self, from: NodeId) -> Option<usize> {
        let mut others = self.rings.iter().flatten().filter(|ring| ring.ended.is_none());
        if others.any(|ring| ring.receiver.from() == from)
            && self.rings.iter().flatten().count() >= Bells::RINGS_WITH_LANES
        {
            return None;
        }
        if let Some(index) = self.rings.iter().position(Option::is_none) {
            return Some(index);
        }
        (self.rings.len() < Bells::RINGS_MAX).then(|| {
            // Most mail boxes have one ring or two, and a place for one more is half a kilobyte.
            if self.rings.len() < FEW_RINGS {
                self.rings.reserve_exact(1);
            }
            self.rings.push(None);
            self.rings.len() - 1
        })
    }

    /// Where the sender of the ring at a place rings.
    pub fn bell(&self, index: usize) -> Bell {
        Bells::bell(index, self.area.offset())
    }

    /// Adds a ring at a free place. Its bell may have rung already.
    pub fn add(&mut self, index: usize, id: u64, receiver: Receiver<Host>) {
        self.rings[index] = Some(Ring::new(id, receiver));
    }

    /// All rings, for the end of the mail box.
    pub fn take_rings(&mut self) -> Vec<Ring> {
        self.hot = Turns::NONE;
        self.doubts.clear();
        self.rings.iter_mut().filter_map(Option::take).collect()
    }

    /// The sender of its rings is gone: takes over what it had posted.
    pub fn sender_gone(&mut self, from: NodeId, ended: Ended, heaps: &dyn Heaps) {
        for index in 0..self.rings.len() {
            if let Some(ring) = &mut self.rings[index]
                && ring.receiver.from() == from
                && ring.ended.is_none()
            {
                ring.receiver.adopt(heaps, None);
                ring.ended = Some(ended);
                // A retriever may never come by here again, and one that left in order is not told of.
                if ended == Ended::Left && !ring.receiver.has_next() {
                    self.remove(index);
                } else {
                    self.heat(index);
                }
            }
        }
    }

    /// Tells the sender of a ring all credits.
    pub fn tell(&mut self, from: NodeId, id: u64) {
        let is_it = |ring: &&mut Ring| ring.id == id && ring.receiver.from() == from && ring.ended.is_none();
        if let Some(ring) = self.rings.iter_mut().flatten().find(is_it) {
            ring.receiver.tell();
        }
    }

    /// The ring of `from` with this number.
    pub fn ring(&mut self, from: NodeId, id: u64) -> Option<&mut Ring> {
        self.rings.iter_mut().flatten().find(|ring| ring.id == id && ring.receiver.from() == from)
    }

    /// The rings that are polled and whose senders are there.
    pub fn polled_rings(&mut self) -> impl Iterator<Item = &mut Ring> {
        self.rings.iter_mut().flatten().filter(|ring| ring.receiver.is_hot() && ring.ended.is_none())
    }

    /// The sender will not use a ring any more: it goes if nothing is in it.
    pub fn end_ring(&mut self, from: NodeId, id: u64, tail: u32) {
        for index in 0..self.rings.len() {
            if let Some(ring) = &mut self.rings[index]
                && ring.id == id
                && ring.receiver.from() == from
                && ring.receiver.has_taken_all(tail)
            {
                self.remove(index);
            }
        }
    }

    /// The heap of `owner` is about to be forgotten: takes over what is posted here and lies in it.
    pub fn adopt_of(&mut self, owner: NodeId, heaps: &dyn Heaps) {
        self.rings.iter_mut().flatten().for_each(|ring| ring.receiver.adopt(heaps, Some(owner)));
    }

    fn heat(&mut self, index: usize) {
        heat(&mut self.rings, &mut self.hot, index);
    }

    /// Looks at the bells if any has rung.
    fn hear_bells(&mut self) {
        let count = self.event().count();
        if count == self.seen {
            return;
        }
        self.seen = count;
        let Inbox { bells, rings, hot, .. } = self;
        bells.hear(rings.len(), |index| heat(rings, hot, index));
    }

    /// True if a retrieve would find something.
    pub fn has_work(&mut self) -> bool {
        self.hear_bells();
        let has_work = |ring: &Ring| {
            // A node that left in order tells nothing, but what is lost.
            ring.receiver.has_next() || ring.ended == Some(Ended::Lost) || ring.unreadable > 0
        };
        self.hot.rings.iter().any(|index| self.rings[*index].as_ref().is_some_and(has_work)) || self.doubt()
    }

    /// A turn or a look in vain is over. Now and then one looks again at rings that were made cold a while ago; true if
    /// some have something, and are hot now.
    #[inline]
    pub fn doubt(&mut self) -> bool {
        self.doubts.note_turn() && self.look_again()
    }

    /// The next message, taken into `into` and counted in `traffic`, if it is a simple one and nothing else is to be
    /// looked at first.
    #[inline]
    pub fn take_simple(&mut self, into: &mut Parcel, traffic: &Traffic) -> Look {
        if self.event().count() != self.seen {
            return Look::Unclear;
        }
        let Some(Some(ring)) = self.rings.get_mut(self.hot.now) else { return Look::Unclear };
        match ring.receiver.take_simple(into) {
            Glance::Taken(protocol) => {
                let from = ring.receiver.from();
                traffic.count(protocol, into.size());
                self.note_turn();
                Look::From(from)
            }
            // The end of a ring is to be told or seen to, however busy the others are.
            Glance::Nothing if ring.ended.is_some() => Look::Unclear,
            Glance::Nothing if self.hot.rings.len() > 1 => self.take_simple_from_others(into, traffic),
            Glance::Nothing => match ring.receiver.away() {
                Away::No => Look::Nothing,
                away => Look::Awaited(away),
            },
            Glance::Unclear => Look::Unclear,
        }
    }

    /// Others had time to post: has the lines fetched at which the next look is, of several rings at the same time.
    pub fn expect(&self) {
        for index in self.hot.rings.iter().take(EXPECTED) {
            if let Some(ring) = &self.rings[*index] {
                ring.receiver.prefetch();
            }
        }
    }

    /// As [`Inbox::take_simple`], from the other rings that are polled.
    #[inline(never)]
    fn take_simple_from_others(&mut self, into: &mut Parcel, traffic: &Traffic) -> Look {
        for _ in 1..self.hot.rings.len() {
            self.next_turn();
            let Some(Some(ring)) = self.rings.get_mut(self.hot.now) else { return Look::Unclear };
            match ring.receiver.take_simple(into) {
                Glance::Taken(protocol) => {
                    traffic.count(protocol, into.size());
                    return Look::From(ring.receiver.from());
                }
                Glance::Nothing if ring.ended.is_none() && !ring.note_silence() => {}
                _ => return Look::Unclear,
            }
        }
        Look::Nothing
    }

    /// The next message, taken into `into`.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`] if there is no room for a copy; the message stays.
    pub fn take(&mut self, into: &mut Parcel, heap: &Arc<HeapMemory>, heaps: &dyn Heaps) -> Result<Option<Arrival>> {
        self.hear_bells();
        let mut taken = Ok(None);
        for _ in 0..self.hot.rings.len() {
            let index = self.hot.now;
            if index == NOBODY {
                break;
            }
            match self.take_from(index, into, heap, heaps) {
                Ok(None) => {}
                Ok(arrival) => {
                    self.note_turn();
                    return Ok(arrival);
                }
                // Other rings go on: what waits there may be what frees memory.
                no_memory => taken = no_memory,
            }
            self.next_turn();
        }
        taken
    }

    #[inline]
    fn note_turn(&mut self) {
        self.turn += 1;
        if self.turn >= TURN {
            self.next_turn();
        }
    }

    fn next_turn(&mut self) {
        self.turn = 0;
        self.hot.next();
        self.doubt();
    }

    /// Looks at rings that were made cold a while ago; true if some have something, and are hot now.
    #[cold]
    fn look_again(&mut self) -> bool {
        let mut is_any = false;
        while let Some(index) = self.doubts.next() {
            is_any |= self.heat_unheard(index);
        }
        is_any
    }

    /// Makes a ring hot that has something and at which nobody looks; true if it is one.
    fn heat_unheard(&mut self, index: usize) -> bool {
        let is_unheard = self.rings.get(index).and_then(Option::as_ref).is_some_and(Ring::is_unheard);
        if is_unheard {
            self.heat(index);
        }
        is_unheard
    }

    fn take_from(
        &mut self,
        index: usize,
        into: &mut Parcel,
        heap: &Arc<HeapMemory>,
        heaps: &dyn Heaps,
    ) -> Result<Option<Arrival>> {
        let Some(ring) = &mut self.rings[index] else { return Ok(None) };
        let from = ring.receiver.from();
        loop {
            match ring.receiver.take(into, heap, heaps) {
                Ok(Some(protocol)) => return Ok(Some(Arrival::Message(from, protocol))),
                Ok(None) => {
                    if ring.ended.is_none()
                        && let Some(said) = ring.receiver.hear()
                    {
                        return Ok(Some(Arrival::Said(from, ring.id, said)));
                    }
                }
                Err(error) if error.kind() == ErrorKind::NoMemory => return Err(error),
                Err(error) => {
                    ring.close();
                    self.hot.remove(index);
                    let ring = self.rings[index].take();
                    return Ok(Some(Arrival::Trouble(error, ring.map(Box::new))));
                }
            }
            match ring.ended {
                None => {
                    if ring.note_silence() && self.hot.rings.len() > 1 {
                        self.cool();
                    }
                    return Ok(None);
                }
                // It is there, but names a heap that cannot be had any more: lost with its sender.
                Some(_) if ring.receiver.has_next() => {
                    ring.receiver.skip_one();
                    ring.unreadable += 1;
                }
                Some(ended) => {
                    let unreadable = ring.unreadable;
                    self.remove(index);
                    // One for each thread that posts, if they have rings of their own.
                    if let Some(other) = self.rings.iter_mut().flatten().find(|ring| ring.receiver.from() == from) {
                        other.unreadable += unreadable;
                        return Ok(None);
                    }
                    return Ok(loss(from, ended, unreadable).map(|error| Arrival::Trouble(error, None)));
                }
            }
        }
    }

    fn remove(&mut self, index: usize) {
        self.rings[index] = None;
        self.hot.remove(index);
    }

    /// Looks at the cold rings too, of which posters tell: those that have something are made hot. True if there is
    /// one.
    pub fn look_everywhere(&mut self) -> bool {
        self.hear_bells();
        let mut is_any = false;
        for index in 0..self.rings.len() {
            is_any |= self.heat_unheard(index);
        }
        is_any
    }

    /// As if no poster had seen that its ring is cold.
    #[cfg(test)]
    pub fn lose_bells(&mut self) {
        self.bells.hear(self.rings.len(), |_| ());
    }

    /// As if all posters had seen that their rings are cold.
    #[cfg(test)]
    pub fn ring_bells(&mut self) {
        let host = Host::new(self.area.heap().segment().clone());
        (0..self.rings.len()).for_each(|index| self.bell(index).ring(&host));
    }

    /// Makes silent rings cold: from now on their posters ring. Those that turn out not to be silent stay hot.
    pub fn cool(&mut self) {
        // What rang before is heard before, or the ring would be made hot again by an old bell right after this,
        // unnoticed by a thread that sleeps until the count changes.
        self.hear_bells();
        self.look_again();
        let mut cooled = Vec::new();
        for index in self.hot.rings.iter().copied() {
            if let Some(ring) = &mut self.rings[index]
                && ring.ended.is_none()
            {
                ring.receiver.tell();
                ring.receiver.set_hot(false);
                cooled.push(index);
            }
        }
        if cooled.is_empty() {
            return;
        }
        // Heavy fence: pairs with: ring/cold. A poster either sees the mark and rings, or its slot is seen here.
        barrier::heavy();
        let Inbox { rings, hot, doubts, .. } = self;
        for index in cooled {
            if rings[index].as_ref().is_some_and(|ring| ring.receiver.has_next()) {
                heat(rings, hot, index);
            } else {
                doubts.add(index);
            }
        }
        hot.retain(|index| rings[index].as_ref().is_some_and(|ring| ring.receiver.is_hot()));
    }
}
