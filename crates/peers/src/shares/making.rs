//! What a home makes for others: one thread for each node that asks, however many segments it asks for.
//!
//! To allocate a segment may take long. Who tries without waiting asks anew each time, and by the time its turn comes
//! only the last one counts.

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use deck_sync::locks::lock;
use deck_sync::{Error, ErrorKind, NodeId, Service, point};

use super::{SegmentLife, life};
use crate::membership::Membership;
use crate::names::objects::Object;
use crate::peer::Peer;
use crate::wire::{Frame, Refusal};

/// Segments that a node may have asked for and not been given yet.
const ASKED_MAX: usize = 4096;

/// A segment that is to be made.
struct Wanted {
    asker: Arc<Peer>,
    request: u64,
    life: SegmentLife,
    object: Object,
    bytes: u64,
}

impl Wanted {
    /// A later life of its name is wanted in `queue`.
    fn is_over(&self, queue: &VecDeque<Wanted>) -> bool {
        queue.iter().any(|later| self.life.is_before(later.life))
    }

    fn refuse(&self, reason: Refusal) {
        let _ = self.asker.send(&Frame::SegmentRefuse { request: self.request, reason: reason as u64 });
    }
}

/// What is to be made, by who has asked. Each has a thread as long as it stands here.
#[derive(Default)]
pub(super) struct Making(Mutex<HashMap<NodeId, VecDeque<Wanted>>>);

impl Making {
    /// True if a thread has to be started for it.
    fn add(&self, wanted: Wanted) -> bool {
        let mut making = lock(&self.0);
        let queue = making.get_mut(&wanted.asker.number());
        let is_first = queue.is_none();
        match queue {
            Some(queue) if queue.len() >= ASKED_MAX => wanted.refuse(Refusal::Contended),
            Some(queue) => queue.push_back(wanted),
            None => drop(making.insert(wanted.asker.number(), VecDeque::from([wanted]))),
        }
        is_first
    }

    /// Whoever asked for it has begun another life of the name since.
    fn is_over(&self, wanted: &Wanted) -> bool {
        lock(&self.0).get(&wanted.asker.number()).is_some_and(|queue| wanted.is_over(queue))
    }

    /// The next one that somebody may still wait for; with `None` the thread for this node ends.
    fn next(&self, asker: NodeId) -> Option<Wanted> {
        let mut making = lock(&self.0);
        let queue = making.get_mut(&asker)?;
        while let Some(wanted) = queue.pop_front() {
            if !wanted.is_over(queue) && wanted.asker.gone().is_none() {
                return Some(wanted);
            }
            wanted.refuse(Refusal::Closed);
        }
        making.remove(&asker);
        None
    }

    fn refuse_all(&self, asker: NodeId) {
        let refused = lock(&self.0).remove(&asker);
        refused.into_iter().flatten().for_each(|wanted| wanted.refuse(Refusal::NoMemory));
    }
}

impl Membership {
    /// This node is to be the home of a segment.
    pub(super) fn segment_wanted(
        self: &Arc<Self>,
        asker: &Arc<Peer>,
        request: u64,
        entry: u64,
        generation: u64,
        bytes: u64,
    ) {
        let known = life(entry, generation).and_then(|life| Some((life, self.objects.at(life.object)?)));
        let Some((life, object)) = known else {
            let _ = asker.send(&Frame::SegmentRefuse { request, reason: Refusal::Nonsense as u64 });
            return;
        };
        if self.shares.making.add(Wanted { asker: asker.clone(), request, life, object, bytes }) {
            let (membership, asker) = (self.clone(), asker.number());
            let work = move || {
                while let Some(wanted) = membership.shares.making.next(asker) {
                    membership.make_for(wanted);
                }
            };
            if Service::Memory.start(work).is_err() {
                self.shares.making.refuse_all(asker);
            }
        }
    }

    fn make_for(&self, wanted: Wanted) {
        point("segment/making");
        let is_wanted = || {
            let are_there = wanted.asker.gone().is_none() && !self.has_left();
            are_there && !wanted.object.holding().is_empty() && !self.shares.making.is_over(&wanted)
        };
        let over = || Error::new(ErrorKind::Closed, "nobody wants the segment any more");
        let goes_on = || is_wanted().then_some(()).ok_or_else(over);
        match self.shares.make(wanted.bytes, goes_on) {
            Ok(segment) => {
                let segment = self.shares.keep(wanted.life, &wanted.object, segment, true);
                let (entry, generation) = (u64::from(wanted.life.object), u64::from(wanted.life.generation));
                let made = Frame::SegmentMade { request: wanted.request, entry, generation };
                if wanted.asker.pass(&made, segment.as_fd()).is_err() {
                    // There is no descriptor for it to wait with.
                    wanted.refuse(Refusal::Descriptors);
                    self.shares.end(wanted.life);
                }
                self.see_it_sent(&wanted.asker);
                drop(segment);
                // Whoever wanted it may have died meanwhile, and that was told before there was anything to sweep.
                self.shares.sweep();
            }
            // Nobody waits for an answer.
            Err(error) if error.kind() == ErrorKind::Closed => {}
            Err(error) => wanted.refuse(match (error.kind(), error.os_error()) {
                (ErrorKind::Invalid, _) => Refusal::Nonsense,
                (ErrorKind::System, Some(libc::EMFILE | libc::ENFILE)) => Refusal::Descriptors,
                _ => Refusal::NoMemory,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::objects::{ObjectKind, Objects};
    use crate::socket::{Received, Socket, pair};
    use crate::table::Table;
    use deck_segment::Seat;

    #[test]
    fn each_asker_has_one_thread_and_of_several_lives_of_a_name_the_last_one_is_made() {
        let table = Table::create("test", 1).unwrap();
        let (_, seat) = table.seat_node(1, false).unwrap();
        let objects = Objects::new(&table);
        let [first, second] =
            ["a", "b"].map(|name| objects.enter(ObjectKind::Segment, name, seat, |_, _| true).unwrap());
        let (ours, theirs) = pair().unwrap();
        let (asker, theirs) = (Peer::new(NodeId(7), Seat(7)), Socket::new(theirs));
        asker.set_socket(Socket::new(ours));
        let making = Making::default();
        let wanted = |request, object: &Object, generation| Wanted {
            asker: asker.clone(),
            request,
            life: SegmentLife { object: object.number(), generation },
            object: object.clone(),
            bytes: 1,
        };
        assert!(making.add(wanted(0, &first, 1)));
        let others = [wanted(1, &second, 1), wanted(2, &first, 2), wanted(3, &first, 3)];
        assert!(others.into_iter().all(|wanted| !making.add(wanted)));
        let next = || making.next(asker.number()).map(|wanted| wanted.request);
        assert_eq!([next(), next(), next()], [Some(1), Some(3), None]);
        for request in [0, 2] {
            let received = theirs.receive();
            let is_refused =
                matches!(received, Received::Frame(Frame::SegmentRefuse { request: of, .. }, None) if of == request);
            assert!(is_refused, "{received:?}");
        }
        assert!(making.add(wanted(4, &second, 2)), "its thread has ended");
        asker.set_gone(true);
        assert!(making.next(asker.number()).is_none());
    }
}
