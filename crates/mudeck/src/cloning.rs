//! How a node comes to its end of a ring: once for each mail box, whichever thread asks first.

use std::sync::Arc;

use deck_peers::{Asked, Granted, MailboxId, NodeState, Peer, Refusal};
use deck_segment::fabric::Host;
use deck_segment::{HeapMemory, Region};
use deck_sync::atomic::Ordering;
use deck_sync::locks::lock;
use deck_sync::{About, Deadline, Error, ErrorKind, Event, Goal, NodeId, Result, Waiting, fork, point};
use deck_transport::segment::receiver::ReceiverParts;
use deck_transport::segment::sender::{Ending, SenderParts};
use deck_transport::{Bell, Receiver, RingPlace, Sender, Shape};

use crate::clone::MailboxClone;
use crate::mailbox::Core;
use crate::node::NodeShared;
use crate::poster::Poster;

pub(crate) enum Cloning {
    Ready(Arc<Poster>),
    /// Known to whoever ends rings, and not to whoever posts: the thread that is at it looks whether the mail box was
    /// closed meanwhile.
    Settling(Arc<Poster>, Arc<Event>),
    /// Some thread is at it; the event tells when it is done.
    UnderWay(Arc<Event>),
}

impl Cloning {
    /// Tells when the thread that is at it is done.
    pub fn event(&self) -> Option<&Arc<Event>> {
        match self {
            Cloning::Settling(_, event) | Cloning::UnderWay(event) => Some(event),
            Cloning::Ready(_) => None,
        }
    }

    fn poster(&self) -> Option<&Arc<Poster>> {
        match self {
            Cloning::Ready(poster) | Cloning::Settling(poster, _) => Some(poster),
            Cloning::UnderWay(_) => None,
        }
    }
}

/// Waits for another thread's clone of the same mail box.
struct OtherThread<'a>(&'a NodeShared, MailboxId, &'a Arc<Event>);

impl Waiting for OtherThread<'_> {
    type Output = ();
    fn look(&mut self) -> Option<()> {
        let is_it = |event: &Arc<Event>| Arc::ptr_eq(event, self.2);
        let is_under_way = lock(&self.0.posters).get(&self.1).and_then(Cloning::event).is_some_and(is_it);
        (!is_under_way || self.0.membership().has_left()).then_some(())
    }

    fn about(&self) -> Option<About<'_>> {
        Some(About::new(Goal::Ring, "").on(self.1.owner).with([self.1.to_word()]))
    }
}

impl NodeShared {
    /// A clone of the mail box `id`. All clones of a mail box in one node share one ring, which lives as long as the
    /// mail box: so messages of one thread keep their order also across clones. A try waits for the owner's answer.
    pub fn clone_by_id(
        self: &Arc<Self>,
        id: MailboxId,
        name: Option<&str>,
        deadline: Deadline,
    ) -> Result<MailboxClone> {
        let deadline = deadline.to_be_answered();
        let mine = Arc::new(Event::new());
        loop {
            self.check()?;
            let event = {
                let mut posters = lock(&self.posters);
                match posters.get(&id) {
                    Some(Cloning::Ready(poster)) => return Ok(MailboxClone::new(self.clone(), poster.clone())),
                    Some(cloning) => cloning.event().cloned(),
                    None => {
                        posters.insert(id, Cloning::UnderWay(mine.clone()));
                        None
                    }
                }
            };
            let Some(event) = event else { break };
            let waited =
                deck_sync::wait(&mut OtherThread(self, id, &event), &[&event], self.membership().crowd(), deadline);
            waited.map_err(|interrupted| interrupted.error("cloning a mail box").with_peer(id.owner))?;
        }
        let made = if id.owner == self.number() { self.ring_here(id) } else { self.ring_at_owner(id, deadline) };
        let mut posters = lock(&self.posters);
        let is_mine = matches!(posters.get(&id), Some(Cloning::UnderWay(event)) if Arc::ptr_eq(event, &mine));
        if is_mine {
            posters.remove(&id);
        }
        // Closed meanwhile: whoever closed it took the ring for one that nobody posts to.
        let is_here = id.owner == self.number();
        let is_closed = is_here && self.find_box(id.index, id.generation).is_none_or(|core| core.is_closed());
        let made = made.and_then(|made| {
            // Not mine any more: this node has left meanwhile.
            if is_closed || !is_mine { Err(closed_here()) } else { Ok(made) }
        });
        let result = made.map(|sender| {
            let (name, notices) = (name.map(str::to_string), self.membership().notices());
            let poster = Arc::new(Poster::new(id, name, sender.0, sender.1, sender.2, notices));
            posters.insert(id, Cloning::Settling(poster.clone(), mine.clone()));
            poster
        });
        drop(posters);
        let result = result.and_then(|poster| {
            self.settle(&poster)?;
            if let Some(cloning) = lock(&self.posters).get_mut(&id)
                && matches!(cloning, Cloning::Settling(settling, _) if Arc::ptr_eq(settling, &poster))
            {
                *cloning = Cloning::Ready(poster.clone());
            }
            Ok(poster)
        });
        mine.notify();
        Ok(MailboxClone::new(self.clone(), result?))
    }

