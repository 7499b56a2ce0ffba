//! Bounds for models of any size: what each segment and each sender pays at least, on its own.
//!
//! The users of a segment are at best on the nodes nearest to it, the heaviest nearest; the partners of a sender
//! likewise (P. Gilmore 1962, E. Lawler 1963, row by row). For the largest of several loads, the mean is a bound, and
//! the least that one process must pay by itself.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hash;

use super::instance::{Instance, Post, Use};
use super::rounding;
use super::table::Table;
use crate::model::{Objective, Op};

/// Nodes from which a bound is looked for; above, only machines that look alike from everywhere are bounded this way.
const MOST_NODES: usize = 1024;

/// No placement costs less.
pub fn simple(instance: &Instance<'_>) -> f64 {
    let bound = match instance.objective {
        Objective::Sum => View::of_time(instance).total(),
        Objective::Makespan => {
            let processes = instance.processes();
            let mean = View::of_time(instance).total() / processes.max(1) as f64;
            let nearest = nearest_of_each(instance);
            (0..processes as u32).map(|process| alone(instance, process, nearest.as_deref())).fold(mean, f64::max)
        }
        Objective::MaxLink => View::of_links(instance).total() / instance.model.topology.links().max(1) as f64,
    };
    if instance.is_whole() && instance.objective == Objective::Sum { bound } else { bound * (1.0 - rounding::RELATIVE) }
}

/// What is added up: time, or bytes times links.
struct View<'a> {
    instance: &'a Instance<'a>,
    tables: Vec<Cow<'a, Table>>,
    links: bool,
}

type Parts = [(u32, f64); 2];

impl<'a> View<'a> {
    fn of_time(instance: &'a Instance<'a>) -> View<'a> {
        View { instance, tables: instance.tables.iter().map(Cow::Borrowed).collect(), links: false }
    }

    /// Links crossed from the process (table 0) and to it (table 1).
    fn of_links(instance: &'a Instance<'a>) -> View<'a> {
        let hops = |a: u32, b: u32| f64::from(instance.model.topology.hops(a, b));
        let there = Table::of(instance.model, hops, 2);
        let back = Table::of(instance.model, |a, b| hops(b, a), 2);
        View { instance, tables: vec![Cow::Owned(there), Cow::Owned(back)], links: true }
    }

    fn total(&self) -> f64 {
        self.segments() + self.messages()
    }

    fn of_use(&self, entry: &Use) -> Parts {
        match (self.links, entry.op) {
            (false, _) => [entry.first(), entry.second()],
            (true, Op::Write) => [(0, entry.bytes), (0, 0.0)],
            (true, Op::Read) => [(1, entry.bytes), (0, 0.0)],
        }
    }

    fn of_post(&self, post: &Post) -> Parts {
        if self.links { [(0, post.bytes), (0, 0.0)] } else { [post.first, post.second] }
    }

    /// For each node that stands for others the costs of the `count` nearest places for processes.
    fn nearest(&self, table: &Table, count: usize, outwards: bool) -> Vec<Vec<f64>> {
        let nodes = self.instance.nodes;
        let slots = self.instance.process_slots.iter().copied().max().unwrap_or(0).min(count as u64 + 1) as usize;
        let standing = match table {
            Table::Pairs { .. } if nodes > MOST_NODES => 0..0,
            Table::Pairs { .. } => 0..nodes,
            Table::Differences { .. } | Table::Levels { .. } => 0..1,
        };
        let of = |node: usize| {
            let cost = |other: usize| match outwards {
                true if other == node => 0.0,
                true => table.at(node, other),
                false => table.at(other, node),
            };
            let mut costs: Vec<f64> = (0..nodes).map(cost).collect();
            costs.sort_by(f64::total_cmp);
            let mut places = costs.into_iter().flat_map(|cost| std::iter::repeat_n(cost, slots));
            if outwards {
                // The sender itself takes a place beside itself; of what costs nothing one is gone.
                places.next();
            }
            places.take(count).collect()
        };
        standing.map(of).collect()
    }

    fn segments(&self) -> f64 {
        let instance = self.instance;
        let most = (0..instance.segments()).map(|segment| instance.uses_of(segment).len()).max().unwrap_or(0);
        let near: Vec<_> = self.tables.iter().map(|table| self.nearest(table, most, false)).collect();
        let mut weights: Vec<Vec<(u32, f64)>> = vec![Vec::new(); self.tables.len()];
        let mut sum = 0.0;
        for segment in 0..instance.segments() {
            let copies = instance.may_have_copies(segment);
            weights.iter_mut().for_each(Vec::clear);
            let mut known: HashMap<(u32, u32), usize> = HashMap::new();
            for entry in instance.uses_of(segment) {
                for (table, factor) in self.of_use(entry) {
                    if factor == 0.0 {
                        continue;
                    }
                    if copies && entry.op == Op::Read {
                        sum += rearranged(&mut [(0, factor)], &near[table as usize]);
                        continue;
                    }
                    // What one process pays it pays from one node.
                    let list = &mut weights[table as usize];
                    add(list, &mut known, (table, entry.process), (entry.process, factor));
                }
            }
            for (weights, near) in weights.iter_mut().zip(&near) {
                sum += rearranged(weights, near);
            }
        }
        sum
    }

    fn messages(&self) -> f64 {
        let instance = self.instance;
        if instance.posts.is_empty() {
            return 0.0;
        }
        let mut sent: Vec<Vec<Vec<(u32, f64)>>> = vec![vec![Vec::new(); instance.processes()]; self.tables.len()];
        let mut known: HashMap<(u32, u32, u32), usize> = HashMap::new();
        for post in &instance.posts {
            for (table, factor) in self.of_post(post) {
                if factor != 0.0 {
                    let list = &mut sent[table as usize][post.from as usize];
                    add(list, &mut known, (table, post.from, post.to), (post.to, factor));
                }
            }
        }
        let mut sum = 0.0;
        for (table, sent) in self.tables.iter().zip(&mut sent) {
            let most = sent.iter().map(Vec::len).max().unwrap_or(0);
            let near = self.nearest(table, most, true);
            sum += sent.iter_mut().map(|weights| rearranged(weights, &near)).sum::<f64>();
        }
        sum
    }
}

