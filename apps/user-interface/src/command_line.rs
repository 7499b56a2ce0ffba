//! Reading a command line, and ending a program the way all of DECK's end: status 2 and one line for a wrong option,
//! status 1 and the error with its remedy for a failure. All processes of `deck run` have the same command line: what
//! is to be said about it the first one says.

use std::any::TypeId;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Parser};
use deck::{Error, Node};

use crate::files;

/// Where `deck run` tells a process its place in the job, and how many it has started before.
const PLACE: &str = "DECK_LAUNCH_FD";
const ORDER: &str = "DECK_LAUNCH_ORDER";

/// Exit status after a wrong command line.
const USAGE: u8 = 2;

/// How a command line was not an order to do something.
#[derive(Debug)]
pub enum Refusal {
    /// The user asked for help or the version: text for stdout.
    Answer(String),
    /// One line that says what to type instead.
    Usage(String),
}

/// How a program that was ordered to do something did not.
#[derive(Debug)]
pub enum Failure {
    /// One line that says what to type instead: that it is wrong could not be seen without the other nodes.
    Usage(String),
    /// What went wrong.
    Error(Error),
    /// The user has been told what went wrong.
    Said,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

/// Reads the options of a program, its name first.
///
/// # Errors
/// A [`Refusal`], when there is nothing to do.
pub fn parse<A: Parser>(line: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<A, Refusal> {
    // That a number is too small its reader tells, and not that there is no option of that name; files are not called
    // so.
    let command = A::command().mut_args(|arg| {
        let is_file = arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        let takes_numbers = arg.get_action().takes_values() && !arg.is_positional() && !is_file;
        if takes_numbers { arg.allow_negative_numbers(true) } else { arg }
    });
    let read = command.try_get_matches_from(line).and_then(|found| A::from_arg_matches(&found));
    read.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Refusal::Answer(error.to_string()),
        kind => {
            let text = error.to_string();
            // What is missing, possible or meant is named in the lines after the first.
            let is_missing = kind == ErrorKind::MissingRequiredArgument;
            let said = text.lines().map(str::trim).enumerate().filter_map(|(number, line)| {
                let is_said = number == 0 || (number == 1 && is_missing) || line.starts_with("[possible values");
                let tip = line.strip_prefix("tip: ").filter(|tip| tip.starts_with("a similar"));
                if is_said { Some(line.to_owned()) } else { tip.map(|tip| format!("({tip})")) }
            });
            let said = said.collect::<Vec<_>>().join(" ");
            let said = said.strip_prefix("error: ").unwrap_or(&said);
            Refusal::Usage(format!("{said}; for all options type {} --help", A::command().get_name()))
        }
    })
}

/// Checks that two results do not take each other's place. Each is an option, and what was said for it or is meant
/// otherwise.
///
/// # Errors
/// A [`Refusal`] that names both options, if they are one file.
pub fn two_files(first: (&str, Option<&Path>), second: (&str, Option<&Path>)) -> Result<(), Refusal> {
    let ((first, Some(path)), (second, Some(other))) = (first, second) else { return Ok(()) };
    match files::are_one(path, other) {
        true => Err(Refusal::Usage(format!(
            "{first} {} and {second} {} are one file: give each a name of its own",
            path.display(),
            other.display()
        ))),
        false => Ok(()),
    }
}

/// Nodes that a job has at a time, at most.
pub const NODES_MAX: u64 = 256;

/// Reads whole numbers of a range; what is none is answered with the range.
pub fn whole<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse::<u64>().ok().filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match (range.start(), range.end()) {
            (least, &u64::MAX) => format!("use a whole number from {least} up"),
            (least, most) => format!("use a whole number from {least} to {most}"),
        })
    }
}

/// Options of every program that calculates a picture.
#[derive(Args, Clone, Copy, Debug)]
pub struct Common {
    /// Computing threads of this node, at most 1024 [default: its share of the host's cores]
    #[arg(long, value_name = "T", value_parser = whole::<u32>(1..=1024))]
    pub threads: Option<u32>,
    /// Show the picture as it comes about in a browser at this port of the loopback address; 0 takes a free one
    #[arg(long, value_name = "PORT", value_parser = whole::<u16>(0..=65535))]
    pub watch: Option<u16>,
}

/// Says something on stdout, all of it. A reader that has seen enough may have closed it.
///
/// # Errors
/// [`deck::ErrorKind::System`] with the operating system's reason.
pub fn say(text: &str) -> deck::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::io("printing the result", &error).with_remedy("print elsewhere"))
        }
        _ => Ok(()),
    }
}

/// Says something beside the result, on stderr. Whoever closed it does not want to know, and that keeps nobody from the
/// work.
pub fn remark(program: &str, text: impl Display) {
    // In one piece: other nodes may say something at the same time.
    let _ = io::stderr().write_all(harmless(&format!("{program}: {text}\n")).as_bytes());
}

/// The same text: what would command the terminal, as names of files may, is a blank. What POV-Ray complains of has
/// lines.
fn harmless(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n', " ")
}

