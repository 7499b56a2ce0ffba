//! Which algorithm carries a collective: all choices by kind, bytes and members, the same in every member.
//!
//! All of them are made of *rounds*. In a round each member that has something to give puts it where all can read it
//! (in its line of the board, in memory beside it, or it lies there already), all meet once, and each reads what it
//! needs straight from whoever gave it, with no member in the middle.
//!
//! * **Direct**: one round. Whoever needs a reduction folds all contributions itself: with few bytes that costs less
//!   than meeting twice. Most are made in one go (`is_direct`, `member/direct`).
//! * **Once** (reductions of some KiB to all, where members share cores): one round; members that have a core fold
//!   parts for all who come later (`once`).
//! * **Flow** (what is longer than a piece): after one round pieces flow, with no meeting for each (`flow`).
//! * **Shared work** (reductions of many bytes): two rounds for each piece. Each member folds one block of the piece
//!   over all members (a reduce-scatter), and in the second round the blocks are collected (an allgather), as
//!   Rabenseifner (2004) does it with messages; here every block is read where it was made.
//! * **Relay** (the same where members are threads of few nodes): the threads of a node read one another's arrays where
//!   they lie, and fold theirs before the next node goes on with what they have; pieces flow from node to node
//!   (`relay`).
//! * **Ahead** (few bytes with one root, and scans, where members do not wait for everybody): one round, in which each
//!   waits only for those from whom it takes (`ahead`).
//! * **In place**: long blocks that lie in library memory are not copied to be given. Where that holds for all that is
//!   given, there is one piece. Givers stay until they have been read: what is longer than a piece is counted (`flow`),
//!   for all else there is one more round.
//!
//! The order of folding is that of the indexes in all, for every element: the bits do not depend on the choice.

use deck_segment::content::STREAM_FROM;

use super::call::Kind;
use super::progress::share_of;
use super::room;

/// The most bytes that a member has in a piece: while others read it, it writes the next.
const PIECE_MAX: usize = 64 << 10;
/// The same where work is shared, or more than two members all meet after each piece (some may share a core, and a
/// meeting costs each a switch), or have a part each in it: short parts are read slowly from far apart.
const LARGE_MAX: usize = 512 << 10;
/// The least: below, pieces cost more than memory is worth.
const PIECE_MIN: usize = 16 << 10;
/// Bytes that all members together have in a piece, as far as the bounds above allow: about what caches hold.
const PIECES_TOGETHER: usize = 2 << 20;
/// The most bytes of a window: twice what the caches of a core hold (`room` tells why). It has four pieces at least.
const WINDOW_MAX: usize = 2 << 20;
/// Windows of all members together where all give at the same time, and where one does after the other.
const WINDOWS_TOGETHER: usize = 4 << 20;
const WINDOWS_IN_TURN: usize = 32 << 20;
/// The same where all give to one: the root of the next call takes what it can while that of this call does, so the
/// others are to have room for both.
const WINDOWS_TO_ONE: usize = 16 << 20;
/// A block of so many bytes is one piece, whatever the kind, and pieces of longer ones are multiples of this: a line.
const SHORT: usize = 64;
/// Reductions of more bytes share the work among more than two.
const SHARED_FROM: usize = 16 << 10;
/// Two share it where both want the result, from here on: half as much then still goes round the larger memory
/// (`room`). Where one of them wants it, that one folds while the other gives.
const SHARED_BY_TWO_FROM: usize = 2 * room::LONG;
/// Reductions that go from team to team are as many pieces as keep all teams busy most of the time, of so many bytes.
const RELAY_PIECES: usize = 8;
/// From so many bytes of all members together on. Of less, what all give stays in the caches though it is copied.
const RELAY_FROM: usize = 2 << 20;
const RELAY_PIECE_MIN: usize = 16 << 10;
/// What is longer is read in place if it can be: below, copying costs less than one more round.
const IN_PLACE_FROM: usize = 16 << 10;
/// The most bytes of a piece whose inputs are read in place: results of shared work still need memory.
const IN_PLACE_PIECE: usize = 4 << 20;
/// The most bytes of a contribution with which a member goes ahead of others.
const AHEAD_UP_TO: usize = 64 << 10;
/// What is longer is folded by one for all, where members share cores: below, to look for that takes as long.
const ONCE_FROM: usize = 256;
/// Bytes of a part of it, and how many parts there are at most: as many cores can work on it.
const ONCE_PART: usize = 1 << 10;
pub const ONCE_PARTS: u32 = 4;
/// With more members than these, the threads of a node count themselves before they tell the other nodes.
const ALONE_UP_TO: usize = 16;

