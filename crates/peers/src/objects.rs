//! Named things of a job beside mail boxes: who has them open, and eight words each that mean what their users like.
//!
//! They lie in the job's table, so opening one asks nobody, and no node's end takes one away. Each kind has names of its
//! own. Beside the words stands a bit for every seat whose node has the thing open; the broker clears the bits of a seat
//! before it gives the seat to another node, and writes down who died with the thing open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use deck_segment::{Seat, Words};
use deck_sync::atomic::{Ordering, fence};
use deck_sync::locks::lock;
use deck_sync::{Error, ErrorKind, NodeId, Result};

use crate::entries::{ENTRY_NAME_BYTES_MAX, Entries, entry};
use crate::membership::Membership;
use crate::table::{NodeState, OBJECTS_AT, Table};

/// How many different names of such things a job can use in its life, all kinds together.
pub const OBJECTS_MAX: usize = 1 << 12;
/// The most bytes of the name of such a thing.
pub const OBJECT_NAME_BYTES_MAX: usize = ENTRY_NAME_BYTES_MAX - 1;
/// Words that are the users' own: one cache line.
pub const OBJECT_WORDS: usize = 8;

const ENTRY_WORDS: usize = 32;
/// The node that died last while it had the thing open, plus 1.
const LOST: usize = entry::USER;
/// Bits of the seats whose nodes have it open.
const HOLDERS: usize = entry::END;
const HOLDER_WORDS: usize = Seat::COUNT / 64;
const OWN: usize = 24;
/// Bytes of all entries.
pub(crate) const BYTES: usize = OBJECTS_MAX * ENTRY_WORDS * 8;

// As `docs/layout/job-table.md` says.
const _: () = assert!(LOST == 2 && HOLDERS == 16 && HOLDER_WORDS == 4 && OWN == 24 && ENTRY_WORDS == 32);
const _: () = assert!(HOLDERS + HOLDER_WORDS <= OWN && OWN + OBJECT_WORDS == ENTRY_WORDS);

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

/// One named thing.
#[derive(Clone, Debug)]
pub struct Object {
    table: Table,
    entries: Entries<Table>,
    index: usize,
    words: Words,
}

impl Object {
    fn at(table: &Table, entries: Entries<Table>, index: usize) -> Object {
        let at = OBJECTS_AT + (index * ENTRY_WORDS + OWN) * 8;
        let words = Words::in_segment(table.segment(), at, OBJECT_WORDS).expect("the entry lies in the table");
        Object { table: table.clone(), entries, index, words }
    }

    /// Its number in the job: the same in every node.
    pub fn index(&self) -> u32 {
        self.index as u32
    }

    /// The words that are its users' own. Zero at first; they live as long as the job.
    pub fn words(&self) -> &Words {
        &self.words
    }

    fn holders(&self, word: usize) -> &deck_sync::atomic::AtomicU64 {
        self.entries.word(self.index, HOLDERS + word)
    }

    fn hold(&self, Seat(seat): Seat) {
        // SeqCst: pairs with: objects/holders.
        self.holders(usize::from(seat) / 64).fetch_or(1 << (seat % 64), Ordering::SeqCst);
        // SeqCst: pairs with: objects/holders. The bit is set before the next look at the words.
        fence(Ordering::SeqCst);
    }

    fn let_go(&self, Seat(seat): Seat) {
        // SeqCst: pairs with: objects/holders. What this node did with the words is before its bit goes.
        self.holders(usize::from(seat) / 64).fetch_and(!(1 << (seat % 64)), Ordering::SeqCst);
    }

    /// The live nodes that have it open.
    pub fn holding(&self) -> Vec<NodeId> {
        // SeqCst: pairs with: objects/holders. What was changed in the words before is seen by who sets a bit from now on.
        fence(Ordering::SeqCst);
        self.seats().filter_map(|seat| self.table.node_on(seat)).filter(|node| self.table.is_live(*node)).collect()
    }

    fn seats(&self) -> impl Iterator<Item = Seat> {
        (0..HOLDER_WORDS).flat_map(|word| {
            // SeqCst: pairs with: objects/holders.
            let bits = self.holders(word).load(Ordering::SeqCst);
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| Seat((word * 64 + bit) as u16))
        })
    }

    /// The nodes that died while they had it open and are not reclaimed yet.
    pub fn holding_lost(&self) -> Vec<NodeId> {
        let nodes = self.seats().filter_map(|seat| self.table.node_on(seat));
        nodes.filter(|node| self.table.state(*node) == Some(NodeState::Lost)).collect()
    }

    /// A node that died while it had the thing open, if there was one.
    pub fn lost(&self) -> Option<NodeId> {
        // Not written down yet: its seat has not been given to anybody else. First: it is written down before it is taken off here.
        let holding = self.holding_lost().first().copied();
        self.last_lost().or(holding)
    }

    /// The last node that was written down as one that died while it had the thing open: before its bit was cleared and its seat freed.
    pub fn last_lost(&self) -> Option<NodeId> {
        // Acquire: pairs with: objects/lost.
        let told = self.entries.word(self.index, LOST).load(Ordering::Acquire);
        u32::try_from(told).ok().and_then(|number| number.checked_sub(1)).map(NodeId)
    }
}

/// All named things of a job.
#[derive(Clone, Debug)]
pub struct Objects {
    table: Table,
    entries: Entries<Table>,
}

