//! Names of mail boxes: claimed with one compare-and-swap in the job's table.
//!
//! A name is entered in the table once and stays there; what changes is the word beside it that says who owns it now. A
//! claim swaps that word from "nobody" (or from an owner that died or left) to the new owner, so two claims cannot both
//! win and a kill leaves nothing half-done. While a new name is being entered, the entry's key says whose seat does it;
//! if that node dies in between, the next one who needs the name finishes.

use std::time::Duration;

use deck_segment::{Seat, Words};
use deck_sync::atomic::{Ordering, yield_now};
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result, point};

use crate::table::{NAMES_AT, Table};

/// How many different names a job can use in its life.
pub const NAMES_MAX: usize = 1 << 14;
/// The most bytes of a name.
pub const NAME_BYTES_MAX: usize = 96;
const ENTRY_WORDS: usize = 16;
/// How long a claim waits for another node to finish entering the same name: a few instructions, unless it is stopped.
const ENTERED_WITHIN: Duration = Duration::from_secs(1);
/// Bytes of all entries.
pub(crate) const BYTES: usize = NAMES_MAX * ENTRY_WORDS * 8;

mod entry {
    pub const KEY: usize = 0;
    pub const LENGTH: usize = 1;
    pub const OWNER: usize = 2;
    pub const NAME: usize = 4;
}

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

    fn to_word(self) -> u64 {
        u64::from(self.owner.0 + 1) << 40 | u64::from(self.index) << 20 | u64::from(self.generation)
    }

    fn from_word(word: u64) -> Option<MailboxId> {
        let owner = u32::try_from(word >> 40).ok()?.checked_sub(1).map(NodeId)?;
        Some(MailboxId { owner, index: (word >> 20) as u32 & 0xf_ffff, generation: word as u32 & 0xf_ffff })
    }
}

/// The names of a job.
#[derive(Clone, Debug)]
pub struct Names {
    table: Table,
    words: Words,
}

impl Names {
    /// The names in `table`.
    pub fn new(table: &Table) -> Names {
        let words = Words::in_segment(table.segment(), NAMES_AT, BYTES / 8).expect("the table has room for its names");
        Names { table: table.clone(), words }
    }

    fn word(&self, index: usize, word: usize) -> &deck_sync::atomic::AtomicU64 {
        self.words.get(index * ENTRY_WORDS + word)
    }

