//! Jobs joined by name, and a broker whose members are slow: one name is one job, whoever comes and goes.

mod job;

use std::os::fd::{AsFd, BorrowedFd};

use deck_mudeck::{Door, ErrorKind, Node, NodeId, NodeState};
use deck_peers::Broker;
use deck_peers::wire::Frame;
use job::{SOON, filled, invited, job_name, leave_seen_by, named};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

#[test]
fn a_job_does_not_split_in_two_when_the_node_that_listens_leaves_while_another_joins() {
    for round in 0..5 {
        let name = job_name(&format!("split-{round}"));
        let (first, second) = (named(&name), named(&name));
        first.leave().unwrap();
        let third = named(&name);
        assert_eq!((third.number(), third.count()), (NodeId(2), 3));
        let mailbox = third.mailbox("box").unwrap();
        second.clone_mailbox("box", SOON).unwrap().post(filled(&second, 5000, 1), SOON).unwrap();
        assert_eq!(mailbox.retrieve(SOON).unwrap().sender(), Some(NodeId(1)));
    }
}

#[test]
fn a_name_that_no_job_can_have_is_refused_and_takes_no_name() {
    for name in ["", "two words", "a/b", "a\nb", "a\0b", "Größe", &"n".repeat(64)] {
        let refused = Node::join_by(Door::Named(name.to_owned())).err().map(|error| error.kind());
        assert_eq!(refused, Some(ErrorKind::Invalid), "{name:?}");
    }
}

#[test]
fn nodes_that_had_not_met_can_meet_while_the_node_that_listens_changes() {
    for round in 0..5 {
        let name = job_name(&format!("meet-{round}"));
        let [first, _second, third, fourth] = [(); 4].map(|()| named(&name));
        let mailbox = fourth.mailbox("box").unwrap();
        first.leave().unwrap();
        third.clone_mailbox("box", SOON).unwrap().post(filled(&third, 5000, 1), SOON).unwrap();
        assert_eq!(mailbox.retrieve(SOON).unwrap().sender(), Some(NodeId(2)));
        assert_eq!(third.state(fourth.number()).unwrap(), NodeState::Live);
    }
}

#[test]
fn a_job_goes_on_when_one_node_that_listens_after_the_other_leaves() {
    let name = job_name("relay");
    let mut last = named(&name);
    for number in 1..6 {
        let next = named(&name);
        assert_eq!(next.number(), NodeId(number));
        leave_seen_by(last, &next);
        last = next;
    }
}

#[test]
fn a_name_can_be_joined_anew_although_a_message_of_the_old_job_is_still_there() {
    let name = job_name("again");
    let first = named(&name);
    let (message, mailbox) = (first.message(), first.mailbox("old").unwrap());
    first.leave().unwrap();
    let second = named(&name);
    assert_eq!(second.number(), NodeId(0));
    second.mailbox("old").unwrap();
    drop((message, mailbox));
}

#[test]
fn a_process_has_one_node_at_a_time_through_an_invitation() {
    let broker = Broker::start("test", 2).unwrap();
    let invitation = broker.invite().unwrap();
    let come = || Node::join_by(Door::Invited(invitation.try_clone().unwrap()));
    let first = come().unwrap();
    let other = invited(&broker);
    let mailbox = other.mailbox("box").unwrap();
    for _ in 0..3 {
        let error = come().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    // Nobody has read what the first one was told.
    first.clone_mailbox("box", SOON).unwrap().post(filled(&first, 5000, 1), SOON).unwrap();
    assert_eq!(mailbox.retrieve(SOON).unwrap().sender(), Some(first.number()));
    let message = first.message();
    first.leave().unwrap();
    assert_eq!(come().unwrap().number(), NodeId(2));
    drop(message);
}

/// Waits until the socket can be read or written.
fn wait_for(socket: BorrowedFd<'_>, flags: PollFlags) {
    let timeout = Timespec { tv_sec: SOON.as_secs() as i64, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&socket, flags)], Some(&timeout)).unwrap();
    assert_eq!(ready, 1, "the broker did not get on");
}

fn send(socket: BorrowedFd<'_>, frame: Frame) {
    while let Err(errno) = rustix::net::send(socket, &frame.encode(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        assert_eq!(errno, Errno::AGAIN);
        wait_for(socket, PollFlags::OUT);
    }
}

fn receive(socket: BorrowedFd<'_>) -> Frame {
    let mut bytes = [0u8; Frame::BYTES_MAX];
    loop {
        match rustix::net::recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((_, size)) => return Frame::decode(&bytes[..size]).unwrap(),
            Err(errno) => assert_eq!(errno, Errno::AGAIN),
        }
        wait_for(socket, PollFlags::IN);
    }
}

#[test]
fn a_member_that_reads_late_gets_every_answer_of_the_broker() {
    use std::os::unix::fs::MetadataExt;
    const QUESTIONS: usize = 1000;
    let broker = Broker::start("late", 1).unwrap();
    let socket = broker.invite().unwrap();
    let network = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
    send(socket.as_fd(), Frame::Join { process: u64::from(std::process::id()), network, fences: 0, retries: 0 });
    for _ in 0..QUESTIONS {
        // About a node that never was: each is answered.
        send(socket.as_fd(), Frame::Connect { to: 77 });
    }
    assert!(matches!(receive(socket.as_fd()), Frame::Welcome { number: 0, .. }));
    for _ in 0..QUESTIONS {
        let frame = receive(socket.as_fd());
        assert_eq!(frame, Frame::NotIntroduced { peer: 77 });
    }
}
