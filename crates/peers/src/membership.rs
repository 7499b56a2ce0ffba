//! One node's place in a job.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};
use std::thread::JoinHandle;

use deck_segment::{HeapMemory, HeapOptions, Seat};
use deck_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use deck_sync::locks::{lock, read};
use deck_sync::{
    About, Crowd, Deadline, Error, ErrorKind, Event, Goal, Interrupted, NodeId, Result, Service, Waiting, barrier,
    point,
};

use crate::broker::Broker;
use crate::control::Control;
use crate::crowd::JobCrowd;
use crate::names::{MailboxId, Names};
use crate::notices::Notices;
use crate::objects::{Objects, Opened};
use crate::peer::Peer;
use crate::pledges::Pledges;
use crate::shares::Shares;
use crate::socket::{Received, Socket};
use crate::strangers::Wanted;
use crate::table::{NodeState, Table};
use crate::wire::{Frame, Refused};
use crate::{fork, namespace, process, rendezvous, wakeup};

/// How a process comes into its job.
#[derive(Debug)]
pub enum Door {
    /// A job of one node.
    Alone,
    /// Through a socket that the launcher's broker invited with.
    Invited(OwnedFd),
    /// The job of this user on this host that has this name; opens it if there is none.
    Named(String),
}

/// What a node is like.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its heap.
    pub heap: HeapOptions,
}

/// A ring that an owner grants: where it lies in the owner's segment, and how large it is.
#[derive(Clone, Copy, Debug)]
pub struct Granted {
    /// The owner's number for it.
    pub ring: u64,
    /// Messages in flight.
    pub messages: u64,
    /// Bytes in flight.
    pub bytes: u64,
    /// Lines of the area for buffered messages.
    pub area_lines: u64,
    /// Byte offset of the ring.
    pub place: u64,
    /// Byte offset of its bell.
    pub bell: u64,
    /// Byte offset of the mail box's event.
    pub event: u64,
}

/// What the layer above makes of requests and deaths. Called on the control thread: must not block.
pub trait Handler: Send + Sync {
    /// `peer` has cloned a mail box and asks for a ring; its credit line is at `credit` in its segment.
    fn ring_requested(&self, peer: &Arc<Peer>, mailbox: u32, generation: u32, credit: u64) -> Result<Granted, Refused>;
    /// The owner has closed the mail box behind `ring`. Returns the position behind the last message that was posted; nothing
    /// is written there any more.
    fn ring_closed(&self, owner: NodeId, ring: u64) -> u32;
    /// Threads of the poster wait for room in `ring`: what was retrieved and not told is told now.
    fn room_wanted(&self, poster: NodeId, ring: u64);
    /// The poster has ended `ring`; nothing behind `tail` was ever posted.
    fn ring_ended(&self, poster: NodeId, ring: u64, tail: u32);
    /// A node is gone. Before this returns, everything that it had posted here must be taken over.
    fn peer_gone(&self, peer: NodeId, is_lost: bool);
    /// A heap has become known that messages may have waited for.
    fn heap_introduced(&self);
    /// The heap of `owner`, which is gone, will be forgotten: what is posted here and lies in it must be taken over.
    fn heap_forgotten(&self, owner: NodeId);
    /// Time for small duties; true if there will be more soon.
    fn tick(&self) -> bool;
}

/// A question to a peer, and its answer.
pub(crate) struct Request {
    pub peer: NodeId,
    pub answer: OnceLock<Result<Granted>>,
    pub answered: Event,
}

/// A ring that was asked for, to be given to [`Membership::answer`] or [`Membership::forget`].
pub struct Asked {
    id: u64,
    request: Arc<Request>,
    peer: Arc<Peer>,
}

impl Asked {
    /// Who was asked.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }
}

