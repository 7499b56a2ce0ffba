//! The control thread of a node: asleep until another node wants something or is gone.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use deck_segment::Seat;
use deck_sync::atomic::Ordering;
use deck_sync::locks::lock;
use deck_sync::{Deadline, NodeId, Result};

use crate::membership::Membership;
use crate::peer::Peer;
use crate::poll::Poll;
use crate::process::parent_only::ParentOnly;
use crate::socket::{LAST_WORDS, Received, Socket, TURN};
use crate::strangers::Strangers;
use crate::wakeup;
use crate::wire::Frame;

mod heaps;
mod peers;
mod take_over;
#[cfg(test)]
mod tests;

use heaps::pass_heap;

const WAKE: u64 = 0;
const BROKER: u64 = 1;
/// Added to a node's number: the connection to it, and its process, whether it was met or not.
const PEER: u64 = 1 << 32;
const PROCESS: u64 = 1 << 33;

/// How often a peer on which waits depend is asked for a sign of life.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// First and longest time between two ticks while the handler has small duties.
const TICK_FIRST: Duration = Duration::from_millis(20);
const TICK_LAST: Duration = Duration::from_secs(1);
/// How often a node looks for the new broker, and how long the new broker waits for all to come.
const LOOK_FOR_BROKER: Duration = Duration::from_millis(5);
const TAKE_STOCK_AFTER: Duration = Duration::from_millis(500);

pub struct Control {
    membership: Weak<Membership>,
    poll: Poll,
    /// Time between two ticks and when the next one is due, `None` while there are no duties.
    tick: Option<(Duration, Deadline)>,
    /// When those on which waits depend are asked for the next sign of life.
    ask_peers_at: Deadline,
    /// The broker is gone and the new one has not answered.
    is_orphan: bool,
    /// Since when this node waits for the answer of whoever takes over.
    asked_at: Option<Instant>,
    /// It answered that it has no room for this node now, and when it is asked again.
    is_refused: bool,
    ask_broker_at: Deadline,
    /// How often this node has come to a new broker.
    attempts: u64,
    take_stock_at: Option<Deadline>,
    strangers: Strangers,
    /// Who has passed whose heap that this process had no room for, and when they are asked to pass it again.
    missing: BTreeSet<(NodeId, NodeId)>,
    ask_at: Deadline,
    /// What peers have asked for whose own heap is missing.
    put_off: Vec<(NodeId, Frame)>,
    /// Nodes whose end the handler was told of.
    told_gone: BTreeSet<NodeId>,
}

impl Control {
    pub fn new(membership: &Arc<Membership>) -> Result<Control> {
        let control = Control {
            membership: Arc::downgrade(membership),
            poll: Poll::new()?,
            tick: None,
            ask_peers_at: Deadline::NOW,
            is_orphan: false,
            asked_at: None,
            is_refused: false,
            ask_broker_at: Deadline::NOW,
            attempts: 0,
            take_stock_at: None,
            strangers: Strangers::default(),
            missing: BTreeSet::new(),
            ask_at: Deadline::NEVER,
            put_off: Vec::new(),
            told_gone: BTreeSet::new(),
        };
        control.poll.watch(&membership.wake, WAKE)?;
        control.poll.watch(membership.broker(), BROKER)?;
        Ok(control)
    }

    /// Runs until the node has left.
    pub fn run(mut self) {
        let has_left = matches!(catch_unwind(AssertUnwindSafe(|| self.serve())), Ok(true));
        if !has_left && let Some(membership) = self.membership.upgrade() {
            // Nothing is said to anybody, but nobody is to wait for a node that does not hear.
            membership.begin_leaving();
            membership.table.set_gone(membership.number, true);
        }
    }

