//! Names in the job's table. Here those of mail boxes and groups, claimed with one compare-and-swap ([`owners`]);
//! things with names that nodes open are [`objects`].
//!
//! A name is entered in the table when it is first used, and stays there until the table is full and nobody owns it.
//! While a new name is being entered, the entry's key says whose seat does it; if that node dies in between, the next
//! one who needs the name finishes.

pub(crate) mod entries;
pub(crate) mod last_lost;
pub(crate) mod objects;
pub(crate) mod one_at_a_time;
pub(crate) mod opening;
pub(crate) mod owners;

use std::time::Duration;

use deck_segment::{Seat, Words};
use deck_sync::{Deadline, Error, ErrorKind, Result, point};

use crate::table::{NAMES_AT, RENAMING_AT, Table};
use entries::{ENTRY_NAME_BYTES_MAX, Entries};
use one_at_a_time::OneAtATime;
pub use owners::MailboxId;
use owners::Owners;

/// How many different names a job can have at a time.
pub const NAMES_MAX: usize = 1 << 14;
/// The most bytes of a name.
pub const NAME_BYTES_MAX: usize = ENTRY_NAME_BYTES_MAX;
const ENTRY_WORDS: usize = 16;
/// Bytes of all entries.
pub(crate) const BYTES: usize = NAMES_MAX * ENTRY_WORDS * 8;

/// How long one node waits at most for another that is in the middle of something with names: some instructions, unless
/// it is stopped.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// As much of that as `deadline` leaves. However late it is, a node that goes on is waited for.
pub(crate) fn patience(deadline: Deadline) -> Duration {
    let deadline = deadline.max(Deadline::NOW.to_be_answered());
    deadline.remaining().map_or(PATIENCE, |left| left.min(PATIENCE))
}

/// What to do where there are too many names. Those of groups are among them.
const TOO_MANY: &str =
    "close mail boxes and leave groups that are needed no more; mail boxes for replies need no names";

/// The names of a job.
#[derive(Clone, Debug)]
pub struct Names {
    owners: Owners<Table>,
}

impl Names {
    /// The names in `table`.
    pub fn new(table: &Table) -> Names {
        let words =
            |at, count| Words::in_segment(table.segment(), at, count).expect("the table has room for its names");
        let entries = Entries::new(table.clone(), words(NAMES_AT, NAMES_MAX * ENTRY_WORDS), ENTRY_WORDS);
        let renaming = OneAtATime::new(table.clone(), words(RENAMING_AT, 1));
        Names { owners: Owners::new(entries, renaming) }
    }

    /// The broker is about to give `seat` to another node: whatever name the last one was entering, anybody may finish.
    pub(crate) fn forget_writer(&self, seat: Seat) {
        self.owners.entries.forget_writer(seat);
    }

    /// Claims `name` for `owner`, whose node is on `seat`. Is `patient` with a node that stopped in the middle of a
    /// claim: so long, or some times so long if there are several.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if a live node owns it, naming the node; [`ErrorKind::Invalid`] for an impossible name;
    /// [`ErrorKind::Timeout`] naming a node that is stopped while it enters a name;
    /// [`ErrorKind::NoMemory`] if the job has too many names at a time.
    pub fn claim(&self, name: &str, owner: MailboxId, seat: Seat, patient: Duration) -> Result<()> {
        check_name(name)?;
        self.owners.claim(name, owner, seat, patient).map_err(|error| match error.kind() {
            ErrorKind::NoMemory => error.with_remedy(TOO_MANY),
            _ => error,
        })?;
        point("names/claimed");
        self.owners.entries.seating().changed().notify();
        Ok(())
    }

    /// Lets go of a name, if `owner` still owns it. Free on return.
    pub fn release(&self, name: &str, owner: MailboxId) {
        self.owners.release(name, owner);
    }

    /// All names that live nodes own: for those who look on.
    pub fn all(&self) -> Vec<(String, MailboxId)> {
        let Owners { entries, .. } = &self.owners;
        let known = |index: usize| {
            let owner = self.owners.owner(index)?;
            // It may be another name's owner if the entry was given away in between.
            entries.name(index).filter(|_| self.owners.owner(index) == Some(owner)).map(|name| (name, owner))
        };
        (0..entries.count()).filter_map(known).collect()
    }

    /// Who owns `name` now; `None` if nobody that is in the job.
    pub fn lookup(&self, name: &str) -> Option<MailboxId> {
        self.owners.lookup(name)
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
    use deck_sync::NodeId;
    use deck_sync::atomic::Ordering;

    use super::*;
    use crate::names::entries::entry;
    use crate::names::owners::OWNER;

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
        names.claim("results", id(zero, 5), seat, PATIENCE).unwrap();
        let error = names.claim("results", id(one, 6), other, PATIENCE).unwrap_err();
        assert_eq!((error.kind(), error.peer()), (ErrorKind::Exists, Some(zero)));
        names.release("results", id(one, 6));
        assert_eq!(names.lookup("results"), Some(id(zero, 5)));
        names.release("results", id(zero, 5));
        names.claim("results", id(one, 6), other, PATIENCE).unwrap();
        table.set_gone(one, true);
        assert_eq!(names.lookup("results"), None);
        names.claim("results", id(zero, 7), seat, PATIENCE).unwrap();
        assert_eq!(names.lookup("results"), Some(id(zero, 7)));
    }