/// A node's membership in a job. Ends with [`Membership::leave`].
pub struct Membership {
    pub(crate) number: NodeId,
    pub(crate) seat: Seat,
    pub(crate) table: Table,
    names: Names,
    pub(crate) objects: Objects,
    pub(crate) opened: Opened,
    pub(crate) pledges: Pledges,
    pub(crate) strangers: Wanted,
    pub(crate) shares: Shares,
    heap: Arc<HeapMemory>,
    crowd: Arc<dyn Crowd>,
    notices: Arc<Notices>,
    /// Set while the job is joined by name.
    pub(crate) job: Option<String>,
    pub(crate) peers: Mutex<BTreeMap<NodeId, Arc<Peer>>>,
    pub(crate) heaps: RwLock<HashMap<NodeId, Arc<HeapMemory>>>,
    /// Gone nodes whose buffers are still posted on by others: their heaps stay known.
    pub(crate) kept_heaps: Mutex<HashSet<NodeId>>,
    pub(crate) requests: Mutex<HashMap<u64, Arc<Request>>>,
    next_request: AtomicU64,
    pub(crate) broker: Mutex<Arc<Socket>>,
    /// The node that the broker lives in, or `NO_NODE`.
    pub(crate) broker_node: AtomicU64,
    /// The broker, if it lives here.
    pub(crate) hosted: Mutex<Option<Broker>>,
    /// The socket that a job joined by name listens on.
    pub(crate) listener: Mutex<Option<fork::ParentOnly>>,
    pub(crate) wake: OwnedFd,
    handler: OnceLock<Weak<dyn Handler>>,
    pub(crate) has_left: AtomicBool,
    has_said_bye: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Waits until `look` gives something, `event` telling when to look.
pub(crate) struct Until<'a, F>(pub F, pub About<'a>);

impl<T, F: FnMut() -> Option<T>> Waiting for Until<'_, F> {
    type Output = T;
    fn look(&mut self) -> Option<T> {
        (self.0)()
    }

    fn about(&self) -> Option<About<'_>> {
        Some(self.1)
    }
}

impl Membership {
    /// Joins a job: gets a number, makes this node's segment, starts the control thread. Blocks until the deadline.
    ///
    /// # Errors
    /// [`ErrorKind::Access`] if the job belongs to another user or network namespace, [`ErrorKind::NoMemory`],
    /// [`ErrorKind::Timeout`] if the broker does not answer, [`ErrorKind::NotInitialized`] in a forked child.
    pub fn join(door: Door, options: &Options, deadline: Deadline) -> Result<Arc<Membership>> {
        if fork::is_child() {
            return Err(Error::new(ErrorKind::NotInitialized, "joining from a forked child")
                .with_remedy("execute a program in the child; it can join"));
        }
        let needs_fences = !barrier::register();
        let wake = wakeup::new()?;
        let Entered { socket, hosted, job, welcomed } = enter(door, u64::from(needs_fences), deadline)?;
        let Welcomed { number, seat, broker_node, table, listener } = welcomed;
        point("join/welcomed");
        if table.needs_fences() {
            barrier::use_real_fences();
        }
        let broker_node = if hosted.is_some() { u64::from(number.0) } else { broker_node };
        let heap = HeapMemory::create(number, seat, &options.heap).inspect_err(|_| {
            leave_by(&socket);
        })?;
        let notices = Notices::create(number, table.segment(), heap.segment()).inspect_err(|_| {
            leave_by(&socket);
        })?;
        let crowd: Arc<dyn Crowd> = Arc::new(JobCrowd::new(&table, number, seat, notices.clone()));
        deck_sync::set_home_crowd(&crowd);
        Ok(Arc::new(Membership {
            number,
            seat,
            names: Names::new(&table),
            objects: Objects::new(&table),
            opened: Opened::default(),
            pledges: Pledges::default(),
            strangers: Wanted::default(),
            shares: Shares::default(),
            table,
            heaps: RwLock::new(HashMap::from([(number, heap.clone())])),
            kept_heaps: Mutex::new(HashSet::new()),
            heap,
            crowd,
            notices,
            job,
            peers: Mutex::new(BTreeMap::new()),
            requests: Mutex::new(HashMap::new()),
            next_request: AtomicU64::new(1),
            broker: Mutex::new(socket),
            broker_node: AtomicU64::new(broker_node),
            hosted: Mutex::new(hosted),
            listener: Mutex::new(listener),
            wake,
            handler: OnceLock::new(),
            has_left: AtomicBool::new(false),
            has_said_bye: AtomicBool::new(false),
            thread: Mutex::new(None),
        }))
    }

