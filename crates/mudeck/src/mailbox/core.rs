//! A mail box of this node, whoever holds it: the rings of its posters behind one lock, and the wait for its next
//! message.
//!
//! Its owner's end ([`Mailbox`](super::Mailbox)) retrieves; `select` and the watcher wait here beside it, and the
//! control thread adds rings and ends them. The thread that always retrieves here enters without a locked operation
//! ([`Biased`]).

use std::sync::{Arc, Mutex};

use deck_peers::{Granted, MailboxId, Notice, Notices, Refusal, Subject};
use deck_segment::{FetchBack, HeapMemory, Region};
use deck_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use deck_sync::locks::lock;
use deck_sync::{About, Away, Biased, Error, ErrorKind, Event, Goal, Interrupted, NodeId, Result, Spot, Waiting};
use deck_transport::{Bells, Heaps, Parcel, Shape, Traffic};

use crate::batons::Answers;
use crate::inbox::{Arrival, Ended, Inbox, Look, Ring};
use crate::log::{self, LogLevel};
use crate::node::NodeShared;
use crate::watcher::Watch;

/// A mail box of this node, whoever holds it.
pub(crate) struct Core {
    pub id: MailboxId,
    pub name: Option<String>,
    pub shape: Shape,
    pub(crate) inbox: Biased<Inbox>,
    area: Arc<Region>,
    /// The same as the inbox has: for the event, without the lock.
    bells: Bells,
    is_closed: AtomicBool,
    /// Counted inside the inbox.
    pub retrieved: Traffic,
    pub waits: AtomicU64,
    pub answers: Answers,
    pub watch: Watch,
    /// What a retrieve that found nothing in time ends with. There from the begin: who polls gets it often, and who
    /// slept long has lost what it would take to put it together.
    no_message: Error,
    /// Tells those who look on that there is this mail box, until it is closed.
    notice: Mutex<Option<Notice>>,
}

impl Core {
    pub fn new(id: MailboxId, name: Option<String>, shape: Shape, inbox: Inbox, notices: &Arc<Notices>) -> Core {
        let facts = [id.to_word(), u64::from(shape.messages), shape.bytes];
        let notice = Notice::new(notices, Subject::Mailbox, name.as_deref().unwrap_or(""), facts);
        let area = inbox.area().clone();
        let no_message = Error::new(ErrorKind::Timeout, retrieving(id, name.as_deref()));
        Core {
            id,
            name,
            shape,
            bells: Bells::new(area.words()),
            area,
            inbox: Biased::new(inbox),
            is_closed: AtomicBool::new(false),
            retrieved: Traffic::default(),
            waits: AtomicU64::new(0),
            answers: Answers::default(),
            watch: Watch::default(),
            no_message,
            notice: Mutex::new(Some(notice)),
        }
    }

    pub fn event(&self) -> &Event {
        self.bells.event()
    }

    /// The event and the bells.
    pub fn area(&self) -> &Region {
        &self.area
    }

    /// As [`Inbox::take_simple`], for the thread that always retrieves here. A closed mail box has no rings, which is
    /// unclear.
    #[inline]
    pub fn take_simple(&self, into: &mut Parcel) -> Look {
        self.inbox.visit_as_favourite(|inbox| inbox.take_simple(into, &self.retrieved)).unwrap_or(Look::Unclear)
    }

    pub fn is_closed(&self) -> bool {
        // Acquire: pairs with: mailbox/closed.
        self.is_closed.load(Ordering::Acquire)
    }

    /// The rings and the area of a mail box that was open; `None` if it was closed already.
    pub fn close(&self) -> Option<(Vec<Ring>, Arc<Region>)> {
        let mut inbox = self.inbox.lock();
        if self.is_closed() {
            return None;
        }
        let mut rings = inbox.take_rings();
        // Before anybody can see that it is closed: a clone under way then gives the memory of its credits back.
        rings.iter_mut().for_each(Ring::close);
        // Release: pairs with: mailbox/closed. Whoever sees it has no ring here that is open.
        self.is_closed.store(true, Ordering::Release);
        drop(inbox);
        lock(&self.notice).take();
        self.event().notify();
        Some((rings, self.area.clone()))
    }

