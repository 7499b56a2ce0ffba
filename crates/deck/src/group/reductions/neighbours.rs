//! The members of a group that are threads of one node: where they lay out arrays for one another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use deck_peers::Membership;
use deck_sync::Shelf;
use deck_sync::locks::lock;

use super::super::board::Board;

/// A node of this process, and a group: the place of its board, and what tells it from the groups that had the board
/// before.
type Of = (usize, u32, usize, u64);

static SHELVES: Mutex<Option<HashMap<Of, Weak<Shelf>>>> = Mutex::new(None);

/// The shelf of all members that are threads of `membership` in the group of `board`, which is formed. It has a place
/// for each member of the group. It is there as long as one of them has it.
pub fn shelf(membership: &Arc<Membership>, board: &Board) -> Arc<Shelf> {
    let of = (Arc::as_ptr(membership).addr(), board.owner.0, board.offset, board.incarnation());
    let mut shelves = lock(&SHELVES);
    let shelves = shelves.get_or_insert_default();
    if let Some(shelf) = shelves.get(&of).and_then(Weak::upgrade) {
        return shelf;
    }
    shelves.retain(|_, shelf| shelf.strong_count() > 0);
    let shelf = Arc::new(Shelf::new(board.members() as usize));
    shelves.insert(of, Arc::downgrade(&shelf));
    shelf
}
