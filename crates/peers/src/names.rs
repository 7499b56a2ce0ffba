//! Names of mail boxes: claimed with one compare-and-swap in the job's table.
//!
//! A name is entered in the table once and stays there; what changes is the word beside it that says who owns it now. A
//! claim swaps that word from "nobody" (or from an owner that died or left) to the new owner, so two claims cannot both
//! win and a kill leaves nothing half-done. While a new name is being entered, the entry's key says whose seat does it;
//! if that node dies in between, the next one who needs the name finishes.

use deck_segment::Seat;
use deck_sync::atomic::Ordering;
use deck_sync::{Error, ErrorKind, NodeId, Result, point};

use crate::entries::{ENTRY_NAME_BYTES_MAX, Entries, entry};
use crate::table::{NAMES_AT, Table};

/// How many different names a job can use in its life.
pub const NAMES_MAX: usize = 1 << 14;
/// The most bytes of a name.
pub const NAME_BYTES_MAX: usize = ENTRY_NAME_BYTES_MAX;
const ENTRY_WORDS: usize = 16;
/// Bytes of all entries.
pub(crate) const BYTES: usize = NAMES_MAX * ENTRY_WORDS * 8;

/// What to do where there are too many names. Those of groups are among them.
const TOO_MANY: &str =
    "use the names of mail boxes and groups that have ended again; mail boxes for replies need no names";

/// The word beside a name that says who owns it.
const OWNER: usize = entry::USER;

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
    /// The most mail boxes of a node at a time.
    pub const INDEX_MAX: u32 = 1 << 20;
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
}

/// The names of a job.
#[derive(Clone, Debug)]
pub struct Names {
    table: Table,
    entries: Entries,
}

impl Names {
    /// The names in `table`.
    pub fn new(table: &Table) -> Names {
        Names { table: table.clone(), entries: Entries::new(table, NAMES_AT, NAMES_MAX, ENTRY_WORDS) }
    }

    /// The broker is about to give `seat` to another node: whatever name the last one was entering, anybody may finish.
    pub(crate) fn forget_writer(&self, seat: Seat) {
        self.entries.forget_writer(seat);
    }

    /// Claims `name` for `owner`, whose node is on `seat`.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if a live node owns it, naming the node; [`ErrorKind::Invalid`] for an impossible name;
    /// [`ErrorKind::Timeout`] naming a node that is stopped while it enters the same name;
    /// [`ErrorKind::NoMemory`] if the job has used too many names.
    pub fn claim(&self, name: &str, owner: MailboxId, seat: Seat) -> Result<()> {
        check_name(name)?;
        let index = self.entries.enter(name, seat).map_err(|error| match error.kind() {
            ErrorKind::NoMemory => error.with_remedy(TOO_MANY),
            _ => error,
        })?;
        let place = self.entries.word(index, OWNER);
        // Acquire: pairs with: names/owner.
        let mut now = place.load(Ordering::Acquire);
        loop {
            if let Some(other) = MailboxId::from_word(now)
                && self.table.is_live(other.owner)
            {
                return Err(Error::new(ErrorKind::Exists, format!("mail box \"{name}\" exists")).with_peer(other.owner));
            }
            // The one step that decides. AcqRel: pairs with: names/owner.
            match place.compare_exchange(now, owner.to_word(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    point("names/claimed");
                    self.table.changed().notify();
                    return Ok(());
                }
                Err(other) => now = other,
            }
        }
    }

