//! The posting end of a mail box.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use deck_peers::{Depending, Handler, MailboxId, Notice, Notices, Peer, Subject};
use deck_segment::fabric::Host;
use deck_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use deck_sync::locks::lock;
use deck_sync::{About, Deadline, Error, ErrorKind, Event, Goal, Interrupted, NodeId, Result, Waiting, now_ns};
use deck_transport::segment::sender::Ending;
use deck_transport::{Parcel, Protocol, Refusal, Sender};

use crate::door::Door;
use crate::lanes::{self, Lanes};
use crate::mailbox::{self, Mailbox, MailboxStats};
use crate::message::Message;
use crate::shared::NodeShared;

/// Where a mail box is: travels in messages, so that the receiver can post to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MailboxAddress(pub(crate) MailboxId);

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

/// One ring to one mail box, shared by all clones of this node.
pub(crate) struct Poster {
    pub id: MailboxId,
    pub name: Option<String>,
    pub sender: Sender<Host>,
    /// The owner's number for the ring.
    pub ring: u64,
    /// The owner, unless it is this node.
    pub peer: Option<Arc<Peer>>,
    /// Threads that wait for room.
    hungry: Mutex<u32>,
    /// Where threads of this node wait for room.
    door: Door,
    /// A post that would not wait found no room, and none succeeded since: counts as one more thread that waits, so that the
    /// next attempt finds what there is by then.
    is_remembered: AtomicBool,
    waits: AtomicU64,
    held_back: AtomicU64,
    /// Rings of their own for threads that contend for this one.
    pub lanes: OnceLock<Lanes>,
    /// What a post ends with that found no room in time, from the first on: who polls gets it often.
    is_full: OnceLock<Error>,
    /// Tells those who look on that there is this ring, until it ends.
    notice: Mutex<Option<Notice>>,
}

impl Poster {
    /// A poster that is told to those who look on.
    pub fn new(
        id: MailboxId,
        name: Option<String>,
        sender: Sender<Host>,
        ring: u64,
        peer: Option<Arc<Peer>>,
        notices: &Arc<Notices>,
    ) -> Poster {
        let facts = [id.to_word()].into_iter().chain(sender.places());
        let notice = Notice::new(notices, Subject::Ring, name.as_deref().unwrap_or(""), facts);
        Poster {
            id,
            name,
            sender,
            ring,
            peer,
            hungry: Mutex::new(0),
            door: Door::default(),
            is_remembered: AtomicBool::new(false),
            waits: AtomicU64::new(0),
            held_back: AtomicU64::new(0),
            lanes: OnceLock::new(),
            is_full: OnceLock::new(),
            notice: Mutex::new(Some(notice)),
        }
    }

    fn what(&self) -> String {
        mailbox::what(self.id, self.name.as_deref())
    }

