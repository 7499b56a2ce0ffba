//! What all objects of a node share: its mail boxes, its rings to others, its membership in the job; and what it makes of
//! the requests and deaths of other nodes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use deck_peers::{Asked, Door, Granted, Handler, MailboxId, Membership, Peer, Refused, check_mailbox_name, fork};
use deck_segment::layout::LINE;
use deck_segment::{HeapMemory, Region};
use deck_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use deck_sync::locks::lock;
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result, barrier};
use deck_transport::segment::sender::Ending;
use deck_transport::{Bells, Budget, Heaps};

use crate::clone::Poster;
use crate::cloning::{Cloning, mailbox_of_ring};
use crate::inbox::{Ended, Inbox, Ring};
use crate::log::{self, LogLevel};
use crate::mailbox::{Core, MailboxOptions};
use crate::settings::{Settings, default_timeout};
use crate::watcher::Watcher;

/// Lines of a ring's area for buffered messages: 2 KiB, so that a ring stays under 8 KiB.
const AREA_LINES: u32 = 32;

/// What all objects of a node share.
pub(crate) struct NodeShared {
    membership: Arc<Membership>,
    pub settings: Settings,
    budget: Arc<Budget>,
    boxes: Mutex<Boxes>,
    /// The common ring of all threads to each mail box, and beside them rings of single threads.
    pub posters: Mutex<HashMap<MailboxId, Cloning>>,
    pub lanes: Mutex<Vec<Arc<Poster>>>,
    /// Rings of closed mail boxes whose memory somebody may still write.
    dying: Mutex<Vec<Dying>>,
    /// Lanes that were asked for beside rings that have ended, and where their credits would lie.
    pub abandoned: Mutex<Vec<(Asked, Region)>>,
    /// Rings that were asked for, also by those that gave up waiting, and where their credits lie.
    pub asked: Mutex<HashMap<MailboxId, (Arc<Asked>, Region)>>,
    pub next_ring: AtomicU64,
    watcher: OnceLock<Watcher>,
    is_ticking: AtomicBool,
}

/// The mail boxes of this node, by index.
#[derive(Default)]
struct Boxes {
    places: Vec<(u32, Option<Arc<Core>>)>,
    /// Those that were freed first in front.
    free: VecDeque<u32>,
}

impl Boxes {
    /// The index of a free place; `None` if there are `most`, and none is free.
    fn take_place(&mut self, most: u32) -> Option<u32> {
        if self.free.len() > FREE_PLACES || self.places.len() >= most as usize {
            return self.free.pop_front();
        }
        self.places.push((0, None));
        Some(self.places.len() as u32 - 1)
    }
}

/// So many places stay free before one is used again, as long as there are more to be had: whoever has the address of a mail box that was closed must not find
/// another one there when generations wrap.
const FREE_PLACES: usize = 1024;

struct Dying {
    ring: Ring,
    /// The bells of the mail box, which the poster may still write.
    _area: Arc<Region>,
    /// Position behind the last message that was ever posted, once the poster has told.
    tail: Option<u32>,
}

impl Dying {
    fn is_ring(&self, poster: NodeId, ring: u64) -> bool {
        self.ring.id == ring && self.ring.receiver.from() == poster
    }
}

impl Heaps for NodeShared {
    fn heap_of(&self, owner: NodeId) -> Option<Arc<HeapMemory>> {
        self.membership.heap_of(owner)
    }

    fn lacking(&self, owner: NodeId) -> Option<Error> {
        self.membership.lacking_heap(owner)
    }
}

