//! Graphs, architectures and mappings for METIS and Scotch. Vertices are processes, then segments, in the model's
//! order; edges weigh the bytes that flow between them, either way.
//!
//! Both tools add weights up in 32 bits as distributions build them: weights that would overflow are scaled down,
//! together.

use std::fmt::Write;

use crate::program::traffic;
use crate::topology::Topology;
use crate::{Error, Model, Placement};

/// All weights together stay below this.
const MOST_WEIGHT: u64 = 1 << 30;

/// Neighbours of each vertex with weights that the tools can add up, and how many edges there are.
fn edges(model: &Model) -> (Vec<Vec<(usize, u64)>>, usize) {
    let mut neighbours = traffic(model);
    let arcs: usize = neighbours.iter().map(Vec::len).sum();
    let total: u128 = neighbours.iter().flatten().map(|&(_, bytes)| u128::from(bytes)).sum();
    let scale = total.div_ceil(u128::from(MOST_WEIGHT)).max(1);
    for (_, bytes) in neighbours.iter_mut().flatten() {
        *bytes = u128::from(*bytes).div_ceil(scale) as u64;
    }
    (neighbours, arcs / 2)
}

/// Source of the form: see the import.
pub(super) fn metis(model: &Model) -> String {
    let (neighbours, edges) = edges(model);
    let mut text = format!("{} {edges} 001\n", neighbours.len());
    for list in &neighbours {
        let words: Vec<String> = list.iter().map(|(neighbour, weight)| format!("{} {weight}", neighbour + 1)).collect();
        text.push_str(&words.join(" "));
        text.push('\n');
    }
    text
}

pub(super) fn scotch(model: &Model) -> String {
    let (neighbours, edges) = edges(model);
    let mut text = format!("0\n{} {}\n0 010\n", neighbours.len(), 2 * edges);
    for list in &neighbours {
        let _ = write!(text, "{}", list.len());
        list.iter().for_each(|(neighbour, weight)| {
            let _ = write!(text, " {weight} {neighbour}");
        });
        text.push('\n');
    }
    text
}

/// Links of a directed torus go both ways in Scotch, which knows no others.
pub(super) fn target(model: &Model) -> String {
    let words = |sizes: &[u32]| sizes.iter().map(|size| size.to_string()).collect::<Vec<String>>().join(" ");
    match &model.topology {
        Topology::Torus(torus) => match torus.dims.len() {
            2 => format!("torus2D {}\n", words(&torus.dims)),
            3 => format!("torus3D {}\n", words(&torus.dims)),
            count => format!("torusXD {count} {}\n", words(&torus.dims)),
        },
        // Every level is crossed up and down.
        Topology::FatTree(tree) => {
            let levels: Vec<String> = tree.radices.iter().rev().map(|radix| format!("{radix} 2")).collect();
            format!("tleaf {} {}\n", levels.len(), levels.join(" "))
        }
    }
}

pub(super) fn scotch_map(model: &Model, placement: &Placement) -> Result<String, Error> {
    let nodes = vertices(model, placement)?;
    let mut text = format!("{}\n", nodes.len());
    for (vertex, node) in nodes.iter().enumerate() {
        let _ = writeln!(text, "{vertex}\t{node}");
    }
    Ok(text)
}

pub(super) fn metis_part(model: &Model, placement: &Placement) -> Result<String, Error> {
    Ok(vertices(model, placement)?.iter().map(|node| format!("{node}\n")).collect())
}

fn vertices(model: &Model, placement: &Placement) -> Result<Vec<u32>, Error> {
    let mut nodes = placement.processes.clone();
    for (segment, home) in model.segments.iter().zip(&placement.segments) {
        match home.nodes() {
            [node] => nodes.push(*node),
            copies => {
                let message = format!("segment \"{}\" has {} copies: a vertex has one node", segment.id, copies.len());
                return Err(Error::whole(message));
            }
        }
    }
    Ok(nodes)
}
