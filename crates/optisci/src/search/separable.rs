//! Every segment on its own: processes fixed, no limits, time altogether made small. Exact for any number of segments.
//!
//! The best node of a segment is the least of its accesses' rows added up. Rows are looked at in blocks: the least
//! entry of each block, added up the same way, is not more than any sum in the block (rounding keeps the order), so
//! most blocks need no look inside.

use super::facility::Facility;
use super::instance::{Instance, Use};
use super::table::Table;
use crate::model::Op;
use crate::placement::Home;

/// Nodes per block.
const BLOCK: usize = 16;

/// Finds the best home of one segment after another.
pub struct Separable<'a> {
    instance: &'a Instance<'a>,
    blocks: &'a Blocks,
    count: usize,
    sums: Vec<f64>,
    floor: Vec<f64>,
    reads: Vec<f64>,
    facility: Facility,
}

/// Least entry of each block of each row of each table of pairs.
pub struct Blocks(Vec<Vec<f64>>);

impl Blocks {
    /// Of all tables.
    pub fn new(instance: &Instance<'_>) -> Blocks {
        let blocks = instance.tables.iter().map(|table| match table {
            Table::Pairs { nodes, costs } if *nodes > 2 * BLOCK => costs
                .chunks_exact(*nodes)
                .flat_map(|row| row.chunks(BLOCK))
                .map(|block| block.iter().copied().fold(f64::INFINITY, f64::min))
                .collect(),
            _ => Vec::new(),
        });
        Blocks(blocks.collect())
    }
}

