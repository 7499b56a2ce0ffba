//! A node of a job: the process's place among the others, and the maker of mail boxes and messages.

mod boxes;
mod closed_rings;
mod requests;
mod state;
#[cfg(test)]
mod tests;
mod ticks;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deck_launch::{Place, check_job_name};
use deck_peers::{Door, Membership, NodeState, check_mailbox_name};
use deck_segment::attach::Attach;
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result};

use crate::clone::MailboxClone;
use crate::log::{self, LogLevel};
use crate::mailbox::{Mailbox, MailboxOptions};
use crate::message::Message;

pub(crate) use state::NodeShared;

/// A node: this process's place in a job. Handles are cheap to clone and share; the node leaves the job with
/// [`Node::leave`], or when the last handle, mail box and message of it is dropped.
///
/// ```
/// use std::time::Duration;
/// let node = deck_mudeck::Node::join()?;
/// let mailbox = node.mailbox("greetings")?;
/// let mut message = node.message();
/// message.pack(&[42u32])?;
/// node.clone_mailbox("greetings", Duration::from_secs(1))?.post(message, Duration::from_secs(1))?;
/// let mut received = mailbox.retrieve(Duration::from_secs(1))?;
/// let mut number = [0u32];
/// received.unpack(&mut number)?;
/// assert_eq!((number, received.sender()), ([42], Some(node.number())));
/// node.leave()?;
/// # Ok::<(), deck_mudeck::Error>(())
/// ```
#[derive(Clone)]
pub struct Node {
    pub(crate) shared: Arc<NodeShared>,
    job: Arc<str>,
}

impl Node {
    /// Joins the job that the environment tells: that of `deck run`, the one named by `DECK_JOB`, or a job of one.
    /// Blocks at most `DECK_TIMEOUT`.
    ///
    /// # Errors
    /// - [`ErrorKind::Invalid`] for a malformed environment, or while another node of a process that `deck run` started
    ///   has not left;
    /// - [`ErrorKind::NotInitialized`] in a forked child, or without the socket of the `deck run` that the environment
    ///   tells of;
    /// - [`ErrorKind::Unsupported`] under a manager that cannot be joined;
    /// - [`ErrorKind::Access`] if the job belongs to another user or network namespace;
    /// - [`ErrorKind::Corrupt`] if it runs with another version of DECK;
    /// - [`ErrorKind::Timeout`], [`ErrorKind::PeerLost`], [`ErrorKind::NoMemory`] and [`ErrorKind::System`] if it
    ///   cannot be reached, or has no room.
    #[doc(alias = "deck_init")]
    pub fn join() -> Result<Node> {
        let door = match deck_launch::place()? {
            Place::Alone => Door::Alone,
            Place::Launched { socket } => Door::Invited(socket),
            Place::ByName { name } => Door::Named(name),
        };
        Node::join_by(door)
    }

    /// Joins through `door`, for launchers and tests.
    ///
    /// # Errors
    /// As [`Node::join`]; [`ErrorKind::Invalid`] also for an impossible name.
    pub fn join_by(door: Door) -> Result<Node> {
        if let Door::Named(name) = &door {
            check_job_name(name.as_ref())?;
        }
        log::look_at_environment();
        let shared = NodeShared::join(door)?;
        let job: Arc<str> = shared.membership().table().job().into();
        let node = Node { shared, job };
        log::say(LogLevel::Info, || format!("{} has joined {}", node.number(), node.job_in_words()));
        Ok(node)
    }

    /// Its number, given in order of joining and never reused.
    #[doc(alias = "deck_node")]
    pub fn number(&self) -> NodeId {
        self.shared.number()
    }

    /// The highest number ever given in the job, plus one; under `deck run -n N` at least N from the start.
    #[doc(alias = "deck_numnodes")]
    pub fn count(&self) -> u32 {
        self.shared.membership().table().count()
    }

    /// The job's name, empty if it has none.
    pub fn job(&self) -> &str {
        &self.job
    }

    fn job_in_words(&self) -> String {
        match self.job() {
            "" => "a job without a name".to_owned(),
            job => format!("job {job:?}"),
        }
    }

    /// What became of a node. Never blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a number that was never given, [`ErrorKind::NotInitialized`] after leaving.
    #[doc(alias = "deck_node_state")]
    pub fn state(&self, node: NodeId) -> Result<NodeState> {
        self.shared.check()?;
        let unknown = || Error::new(ErrorKind::Invalid, format!("the state of {node}: no node has had this number"));
        self.shared.membership().state(node).ok_or_else(unknown)
    }

    /// An empty message. Never waits and, as long as the content stays under 63 bytes, allocates nothing.
    #[doc(alias = "deck_msg_create")]
    pub fn message(&self) -> Message {
        Message::empty(&self.shared)
    }

    /// An empty message with a buffer for `bytes` bytes; it grows when packed past that.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`].
    pub fn message_with_capacity(&self, bytes: usize) -> Result<Message> {
        self.shared.check()?;
        Message::with_capacity(&self.shared, bytes)
    }

