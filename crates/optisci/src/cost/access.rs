//! One access of some bytes from one node to another.
//!
//! The terms of SCIPOS are those of R. B. Ávila et al. 2002, section III B: memory bus, PCI bus, PCI-SCI bridge and
//! ring, each with its clock. Cycles are counted as whole numbers first and multiplied once, because a PCI cycle of
//! 1000/33 ns is no number that a computer has.

use crate::model::{Changing, CostModel, Insertion, Local, Model, Op, PassNode, Passes, ReturnPath, Scipos, Units};
use crate::topology::{Distance, Node, Topology};

/// What an access costs, by what the time is spent on, in ns. The terms of other cost models than SCIPOS are all
/// `wire`.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Terms {
    /// Memory at both ends.
    pub memory_ns: f64,
    /// Crossing the PCI bus.
    pub bus_ns: f64,
    /// Wrapping up, changing dimension, unwrapping: work of the bridges.
    pub bridge_ns: f64,
    /// Inserting packets onto the ring.
    pub insertion_ns: f64,
    /// Passing nodes and cables.
    pub wire_ns: f64,
}

impl Terms {
    /// All of them.
    pub fn total_ns(&self) -> f64 {
        self.memory_ns + self.bus_ns + self.bridge_ns + self.insertion_ns + self.wire_ns
    }
}

/// The cost of one access in ns.
#[inline]
pub(super) fn access_ns(model: &Model, op: Op, size: u64, a: Node, b: Node) -> f64 {
    terms(model, op, size, a, b).total_ns()
}

/// The cost of one access, by its terms.
pub(super) fn terms(model: &Model, op: Op, size: u64, a: Node, b: Node) -> Terms {
    match &model.cost_model {
        CostModel::Scipos(scipos) => scipos_terms(scipos, &model.topology, op, size, a, b),
        CostModel::Matrix(matrix) => {
            let entry = a as usize * model.nodes() + b as usize;
            let (start, per_byte) = match op {
                Op::Read => (&matrix.read_ns, &matrix.read_ns_per_byte),
                Op::Write => (&matrix.write_ns, &matrix.write_ns_per_byte),
            };
            Terms { wire_ns: start[entry] + size as f64 * per_byte[entry], ..Terms::default() }
        }
        CostModel::HopBytes(costs) => {
            // A product of whole numbers first: exact, and the same in whatever order it is multiplied on.
            let byte_hops = size as f64 * f64::from(model.topology.hops(a, b));
            Terms { wire_ns: byte_hops * costs.ns_per_byte_hop, ..Terms::default() }
        }
    }
}

fn scipos_terms(scipos: &Scipos, topology: &Topology, op: Op, size: u64, a: Node, b: Node) -> Terms {
    let units = |unit: u64| match scipos.readings.units {
        Units::Whole => size.div_ceil(unit) as f64,
        Units::Fractions => size as f64 / unit as f64,
    };
    let memory_ns = 14.0 * units(8) * 1000.0 / scipos.mem_mhz;
    if a == b {
        match scipos.readings.local {
            Local::Memory => return Terms { memory_ns, ..Terms::default() },
            Local::Zero => return Terms::default(),
            Local::TwoMemories => return Terms { memory_ns: 2.0 * memory_ns, ..Terms::default() },
            Local::Remote => {}
        }
    }
    let there = topology.distance(a, b);
    let mut ways = Ways::default();
    ways.add(scipos, topology, there);
    let mut memories = 2.0;
    if op == Op::Read {
        let back = match scipos.readings.return_path {
            ReturnPath::Back => topology.distance(b, a),
            ReturnPath::AsPrinted => there,
        };
        ways.add(scipos, topology, back);
        memories += 1.0;
    }
    let packets = units(64);
    let cycle_ns = 1000.0 / scipos.bridge_mhz;
    let pass_ns = 4.0 * 1000.0 / scipos.ring_mhz + 25.0;
    let passes = match scipos.readings.passes {
        Passes::PerAccess => ways.passes,
        Passes::PerPacket => ways.passes * packets,
    };
    Terms {
        memory_ns: memories * memory_ns,
        bus_ns: ways.legs * 6.0 * units(4) * 1000.0 / scipos.pci_mhz,
        bridge_ns: (ways.legs * 20.0 + ways.changes * 12.0) * packets * cycle_ns,
        insertion_ns: ways.insertions * 200.0 * packets,
        wire_ns: passes * pass_ns,
    }
}

/// How often each thing happens on the ways of one access.
#[derive(Default)]
struct Ways {
    legs: f64,
    passes: f64,
    changes: f64,
    insertions: f64,
}

impl Ways {
    fn add(&mut self, scipos: &Scipos, topology: &Topology, distance: Distance) {
        let hops = f64::from(distance.hops);
        self.legs += 1.0;
        self.passes += match scipos.readings.pass_node {
            PassNode::Links => hops,
            // Each of the sums has one term more than there are links between its ends.
            PassNode::Nodes => hops + dimensions(topology),
        };
        self.changes += match scipos.readings.changing {
            Changing::Turns => f64::from(distance.turns()),
            Changing::Always => 1.0,
        };
        self.insertions += match scipos.readings.insertion {
            Insertion::Once => 1.0,
            Insertion::PerLink => hops,
        };
    }
}

fn dimensions(topology: &Topology) -> f64 {
    match topology {
        Topology::Torus(torus) => torus.dims.len() as f64,
        Topology::FatTree(_) => 1.0,
    }
}