    /// A ring to a mail box of this node.
    pub fn ring_here(&self, id: MailboxId) -> Result<(Sender<Host>, u64, Option<Arc<Peer>>)> {
        let core = self.find_box(id.index, id.generation).ok_or_else(closed_here)?;
        let credit = self.heap().region(core.shape.credit_bytes())?;
        let granted = self.add_ring(&core, self.heap(), self.number(), credit.offset()).map_err(Refusal::of_a_ring)?;
        Ok((self.sender(&granted, core.shape, self.heap(), credit, self.number()), granted.ring, None))
    }

    fn ring_at_owner(&self, id: MailboxId, deadline: Deadline) -> Result<(Sender<Host>, u64, Option<Arc<Peer>>)> {
        let met = self.membership().meet(id.owner, deadline);
        let peer = met.map_err(|error| error.context("cloning a mail box"))?;
        let asked = self.ask_owner(&peer, id)?;
        let granted = match self.membership().wait_for_ring(&asked, id, deadline) {
            Ok(granted) => granted,
            Err(error) => {
                // The owner may still make the ring and write to the credit line. Whoever tries next waits for the same
                // answer.
                if !matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Cancelled) {
                    lock(&self.asked).remove(&id);
                    self.membership().forget(&asked);
                }
                return Err(error);
            }
        };
        // The control thread has taken it if the mail box was closed since.
        let Some((_, credit)) = lock(&self.asked).remove(&id) else { return Err(self.membership().ended(&peer)) };
        Ok((self.sender_at_owner(&peer, id, &granted, credit)?, granted.ring, Some(peer)))
    }

    /// The question for a ring to `id` that is open, or a new one. It is known before anybody waits for the answer:
    /// what becomes of the ring after the wait was given up finds it.
    fn ask_owner(&self, peer: &Arc<Peer>, id: MailboxId) -> Result<Arc<Asked>> {
        let mut all = lock(&self.asked);
        if let Some((asked, _)) = all.get(&id)
            && Arc::ptr_eq(asked.peer(), peer)
        {
            return Ok(asked.clone());
        }
        let credit = self.credit_region()?;
        let asked = self.membership().ask_for_ring(peer, id, credit.offset() as u64);
        point("clone/requested");
        let asked = Arc::new(asked?);
        all.insert(id, (asked.clone(), credit));
        Ok(asked)
    }

    /// Nothing is asked of a node that is gone any more.
    pub fn forget_questions_to(&self, owner: NodeId) {
        self.forget_questions(|asked| asked.peer().number() == owner);
    }

    /// `owner` has refused rings, or closed `ring`: whoever gave up waiting for that may never ask again.
    pub fn forget_answers_of(&self, owner: NodeId, ring: Option<u64>) {
        self.forget_questions(|asked| match asked.said() {
            Some(said) if asked.peer().number() == owner => {
                said.as_ref().map_or(true, |granted| Some(granted.ring) == ring)
            }
            _ => false,
        });
    }

    fn forget_questions(&self, is_over: impl Fn(&Asked) -> bool) {
        for (_, (asked, _)) in lock(&self.asked).extract_if(|_, (asked, _)| is_over(asked)) {
            self.membership().forget(&asked);
        }
        for poster in self.posters() {
            if let Some(lanes) = poster.lanes.get() {
                lanes.forget_questions(self, &is_over);
            }
        }
        for (asked, _) in lock(&self.abandoned).extract_if(.., |(asked, _)| is_over(asked)) {
            self.membership().forget(&asked);
        }
    }

    /// Memory for the credits of a ring to another node.
    pub fn credit_region(&self) -> Result<Region> {
        self.heap().region(Shape::MAPPED_CREDIT_BYTES)
    }

    /// The end of a ring that another node has granted.
    pub fn sender_at_owner(
        &self,
        peer: &Arc<Peer>,
        id: MailboxId,
        granted: &Granted,
        credit: Region,
    ) -> Result<Sender<Host>> {
        let heap = peer.met_heap()?;
        let narrow = |word: u64| u32::try_from(word).unwrap_or(0);
        let shape = Shape::mapped(narrow(granted.messages), granted.bytes, narrow(granted.area_lines));
        shape
            .check()
            .and_then(|()| place(granted).check(&shape, heap.segment().bytes()))
            .map_err(|error| error.with_peer(id.owner))?;
        Ok(self.sender(granted, shape, heap, credit, id.owner))
    }

    /// A lane beside `common`, known to this node from now on.
    pub fn lane(&self, common: &Poster, sender: Sender<Host>, ring: u64) -> Result<Arc<Poster>> {
        let notices = self.membership().notices();
        let lane = Arc::new(Poster::new(common.id, common.name.clone(), sender, ring, common.peer.clone(), notices));
        lock(&self.lanes).push(lane.clone());
        self.settle(&lane)?;
        Ok(lane)
    }

    /// A lane that was asked for is not wanted any more: its owner may still make it and write to the credit line.
    pub fn forget_lane(&self, question: Asked, credit: Region) {
        self.membership().decline(&question);
        lock(&self.abandoned).push((question, credit));
    }

    /// Ends a poster that has just become known, if its mail box is closed, its owner is gone or this node has left:
    /// whoever told may not have found it. A mail box marks its rings as closed before it looks who posts to it. Nobody
    /// has posted yet.
    fn settle(&self, poster: &Arc<Poster>) -> Result<()> {
        let gone = poster.peer.as_ref().and_then(|peer| peer.gone());
        if gone.is_some() || poster.sender.is_closed_for_good() {
            let _ = self.end_poster(poster, if gone == Some(NodeState::Lost) { Ending::Lost } else { Ending::Closed });
        }
        self.check().inspect_err(|_| poster.stop())
    }

    fn sender(
        &self,
        granted: &Granted,
        shape: Shape,
        heap: &Arc<HeapMemory>,
        credit: Region,
        receiver: NodeId,
    ) -> Sender<Host> {
        Sender::new(SenderParts {
            remote: Host::in_crowd(heap.segment().clone(), self.membership().crowd(), heap.seat().0),
            place: place(granted),
            shape,
            own: self.number(),
            receiver,
            credit: credit.words(),
            region: Some(credit),
            budget: self.budget().clone(),
            thresholds: self.settings.thresholds,
            fetching: self.heap().fetching(),
        })
    }

    /// A ring from `from`, whose credits lie at `credit` in its segment.
    pub fn add_ring(
        &self,
        core: &Core,
        heap: &Arc<HeapMemory>,
        from: NodeId,
        credit: usize,
    ) -> Result<Granted, Refusal> {
        // Where the mail box lies: its owner's thread asked for that, and this one is the control thread.
        let region = self.heap().region_near(core.shape.ring_bytes(), core.area());
        // Or this node is about to leave.
        let refused = |kind| if kind == ErrorKind::NoMemory { Refusal::NoMemory } else { Refusal::Closed };
        let region = region.map_err(|error| refused(error.kind()))?;
        let ring = ring_number(self.next_ring.fetch_add(1, Ordering::Relaxed), core.id);
        core.add_ring(|inbox| {
            let index = inbox.free_place(from).ok_or(Refusal::Full)?;
            let bell = inbox.bell(index);
            let granted = Granted {
                ring,
                messages: u64::from(core.shape.messages),
                bytes: core.shape.bytes,
                area_lines: u64::from(core.shape.area_lines),
                place: region.offset() as u64,
                bell: bell.bit as u64,
                event: bell.event as u64,
            };
            let receiver = Receiver::new(ReceiverParts {
                from,
                shape: core.shape,
                ring: region.words(),
                region: Some(region),
                remote: Host::new(heap.segment().clone()),
                credit,
                fetching: heap.fetching(),
            });
            inbox.add(index, ring, receiver);
            Ok(granted)
        })
    }

    /// All posters that may have messages in flight.
    pub fn posters(&self) -> Vec<Arc<Poster>> {
        self.posters_that(|cloning| matches!(cloning, Cloning::Ready(_)))
    }

    /// The same, and those that nobody has posted with yet: for whoever ends them.
    pub fn all_posters(&self) -> Vec<Arc<Poster>> {
        self.posters_that(|_| true)
    }

    fn posters_that(&self, are_wanted: impl Fn(&Cloning) -> bool) -> Vec<Arc<Poster>> {
        let posters = lock(&self.posters);
        let wanted = posters.values().filter(|cloning| are_wanted(cloning));
        let mut all: Vec<_> = wanted.filter_map(Cloning::poster).cloned().collect();
        drop(posters);
        all.extend(lock(&self.lanes).iter().cloned());
        all
    }

    /// The poster of all threads to `id`, if there is one.
    pub fn poster_to(&self, id: MailboxId) -> Option<Arc<Poster>> {
        // In a forked child, whoever has the lock may not be there.
        if fork::is_child() {
            return None;
        }
        match lock(&self.posters).get(&id) {
            Some(Cloning::Ready(poster)) => Some(poster.clone()),
            _ => None,
        }
    }

    /// Ends the poster with this ring of `owner`, if there is one, and tells the position behind the last message that
    /// it posted. A clone under way has posted nothing yet, and will notice by itself.
    pub fn end_ring(&self, owner: NodeId, ring: u64) -> Option<u32> {
        let found = self.all_posters().into_iter().find(|poster| poster.id.owner == owner && poster.ring == ring);
        found.map(|poster| self.end_poster(&poster, Ending::Closed))
    }

    /// Ends a poster, unless somebody else did, and tells the position behind the last message that it posted.
    pub fn end_poster(&self, poster: &Arc<Poster>, ending: Ending) -> u32 {
        // Before it is unknown: whoever does not find it takes it that nothing was posted, and that nothing will be.
        let tail = poster.end(ending);
        let is_it = |other: &Arc<Poster>| Arc::ptr_eq(other, poster);
        let mut posters = lock(&self.posters);
        let is_common = posters.get(&poster.id).and_then(Cloning::poster).is_some_and(is_it);
        if is_common {
            posters.remove(&poster.id);
        }
        drop(posters);
        let lane = if is_common { None } else { lock(&self.lanes).extract_if(.., |lane| is_it(lane)).next() };
        if (is_common || lane.is_some())
            && let Some(lanes) = poster.lanes.get()
        {
            lanes.end(self);
        }
        tail
    }
}

