//! The command line, and the one line that a usage error gets.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use deck_peers::NODES_AT_A_TIME_MAX;

use crate::bench::{self, Benchmark};
use crate::place;
use crate::result;
use crate::run::Options;
use crate::see;

const RUN: &str = "deck run -n N [--job NAME] [--tag] [--kill-on-failure] [--] PROGRAM [ARG...]";
const LS: &str = "deck ls [JOB] [--all] [--json]";
const WHY: &str = "deck why [JOB] [--all] [--json]";
const BENCH: &str = "deck bench NAME [--json] [--at N,...] [--time SECONDS]";

/// DECK: threads own mail boxes, messages move by hand-over.
#[derive(Parser)]
#[command(
    name = "deck",
    version,
    after_help = "`deck COMMAND --help` tells more of each, and so does `deck help COMMAND`."
)]
#[command(disable_help_subcommand = true, args_override_self = true)]
struct Arguments {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Subcommand)]
enum Subcommands {
    /// Start a program as N nodes of one job on this host
    ///
    /// The nodes stay together until the last has ended. The failure of a node ends no other, unless you ask for it.
    /// Ctrl-C ends all, after two seconds or a second Ctrl-C the hard way, and with `deck run` itself everything ends
    /// that its nodes have started. The first process reads standard input, whatever number it gets as a node; the
    /// others read nothing.
    #[command(override_usage = RUN, after_help = EXAMPLES)]
    Run {
        /// Number of nodes, 1 to 256
        #[arg(short = 'n', value_name = "N", value_parser = node_count, allow_negative_numbers = true)]
        nodes: u32,
        /// Name of the job, by which others may join it
        #[arg(long, value_name = "NAME", value_parser = job_name)]
        job: Option<String>,
        /// Put the node's number in front of each line of output: [0], or [p0] for the first process before it is a
        /// node
        #[arg(long)]
        tag: bool,
        /// End all nodes when one fails
        #[arg(long)]
        kill_on_failure: bool,
        /// The program, and behind it everything that it gets as arguments
        #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
        command: Vec<OsString>,
    },
    /// Show your jobs, or the nodes, mail boxes, groups, segments and locks of one
    ///
    /// JOB is the name of a job, or the number of any of its processes or of one that started them. A job is read from
    /// outside: it need not run to be seen, and does not notice.
    #[command(override_usage = LS)]
    Ls {
        /// Name of the job, or number of one of its processes
        #[arg(value_name = "JOB", value_parser = NonEmptyStringValueParser::new())]
        job: Option<String>,
        /// Show each node that has left or was lost, however many there are
        #[arg(long)]
        all: bool,
        /// Print one JSON object and nothing else
        #[arg(long)]
        json: bool,
    },
    /// Say which thread of a job waits for what, on whom, since when
    ///
    /// Of all your jobs, without JOB. Threads that wait for one another only are told as a cycle; a collective that
    /// cannot end tells who is absent, and where it is instead. docs/guide/why.md shows an example.
    #[command(override_usage = WHY)]
    Why {
        /// Name of the job, or number of one of its processes
        #[arg(value_name = "JOB", value_parser = NonEmptyStringValueParser::new())]
        job: Option<String>,
        /// Show each thread, absent member and cycle, however many are alike
        #[arg(long)]
        all: bool,
        /// Print one JSON object and nothing else
        #[arg(long)]
        json: bool,
    },
    /// Measure this machine, now
    ///
    /// Starts the nodes that it needs, shows on a terminal how far it is, and prints a table. Each point is measured
    /// several times with fresh nodes; what counts is the median. docs/benchmarks.md tells what each figure means.
    #[command(override_usage = BENCH, after_help = benchmarks())]
    Bench {
        /// What to measure, see below
        #[arg(value_name = "NAME", value_parser = benchmark)]
        benchmark: &'static Benchmark,
        /// Print one JSON object and nothing else
        #[arg(long)]
        json: bool,
        /// Measure at these points only, see below; K and M mean 2^10 and 2^20
        #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = point)]
        at: Option<Vec<usize>>,
        /// Measure each point for so long, all repetitions together: 0.001 to 3600 [default: see below]
        #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
        time: Option<Duration>,
    },
    /// Say what a placement of processes and shared segments costs, and find the best
    #[command(subcommand, after_help = "`deck place COMMAND --help` tells more.")]
    Place(place::Command),
    /// A node of a benchmark, which `deck bench` starts
    #[command(hide = true)]
    BenchNode {
        #[arg(value_parser = benchmark)]
        benchmark: &'static Benchmark,
        #[command(flatten)]
        part: bench::Part,
    },
}

