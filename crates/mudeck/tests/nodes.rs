//! Several nodes in one process: everything but death, which needs real processes.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use deck_mudeck::{Door, ErrorKind, FOREVER, MailboxOptions, Message, Node, NodeId, NodeState, Thread};
use deck_peers::Broker;

const SOON: Duration = Duration::from_secs(20);
const TRY: Duration = Duration::ZERO;

fn job(count: u32) -> (Broker, Vec<Node>) {
    let broker = Broker::start("test", count).unwrap();
    let nodes = (0..count).map(|_| Node::join_by(Door::Invited(broker.invite().unwrap())).unwrap()).collect();
    (broker, nodes)
}

fn filled(node: &Node, size: usize, seed: u8) -> Message {
    let mut message = node.message();
    message.resize(size).unwrap();
    message.edit().unwrap().iter_mut().enumerate().for_each(|(at, byte)| *byte = (at as u8).wrapping_add(seed));
    message
}

#[test]
fn messages_of_every_size_arrive_in_order_from_another_node() {
    let (_broker, nodes) = job(2);
    assert_eq!((nodes[0].number(), nodes[1].number()), (NodeId(0), NodeId(1)));
    let mailbox = nodes[0].mailbox("box").unwrap();
    let clone = nodes[1].clone_mailbox("box", SOON).unwrap();
    let sizes = [0, 1, 62, 63, 64, 511, 512, 513, 1000, 4096, 100_000, 1 << 20, 16 << 20, 3];
    let poster = {
        let node = nodes[1].clone();
        std::thread::spawn(move || {
            for round in 0..20u8 {
                for size in sizes {
                    clone.post(filled(&node, size, round), SOON).unwrap();
                }
            }
        })
    };
    let mut message = nodes[0].message();
    for round in 0..20u8 {
        for size in sizes {
            mailbox.retrieve_into(&mut message, SOON).unwrap();
            assert_eq!((message.size(), message.sender()), (size, Some(NodeId(1))));
            let expected = (0..size).map(|at| (at as u8).wrapping_add(round));
            assert!(message.as_bytes().iter().copied().eq(expected), "{size} bytes in round {round}");
        }
    }
    poster.join().unwrap();
}

#[test]
fn threads_of_one_node_use_the_same_mail_boxes() {
    let node = Node::join_by(Door::Alone).unwrap();
    let mailbox = node.mailbox("own").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (node, mailbox) = (&node, &mailbox);
            scope.spawn(move || {
                for number in 0..1000u64 {
                    let mut message = node.message();
                    message.pack(&[thread, number]).unwrap();
                    mailbox.post(message, SOON).unwrap();
                }
            });
        }
        let mut next = [0u64; 4];
        for _ in 0..4000 {
            let mut content = [0u64; 2];
            mailbox.retrieve(SOON).unwrap().unpack(&mut content).unwrap();
            assert_eq!(next[content[0] as usize], content[1]);
            next[content[0] as usize] += 1;
        }
    });
    assert_eq!(mailbox.retrieve(TRY).unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!((mailbox.stats().posted, mailbox.stats().retrieved), (4000, 4000));
}

#[test]
fn several_retrievers_share_the_messages_of_one_mail_box() {
    let (_broker, nodes) = job(2);
    let mailbox = nodes[0].mailbox("shared").unwrap();
    let clone = nodes[1].clone_mailbox("shared", SOON).unwrap();
    let sum = std::thread::scope(|scope| {
        let retrievers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut sum = 0;
                    loop {
                        let mut number = [0u64];
                        mailbox.retrieve(SOON).unwrap().unpack(&mut number).unwrap();
                        if number[0] == 0 {
                            return sum;
                        }
                        sum += number[0];
                    }
                })
            })
            .collect();
        for number in (1..=3000u64).chain([0, 0, 0]) {
            let mut message = nodes[1].message();
            message.pack(&[number]).unwrap();
            clone.post(message, SOON).unwrap();
        }
        retrievers.into_iter().map(|retriever| retriever.join().unwrap()).sum::<u64>()
    });
    assert_eq!(sum, 3000 * 3001 / 2);
}

#[test]
fn a_full_mail_box_refuses_and_gives_the_message_back() {
    let (_broker, nodes) = job(2);
    let options = MailboxOptions { messages: 3, ..MailboxOptions::default() };
    let mailbox = nodes[0].mailbox_with(Some("small"), &options).unwrap();
    let clone = nodes[1].clone_mailbox("small", SOON).unwrap();
    for number in 0..3 {
        clone.post(filled(&nodes[1], 8, number), TRY).unwrap();
    }
    let refused = clone.post(filled(&nodes[1], 8, 3), Duration::from_millis(10)).unwrap_err();
    assert_eq!((refused.error.kind(), refused.error.peer()), (ErrorKind::Timeout, Some(NodeId(0))));
    assert_eq!(refused.message.as_bytes()[0], 3);
    assert_eq!(mailbox.retrieve(SOON).unwrap().as_bytes()[0], 0);
    clone.post(refused.message, TRY).unwrap();
    for number in 1..4 {
        assert_eq!(mailbox.retrieve(SOON).unwrap().as_bytes()[0], number);
    }
}

