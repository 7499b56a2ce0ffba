//! The owner's end of a mail box.

use std::future::Future;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use deck_peers::{Granted, MailboxId, Notice, Notices, Refused, Subject};
use deck_segment::Region;
use deck_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use deck_sync::locks::lock;
use deck_sync::{About, Biased, Deadline, Error, ErrorKind, Event, Goal, Interrupted, NodeId, Result, Spot, Waiting};
use deck_transport::segment::ring::MESSAGES_MAX;
use deck_transport::{Heaps, Parcel, Shape, Traffic};

use crate::clone::{MailboxAddress, MailboxClone, Refused as RefusedMessage};
use crate::inbox::{Arrival, Ended, Inbox, Look, Ring};
use crate::log::{self, LogLevel};
use crate::message::Message;
use crate::shared::NodeShared;
use crate::watcher::Watch;

/// Limits of a mail box, for each node that posts to it.
#[doc(alias = "deck_mbox_options_t")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxOptions {
    /// Messages in flight from one node, at least: 1 to 57,344. A node may post up to an eighth more while the owner has not
    /// given all credits back. With 28 and more, seven messages of up to 8 bytes can have the room of one, and each thread that contends
    /// with others of its node gets as much room of its own.
    pub messages: u32,
    /// Bytes in flight from one node, counted for messages that are handed over; an empty ring takes one
    /// message of any size within the sender's budget.
    pub bytes: u64,
}

impl Default for MailboxOptions {
    fn default() -> MailboxOptions {
        MailboxOptions { messages: 28, bytes: 64 << 20 }
    }
}

impl MailboxOptions {
    pub(crate) fn shape(&self, area_lines: u32) -> Result<Shape> {
        if !(1..=MESSAGES_MAX).contains(&self.messages) || self.bytes == 0 {
            let what = format!("a mail box for {} messages and {} bytes per node", self.messages, self.bytes);
            return Err(Error::new(ErrorKind::Invalid, what)
                .with_remedy(format!("ask for 1 to {MESSAGES_MAX} messages and at least 1 byte")));
        }
        Ok(Shape::mapped(self.messages, self.bytes, area_lines))
    }
}

/// Counters of a mail box, as one node has seen it. All grow only.
#[doc(alias = "deck_mbox_stats_t")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailboxStats {
    /// Messages posted through this handle's node.
    pub posted: u64,
    /// Messages retrieved.
    pub retrieved: u64,
    /// Bytes of content posted.
    pub bytes_posted: u64,
    /// Bytes of content retrieved.
    pub bytes_retrieved: u64,
    /// Times that a thread slept on it.
    pub waits: u64,
    /// Posts that found no room at first.
    pub held_back: u64,
    /// Messages by protocol 1: in a slot.
    pub short: u64,
    /// Messages by protocol 2: copied beside the ring.
    pub buffered: u64,
    /// Messages by protocol 3: handed over.
    pub zero_copy: u64,
    /// Lanes: rings of their own for single threads of this node that held one another up.
    pub lanes: u64,
}

/// A mail box of this node, whoever holds it.
pub(crate) struct Core {
    pub id: MailboxId,
    pub name: Option<String>,
    pub shape: Shape,
    inbox: Biased<Inbox>,
    /// The same area as the inbox has: for its event, without the lock.
    area: Arc<Region>,
    words: deck_segment::Words,
    is_closed: AtomicBool,
    /// Counted inside the inbox.
    retrieved: Traffic,
    waits: AtomicU64,
    pub watch: Watch,
    /// Tells those who look on that there is this mail box, until it is closed.
    notice: Mutex<Option<Notice>>,
}

impl Core {
    pub fn new(id: MailboxId, name: Option<String>, shape: Shape, inbox: Inbox, notices: &Arc<Notices>) -> Core {
        let facts = [id.to_word(), u64::from(shape.messages), shape.bytes];
        let notice = Notice::new(notices, Subject::Mailbox, name.as_deref().unwrap_or(""), facts);
        let area = inbox.area().clone();
        Core {
            id,
            name,
            shape,
            words: area.words(),
            area,
            inbox: Biased::new(inbox),
            is_closed: AtomicBool::new(false),
            retrieved: Traffic::default(),
            waits: AtomicU64::new(0),
            watch: Watch::default(),
            notice: Mutex::new(Some(notice)),
        }
    }

