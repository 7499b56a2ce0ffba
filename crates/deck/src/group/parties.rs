//! Which members of a group meet among themselves first: the threads of a node, in a large group.

use deck_mudeck::NodeId;

use super::choose::counts_parties;

/// How the members of a group are divided.
pub struct Parties {
    /// The first member of each party; `None` if each member is one.
    pub firsts: Option<Vec<u32>>,
    /// This member's party, and how many are in it.
    pub own: usize,
    pub members: u64,
}

impl Parties {
    /// Each member is a party, also member `index`.
    pub fn none(index: u32) -> Parties {
        Parties { firsts: None, own: index as usize, members: 1 }
    }

    /// Those of the members on `nodes`, for member `index`.
    pub fn of(nodes: &[NodeId], index: u32) -> Parties {
        if !counts_parties(nodes.len()) {
            return Parties::none(index);
        }
        let mine = nodes[index as usize];
        let is_first = |index: &usize| !nodes[..*index].contains(&nodes[*index]);
        let firsts: Vec<u32> = (0..nodes.len()).filter(is_first).map(|index| index as u32).collect();
        let own = firsts.iter().position(|first| nodes[*first as usize] == mine).unwrap_or(0);
        let members = nodes.iter().filter(|node| **node == mine).count() as u64;
        Parties { firsts: Some(firsts), own, members }
    }
}