    /// Starts the control thread, which tells `handler` what happens.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if there is no thread to be had.
    pub fn start(self: &Arc<Self>, handler: Weak<dyn Handler>) -> Result<()> {
        let _ = self.handler.set(handler);
        let control = Control::new(self)?;
        *lock(&self.thread) = Some(Service::Control.start(move || control.run())?);
        Ok(())
    }

    pub(crate) fn handler(&self) -> Option<Arc<dyn Handler>> {
        self.handler.get().and_then(Weak::upgrade)
    }

    /// This node's number.
    pub fn number(&self) -> NodeId {
        self.number
    }

    /// This node's seat.
    pub fn seat(&self) -> Seat {
        self.seat
    }

    /// True once this node has left, or begun to.
    #[inline]
    pub fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    /// The job's table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// This node's heap.
    pub fn heap(&self) -> &Arc<HeapMemory> {
        &self.heap
    }

    /// The runnable threads around this node.
    pub fn crowd(&self) -> &Arc<dyn Crowd> {
        &self.crowd
    }

    /// What this node tells those who look on.
    pub fn notices(&self) -> &Arc<Notices> {
        &self.notices
    }

    /// The heap of `owner`, if this node was told of it.
    pub fn heap_of(&self, owner: NodeId) -> Option<Arc<HeapMemory>> {
        read(&self.heaps).get(&owner).cloned()
    }

    /// Makes sure that `peer` can find the buffers of `heap`, which will be named in a message to it. Never blocks.
    ///
    /// # Errors
    /// [`ErrorKind::PeerLost`] or [`ErrorKind::Timeout`] naming the peer.
    pub fn introduce_heap(&self, peer: &Peer, heap: &Arc<HeapMemory>) -> Result<()> {
        if peer.number() == self.number || [self.number, peer.number()].contains(&heap.owner()) {
            return Ok(());
        }
        peer.introduce(heap, !self.table.is_live(heap.owner()))
    }

    /// Wakes the control thread for its small duties.
    pub fn poke(&self) {
        wakeup::ring(&self.wake);
    }

    /// Claims a name for a mail box of this node.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] naming the owner, [`ErrorKind::Invalid`], [`ErrorKind::NoMemory`].
    pub fn claim_name(&self, name: &str, mailbox: MailboxId) -> Result<()> {
        self.names.claim(name, mailbox, self.seat)
    }

    /// Lets go of a name. Free on return.
    pub fn release_name(&self, name: &str, mailbox: MailboxId) {
        self.names.release(name, mailbox);
    }

    /// Who owns `name`; waits until somebody does.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`], [`ErrorKind::Cancelled`], [`ErrorKind::Invalid`], [`ErrorKind::Closed`] when this node leaves
    /// the job meanwhile.
    pub fn find_name(&self, name: &str, deadline: Deadline) -> Result<MailboxId> {
        crate::names::check_name(name)?;
        let found = || match self.names.lookup(name) {
            Some(found) => Some(Some(found)),
            None => self.has_left.load(Ordering::Relaxed).then_some(None),
        };
        let mut until = Until(found, About::new(Goal::Name, name));
        match deck_sync::wait(&mut until, &[self.table.changed()], &self.crowd, deadline) {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(left()),
            Err(Interrupted::Cancelled) => Err(cancelled(&format!("waiting for mail box \"{name}\""))),
            Err(Interrupted::Deadline) => {
                Err(Error::new(ErrorKind::Timeout, format!("waiting for somebody to create mail box \"{name}\""))
                    .with_remedy("check the name, and that the node that creates it runs"))
            }
        }
    }

    /// What became of a node; `None` if its number was never given.
    pub fn state(&self, node: NodeId) -> Option<NodeState> {
        let state = self.table.state(node)?;
        if state != NodeState::Live || node == self.number {
            return Some(state);
        }
        let peer = lock(&self.peers).get(&node).cloned();
        if let Some(peer) = &peer {
            peer.ask();
        }
        let is_silent = peer.is_some_and(|peer| peer.frozen_for().is_some());
        let is_stopped = self.table.pid_here(node).is_some_and(is_stopped);
        Some(if is_silent || is_stopped { NodeState::Frozen } else { NodeState::Live })
    }

