//! `deck place`: what a placement of processes and shared segments costs, and which one is best.

mod cost;
mod exchange;
mod files;
mod search;
mod serve;
mod table1;
mod units;

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Subcommand;
use optisci::import::Format;
use optisci::model::Objective;

use crate::result;

const COST: &str = "deck place cost MODEL.json PLACEMENT.json [--json]";
const SOLVE: &str = "deck place solve MODEL.json [--objective sum|makespan|max_link] [--time-limit SECONDS] [--seed N] \
                     [--json] [-o OUT.json]";
const IMPORT: &str = "deck place import FORMAT FILE... [--onto MODEL.json] -o MODEL.json";
const EXPORT: &str = "deck place export FORMAT MODEL.json PLACEMENT.json [--hosts HOST,...] -o FILE";
const SERVE: &str = "deck place serve [--port P] [MODEL.json]";
const TABLE1: &str = "deck place table1 [--json]";

/// What `deck place` can do.
#[derive(Subcommand)]
pub enum Command {
    /// Say what a placement costs, and why
    ///
    /// A placement that breaks limits or pins of the model is costed all the same; what it breaks is told.
    #[command(override_usage = COST)]
    Cost {
        /// The model
        model: PathBuf,
        /// The placement
        placement: PathBuf,
        /// Print one JSON object and nothing else
        #[arg(long)]
        json: bool,
    },
    /// Find the best placement, or the best that time allows
    ///
    /// Without a time limit the search ends when its placement is proved to be the best, or when everything that suits
    /// the model was tried once. With a limit it goes on trying until then, and may find better. Ctrl-C ends it early
    /// with the best found so far. The same seed gives the same placement, unless time ended the search.
    #[command(override_usage = SOLVE, after_help = SOLVE_HELP)]
    Solve {
        /// The model
        model: PathBuf,
        /// What to make small: sum, makespan or max_link [default: what the model says]
        #[arg(long, value_name = "OBJECTIVE", value_parser = objective)]
        objective: Option<Objective>,
        /// Try on for so many seconds, unless the best is proved before, and take the best found
        #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
        time_limit: Option<Duration>,
        /// Where random choices start
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole(u64::MAX), allow_negative_numbers = true)]
        seed: u64,
        /// Print one JSON object and nothing else
        #[arg(long)]
        json: bool,
        /// Write the placement to this file; - is standard output
        #[arg(short = 'o', long, value_name = "OUT.json")]
        output: Option<PathBuf>,
    },
    /// Make a model of what other tools wrote
    #[command(override_usage = IMPORT, after_help = exchange::IMPORT_HELP)]
    Import {
        /// What the files are
        #[arg(value_parser = exchange::import_format)]
        format: Format,
        /// The files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The model that gives what the files do not tell: the machine, or the program
        #[arg(long, value_name = "MODEL.json")]
        onto: Option<PathBuf>,
        /// Where to write the model, or the placement; - is standard output
        #[arg(short = 'o', long, value_name = "MODEL.json")]
        output: PathBuf,
    },
    /// Write a placement for another tool
    #[command(override_usage = EXPORT, after_help = exchange::EXPORT_HELP)]
    Export {
        /// What to write
        #[arg(value_parser = exchange::export_format)]
        format: optisci::export::Format,
        /// The model
        model: PathBuf,
        /// The placement
        placement: PathBuf,
        /// What the machine's nodes are called, in their order [default: node0, node1, ...]
        #[arg(long, value_name = "HOST,...", value_delimiter = ',')]
        hosts: Vec<String>,
        /// Where to write; - is standard output
        #[arg(short = 'o', long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Show the browser tool: see what a placement costs, drag it better, have the best one found
    ///
    /// The page is served to browsers of this host only and works without a network; Ctrl-C ends it.
    #[command(override_usage = SERVE)]
    Serve {
        /// The port of 127.0.0.1; 0 takes a free one
        #[arg(long, value_name = "P", default_value_t = serve::PORT, value_parser = whole(u16::MAX), allow_negative_numbers = true)]
        port: u16,
        /// The model to open; without one the page begins with its examples
        #[arg(value_name = "MODEL.json")]
        model: Option<PathBuf>,
    },
    /// Compute Table I of the paper again
    #[command(override_usage = TABLE1)]
    Table1 {
        /// Print one JSON object and nothing else
        #[arg(long)]
        json: bool,
    },
}