    /// Adds a ring under the lock; `make` fails or adds it.
    pub fn add_ring(&self, make: impl FnOnce(&mut Inbox) -> Result<Granted, Refusal>) -> Result<Granted, Refusal> {
        let mut inbox = self.inbox.lock_as_guest();
        if self.is_closed() { Err(Refusal::Closed) } else { make(&mut inbox) }
    }

    pub fn sender_gone(&self, from: NodeId, ended: Ended, heaps: &dyn Heaps) {
        self.inbox.lock_as_guest().sender_gone(from, ended, heaps);
        self.event().notify();
    }

    /// The poster will not use this ring: a lane that came too late.
    pub fn end_ring(&self, from: NodeId, ring: u64, tail: u32) {
        self.inbox.lock_as_guest().end_ring(from, ring, tail);
    }

    /// Tells the sender of a ring that is here all credits.
    pub fn tell(&self, from: NodeId, ring: u64) {
        self.inbox.lock_as_guest().tell(from, ring);
    }

    /// As [`Core::tell`], unless a thread is inside right now, this one included.
    pub fn try_tell(&self, from: NodeId, ring: u64) {
        if let Some(mut inbox) = self.inbox.try_lock() {
            inbox.tell(from, ring);
        }
    }

    pub fn adopt_of(&self, owner: NodeId, heaps: &dyn Heaps) {
        self.inbox.lock_as_guest().adopt_of(owner, heaps);
    }

    /// True if a retrieve would not wait.
    pub fn has_work(&self) -> bool {
        self.is_closed() || self.inbox.lock().has_work()
    }

    /// Has posters ring from now on.
    pub fn arm(&self) {
        self.inbox.lock().cool();
    }

    /// As [`Inbox::be_called_at`].
    pub fn be_called_at(&self, spot: Option<Spot>) {
        self.inbox.lock().be_called_at(spot);
    }

    /// As [`Core::has_work`], and whether posters tell of it or not.
    pub fn has_work_anywhere(&self) -> bool {
        if !self.is_closed() && self.inbox.lock().look_everywhere() {
            log::say(LogLevel::Debug, || format!("{}: a message of which no bell was heard", self.what()));
        }
        self.has_work()
    }

    /// What a retrieve ends with that was interrupted.
    pub fn interrupted(&self, interrupted: Interrupted) -> Error {
        match interrupted {
            Interrupted::Deadline => self.no_message.clone(),
            cancelled => cancelled.error(retrieving(self.id, self.name.as_deref())),
        }
    }

    pub fn what(&self) -> String {
        what(self.id, self.name.as_deref())
    }
}

fn retrieving(id: MailboxId, name: Option<&str>) -> String {
    format!("retrieving from {}: no message", what(id, name))
}

/// What an error calls a mail box.
pub(crate) fn what(id: MailboxId, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("mail box {name:?}"),
        None => format!("an anonymous mail box of {}", id.owner),
    }
}

/// What a wait for a message does between its looks.
pub(super) trait Meanwhile {
    /// True if that took as long as some looks.
    fn go_on(&mut self, heap: &HeapMemory) -> bool;
}

impl Meanwhile for Option<FetchBack> {
    #[inline]
    fn go_on(&mut self, heap: &HeapMemory) -> bool {
        self.as_mut().is_some_and(|back| back.go_on(heap))
    }
}

/// Nothing: answers to short messages come after a few looks.
impl Meanwhile for () {
    #[inline]
    fn go_on(&mut self, _: &HeapMemory) -> bool {
        false
    }
}

/// Waits for the next message of a mail box, taken into a parcel.
pub(super) struct Retrieving<'a, M> {
    pub node: &'a NodeShared,
    pub core: &'a Core,
    pub into: &'a mut Parcel,
    /// What the last look brought.
    pub look: Look,
    pub meanwhile: M,
    /// It is counted among the waits.
    pub is_counted: bool,
}

