//! Machines as hwloc 2 writes them: `lstopo --of xml`. A NUMA node is a node.
//!
//! Costs come from memory attributes (latency in ns, bandwidth in MiB/s) where the firmware or a benchmark told them,
//! else from the table of relative distances, scaled. What was measured and what is assumed is said in notes. Source of
//! the form: `hwloc2.dtd` of hwloc, and its documentation of distances and memory attributes.

use std::collections::HashMap;
use std::ops::{Div, Mul};

use roxmltree::{Document, Node as Element, ParsingOptions};

use super::Found;
use super::lines::short;
use crate::Error;
use crate::model::{CostModel, Matrix};
use crate::program::Machine;
use crate::topology::{FatTree, Topology};

/// Reading local memory, where nothing is known, in ns.
const ASSUMED_LATENCY_NS: f64 = 100.0;
/// Local memory for one core, where nothing is known, in MiB/s.
const ASSUMED_BANDWIDTH: f64 = 10_000.0;
/// The relative distance of another node, where nothing is known; a node is 10 from itself (ACPI's convention).
const ASSUMED_DISTANCE: f64 = 20.0;
/// Matrices have as many entries as the square of this.
const MOST_NODES: usize = 4096;

pub(super) fn machine(text: &str) -> Result<Found, Error> {
    let options = ParsingOptions { allow_dtd: true, nodes_limit: 10_000_000, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| Error::at_line(error.pos().row as usize, format!("this is no XML: {error}")))?;
    let root = document.root_element();
    if !root.has_tag_name("topology") {
        let message = format!("<{}>: expected <topology>, as lstopo writes it", short(root.tag_name().name()));
        return Err(at(root, message));
    }
    if root.attribute("version").is_none_or(|version| !version.starts_with('2')) {
        return Err(at(root, "expected version=\"2.0\": write the file with lstopo of hwloc 2".to_owned()));
    }
    let objects = Objects::read(root)?;
    let count = objects.memories.len();
    if count == 0 || count > MOST_NODES {
        return Err(at(root, format!("has {count} objects of type NUMANode: expected 1 to {MOST_NODES}")));
    }
    let mut notes = Vec::new();
    let process_slots = objects.slots();
    let memory_bytes = objects.memories.iter().map(|memory| memory.bytes).collect();
    let distances = distances(root, &objects)?;
    let cost_model = costs(root, &objects, distances.as_deref(), &mut notes)?;
    let indices: Vec<u64> = objects.memories.iter().map(|memory| memory.os_index).collect();
    if indices.iter().enumerate().any(|(node, &index)| index != node as u64) {
        notes.push(format!("nodes 0, 1, ... are the NUMA nodes of these indices: {indices:?}"));
    }
    let machine = Machine {
        topology: Topology::FatTree(FatTree { radices: objects.radices() }),
        cost_model,
        process_slots: Some(process_slots),
        segment_slots: None,
        memory_bytes: Some(memory_bytes),
    };
    notes.push("process slots are cores, memory is what each NUMA node has".to_owned());
    Ok(Found { machine: Some(machine), notes, ..Found::default() })
}

struct Memory {
    os_index: u64,
    bytes: u64,
    cpus: Cpus,
    package: Option<u64>,
}

/// What is read of the tree of objects: NUMA nodes in the order of their indices, cores, and where objects are.
struct Objects {
    memories: Vec<Memory>,
    cores: Vec<Cpus>,
    cpus_of: HashMap<u64, Cpus>,
    node_of: HashMap<u64, usize>,
}

