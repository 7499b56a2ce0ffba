//! From a file to a model and back: which fields belong to which kind, which numbers must agree, which ids must exist.

use std::borrow::Cow;
use std::collections::HashMap;

use super::file::{
    self, AccessEntry, CostModelEntry, File, MessageEntry, OfSomeVersion, ProcessEntry, SegmentEntry, TopologyEntry,
    Whole,
};
use super::{Access, CostModel, HopBytes, Matrix, Message, Model, Process, Readings, Scipos, Segment, UNLIMITED};
use crate::Error;
use crate::counted::counted;
use crate::topology::{FatTree, MOST_NODES, Node, Topology, Torus};

/// Fails if a file says that it is of another version, whatever else is wrong with it.
pub(super) fn version_of(text: &str) -> Result<(), Error> {
    version(file::parse::<OfSomeVersion>(text).map_or(None, |file| file.version))
}

fn version(version: Option<Whole>) -> Result<(), Error> {
    match version {
        None | Some(Whole(1)) => Ok(()),
        Some(Whole(other)) => Err(Error::at_path("version", format!("is {other}: this program reads version 1"))),
    }
}

/// Reads: makes a model of a file.
pub(super) fn model(file: File<'_>) -> Result<Model, Error> {
    version(file.version)?;
    let topology = topology(file.topology)?;
    let nodes = topology.nodes();
    let cost_model = cost_model(file.cost_model, nodes)?;
    let pin = |list: &str, index: usize, pin: Option<Whole>| -> Result<Option<Node>, Error> {
        let outside = |node: u64| Error::at_path(format!("{list}[{index}].pin"), no_node(node, nodes));
        pin.map(|Whole(node)| if (node as usize) < nodes { Ok(node as Node) } else { Err(outside(node)) }).transpose()
    };
    let processes = file
        .processes
        .into_iter()
        .enumerate()
        .map(|(index, entry)| Ok(Process { pin: pin("processes", index, entry.pin)?, id: entry.id }));
    let processes = processes.collect::<Result<Vec<Process>, Error>>()?;
    let segments = file.segments.into_iter().enumerate().map(|(index, entry)| {
        let pin = pin("segments", index, entry.pin)?;
        Ok(Segment { id: entry.id, bytes: entry.bytes.0, pin, replicable: entry.replicable.unwrap_or(false) })
    });
    let segments = segments.collect::<Result<Vec<Segment>, Error>>()?;
    let (accesses, messages) = {
        let process_index = indices("processes", processes.iter().map(|process| process.id.as_str()))?;
        let segment_index = indices("segments", segments.iter().map(|segment| segment.id.as_str()))?;
        (accesses(&file.accesses, &process_index, &segment_index)?, messages(&file.messages, &process_index)?)
    };
    let model = Model {
        id: file.id,
        process_slots: limit("process_slots", file.process_slots, nodes)?,
        segment_slots: limit("segment_slots", file.segment_slots, nodes)?,
        memory_bytes: limit("memory_bytes", file.memory_bytes, nodes)?,
        topology,
        cost_model,
        processes,
        segments,
        accesses,
        messages,
        objective: file.objective.unwrap_or_default(),
    };
    volume(&model)?;
    Ok(model)
}

/// Writes: makes a file of a model.
pub(super) fn file(model: &Model) -> File<'_> {
    let whole = |limit: &Option<Vec<u64>>| {
        limit
            .as_ref()
            .map(|limit| limit.iter().map(|&entry| Some(Whole(entry)).filter(|_| entry != UNLIMITED)).collect())
    };
    let pin = |pin: Option<Node>| pin.map(|node| Whole(u64::from(node)));
    let process_id = |index: u32| Cow::Borrowed(model.processes[index as usize].id.as_str());
    File {
        id: model.id.clone(),
        version: Some(Whole(1)),
        topology: topology_entry(&model.topology),
        cost_model: cost_model_entry(&model.cost_model, model.nodes()),
        processes: model
            .processes
            .iter()
            .map(|process| ProcessEntry { id: process.id.clone(), pin: pin(process.pin) })
            .collect(),
        segments: model
            .segments
            .iter()
            .map(|segment| SegmentEntry {
                id: segment.id.clone(),
                bytes: Whole(segment.bytes),
                pin: pin(segment.pin),
                replicable: segment.replicable.then_some(true),
            })
            .collect(),
        accesses: model
            .accesses
            .iter()
            .map(|access| AccessEntry {
                process: process_id(access.process),
                segment: Cow::Borrowed(&model.segments[access.segment as usize].id),
                op: access.op,
                count: Whole(access.count),
                size: Whole(access.size),
            })
            .collect(),
        messages: model
            .messages
            .iter()
            .map(|message| MessageEntry {
                from: process_id(message.from),
                to: process_id(message.to),
                count: Whole(message.count),
                size: Whole(message.size),
            })
            .collect(),
        process_slots: whole(&model.process_slots),
        segment_slots: whole(&model.segment_slots),
        memory_bytes: whole(&model.memory_bytes),
        objective: Some(model.objective),
    }
}

