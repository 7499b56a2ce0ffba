//! The command line.

use std::path::PathBuf;

use clap::Parser;
use user_interface::command_line::{self, NODES_MAX, Refusal, whole};

use crate::task::{QUEUES, ROUND};

/// Schedules tasks of three priorities with two producers and two consumers on the nodes of a job.
///
/// Consumers 0 and 1 are on nodes 0 and 1, producers 0 and 1 on nodes 2 and 3; with fewer nodes they share them. The
/// queues q0, q1 and q2 lie in shared segments. Each producer puts its tasks of 2 KB into them, half into q0, a third
/// into q1, a sixth into q2; consumers take three, two and one of them in a round. Node 0 checks that every task ran
/// once and in the order of its queue, and writes what each process read and wrote where as an access record, from
/// which `deck place import record` makes a placement model. Only its options --place, --tasks, --slots, --record and
/// --history count.
#[derive(Parser, Debug)]
#[command(name = "scheduler", version, after_help = EXAMPLES)]
pub struct Arguments {
    /// The node in whose memory each queue lies
    #[arg(long, value_name = "q0=N,q1=N,q2=N", default_value = "q0=0,q1=0,q2=0", value_parser = place)]
    place: [u32; QUEUES],
    /// Tasks of each producer, a multiple of 6, at most 16777212
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = tasks)]
    tasks: u64,
    /// Tasks that a queue holds, 1 to 65536
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = whole::<u32>(1..=1 << 16))]
    slots: u32,
    /// Nodes that take part; the same number for each, when several are started by hand [default: those of `deck run`]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=NODES_MAX))]
    nodes: Option<u32>,
    /// Access record to write
    #[arg(long, value_name = "FILE.json", default_value = "scheduler-record.json")]
    record: PathBuf,
    /// Table of what each process put in and took out, in its order: process, queue, place, producer and task
    #[arg(long, value_name = "FILE.csv")]
    history: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  scheduler                                        everything on one node
  deck run -n 4 scheduler --place q0=0,q1=0,q2=3   queue 2 on another node
  deck place import record scheduler-record.json -o scheduler.json
  deck place solve scheduler.json                  the best place for each queue";

/// What to do, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Orders {
    /// Home of each queue.
    pub place: [u32; QUEUES],
    /// Tasks of each producer.
    pub tasks: u64,
    /// Tasks that a queue holds.
    pub slots: u32,
    /// Nodes that take part, if the user said how many.
    pub nodes: Option<u32>,
    /// Where node 0 writes the record.
    pub record: PathBuf,
    /// Where it writes what each process did, if anybody wants to know.
    pub history: Option<PathBuf>,
}

/// Reads a command line, the program's name first.
///
/// # Errors
/// A [`Refusal`], when there is nothing to do.
pub fn parse(line: impl IntoIterator<Item = impl Into<std::ffi::OsString> + Clone>) -> Result<Orders, Refusal> {
    let Arguments { place, tasks, slots, nodes, record, history } = command_line::parse(line)?;
    command_line::two_files(("--record", Some(&record)), ("--history", history.as_deref()))?;
    Ok(Orders { place, tasks, slots, nodes, record, history })
}

fn place(text: &str) -> Result<[u32; QUEUES], String> {
    let last = NODES_MAX - 1;
    let usage = || format!("use --place q0=0,q1=0,q2=3 (the home of each queue, once, from 0 to {last})");
    let home = whole::<u32>(0..=last);
    let mut homes = [None; QUEUES];
    for part in text.split(',') {
        let (queue, node) = part.trim().split_once('=').ok_or_else(usage)?;
        let queue = (0..QUEUES).find(|number| queue.trim() == format!("q{number}")).ok_or_else(usage)?;
        let place = &mut homes[queue];
        if place.replace(home(node.trim()).map_err(|_| usage())?).is_some() {
            return Err(usage());
        }
    }
    match homes {
        [Some(first), Some(second), Some(third)] => Ok([first, second, third]),
        _ => Err(usage()),
    }
}

fn tasks(text: &str) -> Result<u64, String> {
    let round = ROUND.iter().sum::<usize>() as u64;
    let number =
        text.parse::<u64>().ok().filter(|number| number.is_multiple_of(round) && (1..1 << 24).contains(number));
    number.ok_or_else(|| format!("use --tasks 600 (a multiple of {round}, at most 16777212)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Orders, Refusal> {
        parse(std::iter::once("scheduler").chain(line.split_whitespace()))
    }

    #[test]
    fn the_defaults_are_the_program_of_the_paper() {
        let orders = read("").unwrap();
        assert_eq!((orders.place, orders.tasks, orders.nodes), ([0, 0, 0], 600, None));
        assert_eq!((orders.record.to_str(), orders.history), (Some("scheduler-record.json"), None));
        let orders = read("--place q0=0,q1=0,q2=3 --tasks 12 --slots 1 --nodes 4 --record a.json").unwrap();
        assert_eq!((orders.place, orders.tasks, orders.slots, orders.nodes), ([0, 0, 3], 12, 1, Some(4)));
        assert_eq!(read("--place q2=1,q0=2,q1=3").unwrap().place, [2, 3, 1]);
    }

    #[test]
    fn no_example_is_wrapped_on_a_terminal_of_80_columns() {
        assert!(EXAMPLES.lines().all(|line| line.len() <= 80), "{EXAMPLES}");
    }

    #[test]
    fn a_bad_option_is_answered_by_one_line_that_says_what_to_type() {
        for (line, wanted) in [
            ("--place 0,0,3", "--place q0=0,q1=0,q2=3"),
            ("--place q0=0,q1=0", "--place q0=0,q1=0,q2=3"),
            ("--place q0=0,q1=0,q3=1", "--place q0=0,q1=0,q2=3"),
            ("--place q00=0,q1=0,q2=3", "--place q0=0,q1=0,q2=3"),
            ("--place q0=0,q1=0,q2=1,q0=0", "--place q0=0,q1=0,q2=3"),
            ("--place q0=0,q1=0,q2=x", "--place q0=0,q1=0,q2=3"),
            ("--place q0=0,q1=0,q2=4294967295", "from 0 to 255"),
            ("--tasks 7", "--tasks 600"),
            ("--tasks 0", "--tasks 600"),
            ("--slots 0", "--slots"),
            ("--speed 3", "scheduler --help"),
            ("--record same --history ./same", "--history"),
            ("--history scheduler-record.json", "--record"),
        ] {
            let Err(Refusal::Usage(text)) = read(line) else { panic!("{line}") };
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(text.contains(wanted), "{line}: {text}");
        }
    }
}