    /// Asks the owner of `mailbox` for a ring whose credits lie at `credit` in this node's segment. Never waits.
    ///
    /// # Errors
    /// [`ErrorKind::PeerLost`] and the like if the question cannot be sent.
    pub fn ask_for_ring(&self, peer: &Arc<Peer>, mailbox: MailboxId, credit: u64) -> Result<Asked> {
        let request = Arc::new(Request { peer: peer.number(), answer: OnceLock::new(), answered: Event::new() });
        let id = self.next_request.fetch_add(1, Ordering::Relaxed);
        lock(&self.requests).insert(id, request.clone());
        let (index, generation) = (u64::from(mailbox.index), u64::from(mailbox.generation));
        let asked = Asked { id, request, peer: peer.clone() };
        match peer.send(&Frame::RingRequest { request: id, mailbox: index, generation, credit }) {
            Ok(()) => Ok(asked),
            Err(error) => {
                self.forget(&asked);
                Err(error)
            }
        }
    }

    /// What the owner says to the question, once, as soon as it has answered. Never waits.
    pub fn answer(&self, asked: &Asked) -> Option<Result<Granted>> {
        let answer = asked.request.answer.get().cloned()?;
        self.forget(asked);
        Some(answer.map_err(|error| error.with_peer(asked.peer.number())))
    }

    /// The answer is not wanted any more: a ring that is granted from now on is declined. The owner may still write to the credits.
    pub fn forget(&self, asked: &Asked) {
        lock(&self.requests).remove(&asked.id);
    }

    /// As [`Membership::ask_for_ring`], and waits for the answer. Blocks until the deadline.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if there is no such mail box, and as for [`Membership::meet`].
    pub fn request_ring(
        &self,
        peer: &Arc<Peer>,
        mailbox: MailboxId,
        credit: u64,
        deadline: Deadline,
    ) -> Result<Granted> {
        let asked = self.ask_for_ring(peer, mailbox, credit);
        point("clone/requested");
        let asked = asked?;
        let request = &asked.request;
        let waited = {
            let _depending = self.depend(peer);
            let answer = || {
                let is_gone = peer.gone().is_some() || self.has_left.load(Ordering::Relaxed);
                let gone = || Err(if self.has_left() { left() } else { self.gone(peer.number()) });
                request.answer.get().cloned().or_else(|| is_gone.then(gone))
            };
            let about = About::new(Goal::Ring, "").on(peer.number()).with([mailbox.to_word()]);
            let mut until = Until(answer, about);
            deck_sync::wait(&mut until, &[&request.answered, peer.changed()], &self.crowd, deadline)
        };
        self.forget(&asked);
        // An answer at the last moment counts; one that comes from now on is declined by the control thread.
        match request.answer.get().cloned().map_or(waited, Ok) {
            Ok(answer) => answer.map_err(|error| error.with_peer(peer.number())),
            Err(interrupted) => Err(self.interrupted(interrupted, "cloning its mail box", peer)),
        }
    }

    /// The error of a wait on `peer` that ended early: says if the peer is frozen, and for how long.
    pub fn interrupted(&self, interrupted: Interrupted, doing: &str, peer: &Peer) -> Error {
        match interrupted {
            Interrupted::Cancelled => cancelled(doing).with_peer(peer.number()),
            Interrupted::Deadline => match self.frozen_for(peer) {
                Some(silent) => {
                    let what = format!("{doing}; it is frozen: no sign of life for {:.1} s", silent.as_secs_f64());
                    Error::new(ErrorKind::Timeout, what)
                        .with_peer(peer.number())
                        .with_remedy("it loses nothing: let it continue (kill -CONT), or end it")
                }
                None => Error::new(ErrorKind::Timeout, doing.to_string()).with_peer(peer.number()),
            },
        }
    }

    /// For how long `peer` has been frozen, if it is.
    pub fn frozen_for(&self, peer: &Peer) -> Option<std::time::Duration> {
        peer.frozen_for()
            .or_else(|| self.table.pid_here(peer.number()).is_some_and(is_stopped).then_some(std::time::Duration::ZERO))
    }

    /// The owner of a mail box tells a poster to post no more.
    pub fn close_ring(&self, poster: NodeId, ring: u64) {
        let peer = lock(&self.peers).get(&poster).cloned();
        if let Some(peer) = peer {
            let _ = peer.send(&Frame::RingClose { ring });
        }
    }

