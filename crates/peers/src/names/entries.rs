//! Tables of names in the job's table: a name is entered once.
//!
//! An entry's key goes from 0 to its value by one compare-and-swap; then the name is written, then its length. The key
//! says whose seat enters the name: if that node dies in between, the next one who needs the name finishes. What the
//! other words of an entry mean is its users' business: owners of mail boxes ([`super::owners`]), and things that are
//! opened ([`crate::names::objects`]). Both give entries to other names when all are used.

use std::time::Duration;

use deck_segment::{Seat, Words};
use deck_sync::atomic::{AtomicU64, Ordering, fence, yield_now};
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result, point};

/// The most bytes of a name in an entry.
pub(crate) const ENTRY_NAME_BYTES_MAX: usize = 96;

/// Words at the beginning of every entry.
pub(crate) mod entry {
    pub const KEY: usize = 0;
    pub const LENGTH: usize = 1;
    /// The first word that is not a matter of entering.
    pub const USER: usize = 2;
    pub const NAME: usize = 4;
    /// Behind the name.
    pub const END: usize = 16;
}

/// Who is in the job.
pub(crate) trait Seating {
    /// Who sits on `seat`, live or not.
    fn node_on(&self, seat: Seat) -> Option<NodeId>;
    fn is_live(&self, node: NodeId) -> bool;
}

/// A hash table of names with linear probing, in shared memory.
#[derive(Clone, Debug)]
pub(crate) struct Entries<S> {
    seating: S,
    words: Words,
    count: usize,
    entry_words: usize,
}

impl<S: Seating> Entries<S> {
    /// Entries of `entry_words` words each: as many as fit into `words`.
    pub fn new(seating: S, words: Words, entry_words: usize) -> Entries<S> {
        let count = words.count() / entry_words;
        Entries { seating, words, count, entry_words }
    }