impl NodeShared {
    pub fn join(door: Door) -> Result<Arc<NodeShared>> {
        let settings = Settings::from_environment()?;
        let membership = Membership::join(door, &settings.heap, Deadline::after(default_timeout()))?;
        let shared = Arc::new(NodeShared {
            budget: Budget::new(settings.budget_bytes),
            settings,
            boxes: Mutex::default(),
            posters: Mutex::default(),
            lanes: Mutex::default(),
            dying: Mutex::default(),
            abandoned: Mutex::default(),
            asked: Mutex::default(),
            next_ring: AtomicU64::new(1),
            watcher: OnceLock::new(),
            is_ticking: AtomicBool::new(false),
            membership,
        });
        let weak = Arc::downgrade(&shared);
        shared.heap().set_reserve(Box::new(move || {
            // Messages that were retrieved since the last post still hold their buffers.
            weak.upgrade().iter().flat_map(|shared| shared.posters()).for_each(|poster| {
                poster.sender.try_reap();
            });
        }));
        let handler: Weak<dyn Handler> = Arc::downgrade(&(shared.clone() as Arc<dyn Handler>));
        shared.membership.start(handler)?;
        Ok(shared)
    }

    pub fn number(&self) -> NodeId {
        self.membership.number()
    }

    pub fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    pub fn heap(&self) -> &Arc<HeapMemory> {
        self.membership.heap()
    }

