//! A model as costs of processes, of segments and of pairs of them: the form that [`super::dual_ascent`] bounds.
//!
//! What is decided beforehand is folded in: pinned processes and segments, and segments with one user, which go where
//! that user likes them best, and segments that always go with one user ([`super::dominance`]). A segment that may have
//! copies is seen through a relaxation: each reader has a copy of its own for nothing, all writers share one.

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

/// Entries of all tables, eight bytes each, up to which those of processes that exchange nothing are among them. A
/// third more than models have that get here at all ([`super::strategy`]).
const MOST_ENTRIES_WHEN_COMPLETE: usize = 4_000_000;

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
        let mut collected = Collected::new(instance, weights);
        collected.close_nodes();
        let between = collected.add_segments();
        collected.add_between(between);
        collected.complete_messages();
        let paid = collected.paid();
        let rounding = collected.round(paid, known);
        let (nodes, processes, segments) = (instance.nodes, instance.processes(), instance.segments());
        let shape = Shape::new(nodes, processes, segments, collected.pairs);
        let mut costs = Costs {
            bound: if paid == 0.0 { 0.0 } else { -(rounding.whole(paid * (1.0 + 1e-12)) + 1.0) },
            node: vec![FREE; processes],
            room: instance.process_slots.iter().map(|&slots| slots.min(processes as u64) as u32).collect(),
            process: collected.process,
            segment: collected.segment,
            pair: collected.tables,
        };
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

/// What two processes pay for.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// Accesses of the first to a segment that goes with the second.
    Use(&'a Use),
    /// Messages from the first to the second.
    Post(&'a Post),
}

/// What one process pays for beside another one: the first, the second, and for what.
type Between<'a> = (u32, u32, Source<'a>);

/// The costs of a model while they are put together, in ns.
struct Collected<'a> {
    instance: &'a Instance<'a>,
    weights: &'a Weights,
    process: Vec<f64>,
    segment: Vec<f64>,
    pairs: Vec<Pair>,
    number: HashMap<Pair, usize>,
    tables: Vec<f64>,
}

impl<'a> Collected<'a> {
    fn new(instance: &'a Instance<'a>, weights: &'a Weights) -> Collected<'a> {
        Collected {
            instance,
            weights,
            process: vec![0.0; instance.processes() * instance.nodes],
            segment: vec![0.0; instance.segments() * instance.nodes],
            pairs: Vec::new(),
            number: HashMap::new(),
            tables: Vec::new(),
        }
    }

    /// The table of a pair, empty at first.
    fn table(&mut self, pair: Pair) -> &mut [f64] {
        let entries = self.instance.nodes * self.instance.nodes;
        let number = *self.number.entry(pair).or_insert_with(|| {
            self.pairs.push(pair);
            self.tables.resize(self.pairs.len() * entries, 0.0);
            self.pairs.len() - 1
        });
        &mut self.tables[number * entries..][..entries]
    }

    /// Where a process cannot be.
    fn close_nodes(&mut self) {
        let Collected { instance, ref mut process, .. } = *self;
        for number in 0..instance.processes() {
            for at in 0..instance.nodes {
                let closed =
                    instance.process_slots[at] == 0 || instance.process_pin(number).is_some_and(|pin| pin != at);
                if closed {
                    process[number * instance.nodes + at] = f64::INFINITY;
                }
            }
        }
    }

    /// What segments cost by themselves and their users beside them. Returns the uses of those that go with a process.
    fn add_segments(&mut self) -> Vec<Between<'a>> {
        let mut between = Vec::new();
        for (number, host) in dominance::hosts(self.instance).into_iter().enumerate() {
            match host {
                Some(host) => self.add_to_host(number, host, &mut between),
                None => self.add_segment(number),
            }
        }
        between
    }

    /// A segment that goes with the process `host`.
    fn add_to_host(&mut self, number: usize, host: u32, between: &mut Vec<Between<'a>>) {
        let (instance, weights) = (self.instance, self.weights);
        for entry in instance.uses_of(number) {
            if entry.process == host {
                let own = &mut self.process[host as usize * instance.nodes..][..instance.nodes];
                own.iter_mut().enumerate().for_each(|(a, own)| *own += weights.of_use(instance, entry, a, a));
            } else {
                between.push((entry.process, host, Source::Use(entry)));
            }
        }
    }

    fn add_segment(&mut self, number: usize) {
        let (instance, weights, nodes) = (self.instance, self.weights, self.instance.nodes);
        let open = self.open_to(number);
        let uses = instance.uses_of(number);
        let copies = instance.may_have_copies(number);
        let own = &mut self.segment[number * nodes..][..nodes];
        for entry in uses.iter().filter(|entry| copies && entry.op == Op::Read) {
            for a in 0..nodes {
                let cost = |&v: &usize| weights.of_use(instance, entry, a, v);
                let least = open.iter().map(cost).fold(f64::INFINITY, f64::min);
                self.process[entry.process as usize * nodes + a] += least;
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
                let cost =
                    |&v: &usize| own[v] + users.iter().map(|entry| weights.of_use(instance, entry, a, v)).sum::<f64>();
                self.process[user * nodes + a] += open.iter().map(cost).fold(f64::INFINITY, f64::min);
            }
            own.iter_mut().filter(|cost| cost.is_finite()).for_each(|cost| *cost = 0.0);
            return;
        }
        for entry in users {
            let table = self.table(Pair { process: entry.process, partner: Partner::Segment(number as u32) });
            for a in 0..nodes {
                open.iter().for_each(|&v| table[a * nodes + v] += weights.of_use(instance, entry, a, v));
            }
        }
    }