impl Objects {
    fn read(root: Element<'_, '_>) -> Result<Objects, Error> {
        let (mut memories, mut cores, mut units) = (Vec::new(), Vec::new(), Vec::new());
        let (mut cpus_of, mut gp_indices) = (HashMap::new(), Vec::new());
        for object in root.descendants().filter(|element| element.has_tag_name("object")) {
            let kind = object.attribute("type").ok_or_else(|| at(object, "an object without a type".to_owned()))?;
            let cpus = object.attribute("cpuset").map(|text| Cpus::read(text, object)).transpose()?.unwrap_or_default();
            let gp_index = optional_number(object, "gp_index")?;
            if let Some(gp_index) = gp_index {
                cpus_of.insert(gp_index, cpus.clone());
            }
            match kind {
                "Core" => cores.push(cpus),
                "PU" => units.push(cpus),
                "NUMANode" => {
                    let packages = object.ancestors().filter(|element| element.attribute("type") == Some("Package"));
                    let package = packages.into_iter().find_map(|package| package.attribute("gp_index")?.parse().ok());
                    let os_index = optional_number(object, "os_index")?
                        .ok_or_else(|| at(object, "a NUMANode without os_index".to_owned()))?;
                    let bytes = optional_number(object, "local_memory")?.unwrap_or(0);
                    memories.push(Memory { os_index, bytes, cpus, package });
                    gp_indices.push((os_index, gp_index));
                }
                _ => {}
            }
        }
        memories.sort_by_key(|memory: &Memory| memory.os_index);
        gp_indices.sort_unstable();
        if let Some(pair) = memories.windows(2).find(|pair| pair[0].os_index == pair[1].os_index) {
            return Err(at(root, format!("two objects of type NUMANode have os_index {}", pair[0].os_index)));
        }
        let numbered = gp_indices.iter().enumerate();
        let node_of = numbered.filter_map(|(node, (_, gp_index))| Some(((*gp_index)?, node))).collect();
        Ok(Objects { memories, cores: if cores.is_empty() { units } else { cores }, cpus_of, node_of })
    }

    /// Cores of each node. Several memories may be local to the same cores (DRAM, HBM, CXL): the nearest, which is the
    /// one with the fewest cores, and of equal ones the first, has them; the others hold segments only.
    fn slots(&self) -> Vec<u64> {
        let mut slots = vec![0; self.memories.len()];
        for core in &self.cores {
            let around = self.memories.iter().enumerate().filter(|(_, memory)| core.is_part_of(&memory.cpus));
            if let Some((node, _)) = around.min_by_key(|(node, memory)| (memory.cpus.count(), *node)) {
                slots[node] += 1;
            }
        }
        slots
    }

    /// Packages above nodes where these are many and alike; otherwise all nodes are one switch apart.
    fn radices(&self) -> Vec<u32> {
        let nodes = self.memories.len();
        let changes = self.memories.windows(2).filter(|pair| pair[0].package != pair[1].package).count();
        let packages = changes + 1;
        let per_package = nodes / packages;
        let mut groups = self.memories.chunks(per_package);
        let is_even = nodes.is_multiple_of(packages)
            && groups
                .all(|group| group.iter().all(|memory| memory.package.is_some() && memory.package == group[0].package));
        if is_even && packages > 1 && per_package > 1 {
            vec![per_package as u32, packages as u32]
        } else {
            vec![nodes as u32]
        }
    }

    /// The nodes whose cores all lie in `cpus`.
    fn nodes_in(&self, cpus: &Cpus) -> Vec<usize> {
        let inside = |memory: &Memory| memory.cpus.count() > 0 && memory.cpus.is_part_of(cpus);
        self.memories.iter().enumerate().filter(|(_, memory)| inside(memory)).map(|(node, _)| node).collect()
    }
}

