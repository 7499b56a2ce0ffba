//! What all objects of a node share: its mail boxes, its rings to others, its membership in the job.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use deck_peers::{Asked, Door, Handler, MailboxId, Membership, left};
use deck_segment::{HeapMemory, Region};
use deck_sync::atomic::AtomicU64;
use deck_sync::locks::lock;
use deck_sync::{Deadline, Error, NodeId, Result, fork};
use deck_transport::{Budget, Heaps};

use super::boxes::Boxes;
use super::closed_rings::ClosedRing;
use super::ticks::Ticks;
use crate::cloning::Cloning;
use crate::poster::Poster;
use crate::settings::{Settings, default_timeout};
use crate::watcher::Watcher;

/// What all objects of a node share.
pub(crate) struct NodeShared {
    pub(super) membership: Arc<Membership>,
    pub settings: Settings,
    budget: Arc<Budget>,
    pub(super) boxes: Mutex<Boxes>,
    /// The common ring of all threads to each mail box, and beside them rings of single threads.
    pub posters: Mutex<HashMap<MailboxId, Cloning>>,
    pub lanes: Mutex<Vec<Arc<Poster>>>,
    /// Rings of closed mail boxes whose memory somebody may still write.
    pub(super) closed_rings: Mutex<Vec<ClosedRing>>,
    /// Lanes that were asked for beside rings that have ended, and where their credits would lie.
    pub abandoned: Mutex<Vec<(Asked, Region)>>,
    /// Rings that were asked for, also by those that gave up waiting, and where their credits lie.
    pub asked: Mutex<HashMap<MailboxId, (Arc<Asked>, Region)>>,
    pub next_ring: AtomicU64,
    watcher: OnceLock<Watcher>,
    pub(super) ticks: Ticks,
}

impl Heaps for NodeShared {
    fn heap_of(&self, owner: NodeId) -> Option<Arc<HeapMemory>> {
        self.membership.heap_of(owner)
    }

    fn lacking(&self, owner: NodeId) -> Option<Error> {
        self.membership.lacking_heap(owner)
    }
}

impl NodeShared {
    pub fn join(door: Door) -> Result<Arc<NodeShared>> {
        let settings = Settings::from_environment()?;
        let membership = Membership::join(door, &settings.heap, Deadline::after(default_timeout()))?;
        let shared = Arc::new(NodeShared {
            budget: Budget::new(settings.budget_bytes),
            settings,
            boxes: Mutex::default(),
            posters: Mutex::default(),
            lanes: Mutex::default(),
            closed_rings: Mutex::default(),
            abandoned: Mutex::default(),
            asked: Mutex::default(),
            next_ring: AtomicU64::new(1),
            watcher: OnceLock::new(),
            ticks: Ticks::none(),
            membership,
        });
        let weak = Arc::downgrade(&shared);
        shared.heap().set_reserve(Box::new(move || {
            if let Some(shared) = weak.upgrade() {
                shared.posters().iter().for_each(|poster| poster.reap_for_memory(&shared));
            }
        }));
        let handler: Weak<dyn Handler> = Arc::downgrade(&(shared.clone() as Arc<dyn Handler>));
        shared.membership.start(handler)?;
        Ok(shared)
    }

    pub fn number(&self) -> NodeId {
        self.membership.number()
    }

    pub fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    pub fn heap(&self) -> &Arc<HeapMemory> {
        self.membership.heap()
    }

    /// Fails after leaving and in a forked child.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.membership.has_left() || fork::is_child() { Err(self.not_a_node()) } else { Ok(()) }
    }

    #[cold]
    fn not_a_node(&self) -> Error {
        fork::check().err().unwrap_or_else(left)
    }

    pub fn owner_of(&self, name: &str) -> Option<MailboxId> {
        self.membership.find_name(name, Deadline::NOW).ok()
    }

    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub fn watcher(&self) -> Result<&Watcher> {
        if let Some(watcher) = self.watcher.get() {
            return Ok(watcher);
        }
        let watcher = Watcher::start(self.membership.crowd().clone())?;
        let watcher = self.watcher.get_or_init(|| watcher);
        // Leaving may have found none.
        if self.membership.has_left() {
            watcher.end();
        }
        Ok(watcher)
    }

    /// A buffer of another node is in flight from here, or a closed ring is not free yet: the control thread comes by
    /// if nobody else does.
    pub fn want_ticks(&self) {
        if self.ticks.want() {
            self.membership.poke();
        }
    }

    pub fn leave(&self) {
        // First: whatever begins from now on finds out by itself.
        if !self.membership.begin_leaving() {
            return;
        }
        self.all_boxes().iter().for_each(|core| self.close(core));
        // Threads that are inside a post right now get to its end before the receivers are told.
        self.all_posters().iter().for_each(|poster| poster.stop());
        self.membership.leave();
        if let Some(watcher) = self.watcher.get() {
            watcher.end();
        }
        for cloning in std::mem::take(&mut *lock(&self.posters)).into_values() {
            if let Some(event) = cloning.event() {
                event.notify();
            }
        }
        lock(&self.lanes).clear();
        lock(&self.closed_rings).clear();
        // Each keeps the connection to its owner.
        lock(&self.asked).clear();
        lock(&self.abandoned).clear();
    }
}

impl Drop for NodeShared {
    fn drop(&mut self) {
        if !self.membership.has_left() && !fork::is_child() {
            self.leave();
        }
    }
}