    /// Lets go of a name, if `owner` still owns it. Free on return.
    pub fn release(&self, name: &str, owner: MailboxId) {
        if let Some(index) = self.entries.find(name) {
            let place = self.entries.word(index, OWNER);
            // AcqRel: pairs with: names/owner.
            let _ = place.compare_exchange(owner.to_word(), 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// All names that live nodes own: for those who look on.
    pub fn all(&self) -> Vec<(String, MailboxId)> {
        let known = |index: usize| {
            // Acquire: pairs with: names/owner.
            let owner = MailboxId::from_word(self.entries.word(index, OWNER).load(Ordering::Acquire))?;
            Some((self.entries.name(index)?, owner)).filter(|(_, owner)| self.table.is_live(owner.owner))
        };
        (0..self.entries.count()).filter_map(known).collect()
    }

    /// Who owns `name` now; `None` if nobody that is in the job.
    pub fn lookup(&self, name: &str) -> Option<MailboxId> {
        let index = self.entries.find(name)?;
        // Acquire: pairs with: names/owner.
        let owner = MailboxId::from_word(self.entries.word(index, OWNER).load(Ordering::Acquire))?;
        self.table.is_live(owner.owner).then_some(owner)
    }
}

/// With this begin names that the library gives to what is no mail box.
pub const RESERVED: char = '\u{1}';

/// Checks the name of a mail box as a program gives it: as [`check_name`], and none that begins with [`RESERVED`].
///
/// # Errors
/// [`ErrorKind::Invalid`].
pub fn check_mailbox_name(name: &str) -> Result<()> {
    if name.starts_with(RESERVED) {
        let what = format!("the name {name:?}: what begins with byte 1 is the library's own");
        return Err(Error::new(ErrorKind::Invalid, what).with_remedy("choose another name"));
    }
    check_name(name)
}

/// Checks a name: 1 to [`NAME_BYTES_MAX`] bytes without zero bytes.
///
/// # Errors
/// [`ErrorKind::Invalid`].
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        let what = format!("a mail box's name has 1 to {NAME_BYTES_MAX} bytes and no zero byte, not {}", shown(name));
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    Ok(())
}

/// A name for an error, which may be much too long: its begin.
pub(crate) fn shown(name: &str) -> String {
    match name.char_indices().nth(2 * NAME_BYTES_MAX) {
        Some((end, _)) => format!("{:?}... ({} bytes)", &name[..end], name.len()),
        None => format!("{name:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(owner: NodeId, index: u32) -> MailboxId {
        MailboxId { owner, index, generation: 1 }
    }

    #[test]
    fn a_name_has_one_owner_until_it_is_released_or_its_owner_is_gone() {
        let table = Table::create("test", 2).unwrap();
        let names = Names::new(&table);
        let (zero, seat) = table.seat_node(1, false).unwrap();
        let (one, other) = table.seat_node(2, false).unwrap();
        assert_eq!(names.lookup("results"), None);
        names.claim("results", id(zero, 5), seat).unwrap();
        let error = names.claim("results", id(one, 6), other).unwrap_err();
        assert_eq!((error.kind(), error.peer()), (ErrorKind::Exists, Some(zero)));
        names.release("results", id(one, 6));
        assert_eq!(names.lookup("results"), Some(id(zero, 5)));
        names.release("results", id(zero, 5));
        names.claim("results", id(one, 6), other).unwrap();
        table.set_gone(one, true);
        assert_eq!(names.lookup("results"), None);
        names.claim("results", id(zero, 7), seat).unwrap();
        assert_eq!(names.lookup("results"), Some(id(zero, 7)));
    }

    #[test]
    fn a_name_half_entered_by_a_dead_node_is_finished_by_the_next() {
        let table = Table::create("test", 2).unwrap();
        let names = Names::new(&table);
        let (zero, seat) = table.seat_node(1, false).unwrap();
        let (one, other) = table.seat_node(2, false).unwrap();
        let hash = crate::entries::hash("half");
        let index = (hash >> 20) as usize % NAMES_MAX;
        names.entries.word(index, entry::KEY).store(((hash >> 16) << 16) | (u64::from(seat.0) + 1), Ordering::Relaxed);
        // Its seat may even be somebody else's by then.
        table.set_gone(zero, true);
        names.forget_writer(seat);
        table.free_seat(seat);
        table.seat_node(3, false).unwrap();
        names.claim("half", id(one, 1), other).unwrap();
        assert_eq!(names.lookup("half"), Some(id(one, 1)));
    }

    #[test]
    fn many_names_are_kept_apart_and_too_many_are_an_error() {
        let table = Table::create("test", 1).unwrap();
        let names = Names::new(&table);
        let (zero, seat) = table.seat_node(1, false).unwrap();
        for index in 0..NAMES_MAX as u32 {
            names.claim(&format!("box {index}"), id(zero, index), seat).unwrap();
        }
        for index in (0..NAMES_MAX as u32).step_by(997) {
            assert_eq!(names.lookup(&format!("box {index}")), Some(id(zero, index)));
        }
        let refused = names.claim("one more", id(zero, 0), seat).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoMemory);
        assert!(refused.to_string().contains("mail boxes and groups"), "{refused}");
        names.release("box 5", id(zero, 5));
        names.claim("box 5", id(zero, 6), seat).unwrap();
    }

    #[test]
    fn impossible_names_are_refused() {
        for name in ["", "a\0b", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert_eq!(check_name(name).unwrap_err().kind(), ErrorKind::Invalid);
        }
        assert!(check_name(&"x".repeat(NAME_BYTES_MAX)).is_ok());
    }
}
