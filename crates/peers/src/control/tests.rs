//! Control threads by hand: this thread does their work, in the order that a test is about.

use std::os::fd::AsFd;
use std::time::Instant;

use deck_segment::{HeapMemory, HeapOptions};
use deck_sync::ErrorKind;
use deck_sync::locks::{read, write};

use super::*;
use crate::alone;
use crate::broker::Broker;
use crate::membership::{Door, Granted, Handler};
use crate::poll;
use crate::socket::{pair, wait_for_the_end};
use crate::wire::Refusal;

mod passing;
mod unruly;

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
            control.serve_peer(membership, other, TURN);
            // Another test may have so many descriptors on their way that these have to wait.
            control.duties(membership, false);
        }
    }
    nodes
}

/// Does the work of both until it is so.
#[track_caller]
fn serve_until(nodes: &mut [(Arc<Membership>, Control); 2], is_so: impl Fn() -> bool) {
    let (began, others) = (Instant::now(), [nodes[1].0.number, nodes[0].0.number]);
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(10), "it does not come to that");
        for ((membership, control), other) in nodes.iter_mut().zip(others) {
            control.serve_broker(membership);
            control.serve_peer(membership, other, TURN);
            control.duties(membership, false);
        }
    }
}

/// A handler with a mistake.
struct Mistaken;

impl Handler for Mistaken {
    fn ring_requested(&self, _: &Arc<Peer>, _: u32, _: u32, _: u64) -> Result<Granted, Refusal> {
        unreachable!("nobody asks for a ring")
    }
    fn ring_closed(&self, _: NodeId, _: u64) -> u32 {
        unreachable!("nobody has a ring")
    }
    fn ring_refused(&self, _: NodeId) {}
    fn room_wanted(&self, _: NodeId, _: u64) {}
    fn ring_ended(&self, _: NodeId, _: u64, _: u32) {}
    fn node_gone(&self, _: NodeId, _: bool) {
        panic!("on purpose, in a control thread");
    }
    fn peer_gone(&self, _: NodeId, _: bool) {}
    fn heap_introduced(&self) {}
    fn heap_forgotten(&self, _: NodeId) {}
    fn tick(&self) -> bool {
        false
    }
    fn cut_off(&self) {}
}

#[test]
fn a_node_whose_control_thread_panics_is_waited_for_by_nobody() {
    let broker = Broker::start("test", 2).unwrap();
    let [one, other] = [(); 2].map(|()| join(broker.invite().unwrap()).unwrap());
    let handler: Arc<dyn Handler> = Arc::new(Mistaken);
    one.start(Arc::downgrade(&handler)).unwrap();
    other.leave();
    let began = Instant::now();
    while one.table.is_live(one.number) {
        assert!(began.elapsed() < Duration::from_secs(10), "it stays a node");
        poll::pause(Duration::from_millis(1));
    }
    assert_eq!(one.table.state(one.number), Some(crate::NodeState::Lost));
}

#[test]
fn a_connection_that_ends_is_a_death() {
    let broker = Broker::start("test", 2).unwrap();
    let [(one, mut control), (other, _)] = met(&broker);
    let peer = one.peers.lock().unwrap()[&other.number].clone();
    other.peers.lock().unwrap().clear();
    wait_for_the_end(peer.socket().unwrap());
    control.serve_peer(&one, other.number, TURN);
    assert_eq!(one.table.state(other.number), Some(crate::NodeState::Lost));
}

#[test]
fn a_node_that_has_ended_is_dead_although_it_never_took_the_connection_up() {
    let broker = Broker::start("test", 2).unwrap();
    let [one, other] = [(); 2].map(|()| join(broker.invite().unwrap()).unwrap());
    let mut control = Control::new(&one).unwrap();
    let (ours, theirs) = pair().unwrap();
    control.introduced(&one, other.number, other.seat, ours);
    drop(theirs);
    let peer = one.peers.lock().unwrap()[&other.number].clone();
    wait_for_the_end(peer.socket().unwrap());
    control.ended(&one, other.number);
    assert_eq!(one.table.state(other.number), Some(crate::NodeState::Lost));
}

