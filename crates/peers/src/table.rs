//! The job-wide table: who is in the job, who runs, who owns which name. One segment that every node maps.
//!
//! The broker writes who is in the job; each node writes how many of its threads want to run; names are claimed by
//! their owners with one compare-and-swap ([`crate::names`]). `docs/layout/job-table.md` is this map in words.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use deck_segment::{Seat, Segment, Words, layout::PAGE};
use deck_sync::atomic::Ordering;
use deck_sync::{Error, ErrorKind, Event, NodeId, Result};

use crate::names::entries::{Seating, words_of};
use crate::process;
use crate::wire::Refusal;

/// What the system calls a job's table, for those who look for it.
pub(crate) const LABEL: &str = "deck-job";
/// `DECK JOB`, first word of a job's table.
const MAGIC: u64 = u64::from_le_bytes(*b"DECK JOB");
/// Changes with every change of the table's layout.
const VERSION: u64 = 14;

mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    pub const COUNT: usize = 2;
    pub const EXPECTED: usize = 3;
    pub const CHANGES: usize = 4;
    pub const FENCES: usize = 5;
    pub const GONE: usize = 6;
    pub const GOING: usize = 7;
    pub const CHANGED: usize = 8;
    pub const DEAD: usize = 9;
    pub const JOB: usize = 16;
    pub const RENAMING: usize = 24;
    pub const OPENING: usize = 25;
}

/// The most bytes of a job's name.
pub const JOB_BYTES_MAX: usize = 63;

/// Words of a seat: node, process and state on the first line, runnable threads, their core and where they are called
/// on the second, core mask on the others.
const SEAT_WORDS: usize = 32;
mod seat {
    pub const NODE: usize = 0;
    pub const PID: usize = 1;
    pub const KEEPS: usize = 2;
    pub const ARRIVED: usize = 3;
    pub const RUNNABLE: usize = 8;
    pub const CORE: usize = 9;
    pub const CALLED: usize = 10;
    pub const MASK: usize = 16;
}

/// What became of the welcome of the node on a seat, beside its number.
const COMING: u64 = 0;
const ARRIVED: u64 = 1;
const GIVEN_UP: u64 = 2;

fn arrival(number: u64, how: u64) -> u64 {
    number << 8 | how
}

/// How many nodes a job can ever have.
pub const NODES_MAX: u32 = 1 << 16;
/// Nodes at a time.
pub const NODES_AT_A_TIME_MAX: u32 = Seat::COUNT as u32;
const SEATS_AT: usize = PAGE;
const NODES_AT: usize = SEATS_AT + Seat::COUNT * SEAT_WORDS * 8;
/// Where a node's word has its seat, and behind that how many marks were begun before its own: of two that mark one
/// node as gone each counts.
const SEAT_SHIFT: u32 = 8;
const GOING_SHIFT: u32 = 24;
/// The word for whoever gives the entry of a name to another name.
pub(crate) const RENAMING_AT: usize = header::RENAMING * 8;
/// The word for whoever opens a named thing.
pub(crate) const OPENING_AT: usize = header::OPENING * 8;
/// Where names begin.
pub(crate) const NAMES_AT: usize = NODES_AT + NODES_MAX as usize * 8;
/// Where named things other than mail boxes begin.
pub(crate) const OBJECTS_AT: usize = NAMES_AT + crate::names::BYTES;
const BYTES: usize = OBJECTS_AT + crate::names::objects::BYTES;

// As `docs/layout/job-table.md` says.
const _: () = assert!(SEATS_AT == 4_096 && NODES_AT == 69_632 && NAMES_AT == 593_920 && OBJECTS_AT == 2_691_072);
const _: () = assert!(BYTES == 3_739_648);

/// What became of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// In the job.
    Live,
    /// In the job, but its control thread does not answer (stopped, or starved).
    Frozen,
    /// Left in order.
    Left,
    /// Died.
    Lost,
}

impl Seating for Table {
    fn node_on(&self, seat: Seat) -> Option<NodeId> {
        Table::node_on(self, seat)
    }

