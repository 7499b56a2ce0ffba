//! How two rings come to a baton ([`deck_transport::Baton`]), the line that makes an answer one exchange of a line
//! between two cores.
//!
//! A thread that waits for a message from a node each time it has posted one there has a conversation with it: ring and
//! ring go in step. The node with the lower number notices that and offers a baton: it says so beside the messages of
//! the ring that it posts to. The other one hears of it when nothing has arrived, takes it up at both of its ends, and
//! says that beside its own messages. From then on the first may write. Nobody waits for any of this, and a baton that
//! was not taken up costs nothing.
//!
//! A baton is never taken back. Whoever has no use for it leaves it where it is; a thread that talks to another mail
//! box of that node may offer a new one when nothing goes by the old one any more.

use std::sync::{Arc, Weak};

use deck_peers::MailboxId;
use deck_segment::Words;
use deck_segment::layout::SLOT;
use deck_sync::NodeId;
use deck_sync::atomic::{AtomicU32, Ordering};
use deck_sync::locks::lock;
use deck_transport::{Baton, Said};

use crate::cloning::Cloning;
use crate::mailbox::Core;
use crate::node::NodeShared;
use crate::poster::Poster;

/// Waits with an answer after which one looks for conversations, at first and at last: each time twice as many.
pub(crate) const LOOK_FIRST: u32 = 64;
const LOOK_LAST: u32 = 1 << 13;

/// The fewest messages from one look to the next that tell something. Of those that came, the last one may not be
/// answered yet.
const STEP_LEAST: u32 = 8;

/// Counts the messages of a mail box that were waited for.
#[derive(Debug)]
pub(crate) struct Answers {
    count: AtomicU32,
    look_at: AtomicU32,
    /// How many until the look after that.
    interval: AtomicU32,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers { count: AtomicU32::new(0), look_at: AtomicU32::new(LOOK_FIRST), interval: AtomicU32::new(LOOK_FIRST) }
    }
}

impl Answers {
    /// One more. True if it is time to look for a conversation.
    #[inline]
    pub fn count(&self) -> bool {
        // Relaxed: whoever counts at the same time costs a count.
        let count = self.count.load(Ordering::Relaxed).wrapping_add(1);
        self.count.store(count, Ordering::Relaxed);
        count.wrapping_sub(self.look_at.load(Ordering::Relaxed)) as i32 >= 0
    }

    fn look_later(&self) {
        let interval = self.interval.load(Ordering::Relaxed);
        self.look_at.store(self.count.load(Ordering::Relaxed).wrapping_add(interval), Ordering::Relaxed);
        self.interval.store((2 * interval).min(LOOK_LAST), Ordering::Relaxed);
    }
}

/// What a ring was like at the last look.
#[derive(Default)]
pub(crate) struct Pace {
    /// Messages taken from it.
    messages: u32,
    /// The rings to its node that the retrieving thread posts to.
    posted: Vec<Posted>,
    /// What its baton had carried.
    carried: u32,
    /// A baton that was offered for it, and not taken up yet. One that was not until the next look will not be, and
    /// another one may be offered.
    offered: Option<Offered>,
}

/// What a ring that the retrieving thread posts to was like at a look.
#[derive(Clone, Copy)]
struct Posted {
    ring: u64,
    messages: u32,
    /// What its baton had carried.
    carried: u32,
}

impl Posted {
    fn now(poster: &Poster) -> Posted {
        let carried = poster.sender.baton().map_or(0, |(baton, _)| baton.carried());
        Posted { ring: poster.ring, messages: poster.sender.posted(), carried }
    }

    /// Whether `step` messages were posted since `before`, or one more or less, and nothing was passed.
    fn is_in_step(&self, before: &Posted, step: u32) -> bool {
        let messages = self.messages.wrapping_sub(before.messages);
        self.ring == before.ring && messages.abs_diff(step) <= 1 && self.carried == before.carried
    }
}