/// How a collective is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The most bytes of one block in a piece: a multiple of 64.
    pub piece: usize,
    /// The same where all that is given is read in place.
    pub piece_in_place: usize,
    /// True for two rounds for each piece.
    pub is_shared: bool,
    /// True if what lies in library memory is read there.
    pub may_be_in_place: bool,
    /// Pieces flow: so lie those that a member has given last.
    pub flow: Option<Layout>,
}

/// A window: where the pieces of a member lie that others have not taken yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a piece, of all blocks in it.
    pub slot: usize,
    /// How many pieces there are.
    pub slots: u64,
}

/// Chooses for `bytes` in a block (the same in every member; without meaning for the kinds with counts) of `members`.
pub fn choose(kind: Kind, bytes: usize, members: usize) -> Choice {
    if bytes <= SHORT && !kind.has_counts() {
        let whole = usize::MAX / SHORT * SHORT;
        return Choice { piece: SHORT, piece_in_place: whole, is_shared: false, may_be_in_place: false, flow: None };
    }
    let is_shared = match members {
        2 => kind == Kind::Allreduce && bytes >= SHARED_BY_TWO_FROM,
        _ => kind.is_reduction() && members > 2 && bytes > SHARED_FROM,
    };
    let all_meet = is_shared || kind.has_counts() || kind == Kind::Barrier || members == 1;
    let is_large = is_shared || members > 2 && (all_meet || kind.gives_parts());
    let most = if is_large { LARGE_MAX } else { PIECE_MAX };
    let contribution = (PIECES_TOGETHER / members).clamp(PIECE_MIN, most);
    let blocks = kind.blocks(members);
    let piece = (contribution / blocks).max(SHORT) / SHORT * SHORT;
    let together = match kind {
        Kind::Bcast | Kind::Scatter => WINDOWS_IN_TURN,
        Kind::Gather => WINDOWS_TO_ONE,
        _ => WINDOWS_TOGETHER,
    };
    let slot = piece * blocks;
    let slots = ((together / members).min(WINDOW_MAX) / slot).max(4) as u64;
    Choice {
        piece,
        piece_in_place: if is_shared { IN_PLACE_PIECE } else { usize::MAX / SHORT * SHORT },
        is_shared,
        may_be_in_place: may_be_in_place(kind, bytes, members),
        flow: (!all_meet && bytes > piece).then_some(Layout { slot, slots }),
    }
}

/// Bytes of a piece of a reduction of `bytes` that goes from team to team; `None` if it does not: it is short, or there
/// are more teams than pieces, so that most would wait most of the time. One team alone needs no pieces but for memory:
/// in a scan each member gives as many rows as there are members.
pub fn relay_piece(kind: Kind, bytes: usize, members: usize, teams: usize) -> Option<usize> {
    let piece = match teams {
        1 if kind == Kind::Scan => (IN_PLACE_PIECE / members).max(PIECE_MAX).min(bytes),
        1 => IN_PLACE_PIECE.min(bytes),
        _ => (bytes / RELAY_PIECES).clamp(RELAY_PIECE_MIN, LARGE_MAX),
    };
    let piece = piece.max(SHORT).next_multiple_of(SHORT);
    let is_worth_it = teams == 1 || bytes.saturating_mul(members) >= RELAY_FROM;
    (is_worth_it && bytes.div_ceil(piece) >= teams).then_some(piece)
}