    pub fn event(&self) -> &Event {
        self.words.event(0)
    }

    /// The event and the bells.
    pub fn area(&self) -> &Region {
        &self.area
    }

    /// As [`Inbox::take_simple`], for the thread that always retrieves here. A closed mail box has no rings, which is unclear.
    #[inline]
    fn take_simple(&self, into: &mut Parcel) -> Look {
        self.inbox.visit_as_favourite(|inbox| inbox.take_simple(into, &self.retrieved)).unwrap_or(Look::Unclear)
    }

    pub fn is_closed(&self) -> bool {
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
        self.is_closed.store(true, Ordering::Release);
        drop(inbox);
        lock(&self.notice).take();
        self.event().notify();
        Some((rings, self.area.clone()))
    }

    /// Adds a ring under the lock; `make` fails or adds it.
    pub fn add_ring(&self, make: impl FnOnce(&mut Inbox) -> Result<Granted, Refused>) -> Result<Granted, Refused> {
        let mut inbox = self.inbox.lock_as_guest();
        if self.is_closed() { Err(Refused::Closed) } else { make(&mut inbox) }
    }

    pub fn sender_gone(&self, from: NodeId, ended: Ended, heaps: &dyn Heaps) {
        self.inbox.lock_as_guest().sender_gone(from, ended, heaps);
        self.event().notify();
    }

    /// The poster will not use this ring: a clone that was given up.
    pub fn end_ring(&self, from: NodeId, ring: u64, tail: u32) {
        self.inbox.lock_as_guest().end_ring(from, ring, tail);
    }

    /// Tells the sender of a ring that is here all credits.
    pub fn tell(&self, from: NodeId, ring: u64) {
        self.inbox.lock_as_guest().tell(from, ring);
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
    fn be_called_at(&self, spot: Option<Spot>) {
        self.inbox.lock().be_called_at(spot);
    }

    /// As [`Core::has_work`], and whether posters tell of it or not.
    pub fn has_work_anywhere(&self) -> bool {
        if !self.is_closed() && self.inbox.lock().look_everywhere() {
            log::say(LogLevel::Debug, || format!("{}: a message of which no bell was heard", self.what()));
        }
        self.has_work()
    }

    fn what(&self) -> String {
        match &self.name {
            Some(name) => format!("mail box \"{name}\""),
            None => format!("an anonymous mail box of {}", self.id.owner),
        }
    }
}

struct Retrieving<'a> {
    node: &'a NodeShared,
    core: &'a Core,
    into: &'a mut Parcel,
}