#[test]
fn a_poster_waits_for_room_and_goes_on() {
    let (_broker, nodes) = job(2);
    let options = MailboxOptions { messages: 1, bytes: 1 << 20 };
    let mailbox = nodes[0].mailbox_with(Some("tiny"), &options).unwrap();
    let clone = nodes[1].clone_mailbox("tiny", SOON).unwrap();
    let node = nodes[1].clone();
    let poster = std::thread::spawn(move || {
        for number in 0..200u8 {
            clone.post(filled(&node, if number % 2 == 0 { 8 } else { 2 << 20 }, number), SOON).unwrap();
        }
        clone.stats()
    });
    for number in 0..200u8 {
        assert_eq!(mailbox.retrieve(SOON).unwrap().as_bytes()[0], number);
    }
    assert!(poster.join().unwrap().held_back > 0);
}

/// The owner may keep credits to itself while it is busy elsewhere; a post that would not wait must not be refused for
/// that for ever.
#[test]
fn a_post_that_would_not_wait_finds_the_room_of_what_was_retrieved_without_another_look_there() {
    let (_broker, nodes) = job(2);
    let options = MailboxOptions { messages: 56, bytes: 80_000 };
    for poster in [0, 1] {
        let mailbox = nodes[0].mailbox_with(Some("box"), &options).unwrap();
        let clone = nodes[poster].clone_mailbox("box", SOON).unwrap();
        for round in 0..20u8 {
            let mut posted = 0;
            while clone.post(filled(&nodes[poster], 4000, round), TRY).is_ok() {
                posted += 1;
            }
            assert!((20..=22).contains(&posted), "{posted} messages of 4,000 bytes in 80,000");
            (0..posted).for_each(|_| assert_eq!(mailbox.retrieve(SOON).unwrap().as_bytes()[0], round));
            let large = filled(&nodes[poster], 80_000, round);
            let until = std::time::Instant::now() + SOON;
            while clone.post_shared(&large, TRY).is_err() {
                assert!(std::time::Instant::now() < until, "everything was retrieved, and there is no room");
                std::thread::yield_now();
            }
            assert_eq!(mailbox.retrieve(SOON).unwrap().as_bytes()[0], round);
        }
    }
}

#[test]
fn one_message_to_many_mail_boxes_is_one_buffer_and_a_change_detaches() {
    let (_broker, nodes) = job(3);
    let boxes = [nodes[1].mailbox("one").unwrap(), nodes[2].mailbox("two").unwrap()];
    let mut message = filled(&nodes[0], 100_000, 1);
    for name in ["one", "two"] {
        nodes[0].clone_mailbox(name, SOON).unwrap().post_shared(&message, SOON).unwrap();
    }
    let before = message.as_ptr();
    message.edit().unwrap()[0] = 99;
    assert_ne!(before, message.as_ptr());
    let received = boxes.each_ref().map(|mailbox| mailbox.retrieve(SOON).unwrap());
    received.iter().for_each(|message| assert_eq!(message.as_bytes()[0], 1));
    // Posted on to a node that has never met the first one.
    let last = nodes[1].mailbox("last").unwrap();
    nodes[2].clone_mailbox("last", SOON).unwrap().post_shared(&received[1], SOON).unwrap();
    let posted_on = last.retrieve(SOON).unwrap();
    assert_eq!(posted_on.as_ptr(), received[0].as_ptr());
    assert_eq!(posted_on.sender(), Some(NodeId(2)));
}

#[test]
fn a_receiver_that_holds_a_buffer_alone_edits_it_in_place() {
    let (_broker, nodes) = job(2);
    let mailbox = nodes[0].mailbox("edit").unwrap();
    nodes[1].clone_mailbox("edit", SOON).unwrap().post(filled(&nodes[1], 5000, 1), SOON).unwrap();
    let mut message = mailbox.retrieve(SOON).unwrap();
    let before = message.as_ptr();
    message.edit().unwrap()[0] = 7;
    assert_eq!((message.as_ptr(), message.as_bytes()[0]), (before, 7));
}

