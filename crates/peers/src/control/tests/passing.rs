//! Heaps and segments that are passed from node to node, and what becomes of them where there is no descriptor for
//! them.

use super::*;

/// A node opens the name of a segment.
fn open_segment(node: &Arc<Membership>) -> (crate::Object, crate::OpenObject) {
    let turn = node.opening(Deadline::NEVER).unwrap();
    let object = turn.enter(crate::ObjectKind::Segment, "s", |_, _| true).unwrap();
    (object.clone(), turn.open(object))
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

/// A node that has met another one, played by hand, which asks for a ring; the descriptor of its heap was left behind
/// on the way.
struct Asked {
    broker: Broker,
    one: Arc<Membership>,
    control: Control,
    other: Arc<Membership>,
    asking: Socket,
    hello: Frame,
}

impl Asked {
    fn for_a_ring(request: u64) -> Asked {
        let broker = Broker::start("test", 2).unwrap();
        let [one, other] = [(); 2].map(|()| join(broker.invite().unwrap()).unwrap());
        let mut control = Control::new(&one).unwrap();
        let (ours, theirs) = pair().unwrap();
        control.introduced(&one, other.number, other.seat, ours);
        let asking = Socket::new(theirs);
        let (number, seat) = (u64::from(other.number.0), u64::from(other.seat.0));
        let hello = Frame::Hello { number, seat, process: 0 };
        asking.send(&hello, None).unwrap();
        asking.send(&Frame::RingRequest { request, mailbox: 0, generation: 0, credit: 0 }, None).unwrap();
        control.serve_peer(&one, other.number, TURN);
        assert_eq!(control.put_off.len(), 1);
        Asked { broker, one, control, other, asking, hello }
    }
}

#[test]
fn what_was_asked_by_one_that_ends_before_its_heap_could_be_mapped_is_forgotten() {
    let Asked { broker: _broker, one, mut control, other, asking, .. } = Asked::for_a_ring(0);
    drop(asking);
    let peer = one.peers.lock().unwrap()[&other.number].clone();
    wait_for_the_end(peer.socket().unwrap());
    control.serve_peer(&one, other.number, TURN);
    assert!(control.put_off.is_empty() && one.peers.lock().unwrap().is_empty());
}

#[test]
fn who_asks_for_a_ring_is_told_if_there_is_no_room_for_its_heap_for_long() {
    let Asked { broker: _broker, one, mut control, other, asking, hello } = Asked::for_a_ring(7);
    let soon = Deadline::after(Duration::from_secs(30));
    let refused = loop {
        assert!(!soon.has_passed(), "nobody says anything");
        control.serve_peer(&one, other.number, TURN);
        control.ask_for_the_missing(&one);
        match asking.receive() {
            // As if the descriptor were left behind on the way each time.
            Received::Frame(Frame::HeapWanted { .. }, _) => asking.send(&hello, None).unwrap(),
            Received::Frame(Frame::RingRefuse { request: 7, reason }, _) => break Refusal::from_word(reason),
            Received::Nothing => poll::pause(Duration::from_millis(1)),
            _ => {}
        }
    };
    assert_eq!((refused, refused.of_a_ring().kind()), (Refusal::NoRoom, ErrorKind::NoMemory));
    assert!(control.put_off.is_empty());
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
    let (object, _open) = open_segment(&one);
    let life = crate::SegmentLife { object: object.number(), generation: 1 };
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
        "control::tests::passing::who_asks_for_a_segment_is_told_if_there_is_no_descriptor_to_keep_it_while_it_waits",
    ) {
        return;
    }
    let broker = Broker::start("test", 2).unwrap();
    let [(one, _), (home, _)] = met(&broker);
    let (object, _open) = open_segment(&one);
    let [peer, asking] =
        [(&home, &one), (&one, &home)].map(|(at, other)| at.peers.lock().unwrap()[&other.number].clone());
    let (entry, generation, bytes) = (u64::from(object.number()), 1, 4096);
    let life = crate::SegmentLife { object: object.number(), generation: 1 };
    let _segment = home.make_segment(home.number, life, &object, "s", bytes, Deadline::NEVER).unwrap();
    let made_for_it = Frame::SegmentMake { request: 0, entry, generation: 2, bytes };
    let passed_on = Frame::SegmentOpen { request: 0, entry, generation };
    for (asked, expected) in [(made_for_it, Refusal::Descriptors), (passed_on, Refusal::Contended)] {
        while !peer.is_backed_up() {
            peer.send(&Frame::Pong { count: 0 }).unwrap();
        }
        let mut files: Vec<_> = std::iter::from_fn(|| wakeup::new().ok()).collect();
        let is_to_make = expected == Refusal::Descriptors;
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
    let (object, _next_life) = open_segment(&one);
    let life = crate::SegmentLife { object: object.number(), generation: 1 };
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
