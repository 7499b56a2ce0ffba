//! Lower bounds where both maps are free: costs of pairs are moved to where they cannot be avoided.
//!
//! Each pair (process and segment that it accesses, two processes that exchange messages) has a table of costs, one
//! entry per pair of nodes. A cost that a process pays at a node wherever its partner goes is moved from the tables of
//! its pairs to the process, likewise for segments; what every assignment of processes to nodes must then pay is moved
//! to the bound. What is left is spread over the tables again, and so on. Nothing ever gets lost: at every moment the
//! cost of *each* placement is `bound` plus what the tables say about it, so with no negative entry left `bound` is a
//! true lower bound. All numbers are whole, so that no rounding can spoil that.
//!
//! Sources: P. Hahn and T. Grant, "Lower bounds for the quadratic assignment problem based upon a dual formulation",
//! 1998; its relaxation is the first-level reformulation of W. Adams and H. Sherali (1986), which contains the bound of
//! P. Gilmore (1962) and E. Lawler (1963) as the first half of the first round. Segments take part as variables without
//! assignment constraints, which makes it an ascent for the local polytope as in V. Kolmogorov, TRW-S (2006).

use super::assignment::Assignment;

/// Process that has no node yet.
pub const FREE: u32 = u32::MAX;

/// A pair with a table of costs: entry `[a * nodes + b]` is paid when the process is at `a` and its partner at `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The process.
    pub process: u32,
    /// What it is paired with.
    pub partner: Partner,
}

/// The other one of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Partner {
    /// A segment that the process accesses.
    Segment(u32),
    /// A process that it exchanges messages with.
    Process(u32),
}

/// Which pairs there are.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Number of nodes.
    pub nodes: usize,
    /// The pairs, in the order of their tables.
    pub pairs: Vec<Pair>,
    /// Pairs of each process with segments.
    pub accesses: Vec<Vec<u32>>,
    /// Pairs of each process with processes, as the first or the second.
    pub messages: Vec<Vec<u32>>,
    /// Pairs of each segment.
    pub users: Vec<Vec<u32>>,
}

impl Shape {
    /// The shape of these pairs.
    pub fn new(nodes: usize, processes: usize, segments: usize, pairs: Vec<Pair>) -> Shape {
        let mut shape = Shape {
            nodes,
            accesses: vec![Vec::new(); processes],
            messages: vec![Vec::new(); processes],
            users: vec![Vec::new(); segments],
            pairs: Vec::new(),
        };
        for (number, pair) in (0..).zip(&pairs) {
            match pair.partner {
                Partner::Segment(segment) => {
                    shape.accesses[pair.process as usize].push(number);
                    shape.users[segment as usize].push(number);
                }
                Partner::Process(other) => {
                    shape.messages[pair.process as usize].push(number);
                    shape.messages[other as usize].push(number);
                }
            }
        }
        shape.pairs = pairs;
        shape
    }

    fn other(&self, pair: u32, process: usize) -> usize {
        let Pair { process: first, partner } = self.pairs[pair as usize];
        match partner {
            Partner::Process(second) if first as usize == process => second as usize,
            _ => first as usize,
        }
    }
}

/// The costs, as moved about so far. A whole number or infinite (forbidden) each.
#[derive(Clone, Debug)]
pub struct Costs {
    /// What every placement pays that agrees with the nodes given so far.
    pub bound: f64,
    /// Node of each process, or [`FREE`].
    pub node: Vec<u32>,
    /// Processes that each node can still take.
    pub room: Vec<u32>,
    /// Of each process at each node.
    pub process: Vec<f64>,
    /// Of each segment at each node.
    pub segment: Vec<f64>,
    /// Of each pair.
    pub pair: Vec<f64>,
}

impl Costs {
    /// What a copy takes, nearly.
    pub fn bytes(&self) -> usize {
        size_of::<f64>() * (self.process.len() + self.segment.len() + self.pair.len())
            + size_of::<u32>() * (self.node.len() + self.room.len())
    }

    /// Copies into memory that is there already.
    pub fn copy_from(&mut self, other: &Costs) {
        self.bound = other.bound;
        self.node.clone_from(&other.node);
        self.room.clone_from(&other.room);
        self.process.clone_from(&other.process);
        self.segment.clone_from(&other.segment);
        self.pair.clone_from(&other.pair);
    }

