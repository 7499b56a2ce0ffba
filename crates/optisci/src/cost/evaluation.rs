//! What a whole placement costs: per process, per link, altogether, and which limits it breaks.
//!
//! Sums run in the order of the model's accesses and messages and are compensated: the same bytes on every run.

use std::fmt;

use serde::Serialize;

use super::{Costs, Terms, access};
use crate::counted::counted;
use crate::model::{Model, Objective, Op};
use crate::placement::{Home, Placement};
use crate::sum::Sum;
use crate::topology::Node;

/// What a placement costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// All processes together, ns: the paper's Phi.
    pub total_ns: f64,
    /// The process that takes longest, ns.
    pub makespan_ns: f64,
    /// Bytes on the busiest directed link.
    pub max_link_bytes: u64,
    /// Each process, by index.
    pub per_process: Vec<ProcessCost>,
    /// Bytes on each directed link, by its number in the topology.
    pub per_link: Vec<u64>,
    /// Limits and pins that the placement breaks; none: it is feasible.
    pub violations: Vec<Violation>,
}

impl Evaluation {
    /// The cost that a search makes small: ns, or bytes for [`Objective::MaxLink`].
    pub fn cost(&self, objective: Objective) -> f64 {
        match objective {
            Objective::Sum => self.total_ns,
            Objective::Makespan => self.makespan_ns,
            Objective::MaxLink => self.max_link_bytes as f64,
        }
    }

    /// The placement obeys all limits and pins.
    pub fn is_feasible(&self) -> bool {
        self.violations.is_empty()
    }
}

/// What one process pays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ProcessCost {
    /// Reading segments, ns.
    pub read_ns: f64,
    /// Writing segments, ns.
    pub write_ns: f64,
    /// Sending messages, ns.
    pub message_ns: f64,
}

impl ProcessCost {
    /// All of it.
    pub fn total_ns(&self) -> f64 {
        self.read_ns + self.write_ns + self.message_ns
    }
}

/// A limit or a pin that a placement breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// More processes on a node than it has slots for.
    ProcessSlots {
        /// The node.
        node: Node,
        /// Processes on it.
        used: u64,
        /// Its slots.
        limit: u64,
    },
    /// More segments on a node, copies included, than it has slots for.
    SegmentSlots {
        /// The node.
        node: Node,
        /// Segments on it.
        used: u64,
        /// Its slots.
        limit: u64,
    },
    /// More bytes of segments on a node, copies included, than its memory holds.
    Memory {
        /// The node.
        node: Node,
        /// Bytes on it.
        used: u128,
        /// Its memory.
        limit: u64,
    },
    /// A process that is not on the node that it is pinned to.
    ProcessPin {
        /// Index of the process.
        process: usize,
        /// The node that it is pinned to.
        pin: Node,
        /// Where it is.
        node: Node,
    },
    /// A segment that is not on the node that it is pinned to, or not only there.
    SegmentPin {
        /// Index of the segment.
        segment: usize,
        /// The node that it is pinned to.
        pin: Node,
    },
    /// Several copies of a segment that is not replicable.
    Copies {
        /// Index of the segment.
        segment: usize,
        /// How many copies.
        copies: usize,
    },
}

impl Costs<'_> {
    /// The copy that a process on `a` reads: the cheapest, of equal ones the lowest node. And what one read costs.
    pub fn nearest(&self, home: &Home, size: u64, a: Node) -> (Node, f64) {
        let mut best = (0, f64::INFINITY);
        for &node in home.nodes() {
            let ns = self.access_ns(Op::Read, size, a, node);
            if ns < best.1 {
                best = (node, ns);
            }
        }
        best
    }

    /// The node of that copy alone, for which nothing is computed where there is no choice.
    pub fn nearest_node(&self, home: &Home, size: u64, a: Node) -> Node {
        match home {
            Home::One(node) => *node,
            Home::Copies(_) => self.nearest(home, size, a).0,
        }
    }

    /// What a placement costs.
    ///
    /// # Panics
    /// When the placement is not one of this model: another number of processes or segments, a node that does not
    /// exist.
    pub fn evaluate(&self, placement: &Placement) -> Evaluation {
        let per_process = self.per_process(placement);
        let per_link = self.per_link(placement);
        Evaluation {
            total_ns: total(&per_process),
            makespan_ns: longest(&per_process),
            max_link_bytes: busiest(&per_link),
            per_process,
            per_link,
            violations: violations(self.model, placement),
        }
    }

    /// What [`evaluate`](Costs::evaluate) says about one objective, to the last bit, and nothing else.
    pub fn objective(&self, objective: Objective, placement: &Placement) -> f64 {
        match objective {
            Objective::Sum => total(&self.per_process(placement)),
            Objective::Makespan => longest(&self.per_process(placement)),
            Objective::MaxLink => busiest(&self.per_link(placement)) as f64,
        }
    }

    /// What each process pays.
    fn per_process(&self, placement: &Placement) -> Vec<ProcessCost> {
        let mut sums = vec![[Sum::default(); 3]; self.model.processes.len()];
        for access in &self.model.accesses {
            let a = placement.processes[access.process as usize];
            let home = &placement.segments[access.segment as usize];
            let weight = self.weight(access.count);
            let [read, write, _] = &mut sums[access.process as usize];
            match access.op {
                Op::Read => read.add(weight * self.nearest(home, access.size, a).1),
                Op::Write => {
                    let ns = |&node: &Node| self.access_ns(Op::Write, access.size, a, node);
                    home.nodes().iter().for_each(|node| write.add(weight * ns(node)));
                }
            }
        }
        for message in &self.model.messages {
            let (a, b) = (placement.processes[message.from as usize], placement.processes[message.to as usize]);
            let [_, _, sent] = &mut sums[message.from as usize];
            sent.add(self.weight(message.count) * self.message_ns(message.size, a, b));
        }
        let values = sums.iter().map(|[read, write, sent]| ProcessCost {
            read_ns: read.value(),
            write_ns: write.value(),
            message_ns: sent.value(),
        });
        values.collect()
    }

    /// Bytes on each directed link.
    fn per_link(&self, placement: &Placement) -> Vec<u64> {
        let model = self.model;
        let mut per_link = vec![0u64; model.topology.links()];
        let mut load = |from: Node, to: Node, bytes: u64| {
            model.topology.route(from, to, |link| per_link[link] += bytes);
        };
        for access in &model.accesses {
            let a = placement.processes[access.process as usize];
            let home = &placement.segments[access.segment as usize];
            let bytes = model.weight(access.count) * access.size;
            match access.op {
                Op::Read => load(self.nearest_node(home, access.size, a), a, bytes),
                Op::Write => home.nodes().iter().for_each(|&node| load(a, node, bytes)),
            }
        }
        for message in &model.messages {
            let (a, b) = (placement.processes[message.from as usize], placement.processes[message.to as usize]);
            load(a, b, model.weight(message.count) * message.size);
        }
        per_link
    }

    /// What one access is spent on.
    pub fn terms(&self, op: Op, size: u64, a: Node, b: Node) -> Terms {
        access::terms(self.model, op, size, a, b)
    }
}

