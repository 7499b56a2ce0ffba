//! The control thread of a node: asleep in epoll until another node wants something or is gone.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use deck_segment::Seat;
use deck_sync::atomic::Ordering;
use deck_sync::locks::{lock, write};
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result, barrier, point};
use rustix::event::{Timespec, epoll};

use crate::fork::ParentOnly;
use crate::membership::{Granted, Membership};
use crate::peer::Peer;
use crate::socket::{Received, Socket};
use crate::strangers::Strangers;
use crate::wire::{Frame, Refused};
use crate::{process, wakeup};

mod heaps;
mod take_over;

use heaps::pass_heap;

const WAKE: u64 = 0;
const BROKER: u64 = 1;
const PEERS: u64 = 16;
/// Added to a peer's key for the descriptor of its process.
const PROCESS: u64 = 1 << 40;
/// Added to a node's number for the descriptor of the process of one that was not met.
const STRANGER: u64 = 1 << 41;

/// How often a peer on which waits depend is asked for a sign of life.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// First and longest time between two ticks while the handler has small duties.
const TICK_FIRST: Duration = Duration::from_millis(20);
const TICK_LAST: Duration = Duration::from_secs(1);
/// How often a node looks for the new broker, and how long the new broker waits for all to come.
const LOOK_FOR_BROKER: Duration = Duration::from_millis(5);
const TAKE_STOCK_AFTER: Duration = Duration::from_millis(500);
/// Questions of peers whose heaps there is no room for, at most.
const PUT_OFF_MAX: usize = 4096;

pub struct Control {
    membership: Weak<Membership>,
    epoll: OwnedFd,
    /// Time between two ticks and when the next one is due, `None` while there are no duties.
    tick: Option<(Duration, Deadline)>,
    /// The broker is gone and the new one has not answered.
    is_orphan: bool,
    /// The node that was asked to be the new broker.
    asked_broker: Option<NodeId>,
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
    /// Nodes that are gone, for which the broker awaits this one's answer.
    unanswered: BTreeSet<NodeId>,
    /// What peers have asked for whose own heap is missing.
    put_off: Vec<(NodeId, Frame)>,
}

