//! What a placement costs and what a search found, as JSON for other programs.
//!
//! Fields stand in a fixed order, processes in the model's, so that the same result is the same bytes.

use serde::{Serialize, Serializer};

use crate::cost::{ProcessCost, Spending};
use crate::model::Objective;
use crate::search::{Outcome, Status};
use crate::topology::{End, Node};
use crate::{Evaluation, Model, Placement};

/// What a placement costs, and what the time of each process is spent on: one JSON object on one line.
pub fn evaluation(model: &Model, evaluation: &Evaluation, spending: &[Spending]) -> String {
    let per_process = model.processes.iter().zip(&evaluation.per_process);
    let spent = model.processes.iter().zip(spending);
    let links = evaluation.per_link.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
    line(&EvaluationReport {
        total_ns: evaluation.total_ns,
        makespan_ns: evaluation.makespan_ns,
        max_link_bytes: evaluation.max_link_bytes,
        feasible: evaluation.is_feasible(),
        violations: evaluation.violations.iter().map(|violation| violation.describe(model)).collect(),
        per_process: Named(per_process.map(|(process, cost)| (process.id.as_str(), *cost)).collect()),
        per_link: links
            .map(|(number, &bytes)| {
                let link = model.topology.link(number);
                LinkReport { from: EndReport::of(link.from), to: EndReport::of(link.to), bytes }
            })
            .collect(),
        spent_per_process: Named(spent.map(|(process, spent)| (process.id.as_str(), *spent)).collect()),
    })
}

/// What a search found: one JSON object on one line.
pub fn outcome(model: &Model, outcome: &Outcome) -> String {
    line(&OutcomeReport {
        status: outcome.status,
        objective: outcome.objective,
        cost: outcome.cost,
        bound: outcome.bound,
        gap: outcome.gap,
        method: &outcome.method,
        seed: outcome.seed,
        seconds: outcome.seconds,
        placement: outcome.placement.as_ref().map(|placement| placement.to_file(model)),
        reason: outcome.reason.as_deref(),
    })
}

/// A placement, in the form of its file.
pub fn placement(model: &Model, placement: &Placement) -> String {
    line(&placement.to_file(model))
}

#[derive(Serialize)]
struct EvaluationReport<'a> {
    total_ns: f64,
    makespan_ns: f64,
    max_link_bytes: u64,
    feasible: bool,
    violations: Vec<String>,
    per_process: Named<'a, ProcessCost>,
    per_link: Vec<LinkReport>,
    spent_per_process: Named<'a, Spending>,
}

/// A link that carries something.
#[derive(Serialize)]
struct LinkReport {
    from: EndReport,
    to: EndReport,
    bytes: u64,
}

/// A node by its number, a switch by its name.
#[derive(Serialize)]
#[serde(untagged)]
enum EndReport {
    Node(Node),
    Switch(String),
}

impl EndReport {
    fn of(end: End) -> EndReport {
        match end {
            End::Node(node) => EndReport::Node(node),
            End::Switch { .. } => EndReport::Switch(end.to_string()),
        }
    }
}

#[derive(Serialize)]
struct OutcomeReport<'a, P: Serialize> {
    status: Status,
    objective: Objective,
    cost: Option<f64>,
    bound: Option<f64>,
    gap: Option<f64>,
    method: &'a str,
    seed: u64,
    seconds: f64,
    placement: Option<P>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// A JSON object whose keys stand in the order given.
pub(crate) struct Named<'a, T>(pub Vec<(&'a str, T)>);

impl<T: Serialize> Serialize for Named<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

fn line<T: Serialize>(report: &T) -> String {
    let mut text = serde_json::to_string(report).expect("maps with string keys");
    text.push('\n');
    text
}
