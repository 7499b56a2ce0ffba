//! Tables of processes, segments and matrices of accesses, as a spreadsheet writes them: blocks between blank lines.
//!
//! The first cell of a block says what it is: `process`, `segment`, or `read SIZE`, `write SIZE`, `messages SIZE` for a
//! matrix of counts whose rows are processes and whose columns are segments (for messages: the processes that receive).
//! `read_ns`, `write_ns`, `read_ns_per_byte` and `write_ns_per_byte` are the costs of a machine: rows are nodes of
//! processes, columns nodes of segments.

mod costs;

use csv::{ReaderBuilder, StringRecord};

use super::Found;
use super::lines::{number, short};
use crate::Error;
use crate::counted::counted;
use crate::model::file::LARGEST_WHOLE;
use crate::model::{Access, Message, Model, Op, Process, Segment};
use crate::program::{Ids, Program};
use crate::topology::MOST_NODES;

/// `base` has what such tables do not tell of a machine.
pub(super) fn read(text: &str, base: Option<&Model>) -> Result<Found, Error> {
    let mut tables = Tables::default();
    let blocks = blocks(text)?;
    let has_program = blocks.iter().any(|block| costs::Title::of(block[0].1.get(0).unwrap_or_default()).is_none());
    for block in blocks {
        let (header_line, header) = &block[0];
        let title = header.get(0).unwrap_or_default().trim();
        let rows = &block[1..];
        if let Some(title) = costs::Title::of(title) {
            tables.costs.take(title, *header_line, header, rows)?;
            continue;
        }
        match title.split_once(' ').map_or((title, None), |(kind, size)| (kind, Some(size.trim()))) {
            ("process", None) => tables.processes(header, rows)?,
            ("segment", None) => tables.segments(header, rows)?,
            ("read", Some(size)) => tables.matrix(Matrix::Access(Op::Read), size, *header_line, header, rows)?,
            ("write", Some(size)) => tables.matrix(Matrix::Access(Op::Write), size, *header_line, header, rows)?,
            ("messages", Some(size)) => tables.matrix(Matrix::Messages, size, *header_line, header, rows)?,
            _ => {
                let message = format!(
                    "\"{}\": a block begins with process, segment, read SIZE, write SIZE, messages SIZE, or read_ns, \
                     write_ns, read_ns_per_byte, write_ns_per_byte",
                    short(title)
                );
                return Err(Error::at_line(*header_line, message));
            }
        }
    }
    let mut notes = Vec::new();
    let machine = tables.costs.machine(base, &mut notes)?;
    Ok(Found { machine, program: has_program.then_some(tables.program), notes, ..Found::default() })
}

type Row = (usize, StringRecord);

/// Blocks between blank lines; each row with its line.
fn blocks(text: &str) -> Result<Vec<Vec<Row>>, Error> {
    let mut blocks: Vec<Vec<Row>> = vec![Vec::new()];
    for (index, line) in text.lines().enumerate() {
        let line = if index == 0 { line.trim_start_matches('\u{feff}') } else { line };
        if line.trim_matches([',', ' ', '\t', '\r']).is_empty() {
            blocks.push(Vec::new());
            continue;
        }
        // One line is one row: a quoted line break inside a name would make a table that nobody can read.
        let mut reader = ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
        let mut record = StringRecord::new();
        let read = reader.read_record(&mut record).map_err(|error| Error::at_line(index + 1, error.to_string()));
        if !read? || line.matches('"').count() % 2 == 1 {
            return Err(Error::at_line(index + 1, "a quoted name does not end in its line"));
        }
        blocks.last_mut().expect("there is one").push((index + 1, record));
    }
    blocks.retain(|block| !block.is_empty());
    match blocks.is_empty() {
        true => Err(Error::at_line(1, "the text is empty: expected tables of processes, segments or accesses")),
        false => Ok(blocks),
    }
}

enum Matrix {
    Access(Op),
    Messages,
}

#[derive(Default)]
struct Tables {
    program: Program,
    processes: Ids,
    segments: Ids,
    costs: costs::Costs,
}

impl Tables {
    fn process(&mut self, id: &str) -> u32 {
        let number = self.processes.number(id);
        if number as usize == self.program.processes.len() {
            self.program.processes.push(Process { id: id.to_owned(), pin: None });
        }
        number
    }

