//! Two nodes that post to one another.
//!
//! They take turns, and tell one another so through pipes: nobody ever waits inside of DECK. One that waits long enough
//! goes to sleep, and one that has waited often looks whether it has a conversation; both is for the time before the
//! rounds that count.

use std::os::fd::OwnedFd;
use std::sync::LazyLock;

use rustix::pipe::pipe;

use super::{expect_no_allocation, expect_no_system_call, sentence, serve};
use crate::clone::MailboxClone;
use crate::mailbox::Mailbox;
use crate::message::Message;
use crate::settings::Settings;
use crate::testing::SOON;
use crate::testing::talkers::{LONG, Talker, nodes, talk_until_they_pass, talkers};

/// More than there are slots in a ring, and than a baton carries until its sender is told how many came.
const ROUNDS: usize = 300;
/// Messages of each size that a stream brings at a time.
const BURST: usize = 5;

/// What goes to and fro.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Traffic {
    /// Messages of every protocol, one way: the other one's credits come back.
    Stream,
    /// Short messages and their answers, before there is a baton.
    Answers,
    /// The same on a baton.
    OnBaton,
    /// A buffer that is handed over and comes back.
    HandedOver,
}

impl Traffic {
    const ALL: [Traffic; 4] = [Traffic::Stream, Traffic::Answers, Traffic::OnBaton, Traffic::HandedOver];

    fn sizes(self) -> &'static [usize] {
        match self {
            Traffic::Stream => &[8, 62, 100, 300, 5000, 20_000],
            Traffic::OnBaton if *PASSES_COPIES => &[8, 62, 100, 300],
            Traffic::Answers | Traffic::OnBaton => &[8, 62, 100],
            Traffic::HandedOver => &[5000, 20_000],
        }
    }

    /// Two nodes with mail boxes between which there is all that this traffic needs.
    fn talkers(self) -> [Talker; 2] {
        let [lower, higher] = nodes::<2>(&format!("short-path-{self:?}"));
        let pair = talkers([&lower, &higher], "box");
        if self == Traffic::OnBaton {
            talk_until_they_pass(pair.each_ref(), 0, 8);
        }
        pair
    }
}

/// As the nodes are told. Asked before anything is counted, and once.
static PASSES_COPIES: LazyLock<bool> =
    LazyLock::new(|| Settings::from_environment().expect("sensible variables").heap.fetching.passes_copies());

/// A buffer of the first node's that is in flight from the second all the time, to a mail box that nobody looks into.
/// Whoever posts buffers of others has its control thread come by until all are back; the first post after a while
/// without any wakes it, which takes a system call.
fn keep_one_in_flight([first, second]: [&Talker; 2]) -> (Mailbox, MailboxClone) {
    let kept = first.node.mailbox("kept").unwrap();
    let to_kept = second.node.clone_mailbox("kept", SOON).unwrap();
    first.other.post(first.message(0, 20_000), SOON).unwrap();
    to_kept.post(second.retrieve(0, 20_000), SOON).unwrap();
    (kept, to_kept)
}

/// One of the two.
struct Side<'a> {
    talker: &'a Talker,
    is_first: bool,
    has_turn: bool,
    /// Where it is told that it has the turn: reading, like writing, is allowed in jail.
    told: OwnedFd,
    /// Where it tells the other one.
    tell: OwnedFd,
    received: Message,
}