    /// A poster tells the owner of a mail box that it waits for room in `ring`.
    pub fn want_room(&self, owner: NodeId, ring: u64) {
        let peer = lock(&self.peers).get(&owner).cloned();
        if let Some(peer) = peer {
            let _ = peer.send(&Frame::RoomWanted { ring });
        }
    }

    /// From now on this node counts as left for its own threads; false if it did already.
    pub fn begin_leaving(&self) -> bool {
        // SeqCst: pairs with: pledges/leaving. For the control thread: pairs with: membership/leaving.
        !fork::is_child() && !self.has_left.swap(true, Ordering::SeqCst)
    }

    /// Leaves the job in order: tells everybody, waits for nobody but the control thread and threads that have to take something
    /// back ([`Membership::pledge`]), for these a second at most. What was posted is still delivered.
    pub fn leave(&self) {
        // SeqCst: pairs with: pledges/leaving. For the control thread: pairs with: membership/leaving.
        self.has_left.store(true, Ordering::SeqCst);
        // SeqCst: pairs with: membership/leaving. One thread says so to everybody, and after that.
        if fork::is_child() || self.has_said_bye.swap(true, Ordering::SeqCst) {
            return;
        }
        self.opened.wait_for_those_inside();
        let is_in_order = self.redeem_pledges();
        let peers: Vec<Arc<Peer>> = lock(&self.peers).values().cloned().collect();
        for peer in &peers {
            let _ = peer.send(&Frame::Bye {});
        }
        point("leave/bye");
        // Before this node is gone: whoever notices it first looks whether it keeps anything. And after that, for what came last.
        self.tell_what_is_kept();
        self.table.set_gone(self.number, !is_in_order);
        self.heap.close();
        self.tell_what_is_kept();
        leave_by(&lock(&self.broker));
        self.poke();
        if let Some(thread) = lock(&self.thread).take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        for peer in &peers {
            peer.set_gone(false);
        }
        lock(&self.peers).clear();
        lock(&self.hosted).take();
        lock(&self.listener).take();
    }