    /// Puts a free process on a node.
    pub fn place(&mut self, shape: &Shape, process: usize, node: usize) {
        let n = shape.nodes;
        self.bound += self.process[process * n + node];
        self.node[process] = node as u32;
        self.room[node] -= 1;
        for &pair in &shape.accesses[process] {
            let Partner::Segment(segment) = shape.pairs[pair as usize].partner else { continue };
            let table = &self.pair[pair as usize * n * n + node * n..][..n];
            self.segment[segment as usize * n..][..n].iter_mut().zip(table).for_each(|(sum, cost)| *sum += cost);
        }
        for &pair in &shape.messages[process] {
            let other = shape.other(pair, process);
            if self.node[other] != FREE {
                continue;
            }
            let first = shape.pairs[pair as usize].process as usize == process;
            for at in 0..n {
                let entry = if first { node * n + at } else { at * n + node };
                self.process[other * n + at] += self.pair[pair as usize * n * n + entry];
            }
        }
        if self.room[node] == 0 {
            for other in 0..self.node.len() {
                if self.node[other] == FREE {
                    self.process[other * n + node] = f64::INFINITY;
                }
            }
        }
    }
}

/// Moves costs until the bound rises no more.
#[derive(Clone, Debug, Default)]
pub struct DualAscent {
    assignment: Assignment,
    costs: Vec<f64>,
    free: Vec<u32>,
    room: Vec<u32>,
    /// Rounds done so far, a measure of work.
    pub rounds: u64,
}

impl DualAscent {
    /// Raises `costs.bound`, in at most `rounds` rounds, until it reaches `enough`, rises by less than the part
    /// `least_gain` of what is missing, or `go_on` says no. At the end as much as possible stands with the processes,
    /// so that `bound + process[p][a]` bounds what is below `p` at `a`. False: no placement is possible.
    pub fn raise(
        &mut self,
        shape: &Shape,
        costs: &mut Costs,
        enough: f64,
        (rounds, least_gain): (usize, f64),
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        let mut slow = 0;
        for round in 0..rounds.max(1) {
            if !go_on() {
                break;
            }
            let before = costs.bound;
            self.rounds += 1;
            if !self.segments(shape, costs, true) || !self.processes(shape, costs, round % 2 == 1) {
                costs.bound = f64::INFINITY;
                return false;
            }
            if costs.bound >= enough {
                return true;
            }
            slow = if costs.bound - before < least_gain * (enough - costs.bound) { slow + 1 } else { 0 };
            if round + 1 < rounds && slow < 2 {
                self.spread(shape, costs);
            } else {
                break;
            }
        }
        true
    }

    /// From pairs to segments, to the bound, and back to pairs in equal parts.
    fn segments(&mut self, shape: &Shape, costs: &mut Costs, spread: bool) -> bool {
        let n = shape.nodes;
        for (segment, users) in shape.users.iter().enumerate() {
            self.free.clear();
            self.free
                .extend(users.iter().filter(|&&pair| costs.node[shape.pairs[pair as usize].process as usize] == FREE));
            let rows = self.free.len();
            if rows > 0 {
                for at in 0..n {
                    if costs.segment[segment * n + at] == f64::INFINITY {
                        continue;
                    }
                    self.costs.clear();
                    for &pair in &self.free {
                        let process = shape.pairs[pair as usize].process as usize;
                        let table = &costs.pair[pair as usize * n * n..][..n * n];
                        let allowed = &costs.process[process * n..][..n];
                        self.costs.extend(
                            (0..n).map(|a| if allowed[a] == f64::INFINITY { f64::INFINITY } else { table[a * n + at] }),
                        );
                    }
                    let Some(value) = self.assignment.solve(&self.costs, rows, &costs.room) else { return false };
                    if value == 0.0 && self.assignment.row_price.iter().all(|&price| price == 0.0) {
                        continue;
                    }
                    costs.segment[segment * n + at] += value;
                    for (row, &pair) in self.free.iter().enumerate() {
                        let price = self.assignment.row_price[row];
                        let table = &mut costs.pair[pair as usize * n * n..][..n * n];
                        for a in 0..n {
                            table[a * n + at] -= price + self.assignment.column_price[a];
                        }
                    }
                }
            }
            let own = &mut costs.segment[segment * n..][..n];
            let least = own.iter().copied().fold(f64::INFINITY, f64::min);
            if least == f64::INFINITY {
                return false;
            }
            costs.bound += least;
            own.iter_mut().for_each(|cost| *cost -= least);
            if spread && rows > 0 {
                for at in 0..n {
                    let share = (own[at] / rows as f64).floor();
                    if share == 0.0 || share == f64::INFINITY {
                        continue;
                    }
                    own[at] -= share * rows as f64;
                    for &pair in &self.free {
                        let table = &mut costs.pair[pair as usize * n * n..][..n * n];
                        (0..n).for_each(|a| table[a * n + at] += share);
                    }
                }
            }
        }
        true
    }

