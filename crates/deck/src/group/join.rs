//! How threads find one another under a name and become a group.
//!
//! The first to come makes the board and claims the group's name in the job's table; what the table keeps beside a name
//! is node and place, so everybody else finds the board there without asking anybody. Indexes are given under the
//! board's lock; whoever fills the last one declares the group formed. A thread whose time is over takes its place
//! back, unless the group was formed meanwhile. Places of dead nodes are free again. If the node that has the board
//! dies before the group is formed, the others begin anew.
//!
//! The board of a name may also be that of its last group, of any size: whoever finds that nobody lives who is in it
//! ends it, and whoever finds that some have left or died waits for its end. Only a board that neither is has to be as
//! one's own would be.

mod terms;

use std::sync::Arc;
use std::time::Duration;

use deck_mudeck::{Error, ErrorKind, Node, NodeId, Result};
use deck_peers::{MailboxId, Membership, NAME_BYTES_MAX, left};
use deck_segment::{Region, Segment};
use deck_sync::cancellation::{self, postponed_while};
use deck_sync::{About, Deadline, Goal, Interrupted, Waiting, now_ns, point};

use super::absent::{self, Absent};
use super::board::{Board, Locked, MEMBERS_MAX, Place, State};
use super::options::GroupOptions;
use super::retired;

/// Names of groups and of mail boxes are kept in one table: this keeps them apart.
pub(super) const PREFIX: &str = "\u{1}group:";
const _: () = assert!(PREFIX.as_bytes()[0] == deck_peers::RESERVED as u8, "programs give no such names to mail boxes");
/// How long a thread that gives up, leaves, or makes a new board waits for the board's lock.
const PATIENCE: Duration = Duration::from_secs(1);

/// A group that was joined.
pub struct Joined {
    pub board: Board,
    pub index: u32,
    /// The node of each member.
    pub nodes: Vec<NodeId>,
    /// The memory of the board, if this thread made it.
    pub region: Option<Region>,
}

/// What one look at a board brought.
enum Admission {
    At(u32),
    /// The board is another group's, or nobody's, by now.
    Again,
    /// The last group of that name, with this incarnation of the board, is about to end.
    Later(u64),
}

pub struct Joining<'a> {
    pub node: &'a Node,
    pub name: &'a str,
    pub size: u32,
    pub index: Option<u32>,
    pub options: &'a GroupOptions,
}

/// FNV-1a, never zero.
fn hash(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step) | 1
}

/// The entry of the table for a board at byte `offset`, which is a multiple of 64 under 2^46.
fn entry(owner: NodeId, offset: usize) -> MailboxId {
    let line = (offset / 64) as u64;
    MailboxId { owner, index: (line >> 20) as u32, generation: (line & 0xf_ffff) as u32 }
}

pub(super) fn offset(entry: MailboxId) -> usize {
    ((entry.index as usize) << 20 | entry.generation as usize) * 64
}