impl Waiting for Retrieving<'_> {
    type Output = Result<NodeId>;

    #[inline]
    fn look(&mut self) -> Option<Result<NodeId>> {
        match self.core.take_simple(self.into) {
            Look::From(from) => Some(Ok(from)),
            Look::Nothing => None,
            Look::Unclear => self.look_closely(),
        }
    }

    fn look_everywhere(&mut self) -> Option<Result<NodeId>> {
        if self.core.has_work_anywhere() { self.look() } else { None }
    }

    fn arm(&mut self) {
        self.core.waits.fetch_add(1, Ordering::Relaxed);
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

impl Retrieving<'_> {
    /// Everything but the fast path, which would pay for its stack frame if it were inlined.
    #[inline(never)]
    fn look_closely(&mut self) -> Option<Result<NodeId>> {
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

/// The owner's end of a mail box: retrieves. Any thread of the node may; each message goes to exactly one.
///
/// Dropping it closes the mail box: its name is free, posters get `Closed`. Except one that [`MailboxClone::retrieving`] gave.
#[doc(alias = "deck_mbox_t")]
pub struct Mailbox {
    node: Arc<NodeShared>,
    core: Arc<Core>,
    /// For posts to itself.
    here: OnceLock<MailboxClone>,
    /// Another one is dropped to close the mail box.
    is_second: bool,
}

impl Mailbox {
    pub(crate) fn new(node: Arc<NodeShared>, core: Arc<Core>) -> Mailbox {
        Mailbox { node, core, here: OnceLock::new(), is_second: false }
    }

    pub(crate) fn second(node: Arc<NodeShared>, core: Arc<Core>) -> Mailbox {
        Mailbox { node, core, here: OnceLock::new(), is_second: true }
    }

    /// Its name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.core.name.as_deref()
    }

    /// The next message. Blocks until the deadline.
    ///
    /// # Errors
    /// - [`ErrorKind::Timeout`], [`ErrorKind::Cancelled`];
    /// - [`ErrorKind::PeerLost`] once for each node that had cloned the mail box and died, after everything that it had
    ///   posted; the mail box goes on;
    /// - [`ErrorKind::Closed`] when the mail box is closed meanwhile;
    /// - [`ErrorKind::Corrupt`] naming a node that wrote nonsense, whose ring is given up;
    /// - [`ErrorKind::NoMemory`] if there is none for a copy; the message stays in the mail box.
    #[doc(alias = "deck_mbox_retrv")]
    pub fn retrieve(&self, timeout: Duration) -> Result<Message> {
        let mut message = Message::empty(&self.node);
        self.retrieve_into(&mut message, timeout)?;
        Ok(message)
    }

    /// The next message in place of `message`'s content, whose buffer is used again or given back. Blocks until the
    /// deadline.
    ///
    /// # Errors
    /// As [`Mailbox::retrieve`]; `message` is as before then.
    ///
    /// # Cost
    /// Of a short message that is there: the slot and one line of the mail box; one locked operation for the lock of a mail box whose
    /// retrieving threads change, none otherwise; no allocation, no system call.
    #[inline]
    pub fn retrieve_into(&self, message: &mut Message, timeout: Duration) -> Result<()> {
        self.node.check()?;
        let core = &*self.core;
        let result = match core.take_simple(&mut message.parcel) {
            Look::From(from) => Ok(from),
            look => self.wait_for_message(look, &mut message.parcel, timeout),
        };
        if core.event().has_sleepers() || core.watch.has_fd() {
            self.pass_on();
        }
        message.received(result?);
        Ok(())
    }

    /// After a quick look. Not inlined: the fast path would pay for its stack frame.
    #[inline(never)]
    fn wait_for_message(&self, look: Look, into: &mut Parcel, timeout: Duration) -> Result<NodeId> {
        let core = &*self.core;
        let mut retrieving = Retrieving { node: &self.node, core, into };
        // Only if nothing is there it is worth a look at the clock.
        if look == Look::Unclear
            && let Some(result) = retrieving.look_closely()
        {
            return result;
        }
        let crowd = self.node.membership().crowd();
        match deck_sync::wait(&mut retrieving, &[core.event()], crowd, Deadline::after(timeout)) {
            Ok(result) => result,
            // Who polls without a timeout never sleeps.
            Err(Interrupted::Deadline)
                if core.inbox.lock().doubt()
                    && let Some(result) = retrieving.look() =>
            {
                result
            }
            Err(interrupted) => Err(interrupted.error(format!("retrieving from {}: no message", core.what()))),
        }
    }

    /// This thread polls no longer: if others sleep on the mail box, one of them takes over, or posters ring.
    #[cold]
    fn pass_on(&self) {
        let core = &*self.core;
        if core.event().has_sleepers() {
            if !core.has_work() {
                core.arm();
            }
            if core.has_work() {
                // All: a thread that selects among mail boxes sleeps here too, and would not retrieve.
                core.event().notify();
            }
        }
        if core.watch.has_fd() && !core.has_work() {
            core.watch.hush();
            if let Ok(watcher) = self.node.watcher() {
                watcher.watch(&self.core);
            }
        }
    }

    /// The next message, as a future for any executor. Nothing is lost when it is dropped early.
    pub fn retrieve_async(&self) -> Retrieve<'_> {
        Retrieve { mailbox: self }
    }

    /// Posts to this mail box from its own node. As [`MailboxClone::post`].
    ///
    /// # Errors
    /// As [`MailboxClone::post`].
    #[doc(alias = "deck_mbox_post")]
    #[expect(clippy::result_large_err, reason = "a refused message comes back by value, without an allocation")]
    pub fn post(&self, message: Message, timeout: Duration) -> std::result::Result<(), RefusedMessage> {
        match self.clone_here() {
            Ok(clone) => clone.post(message, timeout),
            Err(error) => Err(RefusedMessage { message, error }),
        }
    }

    /// As [`Mailbox::post`]; the message stays the caller's.
    ///
    /// # Errors
    /// As [`MailboxClone::post_shared`].
    pub fn post_shared(&self, message: &Message, timeout: Duration) -> Result<()> {
        self.clone_here()?.post_shared(message, timeout)
    }

    /// A clone for threads of this node.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`], [`ErrorKind::NoMemory`].
    pub fn clone_here(&self) -> Result<MailboxClone> {
        if let Some(clone) = self.here.get() {
            return Ok(clone.clone());
        }
        let clone = self.node.clone_by_id(self.core.id, self.name(), Deadline::NEVER)?;
        Ok(self.here.get_or_init(|| clone).clone())
    }

    /// A descriptor that is readable while there is something to retrieve: for epoll, asyncio and other event loops.
    /// Owned by the mail box; only to be watched, not read. The first call starts a thread that watches mail boxes.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if there is no descriptor or thread to be had.
    #[doc(alias = "deck_mbox_fd")]
    pub fn fd(&self) -> Result<RawFd> {
        self.node.check()?;
        let fd = self.core.watch.open_fd()?;
        self.node.watcher()?.watch(&self.core);
        Ok(fd)
    }

    /// Counters of retrieving here and of posting from this node.
    #[doc(alias = "deck_mbox_stats")]
    pub fn stats(&self) -> MailboxStats {
        let own = self.node.poster_to(self.core.id);
        let mut stats = own.map(|poster| poster.stats()).unwrap_or_default();
        let retrieved = &self.core.retrieved;
        (stats.retrieved, stats.bytes_retrieved) = (retrieved.messages(), retrieved.bytes());
        stats.waits += self.core.waits.load(Ordering::Relaxed);
        [stats.short, stats.buffered, stats.zero_copy] = retrieved.by_protocol();
        stats
    }

    /// Closes the mail box: waiters and posters get `Closed`, the name is free on return. A second call does nothing.
    #[doc(alias = "deck_mbox_destroy")]
    pub fn close(&self) {
        self.node.close(&self.core);
    }

    /// True once it was closed, or its node has left. Never blocks.
    pub fn is_closed(&self) -> bool {
        self.core.is_closed()
    }

    /// What goes into a message so that others can post here.
    pub fn address(&self) -> MailboxAddress {
        MailboxAddress(self.core.id)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if !self.is_second && !deck_peers::fork::is_child() {
            self.close();
        }
    }
}

