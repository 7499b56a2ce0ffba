//! Named things of a job beside mail boxes: who has them open, and eight words each that mean what their users like.
//!
//! They lie in the job's table, so opening one asks nobody, and no node's end takes one away. Each kind has names of
//! its own. Beside the words stands a bit for every seat whose node has the thing open; the broker clears the bits of a
//! seat before it gives the seat to another node, and writes down who died with the thing open.
//!
//! One node at a time opens things ([`crate::names::opening`]). When every entry has a name, one whose thing nobody has
//! open, and that is as one that nobody ever had open, is given to another name. Whoever still knows the thing that was
//! there finds that it is over: entries count their lives.

use deck_segment::{Seat, Words};
use deck_sync::atomic::{Ordering, fence};
use deck_sync::{Error, ErrorKind, NodeId, Result, point};

use crate::names::PATIENCE;
use crate::names::entries::{ENTRY_NAME_BYTES_MAX, Entries, entry, hash};
use crate::names::last_lost::{self, LastLost, Reclaimed};
use crate::names::one_at_a_time::OneAtATime;
use crate::table::{NodeState, OBJECTS_AT, OPENING_AT, Table};

/// How many names of such things a job can have at a time, all kinds together.
pub const OBJECTS_MAX: usize = 1 << INDEX_BITS;
/// In a thing's number, below the lives of its entry.
const INDEX_BITS: u32 = 12;
/// The most bytes of the name of such a thing.
pub const OBJECT_NAME_BYTES_MAX: usize = ENTRY_NAME_BYTES_MAX - 1;
/// Words that are the users' own: one cache line.
pub const OBJECT_WORDS: usize = 8;

const ENTRY_WORDS: usize = 32;
/// How many nodes have died while they had the thing open.
const LOST: usize = entry::USER;
/// How often the entry was given to another name.
const LIVES: usize = entry::USER + 1;
/// Bits of the seats whose nodes have it open.
const HOLDERS: usize = entry::END;
const HOLDER_WORDS: usize = Seat::COUNT / 64;
/// The last of them.
const LAST_LOST: usize = HOLDERS + HOLDER_WORDS;
const OWN: usize = 24;
/// Bytes of all entries.
pub(crate) const BYTES: usize = OBJECTS_MAX * ENTRY_WORDS * 8;

// As `docs/layout/job-table.md` says.
const _: () = assert!(LOST == 2 && LIVES == 3 && HOLDERS == 16 && HOLDER_WORDS == 4 && OWN == 24 && ENTRY_WORDS == 32);
const _: () = assert!(LAST_LOST == 20 && LAST_LOST + last_lost::WORDS == OWN && OWN + OBJECT_WORDS == ENTRY_WORDS);

/// What a named thing is. Names of different kinds do not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// Memory that nodes share.
    Segment,
    /// A lock.
    Mutex,
    /// A condition variable.
    Condition,
    /// A barrier.
    Barrier,
    /// A number that threads add to and wait for.
    Counter,
}

impl ObjectKind {
    const ALL: [ObjectKind; 5] =
        [ObjectKind::Segment, ObjectKind::Mutex, ObjectKind::Condition, ObjectKind::Barrier, ObjectKind::Counter];

    /// What people call it.
    pub fn word(self) -> &'static str {
        match self {
            ObjectKind::Segment => "segment",
            ObjectKind::Mutex => "mutex",
            ObjectKind::Condition => "condition variable",
            ObjectKind::Barrier => "barrier",
            ObjectKind::Counter => "counter",
        }
    }

    fn letter(self) -> char {
        match self {
            ObjectKind::Segment => 's',
            ObjectKind::Mutex => 'm',
            ObjectKind::Condition => 'c',
            ObjectKind::Barrier => 'b',
            ObjectKind::Counter => 'n',
        }
    }
}

/// Whether a thing that nobody has open means something all the same: then its name stays. The words are what tells it.
pub type Keeps = fn(ObjectKind, &Object) -> bool;

/// One named thing.
#[derive(Clone, Debug)]
pub struct Object {
    table: Table,
    entries: Entries<Table>,
    index: usize,
    /// Which life of its entry.
    life: u32,
    words: Words,
}