    /// Buffers of others that this process holds stay theirs until it ends.
    fn tell_what_is_kept(&self) {
        let heaps = read(&self.heaps);
        if heaps.values().any(|heap| heap.owner() != self.number && heap.held() > 0) {
            self.table.set_keeps(self.seat);
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The error of calls that depend on `node`, which died.
pub(crate) fn lost(node: NodeId, doing: &str) -> Error {
    Error::new(ErrorKind::PeerLost, doing.to_string()).with_peer(node)
}

pub(crate) fn left() -> Error {
    Error::new(ErrorKind::NotInitialized, "this node has left the job").with_remedy("join again")
}

fn cancelled(doing: &str) -> Error {
    Error::new(ErrorKind::Cancelled, doing.to_string())
}

/// True if the process is stopped by a signal or a debugger, as `/proc` tells.
fn is_stopped(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The name in parentheses may hold anything, so the state is looked for behind the last one.
    matches!(stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next()), Some('T' | 't'))
}

/// What the broker told in its welcome.
struct Welcomed {
    number: NodeId,
    seat: Seat,
    broker_node: u64,
    table: Table,
    /// The socket that a job joined by name listens on.
    listener: Option<fork::ParentOnly>,
}

/// A process that has come into its job.
struct Entered {
    socket: Arc<Socket>,
    /// The broker, if it has to live here.
    hosted: Option<Broker>,
    /// The job's name, if it is joined by name.
    job: Option<String>,
    welcomed: Welcomed,
}

/// Tells the broker that this process leaves.
fn leave_by(broker: &Socket) {
    let _ = broker.send(&Frame::Leave { process: process::own_word() }, None);
}

/// Comes to a broker and joins.
fn enter(door: Door, fences: u64, deadline: Deadline) -> Result<Entered> {
    let is_by_name = matches!(door, Door::Named(_));
    let join = |fd: OwnedFd, retries: u64| {
        let socket = Arc::new(Socket::new(fd));
        socket.send(
            &Frame::Join { process: process::own_word(), network: namespace::network(), fences, retries },
            None,
        )?;
        let mut was_seated = false;
        let welcomed = welcome(&socket, deadline, &mut was_seated).inspect_err(|_| {
            // A broker that has its hands full may still seat this process, which is not there any more; through an invitation it may come
            // again, and is welcome then.
            if is_by_name || was_seated {
                leave_by(&socket);
            }
        })?;
        Ok((socket, welcomed))
    };
    match door {
        Door::Alone => {
            let broker = Broker::start("", 1)?;
            let (socket, welcomed) = join(broker.invite()?, 0)?;
            Ok(Entered { socket, hosted: Some(broker), job: None, welcomed })
        }
        Door::Invited(fd) => {
            join(fd, 0).map(|(socket, welcomed)| Entered { socket, hosted: None, job: None, welcomed })
        }
        Door::Named(job) => {
            let mut retries = 0;
            loop {
                if let Some(listener) = rendezvous::listen(&job)? {
                    // This node first: whoever comes next is told where the broker lives.
                    let broker = Broker::open(Table::create(&job, 1)?)?;
                    let (socket, welcomed) = join(broker.invite()?, 0)?;
                    broker.listen(welcomed.number, listener, false)?;
                    return Ok(Entered { socket, hosted: Some(broker), job: Some(job), welcomed });
                }
                if let Some(fd) = rendezvous::connect(&job)? {
                    match join(fd, retries) {
                        Ok((socket, welcomed)) => {
                            return Ok(Entered { socket, hosted: None, job: Some(job), welcomed });
                        }
                        // The node that the broker lived in died just now; another takes over.
                        Err(error) if error.kind() == ErrorKind::PeerLost => retries += 1,
                        Err(error) => return Err(error),
                    }
                }
                if deadline.has_passed() {
                    return Err(Error::new(
                        ErrorKind::Timeout,
                        format!("joining job {job}: its broker does not answer"),
                    ));
                }
                // Somebody holds the name and does not listen yet, or any more: a moment of a few instructions.
                deck_sync::atomic::yield_now();
            }
        }
    }
}

/// Waits for the broker's welcome; `was_seated` tells that it has come, and something was wrong with it.
fn welcome(socket: &Socket, deadline: Deadline, was_seated: &mut bool) -> Result<Welcomed> {
    let mut listener = None;
    loop {
        match socket.receive() {
            Received::Frame(Frame::Listener {}, fd) => {
                listener = fd.map(fork::ParentOnly::new);
                continue;
            }
            Received::Frame(Frame::Welcome { number, seat, broker }, fd) => {
                *was_seated = true;
                let no_descriptor = || {
                    let what = "joining: this process has no descriptor left for the job's table";
                    Error::new(ErrorKind::NoMemory, what)
                        .with_remedy("raise its limit (ulimit -n), or let it close files")
                };
                let table = Table::adopt(fd.ok_or_else(no_descriptor)?)?;
                let known = u32::try_from(number).ok().zip(u16::try_from(seat).ok());
                let known = known.filter(|(_, seat)| usize::from(*seat) < Seat::COUNT);
                let (number, seat) = known.ok_or_else(|| Error::new(ErrorKind::Corrupt, "the broker's welcome"))?;
                let (number, seat) = (NodeId(number), Seat(seat));
                if table.process_of(number) != Some(process::own_word()) {
                    // Of somebody who had come through the same invitation, and died before reading it.
                    *was_seated = false;
                    continue;
                }
                return Ok(Welcomed { number, seat, broker_node: broker, table, listener });
            }
            Received::Frame(Frame::Refuse { reason }, _) => return Err(Refused::from_word(reason).of_a_join()),
            // Told to whoever had this place in the job before.
            Received::Frame(..) => continue,
            Received::Nothing => {}
            Received::End => {
                return Err(Error::new(ErrorKind::PeerLost, "the broker closed the connection while joining")
                    .with_remedy("start the job again"));
            }
            Received::Nonsense => {
                return Err(Error::new(ErrorKind::Corrupt, "the broker speaks another version of DECK")
                    .with_remedy("use the same version of DECK for all nodes and for deck run"));
            }
        }
        let left = deadline.remaining();
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Error::new(ErrorKind::Timeout, "joining: the broker does not answer"));
        }
        let timeout = left.map(|left| rustix::event::Timespec {
            tv_sec: left.as_secs().min(1 << 30) as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        let mut fds = [rustix::event::PollFd::new(socket, rustix::event::PollFlags::IN)];
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
    }
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Membership({} of job {:?})", self.number, self.table.job())
    }
}