    /// From pairs to processes, to the bound.
    fn processes(&mut self, shape: &Shape, costs: &mut Costs, backwards: bool) -> bool {
        let n = shape.nodes;
        let count = costs.node.len();
        for step in 0..count {
            let process = if backwards { count - 1 - step } else { step };
            if costs.node[process] == FREE && !self.gather(shape, costs, process) {
                return false;
            }
        }
        let free: Vec<usize> = (0..count).filter(|&process| costs.node[process] == FREE).collect();
        if free.is_empty() {
            return true;
        }
        self.costs.clear();
        for &process in &free {
            self.costs.extend_from_slice(&costs.process[process * n..][..n]);
        }
        let Some(value) = self.assignment.solve(&self.costs, free.len(), &costs.room) else { return false };
        costs.bound += value;
        for (row, &process) in free.iter().enumerate() {
            let price = self.assignment.row_price[row];
            for a in 0..n {
                costs.process[process * n + a] -= price + self.assignment.column_price[a];
            }
        }
        true
    }

    /// From the pairs of one process to the process.
    fn gather(&mut self, shape: &Shape, costs: &mut Costs, process: usize) -> bool {
        let n = shape.nodes;
        for &pair in &shape.accesses[process] {
            let Partner::Segment(segment) = shape.pairs[pair as usize].partner else { continue };
            let segment = &costs.segment[segment as usize * n..][..n];
            for a in 0..n {
                if costs.process[process * n + a] == f64::INFINITY {
                    continue;
                }
                let row = &mut costs.pair[pair as usize * n * n + a * n..][..n];
                let mut least = f64::INFINITY;
                for (&cost, &own) in row.iter().zip(segment) {
                    if own != f64::INFINITY && cost < least {
                        least = cost;
                    }
                }
                if least > 0.0 {
                    costs.process[process * n + a] += least;
                    row.iter_mut().for_each(|cost| *cost -= least);
                }
            }
        }
        self.free.clear();
        self.free
            .extend(shape.messages[process].iter().filter(|&&pair| costs.node[shape.other(pair, process)] == FREE));
        if self.free.is_empty() {
            return true;
        }
        for a in 0..n {
            if costs.process[process * n + a] == f64::INFINITY {
                continue;
            }
            self.costs.clear();
            for &pair in &self.free {
                let table = &costs.pair[pair as usize * n * n..][..n * n];
                let first = shape.pairs[pair as usize].process as usize == process;
                let other = shape.other(pair, process);
                self.costs.extend((0..n).map(|b| {
                    if costs.process[other * n + b] == f64::INFINITY {
                        f64::INFINITY
                    } else {
                        table[if first { a * n + b } else { b * n + a }]
                    }
                }));
            }
            self.room.clone_from(&costs.room);
            self.room[a] -= 1;
            let Some(value) = self.assignment.solve(&self.costs, self.free.len(), &self.room) else {
                costs.process[process * n + a] = f64::INFINITY;
                continue;
            };
            costs.process[process * n + a] += value;
            for (row, &pair) in self.free.iter().enumerate() {
                let price = self.assignment.row_price[row];
                let table = &mut costs.pair[pair as usize * n * n..][..n * n];
                let first = shape.pairs[pair as usize].process as usize == process;
                for b in 0..n {
                    // An entry on the diagonal of a full node is never paid: it may become anything, but not negative.
                    let entry = &mut table[if first { a * n + b } else { b * n + a }];
                    *entry = (*entry - (price + self.assignment.column_price[b])).max(0.0);
                }
            }
        }
        true
    }

    /// From processes back to their pairs, in equal parts.
    fn spread(&mut self, shape: &Shape, costs: &mut Costs) {
        let n = shape.nodes;
        for process in 0..costs.node.len() {
            if costs.node[process] != FREE {
                continue;
            }
            self.free.clear();
            self.free
                .extend(shape.messages[process].iter().filter(|&&pair| costs.node[shape.other(pair, process)] == FREE));
            let parts = (shape.accesses[process].len() + self.free.len()) as f64;
            for a in 0..n {
                let share = (costs.process[process * n + a] / parts).floor();
                if !(share > 0.0 && share < f64::INFINITY) {
                    continue;
                }
                costs.process[process * n + a] -= share * parts;
                for &pair in &shape.accesses[process] {
                    let row = &mut costs.pair[pair as usize * n * n + a * n..][..n];
                    row.iter_mut().for_each(|cost| *cost += share);
                }
                for &pair in &self.free {
                    let table = &mut costs.pair[pair as usize * n * n..][..n * n];
                    let first = shape.pairs[pair as usize].process as usize == process;
                    for b in 0..n {
                        table[if first { a * n + b } else { b * n + a }] += share;
                    }
                }
            }
        }
    }
}
