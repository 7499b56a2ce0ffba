//! `deck place solve`: the search at a terminal. It shows what it has, and Ctrl-C takes it.

use std::fmt::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use deck_launch::signals::Signals;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use optisci::model::Objective;
use optisci::search::{self, Control, Options, Outcome, Progress, Status};
use optisci::{Model, report};
use rustix::event::{PollFd, PollFlags};

use super::{files, units};
use crate::poll;
use crate::result::{self, within_a_line};

/// So many places are shown to people; more belong into a file.
const ROWS: usize = 40;

/// Searches, and prints or writes what was found.
pub fn run(path: &Path, options: &Options, json: bool, output: Option<&Path>) -> Result<(), String> {
    let model = files::model(path)?;
    // Not after a search of an hour.
    output.map_or(Ok(()), files::check_writable)?;
    let mut terminal = Terminal::new().map_err(|error| format!("Ctrl-C cannot be watched: {error}"))?;
    let outcome = search::solve(&model, options, &mut terminal);
    terminal.bar.finish_and_clear();

    let written = match (&outcome.placement, output) {
        (Some(placement), Some(output)) => files::write(output, &report::placement(&model, placement)),
        _ => Ok(()),
    };
    if json {
        // Nothing was found and nothing proved: that is a failure, not a result.
        if outcome.status != Status::Unknown {
            super::print(&report::outcome(&model, &outcome))?;
        }
    } else {
        let mut text = describe(&model, &outcome, output.filter(|_| written.is_ok()));
        if outcome.status == Status::Feasible && options.time_limit.is_none() && !terminal.interrupted {
            text.push_str("better ones may be found: --time-limit SECONDS lets the search try on\n");
        }
        match output.is_some_and(files::is_standard_output) {
            // What is piped on is the placement alone.
            true => result::say(&text),
            false => super::print(&text)?,
        }
    }
    written?;
    let reason = outcome.reason.as_deref().unwrap_or("no reason was given");
    match outcome.status {
        Status::Unknown => Err(format!(
            "no placement was found: {reason}; give it more time with --time-limit, or the nodes more memory"
        )),
        Status::Infeasible if output.is_some() => Err(format!("there is no placement to write: {reason}")),
        _ => Ok(()),
    }
}

fn describe(model: &Model, outcome: &Outcome, output: Option<&Path>) -> String {
    let mut text = String::new();
    let amount = |cost: f64| amount(outcome.objective, cost);
    match (outcome.status, outcome.cost) {
        (Status::Infeasible, _) => {
            let reason = within_a_line(outcome.reason.as_deref().unwrap_or_default());
            let _ = writeln!(text, "infeasible: {reason}");
        }
        (Status::Optimal, Some(cost)) => {
            let _ = writeln!(text, "{} {}: proved to be the best", outcome.objective.name(), amount(cost));
        }
        (_, Some(cost)) => {
            let _ = writeln!(text, "{} {}: the best found", outcome.objective.name(), amount(cost));
        }
        _ => {}
    }
    if let (Some(bound), Some(gap), Status::Feasible) = (outcome.bound, outcome.gap, outcome.status) {
        let _ = writeln!(text, "no placement is below {} (gap {:.3} %)", amount(bound), 100.0 * gap);
    }
    // That limits cannot be obeyed is often seen before any search.
    let method = if outcome.method.is_empty() { "no search" } else { &outcome.method };
    let _ = writeln!(text, "{method}, seed {}, {:.3} s", outcome.seed, outcome.seconds);
    let Some(placement) = &outcome.placement else { return text };
    if let Some(output) = output {
        let _ = writeln!(text, "the placement is in {}", files::place(output));
    } else if model.processes.len() + model.segments.len() <= ROWS {
        let processes = model.processes.iter().zip(&placement.processes);
        let places = processes.map(|(process, node)| (&process.id, node.to_string()));
        let segments = model.segments.iter().zip(&placement.segments).map(|(segment, home)| {
            let nodes: Vec<String> = home.nodes().iter().map(u32::to_string).collect();
            (&segment.id, nodes.join(", "))
        });
        text.push('\n');
        for (id, nodes) in places.chain(segments) {
            let _ = writeln!(text, "  {:<24} on node {nodes}", within_a_line(id));
        }
    } else {
        let _ = writeln!(text, "-o OUT.json writes the placement, --json prints it");
    }
    text
}

fn amount(objective: Objective, cost: f64) -> String {
    match objective {
        Objective::MaxLink => units::bytes(cost),
        _ => units::time(cost),
    }
}

/// Signals that come within this time are one request.
const ONE_REQUEST: Duration = Duration::from_millis(250);

/// Clock, progress line and Ctrl-C.
struct Terminal {
    began: Instant,
    bar: ProgressBar,
    interrupts: Receiver<()>,
    interrupted: bool,
    shown: Duration,
}

impl Terminal {
    fn new() -> std::io::Result<Terminal> {
        let signals = Signals::take(&[libc::SIGINT, libc::SIGTERM])?;
        let (tell, interrupts) = channel();
        // The search may be busy for a while before it asks: a second Ctrl-C does not wait for it.
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut first: Option<Instant> = None;
            while poll::wait(&mut [PollFd::new(&signals, PollFlags::IN)], None).is_ok() {
                while let Some(signal) = signals.next() {
                    match first {
                        None => {
                            first = Some(Instant::now());
                            let _ = tell.send(());
                        }
                        // Whoever signals the process and its group, as timeout(1) does, means it once.
                        Some(first) if first.elapsed() < ONE_REQUEST => {}
                        Some(_) => std::process::exit(128 + signal),
                    }
                }
            }
        })?;
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}").expect("a template that was tried"));
        Ok(Terminal { began: Instant::now(), bar, interrupts, interrupted: false, shown: Duration::ZERO })
    }
}

impl Control for Terminal {
    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn progress(&mut self, incumbent: Option<&Progress<'_>>) -> bool {
        self.interrupted |= self.interrupts.try_recv().is_ok();
        if let Some(incumbent) = incumbent {
            let gap = (incumbent.cost - incumbent.bound) / incumbent.cost.max(f64::MIN_POSITIVE);
            let bound = match incumbent.bound {
                // Nothing was found out about it yet.
                ..=0.0 => String::new(),
                bound => {
                    let digits = if gap < 0.01 { 3 } else { 1 };
                    format!(", bound {}, gap {:.digits$} %", amount(incumbent.objective, bound), 100.0 * gap)
                }
            };
            self.bar.set_message(format!(
                "{} {}{bound} ({}); Ctrl-C ends",
                incumbent.objective.name(),
                amount(incumbent.objective, incumbent.cost),
                incumbent.method
            ));
        }
        let elapsed = self.elapsed();
        if elapsed > self.shown + Duration::from_millis(100) {
            self.shown = elapsed;
            self.bar.tick();
        }
        !self.interrupted
    }
}