    /// The nodes that a segment may be on, where what it uses of their limits has its price.
    fn open_to(&mut self, number: usize) -> Vec<usize> {
        let Collected { instance, weights, ref mut segment, .. } = *self;
        let bytes = instance.model.segments[number].bytes;
        let own = &mut segment[number * instance.nodes..][..instance.nodes];
        let mut open = Vec::with_capacity(instance.nodes);
        for (at, own) in own.iter_mut().enumerate() {
            let pinned = instance.segment_pin(number).is_some_and(|pin| pin != at);
            if pinned || instance.memory[at] < bytes || instance.segment_slots[at] == 0 {
                *own = f64::INFINITY;
            } else {
                *own = weights.slot[at] + weights.byte[at] * bytes as f64;
                open.push(at);
            }
        }
        open
    }

    /// What processes pay for beside one another: these uses, and all messages.
    fn add_between(&mut self, mut between: Vec<Between<'a>>) {
        let (instance, weights, nodes) = (self.instance, self.weights, self.instance.nodes);
        between.extend(instance.posts.iter().map(|post| (post.from, post.to, Source::Post(post))));
        for (from, to, source) in between {
            let cost = |a: usize, b: usize| match source {
                Source::Use(entry) => weights.of_use(instance, entry, a, b),
                Source::Post(post) => weights.of_post(instance, post, a, b),
            };
            match (instance.process_pin(from as usize), instance.process_pin(to as usize)) {
                (Some(a), _) => (0..nodes).for_each(|b| self.process[to as usize * nodes + b] += cost(a, b)),
                (None, Some(b)) => (0..nodes).for_each(|a| self.process[from as usize * nodes + a] += cost(a, b)),
                (None, None) => {
                    let (first, second) = (from.min(to), from.max(to));
                    let table = self.table(Pair { process: first, partner: Partner::Process(second) });
                    for a in 0..nodes {
                        for b in 0..nodes {
                            let entry = if from == first { a * nodes + b } else { b * nodes + a };
                            table[entry] += cost(a, b);
                        }
                    }
                }
            }
        }
    }

    /// With every pair of processes there, no cost is lost where all nodes are taken.
    fn complete_messages(&mut self) {
        let (instance, entries) = (self.instance, self.instance.nodes * self.instance.nodes);
        let are_messages = self.pairs.iter().all(|pair| matches!(pair.partner, Partner::Process(_)));
        if self.pairs.len() <= 3 || !are_messages {
            return;
        }
        let is_free = |number: &u32| instance.process_pin(*number as usize).is_none();
        let free: Vec<u32> = (0..instance.processes() as u32).filter(is_free).collect();
        let count = free.len() * free.len().saturating_sub(1) / 2;
        if count * entries > MOST_ENTRIES_WHEN_COMPLETE || count > 2 * self.pairs.len() {
            return;
        }
        for (at, &first) in free.iter().enumerate() {
            let pairs = free[at + 1..].iter().map(|&second| Pair { process: first, partner: Partner::Process(second) });
            self.pairs.extend(pairs.filter(|pair| !self.number.contains_key(pair)));
        }
        self.tables.resize(self.pairs.len() * entries, 0.0);
    }

    /// What limits cost that are used up.
    fn paid(&self) -> f64 {
        let Collected { instance, weights, .. } = *self;
        let of = |limit: u64, price: f64| if limit == UNLIMITED { 0.0 } else { limit as f64 * price };
        let at =
            |at: usize| of(instance.segment_slots[at], weights.slot[at]) + of(instance.memory[at], weights.byte[at]);
        (0..instance.nodes).map(at).sum()
    }

    /// Makes all costs whole numbers, for a search below `known`.
    fn round(&mut self, paid: f64, known: f64) -> Rounding {
        let Collected { instance, weights, .. } = *self;
        let (process, segment, tables) = (&mut self.process, &mut self.segment, &mut self.tables);
        // More than what is known is too much, however much it is. Costs are rounded to parts of all of them together,
        // and beside one that stands for *never* everything else would be alike.
        let most = known + paid;
        for cost in process.iter_mut().chain(&mut *segment).chain(&mut *tables).filter(|cost| cost.is_finite()) {
            *cost = cost.min(most);
        }
        let nodes = instance.nodes;
        let rows =
            process.chunks_exact(nodes).chain(segment.chunks_exact(nodes)).chain(tables.chunks_exact(nodes * nodes));
        let largest = |row: &[f64]| row.iter().copied().filter(|cost| cost.is_finite()).fold(0.0, f64::max);
        let total = paid + rows.map(largest).sum::<f64>();
        // Prices of limits are no whole numbers.
        let whole = paid == 0.0 && weights.are_whole(instance);
        let rounding = Rounding::new(total, self.pairs.len() + instance.processes() + instance.segments(), whole);
        for cost in process.iter_mut().chain(segment).chain(tables) {
            *cost = rounding.whole(*cost);
        }
        rounding
    }
}