impl<'a> Separable<'a> {
    /// For one instance.
    pub fn new(instance: &'a Instance<'a>, blocks: &'a Blocks) -> Separable<'a> {
        let count = instance.nodes.div_ceil(BLOCK);
        Separable {
            instance,
            blocks,
            count,
            sums: vec![0.0; instance.nodes],
            floor: vec![0.0; count],
            reads: Vec::new(),
            facility: Facility::default(),
        }
    }

    /// The best home of a segment with processes on these nodes; what it costs; no home costs less than the third. When
    /// `go_on` says no, it may not be the best.
    pub fn home(&mut self, segment: usize, node: &[u32], go_on: &dyn Fn() -> bool) -> (Home, f64, f64) {
        let instance = self.instance;
        let uses = instance.uses_of(segment);
        if let Some(pin) = instance.segment_pin(segment) {
            let cost =
                uses.iter().map(|entry| instance.use_cost(entry, node[entry.process as usize] as usize, pin)).sum();
            return (Home::One(pin as u32), cost, cost);
        }
        if instance.may_have_copies(segment) && uses.iter().filter(|entry| entry.op == Op::Read).count() > 1 {
            return self.copies(uses, node, go_on);
        }
        let (at, cost) = self.least(uses, node);
        (Home::One(at as u32), cost, cost)
    }

    /// The node with the least sum, the lowest of several.
    fn least(&mut self, uses: &[Use], node: &[u32]) -> (usize, f64) {
        let instance = self.instance;
        let blocked = uses.iter().all(|entry| {
            let has = |table: u32, factor: f64| factor == 0.0 || !self.blocks.0[table as usize].is_empty();
            has(entry.first().0, entry.first().1) && has(entry.second().0, entry.second().1)
        });
        if uses.is_empty() {
            return (0, 0.0);
        }
        let mut best = (f64::INFINITY, 0);
        if !blocked {
            self.sums.fill(0.0);
            for entry in uses {
                instance.add_uses(entry, node[entry.process as usize] as usize, &mut self.sums);
            }
            for (at, &sum) in self.sums.iter().enumerate() {
                if sum < best.0 {
                    best = (sum, at);
                }
            }
            return (best.1, best.0);
        }
        let mut parts: [(u32, f64, usize); 64] = [(0, 0.0, 0); 64];
        let mut used = 0;
        for entry in uses {
            let a = node[entry.process as usize] as usize;
            for (table, factor) in [entry.first(), entry.second()] {
                if factor != 0.0 && used < parts.len() {
                    parts[used] = (table, factor, a);
                    used += 1;
                } else if factor != 0.0 {
                    return self.least_plain(uses, node);
                }
            }
        }
        let parts = &parts[..used];
        self.floor.fill(0.0);
        for &(table, factor, a) in parts {
            let row = &self.blocks.0[table as usize][a * self.count..][..self.count];
            self.floor.iter_mut().zip(row).for_each(|(floor, least)| *floor += factor * least);
        }
        // The most promising block first: a user's own node is mostly best.
        let mut first = 0;
        for block in 1..self.count {
            if self.floor[block] < self.floor[first] {
                first = block;
            }
        }
        for block in std::iter::once(first).chain((0..self.count).filter(|&block| block != first)) {
            let floor = self.floor[block];
            if floor > best.0 || floor == best.0 && block * BLOCK > best.1 {
                continue;
            }
            let range = block * BLOCK..((block + 1) * BLOCK).min(instance.nodes);
            let mut sums = [0.0; BLOCK];
            for &(table, factor, a) in parts {
                let Table::Pairs { nodes, costs } = &instance.tables[table as usize] else { continue };
                let row = &costs[a * nodes..][..*nodes][range.clone()];
                sums.iter_mut().zip(row).for_each(|(sum, cost)| *sum += factor * cost);
            }
            for (at, &sum) in range.zip(&sums) {
                if sum < best.0 || sum == best.0 && at < best.1 {
                    best = (sum, at);
                }
            }
        }
        (best.1, best.0)
    }

    fn least_plain(&mut self, uses: &[Use], node: &[u32]) -> (usize, f64) {
        self.sums.fill(0.0);
        for entry in uses {
            self.instance.add_uses(entry, node[entry.process as usize] as usize, &mut self.sums);
        }
        let mut best = (f64::INFINITY, 0);
        for (at, &sum) in self.sums.iter().enumerate() {
            if sum < best.0 {
                best = (sum, at);
            }
        }
        (best.1, best.0)
    }

    fn copies(&mut self, uses: &[Use], node: &[u32], go_on: &dyn Fn() -> bool) -> (Home, f64, f64) {
        let nodes = self.instance.nodes;
        self.sums.fill(0.0);
        self.reads.clear();
        for entry in uses {
            let a = node[entry.process as usize] as usize;
            match entry.op {
                Op::Write => self.instance.add_uses(entry, a, &mut self.sums),
                Op::Read => {
                    let start = self.reads.len();
                    self.reads.resize(start + nodes, 0.0);
                    self.instance.add_uses(entry, a, &mut self.reads[start..]);
                }
            }
        }
        match self.facility.solve(&self.sums, &self.reads, go_on) {
            Some((cost, bound, copies)) => (Home::of(copies.to_vec()), cost, bound),
            None => (Home::One(0), 0.0, 0.0),
        }
    }
}

/// The best homes of all segments, their cost and a bound on it. When `go_on` says no, they may not be the best.
pub fn homes(instance: &Instance<'_>, node: &[u32], go_on: &mut dyn FnMut() -> bool) -> (Vec<Home>, f64, f64) {
    let segments = instance.segments();
    let blocks = Blocks::new(instance);
    let part = |range: std::ops::Range<usize>, go_on: &dyn Fn() -> bool| {
        let mut separable = Separable::new(instance, &blocks);
        let mut homes = Vec::with_capacity(range.len());
        let (mut cost, mut bound) = (0.0, 0.0);
        for segment in range {
            let (home, own, least) = separable.home(segment, node, go_on);
            homes.push(home);
            cost += own;
            bound += least;
        }
        (homes, cost, bound)
    };
    super::parallel::pieces(segments, 20_000, go_on, part)
        .into_iter()
        .reduce(|mut all, more| {
            all.0.extend(more.0);
            (all.0, all.1 + more.1, all.2 + more.2)
        })
        .unwrap_or_default()
}
