//! Our version of Table I of R. B. Ávila et al. 2002: three mappings of a distributed scheduler on a ring of 4 nodes.
//!
//! The paper prints the values of its simulator but neither the mappings' numbers nor every detail of its formulas. In
//! absolute milliseconds no reading of the printed formulas that we tried gives 424, 392 and 365 with one process per
//! node. What comes out of the formulas as printed, with a local access costing one memory access, are the percentages:
//! the cost depends on how much of the queues' traffic lies on nodes of processes that write, and the mappings a, b, c
//! below give 100, 92 and 86 %. That is all that this table claims.

use serde::Serialize;

use crate::placement::Home;
use crate::{Costs, Model, Placement};

/// The model of the paper's scheduler, as a file.
pub const SCHEDULER: &str = include_str!("../../../examples/placement/scheduler.json");

/// The three mappings, as files.
pub const MAPPINGS: [(&str, &str); 3] = [
    ("a", include_str!("../../../examples/placement/scheduler-a.json")),
    ("b", include_str!("../../../examples/placement/scheduler-b.json")),
    ("c", include_str!("../../../examples/placement/scheduler-c.json")),
];

/// What the paper prints: time measured on the cluster (ms) and value of the simulator, for a, b and c.
pub const PRINTED: [(f64, f64); 3] = [(1133.0, 424.0), (1010.0, 392.0), (890.0, 365.0)];

/// The table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// The mappings, in the paper's order.
    pub rows: Vec<Row>,
    /// The best of all placements of the queues, the processes staying where they are, ms.
    pub best_ms: f64,
    /// The worst of them, ms.
    pub worst_ms: f64,
    /// How many placements of the queues there are.
    pub placements: usize,
}

/// One mapping.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its letter.
    pub mapping: &'static str,
    /// Tasks whose queue lies on the node of a process that writes, of each writer's 600.
    pub tasks_at_writers: u64,
    /// What it costs, ms.
    pub total_ms: f64,
    /// Percent of the first row.
    pub percent: f64,
    /// The cost on a scale on which the first row is the paper's.
    pub scaled: f64,
    /// The value that the paper's simulator gave.
    pub paper_simulated: f64,
    /// Its percentage.
    pub paper_simulated_percent: f64,
    /// The time that the paper measured, ms.
    pub paper_measured_ms: f64,
    /// Its percentage.
    pub paper_measured_percent: f64,
}

/// Computes the table.
pub fn table() -> Table {
    let model = Model::from_json(SCHEDULER).expect("the example is a model");
    let costs = Costs::new(&model);
    let total_ms = |placement: &Placement| costs.evaluate(placement).total_ns / 1e6;
    let mappings: Vec<(&str, Placement)> = MAPPINGS
        .iter()
        .map(|&(letter, file)| (letter, Placement::from_json(file, &model).expect("the example places everything")))
        .collect();
    let (first_ms, (first_measured_ms, first_simulated)) = (total_ms(&mappings[0].1), PRINTED[0]);
    let rows = mappings.iter().zip(PRINTED).map(|((mapping, placement), (measured_ms, simulated))| {
        let total_ms = total_ms(placement);
        Row {
            mapping,
            tasks_at_writers: tasks_at_writers(&model, placement),
            total_ms,
            percent: 100.0 * total_ms / first_ms,
            scaled: first_simulated * total_ms / first_ms,
            paper_simulated: simulated,
            paper_simulated_percent: 100.0 * simulated / first_simulated,
            paper_measured_ms: measured_ms,
            paper_measured_percent: 100.0 * measured_ms / first_measured_ms,
        }
    });
    let rows = rows.collect();
    let all: Vec<f64> = placements(&model, &mappings[0].1).map(|placement| total_ms(&placement)).collect();
    Table {
        rows,
        best_ms: all.iter().copied().fold(f64::INFINITY, f64::min),
        worst_ms: all.iter().copied().fold(0.0, f64::max),
        placements: all.len(),
    }
}

/// Every placement of the segments, with the processes of `fixed`.
fn placements(model: &Model, fixed: &Placement) -> impl Iterator<Item = Placement> {
    let (nodes, segments) = (model.nodes(), model.segments.len());
    let processes = fixed.processes.clone();
    (0..nodes.pow(segments as u32)).map(move |number| Placement {
        processes: processes.clone(),
        segments: (0..segments).map(|place| Home::One((number / nodes.pow(place as u32) % nodes) as u32)).collect(),
    })
}

fn tasks_at_writers(model: &Model, placement: &Placement) -> u64 {
    let on_node = |process: u32| placement.processes[process as usize];
    let writes = model.accesses.iter().filter(|access| access.op == crate::model::Op::Write);
    writes
        .filter(|access| placement.segments[access.segment as usize].nodes() == [on_node(access.process)])
        .map(|access| access.count)
        .sum()
}