/// Bytes of a slot in the window of a member of a team of so many, for a reduction that goes from team to team in
/// pieces of `piece`: its share of one, and in a scan one for each of the team.
pub fn relay_slot(kind: Kind, piece: usize, team: usize) -> usize {
    let share = share_of(0, piece, team as u32).len();
    if kind == Kind::Scan { team * share } else { share }
}

/// How many slots each of `members` has if the largest are of so many bytes.
pub fn relay_slots(members: usize, largest: usize) -> u64 {
    ((WINDOWS_TOGETHER / members).min(WINDOW_MAX) / largest).max(2) as u64
}

fn may_be_in_place(kind: Kind, bytes: usize, members: usize) -> bool {
    bytes > IN_PLACE_FROM && members > 1 && !kind.has_counts()
}

/// May what is given be read in the program's own memory? Reductions read their inputs by pieces, which costs more than
/// a copy.
pub fn may_be_attached(kind: Kind, bytes: usize, members: usize) -> bool {
    may_be_in_place(kind, bytes, members) && !kind.is_reduction()
}

/// Need a member not wait for everybody, where that is what the group has agreed on? Then the call is one round.
pub fn may_be_ahead(kind: Kind, bytes: usize, members: usize) -> bool {
    let blocks = kind.blocks(members);
    let has_sources = kind == Kind::Scan || (kind.has_root() && !kind.has_counts());
    has_sources && bytes <= IN_PLACE_FROM && bytes * blocks <= AHEAD_UP_TO && {
        let choice = choose(kind, bytes, members);
        bytes <= choice.piece && !choice.is_shared
    }
}

/// Is the call one round, in which all is copied once to be given?
#[inline]
pub fn is_direct(kind: Kind, bytes: usize, members: usize) -> bool {
    let blocks = kind.blocks(members);
    if kind.has_counts() || bytes > STREAM_FROM {
        return false;
    }
    // Asked before each call: so little is one piece, which is whole lines, whatever else there is to choose.
    bytes.next_multiple_of(SHORT) * blocks <= PIECE_MIN || {
        let choice = choose(kind, bytes, members);
        bytes <= choice.piece && !choice.is_shared && !choice.may_be_in_place && choice.flow.is_none()
    }
}