impl Side<'_> {
    fn await_turn(&mut self) {
        let has_turn = self.has_turn || rustix::io::read(&self.told, &mut [0]) == Ok(1);
        assert!(has_turn, "the other side has failed");
        self.has_turn = true;
    }

    fn end_turn(&mut self) {
        self.has_turn = false;
        // The other one may have ended with its last turn.
        let _ = rustix::io::write(&self.tell, &[0]);
    }

    fn post_new(&self, size: usize) {
        let mut message = self.talker.node.message();
        message.resize(size).unwrap();
        self.talker.other.post(message, SOON).unwrap();
    }

    fn retrieve(&mut self, size: usize) {
        self.talker.own.retrieve_into(&mut self.received, SOON).unwrap();
        assert_eq!(self.received.size(), size);
    }

    fn go(&mut self, traffic: Traffic) {
        for _ in 0..ROUNDS {
            match traffic {
                Traffic::Stream => self.stream(traffic.sizes()),
                _ => traffic.sizes().iter().for_each(|size| self.converse(*size)),
            }
        }
    }

    fn stream(&mut self, sizes: &[usize]) {
        self.await_turn();
        for size in sizes {
            (0..BURST).for_each(|_| if self.is_first { self.post_new(*size) } else { self.retrieve(*size) });
        }
        self.end_turn();
    }

    fn converse(&mut self, size: usize) {
        self.await_turn();
        if self.is_first {
            self.post_new(size);
            self.end_turn();
            self.await_turn();
            self.retrieve(size);
        } else {
            self.retrieve(size);
            self.talker.other.post_shared(&self.received, SOON).unwrap();
            self.end_turn();
        }
    }

    /// As this thread will go on: what there is to be found, locked or allocated once is there afterwards.
    fn warm_up(&mut self, traffic: Traffic) {
        match (traffic, self.is_first) {
            (Traffic::OnBaton, true) => self.talker.ask(0..LONG, 8),
            (Traffic::OnBaton, false) => self.talker.answer(0..LONG, 8),
            _ => {}
        }
        // Long enough for buffers that rest to come round, however large this machine's caches are.
        let posted: usize = traffic.sizes().iter().filter(|size| **size > 4096).sum();
        let rest = self.talker.node.shared.heap().rest().bytes();
        (0..=rest.checked_div(ROUNDS * posted).unwrap_or(0)).for_each(|_| self.go(traffic));
    }
}

/// Both sides, each in a thread of its own, go through the traffic once, and then again as `counted` has them do it.
fn run(traffic: Traffic, counted: fn(&mut dyn FnMut())) {
    let pair = traffic.talkers();
    let _in_flight = (traffic == Traffic::HandedOver).then(|| keep_one_in_flight(pair.each_ref()));
    let [(told_first, tell_first), (told_second, tell_second)] = [(); 2].map(|()| pipe().unwrap());
    let ends = [(told_first, tell_second), (told_second, tell_first)];
    std::thread::scope(|scope| {
        for ((talker, (told, tell)), is_first) in pair.iter().zip(ends).zip([true, false]) {
            let received = talker.node.message();
            let mut side = Side { talker, is_first, has_turn: is_first, told, tell, received };
            scope.spawn(move || {
                side.warm_up(traffic);
                let before = talker.passed();
                counted(&mut || side.go(traffic));
                let passed = (talker.passed() - before) as usize;
                let expected = if traffic == Traffic::OnBaton { 2 * ROUNDS * traffic.sizes().len() } else { 0 };
                assert_eq!(passed, expected, "messages on a baton, {traffic:?}");
            });
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn posting_and_retrieving_allocate_nothing() {
    const THIS: &str = "between_nodes::posting_and_retrieving_allocate_nothing";
    Traffic::ALL.into_iter().for_each(|traffic| run(traffic, |rounds| expect_no_allocation(THIS, rounds)));
}

/// Does something only where it is told to, see below.
#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn rounds_in_jail() {
    let Some(sentence) = sentence() else { return };
    let traffic = Traffic::ALL.into_iter().find(|traffic| format!("{traffic:?}") == sentence);
    run(traffic.expect("a kind of traffic"), |rounds| serve(rounds));
}

#[test]
#[cfg_attr(miri, ignore = "processes")]
fn posting_and_retrieving_make_no_system_call() {
    for traffic in Traffic::ALL {
        expect_no_system_call("between_nodes::rounds_in_jail", &format!("{traffic:?}"), 2);
    }
}
