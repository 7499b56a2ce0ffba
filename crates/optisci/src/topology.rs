//! Machines: which nodes there are, how far apart they are, and which links a packet takes.
//!
//! A *ring* is a torus of one dimension. Routes on a torus are dimension-ordered, the first dimension first, as SCI
//! switches them; with links both ways a packet takes the shorter way round, and a tie goes in the + direction. In a
//! fat tree a packet climbs to the lowest common switch and descends; the parallel cables of a level count as one link.

/// A node of the machine, counted from 0.
pub type Node = u32;

/// No machine has more nodes than SCI can address (16 bits).
pub const MOST_NODES: usize = 65_536;

/// The interconnect of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Rings crossed with rings.
    Torus(Torus),
    /// Switches above switches.
    FatTree(FatTree),
}

/// A ring or torus. Node ids count along the first dimension first: `x + X * (y + Y * z)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torus {
    /// Nodes along each dimension.
    pub dims: Vec<u32>,
    /// Links go in the + direction only, as on an SCI ring.
    pub directed: bool,
}

/// A tree of switches whose leaves are the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    /// Children per switch, the level above the nodes first.
    pub radices: Vec<u32>,
}

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// A node.
    Node(Node),
    /// The switch `index` of a level; the switches right above the nodes are level 1.
    Switch {
        /// From 1 (above the nodes) to the root.
        level: u32,
        /// Counted from 0 within the level.
        index: u32,
    },
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Node(node) => write!(f, "{node}"),
            End::Switch { level, index } => write!(f, "switch {level}.{index}"),
        }
    }
}

/// A directed link: bytes flow one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// Where bytes enter.
    pub from: End,
    /// Where they leave.
    pub to: End,
}

impl Topology {
    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        match self {
            Topology::Torus(torus) => torus.dims.iter().map(|&dim| dim as usize).product(),
            Topology::FatTree(tree) => tree.radices.iter().map(|&radix| radix as usize).product(),
        }
    }

    /// Links crossed from `a` to `b`; 0 when they are the same.
    pub fn hops(&self, a: Node, b: Node) -> u32 {
        self.distance(a, b).hops
    }

    /// Links crossed and dimensions used from `a` to `b`.
    pub fn distance(&self, a: Node, b: Node) -> Distance {
        match self {
            Topology::Torus(torus) => {
                let (mut a, mut b) = (a, b);
                let mut distance = Distance::default();
                for &dim in &torus.dims {
                    let (_, steps) = torus.steps(a % dim, b % dim, dim);
                    distance.hops += steps;
                    distance.dimensions += u32::from(steps > 0);
                    (a, b) = (a / dim, b / dim);
                }
                distance
            }
            Topology::FatTree(tree) => {
                let climbed = tree.climbed(a, b);
                Distance { hops: 2 * climbed, dimensions: u32::from(climbed > 0) }
            }
        }
    }

    /// Number of directed links. Links are numbered from 0; the numbers of a torus leave out nothing, so a dimension of
    /// one node has links that no route uses.
    pub fn links(&self) -> usize {
        match self {
            Topology::Torus(torus) => self.nodes() * torus.dims.len() * torus.directions(),
            Topology::FatTree(tree) => 2 * tree.ups(),
        }
    }

    /// The ends of a link.
    ///
    /// # Panics
    /// When there is no link of this number.
    pub fn link(&self, number: usize) -> Link {
        assert!(number < self.links(), "link {number} of {}", self.links());
        match self {
            Topology::Torus(torus) => torus.link(number),
            Topology::FatTree(tree) => tree.link(number),
        }
    }

    /// Calls `visit` with the number of each link from `a` to `b`, in order.
    pub fn route(&self, a: Node, b: Node, visit: impl FnMut(usize)) {
        match self {
            Topology::Torus(torus) => torus.route(a, b, visit),
            Topology::FatTree(tree) => tree.route(a, b, visit),
        }
    }
}

