//! The groups of a job, each looked at once: many may wait in one, and its board is long.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use deck::NodeId;
use deck::observe::GroupSight;
use deck_peers::observe::JobSight;

/// What tells a group from others: its board's node, where it lies there, and its size.
pub type GroupFacts = (NodeId, u64, u64);

pub struct Groups<'a> {
    job: &'a JobSight,
    seen: RefCell<BTreeMap<GroupFacts, Option<Rc<GroupSight>>>>,
}

impl Groups<'_> {
    pub fn new(job: &JobSight) -> Groups<'_> {
        Groups { job, seen: RefCell::default() }
    }

    /// `None` if there can be no such group, or its node is out of sight.
    pub fn find(&self, facts: GroupFacts) -> Option<Rc<GroupSight>> {
        let (owner, offset, size) = facts;
        let look = || {
            let heap = self.job.node(owner)?.heap()?;
            Some(Rc::new(GroupSight::of(heap, owner, offset, size)?))
        };
        self.seen.borrow_mut().entry(facts).or_insert_with(look).clone()
    }
}
