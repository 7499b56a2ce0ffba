//! The model: machine, program, limits, and what is to be made small.
//!
//! Everything is numbered: a process, a segment or a node is its index. Ids (strings) are for people and files. A
//! [`Model`] that was read with [`Model::from_json`] is consistent; whoever builds one by hand keeps it so.

pub(crate) mod check;
pub(crate) mod file;
mod layout;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::topology::{Node, Topology};

/// A limit that limits nothing.
pub const UNLIMITED: u64 = u64::MAX;

/// Machine, program and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// What people call it.
    pub id: Option<String>,
    /// The interconnect.
    pub topology: Topology,
    /// What an access costs.
    pub cost_model: CostModel,
    /// The processes.
    pub processes: Vec<Process>,
    /// The shared segments.
    pub segments: Vec<Segment>,
    /// Who reads and writes what, how often.
    pub accesses: Vec<Access>,
    /// Who sends to whom, how often.
    pub messages: Vec<Message>,
    /// Processes that each node can hold; `None`: any number everywhere.
    pub process_slots: Option<Vec<u64>>,
    /// Segments, copies included, that each node can hold.
    pub segment_slots: Option<Vec<u64>>,
    /// Bytes of segments, copies included, that each node can hold.
    pub memory_bytes: Option<Vec<u64>>,
    /// What a search makes small unless it is told otherwise.
    pub objective: Objective,
}

/// A process of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its name, unique among processes.
    pub id: String,
    /// The node that it must be on.
    pub pin: Option<Node>,
}

/// A shared segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its name, unique among segments.
    pub id: String,
    /// Memory that each copy takes.
    pub bytes: u64,
    /// The node that it must be on, alone.
    pub pin: Option<Node>,
    /// It may have a copy on several nodes; a read takes the cheapest, a write pays to every one.
    pub replicable: bool,
}

/// Reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Data flows from the segment to the process.
    Read,
    /// Data flows from the process to the segment.
    Write,
}

/// Accesses of one process to one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Index of the process.
    pub process: u32,
    /// Index of the segment.
    pub segment: u32,
    /// Reading or writing.
    pub op: Op,
    /// How many.
    pub count: u64,
    /// Bytes of each.
    pub size: u64,
}

/// Messages from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Index of the sender, who pays.
    pub from: u32,
    /// Index of the receiver.
    pub to: u32,
    /// How many.
    pub count: u64,
    /// Bytes of each.
    pub size: u64,
}

/// What is to be made small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The time of all processes together, in ns: the paper's Phi.
    #[default]
    Sum,
    /// The time of the process that takes longest, in ns.
    Makespan,
    /// The bytes on the busiest directed link.
    MaxLink,
}

impl Objective {
    /// As it stands in a model file.
    pub fn name(self) -> &'static str {
        match self {
            Objective::Sum => "sum",
            Objective::Makespan => "makespan",
            Objective::MaxLink => "max_link",
        }
    }
}

/// What an access costs.
#[derive(Clone, Debug, PartialEq)]
pub enum CostModel {
    /// The hardware model of SCIPOS.
    Scipos(Scipos),
    /// Measured or imported costs per pair of nodes.
    Matrix(Box<Matrix>),
    /// Bytes times links.
    HopBytes(HopBytes),
}

/// Clocks of an SCI cluster, and how the paper's formulas are read.
#[derive(Clone, Debug, PartialEq)]
pub struct Scipos {
    /// Memory bus, MHz.
    pub mem_mhz: f64,
    /// PCI bus, MHz.
    pub pci_mhz: f64,
    /// PCI-SCI bridge, MHz.
    pub bridge_mhz: f64,
    /// SCI ring, MHz.
    pub ring_mhz: f64,
    /// How the printed formulas are read.
    pub readings: Readings,
}

impl Default for Scipos {
    /// The clocks of the paper: 100, 33, 1000 and 500 MHz.
    fn default() -> Scipos {
        Scipos { mem_mhz: 100.0, pci_mhz: 33.0, bridge_mhz: 1000.0, ring_mhz: 500.0, readings: Readings::default() }
    }
}

