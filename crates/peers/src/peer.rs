//! Another node of the job, as this one knows it.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use deck_segment::{HeapMemory, Seat, Unheld};
use deck_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use deck_sync::locks::lock;
use deck_sync::{Error, ErrorKind, Event, NodeId, Result, now_ns};

use crate::socket::Socket;
use crate::table::NodeState;
use crate::wire::Frame;

/// A control thread that has not answered for this long is frozen.
pub const FROZEN_AFTER: Duration = Duration::from_millis(300);

const MEETING: u32 = 0;
const CONNECTED: u32 = 1;
const LEFT: u32 = 2;
const LOST: u32 = 3;

/// A node that this one has met or is about to meet.
#[derive(Debug)]
pub struct Peer {
    number: NodeId,
    seat: Seat,
    state: AtomicU32,
    /// The broker was asked to introduce the two, and has not said that it could not.
    is_asked_for: AtomicBool,
    socket: OnceLock<Socket>,
    heap: OnceLock<Arc<HeapMemory>>,
    process: OnceLock<OwnedFd>,
    /// Notified with every change of `state`.
    changed: Event,
    /// Waits that depend on this node.
    depended: AtomicU32,
    /// When the oldest ping without an answer was sent; 0 if there is none.
    asked_ns: AtomicU64,
    has_said_bye: AtomicBool,
    /// Nodes whose heaps this peer was told of, with the views in which buffers for it lie: one, but for what other
    /// nodes of this process have made or retrieved.
    introduced: Mutex<HashMap<NodeId, Vec<Weak<HeapMemory>>>>,
}

impl Peer {
    pub(crate) fn new(number: NodeId, seat: Seat) -> Arc<Peer> {
        Arc::new(Peer {
            number,
            seat,
            state: AtomicU32::new(MEETING),
            is_asked_for: AtomicBool::new(false),
            socket: OnceLock::new(),
            heap: OnceLock::new(),
            process: OnceLock::new(),
            changed: Event::new(),
            depended: AtomicU32::new(0),
            asked_ns: AtomicU64::new(0),
            has_said_bye: AtomicBool::new(false),
            introduced: Mutex::new(HashMap::new()),
        })
    }

    /// Its number.
    pub fn number(&self) -> NodeId {
        self.number
    }

    /// True for the one who is to ask for an introduction: each costs the broker two descriptors until both nodes have
    /// read it, and one of them may be stopped. Relaxed: of two that are asked for at once both nodes keep the first.
    pub(crate) fn begin_asking(&self) -> bool {
        !self.is_asked_for.swap(true, Ordering::Relaxed)
    }

    /// It could not be introduced: whoever wants to meet it asks again.
    pub(crate) fn was_not_introduced(&self) {
        self.is_asked_for.store(false, Ordering::Relaxed);
        self.changed.notify();
    }

