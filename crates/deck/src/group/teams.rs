//! The members of a group by nodes, where those of each node stand one behind the other: its *teams*.
//!
//! Threads of a node read one another's arrays where they lie. Those that are on one node from index *a* to *b* can fold what they give
//! before others take it, and the order of folding stays that of the indexes.

use std::ops::Range;

use deck_mudeck::NodeId;

/// The teams of a group, in the order of indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Teams {
    ranges: Vec<Range<u32>>,
    own: usize,
}

impl Teams {
    /// Those of the members on `nodes`, for member `index`. `None` if members of a node stand apart, or teams have fewer than two members on
    /// average: then too few arrays are read where they lie.
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
        Some(Teams { ranges, own })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// The one of this member, counted from 0.
    pub fn own(&self) -> usize {
        self.own
    }

    /// The indexes of team `number`.
    pub fn members(&self, number: usize) -> Range<u32> {
        self.ranges[number].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nodes: &[u32], index: u32) -> Option<Teams> {
        Teams::of(&nodes.iter().map(|node| NodeId(*node)).collect::<Vec<_>>(), index)
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