#[test]
fn a_reply_box_travels_in_a_message() {
    let (_broker, nodes) = job(2);
    let server = nodes[0].mailbox("server").unwrap();
    let replies = nodes[1].anonymous_mailbox().unwrap();
    let mut question = nodes[1].message();
    question.pack(&[20u32]).unwrap();
    question.pack_mailbox(replies.address()).unwrap();
    nodes[1].clone_mailbox("server", SOON).unwrap().post(question, SOON).unwrap();
    let mut asked = server.retrieve(SOON).unwrap();
    assert_eq!(asked.unpack_mailbox(SOON).err().unwrap().kind(), ErrorKind::Type);
    let mut number = [0u32];
    asked.unpack(&mut number).unwrap();
    let reply = asked.unpack_mailbox(SOON).unwrap();
    let mut answer = nodes[0].message();
    answer.pack(&[number[0] + 1]).unwrap();
    reply.post(answer, SOON).unwrap();
    replies.retrieve(SOON).unwrap().unpack(&mut number).unwrap();
    assert_eq!(number, [21]);
    replies.close();
    assert_eq!(reply.post(nodes[0].message(), SOON).unwrap_err().error.kind(), ErrorKind::Closed);
}

#[test]
fn names_are_unique_and_free_when_the_mail_box_is_closed_or_its_node_leaves() {
    let (_broker, mut nodes) = job(3);
    let mailbox = nodes[0].mailbox("name").unwrap();
    let error = nodes[1].mailbox("name").err().unwrap();
    assert_eq!((error.kind(), error.peer()), (ErrorKind::Exists, Some(NodeId(0))));
    mailbox.close();
    let again = nodes[1].mailbox("name").unwrap();
    let error = nodes[0].clone_mailbox("other", Duration::from_millis(5)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    nodes.remove(1).leave().unwrap();
    assert_eq!(again.retrieve(TRY).unwrap_err().kind(), ErrorKind::NotInitialized);
    let third = nodes[1].mailbox("name").unwrap();
    assert_eq!(nodes[0].clone_mailbox("name", SOON).unwrap().owner(), nodes[1].number());
    drop(third);
}

#[test]
fn what_a_node_posted_before_it_left_is_delivered_and_nothing_is_told() {
    let (_broker, mut nodes) = job(2);
    let mailbox = nodes[0].mailbox("rest").unwrap();
    let clone = nodes[1].clone_mailbox("rest", SOON).unwrap();
    for number in 0..10u8 {
        clone.post(filled(&nodes[1], 10_000 * usize::from(number), number), SOON).unwrap();
    }
    let leaving = nodes.remove(1);
    let other = leaving.clone();
    leaving.leave().unwrap();
    assert_eq!(other.leave().unwrap_err().kind(), ErrorKind::NotInitialized);
    assert_eq!(clone.post(nodes[0].message(), TRY).unwrap_err().error.kind(), ErrorKind::NotInitialized);
    for number in 0..10usize {
        assert_eq!(mailbox.retrieve(SOON).unwrap().size(), 10_000 * number);
    }
    assert_eq!(mailbox.retrieve(Duration::from_millis(20)).unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(nodes[0].state(NodeId(1)).unwrap(), NodeState::Left);
    assert_eq!(nodes[0].state(NodeId(7)).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_cancelled_wait_ends_and_the_next_one_works() {
    let node = Node::join_by(Door::Alone).unwrap();
    let inside = node.clone();
    let thread = Thread::spawn(move || {
        let mailbox = inside.mailbox("cancel").unwrap();
        let error = mailbox.retrieve(FOREVER).unwrap_err();
        (error.kind(), mailbox.retrieve(Duration::from_millis(1)).unwrap_err().kind())
    })
    .unwrap();
    thread.cancel();
    assert_eq!(thread.join().unwrap(), (ErrorKind::Cancelled, ErrorKind::Timeout));
}

#[test]
fn meeting_a_node_can_be_cancelled_when_nobody_is_left_who_could_introduce_it() {
    let (broker, nodes) = job(2);
    let _mailbox = nodes[0].mailbox("far").unwrap();
    drop(broker);
    let inside = nodes[1].clone();
    let thread = Thread::spawn(move || inside.clone_mailbox("far", SOON).err().unwrap()).unwrap();
    thread.cancel();
    let error = thread.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(error.to_string().starts_with("cloning a mail box: reaching node 0: cancelled"), "{error}");
}

#[test]
fn select_finds_the_mail_box_that_has_something() {
    let (_broker, nodes) = job(2);
    let boxes: Vec<_> = (0..10).map(|number| nodes[0].mailbox(&format!("select {number}")).unwrap()).collect();
    let clones: Vec<_> =
        (0..10).map(|number| nodes[1].clone_mailbox(&format!("select {number}"), SOON).unwrap()).collect();
    let all: Vec<_> = boxes.iter().collect();
    assert_eq!(deck_mudeck::select(&all, TRY).unwrap_err().kind(), ErrorKind::Timeout);
    let node = nodes[1].clone();
    let poster = std::thread::spawn(move || {
        for number in 0..1000 {
            clones[number * 7 % 10].post(filled(&node, 8, number as u8), SOON).unwrap();
        }
    });
    for _ in 0..1000 {
        let which = deck_mudeck::select(&all, SOON).unwrap();
        boxes[which].retrieve(TRY).unwrap();
    }
    poster.join().unwrap();
    boxes[4].close();
    assert_eq!(deck_mudeck::select(&all, SOON).unwrap(), 4);
}

/// The kernel watches 128 words for one thread.
#[test]
fn a_thread_that_selects_from_hundreds_of_mail_boxes_sleeps() {
    let (_broker, nodes) = job(2);
    let boxes: Vec<_> = (0..300).map(|number| nodes[0].mailbox(&format!("many {number}")).unwrap()).collect();
    let all: Vec<_> = boxes.iter().collect();
    let times_slept = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    let sleeps_in = |boxes: &[&deck_mudeck::Mailbox]| {
        let before = times_slept();
        let nothing = deck_mudeck::select(boxes, Duration::from_millis(500));
        assert_eq!(nothing.unwrap_err().kind(), ErrorKind::Timeout);
        times_slept() - before
    };
    // A kernel that cannot watch several words wakes it every millisecond anyway.
    if sleeps_in(&all[..2]) < 50 {
        let slept = sleeps_in(&all);
        assert!(slept < 150, "{slept} times in half a second");
    }
    for number in [0, 126, 127, 128, 299] {
        let clone = nodes[1].clone_mailbox(&format!("many {number}"), SOON).unwrap();
        let message = filled(&nodes[1], 8, 1);
        let poster = std::thread::spawn(move || clone.post(message, SOON).unwrap());
        assert_eq!(deck_mudeck::select(&all, SOON).unwrap(), number);
        boxes[number].retrieve(TRY).unwrap();
        poster.join().unwrap();
    }
}

#[test]
fn the_descriptor_of_a_mail_box_is_readable_while_there_is_something() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let (_broker, nodes) = job(2);
    let mailbox = nodes[0].mailbox("fd").unwrap();
    let clone = nodes[1].clone_mailbox("fd", SOON).unwrap();
    // What is there shows at once, also to the first who asks.
    clone.post(filled(&nodes[1], 8, 0), SOON).unwrap();
    // SAFETY: the descriptor belongs to the mail box, which outlives the borrow.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(mailbox.fd().unwrap()) };
    let is_readable = |milliseconds: i64| {
        let timeout = Timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 };
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap() > 0
    };
    assert!(is_readable(0));
    mailbox.retrieve(TRY).unwrap();
    assert!(!is_readable(0));
    for round in 0..20 {
        clone.post(filled(&nodes[1], 8, round), SOON).unwrap();
        clone.post(filled(&nodes[1], 8, round), SOON).unwrap();
        assert!(is_readable(20_000));
        mailbox.retrieve(TRY).unwrap();
        assert!(is_readable(0));
        mailbox.retrieve(TRY).unwrap();
        assert!(!is_readable(0));
    }
}

/// Wakes a thread that is parked.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_future_is_woken_by_a_message() {
    let (_broker, nodes) = job(2);
    let mailbox = nodes[0].mailbox("async").unwrap();
    let clone = nodes[1].clone_mailbox("async", SOON).unwrap();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    for round in 0..20u8 {
        let mut future = Box::pin(mailbox.retrieve_async());
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        clone.post(filled(&nodes[1], 70, round), SOON).unwrap();
        let message = loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(message) => break message.unwrap(),
                Poll::Pending => std::thread::park_timeout(SOON),
            }
        };
        assert_eq!(message.as_bytes()[0], round);
    }
}

#[test]
fn a_waker_that_panics_is_its_own_affair() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("an executor that is going down");
        }
    }
    let (_broker, nodes) = job(2);
    let [failing, other] = ["failing", "other"].map(|name| nodes[0].mailbox(name).unwrap());
    let wakers = [Waker::from(Arc::new(Panics)), Waker::from(Arc::new(Unpark(std::thread::current())))];
    let mut lost = Box::pin(failing.retrieve_async());
    assert!(lost.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
    let mut future = Box::pin(other.retrieve_async());
    assert!(future.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_pending());
    for (name, seed) in [("failing", 1), ("other", 2)] {
        let clone = nodes[1].clone_mailbox(name, SOON).unwrap();
        clone.post(filled(&nodes[1], 8, seed), SOON).unwrap();
    }
    let begin = std::time::Instant::now();
    while future.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_pending() {
        assert!(begin.elapsed() < SOON, "nobody wakes it any more");
        std::thread::park_timeout(SOON);
    }
}