/// The future of [`Mailbox::retrieve_async`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct Retrieve<'a> {
    mailbox: &'a Mailbox,
}

impl Future for Retrieve<'_> {
    type Output = Result<Message>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Message>> {
        let again = |error: &Error| error.kind() == ErrorKind::Timeout;
        match self.mailbox.retrieve(Duration::ZERO) {
            Err(error) if again(&error) => {}
            result => return Poll::Ready(result),
        }
        self.mailbox.core.watch.add_waker(context.waker());
        let watcher = match self.mailbox.node.watcher() {
            Ok(watcher) => watcher,
            Err(error) => return Poll::Ready(Err(error)),
        };
        watcher.watch(&self.mailbox.core);
        Poll::Pending
    }
}

/// Where the next select begins to look, so that no mail box is always last.
static TURN: AtomicUsize = AtomicUsize::new(0);

struct Selecting<'a, 'b>(&'a [&'b Mailbox], usize);

impl Selecting<'_, '_> {
    fn find(&self, has_work: fn(&Core) -> bool) -> Option<usize> {
        let count = self.0.len();
        (0..count).map(|step| (self.1 + step) % count).find(|index| has_work(&self.0[*index].core))
    }
}

impl Waiting for Selecting<'_, '_> {
    type Output = usize;

