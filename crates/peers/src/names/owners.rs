//! Who owns a name: the word beside it decides.
//!
//! A claim swaps that word from "nobody", or from an owner that is not live any more, to the new owner, so two claims
//! cannot both win and a kill leaves nothing half-done.
//!
//! When every entry has a name, one that nobody owns is given to another name, by one node at a time. It takes the
//! entry as an owner does, so nobody claims the name before meanwhile. "Nobody" counts how often the entry was given
//! away: who looked for the name before that claims nothing. Whoever has found an entry looks at the owner first and
//! then whether the name is still that one.

use std::time::Duration;

use deck_segment::Seat;
use deck_sync::atomic::{Ordering, yield_now};
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result, point};

use super::entries::{Entries, Seating, entry, hash};
use super::one_at_a_time::OneAtATime;

/// The word beside a name that says who owns it.
pub(crate) const OWNER: usize = entry::USER;
/// How often the entry was given to another name.
pub(crate) const LIVES: usize = entry::USER + 1;

/// A mail box of a job: owner, index in its node, and which life of that index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MailboxId {
    /// The node that owns it.
    pub owner: NodeId,
    /// Index among the owner's mail boxes.
    pub index: u32,
    /// Counts the lives of that index.
    pub generation: u32,
}

impl MailboxId {
    /// The most mail boxes of a node at a time. As an index this is no mail box: the node is giving the entry to
    /// another name.
    pub const INDEX_MAX: u32 = (1 << 20) - 1;
    /// Generations wrap after this.
    pub const GENERATIONS: u32 = 1 << 20;

    /// As a word of the table.
    pub fn to_word(self) -> u64 {
        u64::from(self.owner.0 + 1) << 40 | u64::from(self.index) << 20 | u64::from(self.generation)
    }

    /// The mail box that a word of the table tells.
    pub fn from_word(word: u64) -> Option<MailboxId> {
        let owner = u32::try_from(word >> 40).ok()?.checked_sub(1).map(NodeId)?;
        Some(MailboxId { owner, index: (word >> 20) as u32 & 0xf_ffff, generation: word as u32 & 0xf_ffff })
    }

    fn is_mailbox(self) -> bool {
        self.index < MailboxId::INDEX_MAX
    }
}

/// The word of an entry that nobody owns, which was given away so often.
fn nobody(lives: u64) -> u64 {
    lives & ((1 << 40) - 1)
}

/// What came of a claim.
#[derive(Debug, PartialEq)]
pub(crate) enum Claim {
    Done,
    /// The entry has another name now.
    Elsewhere,
    /// This node is giving it another one.
    Renaming(NodeId),
}

/// Names and who owns them.
#[derive(Clone, Debug)]
pub(crate) struct Owners<S> {
    pub entries: Entries<S>,
    /// Who gives an entry to another name.
    renaming: OneAtATime<S>,
}

impl<S: Seating> Owners<S> {
    /// These entries; one word for all of them.
    pub fn new(entries: Entries<S>, renaming: OneAtATime<S>) -> Owners<S> {
        Owners { entries, renaming }
    }

    /// Claims `name` for `owner`, whose node is on `seat`. Is `patient` with another node that stopped while
    /// it entered the same name, and with one that stopped while it gave an entry away.
    pub fn claim(&self, name: &str, owner: MailboxId, seat: Seat, patient: Duration) -> Result<()> {
        let deadline = Deadline::after(patient);
        loop {
            let claim = match self.entries.enter(name, seat, patient)? {
                Some(index) => self.claim_at(index, name, owner)?,
                None => self.take_another(name, owner, seat, patient)?,
            };
            match claim {
                Claim::Done => return Ok(()),
                Claim::Renaming(node) if deadline.has_passed() => return Err(does_not_go_on(name, node)),
                Claim::Renaming(_) | Claim::Elsewhere => yield_now(),
            }
        }
    }

