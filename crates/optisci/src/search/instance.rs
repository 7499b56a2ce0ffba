//! A model as a search wants it: numbers in rows, who accesses what from both sides, limits per node.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::table::{Table, is_affine};
use crate::cost::evaluation::violations;
use crate::model::{CostModel, Model, Objective, Op, UNLIMITED};
use crate::topology::Node;
use crate::{Costs, Placement};

/// Accesses of one process to one segment that always go the same way: what they cost is
/// `first.1 * tables[first.0] + second.1 * tables[second.0]`. Models have millions of them: tables and factors lie
/// apart, so that nothing is left between.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// The process.
    pub process: u32,
    /// The segment.
    pub segment: u32,
    /// Reading or writing.
    pub op: Op,
    /// One of these accesses in the model, where their sizes matter: they are all the same then.
    access: u32,
    tables: [u32; 2],
    factors: [f64; 2],
    /// Bytes that go over each link of the way.
    pub bytes: f64,
}

impl Use {
    /// Table and factor.
    #[inline]
    pub fn first(&self) -> (u32, f64) {
        (self.tables[0], self.factors[0])
    }

    /// Another table and factor; the factor may be 0.
    #[inline]
    pub fn second(&self) -> (u32, f64) {
        (self.tables[1], self.factors[1])
    }
}

/// Messages from one process to another; costs as in [`Use`], nothing on the same node.
#[derive(Clone, Copy, Debug)]
pub struct Post {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// Table and factor.
    pub first: (u32, f64),
    /// Another table and factor.
    pub second: (u32, f64),
    /// Bytes that go over each link of the way.
    pub bytes: f64,
}

/// Rows of unequal length, one after another.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    start: Vec<u32>,
    items: Vec<u32>,
}

impl Rows {
    /// Puts each item into its row, from `entries` of rows and items; those of a row stay in their order.
    pub fn collect(rows: usize, entries: impl Iterator<Item = (u32, u32)> + Clone) -> Rows {
        let mut start = vec![0u32; rows + 1];
        entries.clone().for_each(|(row, _)| start[row as usize + 1] += 1);
        (0..rows).for_each(|row| start[row + 1] += start[row]);
        let mut next = start.clone();
        let mut items = vec![0; start[rows] as usize];
        for (row, item) in entries {
            items[next[row as usize] as usize] = item;
            next[row as usize] += 1;
        }
        Rows { start, items }
    }

    /// One row.
    #[inline]
    pub fn row(&self, row: usize) -> &[u32] {
        &self.items[self.start[row] as usize..self.start[row + 1] as usize]
    }
}

/// The model in numbers.
#[derive(Debug)]
pub struct Instance<'a> {
    /// Where it comes from.
    pub model: &'a Model,
    /// Exact costs.
    pub costs: Costs<'a>,
    /// What is made small.
    pub objective: Objective,
    /// Number of nodes.
    pub nodes: usize,
    /// Costs of one access or byte.
    pub tables: Vec<Table>,
    /// Accesses, those of one segment together.
    pub uses: Vec<Use>,
    use_start: Vec<u32>,
    of_process: OnceLock<Rows>,
    /// Messages.
    pub posts: Vec<Post>,
    /// Messages that each process sends or receives.
    pub posts_of: Rows,
    /// Slots for processes.
    pub process_slots: Vec<u64>,
    /// Slots for segments.
    pub segment_slots: Vec<u64>,
    /// Bytes for segments.
    pub memory: Vec<u64>,
}