impl<M: Meanwhile> Waiting for Retrieving<'_, M> {
    type Output = Result<NodeId>;

    #[inline]
    fn look(&mut self) -> Option<Result<NodeId>> {
        self.look = self.core.take_simple(self.into);
        match self.look {
            Look::From(from) => Some(Ok(from)),
            Look::Nothing | Look::Awaited(_) => None,
            Look::Unclear => self.look_closely(),
        }
    }

    #[inline]
    fn meanwhile(&mut self) -> bool {
        self.meanwhile.go_on(self.node.heap())
    }

    fn look_everywhere(&mut self) -> Option<Result<NodeId>> {
        if self.core.has_work_anywhere() { self.look() } else { None }
    }

    #[inline]
    fn away(&self) -> Away {
        self.look.away()
    }

    #[inline]
    fn has_looked(&self) -> bool {
        self.look != Look::Unclear
    }

    fn expect(&self) {
        self.core.inbox.visit_as_favourite(|inbox| inbox.expect());
    }

    fn arm(&mut self) {
        if !std::mem::replace(&mut self.is_counted, true) {
            self.core.waits.fetch_add(1, Ordering::Relaxed);
        }
        self.core.arm();
    }

    fn is_called_at(&mut self, spot: Spot) -> bool {
        self.core.be_called_at(Some(spot));
        true
    }

    fn need_not_be_called(&mut self) {
        self.core.be_called_at(None);
    }

    fn about(&self) -> Option<About<'_>> {
        Some(About::new(Goal::Message, self.core.name.as_deref().unwrap_or("")).with([self.core.id.to_word()]))
    }
}