    /// What those who look on are told of a wait for room.
    fn about(&self, goal: Goal, since_ns: u64, until_ns: u64) -> About<'_> {
        let about = About { since_ns, until_ns, ..About::new(goal, self.name.as_deref().unwrap_or("")) };
        about.with([self.id.to_word()])
    }

    fn count_wait(&self, is_counted: &Cell<bool>) {
        if !is_counted.replace(true) {
            self.waits.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Posts now, or says why not.
    fn try_post(&self, node: &NodeShared, parcel: &Parcel) -> Result<Protocol, Refusal> {
        let foreign = parcel.buffer().filter(|buffer| buffer.heap().owner() != node.number());
        match (foreign, &self.peer) {
            // Nothing comes to it any more.
            (Some(_), Some(_)) if self.sender.ended().is_some() => {}
            (Some(buffer), Some(peer)) => {
                node.membership().introduce_heap(peer, buffer.heap()).map_err(Refusal::Failed)?;
            }
            (Some(buffer), None) => node.membership().introduce_here(buffer.heap()),
            (None, _) => {}
        }
        let posted = self.sender.post_any(parcel);
        if foreign.is_some() {
            // A buffer of another node is in flight from here.
            node.want_ticks();
        }
        posted
    }

    /// Asks the receiver to tell credits at once, or no longer.
    pub fn ask_for_room(&self, more: bool) {
        self.count_hungry(&mut lock(&self.hungry), more);
    }

    fn count_hungry(&self, hungry: &mut u32, more: bool) {
        if more {
            *hungry += 1;
        } else {
            *hungry -= 1;
        }
        // A ring that has ended may be somebody else's memory soon.
        if *hungry == u32::from(more) && self.sender.ended().is_none() && !self.sender.is_closed() {
            self.sender.ask_for_room(more);
        }
    }

    /// Asks for room, and for credits that were not told yet: nobody may be retrieving there.
    fn want_room(&self, node: &NodeShared) {
        self.ask_for_room(true);
        self.want_credits(node);
    }

    fn want_credits(&self, node: &NodeShared) {
        match &self.peer {
            Some(_) => node.membership().want_room(self.id.owner, self.ring),
            None => node.room_wanted(self.id.owner, self.ring),
        }
    }

    #[cold]
    fn remember(&self, node: &NodeShared) {
        {
            // Under the lock: whoever forgets it takes back what was counted here.
            let mut hungry = lock(&self.hungry);
            if self.is_remembered.swap(true, Ordering::Relaxed) {
                return;
            }
            self.count_hungry(&mut hungry, true);
        }
        self.want_credits(node);
    }

    /// A message was posted.
    #[inline]
    fn note_success(&self) {
        if self.is_remembered.load(Ordering::Relaxed) {
            self.forget();
        }
    }

    #[cold]
    fn forget(&self) {
        let mut hungry = lock(&self.hungry);
        if self.is_remembered.swap(false, Ordering::Relaxed) {
            self.count_hungry(&mut hungry, false);
        }
    }

    /// Ends the ring: nothing more is posted or asked for; returns the position behind the last message posted.
    pub fn end(&self, ending: Ending) -> u32 {
        let tail = self.sender.end(ending);
        lock(&self.notice).take();
        // Whoever is asking for room right now is done before this returns.
        drop(lock(&self.hungry));
        tail
    }

    /// This node leaves: nothing more is posted or asked for.
    pub fn stop(&self) {
        self.sender.stop(Ending::Closed);
        // Whoever is asking for room right now is done before this returns.
        drop(lock(&self.hungry));
    }

    /// Why the ring refuses, as an error.
    #[cold]
    fn error(&self, node: &NodeShared, refusal: Refusal) -> Error {
        let doing = || format!("posting to {}", self.what());
        match refusal {
            Refusal::Failed(error) => error.context(doing()),
            Refusal::Lost => Error::new(ErrorKind::PeerLost, doing()).with_peer(self.id.owner),
            Refusal::Closed => match node.check() {
                Err(error) => error,
                Ok(()) => Error::new(ErrorKind::Closed, doing()).with_peer(self.id.owner),
            },
            Refusal::Full => {
                let error = self.is_full.get_or_init(|| {
                    Error::new(ErrorKind::Timeout, doing() + ": it is full")
                        .with_peer(self.id.owner)
                        .with_remedy("wait longer, or give the mail box more room (messages and bytes per node)")
                });
                error.clone()
            }
            Refusal::Budget => {
                let (used, limit) = (node.budget().used(), node.budget().limit());
                let budget = format!("{used} of this node's budget of {limit} bytes are posted and not retrieved");
                let what = doing() + ": " + &budget;
                Error::new(ErrorKind::Timeout, what).with_remedy("wait longer, or raise DECK_BUDGET")
            }
        }
    }

    /// Of posting here and in the lanes.
    pub fn stats(&self) -> MailboxStats {
        let mut stats = MailboxStats::default();
        let lanes: Vec<&Poster> = self.lanes.get().into_iter().flat_map(Lanes::made).map(|lane| &**lane).collect();
        stats.lanes = lanes.len() as u64;
        for poster in lanes.into_iter().chain([self]) {
            let traffic = poster.sender.traffic();
            let [short, buffered, zero_copy] = traffic.by_protocol();
            stats.posted += traffic.messages();
            stats.bytes_posted += traffic.bytes();
            stats.waits += poster.waits.load(Ordering::Relaxed);
            stats.held_back += poster.held_back.load(Ordering::Relaxed);
            stats.short += short;
            stats.buffered += buffered;
            stats.zero_copy += zero_copy;
        }
        stats
    }
}

/// How long a thread that waits for budget sleeps before it looks which rings there are by now.
const BUDGET_LOOK: Duration = Duration::from_millis(10);

/// Waits for room in one ring, or in this node's budget.
struct Room<'a> {
    node: &'a NodeShared,
    poster: &'a Poster,
    parcel: &'a Parcel,
    is_budget: bool,
    /// Rings that may give bytes of the budget back.
    all: &'a [Arc<Poster>],
    has_asked: bool,
    /// That this post has waited is counted once.
    is_counted: &'a Cell<bool>,
    depending: Option<Depending>,
    since_ns: u64,
    until_ns: u64,
}

