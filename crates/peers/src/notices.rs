//! What a node tells those who look on: a segment of notices, written by the node alone, read by anybody of the same
//! user.
//!
//! There is a notice for each thread that sleeps, for each mail box, for each ring to another's mail box, and for each
//! member of a group. A notice is written under a sequence number that is odd meanwhile, so that a reader, who never
//! writes, knows whether it has read it whole (Lamport 1977; the seqlock of Linux). `docs/layout/notices.md` is this
//! map in words.
//!
//! The segment is used from the cold side of things only: before a sleep, when a mail box is made.

use std::sync::{Arc, Mutex};

use deck_segment::{Segment, Words, layout::PAGE};
use deck_sync::atomic::Ordering::{Relaxed, Release};
use deck_sync::atomic::fence;
use deck_sync::locks::lock;
use deck_sync::{FACTS, NodeId, Result};

use crate::names::entries::words_of;

/// `DECKNOTE`, first word of a node's notices.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"DECKNOTE");
/// Changes with every change of the layout.
pub(crate) const VERSION: u64 = 1;
/// What the system calls a node's notices, for those who look for them.
pub(crate) const LABEL: &str = "deck-notices";

/// Words of the header.
pub(crate) mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    pub const NODE: usize = 2;
    pub const JOB: usize = 3;
    pub const HEAP: usize = 4;
    pub const USED: usize = 5;
    pub const UNTOLD: usize = 6;
}

/// Words of a notice.
pub(crate) mod entry {
    pub const SEQUENCE: usize = 0;
    pub const SUBJECT: usize = 1;
    pub const THREAD: usize = 2;
    pub const LOCKER: usize = 3;
    pub const SINCE: usize = 4;
    pub const UNTIL: usize = 5;
    pub const GOAL: usize = 6;
    pub const PEER: usize = 7;
    pub const FACTS: usize = 8;
    pub const LENGTH: usize = 16;
    pub const NAME: usize = 17;
    pub const END: usize = 32;
}

/// The most bytes of a name in a notice.
pub(crate) const NAME_BYTES: usize = 96;
/// Notices of a node at a time; more are counted, not told.
pub(crate) const NOTICES_MAX: usize = 1 << 14;
/// Of these, so many are for waits alone: a node with very many mail boxes is asked about them too, and most when it
/// hangs.
const FOR_WAITS: usize = 1 << 10;
/// Bytes of a notice.
pub(crate) const ENTRY_BYTES: usize = entry::END * 8;
/// Notices that memory is taken for at once.
const STEP: usize = 256;
const BYTES: usize = PAGE + NOTICES_MAX * ENTRY_BYTES;
// As `docs/layout/notices.md` says.
const _: () = assert!(entry::NAME * 8 + NAME_BYTES <= ENTRY_BYTES && entry::FACTS + FACTS == entry::LENGTH);
const _: () = assert!(BYTES == 4_198_400 && ENTRY_BYTES == 256);

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Subject {
    /// A thread that sleeps.
    Wait = 1,
    /// A mail box of the node. Facts: the mail box, and its messages and bytes for each node.
    Mailbox = 2,
    /// A ring to a mail box. Facts: the mail box; the offset of the credits in this node's segment and of the ring in
    /// that of the owner; messages, bytes and area lines.
    Ring = 3,
    /// A member of a group. Facts: owner and offset of the board, size, 0, index.
    Member = 4,
}

impl Subject {
    pub(crate) fn from_word(word: u64) -> Option<Subject> {
        [Subject::Wait, Subject::Mailbox, Subject::Ring, Subject::Member]
            .into_iter()
            .find(|subject| *subject as u64 == word)
    }
}

/// What is written into a notice.
pub(crate) struct Content<'a> {
    pub subject: Subject,
    pub locker: Option<u32>,
    pub since_ns: u64,
    pub until_ns: u64,
    pub goal: u64,
    pub peer: Option<NodeId>,
    pub facts: [u64; FACTS],
    pub name: &'a str,
}

/// The notices of this node.
#[derive(Debug)]
pub struct Notices {
    segment: Arc<Segment>,
    head: Words,
    words: Words,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    free: Vec<u32>,
    used: usize,
    allocated: usize,
    /// Those that tell of something else than waits.
    lasting: usize,
}

impl Places {
    /// May there be another notice of `subject`?
    fn has_room_for(&self, subject: Subject) -> bool {
        subject == Subject::Wait || self.lasting < NOTICES_MAX - FOR_WAITS
    }
}

