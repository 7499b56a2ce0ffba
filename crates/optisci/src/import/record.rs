//! DECK's access records: what a program really read, wrote and sent, and where things were. The format is described in
//! `docs/access-record.md`.
//!
//! Each node may write a record of its own; those of one run are read together. What several of them say about the same
//! process or segment must agree, and accesses add up.

use serde::Deserialize;

use super::{Found, Input};
use crate::model::check::{self, no_node};
use crate::model::file::{
    AccessEntry, CostModelEntry, Entry, MessageEntry, TopologyEntry, Whole, object_or_none, objects, parse,
};
use crate::model::{Access, Message, Process, Segment};
use crate::placement::Home;
use crate::program::{Ids, Machine, Program};
use crate::topology::{Node, Topology};
use crate::{Error, Model, Placement};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<'a> {
    deck_access_record: Whole,
    #[serde(default)]
    program: Option<String>,
    #[serde(default, deserialize_with = "object_or_none")]
    topology: Option<TopologyEntry>,
    #[serde(default, deserialize_with = "object_or_none")]
    cost_model: Option<CostModelEntry>,
    #[serde(default, deserialize_with = "objects")]
    processes: Vec<ProcessEntry>,
    #[serde(default, deserialize_with = "objects")]
    segments: Vec<SegmentEntry>,
    #[serde(default, borrow, deserialize_with = "objects")]
    accesses: Vec<AccessEntry<'a>>,
    #[serde(default, borrow, deserialize_with = "objects")]
    messages: Vec<MessageEntry<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessEntry {
    id: String,
    node: Whole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SegmentEntry {
    id: String,
    home: Whole,
    #[serde(default)]
    bytes: Whole,
}

impl Entry for ProcessEntry {
    const EXPECTED: &'static str = "an object with the id of a process and its node";
}
impl Entry for SegmentEntry {
    const EXPECTED: &'static str = "an object with the id of a segment, its home and its bytes";
}

/// All records of a run, put together.
#[derive(Default)]
struct Run {
    program: Option<String>,
    topology: Option<Topology>,
    cost_model: Option<crate::model::CostModel>,
    processes: Ids,
    process_nodes: Vec<Node>,
    segments: Ids,
    segment_homes: Vec<Node>,
    segment_bytes: Vec<u64>,
}

/// The program, and the machine as far as the records tell it.
pub(super) fn read(inputs: &[Input<'_>]) -> Result<Found, Error> {
    let (run, files) = run(inputs)?;
    let mut program = Program {
        processes: run.processes.names().iter().map(|id| Process { id: id.clone(), pin: None }).collect(),
        segments: run
            .segments
            .names()
            .iter()
            .zip(&run.segment_bytes)
            .map(|(id, &bytes)| Segment { id: id.clone(), bytes, pin: None, replicable: false })
            .collect(),
        ..Program::default()
    };
    for (input, file) in inputs.iter().zip(&files) {
        activity(file, &run, &mut program).map_err(|error| error.in_file(input.name))?;
    }
    let mut notes = Vec::new();
    let mut ran =
        vec![0; run.process_nodes.iter().chain(&run.segment_homes).max().map_or(0, |last| *last as usize + 1)];
    run.process_nodes.iter().for_each(|node| ran[*node as usize] += 1);
    let machine = match run.topology {
        None => None,
        Some(topology) => {
            let cost_model = run.cost_model.unwrap_or_else(|| {
                notes.push("the records tell no costs: 1 ns per byte and link is assumed".to_owned());
                crate::model::CostModel::HopBytes(crate::model::HopBytes { ns_per_byte_hop: 1.0 })
            });
            let (process_slots, segment_slots, memory_bytes) = (None, None, None);
            Some(Machine { topology, cost_model, process_slots, segment_slots, memory_bytes })
        }
    };
    Ok(Found { id: run.program, machine, program: Some(program), notes, ran, ..Found::default() })
}

/// Where things were, for a model that was made of these records.
pub(super) fn placement(inputs: &[Input<'_>], model: &Model) -> Result<Placement, Error> {
    let (run, _) = run(inputs)?;
    let place = |ids: &Ids, nodes: &[Node], kind: &str, id: &str| -> Result<Node, Error> {
        let number =
            ids.get(id).ok_or_else(|| Error::whole(format!("the records do not tell where {kind} \"{id}\" was")))?;
        let node = nodes[number as usize];
        match (node as usize) < model.nodes() {
            true => Ok(node),
            false => Err(Error::whole(format!("the node of {kind} \"{id}\" {}", no_node(node.into(), model.nodes())))),
        }
    };
    let processes =
        model.processes.iter().map(|process| place(&run.processes, &run.process_nodes, "process", &process.id));
    let segments = model
        .segments
        .iter()
        .map(|segment| place(&run.segments, &run.segment_homes, "segment", &segment.id).map(Home::One));
    Ok(Placement { processes: processes.collect::<Result<_, _>>()?, segments: segments.collect::<Result<_, _>>()? })
}

fn run<'a>(inputs: &[Input<'a>]) -> Result<(Run, Vec<File<'a>>), Error> {
    let (mut run, mut files) = (Run::default(), Vec::new());
    for input in inputs {
        let file = parse(input.text).and_then(|file: File<'a>| run.add(file));
        files.push(file.map_err(|error| error.in_file(input.name))?);
    }
    Ok((run, files))
}

impl Run {
    /// Takes in what a record says about machine, processes and segments; gives back what it says about accesses.
    fn add<'a>(&mut self, mut file: File<'a>) -> Result<File<'a>, Error> {
        if file.deck_access_record.0 != 1 {
            let message = format!("is {}: this program reads version 1", file.deck_access_record.0);
            return Err(Error::at_path("deck_access_record", message));
        }
        self.program = self.program.take().or(file.program.take());
        if let Some(entry) = file.topology.take() {
            let topology = check::topology(entry)?;
            match &self.topology {
                Some(other) if *other != topology => {
                    return Err(Error::at_path("topology", "is another one than in the records before"));
                }
                _ => self.topology = Some(topology),
            }
        }
        if let Some(entry) = file.cost_model.take() {
            let Some(topology) = &self.topology else {
                return Err(Error::at_path("cost_model", "needs a topology beside it"));
            };
            let cost_model = check::cost_model(entry, topology.nodes())?;
            match &self.cost_model {
                Some(other) if *other != cost_model => {
                    return Err(Error::at_path("cost_model", "is another one than in the records before"));
                }
                _ => self.cost_model = Some(cost_model),
            }
        }
        for (index, entry) in file.processes.iter().enumerate() {
            let path = format!("processes[{index}].node");
            let node = self.node(entry.node, &path)?;
            remember(&mut self.processes, &mut self.process_nodes, &entry.id, node, &path)?;
        }
        for (index, entry) in file.segments.iter().enumerate() {
            let path = format!("segments[{index}].home");
            let home = self.node(entry.home, &path)?;
            remember(&mut self.segments, &mut self.segment_homes, &entry.id, home, &path)?;
            let path = format!("segments[{index}].bytes");
            remember(&mut self.segments, &mut self.segment_bytes, &entry.id, entry.bytes.0, &path)?;
        }
        Ok(file)
    }

    fn node(&self, node: Whole, path: &str) -> Result<Node, Error> {
        let nodes = self.topology.as_ref().map_or(crate::topology::MOST_NODES, Topology::nodes);
        match (node.0 as usize) < nodes {
            true => Ok(node.0 as Node),
            false => Err(Error::at_path(path, no_node(node.0, nodes))),
        }
    }
}