impl Pace {
    /// `messages` have come by now, the baton has `carried` so many, and `posted` is what was posted to that node. The
    /// one of these rings that goes in step with this one, if the two are to have a baton: place in `posted`.
    fn note(&mut self, messages: u32, carried: u32, posted: Vec<Posted>) -> Option<usize> {
        self.offered = None;
        let is_passing = std::mem::replace(&mut self.carried, carried) != carried;
        let step = messages.wrapping_sub(std::mem::replace(&mut self.messages, messages));
        let before = std::mem::replace(&mut self.posted, posted);
        let is_in_step = |now: &Posted| before.iter().any(|before| now.is_in_step(before, step));
        let in_step = self.posted.iter().position(is_in_step);
        in_step.filter(|_| step >= STEP_LEAST && !is_passing)
    }
}

struct Offered {
    baton: Arc<Baton>,
    poster: Weak<Poster>,
}

impl NodeShared {
    /// The rings at which the calling thread posts without a lock.
    fn own_posters(&self) -> Vec<Arc<Poster>> {
        let posters = lock(&self.posters);
        let own = posters.values().filter_map(|cloning| match cloning {
            Cloning::Ready(poster) if poster.sender.is_favourite() => Some(poster.clone()),
            _ => None,
        });
        own.collect()
    }

    /// The calling thread has waited for a message of this mail box, as often before: if it posts to a node in step
    /// with what comes from there, it goes on with the baton that they have, or a node of a higher number is offered
    /// one.
    #[cold]
    pub fn consider_batons(&self, core: &Core) {
        core.answers.look_later();
        // A mail box of few messages is there to hold its posters back: nothing is to go beside its slots.
        if !core.shape.shares_slots {
            return;
        }
        let own: Vec<(Arc<Poster>, Posted)> = self
            .own_posters()
            .into_iter()
            .filter(|poster| poster.sender.shape().shares_slots)
            .map(|poster| (poster.clone(), Posted::now(&poster)))
            .collect();
        let mut inbox = core.inbox.lock();
        let mut conversations = Vec::new();
        for ring in inbox.polled_rings().filter(|ring| ring.receiver.from() != self.number()) {
            let (from, messages) = (ring.receiver.from(), ring.receiver.messages());
            let carried = ring.receiver.baton().map_or(0, |baton| baton.carried());
            let to_it: Vec<&(Arc<Poster>, Posted)> = own.iter().filter(|(poster, _)| poster.id.owner == from).collect();
            if let Some(index) = ring.pace.note(messages, carried, to_it.iter().map(|(_, posted)| *posted).collect()) {
                conversations.push((from, ring.id, ring.receiver.baton().cloned(), to_it[index].0.clone()));
            }
        }
        drop(inbox);
        for (from, ring, baton, poster) in conversations {
            let goes_on = baton.is_some_and(|baton| poster.sender.go_on_passing(&baton));
            if !goes_on && from > self.number() {
                self.offer_baton(core, from, ring, &poster);
            }
        }
    }

    fn offer_baton(&self, core: &Core, from: NodeId, ring: u64, poster: &Arc<Poster>) {
        // One that was offered and not taken up may still be, as long as the other ring has it: beside this one here
        // and that of the sender.
        if poster.sender.baton().is_some_and(|(baton, is_ready)| !is_ready && Arc::strong_count(&baton) > 2) {
            return;
        }
        let Ok(region) = self.heap().region_near(Baton::WORDS * 8, core.area()) else { return };
        let place = region.offset() as u64;
        let baton = Arc::new(Baton::offered(&region.words(), place, Some(region)));
        if !poster.sender.hold_baton(baton.clone()) {
            return;
        }
        let mut inbox = core.inbox.lock();
        let Some(at) = inbox.ring(from, ring) else { return };
        at.pace.offered = Some(Offered { baton, poster: Arc::downgrade(poster) });
        drop(inbox);
        poster.sender.say(Said { baton: place, mailbox: core.id.to_word(), ring, count: 0 });
    }