impl Control {
    pub fn new(membership: &Arc<Membership>) -> Result<Control> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|errno| Error::system("making an epoll", errno.raw_os_error()))?;
        let control = Control {
            membership: Arc::downgrade(membership),
            epoll,
            tick: None,
            is_orphan: false,
            asked_broker: None,
            is_refused: false,
            ask_broker_at: Deadline::NOW,
            attempts: 0,
            take_stock_at: None,
            strangers: Strangers::default(),
            missing: BTreeSet::new(),
            ask_at: Deadline::NEVER,
            unanswered: BTreeSet::new(),
            put_off: Vec::new(),
        };
        control.watch(&membership.wake, WAKE)?;
        let broker = lock(&membership.broker).clone();
        control.watch(broker.as_fd(), BROKER)?;
        Ok(control)
    }

    fn watch(&self, fd: impl AsFd, key: u64) -> Result<()> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(key), epoll::EventFlags::IN)
            .map_err(|errno| Error::system("watching a descriptor", errno.raw_os_error()))
    }

    /// Runs until the node has left.
    pub fn run(mut self) {
        let mut events = Vec::with_capacity(64);
        let mut timeout = None;
        loop {
            events.clear();
            let space = rustix::buffer::spare_capacity(&mut events);
            let timespec = timeout.map(|timeout: Duration| Timespec {
                tv_sec: timeout.as_secs() as i64,
                tv_nsec: i64::from(timeout.subsec_nanos()),
            });
            let waited = epoll::wait(&self.epoll, space, timespec.as_ref());
            if waited.is_err_and(|errno| errno != rustix::io::Errno::INTR) {
                return;
            }
            let Some(membership) = self.membership.upgrade() else { return };
            // SeqCst: pairs with: membership/leaving.
            if membership.has_left.load(Ordering::SeqCst) {
                return;
            }
            let mut is_poked = false;
            for event in &events {
                match event.data.u64() {
                    WAKE => {
                        wakeup::hush(&membership.wake);
                        is_poked = true;
                    }
                    BROKER => self.serve_broker(&membership),
                    key if key & STRANGER != 0 => {
                        let node = NodeId((key & !STRANGER) as u32);
                        self.strangers.forget(node, &self.epoll);
                        self.stranger_ended(&membership, node);
                    }
                    key if key & PROCESS != 0 => self.process_ended(&membership, key & !PROCESS),
                    key => self.serve_peer(&membership, key),
                }
            }
            // SeqCst: pairs with: membership/leaving. Once more: the poke of leaving may be the one that was just hushed.
            if membership.has_left.load(Ordering::SeqCst) {
                return;
            }
            timeout = self.duties(&membership, is_poked);
        }
    }

    /// Small duties; returns when to come again at the latest.
    fn duties(&mut self, membership: &Arc<Membership>, is_poked: bool) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        let mut at_latest = |time: Duration| next = Some(next.map_or(time, |next| next.min(time)));
        let peers: Vec<Arc<Peer>> = lock(&membership.peers).values().cloned().collect();
        for peer in peers {
            let Some(socket) = peer.socket() else { continue };
            if socket.is_backed_up() && socket.send_waiting() {
                at_latest(TICK_FIRST);
            }
            if peer.is_depended_on() && peer.gone().is_none() {
                peer.ask();
                at_latest(ASK_EVERY);
            }
        }
        if is_poked && self.tick.is_none_or(|(every, _)| every > TICK_FIRST) {
            // Not at once: what is wanted is that it does not stay for ever, and the threads it takes its time from are at work.
            self.tick = Some((TICK_FIRST, Deadline::after(TICK_FIRST)));
        }
        if let Some((every, due)) = self.tick {
            if due.has_passed() {
                let has_more = membership.handler().is_some_and(|handler| handler.tick());
                let next_time = (every * 2).min(TICK_LAST);
                self.tick = has_more.then(|| (next_time, Deadline::after(next_time)));
            }
            if let Some(left) = self.tick.and_then(|(_, due)| due.remaining()) {
                at_latest(left.max(Duration::from_millis(1)));
            }
        }
        let broker = lock(&membership.broker).clone();
        if broker.is_backed_up() && broker.send_waiting() {
            at_latest(TICK_FIRST);
        }
        if let Some(left) = self.ask_for_the_missing(membership) {
            at_latest(left);
        }
        for node in self.strangers.look(membership, &self.epoll, STRANGER) {
            self.stranger_ended(membership, node);
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
        next
    }

    fn serve_broker(&mut self, membership: &Arc<Membership>) {
        let broker = lock(&membership.broker).clone();
        loop {
            match broker.receive() {
                Received::Nothing => return,
                Received::Frame(frame, passed) => self.handle_broker(membership, &broker, frame, passed),
                Received::End | Received::Nonsense => {
                    let _ = epoll::delete(&self.epoll, broker.as_fd());
                    if std::mem::take(&mut self.is_refused) {
                        // It lives, and has no descriptor for this node now: it is asked again.
                        (self.asked_broker, self.ask_broker_at) = (None, Deadline::after(ASK_EVERY));
                        return;
                    }
                    // A broker hangs up on a node that leaves. SeqCst: pairs with: membership/leaving, which sets it before it says so
                    // to anybody.
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
                if let (Some((peer, seat)), Some(fd)) = (known, passed)
                    && usize::from(seat) < Seat::COUNT
                {
                    self.introduced(membership, NodeId(peer), Seat(seat), fd);
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
            Frame::Rejoined {} => (self.is_orphan, self.asked_broker) = (false, None),
            Frame::Gone { number, seat, lost } => {
                let Ok(number) = u32::try_from(number) else { return };
                if membership.table.is_live(NodeId(number)) {
                    return;
                }
                // What it said to us before comes first: the heaps of what it had posted, and its bye.
                self.serve_peer(membership, PEERS + u64::from(number));
                self.peer_gone(membership, NodeId(number), lost != 0);
                membership.shares.sweep();
                if seat != u64::MAX {
                    self.unanswered.insert(NodeId(number));
                    self.answer_for_the_gone(membership);
                }
            }
            Frame::Reclaim { number, seat } => {
                if let (Ok(number), Ok(seat)) = (u32::try_from(number), u16::try_from(seat))
                    && usize::from(seat) < Seat::COUNT
                {
                    membership.heap().forget_seat(Seat(seat));
                    lock(&membership.peers).remove(&NodeId(number));
                    self.missing.retain(|(_, owner)| *owner != NodeId(number));
                    self.forget_heap(membership, NodeId(number));
                    let _ = broker.send(&Frame::Reclaimed { number: u64::from(number) }, None);
                }
            }
            _ => {}
        }
    }

    /// A reclaimed node's heap goes, unless others still post its buffers on.
    fn forget_heap(&self, membership: &Membership, owner: NodeId) {
        if lock(&membership.kept_heaps).contains(&owner) {
            return;
        }
        if let Some(handler) = membership.handler() {
            handler.heap_forgotten(owner);
        }
        write(&membership.heaps).remove(&owner);
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
        let _ = self.watch(socket.as_fd(), PEERS + u64::from(number.0));
        pass_heap(membership, &peer, membership.number);
    }

    fn peer(&self, membership: &Membership, key: u64) -> Option<Arc<Peer>> {
        let number = NodeId(u32::try_from(key - PEERS).ok()?);
        lock(&membership.peers).get(&number).cloned()
    }

    fn serve_peer(&mut self, membership: &Arc<Membership>, key: u64) {
        let Some(peer) = self.peer(membership, key) else { return };
        let Some(socket) = peer.socket() else { return };
        while peer.gone().is_none() {
            match socket.receive() {
                Received::Nothing => return,
                Received::Frame(frame, passed) => {
                    if self.handle_peer(membership, &peer, frame, passed).is_err() {
                        // It does not speak our language: as good as gone for us, whatever it is for others.
                        let _ = epoll::delete(&self.epoll, socket.as_fd());
                        self.peer_gone(membership, peer.number(), true);
                        return;
                    }
                }
                Received::End | Received::Nonsense => {
                    let _ = epoll::delete(&self.epoll, socket.as_fd());
                    if !peer.is_connected() {
                        // The other end was never taken up: its broker died in between. Whoever needs it asks again.
                        lock(&membership.peers).remove(&peer.number());
                        let _ = epoll::delete(&self.epoll, socket.as_fd());
                        peer.set_gone(true);
                        return;
                    }
                    self.connection_ended(membership, &peer);
                    return;
                }
            }
        }
    }

    fn process_ended(&mut self, membership: &Arc<Membership>, key: u64) {
        let Some(peer) = self.peer(membership, key) else { return };
        // What it said before it ended comes first.
        self.serve_peer(membership, key);
        self.connection_ended(membership, &peer);
    }

    /// The process of a node has ended that was not met, or not when its process was first watched.
    fn stranger_ended(&mut self, membership: &Arc<Membership>, node: NodeId) {
        let key = PEERS + u64::from(node.0);
        if self.peer(membership, key).is_some() {
            self.process_ended(membership, key);
        } else {
            membership.table.set_gone(node, true);
            membership.shares.sweep();
        }
    }

    /// A peer that will not be heard of any more: it has left, if it said so to us or in the table, or died. Except when it is
    /// this node that leaves: the others close their ends because of that, and are not gone.
    fn connection_ended(&mut self, membership: &Arc<Membership>, peer: &Peer) {
        // SeqCst: pairs with: membership/leaving, which sets it before it says so to anybody.
        if peer.gone().is_none() && !membership.has_left.load(Ordering::SeqCst) {
            membership.table.set_gone(peer.number(), !peer.has_said_bye());
            let is_lost = membership.table.state(peer.number()) != Some(crate::NodeState::Left);
            self.peer_gone(membership, peer.number(), is_lost);
        }
    }

    fn handle_peer(
        &mut self,
        membership: &Arc<Membership>,
        peer: &Arc<Peer>,
        frame: Frame,
        passed: Option<OwnedFd>,
    ) -> Result<()> {
        let handler = membership.handler();
        match frame {
            Frame::Hello { number, seat, process } => {
                if number != u64::from(peer.number().0) || seat != u64::from(peer.seat().0) {
                    return Err(Error::new(ErrorKind::Corrupt, "it says it is another node").with_peer(peer.number()));
                }
                let heap = self.passed_heap(membership, peer, (peer.number(), peer.seat()), passed)?;
                // Or it was asked twice.
                let Some(heap) = heap.filter(|_| peer.heap().is_none()) else { return Ok(()) };
                peer.set_heap(heap);
                if membership.table.needs_fences() {
                    barrier::use_real_fences();
                }
                self.watch_process(peer, process);
                peer.set_connected();
                for (_, frame) in self.put_off.extract_if(.., |(from, _)| *from == peer.number()).collect::<Vec<_>>() {
                    self.handle_peer(membership, peer, frame, None)?;
                }
            }
            Frame::RingRequest { .. } if peer.heap().is_none() && self.put_off.len() < PUT_OFF_MAX => {
                self.put_off.push((peer.number(), frame));
            }
            Frame::RingRequest { request, mailbox, generation, credit } => {
                let known = u32::try_from(mailbox).ok().zip(u32::try_from(generation).ok());
                let granted = match (handler, known) {
                    (Some(handler), Some((mailbox, generation))) => {
                        handler.ring_requested(peer, mailbox, generation, credit)
                    }
                    _ => Err(Refused::Nonsense),
                };
                point("clone/granting");
                let answer = match granted {
                    Ok(Granted { ring, messages, bytes, area_lines, place, bell, event }) => {
                        Frame::RingGrant { request, ring, messages, bytes, area_lines, place, bell, event }
                    }
                    Err(reason) => Frame::RingRefuse { request, reason: reason as u64 },
                };
                let _ = peer.send(&answer);
            }
            Frame::RingGrant { request, ring, messages, bytes, area_lines, place, bell, event } => {
                let granted = Granted { ring, messages, bytes, area_lines, place, bell, event };
                if !answer(membership, peer, request, Ok(granted)) {
                    // Whoever asked has given up: nothing was or will be posted through this ring.
                    let _ = peer.send(&Frame::RingEnded { ring, tail: 0 });
                }
            }
            Frame::RingRefuse { request, reason } => {
                let error = match Refused::from_word(reason) {
                    Refused::Closed => Error::new(ErrorKind::Closed, "the mail box was closed"),
                    Refused::Full => Error::new(ErrorKind::NoMemory, "the mail box has as many rings as it can have"),
                    Refused::NoMemory => {
                        Error::new(ErrorKind::NoMemory, "the owner of the mail box has no memory for a ring")
                    }
                    other => {
                        Error::new(ErrorKind::Corrupt, format!("the owner of the mail box refused a ring ({other:?})"))
                    }
                };
                answer(membership, peer, request, Err(error));
            }
            Frame::RingClose { ring } => {
                if let Some(handler) = handler {
                    let tail = handler.ring_closed(peer.number(), ring);
                    let _ = peer.send(&Frame::RingEnded { ring, tail: u64::from(tail) });
                }
            }
            Frame::RoomWanted { ring } => {
                if let Some(handler) = handler {
                    handler.room_wanted(peer.number(), ring);
                }
            }
            Frame::RingEnded { ring, tail } => {
                if let (Some(handler), Ok(tail)) = (handler, u32::try_from(tail)) {
                    handler.ring_ended(peer.number(), ring, tail);
                }
            }
            Frame::Heap { number, seat } => {
                let known = u32::try_from(number).ok().zip(u16::try_from(seat).ok());
                if let Some((number, seat)) = known {
                    let (number, seat) = (NodeId(number), Seat(seat));
                    if number != membership.number
                        && self.passed_heap(membership, peer, (number, seat), passed)?.is_none()
                    {
                        return Ok(());
                    }
                    if !membership.table.is_live(number) {
                        lock(&membership.kept_heaps).insert(number);
                    }
                    if let Some(handler) = handler {
                        handler.heap_introduced();
                    }
                }
            }
            Frame::HeapWanted { number } => {
                if let Ok(number) = u32::try_from(number) {
                    pass_heap(membership, peer, NodeId(number));
                }
            }
            Frame::SegmentMake { .. }
            | Frame::SegmentOpen { .. }
            | Frame::SegmentMade { .. }
            | Frame::SegmentGrant { .. }
            | Frame::SegmentRefuse { .. }
            | Frame::SegmentRelease { .. } => membership.serve_segments(peer, frame, passed),
            Frame::Ping { count } => drop(peer.send(&Frame::Pong { count })),
            Frame::Pong { .. } => peer.answered(),
            Frame::Bye {} => peer.set_said_bye(),
            _ => {}
        }
        Ok(())
    }

    fn watch_process(&self, peer: &Peer, word: u64) {
        if let Some(process) = process::open_here(word)
            && let Some(process) = peer.set_process(process)
        {
            let _ = self.watch(process, (PEERS + u64::from(peer.number().0)) | PROCESS);
        }
    }

    fn peer_gone(&mut self, membership: &Arc<Membership>, number: NodeId, is_lost: bool) {
        let peer = lock(&membership.peers).get(&number).cloned();
        let Some(peer) = peer.filter(|peer| peer.set_gone(is_lost)) else { return };
        self.put_off.retain(|(from, _)| *from != number);
        // Both stay readable for ever; the descriptors live as long as anybody has a clone of its mail boxes.
        if let Some(socket) = peer.socket() {
            let _ = epoll::delete(&self.epoll, socket.as_fd());
        }
        if let Some(process) = peer.process() {
            let _ = epoll::delete(&self.epoll, process);
        }
        membership.shares.sweep();
        membership.shares.wake_those_who_asked(number);
        let Some(handler) = membership.handler() else { return };
        handler.peer_gone(number, is_lost);
        let requests: Vec<_> = lock(&membership.requests).values().cloned().collect();
        requests.iter().filter(|request| request.peer == number).for_each(|request| request.answered.notify());
    }
}

/// False if nobody waits for this answer any more.
fn answer(membership: &Membership, peer: &Peer, request: u64, answer: Result<Granted>) -> bool {
    let requests = lock(&membership.requests);
    let Some(request) = requests.get(&request).filter(|request| request.peer == peer.number()) else { return false };
    let _ = request.answer.set(answer);
    request.answered.notify();
    true
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::heaps::known_heap;
    use super::*;
    use crate::broker::Broker;
    use crate::membership::{Door, Options};

    /// Two nodes that have met, and their control threads' work, which this thread does.
    fn met(broker: &Broker) -> [(Arc<Membership>, Control); 2] {
        let mut nodes = [(); 2].map(|()| {
            let door = Door::Invited(broker.invite().unwrap());
            let deadline = Deadline::after(Duration::from_secs(10));
            let membership = Membership::join(
                door,
                &Options { heap: deck_segment::HeapOptions::of(deck_segment::default_bytes()) },
                deadline,
            )
            .unwrap();
            let control = Control::new(&membership).unwrap();
            (membership, control)
        });
        let numbers = [nodes[0].0.number, nodes[1].0.number];
        nodes[0].0.broker.lock().unwrap().send(&Frame::Connect { to: u64::from(numbers[1].0) }, None).unwrap();
        let began = Instant::now();
        while !nodes.iter().all(|(node, _)| node.peers.lock().unwrap().values().any(|peer| peer.is_connected())) {
            assert!(began.elapsed() < Duration::from_secs(10), "they do not meet");
            for ((membership, control), other) in nodes.iter_mut().zip([numbers[1], numbers[0]]) {
                control.serve_broker(membership);
                control.serve_peer(membership, PEERS + u64::from(other.0));
            }
        }
        nodes
    }

    #[test]
    fn a_connection_that_ends_is_a_death() {
        let broker = Broker::start("test", 2).unwrap();
        let [(one, mut control), (other, _)] = met(&broker);
        other.peers.lock().unwrap().clear();
        control.serve_peer(&one, PEERS + u64::from(other.number.0));
        assert_eq!(one.table.state(other.number), Some(crate::NodeState::Lost));
    }

    /// Has the broker of the first node, which is said to live in the second, hang up.
    fn end_broker_of(nodes: &mut [(Arc<Membership>, Control); 2], broker: Broker) {
        let [(one, control), (other, _)] = nodes;
        one.broker_node.store(u64::from(other.number.0), Ordering::Relaxed);
        drop(broker);
        control.serve_broker(one);
    }

    #[test]
    fn a_broker_that_hangs_up_is_dead_and_its_node_too() {
        let broker = Broker::start("test", 2).unwrap();
        let mut nodes = met(&broker);
        end_broker_of(&mut nodes, broker);
        assert_eq!(nodes[0].0.table.state(nodes[1].0.number), Some(crate::NodeState::Lost));
    }

    #[test]
    fn a_node_that_leaves_takes_no_broker_for_dead_that_hangs_up_for_that() {
        let broker = Broker::start("test", 2).unwrap();
        let mut nodes = met(&broker);
        nodes[0].0.has_left.store(true, Ordering::SeqCst);
        end_broker_of(&mut nodes, broker);
        assert!(nodes[0].0.table.is_live(nodes[1].0.number));
    }

    #[test]
    fn a_node_that_leaves_takes_nobody_for_dead_who_closes_the_connection_for_that() {
        let broker = Broker::start("test", 2).unwrap();
        let [(leaving, mut control), (staying, _)] = met(&broker);
        // Leaving has begun, and the other node has heard of it, while the control thread was on its way to look at the
        // connection.
        leaving.has_left.store(true, Ordering::SeqCst);
        staying.peers.lock().unwrap().clear();
        control.serve_peer(&leaving, PEERS + u64::from(staying.number.0));
        assert!(leaving.table.is_live(staying.number));
    }

    #[test]
    fn who_is_refused_a_place_that_is_taken_drives_nobody_out() {
        let broker = Broker::start("test", 2).unwrap();
        let invitation = broker.invite().unwrap();
        let join = |fd: OwnedFd| {
            let options = Options { heap: deck_segment::HeapOptions::of(deck_segment::default_bytes()) };
            Membership::join(Door::Invited(fd), &options, Deadline::after(Duration::from_secs(10)))
        };
        let first = join(invitation.try_clone().unwrap()).unwrap();
        assert_eq!(join(invitation).unwrap_err().kind(), ErrorKind::Invalid);
        // Comes after whatever was said before.
        let other = join(broker.invite().unwrap()).unwrap();
        assert!(other.table.is_live(first.number));
    }

    #[test]
    fn a_heap_that_comes_without_its_descriptor_is_asked_for_again_and_nobody_is_dead() {
        let broker = Broker::start("test", 3).unwrap();
        let mut nodes = met(&broker);
        // A third one, whose heap the first knows and passes.
        let third = Membership::join(
            Door::Invited(broker.invite().unwrap()),
            &Options { heap: deck_segment::HeapOptions::of(deck_segment::default_bytes()) },
            Deadline::after(Duration::from_secs(10)),
        )
        .unwrap();
        let [one, other] = [0, 1].map(|node: usize| nodes[node].0.clone());
        let heap = third.heap().segment().as_fd().try_clone_to_owned().unwrap();
        known_heap(&one, third.number, third.seat, heap).unwrap();
        let frame = Frame::Heap { number: u64::from(third.number.0), seat: u64::from(third.seat.0) };
        let peer = one.peers.lock().unwrap()[&other.number].clone();
        peer.send(&frame).unwrap();
        let began = Instant::now();
        while other.heap_of(third.number).is_none() {
            assert!(began.elapsed() < Duration::from_secs(10), "it does not come");
            for (node, from) in [(0, other.number), (1, one.number)] {
                let (membership, control) = &mut nodes[node];
                control.serve_peer(membership, PEERS + u64::from(from.0));
                control.duties(membership, false);
            }
        }
        assert!(nodes[1].1.missing.is_empty() && other.table.is_live(one.number));
    }

    #[test]
    fn what_a_home_made_for_one_that_gave_up_goes_although_somebody_has_the_name_by_now() {
        let broker = Broker::start("test", 2).unwrap();
        let mut nodes = met(&broker);
        let [one, home] = [0, 1].map(|node: usize| nodes[node].0.clone());
        let object = one.objects.enter(crate::ObjectKind::Segment, "s", one.seat).unwrap();
        let _next_life = one.open_object(object.clone());
        let life = crate::SegmentLife { object: object.index(), generation: 1 };
        let error = one.make_segment(home.number, life, &object, 4096, Deadline::NOW).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        let began = Instant::now();
        let mut serve = |node: usize, other: NodeId| {
            assert!(began.elapsed() < Duration::from_secs(10), "it does not come");
            let (membership, control) = &mut nodes[node];
            control.serve_peer(membership, PEERS + u64::from(other.0));
        };
        // It is kept before it is passed.
        while home.segment_here(life).is_none() {
            serve(1, one.number);
        }
        while home.segment_here(life).is_some() {
            serve(0, home.number);
            serve(1, one.number);
        }
    }
}