impl Object {
    fn at(table: &Table, entries: Entries<Table>, index: usize) -> Object {
        let at = OBJECTS_AT + (index * ENTRY_WORDS + OWN) * 8;
        let words = Words::in_segment(table.segment(), at, OBJECT_WORDS).expect("the entry lies in the table");
        let mut object = Object { table: table.clone(), entries, index, life: 0, words };
        object.life = object.life_now();
        object
    }

    /// Its number in the job: the same in every node, and no other thing's.
    pub fn number(&self) -> u32 {
        self.life << INDEX_BITS | self.index as u32
    }

    fn life_now(&self) -> u32 {
        // Acquire: pairs with: objects/lives.
        self.entries.word(self.index, LIVES).load(Ordering::Acquire) as u32 & (u32::MAX >> INDEX_BITS)
    }

    /// Whether a node is in the job.
    pub fn is_live(&self, node: NodeId) -> bool {
        self.table.is_live(node)
    }

    /// True if its entry has been given to another name: nobody had it open any more.
    pub fn is_over(&self) -> bool {
        self.life_now() != self.life
    }

    /// The words that are its users' own. Zero at first.
    pub fn words(&self) -> &Words {
        &self.words
    }

    fn holders(&self, word: usize) -> &deck_sync::atomic::AtomicU64 {
        self.entries.word(self.index, HOLDERS + word)
    }

    pub(crate) fn hold(&self, Seat(seat): Seat) {
        // SeqCst: pairs with: objects/holders.
        self.holders(usize::from(seat) / 64).fetch_or(1 << (seat % 64), Ordering::SeqCst);
        // SeqCst: pairs with: objects/holders. The bit is set before the next look at the words.
        fence(Ordering::SeqCst);
    }

    pub(crate) fn let_go(&self, Seat(seat): Seat) {
        // SeqCst: pairs with: objects/holders. What this node did with the words is before its bit goes.
        self.holders(usize::from(seat) / 64).fetch_and(!(1 << (seat % 64)), Ordering::SeqCst);
    }

    /// The live nodes that have it open.
    pub fn holding(&self) -> Vec<NodeId> {
        // SeqCst: pairs with: objects/holders. What was changed in the words before is seen by who sets a bit from now
        // on.
        fence(Ordering::SeqCst);
        let holding = self.seats().filter_map(|seat| self.table.node_on(seat)).filter(|node| self.table.is_live(*node));
        let holding = holding.collect();
        // After that: whoever holds it then may hold what came after it.
        if self.is_over() { Vec::new() } else { holding }
    }

    fn seats(&self) -> impl Iterator<Item = Seat> {
        (0..HOLDER_WORDS).flat_map(|word| {
            // SeqCst: pairs with: objects/holders.
            let bits = self.holders(word).load(Ordering::SeqCst);
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| Seat((word * 64 + bit) as u16))
        })
    }

    /// Its entry is as one that was never used, but for its name. By one who opens things, of one that nobody has open.
    fn begin_anew(&self) {
        // Release: pairs with: objects/lives. Whoever sees it in the middle takes it for another thing.
        self.entries.word(self.index, LIVES).store(u64::from(self.life) + 1, Ordering::Release);
        // The last word first: of a condition variable that is half anew, if whoever does this dies, all are called
        // with the next signal. With its first words anew and its last one as before a signal could be lost.
        let own = (0..OBJECT_WORDS).rev().map(|word| self.words.get(word));
        // Relaxed: told with the name, or when whoever does this is done.
        own.chain([self.entries.word(self.index, LOST)]).for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// The nodes that died while they had it open and are not reclaimed yet.
    pub fn holding_lost(&self) -> Vec<NodeId> {
        let nodes = self.seats().filter_map(|seat| self.table.node_on(seat));
        nodes.filter(|node| self.table.state(*node) == Some(NodeState::Lost)).collect()
    }

    /// A node that died while it had the thing open, if there was one.
    pub fn lost(&self) -> Option<NodeId> {
        // Not written down yet: its seat has not been given to anybody else. First: it is written down before it is
        // taken off here.
        let holding = self.holding_lost().first().copied();
        self.reclaimed().last.last().copied().or(holding)
    }

    /// The nodes that were written down as having died while they had the thing open: before their bits were cleared
    /// and their seats freed.
    pub fn reclaimed(&self) -> Reclaimed {
        self.last_lost().read()
    }

    fn last_lost(&self) -> LastLost<'_> {
        let places = std::array::from_fn(|place| self.entries.word(self.index, LAST_LOST + place));
        LastLost { count: self.entries.word(self.index, LOST), places }
    }
}