/// The name of a group in the job's table.
pub fn table_name(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// The group's name is free again, if this board still has it.
pub fn release_name(membership: &Membership, name: &str, board: &Board) {
    membership.release_name(&table_name(name), entry(board.owner, board.offset));
}

/// True once no member is left that may still look at the board. Under the lock.
pub fn is_over(membership: &Membership, board: &Board) -> bool {
    (0..board.members()).all(|index| !is_present(membership, board, index))
}

/// Member `index` is there and lives.
fn is_present(membership: &Membership, board: &Board, index: u32) -> bool {
    matches!(board.place(index), Place::Present(node) if membership.table().is_live(node))
}

impl Joining<'_> {
    fn what(&self) -> String {
        format!("joining group {:?}", self.name)
    }

    fn membership(&self) -> &Arc<Membership> {
        self.node.membership()
    }

    fn check(&self) -> Result<()> {
        let invalid = |what: String, remedy: String| Err(Error::new(ErrorKind::Invalid, what).with_remedy(remedy));
        if self.size == 0 || self.size > MEMBERS_MAX {
            let remedy = format!("a group has 1 to {MEMBERS_MAX} members");
            return invalid(format!("{}: a size of {}", self.what(), self.size), remedy);
        }
        if let Some(index) = self.index.filter(|index| *index >= self.size) {
            let remedy = format!("indexes are 0 to {}", self.size - 1);
            return invalid(format!("{}: index {index} of {}", self.what(), self.size), remedy);
        }
        let room = NAME_BYTES_MAX - PREFIX.len();
        if self.name.is_empty() || self.name.len() > room || self.name.contains('\0') {
            return invalid(
                format!("a group named {:?}", self.name),
                format!("a group's name has 1 to {room} bytes and no zero byte"),
            );
        }
        Ok(())
    }

    /// Joins; blocks until all have come or the deadline.
    pub fn join(&self, deadline: Deadline) -> Result<Joined> {
        self.check()?;
        self.node.check()?;
        retired::sweep();
        let since_ns = now_ns();
        let mut looks = 0;
        loop {
            // The first look may end the last group of that name, and find the place for a new one free.
            if looks >= 2 && deadline.has_passed() {
                let remedy = "wait longer, or choose another name: groups of that name come and go";
                return Err(Error::new(ErrorKind::Timeout, self.what()).with_remedy(remedy));
            }
            looks += 1;
            // Before anybody's life is looked at: whoever dies later than that look is noticed by the wait.
            let changes = self.membership().table().changes();
            let (admitted, region) = match self.find() {
                Some(found) => (self.join_at(found, since_ns, changes, deadline)?, None),
                None => self.open(deadline)?.unzip(),
            };
            let Some((board, index)) = admitted else { continue };
            point("group/admitted");
            let formed = self
                .wait_for_all(&board, index, since_ns, changes, deadline)
                .map(|is_formed| if is_formed { self.nodes(&board, index) } else { None });
            if let Ok(Some(nodes)) = formed {
                return Ok(Joined { board, index, nodes, region });
            }
            // Somebody may still use the board: that is found out later.
            retired::keep_region(self.membership(), region);
            formed?;
        }
    }

    fn find(&self) -> Option<MailboxId> {
        self.membership().find_name(&table_name(self.name), Deadline::NOW).ok()
    }

    /// Makes a board, claims the name for it, and takes the first place; `None` if somebody was faster.
    fn open(&self, deadline: Deadline) -> Result<Option<((Board, u32), Region)>> {
        let membership = self.membership();
        let ahead = self.options.completion.ahead();
        let region = retired::region(membership, Board::bytes(self.size, ahead))?;
        let id = entry(self.node.number(), region.offset());
        let board = Board::at(membership.heap().segment(), self.node.number(), region.offset(), self.size, ahead)?;
        // Until the name is claimed, or is somebody else's: who knows the place from the last group that was here is
        // kept off.
        let until = Deadline::after(PATIENCE).min(deadline.to_be_answered());
        let locked = match board.lock(membership, self.name, until) {
            Ok(locked) => locked,
            Err(error) => {
                // Somebody who comes late is still at the board that was here.
                retired::keep_region(membership, Some(region));
                return Err(error);
            }
        };
        board.reset(hash(self.name), self.size);
        match membership.claim_name(&table_name(self.name), id, deadline) {
            Ok(()) => {
                point("group/locked");
                // Others take the lock over from a node that has left.
                let Some(_pledge) = membership.pledge() else {
                    retired::keep_region(membership, Some(region));
                    return Err(left());
                };
                // Under the lock: a board at which nobody is would be ended by whoever finds it.
                let index = self.index.unwrap_or(0);
                self.sit(&board, index);
                drop(locked);
                Ok(Some(((board, index), region)))
            }
            Err(error) => {
                board.set_state(State::Over);
                drop(locked);
                retired::keep_region(membership, Some(region));
                if error.kind() == ErrorKind::Exists { Ok(None) } else { Err(error.context(self.what())) }
            }
        }
    }

    /// Takes a place at the board that the table names; `None` if it is the wrong one by now, or another group's that
    /// has ended.
    fn join_at(
        &self,
        found: MailboxId,
        since_ns: u64,
        changes: u64,
        deadline: Deadline,
    ) -> Result<Option<(Board, u32)>> {
        let membership = self.membership();
        let segment = match segment_of(membership, found.owner, deadline.to_be_answered()) {
            Ok(segment) => segment,
            // The node that has the board is gone: the name is free again.
            Err(error) if matches!(error.kind(), ErrorKind::PeerLost | ErrorKind::Closed) => {
                self.node.check()?;
                return Ok(None);
            }
            Err(error) => return Err(error.context(self.what())),
        };
        let head = Board::head(&segment, found.owner, offset(found))?;
        let locked = head.lock(membership, self.name, deadline).map_err(|error| error.context(self.what()))?;
        point("group/locked");
        // Others take the lock over from a node that has left.
        let _pledge = membership.pledge().ok_or_else(left)?;
        if head.name() != hash(self.name) || head.state() == State::Over {
            // A name is claimed and freed under the lock: if it still leads here, whoever was to free it has died.
            membership.release_name(&table_name(self.name), found);
            drop(locked);
            deck_sync::atomic::yield_now();
            return Ok(None);
        }
        let board = head.whole(&segment).map_err(|error| error.context(self.what()))?;
        let admission = self.admit(&board)?;
        drop(locked);
        match admission {
            Admission::Again => Ok(None),
            Admission::Later(incarnation) => {
                self.wait_for_end(&board, incarnation, since_ns, changes, deadline).map(|()| None)
            }
            Admission::At(index) => Ok(Some((board, index))),
        }
    }

    /// Takes a place, if the board is that of this group. Under the lock.
    fn admit(&self, board: &Board) -> Result<Admission> {
        let membership = self.membership();
        if is_over(membership, board) {
            end(membership, self.name, board);
            return Ok(Admission::Again);
        }
        let is_formed = board.state() == State::Formed;
        if is_formed && !(0..board.members()).all(|index| is_present(membership, board, index)) {
            return Ok(Admission::Later(board.incarnation()));
        }
        self.compare(board)?;
        if is_formed {
            let what = format!("{}: all its members have come already, and its size is {}", self.what(), self.size);
            return Err(Error::new(ErrorKind::Exists, what).with_remedy("choose another name, or a larger size"));
        }
        free_places_of_the_dead(membership, board, self.size);
        let mut indexes = match self.index {
            Some(index) => index..index + 1,
            None => 0..self.size,
        };
        let Some(index) = indexes.find(|index| board.place(*index) == Place::Free) else {
            let index = self.index.unwrap_or(0);
            let error = Error::new(ErrorKind::Exists, format!("{}: index {index} is taken", self.what()))
                .with_remedy("give each member an index of its own, or all of them none (-1 in C)");
            return Err(match board.place(index).node() {
                Some(node) => error.with_peer(node),
                None => error,
            });
        };
        self.sit(board, index);
        Ok(Admission::At(index))
    }

    /// Takes the place `index`, and declares the group formed if it was the last. Under the lock.
    fn sit(&self, board: &Board, index: u32) {
        board.set_place(index, Place::Present(self.node.number()));
        if (0..self.size).all(|index| board.place(index) != Place::Free) {
            board.set_state(State::Formed);
        }
    }

    /// What those who look on are told of a thread that waits to become member `index`, since it joins; `index` is the
    /// board's size while it waits for the last group of that name to end.
    fn about(&self, board: &Board, index: u32, since_ns: u64) -> About<'_> {
        let about = About { since_ns, ..About::new(Goal::Group, self.name) };
        about.with(board.facts(board.members(), 0, index))
    }

    /// Waits until the group is formed; false if its board is lost and all has to begin anew. `changes` had the table
    /// before the board was looked at.
    fn wait_for_all(
        &self,
        board: &Board,
        index: u32,
        since_ns: u64,
        mut changes: u64,
        deadline: Deadline,
    ) -> Result<bool> {
        let membership = self.membership();
        let about = self.about(board, index, since_ns);
        loop {
            let incarnation = board.incarnation();
            let mut forming = Forming { board, wanted: State::Formed, incarnation, membership, changes, about };
            let events = [board.joining(), membership.table().changed()];
            let interrupted = match deck_sync::wait(&mut forming, &events, membership.crowd(), deadline) {
                Ok(true) => return Ok(true),
                Ok(false) => None,
                Err(interrupted) => Some(interrupted),
            };
            changes = membership.table().changes();
            let locked = lock_in_any_case(membership, self.name, board);
            if board.state() == State::Formed {
                if interrupted == Some(Interrupted::Cancelled) {
                    cancellation::postpone();
                }
                return Ok(true);
            }
            self.node.check()?;
            // Others free the place of a node that has left, and may have given it to somebody else.
            let Some(_pledge) = membership.pledge() else { continue };
            if !membership.table().is_live(board.owner) {
                // Nobody forms the group here from now on.
                board.set_place(index, Place::Free);
                return Ok(false);
            }
            if locked.is_ok() {
                free_places_of_the_dead(membership, board, self.size);
            }
            let disagreed = board.disagreed();
            if interrupted.is_none() && disagreed.is_none() {
                continue;
            }
            let absent: Vec<Absent> = (0..self.size)
                .filter(|other| *other != index && board.place(*other) == Place::Free)
                .map(|index| Absent { index, node: None, state: None })
                .collect();
            board.set_place(index, Place::Free);
            if locked.is_ok() && is_over(membership, board) {
                end(membership, self.name, board);
            }
            drop(locked);
            if let Some(disagreed) = disagreed {
                return Err(self.disagreement(disagreed));
            }
            return Err(absent::missing(interrupted.unwrap_or(Interrupted::Deadline), &self.what(), &absent));
        }
    }

    /// Waits until the last group of that name has ended, which had this incarnation of the board: another one may have
    /// it already. `changes` had the table before the board was looked at.
    fn wait_for_end(
        &self,
        board: &Board,
        incarnation: u64,
        since_ns: u64,
        changes: u64,
        deadline: Deadline,
    ) -> Result<()> {
        let membership = self.membership();
        let about = self.about(board, board.members(), since_ns);
        let mut forming = Forming { board, wanted: State::Over, incarnation, membership, changes, about };
        let events = [board.joining(), membership.table().changed()];
        let waited = deck_sync::wait(&mut forming, &events, membership.crowd(), deadline);
        self.node.check()?;
        match waited {
            Ok(_) => Ok(()),
            Err(interrupted) => {
                let present = |index: u32| matches!(board.place(index), Place::Present(_));
                let left: Vec<_> =
                    (0..board.members()).filter(|index| present(*index)).map(|index| index.to_string()).collect();
                let what =
                    format!("{}: the last group of that name has not ended, index {}", self.what(), left.join(", "));
                Err(Error::new(interrupted.kind(), what)
                    .with_remedy("let all its members leave it first, or choose another name"))
            }
        }
    }

    /// The node of each member of a formed group. `None` if one is nobody's, and all have to begin anew: it had given
    /// up while somebody was stopped who declared the group formed. Member `index` leaves then.
    fn nodes(&self, board: &Board, index: u32) -> Option<Vec<NodeId>> {
        let nodes = board.nodes();
        if nodes.is_none() {
            leave(self.membership(), self.name, board, index);
        }
        nodes
    }
}