/// The table of relative latencies between NUMA nodes, row after row.
fn distances(root: Element<'_, '_>, objects: &Objects) -> Result<Option<Vec<f64>>, Error> {
    const MEANS_LATENCY: u64 = 1 << 2;
    let nodes = objects.memories.len();
    for table in root.children().filter(|element| element.has_tag_name("distances2")) {
        let kind = optional_number(table, "kind")?.unwrap_or(0);
        if table.attribute("type") != Some("NUMANode") || kind & MEANS_LATENCY == 0 {
            continue;
        }
        let count = optional_number(table, "nbobjs")?.unwrap_or(0) as usize;
        let (indices, values) = (numbers(table, "indexes")?, numbers(table, "u64values")?);
        if count != nodes || indices.len() != count || values.len() != count * count {
            let message = format!(
                "a table of {count} objects with {} indices and {} values: expected {nodes}, {nodes} and {}",
                indices.len(),
                values.len(),
                nodes * nodes
            );
            return Err(at(table, message));
        }
        let by_os_index = table.attribute("indexing") != Some("gp");
        let place = |index: u64| match by_os_index {
            true => objects.memories.iter().position(|memory| memory.os_index == index),
            false => objects.node_of.get(&index).copied(),
        };
        let order: Option<Vec<usize>> = indices.iter().map(|&index| place(index)).collect();
        let order = order.ok_or_else(|| at(table, "names an object that is not there".to_owned()))?;
        let mut sorted = vec![0.0; nodes * nodes];
        for (i, &a) in order.iter().enumerate() {
            for (j, &b) in order.iter().enumerate() {
                sorted[a * nodes + b] = values[i * count + j] as f64;
            }
        }
        if sorted.iter().all(|&distance| distance > 0.0) {
            return Ok(Some(sorted));
        }
    }
    Ok(None)
}

/// Values of a memory attribute per pair of nodes: from the cores of the first to the memory of the second.
fn attribute(root: Element<'_, '_>, name: &str, objects: &Objects) -> Result<Option<Vec<Option<f64>>>, Error> {
    let nodes = objects.memories.len();
    let attributes = root.children().filter(|element| element.has_tag_name("memattr"));
    let Some(attribute) = attributes.into_iter().find(|element| element.attribute("name") == Some(name)) else {
        return Ok(None);
    };
    let mut values = vec![None; nodes * nodes];
    for entry in attribute.children().filter(|element| element.has_tag_name("memattr_value")) {
        let target = optional_number(entry, "target_obj_gp_index")?.and_then(|index| objects.node_of.get(&index));
        let (Some(&target), Some(value)) = (target, optional_number(entry, "value")?) else { continue };
        let initiators = match (entry.attribute("initiator_cpuset"), optional_number(entry, "initiator_obj_gp_index")?)
        {
            (Some(text), _) => objects.nodes_in(&Cpus::read(text, entry)?),
            (None, Some(index)) if entry.attribute("initiator_obj_type") == Some("NUMANode") => {
                objects.node_of.get(&index).into_iter().copied().collect()
            }
            (None, Some(index)) => objects.cpus_of.get(&index).map(|cpus| objects.nodes_in(cpus)).unwrap_or_default(),
            (None, None) => Vec::new(),
        };
        for initiator in initiators.into_iter().filter(|_| value > 0) {
            values[initiator * nodes + target] = Some(value as f64);
        }
    }
    Ok(values.iter().any(Option::is_some).then_some(values))
}

/// One number of two.
type Pick = fn(f64, f64) -> f64;