    fn look(&mut self) -> Option<usize> {
        self.find(Core::has_work)
    }

    fn look_everywhere(&mut self) -> Option<usize> {
        self.find(Core::has_work_anywhere)
    }

    fn arm(&mut self) {
        self.0.iter().for_each(|mailbox| mailbox.core.arm());
    }

    fn is_called_at(&mut self, spot: Spot) -> bool {
        self.0.iter().for_each(|mailbox| mailbox.core.be_called_at(Some(spot)));
        true
    }

    fn need_not_be_called(&mut self) {
        self.0.iter().for_each(|mailbox| mailbox.core.be_called_at(None));
    }

    fn about(&self) -> Option<About<'_>> {
        let name = self.0.iter().find_map(|mailbox| mailbox.name()).unwrap_or("");
        Some(About::new(Goal::Messages, name).with(self.0.iter().map(|mailbox| mailbox.core.id.to_word())))
    }
}

/// Waits until one of several mail boxes has something to retrieve (a message, a loss, or its end); returns its index.
/// Blocks until the deadline. Another thread may retrieve it first.
///
/// # Errors
/// [`ErrorKind::Timeout`], [`ErrorKind::Cancelled`], [`ErrorKind::Invalid`] without mail boxes,
/// [`ErrorKind::NotInitialized`] after leaving.
#[doc(alias = "deck_mbox_select")]
pub fn select(boxes: &[&Mailbox], timeout: Duration) -> Result<usize> {
    let Some(first) = boxes.first() else {
        return Err(Error::new(ErrorKind::Invalid, "selecting from no mail box"));
    };
    first.node.check()?;
    let events: Vec<&Event> = boxes.iter().map(|mailbox| mailbox.core.event()).collect();
    let mut selecting = Selecting(boxes, TURN.fetch_add(1, Ordering::Relaxed) % boxes.len());
    let crowd = first.node.membership().crowd();
    let selected = deck_sync::wait(&mut selecting, &events, crowd, Deadline::after(timeout));
    selected.map_err(|interrupted| interrupted.error(format!("selecting from {} mail boxes", boxes.len())))
}

#[cfg(test)]
mod tests {
    use deck_peers::Door;

    use super::*;
    use crate::node::Node;

    /// Longer than a bell that is not heard costs.
    const SOON: Duration = Duration::from_secs(20);

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
            mailbox.core.inbox.lock().set_bells(0);
            assert_eq!(mailbox.retrieve(Duration::ZERO).unwrap_err().kind(), ErrorKind::Timeout);
            mailbox.retrieve(SOON).unwrap();

            mailbox.core.arm();
            mailbox.post_shared(&message(&node), Duration::ZERO).unwrap();
            mailbox.core.inbox.lock().set_bells(0);
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
        mailbox.core.inbox.lock().set_bells(1);
        mailbox.core.event().notify();

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
        mailbox.core.inbox.lock().set_bells(0);

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
        mailbox.core.inbox.lock().set_bells(0);
        while mailbox.retrieve(Duration::ZERO).is_err() {
            assert!(since.elapsed() < SOON, "it is never found");
        }
        mailbox.core.arm();
        to_unheard.post_shared(&message(&unheard), SOON).unwrap();
        mailbox.core.inbox.lock().set_bells(0);
        while select(&[&mailbox], Duration::ZERO).is_err() {
            assert!(since.elapsed() < SOON, "it is never found");
        }
    }
}
