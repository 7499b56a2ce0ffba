//! The board of a group: the words in shared memory at which its members meet.
//!
//! It lies in the heap of the node whose thread came first. What is in it (in lines of 64 bytes, so that no two members
//! write the same one):
//!
//! ```text
//! line 0        hash of the name, size, lock, state, event of joining, incarnation, by how many phases members may be ahead
//! line 1        members that left; the event that waiting members sleep on; who disagreed
//! lines 2 to 5  the last result to all, in parts of which one member makes each
//! 6 + 4 i       member i: state and node; arrivals and flag of its party, if it is the first of one; its core; pieces
//!               that it has given and taken; to which phase it has waited for all; whether it reads all programs' memory
//! 7 + 4 i       what member i has found in its last trials of ways; the proof of its program
//! 8 + 4 i       what member i said in its last even phase; the phase, written last, is the flag of a party of one
//! 9 + 4 i       ... and in its last odd phase
//! ```
//!
//! That is a board at which all meet in every phase. Where members may be ahead by *a* phases each has 2 *a* lines
//! instead of two, one for each phase in turn (`ahead`).
//!
//! Who joins and leaves is changed under the lock only, which holds no longer than a few stores. Its word is the number
//! of the holder's node plus one, so that the lock of a dead node is taken over; every change is one store, so that
//! whoever takes over finds no half of one. The memory of a board is only ever used for boards: somebody who read its
//! place from the job's table a moment too late locks a board, and nothing else.

mod said;

use std::sync::Arc;

use deck_mudeck::{Error, ErrorKind, NodeId, Result};
use deck_peers::Membership;
use deck_segment::attach::Proof;
use deck_segment::layout::LINE_WORDS;
use deck_segment::{Segment, Words};
use deck_sync::atomic::{AtomicU64, Ordering};
use deck_sync::{About, Deadline, Event, Goal, Waiting};

use super::choose::ONCE_PARTS;
use super::protocols::ahead::Ahead;
use super::protocols::flow::Counts;
use super::protocols::once::Once;

pub use said::{INLINE, Said};

/// How many members a group can have.
pub const MEMBERS_MAX: u32 = 1024;
const ONCE_LINE: usize = 2;
const HEAD_LINES: usize = ONCE_LINE + ONCE_PARTS as usize;
/// Lines of a member before those in which it says something.
const OWN_LINES: usize = 2;

/// Words of what a member tells of a trial.
const TIMES_WORDS: usize = 4;

mod head {
    pub const NAME: usize = 0;
    pub const SIZE: usize = 1;
    pub const LOCK: usize = 2;
    pub const STATE: usize = 3;
    pub const JOINING: usize = 4;
    pub const INCARNATION: usize = 5;
    pub const AHEAD: usize = 6;
    pub const DEPARTED: usize = 8;
    pub const CHANGED: usize = 9;
    pub const DISAGREED: usize = 10;
}

mod once {
    pub const CLAIMED: usize = 0;
    pub const MADE: usize = 1;
    pub const MADE_AT: usize = 2;
}

mod member {
    pub const STATE: usize = 0;
    pub const ARRIVED: usize = 1;
    pub const FLAG: usize = 2;
    pub const CORE: usize = 3;
    pub const GIVEN: usize = 4;
    pub const TAKEN: usize = 5;
    pub const AWAITED: usize = 6;
    pub const READS: usize = 7;
    pub const TIMES: usize = 8;
    /// Behind those of either trial.
    pub const PROOF: usize = 11;
    pub const PROOF_AT: usize = 15;
}

/// How far a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Members are still to come.
    Open,
    /// All have come.
    Formed,
    /// All have left: the board is nobody's.
    Over,
}

/// A member's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nobody has come.
    Free,
    /// A thread of this node is there.
    Present(NodeId),
    /// A thread of this node was there and left.
    Left(NodeId),
}

impl Place {
    /// The node of which a thread is there, or was.
    pub fn node(self) -> Option<NodeId> {
        match self {
            Place::Free => None,
            Place::Present(node) | Place::Left(node) => Some(node),
        }
    }
}

/// A board, as one member sees it.
#[derive(Clone, Debug)]
pub struct Board {
    words: Words,
    members: u32,
    ahead: Ahead,
    /// Words of a member.
    stride: usize,
    /// The node in whose heap it lies.
    pub owner: NodeId,
    /// Byte offset in that node's segment.
    pub offset: usize,
}

impl Board {
    /// Bytes of a board for `size` members.
    pub fn bytes(size: u32, ahead: Ahead) -> usize {
        (HEAD_LINES + (OWN_LINES + ahead.lines()) * size as usize) * LINE_WORDS * 8
    }