    /// Until the node has left: true then. False if the program has closed descriptors that are not its own, and may
    /// have others of their numbers by now.
    fn serve(&mut self) -> bool {
        let mut keys = Vec::new();
        let mut timeout = None;
        loop {
            let waited = self.poll.wait(&mut keys, timeout);
            let Some(membership) = self.membership.upgrade() else { return true };
            if waited.is_err() {
                return false;
            }
            // SeqCst: pairs with: membership/leaving.
            if membership.has_left.load(Ordering::SeqCst) {
                return true;
            }
            let mut is_poked = false;
            for key in &keys {
                let node = NodeId(*key as u32);
                match *key {
                    WAKE => {
                        wakeup::hush(&membership.wake);
                        is_poked = true;
                    }
                    BROKER => self.serve_broker(&membership),
                    key if key & PEER != 0 => self.serve_peer(&membership, node, TURN),
                    _ => {
                        self.strangers.forget(node, &self.poll);
                        self.ended(&membership, node);
                    }
                }
            }
            // SeqCst: pairs with: membership/leaving. Once more: the poke of leaving may be the one that was just
            // hushed.
            if membership.has_left.load(Ordering::SeqCst) {
                return true;
            }
            timeout = self.duties(&membership, is_poked);
        }
    }

    /// Small duties; returns when to come again at the latest.
    fn duties(&mut self, membership: &Arc<Membership>, is_poked: bool) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        let mut at_latest = |time: Duration| next = Some(next.map_or(time, |next| next.min(time)));
        let peers: Vec<Arc<Peer>> = lock(&membership.peers).values().cloned().collect();
        // An answer wakes this thread too, which is no reason to ask again at once.
        let is_time_to_ask = self.ask_peers_at.has_passed();
        for peer in &peers {
            if peer.is_depended_on() && peer.gone().is_none() && peer.socket().is_some() {
                if is_time_to_ask {
                    peer.ask();
                    self.ask_peers_at = Deadline::after(ASK_EVERY);
                }
                at_latest(self.ask_peers_at.remaining().unwrap_or(ASK_EVERY).max(Duration::from_millis(1)));
            }
        }
        if is_poked && self.tick.is_none_or(|(every, _)| every > TICK_FIRST) {
            // Not at once: what is wanted is that it does not stay for ever, and the threads it takes its time from are
            // at work.
            self.tick = Some((TICK_FIRST, Deadline::after(TICK_FIRST)));
        }
        if let Some((every, due)) = self.tick {
            if due.has_passed() {
                let has_more = membership.handler().is_some_and(|handler| handler.tick());
                // Much of what was in flight has come back by now, if it has been retrieved.
                membership.release_heaps();
                let next_time = (every * 2).min(TICK_LAST);
                self.tick = has_more.then(|| (next_time, Deadline::after(next_time)));
            }
            if let Some(left) = self.tick.and_then(|(_, due)| due.remaining()) {
                at_latest(left.max(Duration::from_millis(1)));
            }
        }
        if let Some(left) = self.ask_for_the_missing(membership) {
            at_latest(left);
        }
        if let Some(left) = membership.shares.forget_what_is_left() {
            at_latest(left);
        }
        for node in self.strangers.look(membership, &self.poll, PROCESS) {
            self.ended(membership, node);
        }
        if self.is_orphan && !membership.table.is_live(membership.number) {
            // Whoever took over had not heard of it for long, and it is not let in any more. Its own threads are to
            // learn that, and not to wait for ever.
            if let Some(handler) = membership.handler() {
                handler.cut_off();
            }
            return None;
        }
        if self.is_orphan && self.ask_broker_at.has_passed() {
            self.find_broker(membership);
        }
        if self.is_orphan {
            at_latest(self.ask_broker_at.remaining().unwrap_or(LOOK_FOR_BROKER).max(LOOK_FOR_BROKER));
        }
        if let Some(at) = self.take_stock_at {
            if at.has_passed() || self.everybody_has_come(membership) {
                self.take_stock_at = None;
                if let Some(broker) = &*lock(&membership.hosted) {
                    broker.take_stock();
                }
            } else {
                at_latest(LOOK_FOR_BROKER);
            }
        }
        // Last, and all of them: what was said just now may have to wait, too, and nobody tells when there is room for
        // it.
        let broker = membership.broker();
        let sockets = peers.iter().filter_map(|peer| peer.socket()).chain([&*broker]);
        if sockets.filter(|socket| socket.send_waiting()).count() > 0 {
            at_latest(TICK_FIRST);
        }
        next
    }

    fn serve_broker(&mut self, membership: &Arc<Membership>) {
        let broker = membership.broker();
        for _ in 0..TURN {
            match broker.receive() {
                Received::Nothing => return,
                Received::Nonsense => {}
                Received::Frame(frame, passed) => self.handle_broker(membership, &broker, frame, passed),
                Received::End => {
                    self.poll.forget(&broker);
                    if std::mem::take(&mut self.is_refused) {
                        // It lives, and has no descriptor for this node now: it is asked again.
                        (self.asked_at, self.ask_broker_at) = (None, Deadline::after(ASK_EVERY));
                        return;
                    }
                    // A broker hangs up on a node that leaves. SeqCst: pairs with: membership/leaving, which sets it
                    // before it says so to anybody.
                    if !membership.has_left.load(Ordering::SeqCst) {
                        self.broker_gone(membership);
                    }
                    return;
                }
            }
        }
    }

    fn handle_broker(&mut self, membership: &Arc<Membership>, broker: &Socket, frame: Frame, passed: Option<OwnedFd>) {
        match frame {
            Frame::Introduce { peer, seat } => {
                let known = u32::try_from(peer).ok().zip(u16::try_from(seat).ok());
                match (known.filter(|(_, seat)| usize::from(*seat) < Seat::COUNT), passed) {
                    (Some((peer, seat)), Some(fd)) => self.introduced(membership, NodeId(peer), Seat(seat), fd),
                    // This process has no descriptor for it now.
                    (Some((peer, _)), None) => {
                        heaps::lacks(membership, NodeId(peer), None);
                        was_not_introduced(membership, NodeId(peer));
                    }
                    _ => {}
                }
            }
            Frame::Listener {} => {
                // Without a descriptor for it what there is is as good.
                if let Some(listener) = passed {
                    let listener = Some(ParentOnly::new(listener));
                    *lock(&membership.listener) = listener;
                }
            }
            Frame::Refuse { .. } => self.is_refused = self.is_orphan,
            Frame::Rejoined { broker } => {
                membership.broker_node.store(broker, Ordering::Relaxed);
                (self.is_orphan, self.asked_at) = (false, None);
            }
            Frame::NotIntroduced { peer } => {
                if let Ok(peer) = u32::try_from(peer) {
                    was_not_introduced(membership, NodeId(peer));
                }
            }
            Frame::Gone { number } => {
                let Ok(node) = u32::try_from(number).map(NodeId) else { return };
                // What it said to us before comes first.
                self.serve_peer(membership, node, LAST_WORDS);
                self.peer_gone(membership, node);
                let _ = broker.send(&Frame::Adopted { number }, None);
            }
            Frame::Reclaim { number, seat } => {
                if let (Ok(number), Ok(seat)) = (u32::try_from(number), u16::try_from(seat))
                    && usize::from(seat) < Seat::COUNT
                {
                    membership.heap().forget_seat(Seat(seat));
                    lock(&membership.peers).remove(&NodeId(number));
                    self.forget_heap(membership, NodeId(number));
                    membership.release_heaps();
                    let _ = broker.send(&Frame::Reclaimed { number: u64::from(number) }, None);
                }
            }
            _ => {}
        }
    }

    fn introduced(&self, membership: &Arc<Membership>, number: NodeId, seat: Seat, fd: OwnedFd) {
        let peer = {
            let mut peers = lock(&membership.peers);
            peers.entry(number).or_insert_with(|| Peer::new(number, seat)).clone()
        };
        if !peer.set_socket(Socket::new(fd)) {
            // Both asked for the other at the same time: the first introduction counts, at both ends.
            return;
        }
        let Some(socket) = peer.socket() else { return };
        if self.poll.watch(socket, PEER | u64::from(number.0)).is_err() {
            // Nobody would read what it says.
            return was_not_met(membership, &peer);
        }
        pass_heap(membership, &peer, membership.number);
    }
}

/// Nothing came of a connection. Whoever needs that node asks again.
fn was_not_met(membership: &Membership, peer: &Peer) {
    lock(&membership.peers).remove(&peer.number());
    peer.set_gone(true);
}

/// Whoever waits to meet `node` asks again.
fn was_not_introduced(membership: &Membership, node: NodeId) {
    let peer = lock(&membership.peers).get(&node).cloned();
    if let Some(peer) = peer {
        peer.was_not_introduced();
    }
}