/// All named things of a job.
#[derive(Clone, Debug)]
pub struct Objects {
    table: Table,
    entries: Entries<Table>,
    opening: OneAtATime<Table>,
}

impl Objects {
    /// Those in `table`.
    pub fn new(table: &Table) -> Objects {
        let words =
            |at, count| Words::in_segment(table.segment(), at, count).expect("the table has room for its things");
        let entries = Entries::new(table.clone(), words(OBJECTS_AT, OBJECTS_MAX * ENTRY_WORDS), ENTRY_WORDS);
        let opening = OneAtATime::new(table.clone(), words(OPENING_AT, 1));
        Objects { table: table.clone(), entries, opening }
    }

    /// Who opens things.
    pub(crate) fn opening(&self) -> &OneAtATime<Table> {
        &self.opening
    }

    /// The one of this kind and name, if it was ever entered, and its entry not given away since. Never blocks.
    pub fn find(&self, kind: ObjectKind, name: &str) -> Option<Object> {
        let name = entered(kind, name);
        loop {
            let index = self.entries.find(&name)?;
            let object = Object::at(&self.table, self.entries.clone(), index);
            // Its life was read after its name.
            if self.entries.holds(index, &name) && !object.is_over() {
                return Some(object);
            }
        }
    }

    /// The one of this kind and name, entered now if it was not. Only for who opens things: nobody else does,
    /// meanwhile. `keeps` tells whose entries are not given away.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an impossible name, [`ErrorKind::NoMemory`] if the job has too many names,
    /// [`ErrorKind::Timeout`] if another node stopped while it entered the same name.
    pub fn enter(&self, kind: ObjectKind, name: &str, seat: Seat, keeps: Keeps) -> Result<Object> {
        check_object_name(kind, name)?;
        let name = entered(kind, name);
        let index = match self.entries.enter(&name, seat, PATIENCE)? {
            Some(index) => index,
            None => self.give_away(&name, seat, keeps)?,
        };
        Ok(Object::at(&self.table, self.entries.clone(), index))
    }

    /// Every entry has a name: gives one to this name.
    #[cold]
    fn give_away(&self, name: &str, seat: Seat, keeps: Keeps) -> Result<usize> {
        // The first one in its order: it is found soon.
        for index in self.entries.probe(hash(name)) {
            // SeqCst: pairs with: objects/holders.
            let is_held = |word| self.entries.word(index, HOLDERS + word).load(Ordering::SeqCst) != 0;
            if (0..HOLDER_WORDS).any(is_held) {
                continue;
            }
            let object = Object::at(&self.table, self.entries.clone(), index);
            if self.named(index).is_some_and(|(kind, _)| keeps(kind, &object)) {
                continue;
            }
            object.begin_anew();
            point("objects/anew");
            if self.entries.rename(index, name, seat) {
                return Ok(index);
            }
        }
        let what = format!(
            "a job has at most {} names of segments, locks, barriers and counters at a time",
            self.entries.count()
        );
        Err(Error::new(ErrorKind::NoMemory, what)
            .with_remedy("close what is needed no more, and set counters back to 0"))
    }

    /// Kind and name of the thing in an entry, if it has a name.
    fn named(&self, index: usize) -> Option<(ObjectKind, String)> {
        let entered = self.entries.name(index)?;
        let kind = ObjectKind::ALL.into_iter().find(|kind| entered.starts_with(kind.letter()))?;
        Some((kind, entered[1..].to_string()))
    }

    /// The one with this number; `None` if it is over, or there can be none.
    pub(crate) fn at(&self, number: u32) -> Option<Object> {
        let index = (number & ((1 << INDEX_BITS) - 1)) as usize;
        let object = Object::at(&self.table, self.entries.clone(), index);
        (object.number() == number).then_some(object)
    }