impl<'a> Instance<'a> {
    /// The numbers of a model.
    pub fn new(model: &'a Model, objective: Objective) -> Instance<'a> {
        let costs = Costs::new(model);
        let mut classes = Classes::new(model);
        let mut uses: Vec<Use> = Vec::with_capacity(model.accesses.len());
        let order = Rows::collect(model.segments.len(), model.accesses.iter().map(|access| access.segment).zip(0..));
        let mut use_start = vec![0u32; model.segments.len() + 1];
        for (segment, entry) in model.segments.iter().enumerate() {
            // Thousands of processes may access one segment.
            let mut known: HashMap<(u32, Op, u32), usize> = HashMap::with_capacity(order.row(segment).len());
            for &number in order.row(segment) {
                let access = &model.accesses[number as usize];
                let weight = costs.weight(access.count);
                if weight == 0.0 {
                    continue;
                }
                let (first, second) = classes.parts(access.op, access.size, weight);
                let bytes = weight * access.size as f64;
                let (process, op) = (access.process, access.op);
                // What always goes the same way is one; reads of different sizes may take different copies.
                let next = uses.len();
                let at = match op == Op::Write || !entry.replicable || second.1 == 0.0 {
                    true => *known.entry((process, op, first.0)).or_insert(next),
                    false => next,
                };
                if at < next {
                    uses[at].factors[0] += first.1;
                    uses[at].factors[1] += second.1;
                    uses[at].bytes += bytes;
                } else {
                    let (tables, factors) = ([first.0, second.0], [first.1, second.1]);
                    uses.push(Use { process, segment: access.segment, op, access: number, tables, factors, bytes });
                }
            }
            use_start[segment + 1] = uses.len() as u32;
        }
        let mut posts: Vec<Post> = Vec::new();
        let mut known: HashMap<(u32, u32, u32), usize> = HashMap::new();
        for message in &model.messages {
            let weight = costs.weight(message.count);
            if weight == 0.0 || message.from == message.to {
                continue;
            }
            let (first, second) = classes.parts(Op::Write, message.size, weight);
            let bytes = weight * message.size as f64;
            let next = posts.len();
            let at = *known.entry((message.from, message.to, first.0)).or_insert(next);
            if at < next {
                posts[at].first.1 += first.1;
                posts[at].second.1 += second.1;
                posts[at].bytes += bytes;
            } else {
                posts.push(Post { from: message.from, to: message.to, first, second, bytes });
            }
        }
        let processes = model.processes.len();
        let posts_of = Rows::collect(
            processes,
            posts.iter().zip(0..).flat_map(|(post, number)| [(post.from, number), (post.to, number)]),
        );
        let nodes = model.nodes();
        let limit = |limit: &Option<Vec<u64>>| limit.clone().unwrap_or_else(|| vec![UNLIMITED; nodes]);
        Instance {
            model,
            costs,
            objective,
            nodes,
            tables: classes.tables(&costs),
            uses,
            use_start,
            of_process: OnceLock::new(),
            posts,
            posts_of,
            process_slots: limit(&model.process_slots),
            segment_slots: limit(&model.segment_slots),
            memory: limit(&model.memory_bytes),
        }
    }

    /// Number of processes.
    pub fn processes(&self) -> usize {
        self.model.processes.len()
    }

    /// Number of segments.
    pub fn segments(&self) -> usize {
        self.model.segments.len()
    }

    /// The number in `uses` of the first access to a segment.
    #[inline]
    pub fn first_use(&self, segment: usize) -> usize {
        self.use_start[segment] as usize
    }

    /// Accesses to a segment.
    #[inline]
    pub fn uses_of(&self, segment: usize) -> &[Use] {
        &self.uses[self.use_start[segment] as usize..self.use_start[segment + 1] as usize]
    }

    /// Uses of each process.
    pub fn of_process(&self) -> &Rows {
        let processes = || self.uses.iter().map(|entry| entry.process);
        self.of_process.get_or_init(|| Rows::collect(self.processes(), processes().zip(0..)))
    }

    /// What accesses cost from a process on `a` to a segment on `b`.
    #[inline]
    pub fn use_cost(&self, entry: &Use, a: usize, b: usize) -> f64 {
        let first = entry.first().1 * self.tables[entry.first().0 as usize].at(a, b);
        match entry.second().1 {
            0.0 => first,
            factor => first + factor * self.tables[entry.second().0 as usize].at(a, b),
        }
    }

    /// The copy that a process on `a` reads, to the last bit as [`Costs::nearest`] chooses it: by the cost of one
    /// access. The cost of all of them is rounded otherwise, so that of two copies another one may look cheaper, or
    /// none; links would be loaded that nobody uses.
    #[inline]
    pub fn nearest(&self, entry: &Use, copies: &[u32], a: usize) -> usize {
        let [first, second] = entry.tables.map(|table| &self.tables[table as usize]);
        let size = (entry.factors[1] != 0.0).then(|| self.model.accesses[entry.access as usize].size as f64);
        let (mut best, mut at) = (f64::INFINITY, 0);
        for v in copies.iter().map(|&v| v as usize) {
            let cost = first.at(a, v) + size.map_or(0.0, |size| size * second.at(a, v));
            if cost < best || cost == best && v < at {
                (best, at) = (cost, v);
            }
        }
        at
    }

    /// Adds what accesses cost from a process on `a` to a segment on each node.
    #[inline]
    pub fn add_uses(&self, entry: &Use, a: usize, sums: &mut [f64]) {
        self.tables[entry.first().0 as usize].add_row(a, entry.first().1, sums);
        if entry.second().1 != 0.0 {
            self.tables[entry.second().0 as usize].add_row(a, entry.second().1, sums);
        }
    }

    /// Takes what these uses of one process cost with it on `from` out of `sums`, and puts in what they cost with it on
    /// `to`.
    #[inline]
    pub fn shift_uses(&self, numbers: &[u32], from: u32, to: u32, sums: &mut [f64]) {
        for &number in numbers {
            let entry = &self.uses[number as usize];
            for (table, factor) in [entry.first(), entry.second()] {
                if factor == 0.0 {
                    continue;
                }
                match &self.tables[table as usize] {
                    Table::Pairs { nodes, costs } => {
                        let old = &costs[from as usize * nodes..][..*nodes];
                        let new = &costs[to as usize * nodes..][..*nodes];
                        sums.iter_mut()
                            .zip(old.iter().zip(new))
                            .for_each(|(sum, (old, new))| *sum += factor * (new - old));
                    }
                    table => {
                        for (at, sum) in sums.iter_mut().enumerate() {
                            *sum += factor * (table.at(to as usize, at) - table.at(from as usize, at));
                        }
                    }
                }
            }
        }
    }

    /// What messages cost from a process on `a` to one on `b`.
    #[inline]
    pub fn post_cost(&self, post: &Post, a: usize, b: usize) -> f64 {
        if a == b {
            return 0.0;
        }
        let first = post.first.1 * self.tables[post.first.0 as usize].at(a, b);
        match post.second.1 {
            0.0 => first,
            factor => first + factor * self.tables[post.second.0 as usize].at(a, b),
        }
    }

    /// Where a process is pinned to.
    #[inline]
    pub fn process_pin(&self, process: usize) -> Option<usize> {
        self.model.processes[process].pin.map(|node| node as usize)
    }

    /// Where a segment is pinned to.
    #[inline]
    pub fn segment_pin(&self, segment: usize) -> Option<usize> {
        self.model.segments[segment].pin.map(|node| node as usize)
    }

    /// Whether more than one copy of a segment can be of use.
    #[inline]
    pub fn may_have_copies(&self, segment: usize) -> bool {
        let entry = &self.model.segments[segment];
        entry.replicable && entry.pin.is_none() && self.nodes > 1
    }

    /// Whether any node limits slots or memory of segments.
    pub fn limits_segments(&self) -> bool {
        self.segment_slots.iter().chain(&self.memory).any(|&limit| limit != UNLIMITED)
    }

    /// Whether every cost is a whole number that `f64` holds exactly, so that equal costs are equal to the last bit.
    pub fn is_whole(&self) -> bool {
        let whole = |(_, factor): (u32, f64)| factor.fract() == 0.0;
        let largest = self.tables.iter().map(Table::largest).fold(0.0, f64::max);
        let factors = self.uses.iter().map(|entry| entry.first().1 + entry.second().1).sum::<f64>()
            + self.posts.iter().map(|post| post.first.1 + post.second.1).sum::<f64>();
        self.objective == Objective::MaxLink
            || factors * largest * (self.nodes as f64) < 9e15
                && self.tables.iter().all(Table::is_whole)
                && self.uses.iter().all(|entry| whole(entry.first()) && whole(entry.second()))
                && self.posts.iter().all(|post| whole(post.first) && whole(post.second))
    }

    /// Calls `visit` with each link that the accesses load.
    #[inline]
    pub fn use_route(&self, entry: &Use, a: usize, b: usize, visit: impl FnMut(usize)) {
        let (a, b) = (a as Node, b as Node);
        match entry.op {
            Op::Read => self.model.topology.route(b, a, visit),
            Op::Write => self.model.topology.route(a, b, visit),
        }
    }

    /// The exact cost of a placement and whether it obeys all limits.
    pub fn evaluate(&self, placement: &Placement) -> (f64, bool) {
        (self.costs.objective(self.objective, placement), violations(self.model, placement).is_empty())
    }
}

/// Numbers the tables that are needed.
struct Classes {
    affine: bool,
    hop_bytes: bool,
    number: HashMap<(Op, u64), u32>,
    sizes: Vec<(Op, u64)>,
    last: Option<((Op, u64), u32)>,
}

impl Classes {
    fn new(model: &Model) -> Classes {
        Classes {
            affine: is_affine(model),
            hop_bytes: matches!(model.cost_model, CostModel::HopBytes(_)),
            number: HashMap::new(),
            sizes: Vec::new(),
            last: None,
        }
    }