    /// Fails after leaving and in a forked child.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.membership.has_left() || fork::is_child() { Err(self.not_a_node()) } else { Ok(()) }
    }

    #[cold]
    fn not_a_node(&self) -> Error {
        let left = || Error::new(ErrorKind::NotInitialized, "this node has left its job").with_remedy("join again");
        deck_sync::fork::check().err().unwrap_or_else(left)
    }

    pub fn owner_of(&self, name: &str) -> Option<MailboxId> {
        self.membership.find_name(name, Deadline::NOW).ok()
    }

    pub fn open(&self, name: Option<&str>, options: &MailboxOptions) -> Result<Arc<Core>> {
        name.map_or(Ok(()), check_mailbox_name)?;
        let shape = options.shape(AREA_LINES)?;
        let area = Arc::new(self.heap().region(Bells::BYTES)?);
        let mut boxes = lock(&self.boxes);
        let most = MailboxId::INDEX_MAX;
        let index = boxes
            .take_place(most)
            .ok_or_else(|| Error::new(ErrorKind::NoMemory, format!("a node has at most {most} mail boxes")))?;
        let place = &mut boxes.places[index as usize];
        place.0 = (place.0 + 1) % MailboxId::GENERATIONS;
        let id = MailboxId { owner: self.number(), index, generation: place.0 };
        let core = Core::new(id, name.map(str::to_string), shape, Inbox::new(area), self.membership.notices());
        let core = Arc::new(core);
        place.1 = Some(core.clone());
        drop(boxes);
        // Known here before it is known to others, who may ask for a ring at once.
        if let Some(name) = name
            && let Err(error) = self.membership.claim_name(name, id)
        {
            self.forget_box(id);
            return Err(error);
        }
        if let Err(error) = self.check() {
            // Left meanwhile: nobody would close it.
            self.close(&core);
            return Err(error);
        }
        Ok(core)
    }

    fn forget_box(&self, id: MailboxId) {
        let mut boxes = lock(&self.boxes);
        if let Some(place) = boxes.places.get_mut(id.index as usize)
            && place.0 == id.generation
            && place.1.take().is_some()
        {
            boxes.free.push_back(id.index);
        }
    }

    pub fn find_box(&self, index: u32, generation: u32) -> Option<Arc<Core>> {
        let boxes = lock(&self.boxes);
        let (now, core) = boxes.places.get(index as usize)?;
        core.clone().filter(|_| *now == generation)
    }

    /// The mail box that a ring is at, unless that was closed: to enter others would hold up those who retrieve there.
    fn box_of_ring(&self, ring: u64) -> Option<Arc<Core>> {
        lock(&self.boxes).places.get(mailbox_of_ring(ring) as usize)?.1.clone()
    }

    fn all_boxes(&self) -> Vec<Arc<Core>> {
        lock(&self.boxes).places.iter().filter_map(|(_, core)| core.clone()).collect()
    }

    /// Closes a mail box of this node: its name is free on return, its waiters and posters are told.
    pub fn close(&self, core: &Core) {
        if let Some(name) = &core.name {
            self.membership.release_name(name, core.id);
        }
        let Some((rings, area)) = core.close() else { return };
        for ring in rings {
            self.give_up(ring, area.clone());
        }
        self.forget_box(core.id);
        if self.bury() {
            self.want_ticks();
        }
    }

    /// A ring that is retrieved from no more: its memory is free again when its poster has told that it writes no more.
    pub fn give_up(&self, ring: Ring, area: Arc<Region>) {
        if ring.ended.is_some() {
            return;
        }
        let (poster, id) = (ring.receiver.from(), ring.id);
        self.keep(ring, area);
        self.tell_poster(poster, id);
    }

    /// Keeps a ring until its poster tells its tail. Before the poster is asked for it: the answer, or the news that it
    /// died, may come at once, and to the control thread.
    fn keep(&self, ring: Ring, area: Arc<Region>) {
        lock(&self.dying).push(Dying { ring, _area: area, tail: None });
    }

    /// Tells the poster of a ring that is kept to post no more.
    fn tell_poster(&self, poster: NodeId, ring: u64) {
        if poster == self.number() {
            // A clone under way has posted nothing and never will.
            let tail = self.end_ring(poster, ring).unwrap_or(0);
            self.note_tail(poster, ring, tail);
        } else if !self.membership.close_ring(poster, ring) {
            lock(&self.dying).retain(|dying| !dying.is_ring(poster, ring));
        }
    }

    fn note_tail(&self, poster: NodeId, ring: u64, tail: u32) {
        for dying in lock(&self.dying).iter_mut().filter(|dying| dying.is_ring(poster, ring)) {
            dying.tail = Some(tail);
        }
    }

    /// Frees the rings of closed mail boxes that nobody writes any more; true if some are left.
    fn bury(&self) -> bool {
        let mut dying = lock(&self.dying);
        dying.retain_mut(|dying| !dying.tail.is_some_and(|tail| dying.ring.receiver.is_quiet(tail)));
        dying.iter().any(|dying| dying.tail.is_some())
    }

    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub fn watcher(&self) -> Result<&Watcher> {
        if let Some(watcher) = self.watcher.get() {
            return Ok(watcher);
        }
        let watcher = Watcher::start(self.membership.crowd().clone())?;
        Ok(self.watcher.get_or_init(|| watcher))
    }

    /// A buffer of another node is in flight from here, or something is left to bury: the control thread comes by if nobody else does.
    pub fn want_ticks(&self) {
        // Light fence: pairs with: node/ticking. Either the tick that is seen to come finds what is there, or it is seen to be over.
        barrier::light();
        // Each message that brings back a buffer comes by here: a look costs less than a swap.
        if !self.is_ticking.load(Ordering::Relaxed) && !self.is_ticking.swap(true, Ordering::Relaxed) {
            self.membership.poke();
        }
    }

    pub fn leave(&self) {
        // First: whatever begins from now on finds out by itself.
        if !self.membership.begin_leaving() {
            return;
        }
        self.all_boxes().iter().for_each(|core| self.close(core));
        // Threads that are inside a post right now get to its end before the receivers are told.
        self.all_posters().iter().for_each(|poster| poster.stop());
        self.membership.leave();
        for cloning in std::mem::take(&mut *lock(&self.posters)).into_values() {
            if let Some(event) = cloning.event() {
                event.notify();
            }
        }
        lock(&self.lanes).clear();
        lock(&self.dying).clear();
        // Each keeps the connection to its owner.
        lock(&self.asked).clear();
        lock(&self.abandoned).clear();
    }
}

impl Handler for NodeShared {
    fn ring_requested(&self, peer: &Arc<Peer>, mailbox: u32, generation: u32, credit: u64) -> Result<Granted, Refused> {
        let core = self.find_box(mailbox, generation).ok_or(Refused::Closed)?;
        let heap = peer.heap().ok_or(Refused::Nonsense)?;
        let credit = usize::try_from(credit).map_err(|_| Refused::Nonsense)?;
        if !credit.is_multiple_of(LINE) || heap.segment().at(credit, core.shape.credit_bytes()).is_none() {
            return Err(Refused::Nonsense);
        }
        self.add_ring(&core, heap, peer.number(), credit)
    }

