//! The heaps of the job's nodes, as this node maps them.
//!
//! A heap is known once its owner has passed it, or a peer that posts on what lies there, and stays known while the
//! owner lives. It is forgotten when the owner is gone, what that had posted here is taken over, and each peer that had
//! passed the heap has said that all is retrieved (*HeapRelease*), or is gone too. Whether it is so is looked at when a
//! peer releases it or goes, and at *Reclaim*.
//!
//! A node has one view of a heap, as it keeps one count for each buffer. So a view that was forgotten is still found as
//! long as a buffer of it is in use here: it may be posted on to a mail box of this node, or a peer that posts it on
//! may pass the heap once more. Views of other nodes of this process are found the same way, once buffers of them were
//! posted here, each for itself: none ends with another.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use deck_segment::{Fetching, HeapMemory, Seat};
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result};

/// What this process has no room for it is passed again and again, as there may be some in a moment. After so long
/// those who need it are told.
const LACKED_FOR: Duration = Duration::from_secs(1);
/// What was not passed again for so long nobody waited for.
const LACKED_SINCE: Duration = Duration::from_millis(500);

/// A heap that there is no room for.
struct Lacking {
    why: Error,
    is_told_from: Deadline,
    is_known_until: Deadline,
}

/// Heaps by their owners.
#[derive(Default)]
pub(crate) struct Heaps {
    known: HashMap<NodeId, Arc<HeapMemory>>,
    /// As in this node's own.
    fetching: Fetching,
    /// Owners of heaps whose buffers others post on, each with who has passed the heap for that.
    passed: BTreeSet<(NodeId, NodeId)>,
    /// Views that are there while a buffer of them is.
    lent: HashMap<NodeId, Vec<Weak<HeapMemory>>>,
    /// Those that were passed and that there is no room for.
    lacking: HashMap<NodeId, Lacking>,
}

impl Heaps {
    /// With this node's own.
    pub fn with(own: &Arc<HeapMemory>) -> Heaps {
        Heaps { known: HashMap::from([(own.owner(), own.clone())]), fetching: own.fetching(), ..Heaps::default() }
    }

    /// The heap of `owner`, if it is known or in use.
    pub fn find(&self, owner: NodeId) -> Option<Arc<HeapMemory>> {
        self.views(owner).next()
    }

    /// Whether this very view is found as long as it is in use.
    pub fn has(&self, view: &Arc<HeapMemory>) -> bool {
        self.views(view.owner()).any(|other| Arc::ptr_eq(&other, view))
    }

    fn views(&self, owner: NodeId) -> impl Iterator<Item = Arc<HeapMemory>> {
        let lent = self.lent.get(&owner).into_iter().flatten().filter_map(Weak::upgrade);
        self.known.get(&owner).cloned().into_iter().chain(lent)
    }

    /// All that are known.
    pub fn known(&self) -> impl Iterator<Item = &Arc<HeapMemory>> {
        self.known.values()
    }

    /// The heap of `owner` that was passed, mapped now or before. `own` is this node's seat.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if it is no heap or another one than before; [`ErrorKind::NoMemory`] and
    /// [`ErrorKind::System`] if it cannot be mapped.
    pub fn enter(&mut self, owner: NodeId, seat: Seat, fd: OwnedFd, own: Seat) -> Result<Arc<HeapMemory>> {
        if self.find(owner).is_some_and(|heap| !heap.segment().is_same(&fd)) {
            return Err(Error::new(ErrorKind::Corrupt, "two segments are said to be its own").with_peer(owner));
        }
        // Another node of this process may leave and have its seat given to somebody else.
        let heap = match self.views(owner).find(|heap| heap.is_seen_from(own)) {
            Some(heap) => heap,
            None => HeapMemory::adopt(fd, owner, seat, own, self.fetching)?,
        };
        self.known.insert(owner, heap.clone());
        self.lacking.remove(&owner);
        Ok(heap)
    }

    /// The heap of `owner` was passed, and there is no room for it, or for its descriptor (`None`).
    pub fn note_lacking(&mut self, owner: NodeId, why: Option<Error>) {
        let no_descriptor = || {
            Error::new(ErrorKind::NoMemory, "this process has no descriptor left for it")
                .with_remedy("raise its limit (ulimit -n), or let it close files")
        };
        self.lacking.retain(|_, lacking| !lacking.is_known_until.has_passed());
        let before = self.lacking.get(&owner).map(|lacking| lacking.is_told_from);
        let lacking = Lacking {
            why: why.unwrap_or_else(no_descriptor).context(format!("the memory of {owner}")),
            is_told_from: before.unwrap_or_else(|| Deadline::after(LACKED_FOR)),
            is_known_until: Deadline::after(LACKED_SINCE),
        };
        self.lacking.insert(owner, lacking);
    }

