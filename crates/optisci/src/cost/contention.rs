//! How much of what processes pay for wires lies on links that other processes use as well.
//!
//! The paper's model knows no contention, and totals here know none either: a wire costs the same however many use it.
//! This only splits what is paid. The wire's part of an access is spread evenly over the links of the route that its
//! data takes (the one that link loads are counted on); on each link the others' part of all bytes there counts as
//! contended. With w(p, l) what process p pays for the wire on link l, b(p, l) its bytes there and b(l) all bytes
//! there:
//!
//! contended(p) = sum over l of w(p, l) (b(l) - b(p, l)) / b(l)
//!
//! Costs of a matrix are not those of links: nothing of them is contended. See `docs/design/025-shared-links.md`.

use serde::Serialize;

use super::{Costs, Terms};
use crate::model::{CostModel, Op};
use crate::placement::Placement;
use crate::sum::Sum;
use crate::topology::{Node, Topology};

/// What the time of a process is spent on, in ns. All of it together is what the process pays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spending {
    /// Memory at both ends.
    pub memory_ns: f64,
    /// Crossing the PCI bus.
    pub bus_ns: f64,
    /// Work of the bridges.
    pub bridge_ns: f64,
    /// Inserting packets onto the ring.
    pub insertion_ns: f64,
    /// Wires, as far as the process has their links for itself.
    pub wire_ns: f64,
    /// Wires, as far as their links carry what others access.
    pub contended_ns: f64,
}

impl Spending {
    /// Its parts, in the order of the fields.
    pub fn parts(&self) -> [f64; 6] {
        [self.memory_ns, self.bus_ns, self.bridge_ns, self.insertion_ns, self.wire_ns, self.contended_ns]
    }

    /// All of it.
    pub fn total_ns(&self) -> f64 {
        self.parts().iter().sum()
    }

    /// The terms of what a process pays, of whose wire so much is contended.
    pub fn new(terms: Terms, contended_ns: f64) -> Spending {
        let Terms { memory_ns, bus_ns, bridge_ns, insertion_ns, wire_ns } = terms;
        // The two were rounded apart.
        let wire_ns = (wire_ns - contended_ns).max(0.0);
        Spending { memory_ns, bus_ns, bridge_ns, insertion_ns, wire_ns, contended_ns }
    }
}

/// An access or message where things are: from whom, which way its bytes go, what they and its wire are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// Index of the process that pays.
    pub process: u32,
    /// Where the bytes come from.
    pub from: Node,
    /// Where they go.
    pub to: Node,
    /// Bytes of all of these accesses.
    pub bytes: u64,
    /// What their wire costs, ns; 0 where costs are not those of links.
    pub wire_ns: f64,
}

/// What one process has to do with one link.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Crossing {
    process: u32,
    bytes: u64,
    wire_ns: f64,
}

/// Who crosses which link, with how many bytes, and what that costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossings {
    processes: usize,
    /// Where the crossings of each link begin, and the number of all.
    starts: Vec<usize>,
    /// Link by link, ascending by process.
    crossings: Vec<Crossing>,
}

/// Transfers that come to others, or are taken from them.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Bytes count modulo 2^64, so that those that are taken away are counted like those that come.
    crossings: Vec<(usize, Crossing)>,
}

impl Changes {
    /// Adds a transfer on a machine of this topology.
    pub fn add(&mut self, topology: &Topology, transfer: Transfer) {
        cross(topology, transfer, |link, crossing| self.crossings.push((link, crossing)));
    }

    /// Takes a transfer away.
    pub fn remove(&mut self, topology: &Topology, transfer: Transfer) {
        cross(topology, transfer, |link, crossing| {
            let (bytes, wire_ns) = (crossing.bytes.wrapping_neg(), -crossing.wire_ns);
            self.crossings.push((link, Crossing { bytes, wire_ns, ..crossing }));
        });
    }
}

fn cross(topology: &Topology, transfer: Transfer, mut visit: impl FnMut(usize, Crossing)) {
    let Transfer { process, from, to, bytes, wire_ns } = transfer;
    let wire_ns = wire_ns / f64::from(topology.hops(from, to).max(1));
    topology.route(from, to, |link| visit(link, Crossing { process, bytes, wire_ns }));
}