/// Keeps `value` for `id`; a value that was kept before must be the same.
fn remember<T: Copy + PartialEq + std::fmt::Display>(
    ids: &mut Ids,
    values: &mut Vec<T>,
    id: &str,
    value: T,
    path: &str,
) -> Result<(), Error> {
    let number = ids.number(id) as usize;
    match values.get(number) {
        None => values.push(value),
        Some(&before) if before != value => {
            let message = format!("is {value} for \"{id}\", but was {before} before: records of one run agree");
            return Err(Error::at_path(path, message));
        }
        Some(_) => {}
    }
    Ok(())
}

fn activity(file: &File<'_>, run: &Run, program: &mut Program) -> Result<(), Error> {
    let find = |ids: &Ids, id: &str, kind: &str, path: String| {
        ids.get(id).ok_or_else(|| Error::at_path(path, format!("there is no {kind} \"{id}\" in any of the records")))
    };
    for (index, entry) in file.accesses.iter().enumerate() {
        let process = find(&run.processes, &entry.process, "process", format!("accesses[{index}].process"))?;
        let segment = find(&run.segments, &entry.segment, "segment", format!("accesses[{index}].segment"))?;
        let (count, size) = (entry.count.0, entry.size.0);
        program.accesses.push(Access { process, segment, op: entry.op, count, size });
    }
    for (index, entry) in file.messages.iter().enumerate() {
        let from = find(&run.processes, &entry.from, "process", format!("messages[{index}].from"))?;
        let to = find(&run.processes, &entry.to, "process", format!("messages[{index}].to"))?;
        program.messages.push(Message { from, to, count: entry.count.0, size: entry.size.0 });
    }
    Ok(())
}