/// The number of a ring: none is given twice in a node, and it tells at which mail box it is.
fn ring_number(count: u64, mailbox: MailboxId) -> u64 {
    count * u64::from(MailboxId::INDEX_MAX) + u64::from(mailbox.index)
}

/// The index of the mail box that a ring is at.
pub(crate) fn mailbox_of_ring(ring: u64) -> u32 {
    (ring % u64::from(MailboxId::INDEX_MAX)) as u32
}

fn closed_here() -> Error {
    Error::new(ErrorKind::Closed, "cloning a mail box of this node")
}

fn place(granted: &Granted) -> RingPlace {
    let narrow = |word: u64| usize::try_from(word).unwrap_or(usize::MAX);
    RingPlace { ring: narrow(granted.place), bell: Bell { bit: narrow(granted.bell), event: narrow(granted.event) } }
}

#[cfg(test)]
mod tests {
    use deck_peers::{Broker, Door};
    use deck_transport::Bells;

    use super::*;
    use crate::mailbox::MailboxOptions;
    use crate::testing::SOON;

    /// The numbers of the nodes are made up: what is asked for is room, not a conversation.
    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_node_with_many_lanes_leaves_room_for_the_first_rings_of_others() {
        let broker = Broker::start("test", 1).unwrap();
        let node = NodeShared::join(Door::Invited(broker.invite().unwrap())).unwrap();
        let core = node.open(None, &MailboxOptions::default()).unwrap();
        let credit = node.credit_region().unwrap();
        let ask = |from: usize| {
            let granted = node.add_ring(&core, node.heap(), NodeId(from as u32), credit.offset());
            granted.map(|granted| granted.bell)
        };
        let mut bells: Vec<u64> = (0..Bells::RINGS_WITH_LANES).map(|_| ask(1).unwrap()).collect();
        assert_eq!(ask(1), Err(Refusal::Full));
        bells.extend((Bells::RINGS_WITH_LANES..Bells::RINGS_MAX).map(|from| ask(from).unwrap()));
        assert_eq!(ask(0), Err(Refusal::Full));
        bells.sort_unstable();
        bells.dedup();
        assert_eq!(bells.len(), Bells::RINGS_MAX, "two rings have one bell");
        core.close();
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_ring_that_cannot_be_is_refused_and_its_owner_is_named() {
        let broker = Broker::start("test", 2).unwrap();
        let [owner, poster] = [(); 2].map(|()| NodeShared::join(Door::Invited(broker.invite().unwrap())).unwrap());
        let core = owner.open(None, &MailboxOptions::default()).unwrap();
        let peer = poster.membership().meet(owner.number(), Deadline::after(SOON)).unwrap();
        let asked = poster.ask_owner(&peer, core.id).unwrap();
        let granted = poster.membership().wait_for_ring(&asked, core.id, Deadline::after(SOON)).unwrap();
        let refused = |granted: &Granted| {
            let sender = poster.sender_at_owner(&peer, core.id, granted, poster.credit_region().unwrap());
            sender.err().map(|error| (error.kind(), error.peer()))
        };
        let end = owner.heap().segment().bytes() as u64;
        for wrong in [
            Granted { messages: 0, ..granted },
            Granted { messages: 1 << 40, ..granted },
            Granted { bytes: 0, ..granted },
            Granted { area_lines: 0, ..granted },
            Granted { area_lines: 1 << 21, ..granted },
            Granted { place: granted.place + 64, ..granted },
            Granted { place: end, ..granted },
            Granted { place: end - 128, ..granted },
            Granted { place: u64::MAX - 127, ..granted },
            Granted { bell: end * 8, ..granted },
            Granted { bell: u64::MAX, ..granted },
            Granted { event: end, ..granted },
            Granted { event: granted.event + 1, ..granted },
        ] {
            assert_eq!(refused(&wrong), Some((ErrorKind::Corrupt, Some(owner.number()))), "{wrong:?}");
        }
        assert_eq!(refused(&granted), None);
    }
}