    /// What `from` has said beside the messages of one of its rings here: a baton is offered by the lower number, and
    /// taken up by the higher one. What makes no sense, or not any more, is as if it had not been said.
    #[cold]
    pub fn hear(&self, core: &Core, from: NodeId, ring: u64, said: Said) {
        if self.number() < from {
            self.start_passing(core, from, ring, &said);
        } else {
            let _ = self.take_up(core, from, ring, &said);
        }
    }

    fn take_up(&self, core: &Core, from: NodeId, ring: u64, said: &Said) -> Option<()> {
        let id = MailboxId::from_word(said.mailbox).filter(|id| id.owner == from)?;
        let poster = self.poster_to(id).filter(|poster| poster.ring == said.ring)?;
        if !core.shape.shares_slots || !poster.sender.shape().shares_slots {
            return None;
        }
        // Another thread may have heard of a newer one while this one was held up.
        let has_heard_last =
            || core.inbox.lock().ring(from, ring).is_some_and(|ring| ring.receiver.has_heard_last(said));
        if !has_heard_last() {
            return None;
        }
        let heap = poster.peer.as_ref()?.heap()?;
        let offset = usize::try_from(said.baton).ok().filter(|offset| offset.is_multiple_of(SLOT))?;
        let words = Words::in_segment(heap.segment(), offset, Baton::WORDS)?;
        let baton = Arc::new(Baton::accepted(&words, said.baton));
        if !poster.sender.hold_baton(baton.clone()) {
            return None;
        }
        let mut inbox = core.inbox.lock();
        let ring = inbox.ring(from, ring).filter(|ring| ring.receiver.has_heard_last(said))?;
        ring.receiver.set_baton(baton.clone());
        drop(inbox);
        // Before the first message: whoever looks on is told there where it may lie.
        let is_said = poster.sender.say(Said { mailbox: 0, ring: 0, ..*said });
        poster.sender.start_passing(&baton);
        is_said.then_some(())
    }

