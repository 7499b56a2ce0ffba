//! The command line.

use std::path::PathBuf;

use clap::Parser;
use user_interface::command_line::{self, Common, NODES_MAX, Refusal, size, whole};

use crate::slab::{LAG, Slab, Source};

/// Calculates the temperatures in a heated slab with all nodes of a job.
///
/// Laplace's equation, solved by red-black Gauss-Seidel sweeps until the largest change is under the tolerance. Every
/// computing thread of every node has a band of the slab and exchanges its outer rows with its neighbours. Only node
/// 0's size, source, tolerance and nodes count; --threads is for each node. The temperatures are the same, bit for bit,
/// for every number of nodes and threads.
#[derive(Parser, Debug)]
#[command(name = "laplace", version, after_help = EXAMPLES)]
pub struct Arguments {
    /// Points across and down, edges included
    #[arg(long, value_name = "WxH", default_value = "600x600", value_parser = size("600x600"), allow_hyphen_values = true)]
    size: (u32, u32),
    /// Degrees: the end has come when no point changes by so much in a sweep; the heat source has 100 degrees
    #[arg(long, value_name = "DEGREES", default_value_t = 1e-3)]
    tolerance: f64,
    /// Sweeps after which the calculation ends in any case, at least 3
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = whole::<u64>(LAG + 1..=u64::MAX))]
    max_sweeps: u64,
    /// How the upper edge is heated
    #[arg(long, value_enum, default_value_t = Source::Uniform)]
    source: Source,
    /// Nodes that take part, waited for [default: those that are there, all of them under deck run]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=NODES_MAX))]
    nodes: Option<u32>,
    /// Picture to write [default: laplace.png, unless --temperatures is given]
    #[arg(long, value_name = "FILE.png")]
    out: Option<PathBuf>,
    /// Temperatures to write: 64-bit little-endian floats, row by row from the upper left
    #[arg(long, value_name = "FILE.bin")]
    temperatures: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "Examples:
  laplace                                   the slab of the papers, on one node
  deck run -n 4 laplace --threads 2         on four nodes of two threads each
  laplace --watch 0                         looking on in a browser
  laplace --source sine --tolerance 1e-9    compared with the exact solution";

/// What to do, checked.
#[derive(Debug)]
pub struct Orders {
    /// What node 0 has calculated.
    pub slab: Slab,
    /// Computing threads of this node, if the user said how many.
    pub threads: Option<u32>,
    /// Nodes that take part, if the user said how many.
    pub nodes: Option<u32>,
    /// Where node 0 writes the picture.
    pub out: Option<PathBuf>,
    /// Where node 0 writes the temperatures.
    pub temperatures: Option<PathBuf>,
    /// Port of the loopback page.
    pub watch: Option<u16>,
}

/// Reads a command line, the program's name first.
///
/// # Errors
/// A [`Refusal`], when there is nothing to calculate.
pub fn parse(line: impl IntoIterator<Item = impl Into<std::ffi::OsString> + Clone>) -> Result<Orders, Refusal> {
    let arguments = command_line::parse(line)?;
    let Arguments { size, tolerance, max_sweeps, source, nodes, out, temperatures, common } = arguments;
    let Common { threads, watch } = common;
    let slab = Slab::checked(size, tolerance, max_sweeps, source).map_err(|error| Refusal::Usage(error.to_string()))?;
    let out = out.or_else(|| temperatures.is_none().then(|| PathBuf::from("laplace.png")));
    command_line::two_files(("--out", out.as_deref()), ("--temperatures", temperatures.as_deref()))?;
    Ok(Orders { slab, threads, nodes, out, temperatures, watch })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Orders, Refusal> {
        super::parse(std::iter::once("laplace").chain(line.split_whitespace()))
    }

    #[test]
    fn the_defaults_are_the_slab_of_the_papers() {
        let Orders { slab, threads, nodes, out, temperatures, watch } = parse("").unwrap();
        assert_eq!((slab.width(), slab.height(), slab.tolerance(), slab.solution(1, 1)), (600, 600, 1e-3, None));
        assert_eq!((threads, nodes, temperatures, watch), (None, None, None, None));
        assert_eq!(out.unwrap().to_str(), Some("laplace.png"));
    }

    #[test]
    fn every_option_is_understood() {
        let orders = parse(
            "--size 30x20 --tolerance 0.5 --max-sweeps 9 --source sine --threads 3 --nodes 2 --out a.png \
             --temperatures b.bin --watch 0",
        )
        .unwrap();
        assert_eq!((orders.slab.width(), orders.slab.height()), (30, 20));
        assert!(orders.slab.solution(1, 1).is_some());
        assert_eq!((orders.slab.tolerance(), orders.slab.max_sweeps()), (0.5, 9));
        assert_eq!((orders.threads, orders.nodes, orders.watch), (Some(3), Some(2), Some(0)));
        assert_eq!(orders.out.unwrap().to_str(), Some("a.png"));
        assert_eq!(orders.temperatures.unwrap().to_str(), Some("b.bin"));
    }

    #[test]
    fn no_example_is_wrapped_on_a_terminal_of_80_columns() {
        assert!(EXAMPLES.lines().all(|line| line.len() <= 80), "{EXAMPLES}");
    }

    #[test]
    fn a_bad_option_is_answered_by_one_line_that_says_what_to_type() {
        for (line, wanted) in [
            ("--size 600", "--size 600x600"),
            ("--size 2x5", "--size 600x600"),
            ("--tolerance 0", "--tolerance 1e-3"),
            ("--tolerance warm", "--tolerance"),
            ("--max-sweeps 2", "--max-sweeps"),
            ("--source hot", "[possible values: uniform, sine]"),
            ("--nodes 0", "from 1 to 256"),
            ("--nodes 257", "from 1 to 256"),
            ("--tolerance -1", "--tolerance 1e-3"),
            ("--max-sweeps 99999999999999999999", "a whole number from 3 up"),
            ("slab.png", "laplace --help"),
            ("--out same --temperatures ./same", "--temperatures"),
        ] {
            match parse(line) {
                Err(Refusal::Usage(text)) => {
                    assert!(text.lines().count() == 1 && text.contains(wanted), "{line}: {text}");
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}