impl Crossings {
    /// Those of a placement.
    pub fn new(costs: &Costs<'_>, placement: &Placement) -> Crossings {
        let model = costs.model();
        // By process, sorted by counting; what is not an access is a message.
        let payers = model.accesses.iter().map(|access| access.process).chain(model.messages.iter().map(|m| m.from));
        let (starts, entries) = grouped(payers.enumerate(), model.processes.len());
        let mut ledger = Ledger::new(&model.topology);
        for (process, &a) in (0u32..).zip(&placement.processes) {
            for &entry in &entries[starts[process as usize]..starts[process as usize + 1]] {
                let Some(access) = model.accesses.get(entry) else {
                    let message = &model.messages[entry - model.accesses.len()];
                    let b = placement.processes[message.to as usize];
                    ledger.add(costs.transfer(process, Op::Write, message.count, message.size, a, b));
                    continue;
                };
                let home = &placement.segments[access.segment as usize];
                let mut go = |b| ledger.add(costs.transfer(process, access.op, access.count, access.size, a, b));
                match access.op {
                    Op::Read => go(costs.nearest_node(home, access.size, a)),
                    Op::Write => home.nodes().iter().for_each(|&b| go(b)),
                }
            }
            ledger.close(process);
        }
        ledger.by_link(model.processes.len())
    }

    fn of(&self, link: usize) -> &[Crossing] {
        &self.crossings[self.starts[link]..self.starts[link + 1]]
    }

    /// What is contended of each process's wire, in ns.
    pub fn contended_ns(&self) -> Vec<f64> {
        let mut sums = vec![Sum::default(); self.processes];
        for link in 0..self.starts.len() - 1 {
            contended(self.of(link), |process, ns| sums[process].add(ns));
        }
        sums.iter().map(Sum::value).collect()
    }

    /// The same after changes: `contended_ns` is what it was before them. Looks only at links that change.
    pub fn follow(&self, changes: &Changes, contended_ns: &mut [f64]) {
        // A list per link, first things first: cheaper than to sort, in every frame of a drag.
        let mut first = vec![None; self.starts.len() - 1];
        let mut next = vec![None; changes.crossings.len()];
        let mut changed = Vec::new();
        for (at, &(link, _)) in changes.crossings.iter().enumerate().rev() {
            next[at] = first[link].replace(at);
            if next[at].is_none() {
                changed.push(link);
            }
        }
        let mut now = Vec::new();
        for link in changed {
            let before = self.of(link);
            contended(before, |process, ns| contended_ns[process] -= ns);
            now.clear();
            now.extend_from_slice(before);
            let mut at = first[link];
            while let Some(this) = at {
                let (_, change) = changes.crossings[this];
                match now.binary_search_by_key(&change.process, |crossing| crossing.process) {
                    Ok(at) => {
                        now[at].bytes = now[at].bytes.wrapping_add(change.bytes);
                        now[at].wire_ns += change.wire_ns;
                    }
                    Err(at) => now.insert(at, change),
                }
                at = next[this];
            }
            contended(&now, |process, ns| contended_ns[process] += ns);
        }
    }
}

/// Crossings while they are written down, process by process.
struct Ledger<'a> {
    topology: &'a Topology,
    /// Of the process that is being written down: bytes and ns on each link, and the links that it crosses.
    open: Vec<(u64, f64)>,
    crossed: Vec<usize>,
    is_crossed: Vec<bool>,
    closed: Vec<(usize, Crossing)>,
}

