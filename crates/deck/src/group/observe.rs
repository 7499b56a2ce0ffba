//! A group as those see it who look on: from a copy of its board.

use std::os::fd::BorrowedFd;

use deck_mudeck::NodeId;
use deck_peers::MailboxId;
use deck_segment::Segment;

use super::board::{Board, MEMBERS_MAX, Place};
use super::join;
use super::protocols::ahead::{Ahead, Awaited};
use super::protocols::flow::Flow;
use super::protocols::teams::Teams;

/// A member's place in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberSight {
    /// Its index.
    pub index: u32,
    /// Its node; `None` while nobody has come.
    pub node: Option<NodeId>,
    /// It has left the group.
    pub has_left: bool,
    /// It does not keep the one waiting that was asked about: it has come to the phase, is not needed there, or has
    /// given its pieces.
    pub has_come: bool,
}

/// The name of a group, if that is what a name in the job's table is.
pub fn group_name(name: &str) -> Option<&str> {
    name.strip_prefix(join::PREFIX)
}

/// Owner and offset of the board that an entry of the job's table tells.
pub fn board_of_entry(entry: MailboxId) -> (NodeId, u64) {
    (entry.owner, join::offset(entry) as u64)
}

/// A group as it was at one moment: a copy of its board.
#[derive(Debug)]
pub struct GroupSight {
    board: Board,
}

impl GroupSight {
    /// The group whose board lies at byte `offset` of the segment `heap` of `owner`, with `size` members; 0: as many as
    /// it says. `None` if there can be none.
    pub fn of(heap: BorrowedFd<'_>, owner: NodeId, offset: u64, size: u64) -> Option<GroupSight> {
        let offset = usize::try_from(offset).ok().filter(|offset| offset.is_multiple_of(64))?;
        let at = |size: u32, ahead: Ahead| {
            let copy = Segment::copy_of(heap, offset, Board::bytes(size, ahead)).ok()?;
            Board::at(&copy, owner, 0, size, ahead).ok()
        };
        let head = at(0, Ahead::NONE)?;
        let size = if size == 0 { head.size() } else { size };
        let size = u32::try_from(size).ok().filter(|size| (1..=MEMBERS_MAX).contains(size))?;
        Some(GroupSight { board: at(size, head.ahead()?)? })
    }

    /// Its members. `phase` and the index of whoever waits for it, and `how`, are what a wait of a collective told in
    /// its facts, or zeros. `None` if that cannot be.
    pub fn members(&self, (phase, asking): (u64, u64), how: [u64; 2]) -> Option<Vec<MemberSight>> {
        let (board, size) = (&self.board, self.board.members());
        let asking = u32::try_from(asking).ok()?;
        let sources = Awaited::of_facts(phase, how).course.sources(asking, size);
        let flow = Flow::of_facts(how, size, || Teams::of(&board.nodes()?, asking));
        let member = |index| {
            let place = board.place(index);
            let (node, has_left) = (place.node(), matches!(place, Place::Left(_)));
            let is_waited_for = match &flow {
                Some(flow) => flow.can_go_on(index, |index| board.counts(index)),
                None => sources.contains(&index) && !board.has_said(index, phase),
            };
            let has_come = phase > 0 && !is_waited_for;
            MemberSight { index, node, has_left, has_come }
        };
        Some((0..size).map(member).collect())
    }
}
