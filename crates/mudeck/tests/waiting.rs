//! Threads that wait side by side: none sleeps on because another one was woken, gave up, or left.

mod job;

use std::future::Future;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::time::Duration;

use deck_mudeck::{Door, ErrorKind, FOREVER, Node, select};
use deck_peers::{MailboxId, Membership};
use deck_segment::HeapOptions;
use deck_sync::Deadline;
use job::{SOON, TRY, filled, job_of, wait_for_retriever, wait_until};

/// The last message that a thread takes.
const END: u8 = 255;

#[test]
fn retrievers_are_woken_although_a_future_waits_for_the_same_mail_box() {
    for _ in 0..10 {
        let (_broker, [here, poster]) = job_of();
        let mailbox = here.mailbox("box").unwrap();
        let clone = poster.clone_mailbox("box", SOON).unwrap();
        let mut future = Box::pin(mailbox.retrieve_async());
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        std::thread::scope(|scope| {
            let first = scope.spawn(|| mailbox.retrieve(SOON).map(drop));
            wait_for_retriever(&mailbox);
            let second = scope.spawn(|| mailbox.retrieve(SOON).map(drop));
            for _ in 0..2 {
                clone.post(filled(&poster, 8, 1), SOON).unwrap();
            }
            first.join().unwrap().unwrap();
            second.join().unwrap().unwrap();
        });
    }
}

#[test]
fn a_thread_that_only_selects_keeps_no_message_from_those_that_retrieve() {
    const COUNT: usize = 20;
    for _ in 0..10 {
        let (_broker, [here, poster]) = job_of();
        let (busy, quiet) = (here.mailbox("busy").unwrap(), here.mailbox("quiet").unwrap());
        let to_busy = poster.clone_mailbox("busy", SOON).unwrap();
        let to_quiet = poster.clone_mailbox("quiet", SOON).unwrap();
        std::thread::scope(|scope| {
            let selecting = scope.spawn(|| while select(&[&busy, &quiet], SOON).unwrap() != 1 {});
            let sleeping =
                scope.spawn(|| (0..).take_while(|_| busy.retrieve(SOON).unwrap().as_bytes()[0] != END).count());
            wait_for_retriever(&busy);
            let trying = scope.spawn(|| {
                let tries = (0..200).inspect(|_| std::thread::yield_now());
                tries.filter(|_| busy.retrieve(TRY).is_ok()).count()
            });
            for _ in 0..COUNT {
                to_busy.post(filled(&poster, 8, 1), SOON).unwrap();
                std::thread::yield_now();
            }
            let tried = trying.join().unwrap();
            to_busy.post(filled(&poster, 8, END), SOON).unwrap();
            assert_eq!(tried + sleeping.join().unwrap(), COUNT);
            to_quiet.post(filled(&poster, 8, END), SOON).unwrap();
            selecting.join().unwrap();
        });
    }
}

#[test]
fn all_retrievers_of_a_closed_mail_box_end() {
    let (_broker, [here]) = job_of();
    let mailbox = here.mailbox("box").unwrap();
    std::thread::scope(|scope| {
        let waiting = [(); 4].map(|()| scope.spawn(|| mailbox.retrieve(FOREVER).unwrap_err().kind()));
        wait_until("all sleep", || mailbox.stats().waits >= 4);
        mailbox.close();
        waiting.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), ErrorKind::Closed));
    });
}

/// A member of the job that claims the name `name` and never answers anybody.
fn silent_member(broker: &deck_peers::Broker, name: &str) -> std::sync::Arc<Membership> {
    let door = Door::Invited(broker.invite().unwrap());
    let member = Membership::join(door, &HeapOptions::of(256 << 20), Deadline::after(SOON)).unwrap();
    member.claim_name(name, MailboxId { owner: member.number(), index: 0, generation: 1 }, Deadline::NEVER).unwrap();
    member
}

/// True if the thread with this number sleeps in the kernel.
fn is_asleep(thread: rustix::thread::Pid) -> bool {
    let stat = std::fs::read(format!("/proc/self/task/{}/stat", thread.as_raw_nonzero())).unwrap();
    deck_peers::stat::state_of(&stat) == Some('S')
}

#[test]
fn all_threads_that_clone_the_same_mail_box_end_when_their_node_leaves() {
    let (broker, [node]) = job_of();
    let _silent = silent_member(&broker, "silent");
    let (started, starts) = mpsc::channel();
    let (ended, ends) = mpsc::channel();
    for _ in 0..3 {
        let (node, started, ended) = (node.clone(), started.clone(), ended.clone());
        // Not joined, so that a thread that sleeps on is a failure and not a hang.
        std::thread::spawn(move || {
            started.send(rustix::thread::gettid()).unwrap();
            ended.send(node.clone_mailbox("silent", FOREVER).is_err()).unwrap();
        });
    }
    for thread in starts.iter().take(3).collect::<Vec<_>>() {
        wait_until("the cloner sleeps", || is_asleep(thread));
    }
    node.leave().unwrap();
    for _ in 0..3 {
        assert!(ends.recv_timeout(SOON).unwrap());
    }
}

/// Clones `name` with next to no patience, until it succeeds or was tried `tries` times.
fn clone_impatiently(node: &Node, name: &str, tries: usize) {
    for _ in 0..tries {
        match node.clone_mailbox(name, Duration::from_nanos(500)) {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{error}"),
        }
    }
}

#[test]
fn clones_that_were_given_up_leave_room_for_others() {
    let (_broker, [here, hasty]) = job_of();
    let mailbox = here.mailbox("box").unwrap();
    let _other = here.mailbox("other").unwrap();
    hasty.clone_mailbox("other", SOON).unwrap();
    for round in 0..4 {
        clone_impatiently(&hasty, "box", 150);
        // Answered behind everything that was asked before, so nothing of it is on its way any more.
        let name = format!("behind {round}");
        let _behind = here.mailbox(&name).unwrap();
        hasty.clone_mailbox(&name, SOON).unwrap();
    }
    let clone = hasty.clone_mailbox("box", SOON).unwrap();
    let own = here.clone_mailbox("box", SOON).unwrap();
    clone.post(filled(&hasty, 8, 1), SOON).unwrap();
    own.post(filled(&here, 8, 2), SOON).unwrap();
    let mut content = [(); 2].map(|()| mailbox.retrieve(SOON).unwrap().as_bytes()[0]);
    content.sort_unstable();
    assert_eq!(content, [1, 2]);
}
