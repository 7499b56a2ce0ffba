//! Which algorithm carries a collective: all choices by kind, bytes and members, the same in every member.
//!
//! All of them are made of *rounds*. In a round each member that has something to give puts it where all can read it (in
//! its line of the board, in memory beside it, or it lies there already), all meet once, and each reads what it needs
//! straight from whoever gave it, with no member in the middle.
//!
//! * **Direct**: one round for each piece. Whoever needs a reduction folds all contributions itself: with few bytes that
//!   costs less than meeting twice.
//! * **Shared work** (reductions of many bytes): two rounds for each piece. Each member folds one block of the piece over
//!   all members (a reduce-scatter), and in the second round the blocks are collected (an allgather), as Rabenseifner (2004)
//!   does it with messages; here every block is read where it was made.
//! * **In place**: long blocks that lie in library memory are not copied to be given. Where that holds for all that is
//!   given, pieces are large; one more round keeps everybody until all have read.
//!
//! The order of folding is that of the indexes in all, for every element: the bits do not depend on the choice.

use super::call::Kind;

/// The most bytes that one of two members has in a piece: while one reads, the other writes the next, and the first and the last
/// piece are what nobody overlaps.
const PIECE_OF_TWO: usize = 64 << 10;
/// The most bytes that one of more members has in a piece. Of these some may share a core, and a round costs each a switch.
const PIECE_MAX: usize = 512 << 10;
/// The least: below, rounds cost more than memory is worth.
const PIECE_MIN: usize = 16 << 10;
/// Bytes that all members together have in a piece, as far as the bounds above allow: about what caches hold.
const PIECES_TOGETHER: usize = 2 << 20;
/// Reductions of more bytes share the work, if there are so many to share it: of two, one folds while the other gives.
const SHARED_FROM: usize = 16 << 10;
const SHARED_BY: usize = 3;
/// What is longer is read in place if it can be: below, copying costs less than one more round.
const IN_PLACE_FROM: usize = 16 << 10;
/// The most bytes of a piece whose inputs are read in place: results of shared work still need memory.
const IN_PLACE_PIECE: usize = 4 << 20;
/// With more members than these, the threads of a node count themselves before they tell the other nodes.
const ALONE_UP_TO: usize = 16;

/// How a collective is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The most bytes of one block in a round: a multiple of 64.
    pub piece: usize,
    /// The same where all that is given is read in place.
    pub piece_in_place: usize,
    /// True for two rounds for each piece.
    pub is_shared: bool,
    /// True if what lies in library memory is read there.
    pub may_be_in_place: bool,
}

/// Chooses for `bytes` in a block (the same in every member; without meaning for the kinds with counts) of `members`.
pub fn choose(kind: Kind, bytes: usize, members: usize) -> Choice {
    let most = if members <= 2 { PIECE_OF_TWO } else { PIECE_MAX };
    let contribution = (PIECES_TOGETHER / members).clamp(PIECE_MIN, most);
    let piece = if kind.gives_parts() { (contribution / members).max(64) } else { contribution };
    let is_shared = kind.is_reduction() && members >= SHARED_BY && bytes > SHARED_FROM;
    Choice {
        piece: piece / 64 * 64,
        piece_in_place: if is_shared { IN_PLACE_PIECE } else { usize::MAX / 64 * 64 },
        is_shared,
        may_be_in_place: bytes > IN_PLACE_FROM && members > 1 && !kind.has_counts(),
    }
}

/// Do the threads of a node meet among themselves first?
pub fn counts_parties(members: usize) -> bool {
    members > ALONE_UP_TO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_elements_and_memory_is_bounded() {
        for members in [1, 2, 3, 7, 64, 1000, 1024] {
            for kind in [Kind::Bcast, Kind::Alltoall, Kind::Allreduce, Kind::Scatterv] {
                let choice = choose(kind, 1 << 30, members);
                assert!(choice.piece >= 64 && choice.piece.is_multiple_of(64));
                let contribution = if kind.gives_parts() { choice.piece * members } else { choice.piece };
                assert!(contribution <= PIECE_MAX.max(64 * members), "{kind:?} of {members}: {contribution}");
            }
        }
    }

    #[test]
    fn only_large_reductions_of_many_share_the_work() {
        assert!(!choose(Kind::Allreduce, 8, 4).is_shared);
        assert!(!choose(Kind::Allreduce, 4096, 4).is_shared);
        assert!(choose(Kind::Allreduce, 1 << 20, 4).is_shared);
        assert!(!choose(Kind::Allreduce, 1 << 20, 2).is_shared);
        assert!(!choose(Kind::Bcast, 1 << 20, 4).is_shared);
    }
}