    /// The board for `size` members at `offset` of the segment of `owner`.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if it cannot lie there.
    pub fn at(segment: &Arc<Segment>, owner: NodeId, offset: usize, size: u32, ahead: Ahead) -> Result<Board> {
        let words = Words::in_segment(segment, offset, Board::bytes(size, ahead) / 8).ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "the job's table tells an impossible place of a group").with_peer(owner)
        })?;
        let stride = (OWN_LINES + ahead.lines()) * LINE_WORDS;
        Ok(Board { words, members: size, ahead, stride, owner, offset })
    }

    /// The head of the board at `offset` of the segment of `owner`: what holds for all members.
    ///
    /// # Errors
    /// As [`Board::at`].
    pub fn head(segment: &Arc<Segment>, owner: NodeId, offset: usize) -> Result<Board> {
        Board::at(segment, owner, offset, 0, Ahead::NONE)
    }

    /// The whole board of which this is the head, of whatever size it says that it is. Under the lock.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if it cannot be so.
    pub fn whole(&self, segment: &Arc<Segment>) -> Result<Board> {
        let size = u32::try_from(self.size()).ok().filter(|size| (1..=MEMBERS_MAX).contains(size));
        let Some((size, ahead)) = size.zip(self.ahead()) else {
            return Err(
                Error::new(ErrorKind::Corrupt, "the board of a group tells an impossible size").with_peer(self.owner)
            );
        };
        Board::at(segment, self.owner, self.offset, size, ahead)
    }

    /// The node of each member; `None` if there is one to whose place nobody has come.
    pub fn nodes(&self) -> Option<Vec<NodeId>> {
        (0..self.members).map(|index| self.place(index).node()).collect()
    }

    /// For how many members it is, whatever may be written there later.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// What those who look on are told: owner and offset, size, phase, index.
    pub fn facts(&self, size: u32, phase: u64, index: u32) -> [u64; 5] {
        [u64::from(self.owner.0), self.offset as u64, u64::from(size), phase, u64::from(index)]
    }

    fn load(&self, word: usize) -> u64 {
        // Acquire: pairs with: board/store.
        self.words.get(word).load(Ordering::Acquire)
    }

    fn store(&self, word: usize, value: u64) {
        // Release: pairs with: board/store.
        self.words.get(word).store(value, Ordering::Release);
    }

    /// The first line of member `index`: about the member itself.
    #[inline]
    fn own_line(&self, index: u32) -> usize {
        HEAD_LINES * LINE_WORDS + self.stride * index as usize
    }

    /// Makes it the empty board of a new group. Under the lock.
    pub fn reset(&self, name: u64, size: u32) {
        (head::DEPARTED..self.words.count()).for_each(|word| self.store(word, 0));
        self.store(head::INCARNATION, self.load(head::INCARNATION).wrapping_add(1));
        self.store(head::SIZE, u64::from(size));
        self.store(head::AHEAD, self.ahead.phases());
        self.store(head::NAME, name);
        self.set_state(State::Open);
    }

    /// Hash of the group's name.
    pub fn name(&self) -> u64 {
        self.load(head::NAME)
    }

    /// How many members the group has or waits for.
    pub fn size(&self) -> u64 {
        self.load(head::SIZE)
    }

    /// By how many phases members may be ahead of others; `None` if what stands there cannot be.
    pub fn ahead(&self) -> Option<Ahead> {
        Ahead::by(self.load(head::AHEAD))
    }

    /// The node of which a thread wanted to join with another size or other options, and the size it wanted.
    pub fn disagreed(&self) -> Option<(NodeId, u32)> {
        let word = self.load(head::DISAGREED);
        (word as u32).checked_sub(1).map(|number| (NodeId(number), (word >> 32) as u32))
    }

    /// A thread of `node` wants to join a group of `size` or with other options: those who have come are told.
    pub fn disagree(&self, node: NodeId, size: u32) {
        self.store(head::DISAGREED, u64::from(size) << 32 | (u64::from(node.0) + 1));
        self.joining().notify();
    }

    /// Changes whenever the board is used for another group.
    pub fn incarnation(&self) -> u64 {
        self.load(head::INCARNATION)
    }

    /// How far the group is.
    pub fn state(&self) -> State {
        match self.load(head::STATE) {
            0 => State::Open,
            1 => State::Formed,
            _ => State::Over,
        }
    }

    /// Under the lock.
    pub fn set_state(&self, state: State) {
        self.store(head::STATE, state as u64);
    }

    /// Member `index`.
    pub fn place(&self, index: u32) -> Place {
        let word = self.load(self.own_line(index) + member::STATE);
        let node = NodeId((word >> 8) as u32);
        match word & 0xff {
            0 => Place::Free,
            1 => Place::Present(node),
            _ => Place::Left(node),
        }
    }

    /// Under the lock, except that a member may always tell that it has left.
    pub fn set_place(&self, index: u32, place: Place) {
        let word = match place {
            Place::Free => 0,
            Place::Present(node) => u64::from(node.0) << 8 | 1,
            Place::Left(node) => u64::from(node.0) << 8 | 2,
        };
        self.store(self.own_line(index) + member::STATE, word);
    }

    /// Notified when somebody joins, leaves or unlocks.
    pub fn joining(&self) -> &Event {
        self.words.event(head::JOINING)
    }

    /// What members sleep on: notified when a phase is complete and when a member leaves.
    pub fn changed(&self) -> &Event {
        self.words.event(head::CHANGED)
    }

    /// How many members have left.
    pub fn departed(&self) -> u64 {
        self.load(head::DEPARTED)
    }

    /// One more has left. The member's place says so already.
    pub fn depart(&self) {
        // AcqRel: pairs with: board/store.
        self.words.get(head::DEPARTED).fetch_add(1, Ordering::AcqRel);
        self.changed().notify();
        self.joining().notify();
    }

    /// Arrivals in the party whose first member is `first`.
    pub fn counter(&self, first: u32) -> &AtomicU64 {
        self.words.get(self.own_line(first) + member::ARRIVED)
    }

    /// The flag of a larger party whose first member is `first`, for all phases.
    pub fn flag(&self, first: u32) -> &AtomicU64 {
        self.words.get(self.own_line(first) + member::FLAG)
    }

    /// The core plus one on which member `index` was seen last; 0 if nobody knows. A hint.
    pub fn core(&self, index: u32) -> &AtomicU64 {
        self.words.get(self.own_line(index) + member::CORE)
    }

    /// The last phase to which member `index` has waited for all to come before it said something. A hint.
    pub fn awaited(&self, index: u32) -> &AtomicU64 {
        self.words.get(self.own_line(index) + member::AWAITED)
    }

    /// Whether member `index` can read the memory of all members' programs: 0 until it has told that.
    pub fn reads_all(&self, index: u32) -> &AtomicU64 {
        self.words.get(self.own_line(index) + member::READS)
    }

    /// By what others know the program of member `index`, which it has told with what [`Board::reads_all`] says.
    pub fn proof(&self, index: u32) -> Proof {
        // Relaxed: published by coming to the next phase (meeting/flag, ahead/told).
        let [at, says] = self.proof_words(index).map(|word| word.load(Ordering::Relaxed));
        Proof { at, says }
    }

    /// Of this process's member.
    pub fn set_proof(&self, index: u32, proof: Proof) {
        let [at, says] = self.proof_words(index);
        // Relaxed: as above.
        at.store(proof.at, Ordering::Relaxed);
        says.store(proof.says, Ordering::Relaxed);
    }

    fn proof_words(&self, index: u32) -> [&AtomicU64; 2] {
        [member::PROOF_AT, member::PROOF].map(|word| self.words.get(self.own_line(index) + word))
    }

    /// What member `index` has told in its last even or odd trial of ways: which calls that is of, and times of them.
    pub fn times(&self, index: u32, trial: u64) -> [&AtomicU64; 3] {
        let begin = self.own_line(index) + member::TIMES + (trial % 2) as usize * TIMES_WORDS;
        [0, 1, 2].map(|word| self.words.get(begin + word))
    }

    /// Part `number` of what members make for all, each part one of them.
    #[inline]
    pub fn once(&self, number: u32) -> Once<'_> {
        let line = self.words.line((ONCE_LINE + number as usize) * LINE_WORDS);
        let [claimed, told, place] = [once::CLAIMED, once::MADE, once::MADE_AT].map(|word| &line[word]);
        Once { claimed, told, place }
    }

    /// How many pieces member `index` has given and taken in all calls whose pieces flow.
    #[inline]
    pub fn counts(&self, index: u32) -> Counts<'_> {
        let line = self.own_line(index);
        Counts { given: self.words.get(line + member::GIVEN), taken: self.words.get(line + member::TAKEN) }
    }

    /// The node that holds the lock.
    pub(super) fn holder(&self) -> Option<NodeId> {
        self.words.get(head::LOCK).load(Ordering::Relaxed).checked_sub(1).map(|number| NodeId(number as u32))
    }

    /// Locks the board of the group `name` for who joins and leaves. Blocks until the deadline.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] naming the node that holds it and does not run, [`ErrorKind::Cancelled`].
    pub fn lock(&self, membership: &Membership, name: &str, deadline: Deadline) -> Result<Locked<'_>> {
        let mut locking = Locking { board: self, membership, name };
        match deck_sync::wait(
            &mut locking,
            &[self.joining(), membership.table().changed()],
            membership.crowd(),
            deadline,
        ) {
            Ok(()) => Ok(Locked { board: self, holder: word_of(membership) }),
            Err(interrupted) => {
                let holder = self.holder();
                let error = interrupted.error("waiting for another thread that joins or leaves the group");
                Err(holder.map_or(error.clone(), |holder| error.with_peer(holder)))
            }
        }
    }
}

