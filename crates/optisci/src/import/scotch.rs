//! Graphs (`.grf`) and target architectures (`.tgt`) of Scotch.
//!
//! Source: F. Pellegrini, "Scotch and libScotch User's Guide", sections on graph and architecture files. A graph is
//! version 0, numbers of vertices and of arcs, base and a flag of three digits (labels, loads of edges, loads of
//! vertices), then for each vertex `[label] [load] degree ([load] neighbour)...`. An architecture is a word and its
//! sizes.

use std::collections::HashMap;

use super::Found;
use super::lines::{Words, short};
use super::metis::of_edges;
use crate::Error;
use crate::model::file::LARGEST_WHOLE;
use crate::model::{CostModel, HopBytes, Matrix};
use crate::program::Machine;
use crate::topology::{FatTree, MOST_NODES, Topology, Torus};

pub(super) fn program(text: &str) -> Result<Found, Error> {
    let mut words = Words::new(text);
    words.number("0, the version of Scotch graphs", 0)?;
    let vertices = words.number("the number of vertices", 1 << 24)?;
    let arcs = words.number("the number of arcs", LARGEST_WHOLE)?;
    let base = words.number("the base, 0 or 1", 1)?;
    let flag = words.word("a flag of three digits")?;
    if flag.len() != 3 || flag.contains(|digit| digit != '0' && digit != '1') {
        return Err(Error::at_line(words.line, format!("\"{}\": expected three digits 0 or 1", short(flag))));
    }
    let [labels, edge_loads, vertex_loads] = [0, 1, 2].map(|place| flag.as_bytes()[place] == b'1');

    let mut numbers: HashMap<u64, u32> = HashMap::new();
    let mut all: Vec<(u32, u64, u64, usize)> = Vec::new();
    for vertex in 0..vertices {
        let label = if labels { words.number("a label", LARGEST_WHOLE)? } else { vertex + base };
        if numbers.insert(label, vertex as u32).is_some() {
            return Err(Error::at_line(words.line, format!("the label {label} is there twice")));
        }
        if vertex_loads {
            words.number("the load of a vertex", LARGEST_WHOLE)?;
        }
        let degree = words.number("the degree of a vertex", arcs)?;
        for _ in 0..degree {
            let load = if edge_loads { words.number("the load of an edge", LARGEST_WHOLE)? } else { 1 };
            let neighbour = words.number("a neighbour", LARGEST_WHOLE)?;
            all.push((vertex as u32, neighbour, load, words.line));
        }
    }
    words.end()?;
    if all.len() as u64 != arcs {
        return Err(Error::at_line(2, format!("says {arcs} arcs, but there are {}", all.len())));
    }
    let mut waiting: HashMap<(u32, u32), (u64, usize)> = HashMap::new();
    let mut edges = Vec::new();
    for (a, neighbour, load, line) in all {
        let b = numbers.get(&neighbour).copied().filter(|&b| b != a);
        let b = b.ok_or_else(|| Error::at_line(line, format!("{neighbour} cannot be a neighbour here")))?;
        let edge = (a.min(b), a.max(b));
        match waiting.remove(&edge) {
            None => {
                waiting.insert(edge, (load, line));
            }
            Some((other, at)) if other != load => {
                let message = format!("the edge to {neighbour} has the load {load}, but {other} in line {at}");
                return Err(Error::at_line(line, message));
            }
            Some(_) => edges.push((edge.0, edge.1, load)),
        }
    }
    if let Some((_, &(_, line))) = waiting.iter().min_by_key(|(_, (_, line))| *line) {
        return Err(Error::at_line(line, "an edge is named by one of its vertices only"));
    }
    let note = || vec!["loads of vertices are left out: processes have none".to_owned()];
    let notes = if vertex_loads { note() } else { Vec::new() };
    Ok(Found { program: Some(of_edges(vertices as usize, edges)), notes, ..Found::default() })
}