    fn claim_at(&self, index: usize, name: &str, owner: MailboxId) -> Result<Claim> {
        let place = self.entries.word(index, OWNER);
        // Acquire: pairs with: names/owner.
        let mut now = place.load(Ordering::Acquire);
        loop {
            if !self.entries.holds(index, name) {
                return Ok(Claim::Elsewhere);
            }
            if let Some(other) = MailboxId::from_word(now)
                && self.entries.seating().is_live(other.owner)
            {
                if !other.is_mailbox() {
                    return Ok(Claim::Renaming(other.owner));
                }
                return Err(Error::new(ErrorKind::Exists, format!("mail box {name:?} exists")).with_peer(other.owner));
            }
            // The one step that decides. AcqRel: pairs with: names/owner.
            match place.compare_exchange(now, owner.to_word(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(Claim::Done),
                Err(other) => now = other,
            }
        }
    }

    /// Every entry has a name: gives one that nobody owns to this name, and claims it.
    pub fn take_another(&self, name: &str, owner: MailboxId, seat: Seat, patient: Duration) -> Result<Claim> {
        let _alone = self.renaming.enter(owner.owner, patient).map_err(|node| does_not_go_on(name, node))?;
        // Somebody may have done the same for the same name, or died at it: whoever enters it finishes that.
        if self.entries.find(name).is_some() || self.entries.is_half_entered(name) {
            return Ok(Claim::Elsewhere);
        }
        let taken = MailboxId { owner: owner.owner, index: MailboxId::INDEX_MAX, generation: 0 };
        // The first one in its order: it is found soon.
        for index in self.entries.probe(hash(name)) {
            let place = self.entries.word(index, OWNER);
            // Acquire: pairs with: names/owner.
            let now = place.load(Ordering::Acquire);
            let is_owned = MailboxId::from_word(now).is_some_and(|other| self.entries.seating().is_live(other.owner));
            // AcqRel: pairs with: names/owner.
            if is_owned || place.compare_exchange(now, taken.to_word(), Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            point("names/taken");
            let lives = self.entries.word(index, LIVES);
            // Relaxed: written by whoever has taken the entry, and told with its owner.
            let given = lives.load(Ordering::Relaxed) + 1;
            lives.store(given, Ordering::Relaxed);
            let is_renamed = self.entries.rename(index, name, seat);
            let now = if is_renamed { owner.to_word() } else { nobody(given) };
            // AcqRel: pairs with: names/owner. The name is there before. In vain if this node does not count as live
            // any more.
            let is_mine = place.compare_exchange(taken.to_word(), now, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if is_renamed {
                return Ok(if is_mine { Claim::Done } else { Claim::Elsewhere });
            }
        }
        Err(Error::new(
            ErrorKind::NoMemory,
            format!("a job has at most {} different names at a time", self.entries.count()),
        ))
    }

    /// Lets go of a name, if `owner` still owns it. Free on return.
    pub fn release(&self, name: &str, owner: MailboxId) {
        if let Some(index) = self.entries.find(name) {
            // Relaxed: it stays as it is while this owner has the entry, and was told with the owner.
            let nobody = nobody(self.entries.word(index, LIVES).load(Ordering::Relaxed));
            let place = self.entries.word(index, OWNER);
            // AcqRel: pairs with: names/owner.
            let _ = place.compare_exchange(owner.to_word(), nobody, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Who owns `name` now; `None` if nobody that is in the job.
    pub fn lookup(&self, name: &str) -> Option<MailboxId> {
        loop {
            let index = self.entries.find(name)?;
            let owner = self.owner(index);
            if self.entries.holds(index, name) && self.owner(index) == owner {
                return owner;
            }
        }
    }

    /// The live owner of an entry.
    pub fn owner(&self, index: usize) -> Option<MailboxId> {
        // Acquire: pairs with: names/owner.
        let owner = MailboxId::from_word(self.entries.word(index, OWNER).load(Ordering::Acquire))?;
        Some(owner).filter(|owner| owner.is_mailbox() && self.entries.seating().is_live(owner.owner))
    }
}

fn does_not_go_on(name: &str, node: NodeId) -> Error {
    let what = format!("entering the name {name:?}: another node gives an entry away and does not go on");
    Error::new(ErrorKind::Timeout, what)
        .with_peer(node)
        .with_remedy("it is stopped or kept from running: let it continue, or end it")
}
