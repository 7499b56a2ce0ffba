//! A node of a job: the process's place among the others, and the maker of mail boxes and messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use deck_launch::Place;
use deck_peers::{Door, Granted, Handler, MailboxId, Membership, NodeState, Options, Peer, Refused, fork};
use deck_segment::fabric::Host;
use deck_segment::layout::LINE;
use deck_segment::{HeapMemory, Region};
use deck_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use deck_sync::{Deadline, Error, ErrorKind, Event, Interrupted, NodeId, Result, Waiting};
use deck_transport::segment::receiver::ReceiverParts;
use deck_transport::segment::sender::{Ending, SenderParts};
use deck_transport::{Budget, Heaps, Receiver, RingPlace, Sender, Shape};

use crate::clone::{MailboxClone, Poster};
use crate::inbox::{Ended, Inbox};
use crate::log::{self, LogLevel};
use crate::mailbox::{Core, Mailbox, MailboxOptions};
use crate::message::Message;
use crate::settings::{Settings, default_timeout};
use crate::watcher::Watcher;

/// Lines of a ring's area for buffered messages: 2 KiB, so that a ring stays under 8 KiB.
const AREA_LINES: u32 = 32;

/// A node: this process's place in a job. Handles are cheap to clone and share; the node leaves the job with
/// [`Node::leave`], or when the last handle, mail box and message of it is dropped.
///
/// ```
/// use std::time::Duration;
/// let node = deck_mudeck::Node::join()?;
/// let mailbox = node.mailbox("greetings")?;
/// let mut message = node.message();
/// message.pack(&[42u32])?;
/// node.clone_mailbox("greetings", Duration::from_secs(1))?.post(message, Duration::from_secs(1))?;
/// let mut received = mailbox.retrieve(Duration::from_secs(1))?;
/// let mut number = [0u32];
/// received.unpack(&mut number)?;
/// assert_eq!((number, received.sender()), ([42], Some(node.number())));
/// node.leave()?;
/// # Ok::<(), deck_mudeck::Error>(())
/// ```
#[derive(Clone)]
pub struct Node {
    shared: Arc<NodeShared>,
    job: Arc<str>,
}

/// What all objects of a node share.
pub(crate) struct NodeShared {
    membership: Arc<Membership>,
    settings: Settings,
    budget: Arc<Budget>,
    boxes: Mutex<Boxes>,
    posters: Mutex<HashMap<MailboxId, Cloning>>,
    /// Rings of closed mail boxes whose memory somebody may still write.
    dying: Mutex<Vec<Dying>>,
    /// Credit lines of clones that were given up before the owner answered.
    abandoned: Mutex<Vec<Region>>,
    next_ring: AtomicU64,
    watcher: OnceLock<Watcher>,
    is_ticking: AtomicBool,
}

/// The mail boxes of this node, by index.
#[derive(Default)]
struct Boxes {
    places: Vec<(u32, Option<Arc<Core>>)>,
    free: Vec<u32>,
}

enum Cloning {
    Ready(Arc<Poster>),
    /// Some thread is at it; the event tells when it is done.
    UnderWay(Arc<Event>),
}

struct Dying {
    ring: crate::inbox::Ring,
    /// The bells of the mail box, which the poster may still write.
    _area: Arc<Region>,
    /// Position behind the last slot that was ever reserved, once the poster has told.
    tail: Option<u32>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// Joins the job that the environment tells: that of `deck run`, the one named by `DECK_JOB`, or a job of one.
    /// Blocks at most `DECK_TIMEOUT`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a malformed environment, [`ErrorKind::Access`] if the job belongs to another user or
    /// network namespace, [`ErrorKind::Unsupported`] under a manager that cannot be joined, [`ErrorKind::NoMemory`],
    /// [`ErrorKind::NotInitialized`] in a forked child.
    #[doc(alias = "deck_init")]
    pub fn join() -> Result<Node> {
        let door = match deck_launch::place()? {
            Place::Alone => Door::Alone,
            Place::Launched { socket } => Door::Invited(socket),
            Place::ByName { name } => Door::Named(name),
        };
        Node::join_by(door)
    }