pub(super) fn machine(text: &str) -> Result<Found, Error> {
    let mut words = Words::new(text);
    let kind = words.word("an architecture: cmplt, hcub, tleaf, torus2D, torus3D or torusXD")?;
    let size = |words: &mut Words<'_>| words.number("a size", MOST_NODES as u64).map(|size| size as u32);
    let sizes =
        |words: &mut Words<'_>, count: u64| (0..count).map(|_| size(words)).collect::<Result<Vec<u32>, Error>>();
    let hop_bytes = |ns_per_byte_hop: f64| CostModel::HopBytes(HopBytes { ns_per_byte_hop });
    let torus = |dims| (Topology::Torus(Torus { dims, directed: false }), hop_bytes(1.0));
    let (topology, cost_model) = match kind {
        "torus2D" => torus(sizes(&mut words, 2)?),
        "torus3D" => torus(sizes(&mut words, 3)?),
        "torusXD" => {
            let count = words.number("the number of dimensions", 16)?;
            torus(sizes(&mut words, count)?)
        }
        "hcub" => {
            let count = words.number("the number of dimensions", 16)?;
            torus(vec![2; count.max(1) as usize])
        }
        // Two different nodes of a complete graph are 1 apart, and two links through a switch.
        "cmplt" => (Topology::FatTree(FatTree { radices: vec![size(&mut words)?] }), hop_bytes(0.5)),
        "tleaf" => tree(&mut words)?,
        _ => {
            let message = format!(
                "\"{}\": expected cmplt, hcub, tleaf, torus2D, torus3D or torusXD; meshes and decomposed architectures \
                 have no counterpart here",
                short(kind)
            );
            return Err(Error::at_line(words.line, message));
        }
    };
    words.end()?;
    let nodes = topology_nodes(&topology, words.line)?;
    let machine =
        Machine { topology, cost_model, process_slots: Some(vec![1; nodes]), segment_slots: None, memory_bytes: None };
    Ok(Found { machine: Some(machine), ..Found::default() })
}

fn topology_nodes(topology: &Topology, line: usize) -> Result<usize, Error> {
    let (Topology::Torus(Torus { dims: sizes, .. }) | Topology::FatTree(FatTree { radices: sizes })) = topology;
    let nodes = sizes.iter().try_fold(1usize, |nodes, &size| {
        nodes.checked_mul(size as usize).filter(|&nodes| (1..=MOST_NODES).contains(&nodes))
    });
    nodes.filter(|_| !sizes.is_empty()).ok_or_else(|| {
        Error::at_line(line, format!("has no nodes, or more than {MOST_NODES}: no machine can be made of that"))
    })
}

/// The most nodes of a tree whose levels cost differently: such costs are a matrix.
const MOST_NODES_OF_MATRIX: usize = 2048;

/// `tleaf height (children weight)...`, the root first. Two leaves are as far apart as the weights of all levels from
/// the one where they part, down.
fn tree(words: &mut Words<'_>) -> Result<(Topology, CostModel), Error> {
    let height = words.number("the height of the tree", 16)?;
    let mut levels = Vec::new();
    for _ in 0..height {
        let children = words.number("the number of children", MOST_NODES as u64)? as u32;
        levels.push((children, words.number("the weight of a level", 1 << 32)?));
    }
    levels.reverse();
    let topology = Topology::FatTree(FatTree { radices: levels.iter().map(|(children, _)| *children).collect() });
    let nodes = topology_nodes(&topology, words.line)?;
    let first = levels[0].1;
    if levels.iter().all(|(_, weight)| *weight == first) {
        let costs = HopBytes { ns_per_byte_hop: first as f64 / 2.0 };
        return Ok((topology, CostModel::HopBytes(costs)));
    }
    if nodes > MOST_NODES_OF_MATRIX {
        let message = format!("levels of different weights are understood up to {MOST_NODES_OF_MATRIX} leaves");
        return Err(Error::at_line(words.line, message));
    }
    let distance = |a: u32, b: u32| {
        let climbed = topology.hops(a, b) as usize / 2;
        levels[..climbed].iter().map(|(_, weight)| *weight as f64).sum::<f64>()
    };
    let leaves = 0..nodes as u32;
    let per_byte: Vec<f64> =
        leaves.clone().flat_map(|a| leaves.clone().map(move |b| (a, b))).map(|(a, b)| distance(a, b)).collect();
    let zero = vec![0.0; nodes * nodes];
    let matrix = Matrix {
        read_ns: zero.clone(),
        write_ns: zero,
        read_ns_per_byte: per_byte.clone(),
        write_ns_per_byte: per_byte,
    };
    Ok((topology, CostModel::Matrix(Box::new(matrix))))
}
