//! Segments that hardly fit: node after node is filled so that no more room stays free than all nodes together have to
//! spare.
//!
//! Source: bin completion (R. Korf, "An Improved Algorithm for Optimal Bin Packing", 2003; A. Fukunaga and R. Korf,
//! "Bin Completion Algorithms for Multicontainer Packing, Knapsack, and Covering Problems", 2007), with restarts: each
//! with twice the visits and the nodes in another order (C. Gomes, B. Selman, H. Kautz, "Boosting Combinatorial Search
//! Through Randomization", 1998).

use super::limits::less;
use super::random::Random;
use crate::model::UNLIMITED;

/// Steps of the first try: segments that are looked at.
const FIRST_TRY: u64 = 1_000_000;
/// Between two questions whether to go on.
const ASK_EVERY: u64 = 1 << 18;
/// More segments and nodes are not tried: the search goes as deep as there are of both, and each node keeps what is
/// left for it.
const DEEPEST: usize = 4_000;
const MOST_PAIRS: usize = 1_000_000;

/// A node that is to be filled.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Its number.
    pub node: u32,
    /// Bytes that are free, or [`UNLIMITED`].
    pub bytes: u64,
    /// Segments that it takes, or [`UNLIMITED`].
    pub slots: u64,
}

/// What was found out.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// The node of each segment.
    Fits(Vec<u32>),
    /// There is no way.
    Cannot,
    /// Neither was found out.
    Unknown,
}

/// Puts segments of these sizes into `rooms`. Goes on until it is known whether they fit, `most` steps are made, or
/// `go_on` says no.
pub fn fill(bytes: &[u64], rooms: &[Room], most: Option<u64>, go_on: &mut dyn FnMut() -> bool) -> Outcome {
    if bytes.len() + rooms.len() > DEEPEST || bytes.len() * rooms.len() > MOST_PAIRS {
        return Outcome::Unknown;
    }
    let mut rooms = rooms.to_vec();
    // The smallest leave least choice. What takes anything takes what is left.
    rooms.sort_by_key(|room| (room.bytes, room.node));
    let limited = rooms.iter().take_while(|room| room.bytes != UNLIMITED).count();
    let mut random = Random::new(0);
    let (mut left, mut limit) = (most.unwrap_or(u64::MAX), FIRST_TRY);
    loop {
        limit = limit.min(left);
        let mut filling = Filling::new(bytes, &rooms, limit, go_on);
        match filling.node(0, filling.spare()) {
            Step::Done => return Outcome::Fits(filling.at.iter().map(|at| rooms[*at].node).collect()),
            Step::Impossible => return Outcome::Cannot,
            Step::Ended if filling.is_stopped => return Outcome::Unknown,
            Step::Ended => left -= limit,
        }
        if left == 0 {
            return Outcome::Unknown;
        }
        limit = limit.saturating_mul(2);
        random.shuffle(&mut rooms[..limited]);
    }
}

#[derive(PartialEq)]
enum Step {
    Done,
    Impossible,
    Ended,
}

const NOWHERE: usize = usize::MAX;

struct Filling<'a> {
    bytes: &'a [u64],
    rooms: &'a [Room],
    /// Segments, the largest first.
    order: Vec<usize>,
    /// Where each segment is, as an index of `rooms`.
    at: Vec<usize>,
    left: u64,
    /// Steps since `go_on` was asked.
    unasked: u64,
    is_stopped: bool,
    go_on: &'a mut dyn FnMut() -> bool,
}

/// What is not placed yet when it is a node's turn, the largest first, and the bytes of each and all behind it.
struct Loose {
    segments: Vec<usize>,
    bytes_from: Vec<u128>,
}

