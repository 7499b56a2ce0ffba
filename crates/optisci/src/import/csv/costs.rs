//! Matrices of costs that were measured: what a spreadsheet holds after a benchmark of a machine.
//!
//! Each is a table with the number of the segment's node above every column and of the process's node before every row.
//! Writes that were not measured cost what reads cost; bytes that were not measured cost nothing beyond the start-up.

use csv::StringRecord;

use super::super::lines::{number, short};
use super::Row;
use crate::Error;
use crate::counted::counted;
use crate::model::{CostModel, Matrix, Model};
use crate::program::Machine;
use crate::topology::{FatTree, Topology};

/// Matrices have as many entries as the square of this.
const MOST_NODES: usize = 4096;

/// Which of the four matrices.
#[derive(Clone, Copy)]
pub(super) enum Title {
    ReadNs,
    WriteNs,
    ReadNsPerByte,
    WriteNsPerByte,
}

impl Title {
    pub fn of(title: &str) -> Option<Title> {
        match title.trim() {
            "read_ns" => Some(Title::ReadNs),
            "write_ns" => Some(Title::WriteNs),
            "read_ns_per_byte" => Some(Title::ReadNsPerByte),
            "write_ns_per_byte" => Some(Title::WriteNsPerByte),
            _ => None,
        }
    }
}

/// The matrices so far, each with its line.
#[derive(Default)]
pub(super) struct Costs {
    matrices: [Option<(usize, Vec<f64>)>; 4],
}

impl Costs {
    pub fn take(&mut self, title: Title, line: usize, header: &StringRecord, rows: &[Row]) -> Result<(), Error> {
        let nodes = header.len() - 1;
        if nodes == 0 || nodes > MOST_NODES || rows.len() != nodes {
            let (columns, rows) = (counted(nodes, "column", "columns"), counted(rows.len(), "row", "rows"));
            let message = format!("has {columns} and {rows}: expected as many, from 1 to {MOST_NODES}");
            return Err(Error::at_line(line, message));
        }
        let in_order = |cell: Option<&str>, node: usize, line: usize| {
            let found = number(cell.unwrap_or_default().trim(), line, "a node", MOST_NODES as u64)?;
            if found == node as u64 {
                Ok(())
            } else {
                Err(Error::at_line(line, format!("node {found}: expected {node}")))
            }
        };
        (0..nodes).try_for_each(|node| in_order(header.get(node + 1), node, line))?;
        let mut entries = Vec::with_capacity(nodes * nodes);
        for (node, (line, row)) in rows.iter().enumerate() {
            in_order(row.get(0), node, *line)?;
            if row.len() != nodes + 1 {
                return Err(Error::at_line(
                    *line,
                    format!("has {}: expected {nodes}", counted(row.len() - 1, "cost", "costs")),
                ));
            }
            for cell in row.iter().skip(1) {
                entries.push(cost(cell.trim(), *line)?);
            }
        }
        if let Some((before, _)) = self.matrices[title as usize].replace((line, entries)) {
            return Err(Error::at_line(line, format!("this matrix is in line {before} already")));
        }
        Ok(())
    }

    /// The machine, if there is a matrix: that of `base` with these costs, if it has as many nodes.
    pub fn machine(self, base: Option<&Model>, notes: &mut Vec<String>) -> Result<Option<Machine>, Error> {
        let Some((_, first)) = self.matrices.iter().flatten().next() else { return Ok(None) };
        let entries = first.len();
        if let Some((line, _)) = self.matrices.iter().flatten().find(|(_, matrix)| matrix.len() != entries) {
            return Err(Error::at_line(*line, "this matrix has another number of nodes than the one before"));
        }
        let nodes = entries.isqrt();
        let [read, write, read_per_byte, write_per_byte] =
            self.matrices.map(|matrix| matrix.map(|(_, entries)| entries));
        let mut pair = |read: Option<Vec<f64>>, write: Option<Vec<f64>>, what: &str| match (read, write) {
            (Some(read), Some(write)) => (read, write),
            (Some(costs), None) | (None, Some(costs)) => {
                notes.push(format!("{what}: one matrix is given and stands for reads and writes"));
                (costs.clone(), costs)
            }
            (None, None) => {
                notes.push(format!("{what}: not given, 0 is assumed"));
                (vec![0.0; entries], vec![0.0; entries])
            }
        };
        let (read_ns, write_ns) = pair(read, write, "start-up");
        let (read_ns_per_byte, write_ns_per_byte) = pair(read_per_byte, write_per_byte, "costs per byte");
        let matrix = Matrix { read_ns, write_ns, read_ns_per_byte, write_ns_per_byte };
        let cost_model = CostModel::Matrix(Box::new(matrix));
        match base {
            Some(base) if base.nodes() == nodes => {
                return Ok(Some(Machine { cost_model, ..Machine::of(base.clone()) }));
            }
            Some(base) => notes.push(format!(
                "the costs are of {} and --onto is of {}: its limits are left out",
                counted(nodes, "node", "nodes"),
                base.nodes()
            )),
            None => {}
        }
        notes.push("all nodes are assumed to be one switch apart, which matters for loads of links only".to_owned());
        Ok(Some(Machine {
            topology: Topology::FatTree(FatTree { radices: vec![nodes as u32] }),
            cost_model,
            process_slots: None,
            segment_slots: None,
            memory_bytes: None,
        }))
    }
}

fn cost(cell: &str, line: usize) -> Result<f64, Error> {
    let cost: Option<f64> = cell.parse().ok();
    cost.filter(|cost| (0.0..=1e15).contains(cost))
        .ok_or_else(|| Error::at_line(line, format!("\"{}\": expected a cost in ns from 0 to 1e15", short(cell))))
}