impl Notices {
    /// Those of `node`, which is in the job of this table and has this heap.
    ///
    /// # Errors
    /// `NoMemory` or `System`.
    pub fn create(node: NodeId, job: &Segment, heap: &Segment) -> Result<Arc<Notices>> {
        let segment = Segment::create(LABEL, BYTES)?;
        segment.allocate(0, PAGE)?;
        let words = |offset, count| Words::in_segment(&segment, offset, count).expect("the segment has this size");
        let (head, words) = (words(0, PAGE / 8), words(PAGE, NOTICES_MAX * entry::END));
        head.get(header::NODE).store(u64::from(node.0), Relaxed);
        head.get(header::JOB).store(job.inode(), Relaxed);
        head.get(header::HEAP).store(heap.inode(), Relaxed);
        head.get(header::VERSION).store(VERSION, Relaxed);
        // Release: pairs with: notices/head.
        head.get(header::MAGIC).store(MAGIC, Release);
        Ok(Arc::new(Notices { segment, head, words, places: Mutex::default() }))
    }

    fn place(&self, subject: Subject) -> Option<u32> {
        let mut places = lock(&self.places);
        if !places.has_room_for(subject) {
            return None;
        }
        let index = places.free.pop().or_else(|| self.fresh_place(&mut places))?;
        places.lasting += usize::from(subject != Subject::Wait);
        Some(index)
    }

    /// One that was never used.
    fn fresh_place(&self, places: &mut Places) -> Option<u32> {
        if places.used == NOTICES_MAX {
            return None;
        }
        if places.used == places.allocated {
            self.segment.allocate(PAGE + places.allocated * ENTRY_BYTES, STEP * ENTRY_BYTES).ok()?;
            places.allocated += STEP;
            // None is free now, and all may be: so nothing is ever taken back with an allocation.
            let all = places.allocated;
            places.free.reserve(all);
        }
        places.used += 1;
        // Release: pairs with: notices/used.
        self.head.get(header::USED).store(places.used as u64, Release);
        Some(places.used as u32 - 1)
    }

    /// Tells something; `None` if there is no room. Never blocks for long.
    pub(crate) fn tell(&self, content: &Content<'_>) -> Option<u32> {
        let Some(index) = self.place(content.subject) else {
            self.head.get(header::UNTOLD).fetch_add(1, Relaxed);
            return None;
        };
        let word = |word: usize| self.words.get(index as usize * entry::END + word);
        let sequence = word(entry::SEQUENCE).load(Relaxed) | 1;
        word(entry::SEQUENCE).store(sequence, Relaxed);
        // Release: pairs with: notices/sequence. Whoever sees a part of what follows sees the odd number too.
        fence(Release);
        word(entry::SUBJECT).store(content.subject as u64, Relaxed);
        word(entry::THREAD).store(thread_id(), Relaxed);
        word(entry::LOCKER).store(content.locker.map_or(0, |number| u64::from(number) + 1), Relaxed);
        word(entry::SINCE).store(content.since_ns, Relaxed);
        word(entry::UNTIL).store(content.until_ns, Relaxed);
        word(entry::GOAL).store(content.goal, Relaxed);
        word(entry::PEER).store(content.peer.map_or(0, |node| u64::from(node.0) + 1), Relaxed);
        (0..FACTS).for_each(|fact| word(entry::FACTS + fact).store(content.facts[fact], Relaxed));
        let name = &content.name.as_bytes()[..content.name.len().min(NAME_BYTES)];
        word(entry::LENGTH).store(name.len() as u64, Relaxed);
        words_of(name).enumerate().for_each(|(at, part)| word(entry::NAME + at).store(part, Relaxed));
        // Release: pairs with: notices/sequence.
        word(entry::SEQUENCE).store(sequence.wrapping_add(1), Release);
        Some(index)
    }

    /// Takes back what was told of `subject`. The caller says of which: what stands there any process may have written.
    pub(crate) fn take_back(&self, index: u32, subject: Subject) {
        // Release: pairs with: notices/subject.
        self.words.get(index as usize * entry::END + entry::SUBJECT).store(0, Release);
        let mut places = lock(&self.places);
        places.lasting -= usize::from(subject != Subject::Wait);
        places.free.push(index);
    }
}