    fn ring_closed(&self, owner: NodeId, ring: u64) -> u32 {
        self.end_ring(owner, ring).unwrap_or_else(|| {
            // A clone under way, or one that was given up, which has posted nothing and never will.
            self.forget_answers_of(owner, Some(ring));
            0
        })
    }

    fn ring_refused(&self, owner: NodeId) {
        self.forget_answers_of(owner, None);
    }

    fn room_wanted(&self, poster: NodeId, ring: u64) {
        if let Some(core) = self.box_of_ring(ring) {
            core.tell(poster, ring);
        }
    }

    fn ring_ended(&self, poster: NodeId, ring: u64, tail: u32) {
        if let Some(core) = self.box_of_ring(ring) {
            core.end_ring(poster, ring, tail);
        }
        self.note_tail(poster, ring, tail);
        if self.bury() {
            self.want_ticks();
        }
    }

    fn node_gone(&self, node: NodeId, is_lost: bool) {
        let how = if is_lost { "died" } else { "left" };
        log::say(if is_lost { LogLevel::Warn } else { LogLevel::Info }, || format!("{node} {how}"));
    }

    fn peer_gone(&self, peer: NodeId, is_lost: bool) {
        for poster in self.all_posters().into_iter().filter(|poster| poster.id.owner == peer) {
            let _ = self.end_poster(&poster, if is_lost { Ending::Lost } else { Ending::Closed });
        }
        for core in self.all_boxes() {
            core.sender_gone(peer, if is_lost { Ended::Lost } else { Ended::Left }, self);
        }
        lock(&self.dying).retain(|dying| dying.ring.receiver.from() != peer);
        self.forget_questions_to(peer);
    }

    fn heap_introduced(&self) {
        self.all_boxes().iter().for_each(|core| core.event().notify());
    }

    fn heap_forgotten(&self, owner: NodeId) {
        self.all_boxes().iter().for_each(|core| core.adopt_of(owner, self));
    }

    fn tick(&self) -> bool {
        // Whoever wants a tick from now on gets another one.
        self.is_ticking.store(false, Ordering::Relaxed);
        // Heavy fence: pairs with: node/ticking. Whoever does not see that yet has left what is found below.
        barrier::heavy_within();
        let mut has_more = self.bury();
        for poster in self.posters() {
            has_more |= poster.sender.reap_if_idle();
        }
        if has_more {
            self.is_ticking.store(true, Ordering::Relaxed);
        }
        has_more
    }

    fn cut_off(&self) {
        if !self.membership.has_left() {
            log::say(LogLevel::Error, || format!("{} leaves its job: the others have given it up", self.number()));
        }
        self.leave();
    }
}