/// How the paper's printed formulas are read where they leave a choice; the default of each is the one that we
/// recommend. See `docs/design/020-readings.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct Readings {
    /// What a process pays for a segment on its own node.
    pub local: Local,
    /// What `pass_node` is paid for on the way.
    pub pass_node: PassNode,
    /// How often `pass_node` is paid.
    pub passes: Passes,
    /// When `T_changing` is paid.
    pub changing: Changing,
    /// Sizes that are no multiple of a unit.
    pub units: Units,
    /// Which way the data of a read comes back.
    pub return_path: ReturnPath,
    /// How often `T_insertion` is paid.
    pub insertion: Insertion,
    /// Whether `T_sm` counts how often something is accessed.
    pub counts: Counts,
}

/// What a process pays for a segment on its own node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Local {
    /// One memory access.
    #[default]
    Memory,
    /// Nothing.
    Zero,
    /// Two memory accesses: from memory and to memory.
    TwoMemories,
    /// The whole formula, with no link crossed.
    Remote,
}

/// What `pass_node` is paid for on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassNode {
    /// Each link crossed.
    #[default]
    Links,
    /// As the sums are printed: each node from the first to the last of each sum, both included. There are two sums,
    /// one per dimension of a 2-D torus; a topology of one dimension has one.
    Nodes,
}

/// How often `pass_node` is paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Passes {
    /// Once per access, as printed: packets follow each other like a worm.
    #[default]
    PerAccess,
    /// Once for each packet of 64 bytes.
    PerPacket,
}

/// When `T_changing` is paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Changing {
    /// For each change of dimension on the way.
    #[default]
    Turns,
    /// Once on every way, as printed.
    Always,
}

/// Sizes that are no multiple of a unit (8, 4 or 64 bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Units {
    /// A unit that was begun is paid whole.
    #[default]
    Whole,
    /// Plain fractions, as printed.
    Fractions,
}

/// Which way the data of a read comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReturnPath {
    /// The way from the segment to the process, which on a directed ring is the rest of the turn.
    #[default]
    Back,
    /// As printed: the same sums as on the way there.
    AsPrinted,
}

/// How often `T_insertion` is paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Insertion {
    /// Once on each way, as printed.
    #[default]
    Once,
    /// At every link.
    PerLink,
}

/// Whether `T_sm` counts how often something is accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counts {
    /// Each access weighs as often as it happens.
    #[default]
    Weighted,
    /// As printed: each entry of `accesses` weighs once.
    Once,
}

/// Costs per pair of nodes: `op_ns[a][b] + size * op_ns_per_byte[a][b]`, `a` the process's node. Rows one after
/// another.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Start-up of a read, ns.
    pub read_ns: Vec<f64>,
    /// Start-up of a write, ns.
    pub write_ns: Vec<f64>,
    /// Each byte read, ns.
    pub read_ns_per_byte: Vec<f64>,
    /// Each byte written, ns.
    pub write_ns_per_byte: Vec<f64>,
}

/// Bytes times links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HopBytes {
    /// Each byte on each link, ns.
    pub ns_per_byte_hop: f64,
}

impl Model {
    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.topology.nodes()
    }

    /// What it consists of, in a few words.
    pub fn summary(&self) -> String {
        let count = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        [
            count(self.nodes(), "node", "nodes"),
            count(self.processes.len(), "process", "processes"),
            count(self.segments.len(), "segment", "segments"),
            count(self.accesses.len(), "entry of accesses", "entries of accesses"),
            count(self.messages.len(), "entry of messages", "entries of messages"),
        ]
        .join(", ")
    }

    /// Reads a model file.
    ///
    /// # Errors
    /// The field, by its JSON path, and what was expected there.
    pub fn from_json(text: &str) -> Result<Model, Error> {
        // What another version has, and what it lacks, says nothing to whoever reads this one.
        let file = file::parse(text).map_err(|error| check::version_of(text).err().unwrap_or(error))?;
        check::model(file)
    }

    /// The model as a file, which [`from_json`](Model::from_json) reads as the same model.
    pub fn to_json(&self) -> String {
        layout::text(&check::file(self))
    }

    /// How often an entry of `accesses` or `messages` weighs: its count, unless the model is read otherwise.
    #[inline]
    pub fn weight(&self, count: u64) -> u64 {
        match &self.cost_model {
            CostModel::Scipos(Scipos { readings: Readings { counts: Counts::Once, .. }, .. }) => count.min(1),
            _ => count,
        }
    }
}
