//! Ways to exchange nodes that change no cost, so that a search need not look at the same thing again.
//!
//! Candidates come from the topology (turning a ring, reflecting and exchanging the dimensions of a torus, exchanging
//! subtrees of a tree) and from exchanging two nodes; each is checked against all costs, limits and pins. Source of the
//! use of orbits: F. Margot, "Symmetry in integer linear programming", 2010.

use super::instance::Instance;
use crate::model::Objective;
use crate::topology::{Topology, Torus};

/// No symmetries are looked for on larger machines: they are not searched exhaustively either.
const MOST_NODES: usize = 64;

/// Permutations of the nodes, each of which leaves every cost and limit as it is.
#[derive(Clone, Debug)]
pub struct Symmetry {
    permutations: Vec<Vec<u32>>,
    nodes: usize,
}

impl Symmetry {
    /// Nodes are all different.
    pub fn none(nodes: usize) -> Symmetry {
        Symmetry { permutations: Vec::new(), nodes }
    }

    /// The symmetries that were found.
    pub fn of(instance: &Instance<'_>) -> Symmetry {
        let nodes = instance.nodes;
        let copies = (0..instance.segments()).any(|segment| instance.may_have_copies(segment));
        if nodes > MOST_NODES || instance.objective == Objective::MaxLink && copies {
            return Symmetry::none(nodes);
        }
        let mut candidates = match &instance.model.topology {
            Topology::Torus(torus) => of_torus(torus, nodes, instance.objective != Objective::MaxLink),
            Topology::FatTree(tree) => of_tree(&tree.radices, nodes),
        };
        if instance.objective != Objective::MaxLink {
            for x in 0..nodes {
                for y in x + 1..nodes {
                    let mut exchange: Vec<u32> = (0..nodes as u32).collect();
                    exchange.swap(x, y);
                    candidates.push(exchange);
                }
            }
        }
        candidates.retain(|permutation| is_symmetry(instance, permutation));
        Symmetry { permutations: candidates, nodes }
    }

    /// For each node the lowest node that it can be exchanged with while all `used` nodes stay where they are.
    pub fn orbits(&self, used: &[bool]) -> Vec<u32> {
        let mut root: Vec<u32> = (0..self.nodes as u32).collect();
        for permutation in &self.permutations {
            if used.iter().zip(permutation).zip(0..).any(|((&used, &to), node)| used && to != node) {
                continue;
            }
            for (node, &to) in permutation.iter().enumerate() {
                let (x, y) = (find(&mut root, node as u32), find(&mut root, to));
                root[x.max(y) as usize] = x.min(y);
            }
        }
        (0..self.nodes as u32).map(|node| find(&mut root, node)).collect()
    }
}

fn find(root: &mut [u32], mut node: u32) -> u32 {
    while root[node as usize] != node {
        root[node as usize] = root[root[node as usize] as usize];
        node = root[node as usize];
    }
    node
}

fn is_symmetry(instance: &Instance<'_>, permutation: &[u32]) -> bool {
    let nodes = instance.nodes;
    let to = |node: usize| permutation[node] as usize;
    let limits = [&instance.process_slots, &instance.segment_slots, &instance.memory];
    (0..nodes).any(|node| to(node) != node)
        && limits.iter().all(|limits| (0..nodes).all(|node| limits[node] == limits[to(node)]))
        && (0..instance.segments()).filter_map(|segment| instance.segment_pin(segment)).all(|pin| to(pin) == pin)
        && (0..instance.processes()).filter_map(|process| instance.process_pin(process)).all(|pin| to(pin) == pin)
        && instance
            .tables
            .iter()
            .all(|table| (0..nodes).all(|a| (0..nodes).all(|b| table.at(a, b) == table.at(to(a), to(b)))))
}

/// All shifts; with `reflect` also all reflections and exchanges of dimensions (routes break ties and go dimension by
/// dimension, so link loads change with those).
fn of_torus(torus: &Torus, nodes: usize, reflect: bool) -> Vec<Vec<u32>> {
    let dims: Vec<usize> = torus.dims.iter().map(|&dim| dim as usize).collect();
    let coordinates = |mut node: usize| -> Vec<usize> {
        dims.iter()
            .map(|&dim| {
                let coordinate = node % dim;
                node /= dim;
                coordinate
            })
            .collect()
    };
    let number = |at: &[usize]| at.iter().zip(&dims).rev().fold(0, |node, (at, dim)| node * dim + at);
    let reflections = if reflect && dims.len() <= 8 { 1usize << dims.len() } else { 1 };
    let mut orders = vec![(0..dims.len()).collect::<Vec<usize>>()];
    if reflect && dims.len() <= 4 {
        orders = permutations(dims.len());
        orders.retain(|order| order.iter().zip(&dims).all(|(&from, &dim)| dims[from] == dim));
    }
    let mut all = Vec::new();
    for order in &orders {
        for mirror in 0..reflections {
            for shift in 0..nodes {
                let shift = coordinates(shift);
                let image = |node: usize| {
                    let at = coordinates(node);
                    let moved: Vec<usize> = (0..dims.len())
                        .map(|d| {
                            let x = at[order[d]];
                            let x = if mirror >> d & 1 == 1 { dims[d] - 1 - x } else { x };
                            (x + shift[d]) % dims[d]
                        })
                        .collect();
                    number(&moved) as u32
                };
                all.push((0..nodes).map(image).collect());
            }
        }
    }
    all
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let insert = |shorter: Vec<usize>| {
        (0..count).map(move |at| {
            let mut longer = shorter.clone();
            longer.insert(at, count - 1);
            longer
        })
    };
    permutations(count - 1).into_iter().flat_map(insert).collect()
}

/// Exchanges of two subtrees under the same switch.
fn of_tree(radices: &[u32], nodes: usize) -> Vec<Vec<u32>> {
    let mut all = Vec::new();
    let mut size = 1;
    for &radix in radices {
        let radix = radix as usize;
        for switch in (0..nodes).step_by(size * radix) {
            for x in 0..radix {
                for y in x + 1..radix {
                    let mut exchange: Vec<u32> = (0..nodes as u32).collect();
                    (0..size).for_each(|at| exchange.swap(switch + x * size + at, switch + y * size + at));
                    all.push(exchange);
                }
            }
        }
        size *= radix;
    }
    all
}