impl Room<'_> {
    fn asked(&self) -> impl Iterator<Item = &Poster> {
        let others: &[Arc<Poster>] = if self.is_budget { self.all } else { &[] };
        others.iter().map(|poster| &**poster).chain((!self.is_budget).then_some(self.poster))
    }
}

impl Waiting for Room<'_> {
    /// `None` if what is missing changed, from room in the ring to budget or back.
    type Output = Option<Result<Protocol, Refusal>>;

    fn look(&mut self) -> Option<Self::Output> {
        if self.is_budget {
            for poster in self.all {
                poster.sender.reap();
            }
        }
        match self.poster.try_post(self.node, self.parcel) {
            Err(Refusal::Full) if self.is_budget => Some(None),
            Err(Refusal::Budget) if !self.is_budget => Some(None),
            Err(Refusal::Full | Refusal::Budget) => None,
            result => Some(Some(result)),
        }
    }

    fn arm(&mut self) {
        if !std::mem::replace(&mut self.has_asked, true) {
            self.poster.count_wait(self.is_counted);
            self.asked().for_each(|poster| poster.want_room(self.node));
            self.depending = self.poster.peer.as_ref().map(|peer| self.node.membership().depend(peer));
        }
    }

    fn disarm(&mut self) {
        if std::mem::take(&mut self.has_asked) {
            self.asked().for_each(|poster| poster.ask_for_room(false));
        }
    }

    fn about(&self) -> Option<About<'_>> {
        let goal = if self.is_budget { Goal::Budget } else { Goal::Room };
        let about = self.poster.about(goal, self.since_ns, self.until_ns);
        Some(if self.is_budget { about } else { about.on(self.poster.id.owner) })
    }
}

