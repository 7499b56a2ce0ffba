//! The members of a group by nodes, where those of each node stand one behind the other: its *teams*.
//!
//! Threads of a node read one another's arrays where they lie. Those that are on one node from index *a* to *b* can
//! fold what they give before others take it, and the order of folding stays that of the indexes.

use std::ops::Range;

use deck_sync::NodeId;

/// The teams of a group, in the order of indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Teams {
    ranges: Vec<Range<u32>>,
    own: usize,
}

impl Teams {
    /// Those of the members on `nodes`, for member `index`. `None` if members of a node stand apart, or teams have
    /// fewer than two members on average: then too few arrays are read where they lie.
    pub fn of(nodes: &[NodeId], index: u32) -> Option<Teams> {
        let (mut ranges, mut seen) = (Vec::new(), Vec::new());
        for team in nodes.chunk_by(|one, next| one == next) {
            if seen.contains(&team[0]) || 2 * (ranges.len() + 1) > nodes.len() {
                return None;
            }
            seen.push(team[0]);
            let begin = ranges.last().map_or(0, |last: &Range<u32>| last.end);
            ranges.push(begin..begin + team.len() as u32);
        }
        let own = ranges.iter().position(|range| range.contains(&index))?;
        Some(Teams::at(ranges, own))
    }

    /// Those that stand one behind the other at these indexes, for a member of team `own`.
    pub fn at(ranges: Vec<Range<u32>>, own: usize) -> Teams {
        Teams { ranges, own }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// The one of this member, counted from 0.
    pub fn own(&self) -> usize {
        self.own
    }

    /// The one of member `index`.
    pub fn of_member(&self, index: u32) -> usize {
        self.ranges.partition_point(|range| range.end <= index)
    }

    /// The indexes of team `number`.
    pub fn members(&self, number: usize) -> Range<u32> {
        self.ranges[number].clone()
    }

    /// How many members each has.
    pub fn sizes(&self) -> impl Iterator<Item = usize> {
        self.ranges.iter().map(Range::len)
    }

    /// Those of the team before that of member `index` who make what it goes on with, and those of the team after it
    /// who go on with what it makes. Where teams are of the same size, that is one each: their shares of a piece are
    /// the same.
    pub fn beside(&self, index: u32) -> [Range<u32>; 2] {
        let of = self.of_member(index);
        let own = self.members(of);
        [of.checked_sub(1), Some(of + 1)].map(|beside| match beside.and_then(|beside| self.ranges.get(beside)) {
            Some(team) if team.len() == own.len() => {
                let same = team.start + (index - own.start);
                same..same + 1
            }
            Some(team) => team.clone(),
            None => 0..0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nodes: &[u32], index: u32) -> Option<Teams> {
        Teams::of(&nodes.iter().map(|node| NodeId(*node)).collect::<Vec<_>>(), index)
    }

    #[test]
    fn a_member_goes_on_with_one_share_where_teams_are_of_the_same_size() {
        let beside = |ranges: &[Range<u32>], index| Teams::at(ranges.to_vec(), 0).beside(index);
        assert_eq!([0, 3].map(|index| beside(&[0..2, 2..4], index)), [[0..0, 2..3], [1..2, 0..0]]);
        assert_eq!(
            [1, 4, 5].map(|index| beside(&[0..2, 2..5, 5..6], index)),
            [[0..0, 2..5], [0..2, 5..6], [2..5, 0..0]]
        );
        assert!(Teams::at(vec![0..2, 2..5, 5..6], 0).sizes().eq([2, 3, 1]));
    }

    #[test]
    fn teams_are_the_members_of_a_node_one_behind_the_other() {
        let one = of(&[3, 3, 3], 1).unwrap();
        assert_eq!((one.count(), one.own(), one.members(0)), (1, 0, 0..3));
        assert_eq!(of(&[3, 3, 1, 1, 1], 4), Some(Teams { ranges: vec![0..2, 2..5], own: 1 }));
        assert_eq!(of(&[3, 1, 1, 1], 0), Some(Teams { ranges: vec![0..1, 1..4], own: 0 }));
        for apart in [&[1, 2, 1, 2][..], &[1, 1, 2, 2, 1], &[1, 2, 3, 3], &[1, 2], &[1]] {
            assert_eq!(of(apart, 0), None, "{apart:?}");
        }
    }
}