    /// Joins through `door`, for launchers and tests.
    ///
    /// # Errors
    /// As [`Node::join`].
    pub fn join_by(door: Door) -> Result<Node> {
        log::look_at_environment();
        let settings = Settings::from_environment()?;
        let options = Options { heap_bytes: settings.heap_bytes };
        let membership = Membership::join(door, &options, Deadline::after(default_timeout()))?;
        let job = membership.table().job().into();
        let shared = Arc::new(NodeShared {
            budget: Budget::new(settings.budget_bytes),
            settings,
            boxes: Mutex::default(),
            posters: Mutex::default(),
            dying: Mutex::default(),
            abandoned: Mutex::default(),
            next_ring: AtomicU64::new(1),
            watcher: OnceLock::new(),
            is_ticking: AtomicBool::new(false),
            membership,
        });
        let handler: Weak<dyn Handler> = Arc::downgrade(&(shared.clone() as Arc<dyn Handler>));
        let weak = Arc::downgrade(&shared);
        shared.heap().set_reserve(Box::new(move || {
            // Messages that were retrieved since the last post still hold their buffers.
            weak.upgrade().iter().flat_map(|shared| shared.posters()).for_each(|poster| {
                poster.sender.reap(u32::MAX);
            });
        }));
        shared.membership.start(handler)?;
        log::say(LogLevel::Info, || format!("{} has joined job \"{job}\"", shared.number()));
        Ok(Node { shared, job })
    }

    /// Its number, given in order of joining and never reused.
    #[doc(alias = "deck_node")]
    pub fn number(&self) -> NodeId {
        self.shared.number()
    }

    /// The highest number ever given in the job, plus one; under `deck run -n N` at least N from the start.
    #[doc(alias = "deck_numnodes")]
    pub fn count(&self) -> u32 {
        self.shared.membership.table().count()
    }

    /// The job's name, empty if it has none.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// What became of a node. Never blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a number that was never given, [`ErrorKind::NotInitialized`] after leaving.
    #[doc(alias = "deck_node_state")]
    pub fn state(&self, node: NodeId) -> Result<NodeState> {
        self.shared.check()?;
        let unknown = || Error::new(ErrorKind::Invalid, format!("the state of {node}: no node has had this number"));
        self.shared.membership.state(node).ok_or_else(unknown)
    }

    /// An empty message. Never waits and, as long as the content stays under 63 bytes, allocates nothing.
    #[doc(alias = "deck_msg_create")]
    pub fn message(&self) -> Message {
        Message::empty(&self.shared)
    }

    /// An empty message with a buffer for `bytes` bytes; it grows when packed past that.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`].
    pub fn message_with_capacity(&self, bytes: usize) -> Result<Message> {
        self.shared.check()?;
        Message::with_capacity(&self.shared, bytes)
    }

    /// Creates a mail box under `name`. Never blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] naming the node that owns the name, [`ErrorKind::Invalid`] for an impossible name,
    /// [`ErrorKind::NoMemory`].
    #[doc(alias = "deck_mbox_create")]
    pub fn mailbox(&self, name: &str) -> Result<Mailbox> {
        self.mailbox_with(Some(name), &MailboxOptions::default())
    }