impl<'a> Filling<'a> {
    fn new(bytes: &'a [u64], rooms: &'a [Room], limit: u64, go_on: &'a mut dyn FnMut() -> bool) -> Filling<'a> {
        let mut order: Vec<usize> = (0..bytes.len()).collect();
        order.sort_by_key(|&segment| std::cmp::Reverse(bytes[segment]));
        Filling {
            bytes,
            rooms,
            order,
            at: vec![NOWHERE; bytes.len()],
            left: limit,
            unasked: 0,
            is_stopped: false,
            go_on,
        }
    }

    /// Bytes that may stay free in all nodes together; `None` if one takes anything.
    fn spare(&self) -> Option<u128> {
        let room: Option<u128> =
            self.rooms.iter().map(|room| (room.bytes != UNLIMITED).then_some(u128::from(room.bytes))).sum();
        room.map(|room| room.saturating_sub(self.bytes.iter().map(|&bytes| u128::from(bytes)).sum()))
    }

    /// Fills node `number` and those behind it.
    fn node(&mut self, number: usize, spare: Option<u128>) -> Step {
        let segments: Vec<usize> = self.order.iter().copied().filter(|&segment| self.at[segment] == NOWHERE).collect();
        if segments.is_empty() {
            return Step::Done;
        }
        if self.step(self.order.len()) {
            return Step::Ended;
        }
        let slots = self.rooms[number..].iter().fold(0u64, |sum, room| sum.saturating_add(room.slots));
        if slots < segments.len() as u64 {
            return Step::Impossible;
        }
        let mut bytes_from = vec![0; segments.len() + 1];
        for (index, &segment) in segments.iter().enumerate().rev() {
            bytes_from[index] = bytes_from[index + 1] + u128::from(self.bytes[segment]);
        }
        let Room { bytes, slots, .. } = self.rooms[number];
        self.segment(number, &Loose { segments, bytes_from }, 0, bytes, slots, spare)
    }

    /// Decides on the loose segments from `from` on, as long as `room` bytes and `slots` are left in the node.
    fn segment(
        &mut self,
        number: usize,
        loose: &Loose,
        mut from: usize,
        room: u64,
        slots: u64,
        spare: Option<u128>,
    ) -> Step {
        while slots > 0 && from < loose.segments.len() {
            // Whatever comes, more would stay free than may.
            if spare.is_some_and(|spare| loose.bytes_from[from] + spare < u128::from(room)) {
                return Step::Impossible;
            }
            let segment = loose.segments[from];
            let bytes = self.bytes[segment];
            if bytes > room {
                from += 1;
                continue;
            }
            if self.step(1) {
                return Step::Ended;
            }
            self.at[segment] = number;
            match self.segment(number, loose, from + 1, less(room, bytes), less(slots, 1), spare) {
                Step::Impossible => self.at[segment] = NOWHERE,
                other => return other,
            }
            // Without it: others of its size are no better.
            while from < loose.segments.len() && self.bytes[loose.segments[from]] == bytes {
                from += 1;
            }
        }
        if self.step(loose.segments.len()) {
            return Step::Ended;
        }
        // What could still be taken would be in the way elsewhere.
        let could_take = |&segment: &usize| self.at[segment] == NOWHERE && self.bytes[segment] <= room;
        if slots > 0 && loose.segments.iter().any(could_take) {
            return Step::Impossible;
        }
        match spare {
            Some(spare) if u128::from(room) > spare => Step::Impossible,
            _ if number + 1 == self.rooms.len() => self.all_are_placed(),
            Some(spare) => self.node(number + 1, Some(spare - u128::from(room))),
            None => self.node(number + 1, None),
        }
    }

    fn all_are_placed(&self) -> Step {
        if self.at.contains(&NOWHERE) { Step::Impossible } else { Step::Done }
    }

    /// So many segments are looked at. True if this is enough.
    fn step(&mut self, segments: usize) -> bool {
        self.left = self.left.saturating_sub(segments as u64);
        self.unasked += segments as u64;
        if self.unasked >= ASK_EVERY || self.left == 0 {
            self.unasked = 0;
            self.is_stopped = !(self.go_on)();
        }
        self.is_stopped || self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rooms(limits: &[(u64, u64)]) -> Vec<Room> {
        let room = |(node, &(bytes, slots))| Room { node, bytes, slots };
        (0..).zip(limits).map(room).collect()
    }

    fn is_packing(bytes: &[u64], rooms: &[Room], at: &[u32]) -> bool {
        rooms.iter().all(|room| {
            let here = || bytes.iter().zip(at).filter(|(_, at)| **at == room.node);
            here().map(|(bytes, _)| bytes).sum::<u64>() <= room.bytes && here().count() as u64 <= room.slots
        })
    }

    #[test]
    fn what_fits_without_a_byte_to_spare_is_found() {
        for (nodes, each) in [(4, 4), (4, 8), (8, 4), (8, 6)] {
            let mut random = Random::new(nodes * 100 + each);
            let (mut bytes, mut limits) = (Vec::new(), Vec::new());
            for _ in 0..nodes {
                let parts: Vec<u64> = (0..each).map(|_| 100 + random.below(901) as u64).collect();
                limits.push((parts.iter().sum(), UNLIMITED));
                bytes.extend(parts);
            }
            random.shuffle(&mut bytes);
            let rooms = rooms(&limits);
            match fill(&bytes, &rooms, None, &mut || true) {
                Outcome::Fits(at) => assert!(is_packing(&bytes, &rooms, &at)),
                other => panic!("{nodes} nodes, {each} each: {other:?}"),
            }
        }
    }

    #[test]
    fn a_search_that_is_to_stop_stops() {
        // Nine bytes of each node are of no use, and without them there is room for ten bytes too few.
        let bytes: Vec<u64> = (0..60).map(|number| 10 * (100 + number)).collect();
        let rooms = rooms(&[12_949, 12_949, 12_949, 12_949, 12_949, 12_999].map(|bytes| (bytes, UNLIMITED)));
        assert_eq!(fill(&bytes, &rooms, None, &mut || false), Outcome::Unknown);
        assert_eq!(fill(&bytes, &rooms, Some(1), &mut || true), Outcome::Unknown);
    }

    fn limit(most: u64) -> impl Strategy<Value = u64> {
        prop_oneof![4 => 0..most, 1 => Just(UNLIMITED)]
    }

    fn exists(bytes: &[u64], rooms: &mut [Room]) -> bool {
        let Some((&first, rest)) = bytes.split_first() else { return true };
        (0..rooms.len()).any(|node| {
            let before = rooms[node];
            if before.bytes < first || before.slots == 0 {
                return false;
            }
            rooms[node].bytes = less(rooms[node].bytes, first);
            rooms[node].slots = less(rooms[node].slots, 1);
            let is_there = exists(rest, rooms);
            rooms[node] = before;
            is_there
        })
    }

    proptest! {
        #[test]
        fn it_says_what_trying_everything_says(
            bytes in proptest::collection::vec(0u64..12, 0..8),
            limits in proptest::collection::vec((limit(30), limit(5)), 1..4),
        ) {
            let rooms = rooms(&limits);
            match fill(&bytes, &rooms, None, &mut || true) {
                Outcome::Fits(at) => prop_assert!(is_packing(&bytes, &rooms, &at)),
                Outcome::Cannot => prop_assert!(!exists(&bytes, &mut rooms.clone())),
                Outcome::Unknown => prop_assert!(false, "it was not stopped"),
            }
        }
    }
}
