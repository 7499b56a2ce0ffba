use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use deck_peers::{Broker, Door, Handler, Refusal};
use deck_segment::Region;
use deck_sync::locks::lock;
use deck_sync::{Deadline, ErrorKind, Event};
use deck_transport::Shape;
use deck_transport::segment::ring::MESSAGES_MAX;

use super::boxes::{AREA_LINES, Boxes, FREE_PLACES};
use super::{Node, NodeShared};
use crate::cloning::Cloning;
use crate::inbox::Ring;
use crate::mailbox::{Core, Mailbox, MailboxOptions};
use crate::testing::{SOON, wait_until};

fn job() -> (Broker, [Arc<NodeShared>; 2]) {
    let broker = Broker::start("test", 2).unwrap();
    let nodes = [(); 2].map(|()| NodeShared::join(Door::Invited(broker.invite().unwrap())).unwrap());
    (broker, nodes)
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn the_place_of_a_mail_box_that_was_closed_rests_while_many_others_come_and_go() {
    let (_broker, [node, _]) = job();
    let index_of_next = || {
        let core = node.open(None, &MailboxOptions::default()).unwrap();
        node.close(&core);
        core.id.index
    };
    let first = index_of_next();
    let others: Vec<u32> = (0..FREE_PLACES).map(|_| index_of_next()).collect();
    assert!(!others.contains(&first));
    assert_eq!(index_of_next(), first);
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn a_mail_box_is_for_some_messages_and_some_bytes_or_is_refused() {
    let (_broker, [node, _]) = job();
    let open = |messages, bytes| node.open(None, &MailboxOptions { messages, bytes });
    for (messages, bytes) in [(0, 1), (MESSAGES_MAX + 1, 1), (u32::MAX, 1), (1, 0)] {
        assert_eq!(open(messages, bytes).err().unwrap().kind(), ErrorKind::Invalid, "{messages}, {bytes}");
    }
    node.close(&open(1, 1).unwrap());
    node.close(&open(MESSAGES_MAX, u64::MAX).unwrap());
}

#[test]
fn a_ring_takes_less_than_8_kib_of_its_owner() {
    let MailboxOptions { messages, bytes, .. } = MailboxOptions::default();
    let shared = Shape::mapped(messages, bytes, AREA_LINES).ring_bytes();
    let own = size_of::<Option<Ring>>();
    assert!(
        shared + own < 7 << 10,
        "{shared} bytes in the segment and {own} beside it; what is made for it comes on top"
    );
}

/// The ring of `poster` at a mail box of `node` that is being closed.
fn ring_of_closed_box(node: &NodeShared, poster: &Arc<NodeShared>) -> (Ring, Arc<Region>) {
    let core = node.open(Some("box"), &MailboxOptions::default()).unwrap();
    poster.clone_by_id(core.id, Some("box"), Deadline::after(SOON)).unwrap();
    let (mut rings, area) = core.close().unwrap();
    assert_eq!(rings.len(), 1);
    (rings.remove(0), area)
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn a_ring_is_freed_although_its_poster_answers_before_whoever_asked_goes_on() {
    let (_broker, [node, poster]) = job();
    let (ring, area) = ring_of_closed_box(&node, &poster);
    let id = ring.id;
    node.keep(ring, area);
    node.ring_ended(node.number(), id, 0);
    assert_eq!(lock(&node.closed_rings).len(), 1, "another node's word");
    node.ring_ended(poster.number(), id, 0);
    assert!(lock(&node.closed_rings).is_empty());
    node.tell_poster(poster.number(), id);
    assert!(lock(&node.closed_rings).is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn a_ring_is_freed_although_its_poster_is_gone_before_it_is_asked_for_the_tail() {
    let (_broker, [node, poster]) = job();
    let (ring, area) = ring_of_closed_box(&node, &poster);
    let peer = node.membership().meet(poster.number(), Deadline::after(SOON)).unwrap();
    poster.leave();
    wait_until("the departure is known", || peer.gone().is_some());
    node.peer_gone(poster.number(), false);
    node.give_up(ring, area);
    assert!(lock(&node.closed_rings).is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn nobody_but_its_poster_ends_a_ring() {
    let (_broker, [node, poster]) = job();
    let core = node.open(Some("box"), &MailboxOptions::default()).unwrap();
    poster.clone_by_id(core.id, Some("box"), Deadline::after(SOON)).unwrap();
    let ring = poster.poster_to(core.id).unwrap().ring;
    let is_there = || core.inbox.lock().ring(poster.number(), ring).is_some();
    node.ring_ended(node.number(), ring, 0);
    assert!(is_there());
    node.ring_ended(poster.number(), ring, 1);
    assert!(is_there(), "a message is still to come");
    node.ring_ended(poster.number(), ring, 0);
    assert!(!is_there());
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn whoever_asks_for_a_ring_names_a_mail_box_that_is_there_and_memory_of_its_own() {
    let (_broker, [node, poster]) = job();
    let core = node.open(None, &MailboxOptions::default()).unwrap();
    poster.membership().meet(node.number(), Deadline::after(SOON)).unwrap();
    let peer = node.membership().meet(poster.number(), Deadline::after(SOON)).unwrap();
    let credits = poster.credit_region().unwrap();
    let (right, end) = (credits.offset() as u64, poster.heap().segment().bytes() as u64);
    let refused = |life: u32, credit: u64| node.ring_requested(&peer, core.id.index, life, credit).err();
    for wrong in [right + 8, end, end - 64, u64::MAX - 63, u64::MAX] {
        assert_eq!(refused(core.id.generation, wrong), Some(Refusal::Nonsense), "{wrong:#x}");
    }
    assert_eq!(refused(core.id.generation + 1, right), Some(Refusal::Closed));
    assert_eq!(refused(core.id.generation, right), None);
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn no_ring_is_kept_for_a_node_that_is_gone() {
    let (_broker, [node, poster]) = job();
    let (ring, area) = ring_of_closed_box(&node, &poster);
    node.keep(ring, area);
    node.peer_gone(poster.number(), true);
    assert!(lock(&node.closed_rings).is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn a_mail_box_whose_name_is_taken_leaves_nothing() {
    let (_broker, [node, _]) = job();
    let core = node.open(Some("taken"), &MailboxOptions::default()).unwrap();
    assert!(node.open(Some("taken"), &MailboxOptions::default()).is_err());
    assert_eq!(node.all_boxes().len(), 1);
    node.close(&core);
}

/// A mail box of `owner` that `poster` tried to clone, and did not wait for: the answer comes when the guard goes.
fn tried_to_clone<'a>(owner: &'a NodeShared, poster: &Arc<NodeShared>) -> (Arc<Core>, MutexGuard<'a, Boxes>) {
    let core = owner.open(Some("box"), &MailboxOptions::default()).unwrap();
    poster.membership().meet(owner.number(), Deadline::after(SOON)).unwrap();
    let held = lock(&owner.boxes);
    let error = poster.clone_by_id(core.id, Some("box"), Deadline::NOW).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(lock(&poster.asked).len(), 1);
    (core, held)
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn nothing_is_asked_any_more_of_a_node_that_is_gone() {
    let (_broker, [owner, poster]) = job();
    let (_core, _held) = tried_to_clone(&owner, &poster);
    poster.peer_gone(owner.number(), true);
    assert!(lock(&poster.asked).is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn a_ring_that_was_granted_too_late_is_not_kept_longer_than_its_mail_box() {
    let (_broker, [owner, poster]) = job();
    let (core, held) = tried_to_clone(&owner, &poster);
    drop(held);
    let is_granted = || lock(&poster.asked)[&core.id].0.said().is_some();
    wait_until("the ring is granted", is_granted);
    owner.close(&core);
    wait_until("the answer is forgotten", || lock(&poster.asked).is_empty());
    wait_until("the ring is freed", || lock(&owner.closed_rings).is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn a_ring_that_is_refused_when_nobody_waits_for_it_any_more_leaves_no_question() {
    let (_broker, [owner, poster]) = job();
    let (core, held) = tried_to_clone(&owner, &poster);
    core.close();
    drop(held);
    wait_until("the answer is forgotten", || lock(&poster.asked).is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn whoever_tries_to_clone_once_more_gets_the_ring_that_was_granted_too_late() {
    let (_broker, [owner, poster]) = job();
    let (core, held) = tried_to_clone(&owner, &poster);
    let asked = lock(&poster.asked)[&core.id].0.clone();
    drop(held);
    poster.clone_by_id(core.id, Some("box"), Deadline::after(SOON)).unwrap();
    let granted = asked.said().unwrap().as_ref().unwrap().ring;
    assert_eq!(poster.poster_to(core.id).unwrap().ring, granted);
    assert!(lock(&poster.asked).is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn a_try_to_clone_succeeds_if_the_mail_box_is_there() {
    let broker = Broker::start("test", 2).unwrap();
    let [owner, poster] = [(); 2].map(|()| Node::join_by(Door::Invited(broker.invite().unwrap())).unwrap());
    assert_eq!(poster.clone_mailbox("nobody's", Duration::ZERO).unwrap_err().kind(), ErrorKind::Timeout);
    let names: Vec<String> = (0..50).map(|number| format!("box {number}")).collect();
    let _boxes: Vec<Mailbox> = names.iter().map(|name| owner.mailbox(name).unwrap()).collect();
    let cloned = names.iter().filter(|name| poster.clone_mailbox(name, Duration::ZERO).is_ok()).count();
    // The owner's control thread may have to wait for a core, now and then.
    assert!(cloned > 25, "{cloned} of 50");
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn a_node_that_the_others_have_given_up_learns_it_and_waits_for_nothing() {
    let job = format!("given-up-{}", std::process::id());
    let [founder, given_up] = [(); 2].map(|()| Node::join_by(Door::Named(job.clone())).unwrap());
    let mailbox = given_up.mailbox("mine").unwrap();
    let waiting = std::thread::spawn(move || mailbox.retrieve(Duration::MAX).map(drop));
    // As a broker does that has not heard of it for long; then that broker's node leaves.
    assert!(founder.membership().table().set_gone(given_up.number(), true));
    founder.leave().unwrap();
    assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::NotInitialized);
    assert!(given_up.is_left());
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn a_clone_waits_for_the_next_mail_box_of_a_name_whose_owner_leaves_just_then() {
    let broker = Broker::start("test", 3).unwrap();
    let [here, leaving, heir] = [(); 3].map(|()| Node::join_by(Door::Invited(broker.invite().unwrap())).unwrap());
    let old = leaving.mailbox("name").unwrap();
    // As if another thread were at it: whoever clones has found the name, and waits here.
    let held = Arc::new(Event::new());
    lock(&here.shared.posters).insert(old.address().id, Cloning::UnderWay(held.clone()));
    std::thread::scope(|scope| {
        let cloning = scope.spawn(|| here.clone_mailbox("name", SOON));
        wait_until("the name is found", || Arc::strong_count(&held) == 3);
        leaving.leave().unwrap();
        lock(&here.shared.posters).clear();
        held.notify();
        let is_waiting = || here.membership().table().changed().has_sleepers();
        wait_until("the clone waits for the name", || is_waiting() || cloning.is_finished());
        let _new = heir.mailbox("name").unwrap();
        assert_eq!(cloning.join().unwrap().unwrap().owner(), heir.number());
    });
}
