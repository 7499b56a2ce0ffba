//! The owner's end of a mail box.

use std::fmt;
use std::future::Future;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use deck_segment::FetchBack;
use deck_sync::atomic::Ordering;
use deck_sync::{Deadline, Error, ErrorKind, Interrupted, NodeId, Result, Waiting, fork};
use deck_transport::segment::ring::MESSAGES_MAX;
use deck_transport::{Parcel, Shape};

use self::core::{Meanwhile, Retrieving};
use crate::clone::{MailboxAddress, MailboxClone, Refused};
use crate::inbox::Look;
use crate::message::Message;
use crate::node::NodeShared;

mod core;
mod select;

pub(crate) use self::core::{Core, what};
pub use select::select;

/// Limits of a mail box, for each node that posts to it.
#[doc(alias = "deck_mbox_options_t")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxOptions {
    /// Messages in flight from one node, at least: 1 to 57,344. A node may post up to an eighth and one more while the
    /// owner has not given all credits back. With 28 and more, seven messages of up to 8 bytes can have the room of
    /// one, and each thread that contends with others of its node gets as much room of its own.
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
    /// Retrieves and posts that slept, until there was something to retrieve or room.
    pub waits: u64,
    /// Posts that found no room at first.
    pub held_back: u64,
    /// Messages by protocol 1: in a slot. Of these three counters: those retrieved, if the owner asks, and those
    /// posted, if a clone does.
    pub short: u64,
    /// Messages by protocol 2: copied beside the ring.
    pub buffered: u64,
    /// Messages by protocol 3: handed over.
    pub zero_copy: u64,
    /// Lanes: rings of their own for single threads of this node that held one another up.
    pub lanes: u64,
}

