//! Long arrays in a program's own memory, which others read there: one copy, by the kernel, where memory that both map
//! takes two.
//!
//! A member tells the address of what it gives, with `ATTACHED`, and the others have the kernel read it
//! (`deck_segment::attach`); threads of its own node find it where it has laid it out for them (`neighbours`). As for
//! all that is read in place, a giver stays in the call until it has been read.
//!
//! A member may leave the call before that, at its deadline or because another one has died, and then the program does
//! with its array what it likes. So an [`Attachment`] says so first, in the place that was told: either it lies
//! somewhere else now, in a copy that the call keeps until it has ended, or nowhere. What was read from a place that is
//! no longer told does not count (`relocation`).

use std::sync::Arc;

use deck_peers::{Membership, Presence};
use deck_sync::{Shared, fork};

use super::board::Board;
use super::protocols::relocation;

/// The place of what could not be kept: there was no memory for a copy.
pub const NOT_KEPT: u64 = u64::MAX - 1;
/// The place of what lies nowhere any more: the call has ended for whoever gave it.
pub const GONE: u64 = u64::MAX;

/// What a member has told the others to read in its program's memory. When it is dropped nobody finds it any more.
pub struct Attachment {
    membership: Arc<Membership>,
    /// Where the member's thread is while it is in a call.
    presence: Arc<Presence>,
    board: Board,
    index: u32,
    phase: u64,
    copy: Option<Shared>,
}

impl Attachment {
    /// Of member `index`, told in `phase`, in a call.
    pub fn new(
        membership: Arc<Membership>,
        presence: Arc<Presence>,
        board: Board,
        index: u32,
        phase: u64,
    ) -> Attachment {
        Attachment { membership, presence, board, index, phase, copy: None }
    }

    /// The program gets its array back; from now on others read the copy. Without one they are told that there is
    /// nothing.
    pub fn give_back(&mut self, copy: Option<Shared>) {
        self.moved(copy.as_ref().map_or(NOT_KEPT, |copy| address((**copy).as_ref())));
        self.copy = copy;
    }

    /// The program has come back to the call, with its array, which is `whole` and as it was.
    pub fn resume(&mut self, whole: &[u8]) {
        if self.copy.is_none() {
            self.moved(address(whole));
        }
    }

    fn moved(&self, to: u64) {
        relocation::moved(self.board.place_said(self.index, self.phase), to);
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if fork::is_child() {
            return;
        }
        let is_inside = self.presence.is_inside();
        let pledge = if is_inside { None } else { self.membership.pledge() };
        if is_inside || pledge.is_some() {
            // After the call nobody reads the place any more, whatever it says.
            self.moved(GONE);
        } else {
            // The node has left: the board may be another group's by now. Whoever reads the copy just now finds out
            // only afterwards that this is no member any more.
            std::mem::forget(self.copy.take());
        }
    }
}

fn address(array: &[u8]) -> u64 {
    array.as_ptr().addr() as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use deck_mudeck::{Door, Node};
    use deck_peers::Broker;
    use deck_sync::atomic::Ordering;

    use super::super::protocols::ahead::Ahead;
    use super::*;

    #[test]
    fn what_is_dropped_after_its_node_has_left_says_nothing_on_a_board_that_may_be_another_groups() {
        let broker = Broker::start("test", 1).unwrap();
        let node = Node::join_by(Door::Invited(broker.invite().unwrap())).unwrap();
        let here = node.membership().clone();
        let memory = here.heap().region(Board::bytes(1, Ahead::NONE)).unwrap();
        let board = Board::at(here.heap().segment(), node.number(), memory.offset(), 1, Ahead::NONE).unwrap();
        for has_left in [false, true] {
            let attachment = Attachment::new(here.clone(), here.presence(), board.clone(), 0, 1);
            board.place_said(0, 1).store(7, Ordering::Relaxed);
            if has_left {
                node.clone().leave().unwrap();
            }
            drop(attachment);
            let says = board.place_said(0, 1).load(Ordering::Relaxed);
            assert_eq!(says, if has_left { 7 } else { GONE });
        }
    }
}
