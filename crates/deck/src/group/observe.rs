//! A group as those see it who look on: from a copy of its board.

use std::os::fd::BorrowedFd;

use deck_mudeck::NodeId;
use deck_peers::MailboxId;
use deck_segment::Segment;

use super::board::{Board, MEMBERS_MAX, Place};
use super::flow::Flow;
use super::join;

/// A member's place in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberSight {
    /// Its index.
    pub index: u32,
    /// Its node; `None` while nobody has come.
    pub node: Option<NodeId>,
    /// It has left the group.
    pub has_left: bool,
    /// It has come to the phase that was asked about, and where pieces flow it does not keep others waiting.
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

/// The members of the group whose board lies at byte `offset` of the segment `heap` of `owner`; `size` 0: as many as it says.
/// `flow` is what a wait of a collective told at the end of its facts, or zeros. `None` if there can be none.
pub fn members(
    heap: BorrowedFd<'_>,
    owner: NodeId,
    offset: u64,
    size: u64,
    phase: u64,
    flow: [u64; 2],
) -> Option<Vec<MemberSight>> {
    let offset = usize::try_from(offset).ok().filter(|offset| offset.is_multiple_of(64))?;
    let at = |size: u32| {
        let copy = Segment::copy_of(heap, offset, Board::bytes(size)).ok()?;
        Board::at(&copy, owner, 0, size).ok()
    };
    let size = if size == 0 { at(0)?.size() } else { size };
    let size = u32::try_from(size).ok().filter(|size| (1..=MEMBERS_MAX).contains(size))?;
    let board = at(size)?;
    let flow = Flow::of_facts(flow, size);
    let is_waited_for = |index| flow.is_some_and(|flow| flow.can_go_on(index, |index| board.counts(index)));
    let member = |index| {
        let (node, has_left) = match board.place(index) {
            Place::Free => (None, false),
            Place::Present(node) => (Some(node), false),
            Place::Left(node) => (Some(node), true),
        };
        let has_come = phase > 0 && (flow.is_some() || board.has_said(index, phase)) && !is_waited_for(index);
        MemberSight { index, node, has_left, has_come }
    };
    Some((0..size).map(member).collect())
}
