//! A model as costs of processes, of segments and of pairs of them: the form that [`super::dual_ascent`] bounds.
//!
//! What is decided beforehand is folded in: pinned processes and segments, and segments with one user, which go where
//! that user likes them best, and segments that always go with one user ([`super::dominance`]). A segment that may have copies is seen through a relaxation: each reader has a copy of its
//! own for nothing, all writers share one.

use std::collections::HashMap;

use super::dominance;
use super::dual_ascent::{Costs, FREE, Pair, Partner, Shape};
use super::instance::{Instance, Post, Use};
use super::rounding::Rounding;
use super::weights::Weights;
use crate::model::{Op, UNLIMITED};

/// The costs of a model in whole numbers.
pub struct Pairs {
    /// Which pairs there are.
    pub shape: Shape,
    /// What they cost.
    pub costs: Costs,
    /// How they were rounded.
    pub rounding: Rounding,
}

/// What two processes pay for.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// Accesses of the first to a segment that goes with the second.
    Use(&'a Use),
    /// Messages from the first to the second.
    Post(&'a Post),
}

/// What there would be to store: the entries of all tables of pairs.
pub fn entries(instance: &Instance<'_>) -> usize {
    let mut pairs: std::collections::HashSet<(u32, u32, bool)> = std::collections::HashSet::new();
    pairs.extend(instance.uses.iter().map(|entry| (entry.process, entry.segment, true)));
    pairs.extend(instance.posts.iter().map(|post| (post.from.min(post.to), post.from.max(post.to), false)));
    pairs.len().saturating_mul(instance.nodes * instance.nodes)
}

impl Pairs {
    /// The costs of a model as `weights` count them, for a search below `known`.
    pub fn new(instance: &Instance<'_>, weights: &Weights, known: f64) -> Pairs {
        let (nodes, processes, segments) = (instance.nodes, instance.processes(), instance.segments());
        let mut process = vec![0.0; processes * nodes];
        let mut segment = vec![0.0; segments * nodes];
        let mut number: HashMap<Pair, usize> = HashMap::new();
        let mut pairs: Vec<Pair> = Vec::new();
        let mut tables: Vec<f64> = Vec::new();
        let mut table_of = |pair: Pair, tables: &mut Vec<f64>| {
            *number.entry(pair).or_insert_with(|| {
                pairs.push(pair);
                tables.resize(pairs.len() * nodes * nodes, 0.0);
                pairs.len() - 1
            })
        };
        for number in 0..processes {
            for at in 0..nodes {
                let closed =
                    instance.process_slots[at] == 0 || instance.process_pin(number).is_some_and(|pin| pin != at);
                if closed {
                    process[number * nodes + at] = f64::INFINITY;
                }
            }
        }
        let mut between: Vec<(u32, u32, Source<'_>)> = Vec::new();
        for (number, host) in dominance::hosts(instance).into_iter().enumerate() {
            if let Some(host) = host {
                for entry in instance.uses_of(number) {
                    if entry.process == host {
                        let own = &mut process[host as usize * nodes..][..nodes];
                        own.iter_mut().enumerate().for_each(|(a, own)| *own += weights.of_use(instance, entry, a, a));
                    } else {
                        between.push((entry.process, host, Source::Use(entry)));
                    }
                }
                continue;
            }
            let bytes = instance.model.segments[number].bytes;
            let uses = instance.uses_of(number);
            let copies = instance.may_have_copies(number);
            let own = &mut segment[number * nodes..][..nodes];
            let mut open = Vec::with_capacity(nodes);
            for (at, own) in own.iter_mut().enumerate() {
                let pinned = instance.segment_pin(number).is_some_and(|pin| pin != at);
                if pinned || instance.memory[at] < bytes || instance.segment_slots[at] == 0 {
                    *own = f64::INFINITY;
                } else {
                    *own = weights.slot[at] + weights.byte[at] * bytes as f64;
                    open.push(at);
                }
            }
            for entry in uses.iter().filter(|entry| copies && entry.op == Op::Read) {
                for a in 0..nodes {
                    let cost = |&v: &usize| weights.of_use(instance, entry, a, v);
                    process[entry.process as usize * nodes + a] += open.iter().map(cost).fold(f64::INFINITY, f64::min);
                }
            }
            let shared = || uses.iter().filter(|entry| !(copies && entry.op == Op::Read));
            let free = |entry: &&Use| instance.process_pin(entry.process as usize).is_none();
            for entry in shared().filter(|entry| !free(entry)) {
                let pin = instance.process_pin(entry.process as usize).unwrap_or_default();
                open.iter().for_each(|&v| own[v] += weights.of_use(instance, entry, pin, v));
            }
            let users: Vec<_> = shared().filter(free).collect();
            let single = users.first().is_some_and(|first| users.iter().all(|entry| entry.process == first.process));
            if single {
                let user = users[0].process as usize;
                for a in 0..nodes {
                    let cost = |&v: &usize| {
                        own[v] + users.iter().map(|entry| weights.of_use(instance, entry, a, v)).sum::<f64>()
                    };
                    process[user * nodes + a] += open.iter().map(cost).fold(f64::INFINITY, f64::min);
                }
                own.iter_mut().filter(|cost| cost.is_finite()).for_each(|cost| *cost = 0.0);
            } else {
                for entry in users {
                    let pair = Pair { process: entry.process, partner: Partner::Segment(number as u32) };
                    let table = table_of(pair, &mut tables);
                    for a in 0..nodes {
                        for &v in &open {
                            tables[table * nodes * nodes + a * nodes + v] += weights.of_use(instance, entry, a, v);
                        }
                    }
                }
            }
        }
        between.extend(instance.posts.iter().map(|post| (post.from, post.to, Source::Post(post))));
        for (from, to, source) in between {
            let cost = |a: usize, b: usize| match source {
                Source::Use(entry) => weights.of_use(instance, entry, a, b),
                Source::Post(post) => weights.of_post(instance, post, a, b),
            };
            match (instance.process_pin(from as usize), instance.process_pin(to as usize)) {
                (Some(a), _) => (0..nodes).for_each(|b| process[to as usize * nodes + b] += cost(a, b)),
                (None, Some(b)) => (0..nodes).for_each(|a| process[from as usize * nodes + a] += cost(a, b)),
                (None, None) => {
                    let (first, second) = (from.min(to), from.max(to));
                    let table = table_of(Pair { process: first, partner: Partner::Process(second) }, &mut tables);
                    for a in 0..nodes {
                        for b in 0..nodes {
                            let entry = if from == first { a * nodes + b } else { b * nodes + a };
                            tables[table * nodes * nodes + entry] += cost(a, b);
                        }
                    }
                }
            }
        }
        if pairs_are_messages(&pairs) {
            // With every pair of processes there, no cost is lost where all nodes are taken.
            let free: Vec<u32> =
                (0..processes as u32).filter(|&number| instance.process_pin(number as usize).is_none()).collect();
            let mut all = Vec::new();
            for (at, &first) in free.iter().enumerate() {
                all.extend(
                    free[at + 1..].iter().map(|&second| Pair { process: first, partner: Partner::Process(second) }),
                );
            }
            if all.len() * nodes * nodes <= 4_000_000 && all.len() <= 2 * pairs.len() {
                for pair in all {
                    if !number.contains_key(&pair) {
                        pairs.push(pair);
                    }
                }
                tables.resize(pairs.len() * nodes * nodes, 0.0);
            }
        }
        let paid: f64 = (0..nodes)
            .map(|at| {
                let of = |limit: u64, price: f64| if limit == UNLIMITED { 0.0 } else { limit as f64 * price };
                of(instance.segment_slots[at], weights.slot[at]) + of(instance.memory[at], weights.byte[at])
            })
            .sum();
        // More than what is known is too much, however much it is. Costs are rounded to parts of all of them together, and
        // beside one that stands for *never* everything else would be alike.
        let most = known + paid;
        for cost in process.iter_mut().chain(&mut segment).chain(&mut tables).filter(|cost| cost.is_finite()) {
            *cost = cost.min(most);
        }
        let rows =
            process.chunks_exact(nodes).chain(segment.chunks_exact(nodes)).chain(tables.chunks_exact(nodes * nodes));
        let largest = |row: &[f64]| row.iter().copied().filter(|cost| cost.is_finite()).fold(0.0, f64::max);
        let total = paid + rows.map(largest).sum::<f64>();
        // Prices of limits are no whole numbers.
        let whole = paid == 0.0 && weights.are_whole(instance);
        let rounding = Rounding::new(total, pairs.len() + processes + segments, whole);
        for cost in process.iter_mut().chain(&mut segment).chain(&mut tables) {
            *cost = rounding.whole(*cost);
        }
        let mut costs = Costs {
            bound: -(rounding.whole(paid * (1.0 + 1e-12)) + 1.0),
            node: vec![FREE; processes],
            room: instance.process_slots.iter().map(|&slots| slots.min(processes as u64) as u32).collect(),
            process,
            segment,
            pair: tables,
        };
        if paid == 0.0 {
            costs.bound = 0.0;
        }
        let shape = Shape::new(nodes, processes, segments, pairs);
        for number in 0..processes {
            if let Some(pin) = instance.process_pin(number)
                && costs.room[pin] > 0
            {
                costs.place(&shape, number, pin);
            }
        }
        Pairs { shape, costs, rounding }
    }
}

fn pairs_are_messages(pairs: &[Pair]) -> bool {
    pairs.len() > 3 && pairs.iter().all(|pair| matches!(pair.partner, Partner::Process(_)))
}