    fn segment(&mut self, id: &str) -> u32 {
        let number = self.segments.number(id);
        if number as usize == self.program.segments.len() {
            let segment = Segment { id: id.to_owned(), bytes: 0, pin: None, replicable: false };
            self.program.segments.push(segment);
        }
        number
    }

    /// `process,pin,node`: only the id must be there. The node belongs to a placement, not to a model.
    fn processes(&mut self, header: &StringRecord, rows: &[Row]) -> Result<(), Error> {
        for (line, row) in rows {
            let process = self.process(first(row)) as usize;
            for (name, cell) in cells(header, row, *line)? {
                match name {
                    "pin" => self.program.processes[process].pin = Some(node(cell, *line)?),
                    "node" => {}
                    _ => return Err(unknown_column(name, "pin and node", *line)),
                }
            }
        }
        Ok(())
    }

    /// `segment,bytes,replicable,pin,node`: only the id must be there.
    fn segments(&mut self, header: &StringRecord, rows: &[Row]) -> Result<(), Error> {
        for (line, row) in rows {
            let segment = self.segment(first(row)) as usize;
            let segment = &mut self.program.segments[segment];
            for (name, cell) in cells(header, row, *line)? {
                match name {
                    "bytes" => segment.bytes = number(cell, *line, "a number of bytes", LARGEST_WHOLE)?,
                    "pin" => segment.pin = Some(node(cell, *line)?),
                    "replicable" => {
                        let wrong = || Error::at_line(*line, format!("\"{}\": expected true or false", short(cell)));
                        segment.replicable = cell.to_ascii_lowercase().parse().map_err(|_| wrong())?;
                    }
                    "node" => {}
                    _ => return Err(unknown_column(name, "bytes, replicable, pin and node", *line)),
                }
            }
        }
        Ok(())
    }

    fn matrix(
        &mut self,
        matrix: Matrix,
        size: &str,
        header_line: usize,
        header: &StringRecord,
        rows: &[Row],
    ) -> Result<(), Error> {
        let size = number(size, header_line, "the bytes of each access", LARGEST_WHOLE)?;
        let columns: Vec<u32> = header
            .iter()
            .skip(1)
            .map(|id| match matrix {
                Matrix::Access(_) => self.segment(id.trim()),
                Matrix::Messages => self.process(id.trim()),
            })
            .collect();
        for (line, row) in rows {
            let process = self.process(first(row));
            fits(header, row, *line)?;
            for (cell, &column) in row.iter().skip(1).zip(&columns) {
                let cell = cell.trim();
                let count = if cell.is_empty() { 0 } else { number(cell, *line, "a count", LARGEST_WHOLE)? };
                match matrix {
                    _ if count == 0 => {}
                    Matrix::Access(op) => {
                        self.program.accesses.push(Access { process, segment: column, op, count, size });
                    }
                    Matrix::Messages => {
                        self.program.messages.push(Message { from: process, to: column, count, size });
                    }
                }
            }
        }
        Ok(())
    }
}

/// The id that a row begins with.
fn first(row: &StringRecord) -> &str {
    row.get(0).unwrap_or_default().trim()
}

fn fits(header: &StringRecord, row: &StringRecord, line: usize) -> Result<(), Error> {
    if row.len() <= header.len() {
        return Ok(());
    }
    let (cells, columns) = (counted(row.len(), "cell", "cells"), counted(header.len(), "column", "columns"));
    Err(Error::at_line(line, format!("has {cells}: the block has {columns}")))
}

/// The cells behind the first that are not empty, each with the name of its column.
fn cells<'a>(header: &'a StringRecord, row: &'a StringRecord, line: usize) -> Result<Vec<(&'a str, &'a str)>, Error> {
    fits(header, row, line)?;
    let cells = header.iter().zip(row).skip(1).map(|(name, cell)| (name.trim(), cell.trim()));
    Ok(cells.filter(|(_, cell)| !cell.is_empty()).collect())
}

fn node(cell: &str, line: usize) -> Result<u32, Error> {
    number(cell, line, "a node", MOST_NODES as u64 - 1).map(|node| node as u32)
}

fn unknown_column(name: &str, known: &str, line: usize) -> Error {
    Error::at_line(line, format!("there is no column \"{}\": known are {known}", short(name)))
}