/// Does what was ordered and says how that ended, on stdout or stderr and as exit status.
pub fn run<O, E: Into<Failure>>(
    program: &str,
    orders: Result<O, Refusal>,
    work: impl FnOnce(&O) -> Result<(), E>,
) -> ExitCode {
    let ended = match orders {
        Ok(orders) => work(&orders).map_err(E::into),
        Err(Refusal::Answer(_)) if !speaks_for_the_job() => Ok(()),
        Err(Refusal::Usage(_)) if !speaks_for_the_job() => return ExitCode::from(USAGE),
        Err(Refusal::Answer(text)) => say(&text).map_err(Failure::Error),
        Err(Refusal::Usage(text)) => Err(Failure::Usage(text)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(text)) => {
            remark(program, text);
            ExitCode::from(USAGE)
        }
        Err(Failure::Error(error)) => {
            remark(program, error);
            ExitCode::FAILURE
        }
        Err(Failure::Said) => ExitCode::FAILURE,
    }
}

/// Whether this process was started by hand, or as the first one of `deck run`.
fn speaks_for_the_job() -> bool {
    order().is_none_or(|before| before == "0")
}

/// Whether `deck run` started this process, and knows how many nodes the job has.
pub fn is_started_by_deck_run() -> bool {
    order().is_some()
}

/// How many processes `deck run` has started before this one. What it told a node says nothing of a program that this
/// starts as a job of its own, without its place (D0501).
fn order() -> Option<OsString> {
    std::env::var_os(PLACE).and_then(|_| std::env::var_os(ORDER))
}

/// Reads sizes such as `600x400`; what cannot be read is answered with the `example`.
pub fn size(example: &'static str) -> impl Fn(&str) -> Result<(u32, u32), String> + Clone {
    move |text| {
        text.split_once(['x', 'X'])
            .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)))
            .ok_or_else(|| format!("use --size {example} (across, x, down)"))
    }
}

/// Computing threads of this node: as many as the user `said`, otherwise its share of the cores, when all nodes run on
/// one host.
pub fn computing_threads(node: &Node, said: Option<u32>) -> u32 {
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    said.unwrap_or_else(|| (cores() / node.count().max(1)).max(1))
}

/// "1 slice", "2 slices".
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does nothing.
    #[derive(Parser, Debug)]
    #[command(name = "idle", version)]
    struct Options {
        /// A picture
        scene: String,
        /// Pixels
        #[arg(long, default_value = "3x2", value_parser = size("3x2"))]
        size: (u32, u32),
        #[arg(long, value_parser = ["red", "green"])]
        colour: Option<String>,
        #[command(flatten)]
        common: Common,
    }

    #[test]
    fn a_wrong_option_is_answered_by_one_line_that_says_what_to_type() {
        for (line, wanted) in [
            (&["idle"][..], "<SCENE>"),
            (&["idle", "a.pov", "--size", "3"], "--size 3x2"),
            (&["idle", "a.pov", "--sice"], "idle --help"),
            (&["idle", "a.pov", "--sice"], "'--sice' found (a similar argument exists: '--size'); for all options"),
            (
                &["idle", "a.pov", "--colour", "ret"],
                "[possible values: red, green] (a similar value exists: 'red'); for all",
            ),
            (&["idle", "a.pov", "--colour", "blue"], "red"),
            (&["idle", "a.pov", "b.pov"], "unexpected"),
            (&["idle", "a.pov", "--threads", "0"], "--threads"),
            (&["idle", "a.pov", "--threads", "two"], "--threads <T>': use a whole number from 1 to 1024;"),
            (&["idle", "a.pov", "--threads", "-2"], "use a whole number from 1 to 1024;"),
            (&["idle", "a.pov", "--watch", "70000"], "--watch <PORT>': use a whole number from 0 to 65535;"),
        ] {
            let Err(Refusal::Usage(text)) = parse::<Options>(line) else { panic!("{line:?}") };
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(text.contains(wanted), "{line:?}: {text}");
        }
    }

    #[test]
    fn what_is_said_commands_no_terminal() {
        assert_eq!(harmless("idle: \u{1b}[2J\r\u{9b}31m\u{7f}\u{e9}:\nwhy\n"), "idle:  [2J  31m \u{e9}:\nwhy\n");
    }

    #[test]
    fn help_is_an_answer_and_options_are_read() {
        let Err(Refusal::Answer(help)) = parse::<Options>(["idle", "--help"]) else { panic!("--help is an answer") };
        assert!(
            help.starts_with("Does nothing") && help.contains("Pixels") && help.contains("--watch <PORT>"),
            "{help}"
        );
        let options: Options = parse(["idle", "a.pov", "--size", "30X20", "--threads", "3"]).unwrap();
        assert_eq!((options.scene.as_str(), options.size), ("a.pov", (30, 20)));
        assert_eq!((options.common.threads, options.common.watch), (Some(3), None));
    }
}
