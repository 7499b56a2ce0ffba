//! What a benchmark found out: figures, each the median of some repetitions, as a table or as one JSON object.

use std::fmt::Write;

use deck::{Error, ErrorKind};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use super::nodes::Nodes;
use super::{Benchmark, Machine};
use crate::result::counted;

/// What a node tells: one value.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    what: String,
    unit: String,
    value: f64,
}

impl Told {
    /// Of one of several times that was too short for anything, say where others had the cores, the rest tells.
    fn is_in_vain(&self) -> bool {
        self.value == 0.0 && self.unit.ends_with("/s")
    }
}

/// The line with which a node tells a value.
pub fn told(what: &str, unit: &str, value: f64) -> String {
    serde_json::to_string(&Told { what: what.to_owned(), unit: unit.to_owned(), value }).expect("text and a number")
}

/// One result at one point.
#[derive(Debug, PartialEq, Serialize)]
struct Figure {
    at: usize,
    what: String,
    unit: String,
    median: f64,
    min: f64,
    max: f64,
    repetitions: usize,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    benchmark: &'a str,
    version: &'static str,
    machine: Machine,
    places: String,
    cpus: &'a [usize],
    axis: &'a str,
    figures: Vec<Figure>,
}

/// Measures at all points.
pub fn report(nodes: &Nodes, points: &[usize], json: bool, bar: &ProgressBar) -> deck::Result<String> {
    let Benchmark { name, axis, .. } = nodes.benchmark;
    let mut all: Vec<Vec<Told>> = points.iter().map(|_| Vec::new()).collect();
    nodes.run(points, bar, |place, lines| {
        let at = points[place];
        if lines.is_empty() {
            return Err(Error::new(ErrorKind::Corrupt, format!("the nodes of {name} measured nothing at {at}")));
        }
        for line in lines {
            all[place].push(serde_json::from_str(&line).map_err(|error| not_understood(&line, &error))?);
        }
        Ok(())
    })?;
    for (at, all) in points.iter().zip(&all) {
        if let Some(told) = all.iter().find(|told| all.iter().all(|one| one.what != told.what || one.is_in_vain())) {
            let what = format!("{name} at {at}: {} was not done once in the time that there was", told.what);
            return Err(Error::new(ErrorKind::Timeout, what).with_remedy("use a longer --time"));
        }
    }
    let report = Report {
        benchmark: name,
        version: deck::VERSION,
        machine: Machine::here(),
        places: nodes.places(),
        cpus: &nodes.cpus,
        axis,
        figures: points.iter().zip(&all).flat_map(|(at, told)| merged(*at, told)).collect(),
    };
    Ok(if json { serde_json::to_string(&report).expect("plain numbers and text") } else { in_words(&report) })
}

/// The error for a line that is not what nodes say.
pub fn not_understood(line: &str, error: &serde_json::Error) -> Error {
    Error::new(ErrorKind::Corrupt, format!("a node of the benchmark printed {line:?} ({error})"))
}

/// One figure for each thing that was told, in the order in which they were told first.
fn merged(at: usize, all: &[Told]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for Told { what, unit, .. } in all {
        if figures.iter().any(|figure| figure.what == *what) {
            continue;
        }
        let done = all.iter().filter(|told| told.what == *what && !told.is_in_vain());
        let mut values: Vec<f64> = done.map(|told| told.value).collect();
        if values.is_empty() {
            continue;
        }
        values.sort_by(f64::total_cmp);
        figures.push(Figure {
            at,
            what: what.clone(),
            unit: unit.clone(),
            median: values[values.len() / 2],
            min: values[0],
            max: values[values.len() - 1],
            repetitions: values.len(),
        });
    }
    figures
}

/// Columns that names of figures take at least.
const NAMES_MIN: usize = 24;