/// In how many parts, each of which one member folds for all (`once`), where members share cores. Of two each has half
/// the inputs itself.
#[inline]
pub fn once_parts(kind: Kind, bytes: usize, members: usize) -> u32 {
    let may_be = kind == Kind::Allreduce && bytes > ONCE_FROM && members > 2;
    if may_be { (bytes / ONCE_PART).clamp(1, ONCE_PARTS as usize) as u32 } else { 0 }
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
                let contribution = choice.piece * kind.blocks(members);
                assert!(contribution <= LARGE_MAX.max(64 * members), "{kind:?} of {members}: {contribution}");
            }
        }
    }

    #[test]
    fn only_large_reductions_share_the_work() {
        assert!(!choose(Kind::Allreduce, 8, 4).is_shared);
        assert!(!choose(Kind::Allreduce, 4096, 4).is_shared);
        assert!(choose(Kind::Allreduce, 1 << 20, 4).is_shared);
        assert!(choose(Kind::Allreduce, 1 << 20, 2).is_shared);
        assert!(!choose(Kind::Allreduce, 64 << 10, 2).is_shared);
        assert!(!choose(Kind::Reduce, 1 << 20, 2).is_shared);
        assert!(!choose(Kind::Scan, 1 << 20, 2).is_shared);
        assert!(!choose(Kind::Allreduce, 1 << 20, 1).is_shared);
        assert!(!choose(Kind::Bcast, 1 << 20, 4).is_shared);
    }

    #[test]
    fn members_are_ahead_in_calls_of_one_round_only() {
        for (kind, bytes, members, expected) in [
            (Kind::Bcast, 8, 2, true),
            (Kind::Bcast, 16 << 10, 1024, true),
            (Kind::Bcast, (16 << 10) + 1, 2, false),
            (Kind::Scatter, 4096, 16, true),
            (Kind::Scatter, 4096, 17, false),
            (Kind::Reduce, 16 << 10, 8, true),
            (Kind::Scan, 64, 8, true),
            (Kind::Allreduce, 8, 2, false),
            (Kind::Gatherv, 8, 2, false),
            (Kind::Barrier, 0, 2, false),
        ] {
            assert_eq!(may_be_ahead(kind, bytes, members), expected, "{kind:?} of {bytes} bytes, {members} members");
        }
        for kind in Kind::ALL {
            let few = (0..=20_000)
                .step_by(500)
                .chain([STREAM_FROM])
                .flat_map(|bytes| [1, 2, 3, 9, 1000].map(|of| (bytes, of)));
            let many = (0..=260).flat_map(|bytes| (100..=260).map(move |of| (bytes, of)));
            for (bytes, members) in few.chain(many) {
                let choice = choose(kind, bytes, members);
                let is_one_round =
                    !choice.is_shared && !choice.may_be_in_place && choice.flow.is_none() && bytes <= choice.piece;
                let what = format!("{kind:?} of {bytes} bytes, {members} members");
                assert!(is_one_round || !may_be_ahead(kind, bytes, members), "{what}");
                let is_short = bytes <= STREAM_FROM && !kind.has_counts();
                assert_eq!(is_direct(kind, bytes, members), is_one_round && is_short, "{what}");
            }
        }
    }

    #[test]
    fn what_is_longer_than_a_piece_flows_unless_all_meet() {
        assert_eq!(choose(Kind::Bcast, PIECE_MAX, 2).flow, None);
        for kind in [Kind::Bcast, Kind::Scatter, Kind::Gather, Kind::Alltoall] {
            for members in [2, 8, 1024] {
                let Layout { slot, slots } = choose(kind, 1 << 20, members).flow.unwrap();
                assert!(slots >= 4 && slot * slots as usize <= WINDOW_MAX.max(4 * slot), "{kind:?} of {members}");
            }
        }
        assert_eq!(choose(Kind::Allreduce, 1 << 20, 3).flow, None);
        assert_eq!(choose(Kind::Scatterv, 1 << 20, 2).flow, None);
        assert_eq!(choose(Kind::Bcast, 1 << 20, 1).flow, None);
    }

    #[test]
    fn windows_of_teams_of_any_sizes_are_together_about_as_long_as_a_few_pieces_of_each() {
        for sizes in [&[4, 4][..], &[1, 63], &[4, 12], &[1, 1023], &[1000]] {
            let members = sizes.iter().sum();
            for kind in [Kind::Reduce, Kind::Allreduce, Kind::Scan] {
                let piece = relay_piece(kind, 64 << 20, members, sizes.len()).unwrap();
                let slots: Vec<usize> = sizes.iter().map(|team| relay_slot(kind, piece, *team)).collect();
                let count = relay_slots(members, *slots.iter().max().unwrap()) as usize;
                let together: usize = sizes.iter().zip(&slots).map(|(team, slot)| team * slot * count).sum();
                let rows = if kind == Kind::Scan { members } else { sizes.len() };
                let most = WINDOWS_TOGETHER + 2 * rows * piece + 2 * SHORT * members * members;
                assert!(together <= most, "{kind:?} of {sizes:?}: {together} bytes");
            }
        }
    }

    #[test]
    fn reductions_go_from_node_to_node_if_all_give_much_and_there_are_pieces_for_all() {
        let goes = |bytes, members, teams| relay_piece(Kind::Allreduce, bytes, members, teams).is_some();
        assert_eq!([64 << 10, 256 << 10, 512 << 10].map(|bytes| goes(bytes, 4, 2)), [false, false, true]);
        assert_eq!([128 << 10, 256 << 10].map(|bytes| goes(bytes, 8, 2)), [false, true]);
        assert!(goes(20 << 10, 4, 1) && !goes(256 << 10, 80, 40));
    }
}