    fn is_live(&self, node: NodeId) -> bool {
        Table::is_live(self, node)
    }
}

/// The table of a job, mapped.
#[derive(Clone, Debug)]
pub struct Table {
    segment: Arc<Segment>,
    words: Words,
    seats: Words,
    nodes: Words,
}

impl Table {
    /// The table of the new job `job` (empty if it has no name) that expects `expected` nodes at least.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`], or [`ErrorKind::Invalid`] for a name of more than 63 bytes.
    pub fn create(job: &str, expected: u32) -> Result<Table> {
        if job.len() > JOB_BYTES_MAX {
            return Err(Error::new(ErrorKind::Invalid, format!("a job's name has at most {JOB_BYTES_MAX} bytes")));
        }
        let segment = Segment::create(LABEL, BYTES)?;
        segment.allocate(0, NODES_AT)?;
        segment.allocate(NAMES_AT, BYTES - NAMES_AT)?;
        let table = Table::view(segment);
        for (at, word) in words_of(job.as_bytes()).enumerate() {
            table.words.get(header::JOB + at).store(word, Ordering::Relaxed);
        }
        table.words.get(header::EXPECTED).store(u64::from(expected), Ordering::Relaxed);
        table.words.get(header::VERSION).store(VERSION, Ordering::Relaxed);
        // Release: pairs with: table/magic. What makes it a table comes first.
        table.words.get(header::MAGIC).store(MAGIC, Ordering::Release);
        Ok(table)
    }

    /// Maps the table that the broker passed.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] for a wrong magic number, layout version or size.
    pub fn adopt(fd: OwnedFd) -> Result<Table> {
        Table::of(Segment::adopt(fd)?)
    }

    /// A copy of the table of a job that this process is not in: for those who look on.
    ///
    /// # Errors
    /// As [`Table::adopt`].
    pub fn copy_of(fd: impl AsFd) -> Result<Table> {
        Table::of(Segment::copy_of(fd, 0, BYTES.next_multiple_of(PAGE))?)
    }