impl Objects {
    /// Those in `table`.
    pub fn new(table: &Table) -> Objects {
        let words = Words::in_segment(table.segment(), OBJECTS_AT, OBJECTS_MAX * ENTRY_WORDS);
        let entries = Entries::new(table.clone(), words.expect("the table has room for its things"), ENTRY_WORDS);
        Objects { table: table.clone(), entries }
    }

    /// The one of this kind and name, if it was ever entered. Never blocks.
    pub fn find(&self, kind: ObjectKind, name: &str) -> Option<Object> {
        let index = self.entries.find(&entered(kind, name))?;
        Some(Object::at(&self.table, self.entries.clone(), index))
    }

    /// The one of this kind and name, entered now if it was not.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an impossible name, [`ErrorKind::NoMemory`] if the job has used too many names,
    /// [`ErrorKind::Timeout`] if another node stopped while it entered the same name.
    pub fn enter(&self, kind: ObjectKind, name: &str, seat: Seat) -> Result<Object> {
        check_object_name(kind, name)?;
        let index = self.entries.enter(&entered(kind, name), seat).map_err(|error| match error.kind() {
            ErrorKind::NoMemory => error
                .context(format!("opening the {} {name:?}", kind.word()))
                .with_remedy("use names again instead of making up new ones: what is closed can be opened again"),
            _ => error,
        })?;
        Ok(Object::at(&self.table, self.entries.clone(), index))
    }

    /// The one with this number, if there can be one.
    pub(crate) fn at(&self, index: u32) -> Option<Object> {
        let index = usize::try_from(index).ok().filter(|index| *index < self.entries.count())?;
        Some(Object::at(&self.table, self.entries.clone(), index))
    }

    /// Everything that was ever entered: for those who look on.
    pub fn all(&self) -> Vec<(ObjectKind, String, Object)> {
        let known = |index: usize| {
            let name = self.entries.name(index)?;
            let letter = name.chars().next()?;
            let kind = ObjectKind::ALL.into_iter().find(|kind| kind.letter() == letter)?;
            Some((kind, name[1..].to_string(), Object::at(&self.table, self.entries.clone(), index)))
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
                // Release: pairs with: objects/lost. Told before the bit that tells it goes.
                self.entries.word(index, LOST).store(u64::from(node.0) + 1, Ordering::Release);
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

/// How often this node has each thing open.
#[derive(Debug, Default)]
pub(crate) struct Opened(Mutex<HashMap<usize, u32>>);

impl Opened {
    pub fn is_open(&self, index: u32) -> bool {
        lock(&self.0).contains_key(&(index as usize))
    }

    /// From now on nothing is let go of any more: the seat may soon be another node's.
    pub fn wait_for_those_inside(&self) {
        drop(lock(&self.0));
    }
}

/// A thing that this node has open: others see that it does, until this is dropped.
pub struct OpenObject {
    membership: Arc<Membership>,
    object: Object,
}

impl Membership {
    /// The named things of the job.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Opens a thing: others see that this node has it open.
    pub fn open_object(self: &Arc<Self>, object: Object) -> OpenObject {
        let mut opened = lock(&self.opened.0);
        let count = opened.entry(object.index).or_insert(0);
        *count += 1;
        if *count == 1 && !self.has_left() {
            object.hold(self.seat());
        }
        OpenObject { membership: self.clone(), object }
    }
}

impl std::ops::Deref for OpenObject {
    type Target = Object;
    fn deref(&self) -> &Object {
        &self.object
    }
}

impl OpenObject {
    /// The membership of the node that has it open.
    pub fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }
}

impl Drop for OpenObject {
    fn drop(&mut self) {
        if crate::fork::is_child() {
            return;
        }
        let mut opened = lock(&self.membership.opened.0);
        let Some(count) = opened.get_mut(&self.object.index) else { return };
        *count -= 1;
        if *count == 0 {
            opened.remove(&self.object.index);
            if !self.membership.has_left() {
                self.object.let_go(self.membership.seat());
            }
        }
    }
}

impl std::fmt::Debug for OpenObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenObject({})", self.object.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_the_same_for_all_who_open_it_and_kinds_do_not_meet() {
        let table = Table::create("test", 2).unwrap();
        let objects = Objects::new(&table);
        let (_, seat) = table.seat_node(1, false).unwrap();
        assert!(objects.find(ObjectKind::Mutex, "a").is_none());
        let mutex = objects.enter(ObjectKind::Mutex, "a", seat).unwrap();
        let counter = objects.enter(ObjectKind::Counter, "a", seat).unwrap();
        mutex.words().get(3).store(7, Ordering::Relaxed);
        let again = objects.find(ObjectKind::Mutex, "a").unwrap();
        assert_eq!((again.index(), again.words().get(3).load(Ordering::Relaxed)), (mutex.index(), 7));
        assert_ne!(counter.index(), mutex.index());
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
        let object = objects.enter(ObjectKind::Barrier, "b", seat).unwrap();
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
    fn impossible_names_are_refused() {
        for name in ["", "a\0b", &"x".repeat(OBJECT_NAME_BYTES_MAX + 1)] {
            let error = check_object_name(ObjectKind::Mutex, name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("mutex"), "{error}");
        }
        assert!(check_object_name(ObjectKind::Segment, &"x".repeat(OBJECT_NAME_BYTES_MAX)).is_ok());
    }
}
