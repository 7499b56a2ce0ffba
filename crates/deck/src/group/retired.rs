//! Memory of members that have left: kept until nobody looks at it any more.
//!
//! A member that leaves does not wait for the others, who may still be reading what it contributed. Its memory goes
//! back to the heap when all have left or died, which is looked at whenever a group is joined or left here. Boards are
//! kept for further groups as long as the node is in its job: see `board`.

use std::ptr;
use std::sync::{Arc, Mutex, Weak};

use deck_mudeck::Result;
use deck_peers::Membership;
use deck_segment::{Buffer, Region};
use deck_sync::atomic::{Ordering, fence};
use deck_sync::locks::lock;

use super::board::{Board, State};
use super::join::is_over;

/// What a member has left behind.
struct Retired {
    membership: Weak<Membership>,
    board: Board,
    incarnation: u64,
    _contributions: Vec<Region>,
    _kept: Vec<Buffer>,
}

static RETIRED: Mutex<Vec<Retired>> = Mutex::new(Vec::new());
/// Boards of this process: those of groups that are over, and those of groups that this process's members have left.
static BOARDS: Mutex<Vec<(Weak<Membership>, Region)>> = Mutex::new(Vec::new());

/// Keeps what a member contributed, and messages in which others may still read, until all have left the group. Never
/// blocks.
pub fn keep(membership: &Arc<Membership>, board: &Board, contributions: Vec<Region>, kept: Vec<Buffer>) {
    if contributions.is_empty() && kept.is_empty() {
        return;
    }
    lock(&RETIRED).push(Retired {
        membership: Arc::downgrade(membership),
        board: board.clone(),
        incarnation: board.incarnation(),
        _contributions: contributions,
        _kept: kept,
    });
    until_left(membership);
}

/// Keeps the memory of a board.
pub fn keep_region(membership: &Arc<Membership>, region: Option<Region>) {
    if let Some(region) = region {
        lock(&BOARDS).push((Arc::downgrade(membership), region));
        until_left(membership);
    }
}

/// What was put aside is not kept beyond the node's leaving, and with it the whole heap. Whoever leaves meanwhile
/// sweeps after it has said so, under the lock that was just held: one of the two finds it.
fn until_left(membership: &Membership) {
    membership.after_leaving(sweep);
    // SeqCst: pairs with: membership/after_leaving. Whoever leaves and does not see that it is to sweep is seen.
    fence(Ordering::SeqCst);
    if membership.has_left() {
        sweep();
    }
}

/// Frees what nobody looks at any more. Never blocks.
pub fn sweep() {
    // All of these are dropped when the locks are free again: with the last hold of a node it leaves, and comes by
    // here.
    let mut nodes = Vec::new();
    let mut here = |membership: &Weak<Membership>| {
        nodes.extend(membership.upgrade());
        // Memory of a node that has left is never used again.
        nodes.last().filter(|node| ptr::eq(Arc::as_ptr(node), membership.as_ptr()) && !node.has_left()).cloned()
    };
    let is_over = |retired: &mut Retired| {
        here(&retired.membership).is_none_or(|membership| {
            let is_same = retired.board.incarnation() == retired.incarnation;
            !is_same || retired.board.state() == State::Over || is_over(&membership, &retired.board)
        })
    };
    let retired: Vec<Retired> = lock(&RETIRED).extract_if(.., is_over).collect();
    let boards: Vec<_> = lock(&BOARDS).extract_if(.., |(membership, _)| here(membership).is_none()).collect();
    drop((retired, boards, nodes));
}

/// Memory for a board of `bytes`: that of a group that is over, or new. A node that came late to that group, and
/// stopped with its lock, would hold up everybody at the next one. One that has only read where the board is, and locks
/// it and stops later, still does: whoever joins is told at the deadline who holds the lock.
///
/// # Errors
/// `NoMemory`.
pub fn region(membership: &Arc<Membership>, bytes: usize) -> Result<Region> {
    let mut boards = lock(&BOARDS);
    let found = boards.iter().position(|(owner, region)| {
        let is_idle = || {
            let segment = membership.heap().segment();
            let board = Board::head(segment, membership.number(), region.offset());
            let is_held = |board: &Board| board.holder().is_some_and(|holder| membership.table().is_live(holder));
            board.is_ok_and(|board| board.state() == State::Over && !is_held(&board))
        };
        std::ptr::eq(owner.as_ptr(), Arc::as_ptr(membership)) && region.bytes() == bytes && is_idle()
    });
    match found {
        Some(index) => Ok(boards.swap_remove(index).1),
        None => membership.heap().region(bytes),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use deck_mudeck::{Door, Node};
    use deck_peers::Broker;
    use deck_sync::Deadline;

    use super::super::protocols::ahead::Ahead;
    use super::*;

    #[test]
    fn a_board_whose_lock_somebody_holds_who_came_late_is_not_used_for_another_group() {
        let broker = Broker::start("test", 2).unwrap();
        let [late, other] = [(); 2].map(|()| Node::join_by(Door::Invited(broker.invite().unwrap())).unwrap());
        let (here, bytes) = (other.membership(), Board::bytes(1, Ahead::NONE));
        let memory = region(here, bytes).unwrap();
        let place = memory.offset();
        let board = Board::at(here.heap().segment(), other.number(), place, 1, Ahead::NONE).unwrap();
        board.set_state(State::Over);
        let locked = board.lock(late.membership(), "x", Deadline::NOW).unwrap();
        keep_region(here, Some(memory));
        assert_ne!(region(here, bytes).unwrap().offset(), place);
        // The lock of a node that has left is taken over.
        late.leave().unwrap();
        assert_eq!(region(here, bytes).unwrap().offset(), place);
        drop(locked);
    }
}