    fn of(segment: Arc<Segment>) -> Result<Table> {
        if segment.bytes() != BYTES.next_multiple_of(PAGE) {
            return Err(Error::new(ErrorKind::Corrupt, format!("the job's table has {} bytes", segment.bytes())));
        }
        let table = Table::view(segment);
        // Acquire: pairs with: table/magic.
        let (magic, version) = (
            table.words.get(header::MAGIC).load(Ordering::Acquire),
            table.words.get(header::VERSION).load(Ordering::Relaxed),
        );
        if magic != MAGIC || version != VERSION {
            let what =
                format!("the job's table has magic number {magic:#x} and layout version {version}, not {VERSION}");
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        Ok(table)
    }

    fn view(segment: Arc<Segment>) -> Table {
        let words = |offset, count| Words::in_segment(&segment, offset, count).expect("the table has this size");
        let (header, seats) = (words(0, PAGE / 8), words(SEATS_AT, Seat::COUNT * SEAT_WORDS));
        let nodes = words(NODES_AT, NODES_MAX as usize);
        Table { words: header, seats, nodes, segment }
    }

    /// The memory that it is.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The job's name, empty if it has none.
    pub fn job(&self) -> String {
        let words = (0..8).map(|word| self.words.get(header::JOB + word).load(Ordering::Relaxed));
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Notified when a name is claimed or a node comes or goes.
    pub fn changed(&self) -> &Event {
        self.words.event(header::CHANGED)
    }

    /// The highest number ever given or expected, plus one.
    pub fn count(&self) -> u32 {
        // Acquire: pairs with: table/count.
        let given = self.words.get(header::COUNT).load(Ordering::Acquire);
        let expected = self.words.get(header::EXPECTED).load(Ordering::Relaxed);
        u32::try_from(given.max(expected)).unwrap_or(NODES_MAX).min(NODES_MAX)
    }

    /// More nodes are to come, for all that is told here: fewer have than are expected, or the job is joined by name
    /// and nobody tells how many it will be. `deck run` of several nodes with a name has told: a guest may come, and is
    /// not waited for.
    pub fn awaits_nodes(&self) -> bool {
        // Acquire: pairs with: table/count.
        let given = self.words.get(header::COUNT).load(Ordering::Acquire);
        let expected = self.words.get(header::EXPECTED).load(Ordering::Relaxed);
        given < expected || expected <= 1 && !self.job().is_empty()
    }

    /// Changes whenever a node comes or goes.
    pub fn changes(&self) -> u64 {
        // Acquire: pairs with: table/changes. Whoever knows the change sees what has changed.
        self.words.get(header::CHANGES).load(Ordering::Acquire)
    }

    /// Changes whenever a node dies or leaves.
    pub fn departures(&self) -> u64 {
        // Acquire: pairs with: table/departures.
        self.words.get(header::GONE).load(Ordering::Acquire)
    }

    /// Changes whenever a node dies.
    pub fn deaths(&self) -> u64 {
        // Acquire: pairs with: table/departures.
        self.words.get(header::DEAD).load(Ordering::Acquire)
    }

    /// True if some node cannot use membarrier: then all have to fence.
    pub fn needs_fences(&self) -> bool {
        // SeqCst: pairs with: table/fences.
        self.words.get(header::FENCES).load(Ordering::SeqCst) != 0
    }

    /// Broker: gives the next number and a free seat to the process `pid`, with its namespace in the upper half.
    pub fn seat_node(&self, pid: u64, needs_fences: bool) -> Result<(NodeId, Seat), Refusal> {
        let number = self.words.get(header::COUNT).load(Ordering::Relaxed);
        if number >= u64::from(NODES_MAX) {
            return Err(Refusal::Numbers);
        }
        // A seat with a number that was never given: a broker died while it gave it.
        let is_free = |index: &usize| {
            let given = self.seat_word(Seat(*index as u16), seat::NODE).load(Ordering::Relaxed);
            given == 0 || given > number
        };
        let Some(index) = (0..Seat::COUNT).find(is_free) else {
            return Err(Refusal::Full);
        };
        if number.is_multiple_of((PAGE / 8) as u64) {
            self.segment.allocate(NODES_AT + number as usize * 8, PAGE).map_err(|_| Refusal::NoMemory)?;
        }
        let place = Seat(index as u16);
        self.seat_word(place, seat::PID).store(pid, Ordering::Relaxed);
        self.seat_word(place, seat::RUNNABLE).store(0, Ordering::Relaxed);
        self.seat_word(place, seat::CORE).store(0, Ordering::Relaxed);
        self.seat_word(place, seat::CALLED).store(0, Ordering::Relaxed);
        self.seat_word(place, seat::KEEPS).store(0, Ordering::Relaxed);
        self.seat_word(place, seat::ARRIVED).store(arrival(number, COMING), Ordering::Relaxed);
        (0..16).for_each(|word| self.seat_word(place, seat::MASK + word).store(0, Ordering::Relaxed));
        // Release: pairs with: table/seat. What else stands there is the new node's by now.
        self.seat_word(place, seat::NODE).store(number + 1, Ordering::Release);
        deck_sync::point("table/seating");
        if needs_fences {
            // SeqCst: pairs with: table/fences. Said before the others can know of the node.
            self.words.get(header::FENCES).store(1, Ordering::SeqCst);
        }
        // Release: pairs with: table/state. Whoever sees it sees the seat.
        self.nodes.get(number as usize).store(u64::from(place.0) << SEAT_SHIFT | 1, Ordering::Release);
        // Release: pairs with: table/count. Last: the state of a number below it was told.
        self.words.get(header::COUNT).store(number + 1, Ordering::Release);
        self.note_change();
        Ok((NodeId(number as u32), place))
    }

    fn note_change(&self) {
        // AcqRel: pairs with: table/changes.
        self.words.get(header::CHANGES).fetch_add(1, Ordering::AcqRel);
        self.changed().notify();
    }

    fn seat_word(&self, Seat(index): Seat, word: usize) -> &deck_sync::atomic::AtomicU64 {
        self.seats.get(usize::from(index) % Seat::COUNT * SEAT_WORDS + word)
    }

    /// What became of `node`; `None` if the number was never given.
    pub fn state(&self, node: NodeId) -> Option<NodeState> {
        // Acquire: pairs with: table/count.
        if u64::from(node.0) >= self.words.get(header::COUNT).load(Ordering::Acquire).min(u64::from(NODES_MAX)) {
            return None;
        }
        // Acquire: pairs with: table/state.
        match self.nodes.get(node.0 as usize).load(Ordering::Acquire) & 0xff {
            2 => Some(NodeState::Left),
            3 => Some(NodeState::Lost),
            _ => Some(NodeState::Live),
        }
    }

    /// True while the node is in the job.
    pub fn is_live(&self, node: NodeId) -> bool {
        self.state(node) == Some(NodeState::Live)
    }

    /// The seat that a number was given with.
    pub fn seat_of(&self, node: NodeId) -> Option<Seat> {
        self.state(node)?;
        // Acquire: pairs with: table/state.
        let word = self.nodes.get(node.0 as usize).load(Ordering::Acquire);
        Some((word >> SEAT_SHIFT) as u16).filter(|seat| usize::from(*seat) < Seat::COUNT).map(Seat)
    }

    /// The process of a node that was not reclaimed yet, as [`process::own_word`] tells.
    pub(crate) fn process_of(&self, node: NodeId) -> Option<u64> {
        let place = self.seat_of(node)?;
        // Acquire: pairs with: table/seat.
        let is_same = self.seat_word(place, seat::NODE).load(Ordering::Acquire) == u64::from(node.0) + 1;
        is_same.then(|| self.seat_word(place, seat::PID).load(Ordering::Relaxed))
    }

    /// The number of that process, whatever it means here.
    pub fn pid_of(&self, node: NodeId) -> Option<u32> {
        self.process_of(node).map(process::number)
    }

    /// As [`Table::pid_of`], if the number means something here.
    pub fn pid_here(&self, node: NodeId) -> Option<u32> {
        self.process_of(node).and_then(process::pid_here)
    }

    /// The node has read its welcome, and will tell by itself if it leaves; false if it is given up.
    pub(crate) fn arrive(&self, node: NodeId) -> bool {
        self.settle_arrival(node, ARRIVED)
    }

    /// Nobody waits for the node any more, which was not told its number, as far as is known; false if it was and has
    /// arrived.
    pub(crate) fn give_up(&self, node: NodeId) -> bool {
        self.settle_arrival(node, GIVEN_UP)
    }

    fn settle_arrival(&self, node: NodeId, how: u64) -> bool {
        let Some(place) = self.seat_of(node) else { return false };
        let number = u64::from(node.0);
        // Relaxed: it is one word, and says nothing of others. With the number, as the seat may be another node's by
        // now.
        let (coming, settled) = (arrival(number, COMING), arrival(number, how));
        let word = self.seat_word(place, seat::ARRIVED);
        word.compare_exchange(coming, settled, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Who sits on `seat`, reclaimed or not.
    pub fn node_on(&self, place: Seat) -> Option<NodeId> {
        // Acquire: pairs with: table/seat.
        let number = self.seat_word(place, seat::NODE).load(Ordering::Acquire);
        number.checked_sub(1).and_then(|number| u32::try_from(number).ok()).map(NodeId)
    }

    /// Marks a live node as gone; true if this call did it. Anybody who knows may tell.
    pub fn set_gone(&self, node: NodeId, is_lost: bool) -> bool {
        let Some(place) = self.seat_of(node) else { return false };
        let is_first = self.mark_gone(node, place, is_lost);
        if is_first {
            self.note_departure(node, place);
        }
        is_first
    }

    pub(crate) fn mark_gone(&self, node: NodeId, place: Seat, is_lost: bool) -> bool {
        if !self.is_live(node) {
            return false;
        }
        // Taken before anybody can know that this node is gone: one that goes because of it takes a later one. Relaxed:
        // it is one word, and `table/state` is between the two.
        let going = self.words.get(header::GOING).fetch_add(1, Ordering::Relaxed);
        let word = u64::from(place.0) << SEAT_SHIFT;
        let gone = going << GOING_SHIFT | word | if is_lost { 3 } else { 2 };
        // AcqRel: pairs with: table/state. A node that leaves has done by now what others are to see of it.
        self.nodes.get(node.0 as usize).compare_exchange(word | 1, gone, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Tells that `node`, which has had the seat `place`, was marked as gone. To tell it twice is only a needless look
    /// for those who wait. Whoever tells it late, as it was stopped, may find another node on the seat.
    pub(crate) fn note_departure(&self, node: NodeId, place: Seat) {
        let is_there = self.node_on(place) == Some(node);
        if is_there && self.state(node) == Some(NodeState::Lost) {
            // AcqRel: pairs with: table/departures.
            self.words.get(header::DEAD).fetch_add(1, Ordering::AcqRel);
        }
        // AcqRel: pairs with: table/departures.
        self.words.get(header::GONE).fetch_add(1, Ordering::AcqRel);
        if is_there {
            self.seat_word(place, seat::RUNNABLE).store(0, Ordering::Relaxed);
            self.seat_word(place, seat::CALLED).store(0, Ordering::Relaxed);
        }
        self.note_change();
    }

    /// Puts gone nodes in order: who is gone because of another comes after that one.
    pub fn order_of_going(&self, node: NodeId) -> u64 {
        // Acquire: pairs with: table/state.
        self.nodes.get(node.0 as usize).load(Ordering::Acquire) >> GOING_SHIFT
    }

    /// The node on `seat` leaves and still holds buffers of others: it is reclaimed when its process ends.
    pub fn set_keeps(&self, place: Seat) {
        // Release: pairs with: table/keeps.
        self.seat_word(place, seat::KEEPS).store(1, Ordering::Release);
    }

    /// True if the node on `seat` has left and still holds buffers of others.
    pub fn keeps(&self, place: Seat) -> bool {
        // Acquire: pairs with: table/keeps.
        self.seat_word(place, seat::KEEPS).load(Ordering::Acquire) != 0
    }

    /// Broker: the seat of a gone node may be given again.
    pub fn free_seat(&self, place: Seat) {
        // Release: pairs with: table/seat.
        self.seat_word(place, seat::NODE).store(0, Ordering::Release);
    }

    /// The live nodes in order of their numbers.
    pub fn live(&self) -> Vec<NodeId> {
        let seats = (0..Seat::COUNT as u16).filter_map(|index| self.node_on(Seat(index)));
        let mut nodes: Vec<NodeId> = seats.filter(|node| self.is_live(*node)).collect();
        nodes.sort_unstable();
        nodes
    }

    /// Tells on which cores the node on `seat` may run.
    pub fn set_core_mask(&self, place: Seat, mask: &[u64; 16]) {
        for (word, value) in mask.iter().enumerate() {
            self.seat_word(place, seat::MASK + word).store(*value, Ordering::Relaxed);
        }
        self.note_change();
    }

    /// The cores of the node on `seat`.
    pub fn core_mask(&self, place: Seat) -> [u64; 16] {
        std::array::from_fn(|word| self.seat_word(place, seat::MASK + word).load(Ordering::Relaxed))
    }

    /// The count of threads of `seat` that want to run.
    pub fn runnable(&self, place: Seat) -> &deck_sync::atomic::AtomicU64 {
        self.seat_word(place, seat::RUNNABLE)
    }

    /// The core plus one on which a thread of `seat` was last that waited in a crowd; 0 if none has.
    pub fn core(&self, place: Seat) -> &deck_sync::atomic::AtomicU64 {
        self.seat_word(place, seat::CORE)
    }

    /// The core plus one to which a thread of `seat` is called that gave it away, 0 if none is; in the high half, how
    /// often another one got that core since and had nothing to do.
    pub fn called(&self, place: Seat) -> &deck_sync::atomic::AtomicU64 {
        self.seat_word(place, seat::CALLED)
    }
}

impl AsFd for Table {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.segment.as_fd()
    }
}

#[cfg(test)]
pub(crate) mod tests;