fn costs(
    root: Element<'_, '_>,
    objects: &Objects,
    distances: Option<&[f64]>,
    notes: &mut Vec<String>,
) -> Result<CostModel, Error> {
    let nodes = objects.memories.len();
    let relative = |a: usize, b: usize| match distances {
        Some(distances) => distances[a * nodes + b] / distances[b * nodes + b],
        None if a == b => 1.0,
        None => ASSUMED_DISTANCE / 10.0,
    };
    match distances {
        Some(_) => notes.push("relative distances are the machine's own table".to_owned()),
        None if nodes > 1 => {
            notes.push("there is no table of distances: another node is assumed to be twice as far".to_owned())
        }
        None => {}
    }
    let mut table =
        |names: [&str; 2], assumed: f64, unit: &str, (nearer, farther): (Pick, Pick)| -> Result<Vec<f64>, Error> {
            let told = match attribute(root, names[0], objects)? {
                Some(values) => Some((names[0], values)),
                None => attribute(root, names[1], objects)?.map(|values| (names[1], values)),
            };
            let known = told.as_ref().map(|(_, values)| &values[..]);
            notes.push(match &told {
                Some((name, values)) => format!(
                    "{}: {} of {} pairs told by the machine ({name}), the others scaled by distance",
                    names[0],
                    values.iter().flatten().count(),
                    nodes * nodes
                ),
                None => {
                    format!("{}: assumed, {assumed} {unit} at a distance of 1, the others scaled by distance", names[0])
                }
            });
            let value = |a: usize, b: usize| known.and_then(|values| values[a * nodes + b]);
            // Firmware often tells the local values alone; memory without cores has none.
            let local = |b: usize| {
                let nearest = || (0..nodes).filter_map(|a| value(a, b)).reduce(nearer);
                value(b, b).or_else(nearest).unwrap_or(assumed)
            };
            let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
            Ok(pairs.map(|(a, b)| value(a, b).unwrap_or_else(|| farther(local(b), relative(a, b)))).collect())
        };
    let per_byte = |bandwidths: Vec<f64>| -> Vec<f64> {
        bandwidths.into_iter().map(|mib_per_s| 1e9 / (mib_per_s * f64::from(1 << 20))).collect()
    };
    // What is near has a small latency and a large bandwidth.
    let (latency, bandwidth): ((Pick, Pick), (Pick, Pick)) = ((f64::min, Mul::mul), (f64::max, Div::div));
    let matrix = Matrix {
        read_ns: table(["ReadLatency", "Latency"], ASSUMED_LATENCY_NS, "ns", latency)?,
        write_ns: table(["WriteLatency", "Latency"], ASSUMED_LATENCY_NS, "ns", latency)?,
        read_ns_per_byte: per_byte(table(["ReadBandwidth", "Bandwidth"], ASSUMED_BANDWIDTH, "MiB/s", bandwidth)?),
        write_ns_per_byte: per_byte(table(["WriteBandwidth", "Bandwidth"], ASSUMED_BANDWIDTH, "MiB/s", bandwidth)?),
    };
    Ok(CostModel::Matrix(Box::new(matrix)))
}

/// A set of processors: words of 32 bits, the lowest first.
#[derive(Clone, Debug, Default)]
struct Cpus(Vec<u32>);

impl Cpus {
    /// As hwloc writes it: `0x0000000f,0xffffffff`, the highest word first; a word may be empty.
    fn read(text: &str, element: Element<'_, '_>) -> Result<Cpus, Error> {
        let words = text.rsplit(',').map(|word| match word.trim().strip_prefix("0x").unwrap_or(word) {
            "" => Some(0),
            digits => u32::from_str_radix(digits, 16).ok(),
        });
        let words: Option<Vec<u32>> = words.collect();
        words.map(Cpus).ok_or_else(|| at(element, format!("\"{}\": expected a set of processors", short(text))))
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    fn is_part_of(&self, other: &Cpus) -> bool {
        self.count() > 0 && self.0.iter().enumerate().all(|(index, word)| word & !other.0.get(index).unwrap_or(&0) == 0)
    }
}

fn numbers(table: Element<'_, '_>, tag: &str) -> Result<Vec<u64>, Error> {
    let texts = table.children().filter(|element| element.has_tag_name(tag)).filter_map(|element| element.text());
    let words = texts.flat_map(str::split_whitespace);
    let number =
        |word: &str| word.parse().map_err(|_| at(table, format!("\"{}\": expected a whole number", short(word))));
    words.map(number).collect()
}

fn optional_number(element: Element<'_, '_>, name: &str) -> Result<Option<u64>, Error> {
    let wrong = |text: &str| at(element, format!("{name}=\"{}\": expected a whole number", short(text)));
    element.attribute(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}

fn at(element: Element<'_, '_>, message: String) -> Error {
    Error::at_line(element.document().text_pos_at(element.range().start).row as usize, message)
}