const EXAMPLES: &str = "\
Exit status: 0, or that of the first node that failed (128 + signal if it was killed); 130 after Ctrl-C; 2 for a usage \
error; 1 if the job could not be started, or its output not be passed on; 141 if nobody reads that any more. Asked to \
end by another signal, 128 + that signal.

Examples:
  deck run -n 4 ./mandelbrot
  deck run -n 2 --tag -- ./pingpong --rounds 1000";

/// A command line that was understood.
pub enum Command {
    /// `deck run`
    Run(Options),
    /// `deck bench`
    Bench(bench::Options),
    /// `deck ls` and `deck why`
    See(see::Options),
    /// `deck place`
    Place(place::Command),
    /// A node that `deck bench` has started.
    BenchNode {
        /// Which benchmark.
        benchmark: &'static Benchmark,
        /// What it does there.
        part: bench::Part,
    },
}

/// Understands this process's command line. Otherwise everything has been said, and the process ends with the status.
pub fn parse() -> Result<Command, ExitCode> {
    let typed = typed(std::env::args_os())?;
    match Arguments::try_parse_from(&typed) {
        Ok(Arguments { command }) => Ok(match command {
            Subcommands::Run { nodes, job, tag, kill_on_failure, command } => {
                Command::Run(Options { nodes, job, tag, kill_on_failure, command })
            }
            Subcommands::Bench { benchmark, json, at, time } => {
                benchmark.check(at.as_deref().unwrap_or_default()).map_err(|why| wrong("deck bench", &why, BENCH))?;
                Command::Bench(bench::Options { benchmark, json, points: at, time })
            }
            Subcommands::Ls { job, all, json } => Command::See(see::Options { what: see::What::List, job, all, json }),
            Subcommands::Why { job, all, json } => {
                Command::See(see::Options { what: see::What::Waits, job, all, json })
            }
            Subcommands::Place(command) => {
                command.check().map_err(|why| {
                    let (name, usage) = place::usage(typed.into_iter().skip(2));
                    wrong(name, &why, usage)
                })?;
                Command::Place(command)
            }
            Subcommands::BenchNode { benchmark, part } => Command::BenchNode { benchmark, part },
        }),
        Err(error) if !error.use_stderr() => {
            let Err(sentence) = result::answer(&error) else { return Err(ExitCode::SUCCESS) };
            result::remark("deck", sentence);
            Err(ExitCode::FAILURE)
        }
        Err(error) => {
            let (command, usage) = usage(typed.into_iter().skip(1));
            Err(wrong(command, &in_one_line(&error), usage))
        }
    }
}

/// The command that a wrong command line meant, and how it is typed.
fn usage(mut arguments: impl Iterator<Item = OsString>) -> (&'static str, &'static str) {
    match arguments.next().as_deref().and_then(|first| first.to_str()) {
        Some("run") => ("deck run", RUN),
        Some("ls") => ("deck ls", LS),
        Some("why") => ("deck why", WHY),
        Some("bench") => ("deck bench", BENCH),
        Some("place") => place::usage(arguments),
        _ => ("deck", "deck run|ls|why|bench|place, or deck --help"),
    }
}