/// What is wrong with a node's number.
pub(crate) fn no_node(node: u64, nodes: usize) -> String {
    match nodes {
        1 => format!("is {node}: the machine has one node, 0"),
        _ => format!("is {node}: the machine has nodes 0 to {}", nodes - 1),
    }
}

fn indices<'a>(list: &str, ids: impl Iterator<Item = &'a str>) -> Result<HashMap<&'a str, u32>, Error> {
    let mut indices = HashMap::new();
    for (index, id) in ids.enumerate() {
        if let Some(earlier) = indices.insert(id, index as u32) {
            let message = format!("\"{id}\" is already the id of {list}[{earlier}]: ids are unique");
            return Err(Error::at_path(format!("{list}[{index}].id"), message));
        }
    }
    Ok(indices)
}

fn find(ids: &HashMap<&str, u32>, kind: &str, id: &str, path: impl Fn() -> String) -> Result<u32, Error> {
    ids.get(id).copied().ok_or_else(|| Error::at_path(path(), format!("there is no {kind} \"{id}\"")))
}

fn accesses(
    entries: &[AccessEntry<'_>],
    processes: &HashMap<&str, u32>,
    segments: &HashMap<&str, u32>,
) -> Result<Vec<Access>, Error> {
    let access = |(index, entry): (usize, &AccessEntry<'_>)| {
        let process = find(processes, "process", &entry.process, || format!("accesses[{index}].process"))?;
        let segment = find(segments, "segment", &entry.segment, || format!("accesses[{index}].segment"))?;
        Ok(Access { process, segment, op: entry.op, count: entry.count.0, size: entry.size.0 })
    };
    entries.iter().enumerate().map(access).collect()
}

fn messages(entries: &[MessageEntry<'_>], processes: &HashMap<&str, u32>) -> Result<Vec<Message>, Error> {
    let message = |(index, entry): (usize, &MessageEntry<'_>)| {
        let from = find(processes, "process", &entry.from, || format!("messages[{index}].from"))?;
        let to = find(processes, "process", &entry.to, || format!("messages[{index}].to"))?;
        Ok(Message { from, to, count: entry.count.0, size: entry.size.0 })
    };
    entries.iter().enumerate().map(message).collect()
}

fn limit(name: &str, entries: Option<Vec<Option<Whole>>>, nodes: usize) -> Result<Option<Vec<u64>>, Error> {
    let Some(entries) = entries else { return Ok(None) };
    if entries.len() != nodes {
        return Err(Error::at_path(name, lacks("entry", "entries", entries.len(), nodes)));
    }
    Ok(Some(entries.into_iter().map(|entry| entry.map_or(UNLIMITED, |whole| whole.0)).collect()))
}

/// Bytes are added up in 64 bits: together they must fit, whatever link they meet on.
fn volume(model: &Model) -> Result<(), Error> {
    let nodes = model.nodes() as u128;
    let copies = |access: &Access| match model.segments[access.segment as usize].replicable {
        true => nodes,
        false => 1,
    };
    let accesses = model.accesses.iter().map(|access| (access.count, access.size, copies(access)));
    let messages = model.messages.iter().map(|message| (message.count, message.size, 1));
    let first_message = model.accesses.len();
    let mut all = 0u128;
    for (index, (count, size, copies)) in accesses.chain(messages).enumerate() {
        all = all.saturating_add((u128::from(count) * u128::from(size)).saturating_mul(copies));
        if all > u128::from(u64::MAX) {
            let path = match index.checked_sub(first_message) {
                None => format!("accesses[{index}].count"),
                Some(index) => format!("messages[{index}].count"),
            };
            let message = "count times size is too much: all bytes, to every copy, must stay below 2^64";
            return Err(Error::at_path(path, message));
        }
    }
    Ok(())
}

/// Dimensions or levels of two already make as many nodes as there may be.
const MOST_SIZES: usize = 16;

pub(crate) fn topology(entry: TopologyEntry) -> Result<Topology, Error> {
    let refuse = |field: &str, present: bool| match present {
        true => Err(Error::at_path(format!("topology.{field}"), format!("does not belong to kind {}", entry.kind))),
        false => Ok(()),
    };
    let sizes = |field: &str, sizes: &Option<Vec<Whole>>| -> Result<Vec<u32>, Error> {
        let path = format!("topology.{field}");
        let sizes =
            sizes.as_ref().ok_or_else(|| Error::at_path(&path, format!("is missing: {} needs it", entry.kind)))?;
        if sizes.is_empty() {
            return Err(Error::at_path(path, "is empty: at least one size is needed"));
        }
        if sizes.len() > MOST_SIZES {
            return Err(Error::at_path(
                path,
                format!("has {} sizes: {MOST_SIZES} are enough for any machine", sizes.len()),
            ));
        }
        let mut nodes = 1u64;
        for (index, &Whole(size)) in sizes.iter().enumerate() {
            nodes = nodes.saturating_mul(size);
            if size == 0 || nodes > MOST_NODES as u64 {
                let message = format!("is {size}: sizes are at least 1 and make {MOST_NODES} nodes at most");
                return Err(Error::at_path(format!("{path}[{index}]"), message));
            }
        }
        Ok(sizes.iter().map(|size| size.0 as u32).collect())
    };
    let topology = match entry.kind.as_str() {
        "torus" => {
            refuse("radices", entry.radices.is_some())?;
            Topology::Torus(Torus { dims: sizes("dims", &entry.dims)?, directed: entry.directed.unwrap_or(false) })
        }
        "fat_tree" => {
            refuse("dims", entry.dims.is_some())?;
            refuse("directed", entry.directed.is_some())?;
            Topology::FatTree(FatTree { radices: sizes("radices", &entry.radices)? })
        }
        kind => return Err(Error::at_path("topology.kind", format!("is \"{kind}\": expected torus or fat_tree"))),
    };
    let nodes = topology.nodes() as u64;
    if let Some(said) = entry.nodes.filter(|said| said.0 != nodes) {
        let field = if entry.dims.is_some() { "dims" } else { "radices" };
        return Err(Error::at_path("topology.nodes", format!("is {}, but {field} make {nodes}", said.0)));
    }
    Ok(topology)
}

fn topology_entry(topology: &Topology) -> TopologyEntry {
    let whole = |sizes: &[u32]| Some(sizes.iter().map(|&size| Whole(u64::from(size))).collect());
    let nodes = Some(Whole(topology.nodes() as u64));
    match topology {
        Topology::Torus(torus) => TopologyEntry {
            kind: "torus".to_owned(),
            nodes,
            dims: whole(&torus.dims),
            directed: Some(torus.directed),
            ..TopologyEntry::default()
        },
        Topology::FatTree(tree) => TopologyEntry {
            kind: "fat_tree".to_owned(),
            nodes,
            radices: whole(&tree.radices),
            ..TopologyEntry::default()
        },
    }
}

const SCIPOS_FIELDS: [&str; 5] = ["mem_mhz", "pci_mhz", "bridge_mhz", "ring_mhz", "readings"];
const MATRIX_FIELDS: [&str; 4] = ["read_ns", "write_ns", "read_ns_per_byte", "write_ns_per_byte"];
const HOP_BYTES_FIELDS: [&str; 1] = ["ns_per_byte_hop"];

pub(crate) fn cost_model(entry: CostModelEntry, nodes: usize) -> Result<CostModel, Error> {
    let belonging: &[&str] = match entry.kind.as_str() {
        "scipos" => &SCIPOS_FIELDS,
        "matrix" => &MATRIX_FIELDS,
        "hop_bytes" => &HOP_BYTES_FIELDS,
        kind => {
            let message = format!("is \"{kind}\": expected scipos, matrix or hop_bytes");
            return Err(Error::at_path("cost_model.kind", message));
        }
    };
    let present = [
        ("mem_mhz", entry.mem_mhz.is_some()),
        ("pci_mhz", entry.pci_mhz.is_some()),
        ("bridge_mhz", entry.bridge_mhz.is_some()),
        ("ring_mhz", entry.ring_mhz.is_some()),
        ("readings", entry.readings.is_some()),
        ("read_ns", entry.read_ns.is_some()),
        ("write_ns", entry.write_ns.is_some()),
        ("read_ns_per_byte", entry.read_ns_per_byte.is_some()),
        ("write_ns_per_byte", entry.write_ns_per_byte.is_some()),
        ("ns_per_byte_hop", entry.ns_per_byte_hop.is_some()),
    ];
    if let Some((field, _)) = present.iter().find(|(field, present)| *present && !belonging.contains(field)) {
        return Err(Error::at_path(format!("cost_model.{field}"), format!("does not belong to kind {}", entry.kind)));
    }
    let missing =
        |field: &str| Error::at_path(format!("cost_model.{field}"), format!("is missing: {} needs it", entry.kind));
    let clock = |field: &str, mhz: Option<f64>| -> Result<f64, Error> {
        let mhz = mhz.ok_or_else(|| missing(field))?;
        let message = || format!("is {mhz}: a clock has a number of MHz from 0.001 to 1e9");
        let wrong = || Error::at_path(format!("cost_model.{field}"), message());
        // Of slower ones so many cycles may be added up that no number is large enough for them.
        Some(mhz).filter(|mhz| (1e-3..=1e9).contains(mhz)).ok_or_else(wrong)
    };
    let rows = |field: &str, rows: &Option<Vec<Vec<f64>>>| -> Result<Vec<f64>, Error> {
        matrix(&format!("cost_model.{field}"), rows.as_ref().ok_or_else(|| missing(field))?, nodes)
    };
    Ok(match entry.kind.as_str() {
        "scipos" => CostModel::Scipos(Scipos {
            mem_mhz: clock("mem_mhz", entry.mem_mhz)?,
            pci_mhz: clock("pci_mhz", entry.pci_mhz)?,
            bridge_mhz: clock("bridge_mhz", entry.bridge_mhz)?,
            ring_mhz: clock("ring_mhz", entry.ring_mhz)?,
            readings: entry.readings.unwrap_or_default(),
        }),
        "matrix" => CostModel::Matrix(Box::new(Matrix {
            read_ns: rows("read_ns", &entry.read_ns)?,
            write_ns: rows("write_ns", &entry.write_ns)?,
            read_ns_per_byte: rows("read_ns_per_byte", &entry.read_ns_per_byte)?,
            write_ns_per_byte: rows("write_ns_per_byte", &entry.write_ns_per_byte)?,
        })),
        _ => {
            let ns = entry.ns_per_byte_hop.ok_or_else(|| missing("ns_per_byte_hop"))?;
            cost("cost_model.ns_per_byte_hop", ns)?;
            CostModel::HopBytes(HopBytes { ns_per_byte_hop: ns })
        }
    })
}

/// There are not as many as nodes.
fn lacks(one: &str, many: &str, there: usize, nodes: usize) -> String {
    let nodes = counted(nodes, "node", "nodes");
    format!("has {}: one for each of {nodes} is needed", counted(there, one, many))
}

fn matrix(path: &str, rows: &[Vec<f64>], nodes: usize) -> Result<Vec<f64>, Error> {
    if rows.len() != nodes {
        return Err(Error::at_path(path, lacks("row", "rows", rows.len(), nodes)));
    }
    let mut entries = Vec::with_capacity(nodes * nodes);
    for (a, row) in rows.iter().enumerate() {
        if row.len() != nodes {
            let message = lacks("entry", "entries", row.len(), nodes);
            return Err(Error::at_path(format!("{path}[{a}]"), message));
        }
        for (b, &ns) in row.iter().enumerate() {
            cost(&format!("{path}[{a}][{b}]"), ns)?;
            entries.push(ns);
        }
    }
    Ok(entries)
}

fn cost(path: &str, ns: f64) -> Result<(), Error> {
    match ns.is_finite() && (0.0..=1e15).contains(&ns) {
        true => Ok(()),
        false => Err(Error::at_path(path, format!("is {ns}: a cost is a number of ns from 0 to 1e15"))),
    }
}

fn cost_model_entry(cost_model: &CostModel, nodes: usize) -> CostModelEntry {
    let rows = |entries: &[f64]| Some(entries.chunks(nodes).map(<[f64]>::to_vec).collect());
    match cost_model {
        CostModel::Scipos(scipos) => CostModelEntry {
            kind: "scipos".to_owned(),
            mem_mhz: Some(scipos.mem_mhz),
            pci_mhz: Some(scipos.pci_mhz),
            bridge_mhz: Some(scipos.bridge_mhz),
            ring_mhz: Some(scipos.ring_mhz),
            readings: Some(scipos.readings).filter(|readings| *readings != Readings::default()),
            ..CostModelEntry::default()
        },
        CostModel::Matrix(matrix) => CostModelEntry {
            kind: "matrix".to_owned(),
            read_ns: rows(&matrix.read_ns),
            write_ns: rows(&matrix.write_ns),
            read_ns_per_byte: rows(&matrix.read_ns_per_byte),
            write_ns_per_byte: rows(&matrix.write_ns_per_byte),
            ..CostModelEntry::default()
        },
        CostModel::HopBytes(costs) => CostModelEntry {
            kind: "hop_bytes".to_owned(),
            ns_per_byte_hop: Some(costs.ns_per_byte_hop),
            ..CostModelEntry::default()
        },
    }
}