    /// Everything that was ever entered: for those who look on.
    pub fn all(&self) -> Vec<(ObjectKind, String, Object)> {
        let known = |index: usize| {
            let (kind, name) = self.named(index)?;
            Some((kind, name, Object::at(&self.table, self.entries.clone(), index)))
        };
        (0..self.entries.count()).filter_map(known).collect()
    }

    /// The broker is about to give `seat`, on which `node` was, to another node.
    pub(crate) fn forget_seat(&self, seat: Seat, node: NodeId, is_lost: bool) {
        self.entries.forget_writer(seat);
        let (word, bit) = (usize::from(seat.0) / 64, 1u64 << (seat.0 % 64));
        for index in 0..self.entries.count() {
            let holders = self.entries.word(index, HOLDERS + word);
            // SeqCst: pairs with: objects/holders.
            if holders.load(Ordering::SeqCst) & bit == 0 {
                continue;
            }
            if is_lost {
                // Told before the bit that tells it goes.
                Object::at(&self.table, self.entries.clone(), index).last_lost().write(node);
            }
            // SeqCst: pairs with: objects/holders.
            holders.fetch_and(!bit, Ordering::SeqCst);
        }
    }
}

fn entered(kind: ObjectKind, name: &str) -> String {
    format!("{}{name}", kind.letter())
}