fn in_words(report: &Report) -> String {
    let Machine { cpu, cores, kernel } = &report.machine;
    let cores = counted(*cores, "core", "cores");
    let repetitions = report.figures.iter().map(|figure| figure.repetitions).max().unwrap_or(0);
    let summary = match repetitions {
        1 => "one run".to_owned(),
        many => format!("median of {many}, smallest and largest"),
    };
    let mut text = format!(
        "{}: {summary}\n{cpu}, {cores}, Linux {kernel}, deck {}; {}\n",
        report.benchmark, report.version, report.places
    );
    let widths = report.figures.iter().map(|figure| figure.what.chars().count());
    let width = widths.max().unwrap_or(0).max(NAMES_MIN);
    let _ = write!(text, "\n{:>8}  {:<width$} {:>14} {:>14} {:>14}", report.axis, "", "median", "min", "max");
    let mut last = None;
    for figure in &report.figures {
        let shown =
            if last.replace(figure.at) == Some(figure.at) { String::new() } else { point(report.axis, figure.at) };
        let _ = write!(text, "\n{shown:>8}  {:<width$}", figure.what);
        for value in [figure.median, figure.min, figure.max] {
            let _ = write!(text, " {:>14}", in_unit(value, &figure.unit));
        }
    }
    text
}

/// A point as people write it.
pub fn point(axis: &str, at: usize) -> String {
    if axis == "bytes" { in_bytes(at) } else { at.to_string() }
}

/// A size as people write it.
pub fn in_bytes(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// A value as people write it.
pub fn in_unit(value: f64, unit: &str) -> String {
    match (unit, value) {
        ("ns", 1e7..) => format!("{:.1} ms", value / 1e6),
        ("ns", 1e4..) => format!("{:.1} us", value / 1e3),
        ("messages/s", 1e6..) => format!("{:.2} M/s", value / 1e6),
        ("messages/s", _) => format!("{:.1} k/s", value / 1e3),
        ("bytes", 1e5..) => format!("{:.0} KiB", value / 1024.0),
        ("bytes" | "ns", _) => format!("{value:.0} {}", unit.replace("bytes", "B")),
        _ => format!("{value:.2} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_of_what_was_told() {
        let told = |what: &str, value| Told { what: what.to_owned(), unit: "ns".to_owned(), value };
        let figures = merged(4, &[told("token", 3.0), told("barrier", 9.0), told("token", 1.0), told("token", 2.0)]);
        assert_eq!(figures.iter().map(|figure| figure.what.as_str()).collect::<Vec<_>>(), ["token", "barrier"]);
        let Figure { at, median, min, max, repetitions, .. } = &figures[0];
        assert_eq!((*at, *median, *min, *max, *repetitions), (4, 2.0, 1.0, 3.0, 3));
    }

    #[test]
    fn a_time_that_was_too_short_counts_for_nothing_and_changes_no_order() {
        let told = |what: &str, unit: &str, value| Told { what: what.to_owned(), unit: unit.to_owned(), value };
        let rate = |value| told("stream", "messages/s", value);
        let figures =
            merged(4, &[rate(0.0), told("slowest", "of mean", 0.0), rate(3.0), told("slowest", "of mean", 1.0)]);
        assert_eq!(figures.iter().map(|figure| figure.what.as_str()).collect::<Vec<_>>(), ["stream", "slowest"]);
        assert_eq!((figures[0].min, figures[0].repetitions, figures[1].repetitions), (3.0, 1, 2));
    }

    #[test]
    fn values_are_shown_in_units_that_people_read() {
        assert_eq!([140.2, 12_345.0, 25e6].map(|ns| in_unit(ns, "ns")), ["140 ns", "12.3 us", "25.0 ms"]);
        assert_eq!([in_unit(17.51e6, "messages/s"), in_unit(5120.0, "bytes")], ["17.51 M/s", "5120 B"]);
        assert_eq!([62, 4096, 16 << 20].map(in_bytes), ["62 B", "4 KiB", "16 MiB"]);
    }
}
