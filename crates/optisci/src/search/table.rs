//! What one access costs between any two nodes, quick to look up however large the machine is.

use crate::Costs;
use crate::model::{CostModel, Model, Op};
use crate::topology::{Node, Topology};

/// Tables of pairs of nodes take at most this many entries together; beyond, the symmetry of the machine is used.
const MOST_ENTRIES: usize = 1 << 24;

/// Nodes up to which a table of all pairs is quicker than arithmetic on coordinates (it stays in the cache).
const MOST_NODES_IN_PAIRS: usize = 512;

/// Costs of pairs of nodes.
#[derive(Clone, Debug)]
pub enum Table {
    /// Of each pair, rows one after another.
    Pairs {
        /// Number of nodes.
        nodes: usize,
        /// Entry `[a * nodes + b]`.
        costs: Vec<f64>,
    },
    /// Of each difference: on a torus a route looks the same from everywhere.
    Differences {
        /// Where each node is, and how far each dimension reaches.
        grid: Grid,
        /// What it costs from node 0 to each node.
        costs: Vec<f64>,
    },
    /// Of each number of levels climbed in a tree.
    Levels {
        /// Children per switch, from below.
        radices: Vec<u32>,
        /// What it costs to climb 0, 1, 2, ... levels.
        costs: Vec<f64>,
    },
}

/// Coordinates of the nodes of a torus.
#[derive(Clone, Debug)]
pub struct Grid {
    dims: Vec<u32>,
    coordinates: Vec<u16>,
}

impl Grid {
    fn new(dims: &[u32], nodes: usize) -> Grid {
        let coordinates = (0..nodes as u32).flat_map(|node| {
            dims.iter().scan(node, |rest, &dim| {
                let coordinate = *rest % dim;
                *rest /= dim;
                Some(coordinate as u16)
            })
        });
        Grid { dims: dims.to_vec(), coordinates: coordinates.collect() }
    }

    /// The node that is as far from node 0 as `b` is from `a`.
    #[inline]
    fn difference(&self, a: usize, b: usize) -> usize {
        let count = self.dims.len();
        let (from, to) = (&self.coordinates[a * count..][..count], &self.coordinates[b * count..][..count]);
        let (mut node, mut stride) = (0, 1);
        for ((&from, &to), &dim) in from.iter().zip(to).zip(&self.dims) {
            let step = if to >= from { u32::from(to - from) } else { u32::from(to) + dim - u32::from(from) };
            node += step * stride;
            stride *= dim;
        }
        node as usize
    }
}

impl Table {
    /// The table of one operation and size. `tables` is how many there will be.
    pub fn new(costs: &Costs<'_>, op: Op, size: u64, tables: usize) -> Table {
        Table::of(costs.model(), |a, b| costs.access_ns(op, size, a, b), tables)
    }

    /// The table of a function that looks the same from everywhere on a torus or tree, unless costs are matrices.
    pub fn of(model: &Model, cost: impl Fn(Node, Node) -> f64, tables: usize) -> Table {
        let nodes = model.nodes();
        let matrix = matches!(model.cost_model, CostModel::Matrix(_));
        if matrix || nodes <= MOST_NODES_IN_PAIRS && nodes * nodes * tables <= MOST_ENTRIES {
            let row = |a: Node| (0..nodes as Node).map(move |b| (a, b));
            return Table::Pairs { nodes, costs: (0..nodes as Node).flat_map(row).map(|(a, b)| cost(a, b)).collect() };
        }
        match &model.topology {
            Topology::Torus(torus) => Table::Differences {
                grid: Grid::new(&torus.dims, nodes),
                costs: (0..nodes as Node).map(|node| cost(0, node)).collect(),
            },
            Topology::FatTree(tree) => {
                let first = tree.radices.iter().scan(1, |below, &radix| {
                    let node = if radix > 1 { *below } else { 0 };
                    *below *= radix;
                    Some(node)
                });
                let climbs = std::iter::once(0).chain(first);
                Table::Levels { radices: tree.radices.clone(), costs: climbs.map(|node| cost(0, node)).collect() }
            }
        }
    }

    /// The cost from `a`, where the process is, to `b`.
    #[inline]
    pub fn at(&self, a: usize, b: usize) -> f64 {
        match self {
            Table::Pairs { nodes, costs } => costs[a * nodes + b],
            Table::Differences { grid, costs } => costs[grid.difference(a, b)],
            Table::Levels { radices, costs } => {
                let (mut a, mut b, mut level) = (a as u32, b as u32, 0);
                while a != b {
                    (a, b) = (a / radices[level], b / radices[level]);
                    level += 1;
                }
                costs[level]
            }
        }
    }

    /// Adds `factor` times the costs from `a` to every node.
    #[inline]
    pub fn add_row(&self, a: usize, factor: f64, sums: &mut [f64]) {
        match self {
            Table::Pairs { nodes, costs } => {
                let row = &costs[a * nodes..][..*nodes];
                sums.iter_mut().zip(row).for_each(|(sum, cost)| *sum += factor * cost);
            }
            _ => (0..sums.len()).for_each(|b| sums[b] += factor * self.at(a, b)),
        }
    }

    /// True when every cost is a whole number.
    pub fn is_whole(&self) -> bool {
        let costs = match self {
            Table::Pairs { costs, .. } | Table::Differences { costs, .. } | Table::Levels { costs, .. } => costs,
        };
        costs.iter().all(|cost| cost.fract() == 0.0)
    }

    /// The largest cost.
    pub fn largest(&self) -> f64 {
        let costs = match self {
            Table::Pairs { costs, .. } | Table::Differences { costs, .. } | Table::Levels { costs, .. } => costs,
        };
        costs.iter().copied().fold(0.0, f64::max)
    }
}

/// Whether costs are a start-up and a part per byte, two tables per operation however many sizes there are.
pub fn is_affine(model: &Model) -> bool {
    matches!(model.cost_model, CostModel::Matrix(_) | CostModel::HopBytes(_))
}
