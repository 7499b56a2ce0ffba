//! The two halves of a model, which often come from different files: the machine, and the program that runs on it.

use std::collections::HashMap;

use crate::Error;
use crate::model::{Access, CostModel, HopBytes, Message, Model, Objective, Op, Process, Segment};
use crate::topology::{FatTree, MOST_NODES, Topology};

/// The machine's half.
pub(crate) struct Machine {
    pub topology: Topology,
    pub cost_model: CostModel,
    pub process_slots: Option<Vec<u64>>,
    pub segment_slots: Option<Vec<u64>>,
    pub memory_bytes: Option<Vec<u64>>,
}

impl Machine {
    /// A machine of which nothing is known but that it has run so many processes, and, where that is told, how many of
    /// them on each node: all nodes are one switch apart, and each takes one process or as many as ran there.
    pub fn assumed(processes: usize, ran: &[u64]) -> Result<Machine, Error> {
        let nodes = processes.max(ran.len());
        if nodes > MOST_NODES {
            return Err(Error::whole(format!(
                "holds {processes} processes and no machine: more than {MOST_NODES} nodes cannot be assumed; give a model \
                 with the machine, with --onto"
            )));
        }
        let nodes = nodes.max(1);
        Ok(Machine {
            topology: Topology::FatTree(FatTree { radices: vec![nodes as u32] }),
            cost_model: CostModel::HopBytes(HopBytes { ns_per_byte_hop: 1.0 }),
            process_slots: Some((0..nodes).map(|node| ran.get(node).copied().unwrap_or(0).max(1)).collect()),
            segment_slots: None,
            memory_bytes: None,
        })
    }

    /// The machine of a model.
    pub fn of(model: Model) -> Machine {
        Machine {
            topology: model.topology,
            cost_model: model.cost_model,
            process_slots: model.process_slots,
            segment_slots: model.segment_slots,
            memory_bytes: model.memory_bytes,
        }
    }
}

/// The program's half.
#[derive(Default)]
pub(crate) struct Program {
    pub processes: Vec<Process>,
    pub segments: Vec<Segment>,
    pub accesses: Vec<Access>,
    pub messages: Vec<Message>,
}

impl Program {
    /// `count` processes called 0, 1, 2 and so on.
    pub fn of_ranks(count: usize) -> Program {
        let processes = (0..count).map(|rank| Process { id: rank.to_string(), pin: None });
        Program { processes: processes.collect(), ..Program::default() }
    }

    /// The program of a model.
    pub fn of(model: Model) -> Program {
        Program {
            processes: model.processes,
            segments: model.segments,
            accesses: model.accesses,
            messages: model.messages,
        }
    }

    /// Adds messages that together carry `bytes`, as evenly as whole bytes allow.
    pub fn add_messages(&mut self, from: u32, to: u32, count: u64, bytes: u64) {
        if count == 0 {
            return;
        }
        let (size, larger) = (bytes / count, bytes % count);
        for (count, size) in [(count - larger, size), (larger, size + 1)] {
            if count > 0 {
                self.messages.push(Message { from, to, count, size });
            }
        }
    }

    /// Puts the halves together.
    pub fn on(self, machine: Machine, id: Option<String>, objective: Objective) -> Model {
        Model {
            id,
            topology: machine.topology,
            cost_model: machine.cost_model,
            processes: self.processes,
            segments: self.segments,
            accesses: self.accesses,
            messages: self.messages,
            process_slots: machine.process_slots,
            segment_slots: machine.segment_slots,
            memory_bytes: machine.memory_bytes,
            objective,
        }
    }
}

/// Numbers for ids in the order in which they are first named.
#[derive(Default)]
pub(crate) struct Ids {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
}

impl Ids {
    pub fn number(&mut self, id: &str) -> u32 {
        if let Some(&number) = self.numbers.get(id) {
            return number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(id.to_owned(), number);
        self.names.push(id.to_owned());
        number
    }

    pub fn get(&self, id: &str) -> Option<u32> {
        self.numbers.get(id).copied()
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// Bytes that flow between two vertices of a graph, either way: processes first, then segments.
pub(crate) fn traffic(model: &Model) -> Vec<Vec<(usize, u64)>> {
    let mut edges: HashMap<(usize, usize), u64> = HashMap::new();
    let mut add = |a: usize, b: usize, bytes: u64| {
        if a != b && bytes > 0 {
            *edges.entry((a.min(b), a.max(b))).or_default() += bytes;
        }
    };
    let first = model.processes.len();
    for message in &model.messages {
        add(message.from as usize, message.to as usize, message.count * message.size);
    }
    for Access { process, segment, count, size, op: Op::Read | Op::Write } in &model.accesses {
        add(*process as usize, first + *segment as usize, count * size);
    }
    let mut neighbours = vec![Vec::new(); first + model.segments.len()];
    for ((a, b), bytes) in edges {
        neighbours[a].push((b, bytes));
        neighbours[b].push((a, bytes));
    }
    neighbours.iter_mut().for_each(|list| list.sort_unstable());
    neighbours
}