const SOLVE_HELP: &str = "\
Exit status: 0 if the question was answered, also by the proof that no placement obeys all limits; 1 otherwise.";

impl Command {
    /// Refuses to write over what is read, unless a model comes of a model: that is brought up to date. And a placement
    /// alone, where nobody says of what.
    pub fn check(&self) -> Result<(), String> {
        let gives_placement =
            |format: &Format| matches!(format, Format::RecordPlacement | Format::ScotchMap | Format::MetisPart);
        if let Command::Import { format, onto: None, .. } = self
            && gives_placement(format)
        {
            return Err(format!("{} is a placement: say of which model with --onto", format.name()));
        }
        let (output, inputs): (_, Vec<&Path>) = match self {
            Command::Solve { model, output: Some(output), .. } => (output, vec![model]),
            Command::Import { format, files, onto, output } => {
                let files = files.iter().filter(|_| *format != Format::Json);
                let onto = onto.iter().filter(|_| gives_placement(format));
                (output, files.chain(onto).map(PathBuf::as_path).collect())
            }
            Command::Export { model, placement, output, .. } => (output, vec![model, placement]),
            _ => return Ok(()),
        };
        if files::is_standard_output(output) {
            return match self {
                Command::Solve { json: true, .. } => {
                    Err("--json has the placement in it, and -o - would print it again: leave one out".to_owned())
                }
                _ => Ok(()),
            };
        }
        match inputs.into_iter().find(|input| deck_files::are_one(output, input)) {
            Some(input) => Err(format!(
                "-o {} is the file that is read as {}: give it another name",
                output.display(),
                input.display()
            )),
            None => Ok(()),
        }
    }
}

/// Does it.
pub fn run(command: Command) -> ExitCode {
    let (name, result) = match command {
        Command::Cost { model, placement, json } => ("cost", cost::run(&model, &placement, json)),
        Command::Solve { model, objective, time_limit, seed, json, output } => {
            let options = optisci::search::Options { objective, time_limit, seed };
            ("solve", search::run(&model, &options, json, output.as_deref()))
        }
        Command::Import { format, files, onto, output } => {
            ("import", exchange::import(format, &files, onto.as_deref(), &output))
        }
        Command::Export { format, model, placement, hosts, output } => {
            ("export", exchange::export(format, &model, &placement, hosts, &output))
        }
        Command::Serve { port, model } => ("serve", serve::run(port, model.as_deref())),
        Command::Table1 { json } => ("table1", table1::run(json)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            result::remark(&format!("deck place {name}"), sentence);
            ExitCode::FAILURE
        }
    }
}

/// Prints a result, all of it.
fn print(text: &str) -> Result<(), String> {
    result::print(text).map_err(|error| error.to_string())
}

/// The command that a wrong command line meant, and how it is typed.
pub fn usage(mut arguments: impl Iterator<Item = OsString>) -> (&'static str, &'static str) {
    match arguments.next().as_deref().and_then(|name| name.to_str()) {
        Some("cost") => ("deck place cost", COST),
        Some("solve") => ("deck place solve", SOLVE),
        Some("import") => ("deck place import", IMPORT),
        Some("export") => ("deck place export", EXPORT),
        Some("serve") => ("deck place serve", SERVE),
        Some("table1") => ("deck place table1", TABLE1),
        _ => ("deck place", "deck place cost|solve|serve|import|export|table1, or deck place --help"),
    }
}

/// Reads whole numbers up to the largest of their type.
fn whole<T: FromStr + Display + Clone>(most: T) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| text.parse().map_err(|_| format!("give a whole number from 0 to {most}"))
}

fn objective(text: &str) -> Result<Objective, String> {
    let all = [Objective::Sum, Objective::Makespan, Objective::MaxLink];
    all.into_iter()
        .find(|objective| objective.name() == text)
        .ok_or_else(|| "give sum, makespan or max_link".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "give a number of seconds, 0 or more".to_owned())
}