    /// Why there has been no room for the heap of `owner` for so long that nobody should wait for it, if that is so.
    pub fn lacking(&self, owner: NodeId) -> Option<Error> {
        let is_lasting = |lacking: &&Lacking| lacking.is_told_from.has_passed() && !lacking.is_known_until.has_passed();
        self.lacking.get(&owner).filter(is_lasting).map(|lacking| lacking.why.clone())
    }

    /// `peer` posts on what lies in the heap of `owner`.
    pub fn note_passed(&mut self, owner: NodeId, peer: NodeId) {
        self.passed.insert((owner, peer));
    }

    /// It does so no more.
    pub fn note_released(&mut self, owner: NodeId, peer: NodeId) {
        self.passed.remove(&(owner, peer));
    }

    /// Whose heaps `peer` has passed.
    pub fn passed_by(&self, peer: NodeId) -> Vec<NodeId> {
        self.passed.iter().filter(|(_, other)| *other == peer).map(|(owner, _)| *owner).collect()
    }

    /// Whether any peer posts on what lies in the heap of `owner`.
    pub fn is_passed(&self, owner: NodeId) -> bool {
        self.passed.iter().any(|(other, _)| *other == owner)
    }

    /// Forgets a heap, but not while buffers of it are in use here.
    pub fn forget(&mut self, owner: NodeId) {
        if let Some(heap) = self.known.remove(&owner) {
            self.lend(&heap);
        }
    }