/// The segment of another node or this one. Blocks until the deadline.
pub fn segment_of(membership: &Arc<Membership>, node: NodeId, deadline: Deadline) -> Result<Arc<Segment>> {
    if node == membership.number() {
        return Ok(membership.heap().segment().clone());
    }
    let peer = membership.meet(node, deadline)?;
    Ok(peer.met_heap()?.segment().clone())
}

/// Under the lock.
fn free_places_of_the_dead(membership: &Membership, board: &Board, size: u32) {
    for index in 0..size {
        if let Place::Present(node) = board.place(index)
            && !membership.table().is_live(node)
        {
            board.set_place(index, Place::Free);
        }
    }
}

/// The group is over. Under the lock.
fn end(membership: &Membership, name: &str, board: &Board) {
    // In this order: whoever finds the board over looks for the name again, and if this thread dies in between, the
    // name does not lead to a board that nobody joins.
    release_name(membership, name, board);
    point("group/ending");
    board.set_state(State::Over);
}

/// The lock for what is done in any case: a cancellation is for the next wait.
fn lock_in_any_case<'a>(membership: &'a Membership, name: &'a str, board: &'a Board) -> Result<Locked<'a>> {
    let deadline = Deadline::after(PATIENCE);
    postponed_while(|| board.lock(membership, name, deadline), Error::kind)
}

