//! Placements that Scotch (`.map`) and METIS (`.part.N`) computed: vertices are processes, then segments, in the
//! model's order, as the exported graphs number them.

use super::lines::{Words, number};
use crate::counted::counted;
use crate::placement::Home;
use crate::topology::Node;
use crate::{Error, Model, Placement};

/// `count`, then one `vertex node` per line.
pub(super) fn scotch(text: &str, model: &Model) -> Result<Placement, Error> {
    let mut words = Words::new(text);
    let vertices = vertices(model);
    let count = words.number("the number of vertices", 1 << 32)?;
    if count != vertices as u64 {
        return Err(Error::at_line(words.line, wrong_count(count, model)));
    }
    let mut nodes = vec![None; vertices];
    for _ in 0..vertices {
        let vertex = words.number("a vertex", vertices.saturating_sub(1) as u64)? as usize;
        let node = words.number("a node", model.nodes() as u64 - 1)? as Node;
        if nodes[vertex].replace(node).is_some() {
            return Err(Error::at_line(words.line, format!("vertex {vertex} is placed twice")));
        }
    }
    words.end()?;
    Ok(placement(model, nodes.into_iter().flatten().collect()))
}

/// One node per line, in the order of vertices.
pub(super) fn metis(text: &str, model: &Model) -> Result<Placement, Error> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let nodes = lines.map(|(index, line)| {
        number(line.trim(), index + 1, "a node", model.nodes() as u64 - 1).map(|node| node as Node)
    });
    let nodes = nodes.collect::<Result<Vec<Node>, Error>>()?;
    if nodes.len() != vertices(model) {
        return Err(Error::whole(wrong_count(nodes.len() as u64, model)));
    }
    Ok(placement(model, nodes))
}

fn vertices(model: &Model) -> usize {
    model.processes.len() + model.segments.len()
}

fn wrong_count(count: u64, model: &Model) -> String {
    format!(
        "places {}, but the model has {} and {}: is it of this model's graph?",
        counted(count, "vertex", "vertices"),
        counted(model.processes.len(), "process", "processes"),
        counted(model.segments.len(), "segment", "segments")
    )
}

fn placement(model: &Model, mut nodes: Vec<Node>) -> Placement {
    let segments = nodes.split_off(model.processes.len());
    Placement { processes: nodes, segments: segments.into_iter().map(Home::One).collect() }
}