fn total(per_process: &[ProcessCost]) -> f64 {
    per_process.iter().map(ProcessCost::total_ns).collect::<Sum>().value()
}

fn longest(per_process: &[ProcessCost]) -> f64 {
    per_process.iter().map(ProcessCost::total_ns).fold(0.0, f64::max)
}

fn busiest(per_link: &[u64]) -> u64 {
    per_link.iter().copied().max().unwrap_or(0)
}

/// Limits and pins that a placement breaks: pins first, then nodes in their order.
pub fn violations(model: &Model, placement: &Placement) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (process, (entry, &node)) in model.processes.iter().zip(&placement.processes).enumerate() {
        if let Some(pin) = entry.pin.filter(|&pin| pin != node) {
            violations.push(Violation::ProcessPin { process, pin, node });
        }
    }
    let nodes = model.nodes();
    let (mut processes, mut segments, mut bytes) = (vec![0u64; nodes], vec![0u64; nodes], vec![0u128; nodes]);
    for (segment, (entry, home)) in model.segments.iter().zip(&placement.segments).enumerate() {
        let copies = home.nodes().len();
        if let Some(pin) = entry.pin.filter(|&pin| home.nodes() != [pin]) {
            violations.push(Violation::SegmentPin { segment, pin });
        }
        if copies > 1 && !entry.replicable {
            violations.push(Violation::Copies { segment, copies });
        }
        for &node in home.nodes() {
            segments[node as usize] += 1;
            bytes[node as usize] += u128::from(entry.bytes);
        }
    }
    placement.processes.iter().for_each(|&node| processes[node as usize] += 1);
    for node in 0..nodes {
        let over = |limits: &Option<Vec<u64>>, used: u128| {
            limits.as_ref().map(|limits| limits[node]).filter(|&limit| used > u128::from(limit))
        };
        let id = node as Node;
        if let Some(limit) = over(&model.process_slots, processes[node].into()) {
            violations.push(Violation::ProcessSlots { node: id, used: processes[node], limit });
        }
        if let Some(limit) = over(&model.segment_slots, segments[node].into()) {
            violations.push(Violation::SegmentSlots { node: id, used: segments[node], limit });
        }
        if let Some(limit) = over(&model.memory_bytes, bytes[node]) {
            violations.push(Violation::Memory { node: id, used: bytes[node], limit });
        }
    }
    violations
}

impl Violation {
    /// What is wrong, in words, with the ids of the model.
    pub fn describe(&self, model: &Model) -> String {
        let process = |index: usize| &model.processes[index].id;
        let segment = |index: usize| &model.segments[index].id;
        match self {
            Violation::ProcessSlots { node, used, limit } => {
                let used = counted(*used, "process", "processes");
                format!("node {node} holds {used} and has {}", counted(*limit, "process slot", "process slots"))
            }
            Violation::SegmentSlots { node, used, limit } => {
                let used = counted(*used, "segment", "segments");
                format!("node {node} holds {used} and has {}", counted(*limit, "segment slot", "segment slots"))
            }
            Violation::Memory { node, used, limit } => {
                let (used, limit) = (counted(*used, "byte", "bytes"), counted(*limit, "byte", "bytes"));
                format!("node {node} holds {used} of segments and has {limit} of memory")
            }
            Violation::ProcessPin { process: index, pin, node } => {
                format!("process {} is on node {node} and is pinned to node {pin}", process(*index))
            }
            Violation::SegmentPin { segment: index, pin } => {
                format!("segment {} is pinned to node {pin} and is not there alone", segment(*index))
            }
            Violation::Copies { segment: index, copies } => {
                format!("segment {} has {copies} copies and is not replicable", segment(*index))
            }
        }
    }
}

impl fmt::Display for ProcessCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read {} ns, write {} ns, messages {} ns", self.read_ns, self.write_ns, self.message_ns)
    }
}