/// What the user typed, with `deck help COMMAND` as `deck COMMAND --help`. What there is no help about has been said.
fn typed(arguments: impl Iterator<Item = OsString>) -> Result<Vec<OsString>, ExitCode> {
    let mut typed: Vec<OsString> = arguments.collect();
    if typed.get(1).is_none_or(|first| first != "help") {
        return Ok(typed);
    }
    typed.remove(1);
    typed.retain(|word| !["help", "--help", "-h"].iter().any(|help| word == help));
    let mut about = &Arguments::command();
    for word in typed.iter().skip(1) {
        match about.find_subcommand(word) {
            Some(command) => about = command,
            // Which command is wrong there, if any, is said as without `help`.
            None if about.has_subcommands() => return Ok(typed),
            None => {
                let why = format!("unexpected argument '{}'", word.to_string_lossy());
                let (command, usage) = usage(typed.iter().skip(1).cloned());
                return Err(wrong(command, &why, usage));
            }
        }
    }
    typed.push("--help".into());
    Ok(typed)
}

/// Says what is wrong and what to type; the status for that.
fn wrong(command: &str, why: &str, usage: &str) -> ExitCode {
    result::remark(command, format_args!("{why}; type: {usage}"));
    ExitCode::from(2)
}

fn in_one_line(error: &clap::Error) -> String {
    let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let argument = context(ContextKind::InvalidArg);
    let value = context(ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::MissingRequiredArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) => format!("missing: {}", missing.join(" ")),
            _ => "something is missing".to_owned(),
        },
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "a command is missing".to_owned()
        }
        ErrorKind::InvalidSubcommand => {
            let meant = meant(error, ContextKind::SuggestedSubcommand);
            format!("there is no command '{}'{meant}", context(ContextKind::InvalidSubcommand))
        }
        ErrorKind::UnknownArgument if !argument.starts_with('-') || argument.parse::<f64>().is_ok() => {
            format!("unexpected argument '{argument}'")
        }
        ErrorKind::UnknownArgument => {
            format!("there is no option '{argument}' here{}", meant(error, ContextKind::SuggestedArg))
        }
        ErrorKind::ValueValidation => {
            let reason = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            format!("{argument} '{value}': {reason}")
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("{argument} needs a value"),
        _ => {
            let text = error.to_string();
            text.lines().next().unwrap_or("not understood").trim_start_matches("error: ").to_owned()
        }
    }
}

/// What is spelled nearly like what was typed.
fn meant(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(near)) => format!(" (did you mean '{near}'?)"),
        Some(ContextValue::Strings(near)) if !near.is_empty() => format!(" (did you mean '{}'?)", near.join("' or '")),
        _ => String::new(),
    }
}

fn node_count(text: &str) -> Result<u32, String> {
    let most = NODES_AT_A_TIME_MAX;
    text.parse().ok().filter(|nodes| (1..=most).contains(nodes)).ok_or_else(|| format!("a job has 1 to {most} nodes"))
}

fn job_name(text: &str) -> Result<String, String> {
    deck_launch::check_job_name(text.as_ref()).map(str::to_owned).map_err(|error| error.remedy().to_owned())
}

fn benchmarks() -> String {
    format!(
        "Benchmarks:{}\n\nExamples:\n  deck bench pingpong --at 8,64,1M\n  deck bench threads --at 1,4 --time 10 --json",
        bench::list()
    )
}

fn benchmark(text: &str) -> Result<&'static Benchmark, String> {
    bench::of(text).ok_or_else(|| format!("this version can measure: {}", bench::names()))
}

fn point(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1 << 10),
        None => text.strip_suffix(['M', 'm']).map_or((text, 1), |digits| (digits, 1 << 20)),
    };
    let number: Option<usize> = digits.parse().ok();
    number.and_then(|number| number.checked_mul(unit)).ok_or_else(|| "give a number such as 8, 64K or 16M".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let possible = Duration::from_millis(1)..=Duration::from_secs(3600);
    seconds.filter(|time| possible.contains(time)).ok_or_else(|| "give 0.001 to 3600 seconds".to_owned())
}
