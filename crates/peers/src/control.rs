//! The control thread of a node: asleep until another node wants something or is gone.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use deck_segment::Seat;
use deck_sync::atomic::Ordering;
use deck_sync::locks::lock;
use deck_sync::{Deadline, NodeId, Result};

use crate::fork::ParentOnly;
use crate::membership::Membership;
use crate::peer::Peer;
use crate::poll::Poll;
use crate::socket::{Received, Socket};
use crate::strangers::Strangers;
use crate::wakeup;
use crate::wire::Frame;

mod heaps;
mod peers;
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

pub struct Control {
    membership: Weak<Membership>,
    poll: Poll,
    /// Time between two ticks and when the next one is due, `None` while there are no duties.
    tick: Option<(Duration, Deadline)>,
    /// When those on which waits depend are asked for the next sign of life.
    ask_peers_at: Deadline,
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
            told_gone: BTreeSet::new(),
        };
        control.poll.watch(&membership.wake, WAKE)?;
        control.poll.watch(membership.broker(), BROKER)?;
        Ok(control)
    }

    /// Runs until the node has left.
    pub fn run(mut self) {
        let mut keys = Vec::new();
        let mut timeout = None;
        loop {
            if self.poll.wait(&mut keys, timeout).is_err() {
                return;
            }
            let Some(membership) = self.membership.upgrade() else { return };
            // SeqCst: pairs with: membership/leaving.
            if membership.has_left.load(Ordering::SeqCst) {
                return;
            }
            let mut is_poked = false;
            for key in &keys {
                match *key {
                    WAKE => {
                        wakeup::hush(&membership.wake);
                        is_poked = true;
                    }
                    BROKER => self.serve_broker(&membership),
                    key if key & STRANGER != 0 => {
                        let node = NodeId((key & !STRANGER) as u32);
                        self.strangers.forget(node, &self.poll);
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
        // An answer wakes this thread too, which is no reason to ask again at once.
        let is_time_to_ask = self.ask_peers_at.has_passed();
        for peer in peers {
            let Some(socket) = peer.socket() else { continue };
            if socket.is_backed_up() && socket.send_waiting() {
                at_latest(TICK_FIRST);
            }
            if peer.is_depended_on() && peer.gone().is_none() {
                if is_time_to_ask {
                    peer.ask();
                    self.ask_peers_at = Deadline::after(ASK_EVERY);
                }
                at_latest(self.ask_peers_at.remaining().unwrap_or(ASK_EVERY).max(Duration::from_millis(1)));
            }
        }
        if is_poked && self.tick.is_none_or(|(every, _)| every > TICK_FIRST) {
            // Not at once: what is wanted is that it does not stay for ever, and the threads it takes its time from are at work.
            self.tick = Some((TICK_FIRST, Deadline::after(TICK_FIRST)));
        }
        if let Some((every, due)) = self.tick {
            if due.has_passed() {
                let has_more = membership.handler().is_some_and(|handler| handler.tick());
                // What was in flight has come back by now, if it has been retrieved.
                membership.release_heaps();
                let next_time = (every * 2).min(TICK_LAST);
                self.tick = has_more.then(|| (next_time, Deadline::after(next_time)));
            }
            if let Some(left) = self.tick.and_then(|(_, due)| due.remaining()) {
                at_latest(left.max(Duration::from_millis(1)));
            }
        }
        let broker = membership.broker();
        if broker.is_backed_up() && broker.send_waiting() {
            at_latest(TICK_FIRST);
        }
        if let Some(left) = self.ask_for_the_missing(membership) {
            at_latest(left);
        }
        for node in self.strangers.look(membership, &self.poll, STRANGER) {
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
        let broker = membership.broker();
        loop {
            match broker.receive() {
                Received::Nothing => return,
                Received::Frame(frame, passed) => self.handle_broker(membership, &broker, frame, passed),
                Received::End | Received::Nonsense => {
                    self.poll.forget(&broker);
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
                match (known.filter(|(_, seat)| usize::from(*seat) < Seat::COUNT), passed) {
                    (Some((peer, seat)), Some(fd)) => self.introduced(membership, NodeId(peer), Seat(seat), fd),
                    // This process has no descriptor for it now.
                    (Some((peer, _)), None) => was_not_introduced(membership, NodeId(peer)),
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
            Frame::Rejoined {} => (self.is_orphan, self.asked_broker) = (false, None),
            Frame::Gone { number, seat, lost } => {
                let Ok(number) = u32::try_from(number) else { return };
                if membership.table.is_live(NodeId(number)) {
                    // The broker's process has no descriptors for it now.
                    was_not_introduced(membership, NodeId(number));
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
        let _ = self.poll.watch(socket, PEERS + u64::from(number.0));
        pass_heap(membership, &peer, membership.number);
    }
}

/// Whoever waits to meet `node` asks again.
fn was_not_introduced(membership: &Membership, node: NodeId) {
    let peer = lock(&membership.peers).get(&node).cloned();
    if let Some(peer) = peer {
        peer.was_not_introduced();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Instant;

    use deck_segment::HeapOptions;
    use deck_sync::ErrorKind;
    use deck_sync::locks::{read, write};

    use super::*;
    use crate::alone;
    use crate::broker::Broker;
    use crate::membership::Door;
    use crate::poll;
    use crate::socket::pair;
    use crate::wire::Refused;

    fn join(invitation: OwnedFd) -> Result<Arc<Membership>> {
        let heap = HeapOptions::of(deck_segment::default_bytes());
        Membership::join(Door::Invited(invitation), &heap, Deadline::after(Duration::from_secs(10)))
    }

    /// Two nodes that have met, and their control threads' work, which this thread does.
    fn met(broker: &Broker) -> [(Arc<Membership>, Control); 2] {
        let mut nodes = [(); 2].map(|()| {
            let membership = join(broker.invite().unwrap()).unwrap();
            let control = Control::new(&membership).unwrap();
            (membership, control)
        });
        let numbers = [nodes[0].0.number, nodes[1].0.number];
        nodes[0].0.broker().send(&Frame::Connect { to: u64::from(numbers[1].0) }, None).unwrap();
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

    /// The second node passes the first one the heap of a third, as its last deed.
    fn introduce_at_the_end(broker: &Broker, nodes: &[(Arc<Membership>, Control); 2]) -> Arc<Membership> {
        let third = join(broker.invite().unwrap()).unwrap();
        let [one, other] = [0, 1].map(|node: usize| nodes[node].0.clone());
        let peer = other.peers.lock().unwrap()[&one.number].clone();
        other.introduce_heap(&peer, third.heap()).unwrap();
        third
    }

    #[test]
    fn what_the_node_of_a_dead_broker_said_before_its_end_is_heard() {
        let broker = Broker::start("test", 3).unwrap();
        let mut nodes = met(&broker);
        let third = introduce_at_the_end(&broker, &nodes);
        end_broker_of(&mut nodes, broker);
        assert!(nodes[0].0.heap_of(third.number).is_some());
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
        let first = join(invitation.try_clone().unwrap()).unwrap();
        assert_eq!(join(invitation).unwrap_err().kind(), ErrorKind::Invalid);
        // Comes after whatever was said before.
        let other = join(broker.invite().unwrap()).unwrap();
        assert!(other.table.is_live(first.number));
    }

    /// The first of them introduces the heap of a third node, of which the descriptor does not arrive.
    fn introduce_without_its_descriptor(broker: &Broker, nodes: &[(Arc<Membership>, Control); 2]) -> Arc<Membership> {
        let third = join(broker.invite().unwrap()).unwrap();
        let [one, other] = [0, 1].map(|node: usize| nodes[node].0.clone());
        let heap = third.heap().segment().as_fd().try_clone_to_owned().unwrap();
        let heap = write(&one.heaps).enter(third.number, third.seat, heap, one.seat).unwrap();
        let peer = one.peers.lock().unwrap()[&other.number].clone();
        one.introduce_heap(&peer, &heap).unwrap();
        let Some(Received::Frame(frame, Some(_))) =
            other.peers.lock().unwrap()[&one.number].socket().map(|socket| socket.receive())
        else {
            panic!("it is not introduced");
        };
        peer.send(&frame).unwrap();
        third
    }

    #[test]
    fn a_heap_that_comes_without_its_descriptor_is_asked_for_again_and_nobody_is_dead() {
        let broker = Broker::start("test", 3).unwrap();
        let mut nodes = met(&broker);
        let third = introduce_without_its_descriptor(&broker, &nodes);
        let [one, other] = [0, 1].map(|node: usize| nodes[node].0.clone());
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
    fn an_answer_is_no_reason_to_ask_again_at_once() {
        let broker = Broker::start("test", 2).unwrap();
        let [(one, mut asking), (other, mut answering)] = met(&broker);
        let peer = one.peers.lock().unwrap()[&other.number].clone();
        let _depending = one.depend(&peer);
        let (began, mut asked) = (Instant::now(), 0);
        for _ in 0..100 {
            asking.duties(&one, false);
            if peer.has_open_question() {
                asked += 1;
            }
            while peer.has_open_question() {
                answering.serve_peer(&other, PEERS + u64::from(one.number.0));
                asking.serve_peer(&one, PEERS + u64::from(other.number.0));
            }
        }
        let at_most = 1 + began.elapsed().as_millis() / ASK_EVERY.as_millis();
        assert!((1..=at_most).contains(&asked), "{asked} in {:?}", began.elapsed());
    }

    #[test]
    fn an_introduction_that_the_other_one_has_no_descriptor_for_is_asked_for_again_after_a_while() {
        let broker = Broker::start("test", 2).unwrap();
        let [one, other] = [(); 2].map(|()| join(broker.invite().unwrap()).unwrap());
        let mut control = Control::new(&one).unwrap();
        let (ours, theirs) = pair().unwrap();
        *one.broker.lock().unwrap() = Arc::new(Socket::new(ours));
        let (introducing, membership) = (Socket::new(theirs), one.clone());
        let (number, seat) = (other.number, u64::from(other.seat.0));
        let meeting =
            std::thread::spawn(move || membership.meet(number, Deadline::after(Duration::from_millis(50))).map(drop));
        let mut asked = 0;
        while !meeting.is_finished() {
            if let Received::Frame(Frame::Connect { .. }, _) = introducing.receive() {
                asked += 1;
                let (end, _closed) = pair().unwrap();
                introducing.send(&Frame::Introduce { peer: u64::from(number.0), seat }, Some(end.as_fd())).unwrap();
            }
            control.serve_broker(&one);
            control.serve_peer(&one, PEERS + u64::from(number.0));
        }
        assert_eq!(meeting.join().unwrap().unwrap_err().kind(), ErrorKind::Timeout);
        assert!(asked <= 4, "asked {asked} times");
    }

    #[test]
    fn a_heap_that_a_thread_could_not_pass_at_once_wakes_the_control_thread_which_tries_again() {
        let broker = Broker::start("test", 3).unwrap();
        let nodes = met(&broker);
        let third = join(broker.invite().unwrap()).unwrap();
        let [one, other] = [0, 1].map(|node: usize| nodes[node].0.clone());
        let peer = one.peers.lock().unwrap()[&other.number].clone();
        while !peer.is_backed_up() {
            peer.send(&Frame::Pong { count: 0 }).unwrap();
        }
        wakeup::hush(&one.wake);
        one.introduce_heap(&peer, third.heap()).unwrap();
        assert!(poll::is_readable_within(&one.wake, Some(Duration::ZERO)));
    }

    #[test]
    fn a_segment_that_comes_without_its_descriptor_is_a_lack_here_and_what_its_home_made_goes() {
        let broker = Broker::start("test", 2).unwrap();
        let mut nodes = met(&broker);
        let [one, home] = [0, 1].map(|node: usize| nodes[node].0.clone());
        let object = one.objects.enter(crate::ObjectKind::Segment, "s", one.seat).unwrap();
        let _open = one.open_object(object.clone());
        let life = crate::SegmentLife { object: object.index(), generation: 1 };
        let peer = home.peers.lock().unwrap()[&one.number].clone();
        let soon = Deadline::after(Duration::from_secs(10));
        for is_made in [true, false] {
            let (membership, object, home_number) = (one.clone(), object.clone(), home.number);
            let asking = std::thread::spawn(move || match is_made {
                true => membership.make_segment(home_number, life, &object, "s", 4096, soon).map(drop),
                false => membership.fetch_segment(home_number, life, "s", soon).map(drop),
            });
            let (entry, generation) = (u64::from(life.object), u64::from(life.generation));
            let mut is_released = false;
            while !asking.is_finished() || is_released != is_made {
                assert!(!soon.has_passed(), "it is not released");
                // As if the descriptor had been left behind on the way.
                match peer.socket().unwrap().receive() {
                    Received::Frame(frame, _) if frame == (Frame::SegmentRelease { entry, generation }) => {
                        is_released = true;
                    }
                    Received::Frame(Frame::SegmentMake { request, .. }, _) => {
                        peer.send(&Frame::SegmentMade { request, entry, generation }).unwrap();
                    }
                    Received::Frame(Frame::SegmentOpen { request, .. }, _) => {
                        peer.send(&Frame::SegmentGrant { request }).unwrap();
                    }
                    _ => {}
                }
                nodes[0].1.serve_peer(&one, PEERS + u64::from(home.number.0));
            }
            let error = asking.join().unwrap().unwrap_err();
            assert_eq!((error.kind(), error.peer()), (ErrorKind::NoMemory, None), "{error}");
        }
    }

    #[test]
    fn who_asks_for_a_segment_is_told_if_there_is_no_descriptor_to_keep_it_while_it_waits() {
        if !alone::is_alone(
            "control::tests::who_asks_for_a_segment_is_told_if_there_is_no_descriptor_to_keep_it_while_it_waits",
        ) {
            return;
        }
        let broker = Broker::start("test", 2).unwrap();
        let [(one, _), (home, _)] = met(&broker);
        let object = one.objects.enter(crate::ObjectKind::Segment, "s", one.seat).unwrap();
        let _open = one.open_object(object.clone());
        let [peer, asking] =
            [(&home, &one), (&one, &home)].map(|(at, other)| at.peers.lock().unwrap()[&other.number].clone());
        let (entry, generation, bytes) = (u64::from(object.index()), 1, 4096);
        let life = crate::SegmentLife { object: object.index(), generation: 1 };
        let _segment = home.make_segment(home.number, life, &object, "s", bytes, Deadline::NEVER).unwrap();
        let made_for_it = Frame::SegmentMake { request: 0, entry, generation: 2, bytes };
        let passed_on = Frame::SegmentOpen { request: 0, entry, generation };
        for (asked, expected) in [(made_for_it, Refused::Descriptors), (passed_on, Refused::Contended)] {
            while !peer.is_backed_up() {
                peer.send(&Frame::Pong { count: 0 }).unwrap();
            }
            let mut files: Vec<_> = std::iter::from_fn(|| wakeup::new().ok()).collect();
            let is_to_make = expected == Refused::Descriptors;
            if is_to_make {
                // For the segment itself.
                files.pop();
            }
            wakeup::hush(&home.wake);
            home.serve_segments(&peer, asked, None);
            // Whoever makes it tells that the answer waits.
            assert!(!is_to_make || poll::is_readable_within(&home.wake, Some(Duration::from_secs(10))));
            let began = Instant::now();
            loop {
                assert!(began.elapsed() < Duration::from_secs(10), "nothing is said of {asked:?}");
                match asking.socket().unwrap().receive() {
                    Received::Frame(Frame::SegmentRefuse { reason, .. }, _) => {
                        break assert_eq!(reason, expected as u64);
                    }
                    Received::Nothing => _ = peer.socket().unwrap().send_waiting(),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn a_heap_that_was_not_passed_in_time_is_asked_for_no_more_when_it_is_needed_no_more() {
        let broker = Broker::start("test", 3).unwrap();
        let mut nodes = met(&broker);
        let third = introduce_without_its_descriptor(&broker, &nodes);
        let [one, other] = [0, 1].map(|node: usize| nodes[node].0.clone());
        let (other_control, key) = (&mut nodes[1].1, PEERS + u64::from(one.number.0));
        other_control.serve_peer(&other, key);
        assert!(!other_control.missing.is_empty() && read(&other.heaps).is_passed(third.number));
        other_control.ask_at = Deadline::NOW;
        other_control.duties(&other, false);
        third.leave();
        one.release_heaps();
        // The question meets the release on its way: to answer it would have the heap kept for ever.
        nodes[0].1.serve_peer(&one, PEERS + u64::from(other.number.0));
        let other_control = &mut nodes[1].1;
        other_control.serve_peer(&other, key);
        assert!(other_control.missing.is_empty() && !read(&other.heaps).is_passed(third.number));
        assert!(other.heap_of(third.number).is_none());
    }

    #[test]
    fn what_a_home_made_for_one_that_gave_up_goes_although_somebody_has_the_name_by_now() {
        let broker = Broker::start("test", 2).unwrap();
        let mut nodes = met(&broker);
        let [one, home] = [0, 1].map(|node: usize| nodes[node].0.clone());
        let object = one.objects.enter(crate::ObjectKind::Segment, "s", one.seat).unwrap();
        let _next_life = one.open_object(object.clone());
        let life = crate::SegmentLife { object: object.index(), generation: 1 };
        let error = one.make_segment(home.number, life, &object, "s", 4096, Deadline::NOW).unwrap_err();
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
