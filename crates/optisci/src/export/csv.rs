//! Tables for a spreadsheet, in the form that the import reads again.

use std::collections::{BTreeMap, BTreeSet};

use csv::Writer;

use crate::model::file::LARGEST_WHOLE;
use crate::model::{CostModel, Model, Op};
use crate::{Error, Placement};

pub(super) fn tables(model: &Model, placement: &Placement) -> Result<String, Error> {
    let ids = model.processes.iter().map(|process| &process.id).chain(model.segments.iter().map(|segment| &segment.id));
    for id in ids {
        let is_blank = id.trim_matches([',', ' ', '\t']).is_empty();
        if id.contains(['\n', '\r']) || is_blank || id.trim() != id {
            let message =
                format!("the id {id:?} cannot stand in a table: rename it; blanks around it and line breaks get lost");
            return Err(Error::whole(message));
        }
    }
    let pin = |pin: Option<u32>| pin.map(|node| node.to_string()).unwrap_or_default();
    let head = ["process", "pin", "node"].map(str::to_owned);
    let rows = model.processes.iter().zip(&placement.processes);
    let rows = rows.map(|(process, node)| [process.id.clone(), pin(process.pin), node.to_string()]);
    let mut blocks = vec![block(head, rows)];
    let head = ["segment", "bytes", "replicable", "pin", "node"].map(str::to_owned);
    let rows = model.segments.iter().zip(&placement.segments).map(|(segment, home)| {
        let nodes: Vec<String> = home.nodes().iter().map(u32::to_string).collect();
        let replicable = segment.replicable.to_string();
        [segment.id.clone(), segment.bytes.to_string(), replicable, pin(segment.pin), nodes.join(" ")]
    });
    blocks.push(block(head, rows));

    let most = most_together(model);
    let mut accesses: BTreeMap<(Op, u64), Alike> = BTreeMap::new();
    for access in &model.accesses {
        let alike = accesses.entry((access.op, access.size)).or_default();
        alike.add((access.process, access.segment), access.count, most);
    }
    for ((op, size), alike) in &accesses {
        let title = match op {
            Op::Read => format!("read {size}"),
            Op::Write => format!("write {size}"),
        };
        blocks.extend(alike.blocks(&title, model, |segment| &model.segments[segment as usize].id));
    }
    let mut messages: BTreeMap<u64, Alike> = BTreeMap::new();
    for message in &model.messages {
        messages.entry(message.size).or_default().add((message.from, message.to), message.count, most);
    }
    for (size, alike) in &messages {
        let title = format!("messages {size}");
        blocks.extend(alike.blocks(&title, model, |process| &model.processes[process as usize].id));
    }
    if let CostModel::Matrix(matrix) = &model.cost_model {
        let tables = [
            ("read_ns", &matrix.read_ns),
            ("write_ns", &matrix.write_ns),
            ("read_ns_per_byte", &matrix.read_ns_per_byte),
            ("write_ns_per_byte", &matrix.write_ns_per_byte),
        ];
        blocks.extend(tables.map(|(title, entries)| costs(title, entries, model.nodes())));
    }
    Ok(blocks.join("\n"))
}

fn costs(title: &str, entries: &[f64], nodes: usize) -> String {
    let head = row(title.to_owned(), (0..nodes).map(|node| node.to_string()));
    let rows = entries.chunks(nodes).enumerate();
    let rows = rows.map(|(node, entries)| row(node.to_string(), entries.iter().map(f64::to_string)));
    block(head, rows)
}

/// What the counts of entries of the same place may be together. Where each entry weighs once, none are together.
fn most_together(model: &Model) -> u64 {
    // It weighs as much as 1: entries are what counts.
    if model.weight(LARGEST_WHOLE) < LARGEST_WHOLE { 0 } else { LARGEST_WHOLE }
}

/// Counts of entries that differ by row and column alone, in as few blocks as take them.
#[derive(Default)]
struct Alike {
    blocks: Vec<Counts>,
    /// The block that has the last entry of a place.
    last: BTreeMap<(u32, u32), usize>,
}

impl Alike {
    fn add(&mut self, place: (u32, u32), count: u64, most_together: u64) {
        let last = self.last.entry(place).or_default();
        let there = self.blocks.get(*last).and_then(|counts| counts.entries.get(&place));
        if there.is_some_and(|there| there + count > most_together) {
            *last += 1;
        }
        if *last == self.blocks.len() {
            self.blocks.push(Counts::default());
        }
        self.blocks[*last].add(place, count);
    }

    fn blocks<'a>(&self, title: &str, model: &Model, name: impl Fn(u32) -> &'a String) -> Vec<String> {
        self.blocks.iter().map(|counts| counts.block(title.to_owned(), model, &name)).collect()
    }
}

/// Counts by row and column.
#[derive(Default)]
struct Counts {
    entries: BTreeMap<(u32, u32), u64>,
    columns: BTreeSet<u32>,
}

impl Counts {
    fn add(&mut self, (row, column): (u32, u32), count: u64) {
        *self.entries.entry((row, column)).or_default() += count;
        self.columns.insert(column);
    }

    fn block<'a>(&self, title: String, model: &Model, name: &impl Fn(u32) -> &'a String) -> String {
        let head = row(title, self.columns.iter().map(|&column| name(column).clone()));
        let processes: BTreeSet<u32> = self.entries.keys().map(|(row, _)| *row).collect();
        let rows = processes.into_iter().map(|process| {
            let count = |column: &u32| self.entries.get(&(process, *column)).copied().unwrap_or(0).to_string();
            row(model.processes[process as usize].id.clone(), self.columns.iter().map(count))
        });
        block(head, rows)
    }
}

fn row(first: String, rest: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(first).chain(rest).collect()
}

/// One row at a time: all cells of a large model take many times as much memory as their text.
fn block(
    head: impl IntoIterator<Item = String>,
    rows: impl Iterator<Item = impl IntoIterator<Item = String>>,
) -> String {
    const WRITTEN: &str = "a vector takes everything, and rows are equally long";
    let mut writer = Writer::from_writer(Vec::new());
    writer.write_record(head).expect(WRITTEN);
    rows.for_each(|row| writer.write_record(row).expect(WRITTEN));
    String::from_utf8(writer.into_inner().expect(WRITTEN)).expect("text was written")
}
