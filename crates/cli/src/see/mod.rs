//! `deck ls` and `deck why`: jobs as they are seen from outside.

mod components;
mod cycles;
mod groups;
mod list;
mod look;
mod report;
mod waits;

use std::process::ExitCode;

use deck::{Error, ErrorKind, NodeState};
use deck_peers::observe::{self, JobSight};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use self::list::Content;
use self::report::Report;
use crate::result;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// `deck ls`
    List,
    /// `deck why`
    Waits,
}

/// What there may be much of is told one by one as long as there is no more of it: nodes that are gone, threads of a
/// node that wait alike, absent members, cycles.
const SHOWN: usize = 8;
/// How to see the others.
const ALL: &str = "(--all shows each)";

/// What the user asked for.
pub struct Options {
    /// Which command.
    pub what: What,
    /// Name of a job, or a process of it.
    pub job: Option<String>,
    /// Tell one by one also what there is much of: nodes that are gone, threads that wait alike.
    pub all: bool,
    /// Print JSON.
    pub json: bool,
}

/// Does it.
pub fn run(options: &Options) -> ExitCode {
    let name = if options.what == What::List { "deck ls" } else { "deck why" };
    match show(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            result::remark(name, error);
            ExitCode::FAILURE
        }
    }
}

/// Nodes are looked at through descriptors, two for each: this process takes as many as it may have.
fn take_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, and there are too few, the look says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Everything that is told in JSON.
#[derive(Serialize)]
struct All<T> {
    jobs: Vec<T>,
    version: &'static str,
}

fn print_json<T: Serialize>(jobs: deck::Result<Vec<T>>) -> deck::Result<()> {
    result::print_json(&All { jobs: jobs?, version: deck::VERSION })
}

fn show(options: &Options) -> deck::Result<()> {
    take_descriptors();
    let wanted = options.job.as_deref();
    let mut jobs = observe::jobs(wanted)?;
    jobs.sort_by_cached_key(|job| (is_over(job), job.table.job().to_owned(), job.processes.first().copied()));
    if let Some(wanted) = wanted.filter(|_| jobs.is_empty()) {
        let error = Error::new(ErrorKind::NotFound, format!("you have no job {wanted:?} on this host"));
        return Err(error.with_remedy("`deck ls` shows those that there are"));
    }
    let jobs = jobs.into_iter();
    if options.json {
        return match options.what {
            What::Waits => print_json(jobs.map(Report::of).collect()),
            What::List if wanted.is_some() => print_json(Ok(jobs.map(|job| Content::of(&job).value()).collect())),
            What::List => print_json(Ok(jobs.map(|job| list::line_value(&job)).collect())),
        };
    }
    let texts = jobs.map(|job| match options.what {
        What::Waits => Ok(Report::of(job)?.text(options.all)),
        What::List if wanted.is_some() => Ok(Content::of(&job).text(options.all)),
        What::List => Ok(list::line(&job)),
    });
    let texts: Vec<String> = texts.collect::<deck::Result<_>>()?;
    if texts.is_empty() {
        return result::print("you have no jobs on this host\n");
    }
    result::print(&texts.join(if options.what == What::List && wanted.is_none() { "" } else { "\n" }))
}

/// How many nodes are in it.
fn live(job: &JobSight) -> usize {
    job.nodes.iter().filter(|node| node.is_in_the_job()).count()
}

/// Whether nodes have joined it, and all of them are gone.
fn is_over(job: &JobSight) -> bool {
    !job.nodes.is_empty() && live(job) == 0
}

/// `job "name"`, or by a process of it.
fn called(job: &JobSight) -> String {
    match job.table.job() {
        name if name.is_empty() => {
            let process = job.processes.first().map_or(0, |process| *process);
            format!("job of process {process}")
        }
        name => format!("job {}", quoted(&name)),
    }
}

/// A name that anybody may have written.
fn quoted(name: &str) -> String {
    format!("{name:?}")
}

/// What is said of a live node of which nothing more is known.
const OUT_OF_SIGHT: &str = "its process cannot be seen from here";

fn state_word(state: NodeState) -> &'static str {
    match state {
        NodeState::Live => "live",
        NodeState::Frozen => "frozen",
        NodeState::Left => "left",
        NodeState::Lost => "lost",
    }
}