    /// Creates a mail box under `name`. Blocks for some seconds at most, if another node was stopped while it created
    /// one with the same name, or made room for a new name.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] naming the node that owns the name, [`ErrorKind::Invalid`] for an impossible name,
    /// [`ErrorKind::Timeout`] naming the node that is stopped, [`ErrorKind::NoMemory`], also if the job has 16,384
    /// different names of mail boxes and groups at a time.
    #[doc(alias = "deck_mbox_create")]
    pub fn mailbox(&self, name: &str) -> Result<Mailbox> {
        self.mailbox_with(Some(name), &MailboxOptions::default())
    }

    /// Creates a mail box without a name: its address travels in messages ([`Message::pack_mailbox`]).
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`].
    pub fn anonymous_mailbox(&self) -> Result<Mailbox> {
        self.mailbox_with(None, &MailboxOptions::default())
    }

    /// Creates a mail box with options.
    ///
    /// # Errors
    /// As [`Node::mailbox`], and [`ErrorKind::Invalid`] for impossible options.
    #[doc(alias = "deck_mbox_create_with")]
    pub fn mailbox_with(&self, name: Option<&str>, options: &MailboxOptions) -> Result<Mailbox> {
        self.shared.check()?;
        let core = self.shared.open(name, options)?;
        Ok(Mailbox::new(self.shared.clone(), core))
    }

    /// Clones the mail box `name` of whatever node: the end to post to. Waits until the name exists, then meets its
    /// owner and gets a ring from it; from then on posts talk to nobody. Blocks until the deadline. With
    /// `Duration::ZERO` it does not wait for the name, but for the answer of a live owner, which may take 20 ms where
    /// there are more threads than cores.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] saying what was missing; [`ErrorKind::PeerLost`] naming the owner, [`ErrorKind::Closed`]
    /// if it closed the mail box or left meanwhile; [`ErrorKind::NoMemory`] here or there, or if the mail box has 1,280
    /// rings; [`ErrorKind::Invalid`] for an impossible name; [`ErrorKind::Corrupt`] naming an owner that answered
    /// nonsense; [`ErrorKind::Cancelled`].
    #[doc(alias = "deck_mbox_clone")]
    pub fn clone_mailbox(&self, name: &str, timeout: Duration) -> Result<MailboxClone> {
        self.shared.check()?;
        check_mailbox_name(name)?;
        let deadline = Deadline::after(timeout);
        loop {
            let id = self.shared.membership().find_name(name, deadline)?;
            let error = match self.shared.clone_by_id(id, Some(name), deadline) {
                Ok(clone) => return Ok(clone),
                Err(error) => error,
            };
            // Each round finds another mail box, or waits for one until the deadline.
            let now = self.shared.owner_of(name);
            let is_anew = match error.kind() {
                ErrorKind::Closed => now != Some(id),
                ErrorKind::PeerLost => now.is_some_and(|now| now != id),
                _ => false,
            };
            if !is_anew || self.shared.check().is_err() {
                return Err(error);
            }
        }
    }

    /// Leaves the job in order. What was posted is still delivered; mail boxes of this node are closed; waits of its
    /// threads end. Waits for no other node, except for one that does not read (it is stopped, say) and is still to be
    /// told where a message lies that was posted on to it, and for its own threads that are in calls of groups,
    /// mutexes, condition variables and barriers, which end: each for a second at most. If one of these stays, the node
    /// counts as lost. Further calls through any handle of this node fail.
    ///
    /// Drop its mail boxes, clones, messages, groups and named objects too, before or after. As long as one is left,
    /// the process keeps some descriptors and much address space of this node, and a thread if a mail box was watched
    /// ([`Mailbox::fd`], futures): that adds up where a process joins again and again. And while it leaves with
    /// messages of other nodes in its hands, its place among the 256 nodes that a job has at a time stays taken until
    /// the process ends: drop those before.
    ///
    /// # Errors
    /// [`ErrorKind::NotInitialized`] if it has left already, or in a forked child.
    #[doc(alias = "deck_done")]
    pub fn leave(self) -> Result<()> {
        self.shared.check()?;
        log::say(LogLevel::Info, || format!("{} leaves {}", self.number(), self.job_in_words()));
        self.shared.leave();
        Ok(())
    }

    /// Its membership: what services above µDECK are built on, not for programs.
    #[doc(hidden)]
    pub fn membership(&self) -> &Arc<Membership> {
        self.shared.membership()
    }

    /// Are long arrays of programs read where they lie? For services above µDECK.
    #[doc(hidden)]
    pub fn attach(&self) -> Attach {
        self.shared.settings.attach
    }

    /// Fails after leaving and in a forked child. For services above µDECK.
    ///
    /// # Errors
    /// [`ErrorKind::NotInitialized`].
    #[doc(hidden)]
    #[inline]
    pub fn check(&self) -> Result<()> {
        self.shared.check()
    }

    /// True once the node has left.
    pub fn is_left(&self) -> bool {
        self.shared.membership().has_left()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({} of {})", self.number(), self.job_in_words())
    }
}