    fn table(&mut self, op: Op, size: u64) -> u32 {
        if let Some((key, number)) = self.last
            && key == (op, size)
        {
            return number;
        }
        let next = self.sizes.len() as u32;
        let number = *self.number.entry((op, size)).or_insert(next);
        if number == next {
            self.sizes.push((op, size));
        }
        self.last = Some(((op, size), number));
        number
    }

    /// Tables and factors of `weight` accesses of `size` bytes.
    fn parts(&mut self, op: Op, size: u64, weight: f64) -> ((u32, f64), (u32, f64)) {
        if self.hop_bytes {
            // Reads and writes cost the same: bytes times links.
            return ((self.table(Op::Read, 1), weight * size as f64), (0, 0.0));
        }
        if self.affine {
            // Start-up and part per byte; the latter table is cost(1) - cost(0), taken from the matrices themselves.
            let first = self.table(op, 0);
            return ((first, weight), (self.table(op, u64::MAX), weight * size as f64));
        }
        ((self.table(op, size), weight), (0, 0.0))
    }

    fn tables(&self, costs: &Costs<'_>) -> Vec<Table> {
        let count = self.sizes.len();
        self.sizes
            .iter()
            .map(|&(op, size)| match (&costs.model().cost_model, size) {
                (CostModel::Matrix(matrix), u64::MAX) => Table::Pairs {
                    nodes: costs.model().nodes(),
                    costs: match op {
                        Op::Read => matrix.read_ns_per_byte.clone(),
                        Op::Write => matrix.write_ns_per_byte.clone(),
                    },
                },
                _ => Table::new(costs, op, size, count),
            })
            .collect()
    }
}