/// Adds a weight to the entry of a list that `known` has under this key, or as a new one.
fn add<K: Eq + Hash>(list: &mut Vec<(u32, f64)>, known: &mut HashMap<K, usize>, key: K, weight: (u32, f64)) {
    let next = list.len();
    let at = *known.entry(key).or_insert(next);
    if at < next {
        list[at].1 += weight.1;
    } else {
        list.push(weight);
    }
}

/// The least over all nodes of weights times distances, the heaviest with the nearest.
fn rearranged(weights: &mut [(u32, f64)], nearest: &[Vec<f64>]) -> f64 {
    if weights.is_empty() {
        return 0.0;
    }
    weights.sort_by(|x, y| y.1.total_cmp(&x.1));
    let product = |near: &Vec<f64>| {
        if near.len() < weights.len() {
            return 0.0;
        }
        weights.iter().zip(near).map(|(weight, near)| weight.1 * near).sum::<f64>()
    };
    let least = nearest.iter().map(product).fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 0.0 }
}

/// Looks of [`alone`] at pairs of nodes, above which the nearest node is known for each table instead.
const MOST_LOOKS: usize = 50_000_000;

/// For each table and node the least that an access costs from there, where looking at every pair for every access
/// would take too long. An access of two parts may have no node that is best for both: then this is less than it costs.
fn nearest_of_each(instance: &Instance<'_>) -> Option<Vec<Vec<f64>>> {
    let nodes = instance.nodes;
    if instance.uses.len() * nodes * nodes <= MOST_LOOKS || nodes > MOST_NODES {
        return None;
    }
    let least = |table: &Table, a: usize| (0..nodes).map(|v| table.at(a, v)).fold(f64::INFINITY, f64::min);
    Some(instance.tables.iter().map(|table| (0..nodes).map(|a| least(table, a)).collect()).collect())
}

/// What one process pays at least, each of its accesses at the best node for it.
fn alone(instance: &Instance<'_>, process: u32, nearest: Option<&[Vec<f64>]>) -> f64 {
    let places: Vec<usize> = match instance.process_pin(process as usize) {
        Some(pin) => vec![pin],
        None if instance.nodes <= MOST_NODES => (0..instance.nodes).collect(),
        None => return 0.0,
    };
    let of = |&a: &usize| -> f64 {
        instance
            .of_process()
            .row(process as usize)
            .iter()
            .map(|&number| {
                let entry = &instance.uses[number as usize];
                let least = |(table, factor): (u32, f64)| match nearest {
                    Some(nearest) if factor != 0.0 => factor * nearest[table as usize][a],
                    _ => 0.0,
                };
                match instance.segment_pin(entry.segment as usize) {
                    Some(pin) => instance.use_cost(entry, a, pin),
                    None if nearest.is_some() => least(entry.first()) + least(entry.second()),
                    None => (0..instance.nodes).map(|v| instance.use_cost(entry, a, v)).fold(f64::INFINITY, f64::min),
                }
            })
            .sum()
    };
    places.iter().map(of).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::simple;
    use crate::model::{Access, CostModel, HopBytes, Message, Model, Objective, Op, Process, Segment};
    use crate::search::instance::Instance;
    use crate::topology::{Topology, Torus};

    /// So many that looking through all that were before would take minutes.
    const COUNT: u32 = 200_000;

    fn model() -> Model {
        let process = |number: u32| Process { id: number.to_string(), pin: None };
        let access = |process| Access { process: process % COUNT, segment: 0, op: Op::Read, count: 1, size: 8 };
        Model {
            id: None,
            topology: Topology::Torus(Torus { dims: vec![2], directed: false }),
            cost_model: CostModel::HopBytes(HopBytes { ns_per_byte_hop: 1.0 }),
            processes: (0..COUNT).map(process).collect(),
            segments: vec![Segment { id: "hot".to_owned(), bytes: 8, pin: None, replicable: false }],
            // Each process twice: the second access is the first one over again.
            accesses: (0..2 * COUNT).map(access).collect(),
            messages: (1..COUNT).map(|to| Message { from: 0, to, count: 1, size: 8 }).collect(),
            process_slots: Some(vec![u64::from(COUNT) / 2; 2]),
            segment_slots: None,
            memory_bytes: None,
            objective: Objective::Sum,
        }
    }

    #[test]
    fn a_segment_that_every_process_accesses_and_a_process_that_sends_to_all() {
        let model = model();
        let instance = Instance::new(&model, Objective::Sum);
        assert_eq!(instance.uses.len(), COUNT as usize);
        assert!(instance.uses.iter().zip(0..).all(|(entry, process)| entry.process == process && entry.bytes == 16.0));
        // Half of them are on the other node, one hop away.
        assert_eq!(simple(&instance), f64::from(COUNT / 2) * (16.0 + 8.0));
    }
}