impl Drop for NodeShared {
    fn drop(&mut self) {
        if !self.membership.has_left() && !fork::is_child() {
            self.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::MutexGuard;

    use deck_peers::Broker;
    use deck_transport::Shape;

    use super::*;
    use crate::testing::{SOON, wait_until};

    fn job() -> (Broker, [Arc<NodeShared>; 2]) {
        let broker = Broker::start("test", 2).unwrap();
        let nodes = [(); 2].map(|()| NodeShared::join(Door::Invited(broker.invite().unwrap())).unwrap());
        (broker, nodes)
    }

    #[test]
    fn the_place_of_a_mail_box_that_was_closed_rests_while_many_others_come_and_go() {
        let (_broker, [node, _]) = job();
        let index_of_next = || {
            let core = node.open(None, &MailboxOptions::default()).unwrap();
            node.close(&core);
            core.id.index
        };
        let first = index_of_next();
        let others: Vec<u32> = (0..FREE_PLACES).map(|_| index_of_next()).collect();
        assert!(!others.contains(&first));
        assert_eq!(index_of_next(), first);
    }

    #[test]
    fn a_ring_takes_less_than_8_kib_of_its_owner() {
        let MailboxOptions { messages, bytes, .. } = MailboxOptions::default();
        let shared = Shape::mapped(messages, bytes, AREA_LINES).ring_bytes();
        let own = size_of::<Option<Ring>>();
        assert!(
            shared + own < 7 << 10,
            "{shared} bytes in the segment and {own} beside it; what is made for it comes on top"
        );
    }

    /// The ring of `poster` at a mail box of `node` that is being closed.
    fn ring_of_closed_box(node: &NodeShared, poster: &Arc<NodeShared>) -> (Ring, Arc<Region>) {
        let core = node.open(Some("box"), &MailboxOptions::default()).unwrap();
        poster.clone_by_id(core.id, Some("box"), Deadline::after(SOON)).unwrap();
        let (mut rings, area) = core.close().unwrap();
        assert_eq!(rings.len(), 1);
        (rings.remove(0), area)
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_ring_is_freed_although_its_poster_answers_before_whoever_asked_goes_on() {
        let (_broker, [node, poster]) = job();
        let (ring, area) = ring_of_closed_box(&node, &poster);
        let id = ring.id;
        node.keep(ring, area);
        node.ring_ended(poster.number(), id, 0);
        assert!(lock(&node.dying).is_empty());
        node.tell_poster(poster.number(), id);
        assert!(lock(&node.dying).is_empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_ring_is_freed_although_its_poster_is_gone_before_it_is_asked_for_the_tail() {
        let (_broker, [node, poster]) = job();
        let (ring, area) = ring_of_closed_box(&node, &poster);
        let peer = node.membership().meet(poster.number(), Deadline::after(SOON)).unwrap();
        poster.leave();
        wait_until("the departure is known", || peer.gone().is_some());
        node.peer_gone(poster.number(), false);
        node.give_up(ring, area);
        assert!(lock(&node.dying).is_empty());
    }

    /// A mail box of `owner` that `poster` tried to clone, and did not wait for: the answer comes when the guard goes.
    fn tried_to_clone<'a>(owner: &'a NodeShared, poster: &Arc<NodeShared>) -> (Arc<Core>, MutexGuard<'a, Boxes>) {
        let core = owner.open(Some("box"), &MailboxOptions::default()).unwrap();
        poster.membership().meet(owner.number(), Deadline::after(SOON)).unwrap();
        let held = lock(&owner.boxes);
        let error = poster.clone_by_id(core.id, Some("box"), Deadline::NOW).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert_eq!(lock(&poster.asked).len(), 1);
        (core, held)
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_ring_that_was_granted_too_late_is_not_kept_longer_than_its_mail_box() {
        let (_broker, [owner, poster]) = job();
        let (core, held) = tried_to_clone(&owner, &poster);
        drop(held);
        let is_granted = || lock(&poster.asked)[&core.id].0.said().is_some();
        wait_until("the ring is granted", is_granted);
        owner.close(&core);
        wait_until("the answer is forgotten", || lock(&poster.asked).is_empty());
        wait_until("the ring is freed", || lock(&owner.dying).is_empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_ring_that_is_refused_when_nobody_waits_for_it_any_more_leaves_no_question() {
        let (_broker, [owner, poster]) = job();
        let (core, held) = tried_to_clone(&owner, &poster);
        core.close();
        drop(held);
        wait_until("the answer is forgotten", || lock(&poster.asked).is_empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn whoever_tries_to_clone_once_more_gets_the_ring_that_was_granted_too_late() {
        let (_broker, [owner, poster]) = job();
        let (core, held) = tried_to_clone(&owner, &poster);
        let asked = lock(&poster.asked)[&core.id].0.clone();
        drop(held);
        poster.clone_by_id(core.id, Some("box"), Deadline::after(SOON)).unwrap();
        let granted = asked.said().unwrap().as_ref().unwrap().ring;
        assert_eq!(poster.poster_to(core.id).unwrap().ring, granted);
        assert!(lock(&poster.asked).is_empty());
    }
}