    #[test]
    fn a_name_half_entered_by_a_dead_node_is_finished_by_the_next() {
        let table = Table::create("test", 2).unwrap();
        let names = Names::new(&table);
        let (zero, seat) = table.seat_node(1, false).unwrap();
        let (one, other) = table.seat_node(2, false).unwrap();
        let hash = crate::names::entries::hash("half");
        let index = (hash >> 20) as usize % NAMES_MAX;
        names
            .owners
            .entries
            .word(index, entry::KEY)
            .store(((hash >> 16) << 16) | (u64::from(seat.0) + 1), Ordering::Relaxed);
        // Its seat may even be somebody else's by then.
        table.set_gone(zero, true);
        names.forget_writer(seat);
        table.free_seat(seat);
        table.seat_node(3, false).unwrap();
        names.claim("half", id(one, 1), other, PATIENCE).unwrap();
        assert_eq!(names.lookup("half"), Some(id(one, 1)));
    }

    #[test]
    fn many_names_are_kept_apart_and_too_many_are_an_error() {
        let table = Table::create("test", 1).unwrap();
        let names = Names::new(&table);
        let (zero, seat) = table.seat_node(1, false).unwrap();
        for index in 0..NAMES_MAX as u32 {
            names.claim(&format!("box {index}"), id(zero, index), seat, PATIENCE).unwrap();
        }
        for index in (0..NAMES_MAX as u32).step_by(997) {
            assert_eq!(names.lookup(&format!("box {index}")), Some(id(zero, index)));
        }
        let refused = names.claim("one more", id(zero, 0), seat, PATIENCE).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoMemory);
        assert!(refused.to_string().contains("mail boxes and leave groups"), "{refused}");
        names.release("box 5", id(zero, 5));
        names.claim("box 5", id(zero, 6), seat, PATIENCE).unwrap();
    }

    #[test]
    fn a_name_that_nobody_owns_makes_room_for_another_and_may_come_again() {
        let table = Table::create("test", 1).unwrap();
        let names = Names::new(&table);
        let (zero, seat) = table.seat_node(1, false).unwrap();
        let (one, other) = table.seat_node(2, false).unwrap();
        for index in 0..NAMES_MAX as u32 {
            let (owner, seat) = if index == 7 { (one, other) } else { (zero, seat) };
            names.claim(&format!("box {index}"), id(owner, index), seat, PATIENCE).unwrap();
        }
        names.release("box 5", id(zero, 5));
        names.claim("long name of another box", id(zero, 5), seat, PATIENCE).unwrap();
        assert_eq!(names.lookup("long name of another box"), Some(id(zero, 5)));
        assert_eq!(names.lookup("box 5"), None);
        assert_eq!(names.claim("box 5", id(zero, 8), seat, PATIENCE).unwrap_err().kind(), ErrorKind::NoMemory);
        // So does that of one that has died, and one of a node that died while it was giving the entry away.
        table.set_gone(one, true);
        names.claim("box 5", id(zero, 8), seat, PATIENCE).unwrap();
        assert_eq!((names.lookup("box 5"), names.lookup("box 7")), (Some(id(zero, 8)), None));
        names.release("box 5", id(zero, 8));
        let index = names.owners.entries.find("box 5").unwrap();
        let given_away = id(one, MailboxId::INDEX_MAX).to_word();
        names.owners.entries.word(index, OWNER).store(given_away, Ordering::Relaxed);
        names.owners.entries.word(index, entry::LENGTH).store(0, Ordering::Relaxed);
        let key = names.owners.entries.word(index, entry::KEY);
        key.store(key.load(Ordering::Relaxed) & !0xffff | (u64::from(other.0) + 1), Ordering::Relaxed);
        assert_eq!(names.lookup("box 5"), None);
        names.claim("yet another", id(zero, 9), seat, PATIENCE).unwrap();
        assert_eq!(names.lookup("yet another"), Some(id(zero, 9)));
        assert_eq!(names.all().len(), NAMES_MAX);
    }

    #[test]
    fn impossible_names_are_refused() {
        for name in ["", "a\0b", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert_eq!(check_name(name).unwrap_err().kind(), ErrorKind::Invalid);
        }
        assert!(check_name(&"x".repeat(NAME_BYTES_MAX)).is_ok());
    }
}