/// How far one node is from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distance {
    /// Links crossed.
    pub hops: u32,
    /// Dimensions in which the two differ; 1 in a tree.
    pub dimensions: u32,
}

impl Distance {
    /// Changes of dimension on the way.
    pub fn turns(self) -> u32 {
        self.dimensions.saturating_sub(1)
    }
}

impl Torus {
    /// Direction (true: +) and number of steps from coordinate `from` to `to` on a ring of `dim`.
    fn steps(&self, from: u32, to: u32, dim: u32) -> (bool, u32) {
        let ahead = if to >= from { to - from } else { to + dim - from };
        if self.directed || ahead <= dim - ahead { (true, ahead) } else { (false, dim - ahead) }
    }

    fn directions(&self) -> usize {
        if self.directed { 1 } else { 2 }
    }

    fn number(&self, node: Node, dimension: usize, ahead: bool) -> usize {
        (node as usize * self.dims.len() + dimension) * self.directions() + usize::from(!ahead)
    }

    fn link(&self, number: usize) -> Link {
        let ahead = number.is_multiple_of(self.directions());
        let place = number / self.directions();
        let (node, dimension) = ((place / self.dims.len()) as u32, place % self.dims.len());
        let stride: u32 = self.dims[..dimension].iter().product();
        let to = self.neighbour(node, stride, self.dims[dimension], ahead);
        Link { from: End::Node(node), to: End::Node(to) }
    }

    fn neighbour(&self, node: Node, stride: u32, dim: u32, ahead: bool) -> Node {
        let coordinate = node / stride % dim;
        let next = if ahead { (coordinate + 1) % dim } else { (coordinate + dim - 1) % dim };
        node - coordinate * stride + next * stride
    }

    fn route(&self, a: Node, b: Node, mut visit: impl FnMut(usize)) {
        let (mut here, mut stride) = (a, 1);
        for (dimension, &dim) in self.dims.iter().enumerate() {
            let (ahead, steps) = self.steps(a / stride % dim, b / stride % dim, dim);
            for _ in 0..steps {
                visit(self.number(here, dimension, ahead));
                here = self.neighbour(here, stride, dim, ahead);
            }
            stride *= dim;
        }
    }
}

impl FatTree {
    /// Levels to climb until both are below the same switch.
    fn climbed(&self, a: Node, b: Node) -> u32 {
        let (mut a, mut b, mut levels) = (a, b, 0);
        for &radix in &self.radices {
            if a == b {
                break;
            }
            (a, b, levels) = (a / radix, b / radix, levels + 1);
        }
        levels
    }

    /// Number of links that go up: one from each node and from each switch but the root.
    fn ups(&self) -> usize {
        (0..self.radices.len()).map(|level| self.width(level)).sum()
    }

    /// Nodes (level 0) or switches of a level.
    fn width(&self, level: usize) -> usize {
        self.radices[level..].iter().map(|&radix| radix as usize).product()
    }

    fn link(&self, number: usize) -> Link {
        let (mut index, mut level) = (number / 2, 0);
        while index >= self.width(level) {
            index -= self.width(level);
            level += 1;
        }
        let end = |level: usize, index: usize| match level {
            0 => End::Node(index as u32),
            _ => End::Switch { level: level as u32, index: index as u32 },
        };
        let (low, high) = (end(level, index), end(level + 1, index / self.radices[level] as usize));
        if number.is_multiple_of(2) { Link { from: low, to: high } } else { Link { from: high, to: low } }
    }

    fn route(&self, a: Node, b: Node, mut visit: impl FnMut(usize)) {
        let climbed = self.climbed(a, b) as usize;
        let (mut index, mut first) = (a as usize, 0);
        for level in 0..climbed {
            visit(2 * (first + index));
            first += self.width(level);
            index /= self.radices[level] as usize;
        }
        for level in (0..climbed).rev() {
            first -= self.width(level);
            let below: usize = self.radices[..level].iter().map(|&radix| radix as usize).product();
            visit(2 * (first + b as usize / below) + 1);
        }
    }
}
