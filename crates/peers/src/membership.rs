//! One node's place in a job.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};
use std::time::Duration;

use deck_segment::{HeapMemory, HeapOptions, Seat, Unheld};
use deck_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use deck_sync::locks::{lock, read, write};
use deck_sync::{
    About, Crowd, Deadline, Error, ErrorKind, Goal, Interrupted, NodeId, Result, Running, Service, Waiting, barrier,
    point,
};

use crate::broker::Broker;
use crate::control::Control;
use crate::crowd::JobCrowd;
use crate::heaps::Heaps;
use crate::invitation::Invitation;
use crate::names::objects::Objects;
use crate::names::opening::Opened;
use crate::names::{MailboxId, Names};
use crate::notices::Notices;
use crate::peer::Peer;
use crate::pledges::Pledges;
use crate::process::{self, parent_only::ParentOnly};
use crate::shares::Shares;
use crate::socket::Socket;
use crate::strangers::Wanted;
use crate::table::{NodeState, Table};
use crate::wakeup;
use crate::wire::{Frame, Refusal};

mod entering;
mod leaving;
mod ring_requests;

pub use entering::Door;
pub use ring_requests::{Asked, Granted};

use entering::{Entered, Welcomed, enter, leave_by};
use ring_requests::RingRequests;

/// What the layer above makes of requests and deaths. Called on the control thread: must not block.
pub trait Handler: Send + Sync {
    /// `peer` has cloned a mail box and asks for a ring; its credit line is at `credit` in its segment.
    fn ring_requested(&self, peer: &Arc<Peer>, mailbox: u32, generation: u32, credit: u64) -> Result<Granted, Refusal>;
    /// The owner has closed the mail box behind `ring`. Returns the position behind the last message that was posted;
    /// nothing is written there any more.
    fn ring_closed(&self, owner: NodeId, ring: u64) -> u32;
    /// `owner` has refused a ring that was asked for: whoever waits for it knows, but maybe nobody does any more.
    fn ring_refused(&self, owner: NodeId);
    /// Threads of the poster wait for room in `ring`: what was retrieved and not told is told now.
    fn room_wanted(&self, poster: NodeId, ring: u64);
    /// The poster has ended `ring`; nothing behind `tail` was ever posted.
    fn ring_ended(&self, poster: NodeId, ring: u64, tail: u32);
    /// A node is gone, whether this one ever met it or not. Told once.
    fn node_gone(&self, node: NodeId, is_lost: bool);
    /// A peer is gone. Before this returns, everything that it had posted here must be taken over.
    fn peer_gone(&self, peer: NodeId, is_lost: bool);
    /// A heap has become known that messages may have waited for, or will not soon: whoever waits for messages looks
    /// again.
    fn heap_introduced(&self);
    /// The heap of `owner`, which is gone, will be forgotten: what is posted here and lies in it must be taken over.
    fn heap_forgotten(&self, owner: NodeId);
    /// Time for small duties; true if there will be more soon.
    fn tick(&self) -> bool;
    /// The others have given this node up: it has no part in its job any more, and leaves.
    fn cut_off(&self);
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
    pub(crate) heaps: RwLock<Heaps>,
    pub(crate) ring_requests: RingRequests,
    pub(crate) broker: Mutex<Arc<Socket>>,
    /// The node that the broker lives in, or `NO_NODE`.
    pub(crate) broker_node: AtomicU64,
    /// The broker, if it lives here.
    pub(crate) hosted: Mutex<Option<Broker>>,
    /// The socket that a job joined by name listens on.
    pub(crate) listener: Mutex<Option<ParentOnly>>,
    pub(crate) wake: OwnedFd,
    handler: OnceLock<Weak<dyn Handler>>,
    pub(crate) has_left: AtomicBool,
    has_said_bye: AtomicBool,
    control: Mutex<Option<Running>>,
    /// Until it has left.
    invitation: Mutex<Option<Invitation>>,
    after_leaving: OnceLock<fn()>,
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
    /// [`ErrorKind::Timeout`] if the broker does not answer, [`ErrorKind::Invalid`] while another node of this process
    /// that came through the same door has not left, [`ErrorKind::NotInitialized`] in a forked child.
    pub fn join(door: Door, heap_options: &HeapOptions, deadline: Deadline) -> Result<Arc<Membership>> {
        if deck_sync::fork::is_child() {
            return Err(Error::new(ErrorKind::NotInitialized, "joining from a forked child")
                .with_remedy("execute a program in the child; it can join"));
        }
        let mut invitation = match &door {
            Door::Invited(socket) => Some(Invitation::take(socket)?),
            Door::Alone | Door::Named(_) => None,
        };
        let needs_fences = !barrier::register();
        let wake = wakeup::new()?;
        let Entered { socket, hosted, job, welcomed } = enter(door, u64::from(needs_fences), deadline)?;
        if let Some(invitation) = &mut invitation {
            invitation.claim(&socket);
        }
        let Welcomed { number, seat, broker_node, table, listener } = welcomed;
        point("join/welcomed");
        if table.needs_fences() {
            barrier::use_real_fences();
        }
        let broker_node = if hosted.is_some() { u64::from(number.0) } else { broker_node };
        // A broker that has died meanwhile cannot be told; the next one reads it in the table.
        let leave = |_: &Error| {
            table.set_gone(number, false);
            leave_by(&socket);
        };
        let heap = HeapMemory::create(number, seat, heap_options).inspect_err(leave)?;
        let notices = Notices::create(number, table.segment(), heap.segment()).inspect_err(leave)?;
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
            shares: Shares::new(heap_options.huge_pages),
            table,
            heaps: RwLock::new(Heaps::with(&heap)),
            heap,
            crowd,
            notices,
            job,
            peers: Mutex::new(BTreeMap::new()),
            ring_requests: RingRequests::default(),
            broker: Mutex::new(socket),
            broker_node: AtomicU64::new(broker_node),
            hosted: Mutex::new(hosted),
            listener: Mutex::new(listener),
            wake,
            handler: OnceLock::new(),
            has_left: AtomicBool::new(false),
            has_said_bye: AtomicBool::new(false),
            control: Mutex::new(None),
            invitation: Mutex::new(invitation),
            after_leaving: OnceLock::new(),
        }))
    }

    /// Starts the control thread, which tells `handler` what happens.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if there is no thread to be had.
    pub fn start(self: &Arc<Self>, handler: Weak<dyn Handler>) -> Result<()> {
        let _ = self.handler.set(handler);
        let control = Control::new(self)?;
        *lock(&self.control) = Some(Service::Control.start(move || control.run())?);
        Ok(())
    }

    /// Once this node has left, `sweep` lets go of what the process keeps for it elsewhere. Only the first call counts.
    pub fn after_leaving(&self, sweep: fn()) {
        let _ = self.after_leaving.set(sweep);
    }

    pub(crate) fn handler(&self) -> Option<Arc<dyn Handler>> {
        self.handler.get().and_then(Weak::upgrade)
    }

    /// The connection to the broker; another one once another broker has been found.
    pub(crate) fn broker(&self) -> Arc<Socket> {
        lock(&self.broker).clone()
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
        read(&self.heaps).find(owner)
    }

    /// Why this process has had no room for the heap of `owner` for so long that nobody should wait for it, if that is
    /// so.
    pub fn lacking_heap(&self, owner: NodeId) -> Option<Error> {
        read(&self.heaps).lacking(owner)
    }

    /// Makes sure that this node itself can find the buffers of `heap`, which will be named in a message to one of its
    /// own mail boxes: another node of this process may have made it that was never met, or received it. In this very
    /// view, which is in use until the message is retrieved: one that is found now may end before.
    pub fn introduce_here(&self, heap: &Arc<HeapMemory>) {
        if !read(&self.heaps).has(heap) {
            write(&self.heaps).lend(heap);
        }
    }

    /// Makes sure that `peer` can find the buffers of `heap`, which will be named in a message to it. Never blocks.
    ///
    /// # Errors
    /// [`ErrorKind::System`] naming the peer: it does not read now, and there is no descriptor for the heap to wait
    /// with. That it is gone is told by the ring.
    pub fn introduce_heap(&self, peer: &Peer, heap: &Arc<HeapMemory>) -> Result<()> {
        if peer.number() == self.number || [self.number, peer.number()].contains(&heap.owner()) {
            return Ok(());
        }
        let is_new = match peer.introduce(heap) {
            Err(error) if error.kind() == ErrorKind::PeerLost => return Ok(()),
            introduced => introduced?,
        };
        // Whom the owner's end was told of before is looked at by nobody when the heap is needed no more.
        if is_new && (peer.is_backed_up() || !self.table.is_live(heap.owner())) {
            self.poke();
        }
        Ok(())
    }

    /// To be said after a frame to `peer` by threads that will not wait for what comes of it: if it could not be sent,
    /// the control thread has to be awake to try again.
    pub(crate) fn see_it_sent(&self, peer: &Peer) {
        if peer.is_backed_up() {
            self.poke();
        }
    }

    /// Has peers forget the heaps of nodes that are gone, as far as nothing that lies there will come from here.
    pub(crate) fn release_heaps(self: &Arc<Self>) {
        let peers: Vec<Arc<Peer>> = lock(&self.peers).values().cloned().collect();
        let weak: Weak<Membership> = Arc::downgrade(self);
        let watcher: Weak<dyn Unheld> = weak;
        for peer in peers {
            peer.release_heaps(|owner| !self.table.is_live(owner), &watcher);
        }
    }

    /// Wakes the control thread for its small duties.
    pub fn poke(&self) {
        wakeup::ring(&self.wake);
    }

    /// Claims a name for a mail box of this node. If another node stopped while it entered the same name or gave an
    /// entry to another name, blocks until `deadline`, and for some seconds at most.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] naming the owner, [`ErrorKind::Timeout`] naming the node that is stopped,
    /// [`ErrorKind::Invalid`], [`ErrorKind::NoMemory`].
    pub fn claim_name(&self, name: &str, mailbox: MailboxId, deadline: Deadline) -> Result<()> {
        // Only while this node counts as live nobody else is where it is.
        let _pledge = self.pledge().ok_or_else(left)?;
        self.names.claim(name, mailbox, self.seat, crate::names::patience(deadline))
    }

    /// Lets go of a name. Free on return.
    pub fn release_name(&self, name: &str, mailbox: MailboxId) {
        self.names.release(name, mailbox);
    }

    /// Who owns `name`; waits until somebody does.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`], [`ErrorKind::Cancelled`], [`ErrorKind::Invalid`], [`ErrorKind::Closed`] when this node
    /// leaves the job meanwhile.
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
            Err(interrupted @ Interrupted::Cancelled) => {
                Err(interrupted.error(format!("waiting for mail box {name:?}")))
            }
            Err(Interrupted::Deadline) => {
                Err(Error::new(ErrorKind::Timeout, format!("waiting for somebody to create mail box {name:?}"))
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
        match &peer {
            Some(peer) => {
                peer.ask();
                self.see_it_sent(peer);
            }
            // Whoever only asks, again and again, is told also while the broker is stopped.
            None => self.watch_strangers(),
        }
        let is_silent = peer.is_some_and(|peer| peer.frozen_for().is_some());
        let is_stopped = || self.table.pid_here(node).is_some_and(process::is_stopped);
        Some(if is_silent || is_stopped() { NodeState::Frozen } else { NodeState::Live })
    }

    /// The error of a wait on `peer` that ended early: says if the peer is frozen, and for how long.
    pub fn interrupted(&self, interrupted: Interrupted, doing: &str, peer: &Peer) -> Error {
        let silent = if interrupted == Interrupted::Deadline { self.frozen_for(peer) } else { None };
        match silent {
            Some(silent) => {
                let silent = silent.as_secs_f64();
                let silence = if silent < 0.1 { String::new() } else { format!(": no sign of life for {silent:.1} s") };
                let doing = format!("{doing}; {} is frozen{silence}", peer.number());
                interrupted.error(doing).with_remedy("it loses nothing: let it continue (kill -CONT), or end it")
            }
            None => interrupted.error(doing),
        }
        .with_peer(peer.number())
    }

    /// For how long `peer` has been frozen, if it is.
    pub fn frozen_for(&self, peer: &Peer) -> Option<Duration> {
        peer.frozen_for()
            .or_else(|| self.table.pid_here(peer.number()).is_some_and(process::is_stopped).then_some(Duration::ZERO))
    }

    /// The owner of a mail box tells a poster to post no more. False if the poster is gone: of one that goes later the
    /// handler is told.
    pub fn close_ring(&self, poster: NodeId, ring: u64) -> bool {
        let peer = lock(&self.peers).get(&poster).cloned();
        let Some(peer) = peer else { return false };
        let _ = peer.send(&Frame::RingClose { ring });
        self.see_it_sent(&peer);
        peer.gone().is_none()
    }

    /// A poster tells the owner of a mail box that it waits for room in `ring`.
    pub fn want_room(&self, owner: NodeId, ring: u64) {
        let peer = lock(&self.peers).get(&owner).cloned();
        if let Some(peer) = peer {
            let _ = peer.send(&Frame::RoomWanted { ring });
            self.see_it_sent(&peer);
        }
    }
}

/// A heap that was passed to others is needed no more, most likely. Not at once: more of its messages may be on their
/// way.
impl Unheld for Membership {
    fn unheld(&self) {
        self.poke();
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

/// The error of calls of a node that has left.
#[cold]
pub fn left() -> Error {
    Error::new(ErrorKind::NotInitialized, "this node has left its job").with_remedy("join again")
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Membership({} of job {:?})", self.number, self.table.job())
    }
}