    pub fn seating(&self) -> &S {
        &self.seating
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn word(&self, index: usize, word: usize) -> &AtomicU64 {
        self.words.get(index * self.entry_words + word)
    }

    /// The entries where a name of this hash may be, in the order in which it is looked for.
    pub fn probe(&self, hash: u64) -> impl Iterator<Item = usize> + use<S> {
        let count = self.count;
        (0..count).map(move |step| ((hash >> 20) as usize + step) % count)
    }

    /// The entry of a name that was entered completely.
    pub fn find(&self, name: &str) -> Option<usize> {
        let hash = hash(name);
        for index in self.probe(hash) {
            // Acquire: pairs with: names/key.
            let key = self.word(index, entry::KEY).load(Ordering::Acquire);
            if key == 0 {
                return None;
            }
            if is_of(key, hash) && self.holds(index, name) {
                return Some(index);
            }
        }
        None
    }

    /// Whether this name stands in an entry, completely.
    pub fn holds(&self, index: usize, name: &str) -> bool {
        // Acquire: pairs with: names/length.
        let length = self.word(index, entry::LENGTH).load(Ordering::Acquire) as usize;
        let is_same = length == name.len()
            && words_of(name.as_bytes())
                .enumerate()
                .all(|(at, word)| self.word(index, entry::NAME + at).load(Ordering::Relaxed) == word);
        // Acquire fence: pairs with: names/name. Of a name that is being written the length may be that of the one
        // before: whoever looks at the owner after this sees that the entry was taken for it.
        fence(Ordering::Acquire);
        is_same
    }

    /// The entry of `name`, entered now if it was not; `None` if all entries have other names, as they have from then
    /// on. Is `patient` with another node that stopped while it entered the same name.
    pub fn enter(&self, name: &str, Seat(seat): Seat, patient: Duration) -> Result<Option<usize>> {
        let hash = hash(name);
        let mine = key(hash, Seat(seat));
        for index in self.probe(hash) {
            let place = self.word(index, entry::KEY);
            // Acquire: pairs with: names/key.
            let mut key = place.load(Ordering::Acquire);
            if key == 0 {
                // AcqRel: pairs with: names/key.
                match place.compare_exchange(0, mine, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => {
                        point("names/entering");
                        self.write_name(index, name);
                        return Ok(Some(index));
                    }
                    Err(now) => key = now,
                }
            }
            // The same name, or a rare equal hash: it is known once the name is written.
            let deadline = Deadline::after(patient);
            while is_of(key, hash) && self.has_no_length(index) {
                let writer = self.writer(key);
                // AcqRel: pairs with: names/key.
                if writer.is_none() && place.compare_exchange(key, mine, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                    // Whoever was at it may have come to its end just before, and somebody else have given the entry
                    // away since: then its key comes before the length goes. Acquire: pairs with: names/key.
                    if self.has_no_length(index) && place.load(Ordering::Acquire) == mine {
                        self.write_name(index, name);
                        return Ok(Some(index));
                    }
                }
                if let Some(writer) = writer.filter(|_| deadline.has_passed()) {
                    let what = format!("entering the name {name:?}: another node is at it and does not go on");
                    return Err(Error::new(ErrorKind::Timeout, what)
                        .with_peer(writer)
                        .with_remedy("it is stopped or kept from running: let it continue, or end it"));
                }
                // Acquire: pairs with: names/key.
                key = place.load(Ordering::Acquire);
                yield_now();
            }
            if is_of(key, hash) && self.holds(index, name) {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Whether somebody is entering this name, or has died at it.
    pub fn is_half_entered(&self, name: &str) -> bool {
        let hash = hash(name);
        // Acquire: pairs with: names/key.
        let key = |index| self.word(index, entry::KEY).load(Ordering::Acquire);
        self.probe(hash).any(|index| is_of(key(index), hash) && self.has_no_length(index))
    }

    fn has_no_length(&self, index: usize) -> bool {
        // Acquire: pairs with: names/length.
        self.word(index, entry::LENGTH).load(Ordering::Acquire) == 0
    }

    /// The live node that entered a name with this key, or is at it.
    fn writer(&self, key: u64) -> Option<NodeId> {
        let node = (key & 0xffff).checked_sub(1).and_then(|seat| self.seating.node_on(Seat(seat as u16)));
        node.filter(|node| self.seating.is_live(*node))
    }

    /// Gives an entry to another name, whatever it had before; false if somebody is entering that. Nobody else may be
    /// doing this.
    pub fn rename(&self, index: usize, name: &str, seat: Seat) -> bool {
        let (place, length) = (self.word(index, entry::KEY), self.word(index, entry::LENGTH));
        let mine = key(hash(name), seat);
        // Acquire: pairs with: names/key.
        let now = place.load(Ordering::Acquire);
        if self.has_no_length(index) {
            // Whoever finds the one that was at it dead may be finishing that name.
            // AcqRel: pairs with: names/key.
            let is_free = self.writer(now).is_none()
                && place.compare_exchange(now, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if is_free {
                self.write_name(index, name);
            }
            return is_free;
        }
        // First: whoever still looks for the name before finds another key, and does not take this for one that is half
        // entered. AcqRel: pairs with: names/key. A swap, as whoever takes one for dead may be swapping it, too.
        place.swap(mine, Ordering::AcqRel);
        point("names/renaming");
        // Release: pairs with: names/length. The new key is there before.
        length.store(0, Ordering::Release);
        point("names/renamed");
        self.write_name(index, name);
        true
    }

    /// The broker is about to give `seat` to another node: whatever name the last one was entering, anybody may finish.
    pub fn forget_writer(&self, Seat(seat): Seat) {
        for index in 0..self.count {
            let place = self.word(index, entry::KEY);
            // Acquire: pairs with: names/key.
            let key = place.load(Ordering::Acquire);
            if key & 0xffff == u64::from(seat) + 1 && self.has_no_length(index) {
                // AcqRel: pairs with: names/key.
                let _ = place.compare_exchange(key, key & !0xffff, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    /// The name in an entry; `None` if it was not entered (completely) yet.
    pub fn name(&self, index: usize) -> Option<String> {
        // Acquire: pairs with: names/length.
        let length = self.word(index, entry::LENGTH).load(Ordering::Acquire) as usize;
        let words = (entry::NAME..entry::END).map(|word| self.word(index, word).load(Ordering::Relaxed));
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).take(length).collect();
        (length > 0).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn write_name(&self, index: usize, name: &str) {
        // Release fence: pairs with: names/name.
        fence(Ordering::Release);
        for (at, word) in words_of(name.as_bytes()).enumerate() {
            self.word(index, entry::NAME + at).store(word, Ordering::Relaxed);
        }
        // Release: pairs with: names/length.
        self.word(index, entry::LENGTH).store(name.len() as u64, Ordering::Release);
    }
}

/// The words that hold a name, the last one filled up with zeros.
pub(crate) fn words_of(name: &[u8]) -> impl Iterator<Item = u64> {
    name.chunks(8).map(|chunk| {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(bytes)
    })
}

fn is_of(key: u64, hash: u64) -> bool {
    key >> 16 == hash >> 16
}

fn key(hash: u64, Seat(seat): Seat) -> u64 {
    ((hash >> 16) << 16) | (u64::from(seat) + 1)
}

/// FNV-1a with a final mix; its upper 48 bits are never all zero.
pub(crate) fn hash(name: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1 << 63
}