/// The number of the calling thread in the system; looked up once.
fn thread_id() -> u64 {
    thread_local!(static NUMBER: u64 = rustix::thread::gettid().as_raw_nonzero().get() as u64);
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

/// Something that a node tells those who look on, until this is dropped.
#[derive(Debug)]
pub struct Notice {
    notices: Arc<Notices>,
    subject: Subject,
    index: Option<u32>,
    /// The thread that it tells of.
    thread: u64,
}

impl Notice {
    /// Tells that there is something of this kind and name, with what there is to say of it.
    pub fn new(notices: &Arc<Notices>, subject: Subject, name: &str, facts: impl IntoIterator<Item = u64>) -> Notice {
        let mut content =
            Content { subject, locker: None, since_ns: 0, until_ns: 0, goal: 0, peer: None, facts: [0; FACTS], name };
        content.facts.iter_mut().zip(facts).for_each(|(place, fact)| *place = fact);
        Notice { notices: notices.clone(), subject, index: notices.tell(&content), thread: thread_id() }
    }

    /// From now on it tells of the calling thread. Costs a comparison if it does so already.
    #[inline]
    pub fn be_of_this_thread(&mut self) {
        if thread_id() != self.thread {
            self.change_thread();
        }
    }

    #[cold]
    fn change_thread(&mut self) {
        self.thread = thread_id();
        if let Some(index) = self.index {
            // Relaxed: one word, which fits to all others before and after.
            self.notices.words.get(index as usize * entry::END + entry::THREAD).store(self.thread, Relaxed);
        }
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        if let Some(index) = self.index.filter(|_| !deck_sync::fork::is_child()) {
            self.notices.take_back(index, self.subject);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use crate::Table;
    use crate::observe::notices_of;

    use super::*;

    fn notices() -> Arc<Notices> {
        let table = Table::create("test", 1).unwrap();
        Notices::create(NodeId(0), table.segment(), table.segment()).unwrap()
    }

    fn tell(notices: &Notices, subject: Subject) -> Option<u32> {
        let facts = [0; FACTS];
        notices.tell(&Content {
            subject,
            locker: None,
            since_ns: 1,
            until_ns: 2,
            goal: 3,
            peer: None,
            facts,
            name: "x",
        })
    }

    fn untold(notices: &Notices) -> u64 {
        notices.head.get(header::UNTOLD).load(Relaxed)
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfd")]
    fn waits_have_room_however_many_other_things_there_are() {
        let notices = notices();
        let lasting = NOTICES_MAX - FOR_WAITS;
        let mailboxes: Vec<_> = (0..lasting).map(|_| tell(&notices, Subject::Mailbox).unwrap()).collect();
        let others = [Subject::Mailbox, Subject::Ring, Subject::Member];
        assert!(others.iter().all(|subject| tell(&notices, *subject).is_none()));
        let waits: Vec<_> = (0..FOR_WAITS).map(|_| tell(&notices, Subject::Wait).unwrap()).collect();
        assert_eq!(untold(&notices), 3);
        assert_eq!((tell(&notices, Subject::Wait), untold(&notices)), (None, 4));

        notices.take_back(waits[0], Subject::Wait);
        assert_eq!(tell(&notices, Subject::Ring), None, "what a wait has left is for waits");
        notices.take_back(mailboxes[7], Subject::Mailbox);
        assert!(tell(&notices, Subject::Ring).is_some() && tell(&notices, Subject::Ring).is_none());
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfd")]
    fn a_notice_that_is_taken_back_makes_room_for_one_of_its_kind() {
        let notices = notices();
        for subject in [Subject::Member, Subject::Wait].into_iter().cycle().take(2 * NOTICES_MAX + 10) {
            let index = tell(&notices, subject).unwrap();
            notices.take_back(index, subject);
        }
        assert_eq!((untold(&notices), lock(&notices.places).lasting), (0, 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfd")]
    fn whatever_is_told_of_how_much_there_is_no_more_is_read_than_there_can_be() {
        let notices = notices();
        let _told = Notice::new(&notices, Subject::Mailbox, &"n".repeat(1000), []);
        let file = File::from(notices.segment.as_fd().try_clone_to_owned().unwrap());
        let names = || notices_of(&file).unwrap().0.into_iter().map(|told| told.name).collect::<Vec<_>>();
        let whole = "n".repeat(NAME_BYTES);
        assert_eq!(names(), [whole.as_str()]);
        assert_eq!(notices.words.get(entry::LENGTH).load(Relaxed), NAME_BYTES as u64);
        for wrong in [NOTICES_MAX as u64 + 1, 1 << 50, u64::MAX] {
            notices.head.get(header::USED).store(wrong, Relaxed);
            assert_eq!(names(), [whole.as_str()]);
            notices.words.get(entry::LENGTH).store(wrong, Relaxed);
            assert_eq!(names(), [whole.as_str()]);
        }
    }
}