    /// Claims `name` for `owner`, whose node is on `seat`.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if a live node owns it, naming the node; [`ErrorKind::Invalid`] for an impossible name;
    /// [`ErrorKind::NoMemory`] if the job has used too many names.
    pub fn claim(&self, name: &str, owner: MailboxId, seat: Seat) -> Result<()> {
        check_name(name)?;
        let index = self.enter(name, seat)?;
        let place = self.word(index, entry::OWNER);
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
        if let Some(index) = self.find(name) {
            let place = self.word(index, entry::OWNER);
            // Pairs with: names/owner.
            let _ = place.compare_exchange(owner.to_word(), 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Who owns `name` now; `None` if nobody that is in the job.
    pub fn lookup(&self, name: &str) -> Option<MailboxId> {
        let index = self.find(name)?;
        // Acquire: pairs with: names/owner.
        let owner = MailboxId::from_word(self.word(index, entry::OWNER).load(Ordering::Acquire))?;
        self.table.is_live(owner.owner).then_some(owner)
    }

    /// The entry of a name that was entered completely.
    fn find(&self, name: &str) -> Option<usize> {
        let hash = hash(name);
        for index in probe(hash) {
            let key = self.word(index, entry::KEY).load(Ordering::Acquire);
            if key == 0 {
                return None;
            }
            if key >> 16 == hash >> 16 && self.holds(index, name) {
                return Some(index);
            }
        }
        None
    }

    fn holds(&self, index: usize, name: &str) -> bool {
        // Acquire: pairs with: names/length.
        let length = self.word(index, entry::LENGTH).load(Ordering::Acquire) as usize;
        length == name.len()
            && name
                .as_bytes()
                .chunks(8)
                .enumerate()
                .all(|(word, chunk)| self.word(index, entry::NAME + word).load(Ordering::Relaxed) == pack(chunk))
    }

    /// The entry of `name`, entered now if it was not.
    fn enter(&self, name: &str, Seat(seat): Seat) -> Result<usize> {
        let hash = hash(name);
        let mine = ((hash >> 16) << 16) | (u64::from(seat) + 1);
        for index in probe(hash) {
            let place = self.word(index, entry::KEY);
            let mut key = place.load(Ordering::Acquire);
            if key == 0 {
                match place.compare_exchange(0, mine, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => {
                        point("names/entering");
                        self.write_name(index, name);
                        return Ok(index);
                    }
                    Err(now) => key = now,
                }
            }
            if key >> 16 != hash >> 16 {
                continue;
            }
            // The same name, or a rare equal hash: it is known once the name is written.
            let deadline = Deadline::after(ENTERED_WITHIN);
            while self.word(index, entry::LENGTH).load(Ordering::Acquire) == 0 {
                let writer = (key & 0xffff).checked_sub(1).and_then(|seat| self.table.node_on(Seat(seat as u16)));
                let writer = writer.filter(|node| self.table.is_live(*node));
                if writer.is_none() && place.compare_exchange(key, mine, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                    self.write_name(index, name);
                    return Ok(index);
                }
                if let Some(writer) = writer.filter(|_| deadline.has_passed()) {
                    let what = format!("claiming the name \"{name}\": another node is at it and does not go on");
                    return Err(Error::new(ErrorKind::Timeout, what)
                        .with_peer(writer)
                        .with_remedy("it is stopped or kept from running: let it continue, or end it"));
                }
                key = place.load(Ordering::Acquire);
                yield_now();
            }
            if self.holds(index, name) {
                return Ok(index);
            }
        }
        Err(Error::new(ErrorKind::NoMemory, format!("a job uses at most {NAMES_MAX} different names in its life"))
            .with_remedy("use anonymous mail boxes (reply boxes) for what needs no name"))
    }

    /// The broker is about to give `seat` to another node: whatever name the last one was entering, anybody may finish.
    pub(crate) fn forget_writer(&self, Seat(seat): Seat) {
        for index in 0..NAMES_MAX {
            let place = self.word(index, entry::KEY);
            let key = place.load(Ordering::Acquire);
            if key & 0xffff == u64::from(seat) + 1 && self.word(index, entry::LENGTH).load(Ordering::Acquire) == 0 {
                let _ = place.compare_exchange(key, key & !0xffff, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    fn write_name(&self, index: usize, name: &str) {
        for (word, chunk) in name.as_bytes().chunks(8).enumerate() {
            self.word(index, entry::NAME + word).store(pack(chunk), Ordering::Relaxed);
        }
        // Release: pairs with: names/length.
        self.word(index, entry::LENGTH).store(name.len() as u64, Ordering::Release);
    }
}

/// Checks the name of a mail box: 1 to [`NAME_BYTES_MAX`] bytes without zero bytes.
///
/// # Errors
/// [`ErrorKind::Invalid`].
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        let what = format!("a mail box's name has 1 to {NAME_BYTES_MAX} bytes and no zero byte, not {:?}", name);
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    Ok(())
}

fn pack(chunk: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..chunk.len()].copy_from_slice(chunk);
    u64::from_le_bytes(bytes)
}

/// FNV-1a with a final mix; its upper 48 bits are never all zero.
fn hash(name: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1 << 63
}

fn probe(hash: u64) -> impl Iterator<Item = usize> {
    (0..NAMES_MAX).map(move |step| ((hash >> 20) as usize + step) % NAMES_MAX)
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
        let hash = hash("half");
        let index = probe(hash).next().unwrap();
        names.word(index, entry::KEY).store(((hash >> 16) << 16) | (u64::from(seat.0) + 1), Ordering::Relaxed);
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
        assert_eq!(names.claim("one more", id(zero, 0), seat).unwrap_err().kind(), ErrorKind::NoMemory);
    }

    #[test]
    fn impossible_names_are_refused() {
        for name in ["", "a\0b", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert_eq!(check_name(name).unwrap_err().kind(), ErrorKind::Invalid);
        }
        assert!(check_name(&"x".repeat(NAME_BYTES_MAX)).is_ok());
    }
}