/// Member `index` leaves; the last one frees the name. Nothing happens if its node has left: the board may be another
/// group's by now.
pub fn leave(membership: &Membership, name: &str, board: &Board, index: u32) {
    let Some(_pledge) = membership.pledge() else { return };
    let locked = lock_in_any_case(membership, name, board);
    point("group/leaving");
    board.set_place(index, Place::Left(membership.number()));
    point("group/left");
    if locked.is_ok() && is_over(membership, board) {
        end(membership, name, board);
    }
    board.depart();
    drop(locked);
}

/// Waits for a state of one incarnation of the board, or for its end; false when a node has come or gone.
struct Forming<'a> {
    board: &'a Board,
    wanted: State,
    incarnation: u64,
    membership: &'a Membership,
    changes: u64,
    about: About<'a>,
}

impl Waiting for Forming<'_> {
    type Output = bool;

    fn look(&mut self) -> Option<bool> {
        let is_over = self.wanted == State::Over && self.board.incarnation() != self.incarnation;
        if is_over || self.board.state() == self.wanted {
            return Some(true);
        }
        if self.wanted == State::Formed && self.board.disagreed().is_some() {
            return Some(false);
        }
        (self.membership.table().changes() != self.changes || self.membership.has_left()).then_some(false)
    }

    fn about(&self) -> Option<About<'_>> {
        Some(self.about)
    }
}