struct Locking<'a> {
    board: &'a Board,
    membership: &'a Membership,
    name: &'a str,
}

impl Waiting for Locking<'_> {
    type Output = ();

    fn look(&mut self) -> Option<()> {
        let lock = self.board.words.get(head::LOCK);
        let holder = lock.load(Ordering::Relaxed);
        let is_free = holder == 0 || !self.membership.table().is_live(NodeId((holder - 1) as u32));
        let mine = word_of(self.membership);
        // Acquire: pairs with: board/lock.
        (is_free && lock.compare_exchange(holder, mine, Ordering::Acquire, Ordering::Relaxed).is_ok()).then_some(())
    }

    fn about(&self) -> Option<About<'_>> {
        let Board { owner, offset, .. } = self.board;
        let about = About::new(Goal::Board, self.name).with([u64::from(owner.0), *offset as u64]);
        Some(About { peer: self.board.holder(), ..about })
    }
}

/// The word of a lock that this node holds.
fn word_of(membership: &Membership) -> u64 {
    u64::from(membership.number().0) + 1
}

/// The lock is held.
pub struct Locked<'a> {
    board: &'a Board,
    holder: u64,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let lock = self.board.words.get(head::LOCK);
        // Another node has taken it over if this one has left meanwhile. Release: pairs with: board/lock.
        let _ = lock.compare_exchange(self.holder, 0, Ordering::Release, Ordering::Relaxed);
        self.board.joining().notify();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use deck_mudeck::{Door, Node};
    use deck_peers::Broker;
    use deck_segment::layout::PAGE;

    use super::*;

    #[test]
    fn the_lock_of_a_node_that_leaves_inside_stays_with_whoever_has_taken_it_over() {
        let broker = Broker::start("test", 2).unwrap();
        let [leaving, other] = [(); 2].map(|()| Node::join_by(Door::Invited(broker.invite().unwrap())).unwrap());
        let (left, here) = (leaving.membership().clone(), other.membership());
        let region = here.heap().region(Board::bytes(1, Ahead::NONE)).unwrap();
        let board = Board::at(here.heap().segment(), other.number(), region.offset(), 1, Ahead::NONE).unwrap();
        let first = board.lock(&left, "x", Deadline::NOW).unwrap();
        leaving.leave().unwrap();
        let second = board.lock(here, "x", Deadline::NOW).unwrap();
        drop(first);
        assert_eq!(board.holder(), Some(other.number()));
        drop(second);
        assert_eq!(board.holder(), None);
    }

    #[test]
    fn a_board_of_an_impossible_size_or_place_is_corrupt_and_its_owner_is_named() {
        let segment =
            Segment::create("test", 2 * Board::bytes(MEMBERS_MAX, Ahead::NONE).next_multiple_of(PAGE)).unwrap();
        let head = Board::head(&segment, NodeId(3), 0).unwrap();
        let refused = |made: Result<Board>| made.err().map(|error| (error.kind(), error.peer()));
        let corrupt = Some((ErrorKind::Corrupt, Some(NodeId(3))));
        head.store(head::AHEAD, Ahead::NONE.phases());
        for size in [0, u64::from(MEMBERS_MAX) + 1, 1 << 32 | 1, u64::MAX] {
            head.store(head::SIZE, size);
            assert_eq!(refused(head.whole(&segment)), corrupt, "{size} members");
        }
        head.store(head::SIZE, u64::from(MEMBERS_MAX));
        assert_eq!(head.whole(&segment).unwrap().members(), MEMBERS_MAX);
        for phases in [0, 3, u64::MAX] {
            head.store(head::AHEAD, phases);
            assert_eq!(refused(head.whole(&segment)), corrupt, "{phases} phases ahead");
        }
        let last = segment.bytes() - Board::bytes(1, Ahead::NONE);
        let at = |offset| refused(Board::at(&segment, NodeId(3), offset, 1, Ahead::NONE));
        assert_eq!(
            [last, last + 8, last + 1, segment.bytes(), usize::MAX].map(at),
            [None, corrupt, corrupt, corrupt, corrupt]
        );
    }
}
