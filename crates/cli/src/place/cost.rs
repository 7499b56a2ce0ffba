//! `deck place cost`: a placement's cost, for people and for programs.

use std::fmt::Write;
use std::path::Path;

use optisci::cost::{Contribution, Item, Move, Spending};
use optisci::model::Op;
use optisci::sum::Sum;
use optisci::{Costs, Evaluation, Model, Placement, report};

use super::{files, units};
use crate::result::{counted, within_a_line};

/// Rows of a table that people read.
const ROWS: usize = 20;
/// Rows of a list of the first.
const TOP: usize = 10;

/// Costs a placement.
pub fn run(model: &Path, placement: &Path, json: bool) -> Result<(), String> {
    let model = files::model(model)?;
    let placement = files::placement(placement, &model)?;
    let costs = Costs::new(&model);
    let evaluation = costs.evaluate(&placement);
    let spending = costs.spending(&placement);
    if json {
        return super::print(&report::evaluation(&model, &evaluation, &spending));
    }
    let mut text = describe(&model, &evaluation, &spending);
    // Beyond this the answer would take longer than a person looks at it.
    if (model.accesses.len() + model.messages.len()).saturating_mul(model.nodes()) <= MOST_TRIALS {
        explain(&mut text, &costs, &placement, evaluation.total_ns);
    }
    super::print(&text)
}

const MOST_TRIALS: usize = 50_000_000;

/// The dearest entries, and the moves that would help most.
fn explain(text: &mut String, costs: &Costs<'_>, placement: &Placement, total_ns: f64) {
    let model = costs.model();
    let dearest = costs.dearest(placement, TOP);
    if !dearest.is_empty() {
        let _ = writeln!(text, "\ndearest");
    }
    for contribution in dearest {
        let (process, does, what) = match contribution {
            Contribution::Access(index, _) => {
                let access = &model.accesses[index];
                let does = if access.op == Op::Read { "reads" } else { "writes" };
                (access.process, does, &model.segments[access.segment as usize].id)
            }
            Contribution::Message(index, _) => {
                let message = &model.messages[index];
                (message.from, "sends to", &model.processes[message.to as usize].id)
            }
        };
        let ns = contribution.ns();
        let percent = 100.0 * ns / total_ns;
        let process = &model.processes[process as usize].id;
        let entry = within_a_line(&format!("{process} {does} {what}"));
        let _ = writeln!(text, "  {:>12} {percent:>6.1} %  {entry}", units::time(ns));
    }
    let moves = costs.best_moves(placement, TOP);
    if moves.is_empty() {
        text.push_str(
            "\nNo single move that the limits allow lowers the total; exchanges of two are not tried here.\n",
        );
    } else {
        let _ = writeln!(text, "\nsingle moves that save most");
    }
    for Move { item, to, saves_ns } in moves {
        let id = match item {
            Item::Process(process) => &model.processes[process].id,
            Item::Segment(segment) => &model.segments[segment].id,
        };
        let percent = 100.0 * saves_ns / total_ns;
        let id = within_a_line(id);
        let _ = writeln!(text, "  {:>12} {percent:>6.1} %  {id} to node {to}", units::time(saves_ns));
    }
}

fn describe(model: &Model, evaluation: &Evaluation, spending: &[Spending]) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "total     {:>14}   all processes together", units::time(evaluation.total_ns));
    let _ = writeln!(text, "makespan  {:>14}   the process that takes longest", units::time(evaluation.makespan_ns));
    let _ = writeln!(text, "max link  {:>14}   on the busiest link", units::bytes(evaluation.max_link_bytes as f64));

    spent(&mut text, spending);

    let contended = spending.iter().any(|spent| spent.contended_ns > 0.0);
    let width = model.processes.iter().map(|process| process.id.chars().count()).max().unwrap_or(0).clamp(7, 30);
    let _ = write!(text, "\n{:<width$} {:>13} {:>13} {:>13} {:>13}", "process", "read", "write", "messages", "total");
    text.push_str(if contended { "  of it contended\n" } else { "\n" });
    let mut dearest: Vec<usize> = (0..model.processes.len()).collect();
    dearest.sort_by(|&a, &b| {
        let total = |process: usize| evaluation.per_process[process].total_ns();
        total(b).total_cmp(&total(a)).then(a.cmp(&b))
    });
    for &process in dearest.iter().take(ROWS) {
        let cost = evaluation.per_process[process];
        let _ = write!(
            text,
            "{:<width$} {:>13} {:>13} {:>13} {:>13}",
            within_a_line(&model.processes[process].id),
            units::time(cost.read_ns),
            units::time(cost.write_ns),
            units::time(cost.message_ns),
            units::time(cost.total_ns())
        );
        let _ = match contended {
            true => writeln!(text, " {:>16}", units::time(spending[process].contended_ns)),
            false => writeln!(text),
        };
    }
    rest(&mut text, dearest.len(), "processes");

    let mut busiest: Vec<(usize, u64)> =
        evaluation.per_link.iter().copied().enumerate().filter(|(_, bytes)| *bytes > 0).collect();
    busiest.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    if !busiest.is_empty() {
        let _ = writeln!(text, "\nlink, the busiest first");
    }
    for &(number, bytes) in busiest.iter().take(ROWS) {
        let link = model.topology.link(number);
        let _ = writeln!(text, "  {:<24} {:>12}", format!("{} -> {}", link.from, link.to), units::bytes(bytes as f64));
    }
    rest(&mut text, busiest.len(), "links");

    if evaluation.is_feasible() {
        text.push_str("\nThe placement obeys all limits and pins.\n");
    } else {
        let broken = counted(evaluation.violations.len(), "limit or pin", "limits or pins");
        let _ = writeln!(text, "\nThe placement breaks {broken}:");
        for violation in evaluation.violations.iter().take(ROWS) {
            let _ = writeln!(text, "  {}", within_a_line(&violation.describe(model)));
        }
        rest(&mut text, evaluation.violations.len(), "of them");
    }
    text
}

/// What the time of all processes together is spent on.
fn spent(text: &mut String, spending: &[Spending]) {
    let names = ["memory", "bus", "bridge", "insertion", "wire", "contended"];
    let sums = [0, 1, 2, 3, 4, 5].map(|part| spending.iter().map(|spent| spent.parts()[part]).collect::<Sum>().value());
    let total: f64 = sums.iter().sum();
    if total > 0.0 {
        text.push_str("\nspent on\n");
    }
    for (name, ns) in names.into_iter().zip(sums).filter(|(_, ns)| *ns > 0.0) {
        let explained = if name == "contended" { "   wire on links that other processes use too" } else { "" };
        let _ = writeln!(text, "  {name:<10} {:>12} {:>6.1} %{explained}", units::time(ns), 100.0 * ns / total);
    }
}

fn rest(text: &mut String, count: usize, what: &str) {
    if count > ROWS {
        let _ = writeln!(text, "  and {} more {what}; --json tells all", count - ROWS);
    }
}
