//! Graphs of METIS (`.graph`): vertices are processes, edges what they send each other.
//!
//! Source: G. Karypis, "METIS, A Software Package for Partitioning Unstructured Graphs", version 5.1 manual, section
//! 4.1.1. The first line is `vertices edges [format [constraints]]`; one line per vertex follows: its size, weights and
//! neighbours as the three digits of the format say. Lines that begin with `%` are comments.

use std::collections::HashMap;

use super::Found;
use super::lines::{number, short};
use crate::Error;
use crate::counted::counted;
use crate::model::file::LARGEST_WHOLE;
use crate::program::Program;
use crate::topology::MOST_NODES;

pub(super) fn program(text: &str) -> Result<Found, Error> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let mut lines = lines.filter(|(_, line)| !line.trim_start().starts_with('%'));
    let header = lines.by_ref().find(|(_, line)| !line.trim().is_empty());
    let (header_line, header) = header.ok_or_else(|| Error::at_line(1, "the text is empty: expected a METIS graph"))?;
    let Header { vertices, edges, sizes, weights, edge_weights } = Header::read(header, header_line)?;
    let present = text.lines().count();
    // Lines of vertices without neighbours may be left out at the end: as many as there may be nodes for them.
    if vertices > (present + MOST_NODES) as u64 {
        let message = format!("says {vertices} vertices, but the text has {}", counted(present, "line", "lines"));
        return Err(Error::at_line(header_line, message));
    }

    // The first end that names an edge waits here for the second.
    let mut waiting: HashMap<(u32, u32), (u64, usize)> = HashMap::new();
    let mut found: Vec<(u32, u32, u64)> = Vec::new();
    let mut last = header_line;
    for vertex in 0..vertices {
        // A vertex without neighbours is an empty line, and the last ones of these are often left out altogether.
        let (line, text) = lines.next().unwrap_or((last, ""));
        last = line;
        let mut words = text.split_whitespace();
        for _ in 0..usize::from(sizes) + weights {
            let word = words.next().unwrap_or_default();
            number(word, line, "a size or weight of the vertex", LARGEST_WHOLE)?;
        }
        while let Some(word) = words.next() {
            let neighbour = number(word, line, "a vertex", vertices)?;
            let weight = match edge_weights {
                true => number(words.next().unwrap_or_default(), line, "the weight of an edge", LARGEST_WHOLE)?,
                false => 1,
            };
            let (a, b) = (vertex as u32, neighbour.wrapping_sub(1) as u32);
            if neighbour == 0 || a == b {
                return Err(Error::at_line(
                    line,
                    format!("vertex {} cannot have the neighbour {neighbour}", vertex + 1),
                ));
            }
            match waiting.remove(&(a.min(b), a.max(b))) {
                None => {
                    waiting.insert((a.min(b), a.max(b)), (weight, line));
                }
                Some((other, at)) if other != weight => {
                    let message = format!("the edge to {neighbour} weighs {weight}, but {other} in line {at}");
                    return Err(Error::at_line(line, message));
                }
                Some(_) => found.push((a.min(b), a.max(b), weight)),
            }
        }
    }
    if let Some((&(a, b), &(_, line))) = waiting.iter().min_by_key(|(_, (_, line))| *line) {
        return Err(Error::at_line(
            line,
            format!("the edge between {} and {} is named by one of them only", a + 1, b + 1),
        ));
    }
    if found.len() as u64 != edges {
        return Err(Error::at_line(header_line, format!("says {edges} edges, but there are {}", found.len())));
    }
    if let Some((line, text)) = lines.find(|(_, line)| !line.trim().is_empty()) {
        return Err(Error::at_line(line, format!("\"{}\": expected the end, after {vertices} vertices", short(text))));
    }
    let notes =
        if weights > 0 { vec!["weights of vertices are left out: processes have none".to_owned()] } else { Vec::new() };
    Ok(Found { program: Some(of_edges(vertices as usize, found)), notes, ..Found::default() })
}

struct Header {
    vertices: u64,
    edges: u64,
    sizes: bool,
    weights: usize,
    edge_weights: bool,
}

impl Header {
    fn read(text: &str, line: usize) -> Result<Header, Error> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [vertices, edges, rest @ ..] = &words[..] else {
            return Err(Error::at_line(line, "expected the numbers of vertices and edges"));
        };
        // More than a text can hold are not believed.
        let vertices = number(vertices, line, "the number of vertices", 1 << 24)?;
        let edges = number(edges, line, "the number of edges", LARGEST_WHOLE)?;
        let format = rest.first().copied().unwrap_or("0");
        if format.is_empty() || format.len() > 3 || format.contains(|digit| digit != '0' && digit != '1') {
            return Err(Error::at_line(
                line,
                format!("\"{}\": expected a format of up to three digits 0 or 1", short(format)),
            ));
        }
        let digit = |place: usize| format.len() > place && format.as_bytes()[format.len() - 1 - place] == b'1';
        let constraints = match rest.get(1) {
            Some(word) => number(word, line, "the number of weights per vertex", 64)? as usize,
            None => 1,
        };
        if let Some(word) = rest.get(2) {
            return Err(Error::at_line(line, format!("\"{}\": expected at most four numbers", short(word))));
        }
        let weights = if digit(1) { constraints } else { 0 };
        Ok(Header { vertices, edges, sizes: digit(2), weights, edge_weights: digit(0) })
    }
}

/// A program of processes that exchange the weights of edges as bytes, half each way.
pub(super) fn of_edges(vertices: usize, mut edges: Vec<(u32, u32, u64)>) -> Program {
    let mut program = Program::of_ranks(vertices);
    edges.sort_unstable();
    for (a, b, bytes) in edges {
        for (from, to, bytes) in [(a, b, bytes.div_ceil(2)), (b, a, bytes / 2)] {
            if bytes > 0 {
                program.add_messages(from, to, 1, bytes);
            }
        }
    }
    program
}