    /// Whether an introduction is on its way.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.is_asked_for.load(Ordering::Relaxed)
    }

    /// Its seat.
    pub fn seat(&self) -> Seat {
        self.seat
    }

    /// Its heap, once the two have met.
    pub fn heap(&self) -> Option<&Arc<HeapMemory>> {
        self.heap.get()
    }

    /// As [`Peer::heap`].
    ///
    /// # Errors
    /// [`ErrorKind::PeerLost`] if it was lost before they had.
    pub fn met_heap(&self) -> Result<&Arc<HeapMemory>> {
        self.heap().ok_or_else(|| {
            Error::new(ErrorKind::PeerLost, format!("mapping the memory of {}", self.number)).with_peer(self.number)
        })
    }

    /// False if it has one already.
    pub(crate) fn set_heap(&self, heap: Arc<HeapMemory>) -> bool {
        self.heap.set(heap).is_ok()
    }

    pub(crate) fn socket(&self) -> Option<&Socket> {
        self.socket.get()
    }

    /// False if it has one already.
    pub(crate) fn set_socket(&self, socket: Socket) -> bool {
        self.socket.set(socket).is_ok()
    }

    pub(crate) fn set_process(&self, process: OwnedFd) -> Option<&OwnedFd> {
        self.process.set(process).ok()?;
        self.process.get()
    }

    pub(crate) fn process(&self) -> Option<&OwnedFd> {
        self.process.get()
    }

    /// Notified when the peer is met or gone.
    pub fn changed(&self) -> &Event {
        &self.changed
    }

    /// True once segments were exchanged, until the peer is gone.
    pub fn is_connected(&self) -> bool {
        // Acquire: pairs with: peer/state.
        self.state.load(Ordering::Acquire) == CONNECTED
    }

    /// `Left` or `Lost` once this node knows that the peer is gone.
    pub fn gone(&self) -> Option<NodeState> {
        // Acquire: pairs with: peer/state.
        match self.state.load(Ordering::Acquire) {
            LEFT => Some(NodeState::Left),
            LOST => Some(NodeState::Lost),
            _ => None,
        }
    }

    pub(crate) fn set_connected(&self) {
        // AcqRel: pairs with: peer/state. The heap is set before.
        let _ = self.state.compare_exchange(MEETING, CONNECTED, Ordering::AcqRel, Ordering::Acquire);
        self.changed.notify();
    }

    /// True if this call was the first to tell.
    pub(crate) fn set_gone(&self, is_lost: bool) -> bool {
        let gone = if is_lost { LOST } else { LEFT };
        // AcqRel: pairs with: peer/state.
        let is_first = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| (state <= CONNECTED).then_some(gone))
            .is_ok();
        self.changed.notify();
        is_first
    }

    pub(crate) fn set_said_bye(&self) {
        self.has_said_bye.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_said_bye(&self) -> bool {
        self.has_said_bye.load(Ordering::Relaxed)
    }

    /// Sends a frame to its control thread. Never blocks.
    pub(crate) fn send(&self, frame: &Frame) -> Result<()> {
        self.say(frame, None)
    }

    /// Sends a frame with a descriptor. Never blocks.
    pub(crate) fn pass(&self, frame: &Frame, passed: BorrowedFd<'_>) -> Result<()> {
        self.say(frame, Some(passed))
    }

    fn say(&self, frame: &Frame, passed: Option<BorrowedFd<'_>>) -> Result<()> {
        let never_met = || Error::new(ErrorKind::PeerLost, "it was never met");
        let sent = self.socket().ok_or_else(never_met).and_then(|socket| socket.send(frame, passed));
        sent.map_err(|error| error.with_peer(self.number))
    }

    /// Sends what waits; true while heaps of messages that were posted still do.
    pub(crate) fn owes_heaps(&self) -> bool {
        let is_heap = |frame: &Frame| matches!(frame, Frame::Heap { .. });
        self.gone().is_none() && self.socket().is_some_and(Socket::send_waiting) && self.waiting(is_heap) > 0
    }

    /// How many such frames wait to be sent to it.
    pub(crate) fn waiting(&self, is_it: impl Fn(&Frame) -> bool) -> usize {
        self.socket().map_or(0, |socket| socket.waiting(is_it))
    }

    /// True if frames wait to be sent to it.
    pub(crate) fn is_backed_up(&self) -> bool {
        self.socket().is_some_and(Socket::is_backed_up)
    }

    /// Makes sure that this peer can find the buffers of `heap`, which will be named in a message to it; true if it was
    /// not told of this view before. One way: the frame is on its way before the message is.
    pub(crate) fn introduce(&self, heap: &Arc<HeapMemory>) -> Result<bool> {
        let mut introduced = lock(&self.introduced);
        match introduced.get_mut(&heap.owner()) {
            Some(views) if views.iter().any(|view| std::ptr::eq(view.as_ptr(), &**heap)) => return Ok(false),
            Some(views) => views.push(Arc::downgrade(heap)),
            None => {
                self.pass_third(heap)?;
                introduced.insert(heap.owner(), vec![Arc::downgrade(heap)]);
            }
        }
        Ok(true)
    }

    /// The peer had no room for the heap of `owner` and asks for it again: not for one that is not introduced any more,
    /// as it would keep that.
    pub(crate) fn introduce_again(&self, owner: NodeId) {
        let introduced = lock(&self.introduced);
        let heap = introduced.get(&owner).and_then(|views| views.iter().find_map(Weak::upgrade));
        let _ = heap.map(|heap| self.pass_third(&heap));
    }

    fn pass_third(&self, heap: &Arc<HeapMemory>) -> Result<()> {
        let frame = Frame::Heap { number: u64::from(heap.owner().0), seat: u64::from(heap.seat().0) };
        self.pass(&frame, heap.segment().as_fd())
    }

    /// Has the peer forget heaps of which this node holds no buffer any more, posted ones included. Whoever comes to
    /// hold one introduces it anew. For the others `watcher` is told when that is so.
    pub(crate) fn release_heaps(&self, is_gone: impl Fn(NodeId) -> bool, watcher: &Weak<dyn Unheld>) {
        lock(&self.introduced).retain(|owner, views| {
            if !is_gone(*owner) {
                return true;
            }
            views.retain(|view| view.upgrade().is_some_and(|heap| heap.watch_held(watcher)));
            if !views.is_empty() {
                return true;
            }
            let released = u64::from(owner.0);
            if let Some(socket) = self.socket() {
                // The peer may be stopped, and many come whose messages find no room there: each would cost a
                // descriptor.
                socket.take_back(|frame| matches!(frame, Frame::Heap { number, .. } if *number == released));
            }
            let _ = self.send(&Frame::HeapRelease { number: released });
            false
        });
    }

    /// A wait depends on this peer while the guard lives: its control thread is asked for signs of life.
    pub(crate) fn depend(self: &Arc<Self>) -> Depending {
        self.depended.fetch_add(1, Ordering::Relaxed);
        Depending(self.clone())
    }

    pub(crate) fn is_depended_on(&self) -> bool {
        self.depended.load(Ordering::Relaxed) > 0
    }

    /// Asks for a sign of life, unless a question is open.
    pub(crate) fn ask(&self) {
        let now = now_ns();
        if self.asked_ns.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            && self.send(&Frame::Ping { count: now }).is_err()
        {
            self.asked_ns.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn answered(&self) {
        self.asked_ns.store(0, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn has_open_question(&self) -> bool {
        self.asked_ns.load(Ordering::Relaxed) != 0
    }

    /// For how long its control thread has not answered, if that is long enough to call it frozen.
    pub fn frozen_for(&self) -> Option<Duration> {
        match self.asked_ns.load(Ordering::Relaxed) {
            0 => None,
            asked => {
                Some(Duration::from_nanos(now_ns().saturating_sub(asked))).filter(|silent| *silent >= FROZEN_AFTER)
            }
        }
    }
}

/// Keeps asking a peer for signs of life while it lives.
#[derive(Debug)]
pub struct Depending(Arc<Peer>);

impl Drop for Depending {
    fn drop(&mut self) {
        self.0.depended.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use deck_segment::HeapOptions;

    use super::*;
    use crate::socket::{self, Received};

    struct Nobody;

    impl Unheld for Nobody {
        fn unheld(&self) {}
    }

    #[test]
    fn heaps_that_came_and_went_while_a_peer_was_stopped_cost_no_descriptors_there_or_here() {
        let (ours, theirs) = socket::pair().unwrap();
        let (peer, theirs) = (Peer::new(NodeId(1), Seat(1)), Socket::new(theirs));
        peer.set_socket(Socket::new(ours));
        let heap = |number: u32| {
            let options = HeapOptions::of(deck_segment::default_bytes());
            HeapMemory::create(NodeId(number), Seat(number as u16), &options).unwrap()
        };
        let nobody: Weak<Nobody> = Weak::new();
        let nobody: Weak<dyn Unheld> = nobody;
        let early = heap(2);
        assert!(peer.introduce(&early).unwrap() && !peer.introduce(&early).unwrap());
        while !peer.socket().unwrap().is_backed_up() {
            peer.send(&Frame::Bye {}).unwrap();
        }
        for _ in 0..3 {
            let late = heap(3);
            let held = late.allocate(100).unwrap();
            peer.introduce(&late).unwrap();
            assert!(peer.owes_heaps());
            peer.release_heaps(|owner| owner == late.owner(), &nobody);
            assert!(!peer.introduce(&late).unwrap(), "it is held");
            drop(held);
            peer.release_heaps(|owner| owner == late.owner(), &nobody);
        }
        assert!(!peer.owes_heaps(), "they were taken back");
        peer.release_heaps(|_| true, &nobody);
        let mut told = Vec::new();
        while let Received::Frame(frame, passed) = theirs.receive() {
            if frame != (Frame::Bye {}) {
                told.push((frame, passed.is_some()));
            }
            peer.socket().unwrap().send_waiting();
        }
        let released = |number| (Frame::HeapRelease { number }, false);
        assert_eq!(told, [(Frame::Heap { number: 2, seat: 2 }, true), released(3), released(2)]);
    }
}
