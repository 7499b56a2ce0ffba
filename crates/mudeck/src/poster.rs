//! What a node posts to one mail box with: the ring, and who waits for room in it.

use std::cell::Cell;
use std::sync::{Arc, Mutex, OnceLock};

use deck_peers::{Handler, MailboxId, Notice, Notices, Peer, Subject};
use deck_segment::fabric::Host;
use deck_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use deck_sync::locks::lock;
use deck_sync::{About, Error, ErrorKind, Goal, Result};
use deck_transport::segment::sender::Ending;
use deck_transport::{Parcel, Protocol, Refusal, Sender};

use crate::lanes::Lanes;
use crate::mailbox::{self, MailboxStats};
use crate::node::NodeShared;
use crate::room::rows::Rows;

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
    pub rows: Rows,
    /// A post that would not wait found no room, or this node no memory, and no post succeeded since: counts as one
    /// more thread that waits, so that the next attempt finds what there is by then.
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
            rows: Rows::default(),
            is_remembered: AtomicBool::new(false),
            waits: AtomicU64::new(0),
            held_back: AtomicU64::new(0),
            lanes: OnceLock::new(),
            is_full: OnceLock::new(),
            notice: Mutex::new(Some(notice)),
        }
    }

    /// The mail box, in words.
    pub fn what(&self) -> String {
        mailbox::what(self.id, self.name.as_deref())
    }

    /// What those who look on are told of a wait for room.
    pub fn about(&self, goal: Goal, since_ns: u64, until_ns: u64) -> About<'_> {
        let about = About { since_ns, until_ns, ..About::new(goal, self.name.as_deref().unwrap_or("")) };
        about.with([self.id.to_word()])
    }

    /// A post found no room.
    pub fn note_refused(&self) {
        self.held_back.fetch_add(1, Ordering::Relaxed);
    }

    /// A post waits, which is counted once.
    pub fn count_wait(&self, is_counted: &Cell<bool>) {
        if !is_counted.replace(true) {
            self.waits.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Posts now, or says why not.
    pub fn try_post(&self, node: &NodeShared, parcel: &Parcel) -> Result<Protocol, Refusal> {
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
    pub fn want_room(&self, node: &NodeShared) {
        self.ask_for_room(true);
        self.want_credits(node);
    }

    fn want_credits(&self, node: &NodeShared) {
        match &self.peer {
            Some(_) => node.membership().want_room(self.id.owner, self.ring),
            None => node.room_wanted(self.id.owner, self.ring),
        }
    }

    /// What will not wait found no room: what there is by its next attempt is to be told to this node.
    #[cold]
    pub fn remember(&self, node: &NodeShared) {
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

    /// This node is short of memory. Messages that were retrieved since the last post still hold their buffers; and
    /// whoever retrieved them may have told nobody, and not look again for long: then the next attempt finds them.
    pub fn reap_for_memory(&self, node: &NodeShared) {
        if !self.sender.try_reap() {
            return;
        }
        if self.peer.is_some() {
            self.remember(node);
        } else if let Some(core) = node.box_of_ring(self.ring) {
            // This thread may be inside there.
            core.try_tell(self.id.owner, self.ring);
            self.sender.try_reap();
        }
    }

    /// A message was posted.
    #[inline]
    pub fn note_success(&self) {
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
    pub fn error(&self, node: &NodeShared, refusal: Refusal) -> Error {
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
