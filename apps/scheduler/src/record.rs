//! The access record: who read and wrote how much where, as `docs/access-record.md` describes it.

use serde_json::{Value, json};

use crate::process::Process;
use crate::queue;
use crate::report::Report;
use crate::task::{QUEUES, TASK_BYTES};

/// The record of a run on `nodes` nodes with the queues, of `slots` tasks each, at `homes`.
pub fn record(reports: &[Report], nodes: u32, slots: u32, homes: [u32; QUEUES]) -> Value {
    let processes: Vec<Value> = reports
        .iter()
        .map(|report| json!({"id": report.process.to_string(), "node": report.process.node(nodes)}))
        .collect();
    let segments: Vec<Value> = (0..QUEUES)
        .map(|number| json!({"id": queue::name(number), "home": homes[number], "bytes": slots as usize * TASK_BYTES}))
        .collect();
    let mut accesses = Vec::new();
    for report in reports {
        let op = match report.process {
            Process::Producer(_) => "write",
            Process::Consumer(_) => "read",
        };
        for (number, count) in report.accesses().into_iter().enumerate().filter(|(_, count)| *count > 0) {
            accesses.push(json!({
                "process": report.process.to_string(),
                "segment": queue::name(number),
                "op": op,
                "count": count,
                "size": TASK_BYTES,
            }));
        }
    }
    json!({
        "deck_access_record": 1,
        "program": "scheduler",
        "processes": processes,
        "segments": segments,
        "accesses": accesses,
    })
}