    /// Has a view found while it is in use here.
    pub fn lend(&mut self, view: &Arc<HeapMemory>) {
        self.lent.retain(|_, views| {
            views.retain(|view| view.strong_count() > 0);
            !views.is_empty()
        });
        if !self.has(view) {
            self.lent.entry(view.owner()).or_default().push(Arc::downgrade(view));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use deck_segment::HeapOptions;

    use super::*;

    fn heap(number: u32) -> Arc<HeapMemory> {
        HeapMemory::create(NodeId(number), Seat(number as u16), &HeapOptions::of(deck_segment::default_bytes()))
            .unwrap()
    }

    #[test]
    fn why_there_is_no_room_for_a_heap_is_told_to_those_who_have_waited_for_long_and_not_when_there_is() {
        let (own, other) = (heap(1), heap(2));
        let mut heaps = Heaps::with(&own);
        heaps.note_lacking(other.owner(), None);
        assert!(heaps.lacking(other.owner()).is_none());
        heaps.lacking.get_mut(&other.owner()).unwrap().is_told_from = Deadline::NOW;
        assert!(heaps.lacking(other.owner()).unwrap().remedy().contains("ulimit -n"));
        // There is a descriptor now, and something else is missing.
        let why = Error::new(ErrorKind::NoMemory, "mapping it").with_remedy("raise the limit");
        heaps.note_lacking(other.owner(), Some(why));
        assert_eq!(heaps.lacking(other.owner()).unwrap().remedy(), "raise the limit");
        // Nobody has passed it again, and then somebody does.
        heaps.lacking.get_mut(&other.owner()).unwrap().is_known_until = Deadline::NOW;
        assert!(heaps.lacking(other.owner()).is_none());
        heaps.note_lacking(other.owner(), None);
        assert!(heaps.lacking(other.owner()).is_none() && heaps.lacking.contains_key(&other.owner()));
        let fd = other.segment().as_fd().try_clone_to_owned().unwrap();
        heaps.enter(other.owner(), other.seat(), fd, own.seat()).unwrap();
        assert!(!heaps.lacking.contains_key(&other.owner()));
    }

    #[test]
    fn a_forgotten_heap_is_found_as_long_as_it_is_in_use_and_then_no_more() {
        let (own, other) = (heap(1), heap(2));
        let mut heaps = Heaps::with(&own);
        assert!(heaps.find(other.owner()).is_none());
        let pass = || other.segment().as_fd().try_clone_to_owned().unwrap();
        let view = heaps.enter(other.owner(), other.seat(), pass(), own.seat()).unwrap();
        heaps.forget(other.owner());
        let found = heaps.find(other.owner()).expect("in use");
        assert!(Arc::ptr_eq(&view, &found));
        // Passed once more it is the same view.
        assert!(Arc::ptr_eq(&view, &heaps.enter(other.owner(), other.seat(), pass(), own.seat()).unwrap()));
        heaps.forget(other.owner());
        drop((view, found));
        assert!(heaps.find(other.owner()).is_none());
    }

    #[test]
    fn a_heap_that_another_node_of_the_process_has_lent_is_seen_by_each_with_its_own_eyes() {
        let (own, other) = (heap(1), heap(2));
        let mut heaps = Heaps::with(&own);
        let pass = || other.segment().as_fd().try_clone_to_owned().unwrap();
        let lent = HeapMemory::adopt(pass(), other.owner(), other.seat(), Seat(3), Fetching::default()).unwrap();
        heaps.lend(&lent);
        let entered = heaps.enter(other.owner(), other.seat(), pass(), own.seat()).unwrap();
        assert!(entered.is_seen_from(own.seat()) && lent.is_seen_from(Seat(3)));
        assert!(Arc::ptr_eq(&heaps.find(other.owner()).unwrap(), &entered));
        // Forgotten and passed again it is still the same, whichever is found first.
        heaps.forget(other.owner());
        assert!(Arc::ptr_eq(&heaps.find(other.owner()).unwrap(), &lent));
        assert!(Arc::ptr_eq(&heaps.enter(other.owner(), other.seat(), pass(), own.seat()).unwrap(), &entered));
        // Of its own heap a node has one view, whoever passes it.
        let back = own.segment().as_fd().try_clone_to_owned().unwrap();
        assert!(Arc::ptr_eq(&heaps.enter(own.owner(), own.seat(), back, own.seat()).unwrap(), &own));
    }

    #[test]
    fn each_view_that_was_lent_is_found_until_it_ends_whichever_ends_first() {
        let (own, other) = (heap(1), heap(2));
        for first_to_end in [0, 1] {
            let mut heaps = Heaps::with(&own);
            let mut views = [own.seat(), Seat(3)].map(|seat| {
                let passed = other.segment().as_fd().try_clone_to_owned().unwrap();
                let view = HeapMemory::adopt(passed, other.owner(), other.seat(), seat, Fetching::default()).unwrap();
                (0..2).for_each(|_| heaps.lend(&view));
                Some(view)
            });
            views[first_to_end] = None;
            let found = heaps.find(other.owner()).expect("the other one is in use");
            assert!(heaps.has(&found) && heaps.has(views[1 - first_to_end].as_ref().unwrap()));
            drop((views, found));
            assert!(heaps.find(other.owner()).is_none());
        }
    }

    #[test]
    fn a_heap_is_passed_until_everybody_who_passed_it_has_said_that_it_is_not() {
        let mut heaps = Heaps::with(&heap(1));
        let [third, fourth, one, other] = [3, 4, 5, 6].map(NodeId);
        for (owner, peer) in [(third, one), (third, other), (third, one), (fourth, one)] {
            heaps.note_passed(owner, peer);
        }
        heaps.note_released(third, one);
        assert!(heaps.is_passed(third) && heaps.is_passed(fourth));
        assert_eq!((heaps.passed_by(one), heaps.passed_by(other)), (vec![fourth], vec![third]));
        heaps.note_released(third, one);
        heaps.note_released(fourth, other);
        assert!(heaps.is_passed(third) && heaps.is_passed(fourth));
        heaps.note_released(third, other);
        heaps.note_released(fourth, one);
        assert!(!heaps.is_passed(third) && !heaps.is_passed(fourth));
    }

    #[test]
    fn a_node_has_one_heap() {
        let (own, other, third) = (heap(1), heap(2), heap(3));
        let mut heaps = Heaps::with(&own);
        let pass = |heap: &Arc<HeapMemory>| heap.segment().as_fd().try_clone_to_owned().unwrap();
        heaps.enter(other.owner(), other.seat(), pass(&other), own.seat()).unwrap();
        let refused = heaps.enter(other.owner(), other.seat(), pass(&third), own.seat()).unwrap_err();
        assert_eq!((refused.kind(), refused.peer()), (ErrorKind::Corrupt, Some(other.owner())));
    }
}