    fn start_passing(&self, core: &Core, from: NodeId, ring: u64, said: &Said) {
        let mut inbox = core.inbox.lock();
        let Some(ring) = inbox.ring(from, ring) else { return };
        let Some(offered) = ring.pace.offered.take_if(|offered| offered.baton.place() == said.baton) else { return };
        ring.receiver.set_baton(offered.baton.clone());
        drop(inbox);
        if let Some(poster) = offered.poster.upgrade() {
            poster.sender.start_passing(&offered.baton);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use deck_segment::layout::SLOT_CONTENT;

    use super::*;
    use crate::testing::SOON;
    use crate::testing::talkers::{LONG, Talker, nodes, talk, talk_until_they_pass, talkers};

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn threads_that_answer_one_another_come_to_a_baton_whoever_asks() {
        for (is_lower_asking, size) in [(true, 8), (false, 8), (true, 62), (true, 100), (true, 1000)] {
            let [lower, higher] = nodes::<2>(&format!("conversation-{is_lower_asking}-{size}"));
            if size > SLOT_CONTENT && !lower.shared.heap().fetching().passes_copies() {
                continue;
            }
            let [one, other] = talkers([&lower, &higher], "box");
            let pair = if is_lower_asking { [&one, &other] } else { [&other, &one] };
            let next = talk_until_they_pass(pair, 0, size);
            let passed = [one.passed(), other.passed()];
            assert_eq!(passed[0], passed[1]);
            talk(pair, next..next + LONG, size);
            assert!(one.passed() > passed[0], "it was for once");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_baton_at_an_impossible_place_is_not_taken_up() {
        let [lower, higher] = nodes::<2>("conversation-nonsense");
        let [one, other] = talkers([&lower, &higher], "box");
        let [to_higher, to_lower] =
            [&one, &other].map(|talker| talker.node.shared.poster_to(talker.other.address().id).unwrap());
        let region = lower.shared.heap().region(Baton::WORDS * 8).unwrap();
        let (place, end) = (region.offset() as u64, lower.shared.heap().segment().bytes() as u64);
        let is_taken_up = |baton, ring| {
            let said = Said { baton, mailbox: to_lower.id.to_word(), ring, count: 0 };
            higher.shared.hear(&other.own.core, lower.number(), to_higher.ring, said);
            to_lower.sender.baton().is_some()
        };
        let outside = (0..(Baton::WORDS * 8).div_ceil(SLOT)).map(|slots| end - (slots * SLOT) as u64);
        for wrong in outside.chain([place + 1, place + 64, 0u64.wrapping_sub(SLOT as u64), u64::MAX]) {
            assert!(!is_taken_up(wrong, to_lower.ring), "{wrong:#x}");
        }
        assert!(!is_taken_up(place, to_lower.ring + 1), "it goes by another ring");
        assert!(is_taken_up(place, to_lower.ring));
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn longer_messages_and_several_in_a_row_keep_their_order_between_those_on_a_baton() {
        let [lower, higher] = nodes::<2>("conversation-order");
        let [one, other] = talkers([&lower, &higher], "box");
        talk_until_they_pass([&one, &other], 0, 8);
        let sizes = [8, 8, 100, 62, 5000, 8, 300, 8, 100_000, 1, 20];
        let count = 100 * sizes.len() as u64;
        std::thread::scope(|scope| {
            for talker in [&one, &other] {
                scope.spawn(move || {
                    for number in 0..count {
                        let size = sizes[number as usize % sizes.len()];
                        talker.other.post(talker.message(number, size), SOON).unwrap();
                        if number % 3 == 2 {
                            (number - 2..=number).for_each(|number| {
                                talker.retrieve(number, sizes[number as usize % sizes.len()]);
                            });
                        }
                    }
                    // Those that the last threes left.
                    (count / 3 * 3..count).for_each(|number| {
                        talker.retrieve(number, sizes[number as usize % sizes.len()]);
                    });
                });
            }
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_thread_that_talks_to_the_same_mail_box_from_another_one_gets_a_new_baton() {
        let [lower, higher] = nodes::<2>("conversation-again");
        let [one, other] = talkers([&lower, &higher], "box");
        talk_until_they_pass([&one, &other], 0, 8);
        // A new mail box for the answers, the same one for the questions.
        let Talker { node, own, other: questions } = one;
        drop(own);
        let own = node.mailbox("answers").unwrap();
        let answers = other.node.clone_mailbox("answers", SOON).unwrap();
        let one = Talker { node, own, other: questions };
        let other = Talker { other: answers, ..other };
        talk_until_they_pass([&one, &other], 0, 8);
        assert!(one.passed() > 0 && one.passed() == other.passed(), "{} and {}", one.passed(), other.passed());
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_thread_that_answers_several_nodes_comes_to_a_baton_with_each() {
        let [server, one, other] = nodes::<3>("conversations");
        let questions = server.mailbox("questions").unwrap();
        let answers = [&one, &other].map(|node| node.mailbox(&format!("answers-{}", node.number().0)).unwrap());
        let clones = [&one, &other]
            .map(|node| (node.number(), server.clone_mailbox(&format!("answers-{}", node.number().0), SOON).unwrap()));
        let mut clients = answers.into_iter().zip([&one, &other]).map(|(own, node)| Talker {
            node: node.clone(),
            own,
            other: node.clone_mailbox("questions", SOON).unwrap(),
        });
        let clients = [(); 2].map(|()| clients.next().unwrap());
        // When a look falls between two messages of both is chance: each asks until it has one, and says that it has.
        const DONE: usize = 9;
        std::thread::scope(|scope| {
            for client in &clients {
                scope.spawn(move || {
                    let since = Instant::now();
                    let mut number = 0;
                    while client.passed() == 0 {
                        assert!(since.elapsed() < SOON, "{number} rounds, and nothing was passed");
                        client.ask(number..number + LONG, 8);
                        number += LONG;
                    }
                    client.ask(number..number + 1, DONE);
                });
            }
            let mut talking = clients.len();
            while talking > 0 {
                let message = questions.retrieve(SOON).unwrap();
                talking -= usize::from(message.size() == DONE);
                let from = message.sender();
                let (_, clone) = clones.iter().find(|(node, _)| Some(*node) == from).unwrap();
                clone.post(message, SOON).unwrap();
            }
        });
        assert!(clients.iter().all(|client| client.passed() > 0), "{:?}", clients.each_ref().map(Talker::passed));
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_thread_that_does_not_answer_in_step_gets_none() {
        let [lower, higher] = nodes::<2>("no-conversation");
        let [one, other] = talkers([&lower, &higher], "box");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..LONG {
                    other.retrieve(number, 8);
                    (0..2).for_each(|_| other.other.post(other.message(number, 8), SOON).unwrap());
                }
            });
            for number in 0..LONG {
                one.other.post(one.message(number, 8), SOON).unwrap();
                (0..2).for_each(|_| drop(one.retrieve(number, 8)));
            }
        });
        assert_eq!([one.passed(), other.passed()], [0, 0]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_baton_pauses_while_the_two_do_not_talk_in_turn_and_goes_on_when_they_do() {
        const EXCHANGES: u64 = 8 * LONG;
        /// As many as there are between two looks, and again.
        const IN_TURN: u64 = 2 * LOOK_LAST as u64;
        let [lower, higher] = nodes::<2>("conversation-pauses");
        let [one, other] = talkers([&lower, &higher], "box");
        let passed = || one.passed();
        // Both speak, then both listen.
        let exchange = |talker: &Talker| {
            for number in 0..EXCHANGES {
                talker.other.post(talker.message(number, 8), SOON).unwrap();
                talker.retrieve(number, 8);
            }
        };
        let [before, between, after] = std::thread::scope(|scope| {
            scope.spawn(|| {
                other.answer(0..LONG, 8);
                exchange(&other);
                other.answer(0..IN_TURN, 8);
            });
            one.ask(0..LONG, 8);
            let before = passed();
            exchange(&one);
            let between = passed();
            one.ask(0..IN_TURN, 8);
            [before, between, passed()]
        });
        let (while_both_spoke, afterwards) = (between - before, after - between);
        assert!(before > 0 && u64::from(while_both_spoke) < EXCHANGES, "{while_both_spoke} of {EXCHANGES} each way");
        assert!(u64::from(afterwards) > LONG, "it goes on: {afterwards}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn what_is_said_and_makes_no_sense_is_not_heard() {
        let [lower, higher] = nodes::<2>("conversation-nonsense");
        let [one, other] = talkers([&lower, &higher], "box");
        talk([&one, &other], 0..4, 8);
        let ring = |talker: &Talker| talker.own.core.inbox.lock().polled_rings().next().unwrap().id;
        let there = ring(&other);
        let poster = other.node.shared.poster_to(other.other.address().id).unwrap();
        let good = Said { baton: 1 << 20, mailbox: poster.id.to_word(), ring: poster.ring, count: 0 };
        for said in [
            Said { baton: 1, ..good },
            Said { baton: u64::MAX - 127, ..good },
            Said { baton: 1 << 60, ..good },
            Said { mailbox: 0, ..good },
            Said { mailbox: u64::MAX, ..good },
            Said { ring: poster.ring + 1, ..good },
            Said { mailbox: other.own.core.id.to_word(), ..good },
            // Another thread has heard of a newer one, or of none.
            Said { count: 1, ..good },
        ] {
            higher.shared.hear(&other.own.core, lower.number(), there, said);
            assert!(poster.sender.baton().is_none(), "{said:?}");
        }
        higher.shared.hear(&other.own.core, lower.number(), there + 1, good);
        // Taken up that was not offered.
        lower.shared.hear(&one.own.core, higher.number(), ring(&one), good);
        assert_eq!(one.passed(), 0);
        assert_eq!(one.own.retrieve(Duration::ZERO).unwrap_err().kind(), deck_sync::ErrorKind::Timeout);
    }
}