/// Checks a name: 1 to [`OBJECT_NAME_BYTES_MAX`] bytes without zero bytes.
///
/// # Errors
/// [`ErrorKind::Invalid`].
pub fn check_object_name(kind: ObjectKind, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > OBJECT_NAME_BYTES_MAX || name.contains('\0') {
        let (kind, shown) = (kind.word(), crate::names::shown(name));
        let what = format!("the name of a {kind} has 1 to {OBJECT_NAME_BYTES_MAX} bytes and no zero byte, not {shown}");
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a number in the first word means: such a thing keeps its name.
    fn keeps(_: ObjectKind, object: &Object) -> bool {
        object.words().get(0).load(Ordering::Relaxed) != 0
    }

    fn enter(objects: &Objects, kind: ObjectKind, name: &str, seat: Seat) -> Result<Object> {
        objects.enter(kind, name, seat, keeps)
    }

    #[test]
    fn a_thing_is_the_same_for_all_who_open_it_and_kinds_do_not_meet() {
        let table = Table::create("test", 2).unwrap();
        let objects = Objects::new(&table);
        let (_, seat) = table.seat_node(1, false).unwrap();
        assert!(objects.find(ObjectKind::Mutex, "a").is_none());
        let mutex = enter(&objects, ObjectKind::Mutex, "a", seat).unwrap();
        let counter = enter(&objects, ObjectKind::Counter, "a", seat).unwrap();
        mutex.words().get(3).store(7, Ordering::Relaxed);
        let again = objects.find(ObjectKind::Mutex, "a").unwrap();
        assert_eq!((again.number(), again.words().get(3).load(Ordering::Relaxed)), (mutex.number(), 7));
        assert_ne!(counter.number(), mutex.number());
        let mut all: Vec<_> = objects.all().into_iter().map(|(kind, name, _)| (kind.word(), name)).collect();
        all.sort();
        assert_eq!(all, [("counter", "a".to_string()), ("mutex", "a".to_string())]);
    }

    #[test]
    fn who_has_it_open_is_known_until_it_is_gone_and_who_died_with_it_for_good() {
        let table = Table::create("test", 2).unwrap();
        let objects = Objects::new(&table);
        let (zero, seat) = table.seat_node(1, false).unwrap();
        let (one, other) = table.seat_node(2, false).unwrap();
        let object = enter(&objects, ObjectKind::Barrier, "b", seat).unwrap();
        object.hold(seat);
        object.hold(other);
        assert_eq!((object.holding(), object.lost()), (vec![zero, one], None));
        table.set_gone(one, true);
        assert_eq!((object.holding(), object.lost()), (vec![zero], Some(one)));
        objects.forget_seat(other, one, true);
        table.free_seat(other);
        let (two, _) = table.seat_node(3, false).unwrap();
        assert_eq!((object.holding(), object.lost()), (vec![zero], Some(one)));
        object.hold(other);
        assert_eq!(object.holding(), [zero, two]);
        object.let_go(seat);
        assert_eq!(object.holding(), [two]);
    }

    #[test]
    fn the_last_that_died_with_it_open_are_known_one_by_one_and_the_others_are_counted() {
        let table = Table::create("test", 2).unwrap();
        let objects = Objects::new(&table);
        let (_, seat) = table.seat_node(1, false).unwrap();
        let object = enter(&objects, ObjectKind::Counter, "n", seat).unwrap();
        object.hold(seat);
        assert_eq!(object.reclaimed(), Reclaimed::default());
        let mut dead = Vec::new();
        for count in 1..=20u64 {
            let (node, other) = table.seat_node(2, false).unwrap();
            object.hold(other);
            table.set_gone(node, true);
            objects.forget_seat(other, node, true);
            // A broker that died before it had cleared the bit; the next one does all of it again.
            object.hold(other);
            objects.forget_seat(other, node, true);
            // In order, and with the thing closed.
            objects.forget_seat(other, node, true);
            table.free_seat(other);
            dead.push(node);
            let last = dead[dead.len().saturating_sub(Reclaimed::KNOWN as usize)..].to_vec();
            assert_eq!((object.reclaimed(), object.lost()), (Reclaimed { count, last }, Some(node)));
        }
    }

    #[test]
    fn when_all_entries_have_names_one_that_nobody_needs_gets_another_one() {
        let table = Table::create("test", 2).unwrap();
        let objects = Objects::new(&table);
        let (node, seat) = table.seat_node(1, false).unwrap();
        let kinds = ObjectKind::ALL.into_iter().cycle();
        let all: Vec<Object> = kinds
            .zip(0..OBJECTS_MAX)
            .map(|(kind, number)| enter(&objects, kind, &number.to_string(), seat).unwrap())
            .collect();
        let (free, held) = (&all[7], &all[8]);
        held.hold(seat);
        all.iter()
            .filter(|object| object.number() != held.number())
            .for_each(|object| object.words().get(0).store(1, Ordering::Relaxed));
        let too_many = enter(&objects, ObjectKind::Counter, "new", seat).unwrap_err();
        assert_eq!(too_many.kind(), ErrorKind::NoMemory);
        assert!(too_many.remedy().contains("counters"), "{too_many}");

        free.words().get(0).store(0, Ordering::Relaxed);
        free.words().get(5).store(3, Ordering::Relaxed);
        let new = enter(&objects, ObjectKind::Counter, "new", seat).unwrap();
        assert!((0..OBJECT_WORDS).all(|word| new.words().get(word).load(Ordering::Relaxed) == 0));
        assert_eq!(objects.find(ObjectKind::Counter, "new").map(|found| found.number()), Some(new.number()));
        new.hold(seat);
        // What was there before is over, and nobody has it open, whoever has what is there now.
        assert!(free.is_over() && free.holding().is_empty() && objects.at(free.number()).is_none());
        assert!(!new.is_over() && new.holding() == [node] && objects.at(new.number()).is_some());
        let (kind, name) = (ObjectKind::ALL[7 % ObjectKind::ALL.len()], "7");
        assert!(objects.find(kind, name).is_none());
        let kept = all.iter().filter(|object| !object.is_over()).count();
        assert_eq!((kept, held.holding()), (OBJECTS_MAX - 1, vec![node]));

        // One that a node has open that died is in use until its seat is given again.
        table.set_gone(node, true);
        enter(&objects, ObjectKind::Counter, "newer", seat).unwrap_err();
        objects.forget_seat(seat, node, true);
        let newer = enter(&objects, ObjectKind::Counter, "newer", seat).unwrap();
        assert!(new.is_over() != held.is_over() && newer.lost().is_none());
    }

    #[test]
    fn impossible_names_are_refused() {
        for name in ["", "a\0b", &"x".repeat(OBJECT_NAME_BYTES_MAX + 1)] {
            let error = check_object_name(ObjectKind::Mutex, name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("mutex"), "{error}");
        }
        assert!(check_object_name(ObjectKind::Segment, &"x".repeat(OBJECT_NAME_BYTES_MAX)).is_ok());
    }
}