impl<'a> Ledger<'a> {
    fn new(topology: &'a Topology) -> Ledger<'a> {
        let links = topology.links();
        let (open, is_crossed) = (vec![(0, 0.0); links], vec![false; links]);
        Ledger { topology, open, crossed: Vec::new(), is_crossed, closed: Vec::new() }
    }

    fn add(&mut self, transfer: Transfer) {
        cross(self.topology, transfer, |link, crossing| {
            if !std::mem::replace(&mut self.is_crossed[link], true) {
                self.crossed.push(link);
            }
            let (bytes, ns) = &mut self.open[link];
            *bytes += crossing.bytes;
            *ns += crossing.wire_ns;
        });
    }

    fn close(&mut self, process: u32) {
        for link in self.crossed.drain(..) {
            let (bytes, wire_ns) = std::mem::take(&mut self.open[link]);
            self.is_crossed[link] = false;
            self.closed.push((link, Crossing { process, bytes, wire_ns }));
        }
    }

    /// All that is closed; processes stay in their order.
    fn by_link(self, processes: usize) -> Crossings {
        let closed = self.closed.iter().map(|&(link, crossing)| (crossing, link as u32));
        let (starts, crossings) = grouped(closed, self.open.len());
        Crossings { processes, starts, crossings }
    }
}

/// Values by their group, sorted by counting: those of one group keep their order. With them, where each group begins.
fn grouped<T: Clone>(values: impl Iterator<Item = (T, u32)> + Clone, groups: usize) -> (Vec<usize>, Vec<T>) {
    let mut starts = vec![0; groups + 1];
    values.clone().for_each(|(_, group)| starts[group as usize + 1] += 1);
    for group in 0..groups {
        starts[group + 1] += starts[group];
    }
    let Some((any, _)) = values.clone().next() else { return (starts, Vec::new()) };
    let (mut next, mut grouped) = (starts.clone(), vec![any; starts[groups]]);
    for (value, group) in values {
        let place = &mut next[group as usize];
        grouped[*place] = value;
        *place += 1;
    }
    (starts, grouped)
}

/// Tells what each process that crosses a link pays there for a wire that others use.
fn contended(crossings: &[Crossing], mut tell: impl FnMut(usize, f64)) {
    let all: u64 = crossings.iter().fold(0, |all, crossing| all.wrapping_add(crossing.bytes));
    if all == 0 {
        return;
    }
    for crossing in crossings {
        let others = all - crossing.bytes;
        if others > 0 {
            tell(crossing.process as usize, crossing.wire_ns * (others as f64 / all as f64));
        }
    }
}

impl Costs<'_> {
    /// What the time of each process is spent on.
    pub fn spending(&self, placement: &Placement) -> Vec<Spending> {
        let model = self.model;
        let mut sums = vec![[Sum::default(); 5]; model.processes.len()];
        let mut add = |process: u32, weight: f64, terms: Terms| {
            let parts = [terms.memory_ns, terms.bus_ns, terms.bridge_ns, terms.insertion_ns, terms.wire_ns];
            sums[process as usize].iter_mut().zip(parts).for_each(|(sum, part)| sum.add(weight * part));
        };
        for access in &model.accesses {
            let a = placement.processes[access.process as usize];
            let home = &placement.segments[access.segment as usize];
            let mut pay = |b: Node| {
                add(access.process, self.weight(access.count), self.terms(access.op, access.size, a, b));
            };
            match access.op {
                Op::Read => pay(self.nearest_node(home, access.size, a)),
                Op::Write => home.nodes().iter().for_each(|&b| pay(b)),
            }
        }
        for message in &model.messages {
            let (a, b) = (placement.processes[message.from as usize], placement.processes[message.to as usize]);
            if a != b {
                add(message.from, self.weight(message.count), self.terms(Op::Write, message.size, a, b));
            }
        }
        let contended_ns = Crossings::new(self, placement).contended_ns();
        let spent = sums.iter().zip(contended_ns).map(|(sums, contended_ns)| {
            let [memory_ns, bus_ns, bridge_ns, insertion_ns, wire_ns] = sums.map(|sum| sum.value());
            Spending::new(Terms { memory_ns, bus_ns, bridge_ns, insertion_ns, wire_ns }, contended_ns)
        });
        spent.collect()
    }

    /// What `count` accesses of `size` bytes by a process on `a` to something on `b` do to links; messages are writes.
    pub fn transfer(&self, process: u32, op: Op, count: u64, size: u64, a: Node, b: Node) -> Transfer {
        let count = self.model.weight(count);
        let (from, to) = if op == Op::Read { (b, a) } else { (a, b) };
        let wire_ns = match self.model.cost_model {
            CostModel::Matrix(_) => 0.0,
            _ => count as f64 * self.terms(op, size, a, b).wire_ns,
        };
        Transfer { process, from, to, bytes: count * size, wire_ns }
    }
}