/// The posting end of a mail box, of this or any other node. Clones are handles of the same ring; threads may share one or
/// have one each.
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
    /// room. Messages of one thread to one mail box, posted through one node, arrive in the order posted, but those that it posts while it ends, from destructors of
    /// its thread-local values, may overtake what it posted before. Waits for room until the deadline.
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
    /// Of a short message that finds room: one or two lines of the receiver's memory, or of the one that two nodes in a conversation share,
    /// and one of this node's; with more threads than cores
    /// also one of the job's table; one locked operation for the lock of a clone whose posting threads change, none otherwise; no allocation,
    /// no system call. Of a message that another node of this process has made or retrieved: two system calls, which tell whether that is a node of this job.
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
            Err(refusal) => self.post_later(poster, message, refusal, Deadline::after(timeout)),
        };
        if std::ptr::eq(poster, &*self.poster) {
            lanes::note_post(&self.poster, posted.is_ok());
        }
        posted
    }

    #[cold]
    fn post_later(&self, poster: &Poster, message: &Message, mut refusal: Refusal, deadline: Deadline) -> Result<()> {
        poster.held_back.fetch_add(1, Ordering::Relaxed);
        let since_ns = if deadline.is_now() { 0 } else { now_ns() };
        let (mut at_door, is_counted) = (None, Cell::new(false));
        loop {
            let is_budget = match refusal {
                Refusal::Full => false,
                Refusal::Budget => true,
                other => return Err(poster.error(&self.node, other)),
            };
            if poster.sender.ended() == Some(Ending::Lost) {
                return Err(poster.error(&self.node, Refusal::Lost));
            }
            if is_budget || deadline.is_now() {
                // Whoever waits for something else, or not at all, keeps nobody else from the room that there is.
                at_door = None;
            } else if at_door.is_none() {
                let about = poster.about(Goal::Room, since_ns, deadline.at_ns()).on(poster.id.owner);
                let asleep = || poster.count_wait(&is_counted);
                let need = message.parcel.size();
                match poster.door.come(need, about, asleep, self.node.membership().crowd(), deadline) {
                    Ok(come) => at_door = Some(come),
                    // It tries once more: there may be room that the one before has not come to.
                    Err(Interrupted::Deadline) => {}
                    Err(interrupted) => return Err(self.no_room(poster, interrupted, Refusal::Full)),
                }
            }
            let all = if is_budget { self.node.posters() } else { Vec::new() };
            let mut events: Vec<&Event> = all.iter().map(|poster| poster.sender.room()).collect();
            if !all.iter().any(|other| std::ptr::eq(&**other, poster)) {
                events.push(poster.sender.room());
            }
            let mut room = Room {
                node: &self.node,
                poster,
                parcel: &message.parcel,
                is_budget,
                all: &all,
                has_asked: false,
                is_counted: &is_counted,
                depending: None,
                since_ns,
                until_ns: deadline.at_ns(),
            };
            // Bytes of the budget may come back by rings that are not there yet: look around again now and then.
            let look_again = Deadline::after(BUDGET_LOOK);
            let until = if is_budget { deadline.min(look_again) } else { deadline };
            if deadline.is_now() {
                room.asked().for_each(|poster| poster.remember(&self.node));
            }
            let waited = deck_sync::wait(&mut room, &events, self.node.membership().crowd(), until);
            match waited {
                Err(Interrupted::Deadline) if is_budget && !deadline.has_passed() => {}
                Ok(Some(Ok(_))) => {
                    room.asked().for_each(Poster::note_success);
                    return Ok(());
                }
                Ok(Some(Err(other))) => return Err(poster.error(&self.node, other)),
                Ok(None) => refusal = if is_budget { Refusal::Full } else { Refusal::Budget },
                Err(interrupted) => {
                    let kind = if is_budget { Refusal::Budget } else { Refusal::Full };
                    return Err(self.no_room(poster, interrupted, kind));
                }
            }
        }
    }

    /// The error of a wait for room that was interrupted, where this was missing.
    #[cold]
    fn no_room(&self, poster: &Poster, interrupted: Interrupted, missing: Refusal) -> Error {
        match &poster.peer {
            Some(peer) if self.is_frozen(peer) || interrupted == Interrupted::Cancelled => {
                let doing = format!("posting to {}", poster.what());
                self.node.membership().interrupted(interrupted, &doing, peer)
            }
            _ if interrupted == Interrupted::Cancelled => interrupted.error(format!("posting to {}", poster.what())),
            _ => poster.error(&self.node, missing),
        }
    }

    fn is_frozen(&self, peer: &Peer) -> bool {
        self.node.membership().frozen_for(peer).is_some()
    }

    /// True if the mail box is one of this node's. Never blocks.
    pub fn is_here(&self) -> bool {
        self.poster.id.owner == self.node.number()
    }

    /// A second handle of a mail box of this node, which retrieves like the first. Dropping it closes nothing. `None` if the mail box is another
    /// node's, or closed. Never blocks.
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
        MailboxAddress(self.poster.id)
    }
}
