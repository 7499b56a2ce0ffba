//! Peers that say too much, what is no frame, or do not read what they are answered.

use super::*;
use crate::peer::Peer;

/// Each node's view of the other.
fn peers(nodes: &[(Arc<Membership>, Control); 2]) -> [Arc<Peer>; 2] {
    [(0, 1), (1, 0)].map(|(at, other)| nodes[at].0.peers.lock().unwrap()[&nodes[other].0.number].clone())
}

#[test]
fn one_that_sends_without_end_is_heard_a_while_at_a_time() {
    let broker = Broker::start("test", 2).unwrap();
    let mut nodes = met(&broker);
    let [to_other, to_one] = peers(&nodes);
    let ((one, control), other) = (&mut nodes[0], to_other.number());
    (0..2 * TURN as u64).for_each(|count| to_one.send(&Frame::Ping { count }).unwrap());
    control.serve_peer(one, other, TURN);
    assert_eq!(answers(to_one.socket().unwrap()), TURN);
    control.serve_peer(one, other, TURN);
    assert_eq!(answers(to_one.socket().unwrap()), TURN);
    assert!(to_other.gone().is_none());
}

fn answers(socket: &Socket) -> usize {
    std::iter::from_fn(|| Some(socket.receive()).filter(|received| matches!(received, Received::Frame(..)))).count()
}

#[test]
fn bytes_that_are_no_frame_end_nobody() {
    let broker = Broker::start("test", 2).unwrap();
    let mut nodes = met(&broker);
    let [_, to_one] = peers(&nodes);
    for bytes in [&b""[..], b"hello"] {
        rustix::net::send(to_one.socket().unwrap(), bytes, rustix::net::SendFlags::empty()).unwrap();
    }
    to_one.ask();
    serve_until(&mut nodes, || !to_one.has_open_question());
    assert!(nodes.iter().all(|(node, _)| nodes[0].0.table.is_live(node.number)));
}

#[test]
fn one_that_asks_for_segments_and_does_not_read_holds_few_descriptors() {
    let broker = Broker::start("test", 2).unwrap();
    let nodes = met(&broker);
    let [one, asker] = [0, 1].map(|node: usize| nodes[node].0.clone());
    let object = one.objects.enter(crate::ObjectKind::Segment, "s", one.seat, |_, _| true).unwrap();
    let life = crate::SegmentLife { object: object.number(), generation: 1 };
    let _segment = one.make_segment(one.number, life, &object, "s", 4096, Deadline::NEVER).unwrap();
    let [to_asker, _] = peers(&nodes);
    while !to_asker.is_backed_up() {
        to_asker.send(&Frame::Bye {}).unwrap();
    }
    for request in 0..1000 {
        let open = Frame::SegmentOpen { request, entry: u64::from(object.number()), generation: 1 };
        one.serve_segments(&to_asker, open, None);
    }
    let granted = to_asker.waiting(|frame| matches!(frame, Frame::SegmentGrant { .. }));
    assert!((1..=16).contains(&granted), "{granted} wait");
    let refused = to_asker
        .waiting(|frame| matches!(frame, Frame::SegmentRefuse { reason, .. } if *reason == Refusal::Contended as u64));
    assert_eq!(granted + refused, 1000);
    assert!(one.table.is_live(asker.number));
}

#[test]
fn one_that_asks_on_and_on_and_reads_no_answer_is_not_heard_any_more() {
    let broker = Broker::start("test", 2).unwrap();
    let mut nodes = met(&broker);
    let [to_asker, to_one] = peers(&nodes);
    let (asker, mut asked) = (nodes[1].0.number, 0);
    while to_asker.gone().is_none() {
        assert!(asked < 100_000, "it is heard for ever");
        for request in asked..asked + TURN as u64 {
            to_one.send(&Frame::RingRequest { request, mailbox: 0, generation: 0, credit: 0 }).unwrap();
        }
        asked += TURN as u64;
        let (one, control) = &mut nodes[0];
        control.serve_peer(one, asker, TURN);
    }
    assert_eq!(to_asker.waiting(|_| true), 0, "its answers are kept");
    assert!(nodes[0].0.table.is_live(asker), "it is gone for others, too");
}