/// The owner's end of a mail box: retrieves. Any thread of the node may; each message goes to exactly one.
///
/// Dropping it closes the mail box: its name is free, posters get `Closed`, and what was not retrieved is dropped.
/// Except one that [`MailboxClone::retrieving`] gave.
#[doc(alias = "deck_mbox_t")]
pub struct Mailbox {
    node: Arc<NodeShared>,
    pub(crate) core: Arc<Core>,
    /// For posts to itself.
    here: OnceLock<MailboxClone>,
    /// Another one is dropped to close the mail box.
    is_second: bool,
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mailbox({} of {})", self.core.what(), self.core.id.owner)
    }
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
    ///   posted; also for one that left, if messages are lost that it had posted on and whose memory cannot be reached
    ///   any more, which are counted; the mail box goes on;
    /// - [`ErrorKind::Closed`] when the mail box is closed meanwhile;
    /// - [`ErrorKind::Corrupt`] naming a node that wrote nonsense, whose ring is given up;
    /// - [`ErrorKind::NoMemory`] if there is none for a copy, no room to map the memory in which a message lies, or if
    ///   this node has nearly 2^29 handles of it; it stays in the mail box.
    #[doc(alias = "deck_mbox_retrv")]
    pub fn retrieve(&self, timeout: Duration) -> Result<Message> {
        let mut message = Message::empty(&self.node);
        self.node.check()?;
        self.retrieve_into_own(&mut message, timeout)?;
        Ok(message)
    }

    /// The next message in place of `message`'s content, whose buffer is used again or given back. A message of another
    /// node becomes one of this. Blocks until the deadline.
    ///
    /// # Errors
    /// As [`Mailbox::retrieve`]; `message` is as before then.
    ///
    /// # Cost
    /// Of a short message that is there: the slot and one line of the mail box; one locked operation for the lock of a
    /// mail box whose retrieving threads change, none otherwise; no allocation, no system call.
    #[inline]
    pub fn retrieve_into(&self, message: &mut Message, timeout: Duration) -> Result<()> {
        self.node.check()?;
        if message.is_of(&self.node) {
            self.retrieve_into_own(message, timeout)
        } else {
            // Its buffer is of no use here.
            *message = self.retrieve(timeout)?;
            Ok(())
        }
    }

    /// Into a message of this node.
    #[inline]
    fn retrieve_into_own(&self, message: &mut Message, timeout: Duration) -> Result<()> {
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
        if FetchBack::may_be_due() {
            self.wait_fetching_back(look, into, timeout)
        } else {
            self.wait(look, into, timeout, ())
        }
    }

    /// On its own, so that the wait for short messages is as short as without it.
    #[inline(never)]
    fn wait_fetching_back(&self, look: Look, into: &mut Parcel, timeout: Duration) -> Result<NodeId> {
        self.wait(look, into, timeout, FetchBack::due(self.node.heap()))
    }

    #[inline(always)]
    fn wait<M: Meanwhile>(&self, look: Look, into: &mut Parcel, timeout: Duration, meanwhile: M) -> Result<NodeId> {
        let core = &*self.core;
        let mut retrieving = Retrieving { node: &self.node, core, into, look, meanwhile, is_counted: false };
        // Only if nothing is there it is worth a look at the clock.
        if look == Look::Unclear
            && let Some(result) = retrieving.look_closely()
        {
            return result;
        }
        let crowd = self.node.membership().crowd();
        match deck_sync::wait(&mut retrieving, &[core.event()], crowd, Deadline::after(timeout)) {
            Ok(result) => {
                if result.is_ok() && core.answers.count() {
                    self.node.consider_batons(core);
                }
                result
            }
            Err(interrupted) => {
                // Who polls without a timeout never sleeps.
                if matches!(interrupted, Interrupted::Deadline)
                    && core.inbox.lock().doubt()
                    && let Some(result) = retrieving.look()
                {
                    return result;
                }
                Err(core.interrupted(interrupted))
            }
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
        if core.watch.has_fd() {
            if core.has_work() {
                core.watch.show();
                return;
            }
            core.watch.hush();
            if let Ok(watcher) = self.node.watcher() {
                watcher.watch(&self.core);
            }
        }
    }

    /// The next message, as a future for any executor. Nothing is lost when it is dropped early.
    ///
    /// ```
    /// use std::future::Future;
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    /// # let node = deck_mudeck::Node::join()?;
    /// let mailbox = node.mailbox("greetings")?;
    /// // What an executor does.
    /// let mut context = Context::from_waker(Waker::noop());
    /// let is_there = pin!(mailbox.retrieve_async()).poll(&mut context).is_ready();
    /// assert!(!is_there);
    ///
    /// // That future was dropped while it waited: nothing is lost with it.
    /// mailbox.post(node.message(), deck_mudeck::FOREVER)?;
    /// let Poll::Ready(message) = pin!(mailbox.retrieve_async()).poll(&mut context) else {
    ///     panic!("a message was posted");
    /// };
    /// assert_eq!(message?.sender(), Some(node.number()));
    /// # Ok::<(), deck_mudeck::Error>(())
    /// ```
    pub fn retrieve_async(&self) -> Retrieve<'_> {
        Retrieve { mailbox: self, number: None }
    }

    /// Posts to this mail box from its own node. As [`MailboxClone::post`].
    ///
    /// # Errors
    /// As [`MailboxClone::post`].
    #[doc(alias = "deck_mbox_post")]
    #[expect(clippy::result_large_err, reason = "a refused message comes back by value, without an allocation")]
    pub fn post(&self, message: Message, timeout: Duration) -> std::result::Result<(), Refused> {
        match self.own_clone() {
            Ok(clone) => clone.post(message, timeout),
            Err(error) => Err(Refused { message, error }),
        }
    }

    /// As [`Mailbox::post`]; the message stays the caller's.
    ///
    /// # Errors
    /// As [`MailboxClone::post_shared`].
    pub fn post_shared(&self, message: &Message, timeout: Duration) -> Result<()> {
        self.own_clone()?.post_shared(message, timeout)
    }

    /// A clone for threads of this node.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`], [`ErrorKind::NoMemory`].
    pub fn clone_here(&self) -> Result<MailboxClone> {
        self.own_clone().cloned()
    }

    #[inline]
    fn own_clone(&self) -> Result<&MailboxClone> {
        match self.here.get() {
            Some(clone) => Ok(clone),
            None => self.first_own_clone(),
        }
    }

    #[cold]
    fn first_own_clone(&self) -> Result<&MailboxClone> {
        let clone = self.node.clone_by_id(self.core.id, self.name(), Deadline::NEVER)?;
        Ok(self.here.get_or_init(|| clone))
    }

    /// A descriptor that is readable while there is something to retrieve: for epoll, asyncio and other event loops.
    /// Owned by the mail box and closed with it: only to be watched, not read, and to be taken out of event loops
    /// before the mail box goes. The first call starts a thread that watches mail boxes: it is that which makes the
    /// descriptor readable, some ten microseconds after something was posted to an empty mail box. What is there when
    /// this is called, and what is left when something was retrieved, shows at once.
    ///
    /// ```
    /// use std::os::fd::BorrowedFd;
    /// use std::time::Duration;
    /// use rustix::event::{PollFd, PollFlags, poll};
    /// # let node = deck_mudeck::Node::join()?;
    /// let mailbox = node.mailbox("greetings")?;
    /// // SAFETY: the descriptor is open as long as the mail box lives.
    /// let fd = unsafe { BorrowedFd::borrow_raw(mailbox.fd()?) };
    /// mailbox.post(node.message(), Duration::from_secs(1))?;
    ///
    /// // Here other descriptors may be waited for too.
    /// let mut ready = [PollFd::new(&fd, PollFlags::IN)];
    /// assert_eq!(poll(&mut ready, None), Ok(1));
    ///
    /// // Until nothing is left: only then it is watched again.
    /// while mailbox.retrieve(Duration::ZERO).is_ok() {}
    /// # Ok::<(), deck_mudeck::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]; [`ErrorKind::System`] if there is no descriptor or thread to be had.
    #[doc(alias = "deck_mbox_fd")]
    pub fn fd(&self) -> Result<RawFd> {
        self.node.check()?;
        if self.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "asking for the descriptor of a mail box"));
        }
        let fd = self.core.watch.open_fd()?;
        let watcher = self.node.watcher()?;
        self.core.arm();
        if self.core.has_work() {
            self.core.watch.show();
        }
        watcher.watch(&self.core);
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

    /// Closes the mail box: waiters and posters get `Closed`, what was not retrieved is dropped, the name is free on
    /// return. A second call does nothing, nor does one in a forked child. Never waits for others.
    #[doc(alias = "deck_mbox_destroy")]
    pub fn close(&self) {
        if !fork::is_child() {
            self.node.close(&self.core);
        }
    }

    /// True once it was closed, or its node has left. Never blocks.
    pub fn is_closed(&self) -> bool {
        self.core.is_closed()
    }

    /// What goes into a message so that others can post here.
    pub fn address(&self) -> MailboxAddress {
        MailboxAddress::new(&self.node, self.core.id)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if !self.is_second {
            self.close();
        }
    }
}

/// The future of [`Mailbox::retrieve_async`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct Retrieve<'a> {
    mailbox: &'a Mailbox,
    /// Under which its waker is known, once it has waited.
    number: Option<u64>,
}

impl Future for Retrieve<'_> {
    type Output = Result<Message>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Message>> {
        let again = |error: &Error| error.kind() == ErrorKind::Timeout;
        match self.mailbox.retrieve(Duration::ZERO) {
            Err(error) if again(&error) => {}
            result => return Poll::Ready(result),
        }
        let Mailbox { node, core, .. } = self.mailbox;
        let number = *self.number.get_or_insert_with(|| core.watch.number_future());
        core.watch.set_waker(number, context.waker());
        let watcher = match node.watcher() {
            Ok(watcher) => watcher,
            Err(error) => return Poll::Ready(Err(error)),
        };
        watcher.watch(core);
        Poll::Pending
    }
}

impl fmt::Debug for Retrieve<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Retrieve").field(self.mailbox).finish()
    }
}

impl Drop for Retrieve<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number
            && !fork::is_child()
        {
            self.mailbox.core.watch.forget_waker(number);
        }
    }
}