impl<M> Retrieving<'_, M> {
    /// Everything but the fast path, which would pay for its stack frame if it were inlined.
    #[inline(never)]
    pub fn look_closely(&mut self) -> Option<Result<NodeId>> {
        if self.core.is_closed() {
            return Some(Err(match self.node.check() {
                Ok(()) => Error::new(ErrorKind::Closed, format!("retrieving from {}", self.core.what())),
                Err(error) => error,
            }));
        }
        let taken = {
            let mut inbox = self.core.inbox.lock();
            let taken = inbox.take(self.into, self.node.heap(), self.node);
            if let Ok(Some(Arrival::Message(_, protocol))) = &taken {
                self.core.retrieved.count(*protocol, self.into.size());
            }
            taken
        };
        match taken {
            Ok(None) => None,
            // Once for each look: whoever says something again and again holds up nobody.
            Ok(Some(Arrival::Said(from, ring, said))) => {
                self.node.hear(self.core, from, ring, said);
                None
            }
            Ok(Some(Arrival::Message(from, _))) => Some(Ok(from)),
            Ok(Some(Arrival::Trouble(error, ring))) => {
                if let Some(ring) = ring {
                    self.node.give_up(*ring, self.core.area.clone());
                }
                Some(Err(error.context(format!("retrieving from {}", self.core.what()))))
            }
            Err(error) => Some(Err(error.context(format!("retrieving from {}", self.core.what())))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use deck_peers::Door;

    use super::*;
    use crate::mailbox::select;
    use crate::message::Message;
    use crate::node::Node;
    use crate::testing::SOON;

    fn message(node: &Node) -> Message {
        let mut message = node.message();
        message.resize(8).unwrap();
        message
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_message_whose_bell_was_lost_is_found_by_whoever_sleeps() {
        let node = Node::join_by(Door::Named(format!("lost-bell-{}", std::process::id()))).unwrap();
        let mailbox = node.mailbox("box").unwrap();
        for _ in 0..3 {
            mailbox.post_shared(&message(&node), Duration::ZERO).unwrap();
            mailbox.core.inbox.lock().lose_bells();
            assert_eq!(mailbox.retrieve(Duration::ZERO).unwrap_err().kind(), ErrorKind::Timeout);
            mailbox.retrieve(SOON).unwrap();

            mailbox.core.arm();
            mailbox.post_shared(&message(&node), Duration::ZERO).unwrap();
            mailbox.core.inbox.lock().lose_bells();
            assert_eq!(select(&[&mailbox], SOON).unwrap(), 0);
            mailbox.retrieve(Duration::ZERO).unwrap();
            mailbox.core.arm();
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_bell_of_before_does_not_make_a_ring_hot_whose_retriever_goes_to_sleep() {
        let node = Node::join_by(Door::Named(format!("old-bell-{}", std::process::id()))).unwrap();
        let mailbox = node.mailbox("box").unwrap();
        mailbox.post_shared(&message(&node), Duration::ZERO).unwrap();
        // As if the poster had been held up between its message, which is found, and the bell.
        mailbox.retrieve(SOON).unwrap();
        mailbox.core.inbox.lock().ring_bells();

        let noted = mailbox.core.event().count();
        mailbox.core.arm();
        assert!(!mailbox.core.has_work());
        // The next message rings, or whoever sleeps there would not hear of it.
        mailbox.post_shared(&message(&node), Duration::ZERO).unwrap();
        assert_ne!(mailbox.core.event().count(), noted);
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_message_whose_bell_was_lost_is_found_by_whoever_is_busy_with_others() {
        let join = || Node::join_by(Door::Named(format!("lost-bell-busy-{}", std::process::id()))).unwrap();
        let (node, busy, unheard) = (join(), join(), join());
        let mailbox = node.mailbox("box").unwrap();
        let [to_busy, to_unheard] = [&busy, &unheard].map(|node| node.clone_mailbox("box", SOON).unwrap());
        to_unheard.post_shared(&message(&unheard), SOON).unwrap();
        mailbox.retrieve(SOON).unwrap();
        mailbox.core.arm();
        to_unheard.post_shared(&message(&unheard), SOON).unwrap();
        mailbox.core.inbox.lock().lose_bells();

        let since = std::time::Instant::now();
        let is_from = |number: NodeId| {
            to_busy.post_shared(&message(&busy), SOON).unwrap();
            mailbox.retrieve(Duration::ZERO).unwrap().sender() == Some(number)
        };
        while !is_from(unheard.number()) {
            assert!(since.elapsed() < SOON, "it is never found");
        }
        // And by whoever only polls.
        mailbox.core.arm();
        to_unheard.post_shared(&message(&unheard), SOON).unwrap();
        mailbox.core.inbox.lock().lose_bells();
        while mailbox.retrieve(Duration::ZERO).is_err() {
            assert!(since.elapsed() < SOON, "it is never found");
        }
        mailbox.core.arm();
        to_unheard.post_shared(&message(&unheard), SOON).unwrap();
        mailbox.core.inbox.lock().lose_bells();
        while select(&[&mailbox], Duration::ZERO).is_err() {
            assert!(since.elapsed() < SOON, "it is never found");
        }
    }

    struct NoHeaps;

    impl Heaps for NoHeaps {
        fn heap_of(&self, _: NodeId) -> Option<Arc<HeapMemory>> {
            None
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn messages_whose_memory_cannot_be_reached_any_more_are_counted_when_their_sender_is_gone() {
        for (ended, how) in [(Ended::Left, "left"), (Ended::Lost, "died")] {
            let join = || Node::join_by(Door::Named(format!("unreadable-{how}-{}", std::process::id()))).unwrap();
            let (node, gone) = (join(), join());
            let mailbox = node.mailbox("box").unwrap();
            let to_box = gone.clone_mailbox("box", SOON).unwrap();
            for bytes in [1 << 20, 8, 1 << 20] {
                let mut message = gone.message();
                message.resize(bytes).unwrap();
                to_box.post(message, SOON).unwrap();
            }
            let mut inbox = mailbox.core.inbox.lock();
            inbox.sender_gone(gone.number(), ended, &NoHeaps);
            let mut parcel = Parcel::default();
            let mut take = || inbox.take(&mut parcel, mailbox.node.heap(), &NoHeaps).unwrap();
            let small = take();
            assert!(matches!(small, Some(Arrival::Message(from, _)) if from == gone.number()));
            let Some(Arrival::Trouble(error, None)) = take() else { panic!("nothing is told") };
            assert_eq!((error.kind(), error.peer()), (ErrorKind::PeerLost, Some(gone.number())));
            assert!(error.to_string().contains(how) && error.to_string().contains(": 2"), "{error}");
            assert!(take().is_none());
        }
    }
}