/// Has the broker of the first node, which is said to live in the second, hang up.
fn end_broker_of(nodes: &mut [(Arc<Membership>, Control); 2], broker: Broker) {
    let [(one, control), (other, _)] = nodes;
    one.broker_node.store(u64::from(other.number.0), Ordering::Relaxed);
    drop(broker);
    wait_for_the_end(&one.broker());
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
    let peer = leaving.peers.lock().unwrap()[&staying.number].clone();
    staying.peers.lock().unwrap().clear();
    wait_for_the_end(peer.socket().unwrap());
    control.serve_peer(&leaving, staying.number, TURN);
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
            answering.serve_peer(&other, one.number, TURN);
            asking.serve_peer(&one, other.number, TURN);
        }
    }
    let at_most = 1 + began.elapsed().as_millis() / ASK_EVERY.as_millis();
    assert!((1..=at_most).contains(&asked), "{asked} in {:?}", began.elapsed());
}

#[test]
fn what_a_duty_has_to_say_and_finds_no_room_for_is_tried_again_soon() {
    let broker = Broker::start("test", 3).unwrap();
    let [(one, mut control), (other, _)] = met(&broker);
    let third = join(broker.invite().unwrap()).unwrap();
    let peer = one.peers.lock().unwrap()[&other.number].clone();
    one.introduce_heap(&peer, third.heap()).unwrap();
    third.leave();
    while !peer.is_backed_up() {
        peer.send(&Frame::Pong { count: 0 }).unwrap();
    }
    // Nothing waits, but there is no room for more.
    peer.socket().unwrap().take_back(|_| true);
    control.tick = Some((TICK_FIRST, Deadline::NOW));
    let again = control.duties(&one, false);
    assert!(peer.is_backed_up(), "the heap is not released");
    assert_eq!(again, Some(TICK_FIRST));
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
        control.serve_peer(&one, number, TURN);
    }
    assert_eq!(meeting.join().unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    assert!(asked <= 4, "asked {asked} times");
}

#[test]
fn a_node_that_leaves_still_tells_who_reads_again_where_messages_lie_though_another_does_not_read() {
    let broker = Broker::start("test", 4).unwrap();
    let [leaving, stopped, reading, third] = [(); 4].map(|()| join(broker.invite().unwrap()).unwrap());
    let control = Control::new(&leaving).unwrap();
    let [_unread, read] = [&stopped, &reading].map(|other| {
        let (ours, theirs) = pair().unwrap();
        control.introduced(&leaving, other.number, other.seat, ours);
        let peer = leaving.peers.lock().unwrap()[&other.number].clone();
        while !peer.is_backed_up() {
            peer.send(&Frame::Pong { count: 0 }).unwrap();
        }
        leaving.introduce_heap(&peer, third.heap()).unwrap();
        Socket::new(theirs)
    });
    while let Received::Frame(..) = read.receive() {}
    leaving.leave();
    let received = std::iter::from_fn(|| match read.receive() {
        Received::Frame(frame, passed) => Some((frame, passed.is_some())),
        _ => None,
    });
    let heap = Frame::Heap { number: u64::from(third.number.0), seat: u64::from(third.seat.0) };
    assert!(received.collect::<Vec<_>>().contains(&(heap, true)));
}

#[test]
fn what_another_node_of_the_process_received_is_found_here_when_what_this_one_received_is_gone() {
    let broker = Broker::start("test", 3).unwrap();
    let [one, other, third] = [(); 3].map(|()| join(broker.invite().unwrap()).unwrap());
    let [view, others_view] = [&one, &other].map(|node| {
        let passed = third.heap().segment().as_fd().try_clone_to_owned().unwrap();
        write(&node.heaps).enter(third.number, third.seat, passed, node.seat).unwrap()
    });
    write(&one.heaps).forget(third.number);
    one.introduce_here(&others_view);
    drop(view);
    assert!(Arc::ptr_eq(&one.heap_of(third.number).unwrap(), &others_view));
}