    /// Creates a mail box without a name: its address travels in messages ([`Message::pack_mailbox`]).
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`].
    pub fn anonymous_mailbox(&self) -> Result<Mailbox> {
        self.mailbox_with(None, &MailboxOptions::default())
    }

    /// Creates a mail box with options.
    ///
    /// # Errors
    /// As [`Node::mailbox`], and [`ErrorKind::Invalid`] for impossible options.
    #[doc(alias = "deck_mbox_create_with")]
    pub fn mailbox_with(&self, name: Option<&str>, options: &MailboxOptions) -> Result<Mailbox> {
        self.shared.check()?;
        let core = self.shared.open(name, options)?;
        Ok(Mailbox::new(self.shared.clone(), core))
    }

    /// Clones the mail box `name` of whatever node: the end to post to. Waits until the name exists, then meets its owner
    /// and gets a ring from it; from then on posts talk to nobody. Blocks until the deadline.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] saying what was missing, [`ErrorKind::PeerLost`] naming the owner, [`ErrorKind::NoMemory`],
    /// [`ErrorKind::Cancelled`].
    #[doc(alias = "deck_mbox_clone")]
    pub fn clone_mailbox(&self, name: &str, timeout: Duration) -> Result<MailboxClone> {
        self.shared.check()?;
        let deadline = Deadline::after(timeout);
        loop {
            let id = self.shared.membership.find_name(name, deadline)?;
            match self.shared.clone_by_id(id, Some(name), deadline) {
                // Closed, or its owner died, after we had found it: the name may soon have another owner.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Closed | ErrorKind::PeerLost)
                        && !deadline.has_passed()
                        && self.shared.check().is_ok()
                        && self.shared.membership.table().is_live(id.owner).then_some(id)
                            != self.shared.owner_of(name) => {}
                result => return result,
            }
        }
    }

    /// Leaves the job in order. What was posted is still delivered; mail boxes of this node are closed; waits of its
    /// threads end. Waits for nobody. Further calls through any handle of this node fail.
    ///
    /// # Errors
    /// [`ErrorKind::NotInitialized`] if it has left already, or in a forked child.
    #[doc(alias = "deck_done")]
    pub fn leave(self) -> Result<()> {
        self.shared.check()?;
        log::say(LogLevel::Info, || format!("{} leaves job \"{}\"", self.number(), self.job));
        self.shared.leave();
        Ok(())
    }

    /// True once the node has left.
    pub fn is_left(&self) -> bool {
        self.shared.membership.has_left()
    }
}

impl Heaps for NodeShared {
    fn heap_of(&self, owner: NodeId) -> Option<Arc<HeapMemory>> {
        self.membership.heap_of(owner)
    }
}

/// Waits for another thread's clone of the same mail box.
struct OtherThread<'a>(&'a NodeShared, MailboxId, &'a Arc<Event>);

impl Waiting for OtherThread<'_> {
    type Output = ();
    fn look(&mut self) -> Option<()> {
        let is_under_way =
            matches!(lock(&self.0.posters).get(&self.1), Some(Cloning::UnderWay(event)) if Arc::ptr_eq(event, self.2));
        (!is_under_way || self.0.membership.has_left()).then_some(())
    }
}

impl NodeShared {
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
        if fork::is_child() {
            return Error::new(ErrorKind::NotInitialized, "a call in a forked child")
                .with_remedy("execute a program in the child; it can join the job as a node of its own");
        }
        Error::new(ErrorKind::NotInitialized, "this node has left its job").with_remedy("join again")
    }

    fn owner_of(&self, name: &str) -> Option<MailboxId> {
        self.membership.find_name(name, Deadline::NOW).ok()
    }

    fn open(&self, name: Option<&str>, options: &MailboxOptions) -> Result<Arc<Core>> {
        let shape = options.shape(AREA_LINES)?;
        let area = Arc::new(self.heap().region(crate::inbox::AREA_BYTES)?);
        let mut boxes = lock(&self.boxes);
        let index = match boxes.free.pop() {
            Some(index) => index,
            None if boxes.places.len() < MailboxId::INDEX_MAX as usize => {
                boxes.places.push((0, None));
                boxes.places.len() as u32 - 1
            }
            None => {
                return Err(Error::new(
                    ErrorKind::NoMemory,
                    format!("a node has at most {} mail boxes", MailboxId::INDEX_MAX),
                ));
            }
        };
        let place = &mut boxes.places[index as usize];
        place.0 = (place.0 + 1) % MailboxId::GENERATIONS;
        let id = MailboxId { owner: self.number(), index, generation: place.0 };
        let core = Arc::new(Core::new(id, name.map(str::to_string), shape, Inbox::new(area)));
        place.1 = Some(core.clone());
        drop(boxes);
        // Known here before it is known to others, who may ask for a ring at once.
        if let Some(name) = name
            && let Err(error) = self.membership.claim_name(name, id)
        {
            self.forget_box(id);
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
            boxes.free.push(id.index);
        }
    }

    fn find_box(&self, index: u32, generation: u32) -> Option<Arc<Core>> {
        let boxes = lock(&self.boxes);
        let (now, core) = boxes.places.get(index as usize)?;
        core.clone().filter(|_| *now == generation)
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
        for mut ring in rings {
            let from = ring.receiver.from();
            let mut tail = None;
            if ring.ended.is_none() {
                ring.receiver.set_closed();
                if from == self.number() {
                    tail = Some(self.end_poster(core.id, Ending::Closed));
                } else {
                    self.membership.close_ring(from, ring.id);
                }
                lock(&self.dying).push(Dying { ring, _area: area.clone(), tail });
            }
        }
        self.forget_box(core.id);
        if self.bury() {
            self.want_ticks();
        }
    }

    fn end_poster(&self, id: MailboxId, ending: Ending) -> u32 {
        let mut posters = lock(&self.posters);
        // A clone under way has posted nothing yet, and will notice by itself.
        let Some(Cloning::Ready(poster)) = posters.get(&id) else { return 0 };
        let poster = poster.clone();
        posters.remove(&id);
        drop(posters);
        poster.sender.end(ending)
    }

    /// Frees the rings of closed mail boxes that nobody writes any more; true if some are left.
    fn bury(&self) -> bool {
        let mut dying = lock(&self.dying);
        dying.retain_mut(|dying| !dying.tail.is_some_and(|tail| dying.ring.receiver.is_quiet(tail)));
        dying.iter().any(|dying| dying.tail.is_some())
    }

    /// A clone of the mail box `id`. All clones of a mail box in one node share one ring, which lives as long as the mail
    /// box: so messages of one thread keep their order also across clones.
    pub fn clone_by_id(
        self: &Arc<Self>,
        id: MailboxId,
        name: Option<&str>,
        deadline: Deadline,
    ) -> Result<MailboxClone> {
        let mine = Arc::new(Event::new());
        loop {
            self.check()?;
            let event = {
                let mut posters = lock(&self.posters);
                match posters.get(&id) {
                    Some(Cloning::Ready(poster)) => return Ok(MailboxClone::new(self.clone(), poster.clone())),
                    Some(Cloning::UnderWay(event)) => Some(event.clone()),
                    None => {
                        posters.insert(id, Cloning::UnderWay(mine.clone()));
                        None
                    }
                }
            };
            let Some(event) = event else { break };
            let waited =
                deck_sync::wait(&mut OtherThread(self, id, &event), &[&event], self.membership.crowd(), deadline);
            waited.map_err(|interrupted| match interrupted {
                Interrupted::Deadline => Error::new(ErrorKind::Timeout, "cloning a mail box").with_peer(id.owner),
                Interrupted::Cancelled => Error::new(ErrorKind::Cancelled, "cloning a mail box").with_peer(id.owner),
            })?;
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
            let closed = || Error::new(ErrorKind::Closed, "cloning a mail box of this node");
            // Not mine any more: this node has left meanwhile.
            if is_closed || !is_mine { Err(closed()) } else { Ok(made) }
        });
        let result = made.map(|sender| {
            let poster = Arc::new(Poster::new(id, name.map(str::to_string), sender.0, sender.1, sender.2));
            posters.insert(id, Cloning::Ready(poster.clone()));
            poster
        });
        drop(posters);
        mine.notify();
        let poster = result?;
        // Gone while the ring was being made: whoever told did not find the poster yet.
        if let Some(peer) = &poster.peer
            && let Some(gone) = peer.gone()
        {
            self.end_poster(id, if gone == NodeState::Lost { Ending::Lost } else { Ending::Closed });
        }
        Ok(MailboxClone::new(self.clone(), poster))
    }

    fn ring_here(&self, id: MailboxId) -> Result<(Sender<Host>, u64, Option<Arc<Peer>>)> {
        let closed = || Error::new(ErrorKind::Closed, "cloning a mail box of this node");
        let core = self.find_box(id.index, id.generation).ok_or_else(closed)?;
        let credit = self.heap().region(core.shape.credit_bytes())?;
        let granted = self.add_ring(&core, self.heap(), self.number(), credit.offset());
        let granted = granted.map_err(|reason| match reason {
            Refused::NoMemory => Error::new(ErrorKind::NoMemory, "cloning a mail box of this node"),
            _ => closed(),
        })?;
        Ok((self.sender(&granted, core.shape, self.heap(), credit, self.number()), granted.ring, None))
    }

    fn ring_at_owner(&self, id: MailboxId, deadline: Deadline) -> Result<(Sender<Host>, u64, Option<Arc<Peer>>)> {
        let peer = self.membership.meet(id.owner, deadline)?;
        let heap =
            peer.heap().ok_or_else(|| Error::new(ErrorKind::PeerLost, "meeting it").with_peer(id.owner))?.clone();
        let credit = self.heap().region(LINE)?;
        let granted = match self.membership.request_ring(&peer, id, credit.offset() as u64, deadline) {
            Ok(granted) => granted,
            Err(error) => {
                if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Cancelled) {
                    // The owner may still make the ring and write to the credit line.
                    lock(&self.abandoned).push(credit);
                }
                return Err(error);
            }
        };
        let narrow = |word: u64| u32::try_from(word).unwrap_or(0);
        let shape = Shape {
            messages: narrow(granted.messages),
            bytes: granted.bytes,
            area_lines: narrow(granted.area_lines),
            is_mapped: true,
        };
        shape
            .check()
            .and_then(|()| place(&granted).check(&shape, heap.segment().bytes()))
            .map_err(|error| error.with_peer(id.owner))?;
        Ok((self.sender(&granted, shape, &heap, credit, id.owner), granted.ring, Some(peer)))
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
            remote: Host::new(heap.segment().clone()),
            place: place(granted),
            shape,
            receiver,
            credit: credit.words(),
            region: Some(credit),
            heap: self.heap().clone(),
            budget: self.budget.clone(),
            thresholds: self.settings.thresholds,
        })
    }

    /// A ring from `from`, whose credits lie at `credit` in its segment.
    fn add_ring(&self, core: &Core, heap: &Arc<HeapMemory>, from: NodeId, credit: usize) -> Result<Granted, Refused> {
        let region = self.heap().region(core.shape.ring_bytes()).map_err(|_| Refused::NoMemory)?;
        let ring = self.next_ring.fetch_add(1, Ordering::Relaxed);
        core.add_ring(|inbox| {
            let index = inbox.free_place().ok_or(Refused::Full)?;
            let area = inbox.area().offset();
            let granted = Granted {
                ring,
                messages: u64::from(core.shape.messages),
                bytes: core.shape.bytes,
                area_lines: u64::from(core.shape.area_lines),
                place: region.offset() as u64,
                bell: (area + Inbox::bell(index)) as u64,
                event: area as u64,
            };
            let receiver = Receiver::new(ReceiverParts {
                from,
                shape: core.shape,
                ring: region.words(),
                region: Some(region),
                remote: Host::new(heap.segment().clone()),
                credit,
            });
            inbox.add(index, ring, receiver);
            Ok(granted)
        })
    }

    /// All posters that may have messages in flight.
    pub fn posters(&self) -> Vec<Arc<Poster>> {
        let posters = lock(&self.posters);
        posters
            .values()
            .filter_map(|cloning| if let Cloning::Ready(poster) = cloning { Some(poster.clone()) } else { None })
            .collect()
    }

    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    pub fn watcher(&self) -> Result<&Watcher> {
        if let Some(watcher) = self.watcher.get() {
            return Ok(watcher);
        }
        let watcher = Watcher::start(self.membership.crowd().clone())?;
        Ok(self.watcher.get_or_init(|| watcher))
    }

    /// A buffer of another node is in flight from here: it is let go of by the control thread if by nobody else.
    pub fn want_ticks(&self) {
        if !self.is_ticking.swap(true, Ordering::Relaxed) {
            self.membership.poke();
        }
    }

    fn leave(&self) {
        self.all_boxes().iter().for_each(|core| self.close(core));
        for poster in self.posters() {
            poster.sender.end(Ending::Closed);
        }
        self.membership.leave();
        for cloning in std::mem::take(&mut *lock(&self.posters)).into_values() {
            if let Cloning::UnderWay(event) = cloning {
                event.notify();
            }
        }
        lock(&self.dying).clear();
    }
}

fn place(granted: &Granted) -> RingPlace {
    let narrow = |word: u64| usize::try_from(word).unwrap_or(usize::MAX);
    RingPlace { ring: narrow(granted.place), bell: narrow(granted.bell), event: narrow(granted.event) }
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
        let found = self.posters().into_iter().find(|poster| poster.id.owner == owner && poster.ring == ring);
        found.map_or(0, |poster| self.end_poster(poster.id, Ending::Closed))
    }

    fn ring_ended(&self, poster: NodeId, ring: u64, tail: u32) {
        for dying in lock(&self.dying).iter_mut() {
            if dying.ring.id == ring && dying.ring.receiver.from() == poster {
                dying.tail = Some(tail);
            }
        }
        if self.bury() {
            self.want_ticks();
        }
    }

    fn peer_gone(&self, peer: NodeId, is_lost: bool) {
        let how = if is_lost { "died" } else { "left" };
        log::say(if is_lost { LogLevel::Warn } else { LogLevel::Info }, || format!("{peer} {how}"));
        for poster in self.posters().into_iter().filter(|poster| poster.id.owner == peer) {
            self.end_poster(poster.id, if is_lost { Ending::Lost } else { Ending::Closed });
        }
        for core in self.all_boxes() {
            core.sender_gone(peer, if is_lost { Ended::Lost } else { Ended::Left }, self);
        }
        lock(&self.dying).retain(|dying| dying.ring.receiver.from() != peer);
    }

    fn heap_introduced(&self) {
        self.all_boxes().iter().for_each(|core| core.event().notify());
    }

    fn heap_forgotten(&self, owner: NodeId) {
        self.all_boxes().iter().for_each(|core| core.adopt_of(owner, self));
    }

    fn tick(&self) -> bool {
        let mut has_more = self.bury();
        for poster in self.posters() {
            has_more |= poster.sender.reap(u32::MAX);
        }
        if !has_more {
            self.is_ticking.store(false, Ordering::Relaxed);
        }
        has_more
    }
}

impl Drop for NodeShared {
    fn drop(&mut self) {
        if !self.membership.has_left() && !fork::is_child() {
            self.leave();
        }
    }
}
