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
use crate::wire::Refused;

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
    fn ring_requested(&self, _: &Arc<Peer>, _: u32, _: u32, _: u64) -> Result<Granted, Refused> {
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

/// The first of them introduces the heap of a third node, of which the descriptor does not arrive.
fn introduce_without_its_descriptor(broker: &Broker, nodes: &[(Arc<Membership>, Control); 2]) -> Arc<Membership> {
    let third = join(broker.invite().unwrap()).unwrap();
    let one = &nodes[0].0;
    let heap = third.heap().segment().as_fd().try_clone_to_owned().unwrap();
    let heap = write(&one.heaps).enter(third.number, third.seat, heap, one.seat).unwrap();
    pass_without_its_descriptor(nodes, &heap);
    third
}

/// The first of them introduces a heap, of which the descriptor does not arrive.
fn pass_without_its_descriptor(nodes: &[(Arc<Membership>, Control); 2], heap: &Arc<HeapMemory>) {
    let [one, other] = [0, 1].map(|node: usize| nodes[node].0.clone());
    let peer = one.peers.lock().unwrap()[&other.number].clone();
    one.introduce_heap(&peer, heap).unwrap();
    let Some(Received::Frame(frame, Some(_))) =
        other.peers.lock().unwrap()[&one.number].socket().map(|socket| socket.receive())
    else {
        panic!("it is not introduced");
    };
    peer.send(&frame).unwrap();
}

#[test]
fn a_heap_that_comes_without_its_descriptor_is_asked_for_again_and_nobody_is_dead() {
    let broker = Broker::start("test", 3).unwrap();
    let mut nodes = met(&broker);
    let third = introduce_without_its_descriptor(&broker, &nodes);
    let [one, other] = [0, 1].map(|node: usize| nodes[node].0.clone());
    serve_until(&mut nodes, || other.heap_of(third.number).is_some());
    assert!(nodes[1].1.missing.is_empty() && other.table.is_live(one.number));
}

#[test]
fn a_heap_that_another_node_of_the_process_has_is_passed_again_by_one_that_never_met_its_owner() {
    let broker = Broker::start("test", 3).unwrap();
    let mut nodes = met(&broker);
    let third = join(broker.invite().unwrap()).unwrap();
    pass_without_its_descriptor(&nodes, third.heap());
    let [one, other] = [0, 1].map(|node: usize| nodes[node].0.clone());
    serve_until(&mut nodes, || other.heap_of(third.number).is_some());
    assert!(one.heap_of(third.number).is_none());
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
fn what_was_asked_by_one_that_ends_before_its_heap_could_be_mapped_is_forgotten() {
    let broker = Broker::start("test", 2).unwrap();
    let [one, other] = [(); 2].map(|()| join(broker.invite().unwrap()).unwrap());
    let mut control = Control::new(&one).unwrap();
    let (ours, theirs) = pair().unwrap();
    control.introduced(&one, other.number, other.seat, ours);
    let asking = Socket::new(theirs);
    let (number, seat) = (u64::from(other.number.0), u64::from(other.seat.0));
    // As if the descriptor had been left behind on the way.
    asking.send(&Frame::Hello { number, seat, process: 0 }, None).unwrap();
    asking.send(&Frame::RingRequest { request: 0, mailbox: 0, generation: 0, credit: 0 }, None).unwrap();
    control.serve_peer(&one, other.number, TURN);
    assert_eq!(control.put_off.len(), 1);
    drop(asking);
    let peer = one.peers.lock().unwrap()[&other.number].clone();
    wait_for_the_end(peer.socket().unwrap());
    control.serve_peer(&one, other.number, TURN);
    assert!(control.put_off.is_empty() && one.peers.lock().unwrap().is_empty());
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
            nodes[0].1.serve_peer(&one, home.number, TURN);
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
    let other_control = &mut nodes[1].1;
    other_control.serve_peer(&other, one.number, TURN);
    assert!(!other_control.missing.is_empty() && read(&other.heaps).is_passed(third.number));
    other_control.ask_at = Deadline::NOW;
    other_control.duties(&other, false);
    third.leave();
    one.release_heaps();
    // The question meets the release on its way: to answer it would have the heap kept for ever.
    nodes[0].1.serve_peer(&one, other.number, TURN);
    let other_control = &mut nodes[1].1;
    other_control.serve_peer(&other, one.number, TURN);
    assert!(other_control.missing.is_empty() && !read(&other.heaps).is_passed(third.number));
    assert!(other.heap_of(third.number).is_none());
}

#[test]
fn a_node_is_reclaimed_although_its_heap_is_missing_somewhere_and_what_lies_there_is_passed_later() {
    let broker = Broker::start("test", 3).unwrap();
    let mut nodes = met(&broker);
    let third = introduce_without_its_descriptor(&broker, &nodes);
    let [one, other] = [0, 1].map(|node: usize| nodes[node].0.clone());
    let buffer = third.heap().allocate(100).unwrap();
    // In flight: whoever has posted it has a handle.
    let posted = one.heap_of(third.number).unwrap().receive(&buffer.name()).unwrap();
    nodes[1].1.serve_peer(&other, one.number, TURN);
    assert!(!nodes[1].1.missing.is_empty());
    drop(buffer);
    third.leave();
    let began = Instant::now();
    while one.table.node_on(third.seat).is_some() {
        assert!(began.elapsed() < Duration::from_secs(10), "it is not reclaimed");
        nodes.iter_mut().for_each(|(membership, control)| control.serve_broker(membership));
    }
    serve_until(&mut nodes, || other.heap_of(third.number).is_some());
    drop(posted);
    one.release_heaps();
    serve_until(&mut nodes, || other.heap_of(third.number).is_none());
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
        control.serve_peer(membership, other, TURN);
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
