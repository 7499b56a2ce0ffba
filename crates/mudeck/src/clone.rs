//! The posting end of a mail box.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deck_peers::MailboxId;
#[cfg(doc)]
use deck_sync::ErrorKind;
use deck_sync::{Deadline, Error, NodeId, Result};

use crate::lanes;
use crate::mailbox::{Mailbox, MailboxStats};
use crate::message::Message;
use crate::node::NodeShared;
use crate::poster::Poster;
use crate::room;

/// Where a mail box is: travels in messages of its job, so that the receiver can post to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MailboxAddress {
    pub(crate) id: MailboxId,
    /// A process may be a node of several jobs, or of one after the other, which have mail boxes with the same ids.
    job: u64,
}

impl MailboxAddress {
    /// That of a mail box of the job of `node`.
    pub(crate) fn new(node: &NodeShared, id: MailboxId) -> MailboxAddress {
        MailboxAddress { id, job: job_of(node) }
    }

    pub(crate) fn is_of_job_of(self, node: &NodeShared) -> bool {
        self.job == job_of(node)
    }
}

/// What tells the job of a node from all others that this process knows.
fn job_of(node: &NodeShared) -> u64 {
    node.membership().table().segment().inode()
}

/// A message that was not posted, and why. It is still the caller's, unchanged.
#[derive(Debug)]
pub struct Refused {
    /// The message.
    pub message: Message,
    /// Why it was not posted.
    pub error: Error,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Refused {}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        refused.error
    }
}

/// The posting end of a mail box, of this or any other node. Clones are handles of the same ring; threads may share one
/// or have one each.
#[derive(Clone)]
pub struct MailboxClone {
    node: Arc<NodeShared>,
    poster: Arc<Poster>,
}

impl fmt::Debug for MailboxClone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MailboxClone({} of {})", self.poster.what(), self.poster.id.owner)
    }
}

impl MailboxClone {
    pub(crate) fn new(node: Arc<NodeShared>, poster: Arc<Poster>) -> MailboxClone {
        MailboxClone { node, poster }
    }

    /// The node that owns the mail box.
    pub fn owner(&self) -> NodeId {
        self.poster.id.owner
    }

    /// Posts a message: returns as soon as it is on its way, whatever its size, and needs nothing of the receiver but
    /// room. Messages of one thread to one mail box, posted through one node, arrive in the order posted. Waits for
    /// room until the deadline.
    ///
    /// ```
    /// use std::time::Duration;
    /// use deck_mudeck::{ErrorKind, MailboxOptions, Node, Refused};
    /// let node = Node::join()?;
    /// let options = MailboxOptions { messages: 1, ..MailboxOptions::default() };
    /// let mailbox = node.mailbox_with(Some("narrow"), &options)?;
    /// let clone = node.clone_mailbox("narrow", Duration::from_secs(1))?;
    /// clone.post(node.message(), Duration::from_secs(1))?;
    ///
    /// let mut message = node.message();
    /// message.pack(&[42u32])?;
    /// let Err(Refused { message, error }) = clone.post(message, Duration::ZERO) else {
    ///     panic!("there is room for one message only");
    /// };
    /// assert_eq!(error.kind(), ErrorKind::Timeout);
    ///
    /// mailbox.retrieve(Duration::from_secs(1))?;
    /// clone.post(message, Duration::from_secs(1))?;
    /// let mut number = [0u32];
    /// mailbox.retrieve(Duration::from_secs(1))?.unpack(&mut number)?;
    /// assert_eq!(number, [42]);
    /// # Ok::<(), deck_mudeck::Error>(())
    /// ```
    ///
    /// # Errors
    /// The message comes back with
    /// - [`ErrorKind::Timeout`] if there was no room; the error says so if the owner is frozen;
    /// - [`ErrorKind::PeerLost`] naming the owner if it died, [`ErrorKind::Closed`] if the mail box is closed;
    /// - [`ErrorKind::TooLarge`] if it is larger than this node's budget;
    /// - [`ErrorKind::Invalid`] if it is of another job, be it one of which this process was a node before;
    /// - [`ErrorKind::System`] if the memory of another node, in which it lies, cannot be passed on now: the owner does
    ///   not read, and there is no descriptor for that to wait with;
    /// - [`ErrorKind::Corrupt`] naming an owner whose credits make no sense;
    /// - [`ErrorKind::Cancelled`], [`ErrorKind::NoMemory`].
    #[doc(alias = "deck_mbox_post")]
    #[expect(clippy::result_large_err, reason = "a refused message comes back by value, without an allocation")]
    pub fn post(&self, message: Message, timeout: Duration) -> std::result::Result<(), Refused> {
        match self.post_shared(&message, timeout) {
            Ok(()) => Ok(()),
            Err(error) => Err(Refused { message, error }),
        }
    }

    /// As [`MailboxClone::post`]; the message stays the caller's, readable and postable again: one message to many mail
    /// boxes is one buffer.
    ///
    /// # Errors
    /// As [`MailboxClone::post`].
    ///
    /// # Cost
    /// Of a short message that finds room: one or two lines of the receiver's memory, or of the one that two nodes in a
    /// conversation share, and one of this node's; with more threads than cores also one of the job's table; one locked
    /// operation for the lock of a clone whose posting threads change, none otherwise; no allocation, no system call.
    /// Of a message that another node of this process has made or retrieved: two system calls, which tell whether that
    /// is a node of this job.
    #[inline]
    pub fn post_shared(&self, message: &Message, timeout: Duration) -> Result<()> {
        self.node.check()?;
        message.check_job(&self.node)?;
        if self.poster.sender.post_quickly(&message.parcel).is_some() {
            self.poster.note_success();
            return Ok(());
        }
        self.post_otherwise(message, timeout)
    }

    /// Not inlined: small messages would pay for it.
    #[inline(never)]
    fn post_otherwise(&self, message: &Message, timeout: Duration) -> Result<()> {
        if let Some(lane) = lanes::last_of_this_thread(&self.poster)
            && lane.sender.post_quickly(&message.parcel).is_some()
        {
            lane.note_success();
            return Ok(());
        }
        let poster = lanes::of_this_thread(&self.node, &self.poster);
        let posted = match poster.try_post(&self.node, &message.parcel) {
            Ok(_) => {
                poster.note_success();
                Ok(())
            }
            Err(refusal) => room::post_later(&self.node, poster, &message.parcel, refusal, Deadline::after(timeout)),
        };
        if std::ptr::eq(poster, &*self.poster) {
            lanes::note_post(&self.poster, posted.is_ok());
        }
        posted
    }

    /// True if the mail box is one of this node's. Never blocks.
    pub fn is_here(&self) -> bool {
        self.poster.id.owner == self.node.number()
    }

    /// A second handle of a mail box of this node, which retrieves like the first. Dropping it closes nothing. `None`
    /// if the mail box is another node's, or closed, and in a forked child. Never blocks.
    pub fn retrieving(&self) -> Option<Mailbox> {
        let MailboxId { index, generation, .. } = self.poster.id;
        let core = self.is_here().then(|| self.node.find_box(index, generation)).flatten()?;
        Some(Mailbox::second(self.node.clone(), core))
    }

    /// Counters of posting from this node.
    #[doc(alias = "deck_mbox_stats")]
    pub fn stats(&self) -> MailboxStats {
        self.poster.stats()
    }

    /// What goes into a message so that others can post there.
    pub fn address(&self) -> MailboxAddress {
        MailboxAddress::new(&self.node, self.poster.id)
    }
}
