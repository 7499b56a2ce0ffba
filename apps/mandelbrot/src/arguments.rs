//! The command line.

use std::path::PathBuf;

use clap::Parser;
use user_interface::command_line::{self, Common, Refusal, size, whole};

use crate::problem::{Problem, Region};

/// Calculates a picture of the Mandelbrot set with all nodes of a job.
///
/// Node 0 is the master: it hands out horizontal slices of the picture to the computing threads of all nodes, itself
/// included, and writes the files. Only its size, slices, iterations and region count; --threads is for each node.
/// The picture is the same, bit for bit, for every number of nodes, threads and slices.
#[derive(Parser, Debug)]
#[command(name = "mandelbrot", version, after_help = EXAMPLES)]
pub struct Arguments {
    /// Pixels across and down
    #[arg(long, value_name = "WxH", default_value = "600x600", value_parser = size("600x600"), allow_hyphen_values = true)]
    size: (u32, u32),
    /// Horizontal slices that the picture is handed out in; at most one for each row
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = whole::<u32>(1..=u32::MAX.into()))]
    slices: u32,
    /// Iterations after which a point counts as inside
    #[arg(long, value_name = "N", default_value_t = 17_500, value_parser = whole::<u32>(1..=u32::MAX.into()))]
    max_iter: u32,
    /// Recognise points inside early instead of iterating them to the end: the same counts, much sooner
    #[arg(long)]
    early_outs: bool,
    /// Left, right, lower and upper edge in the complex plane
    #[arg(
        long,
        value_name = "x0,x1,y0,y1",
        default_value_t = Region::FULL_SET,
        allow_hyphen_values = true,
        value_parser = region
    )]
    region: Region,
    /// Picture to write [default: mandelbrot.png, unless --counts is given]
    #[arg(long, value_name = "FILE.png")]
    out: Option<PathBuf>,
    /// Iteration counts to write: 32-bit little-endian numbers, row by row from the upper left
    #[arg(long, value_name = "FILE.bin")]
    counts: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "Examples:
  mandelbrot                              the problem of the papers, on one node
  deck run -n 4 mandelbrot --threads 2    on four nodes of two threads each
  mandelbrot --region -0.754,-0.739,0.105,0.115 --early-outs --out valley.png";

/// What to do, checked.
#[derive(Debug)]
pub struct Orders {
    /// What node 0 has calculated.
    pub problem: Problem,
    /// Computing threads of this node, if the user said how many.
    pub threads: Option<u32>,
    /// Where node 0 writes the picture.
    pub out: Option<PathBuf>,
    /// Where node 0 writes the counts.
    pub counts: Option<PathBuf>,
    /// Port of the loopback page.
    pub watch: Option<u16>,
}

/// Reads a command line, the program's name first.
///
/// # Errors
/// A [`Refusal`], when there is nothing to calculate.
pub fn parse(line: impl IntoIterator<Item = impl Into<std::ffi::OsString> + Clone>) -> Result<Orders, Refusal> {
    let arguments = command_line::parse(line)?;
    let Arguments { size, slices, max_iter, region, early_outs, out, counts, common } = arguments;
    let Common { threads, watch } = common;
    let problem = Problem::checked(size, slices, max_iter, region, early_outs)
        .map_err(|error| Refusal::Usage(error.to_string()))?;
    let out = out.or_else(|| counts.is_none().then(|| PathBuf::from("mandelbrot.png")));
    command_line::two_files(("--out", out.as_deref()), ("--counts", counts.as_deref()))?;
    Ok(Orders { problem, threads, out, counts, watch })
}

fn region(text: &str) -> Result<Region, String> {
    let edges: Option<Vec<f64>> = text.split(',').map(|edge| edge.trim().parse().ok()).collect();
    match edges.as_deref() {
        Some(&[x0, x1, y0, y1]) => Ok(Region { x0, x1, y0, y1 }),
        _ => Err(format!("use --region {} (left,right,lower,upper)", Region::FULL_SET)),
    }
}

#[cfg(test)]
mod tests {
    use slices::Work;

    use super::*;

    fn orders(line: &str) -> Orders {
        parse(std::iter::once("mandelbrot").chain(line.split_whitespace())).unwrap()
    }

    fn usage(line: &str) -> String {
        match parse(std::iter::once("mandelbrot").chain(line.split_whitespace())) {
            Err(Refusal::Usage(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_defaults_are_the_problem_of_the_papers() {
        let Orders { problem, threads, out, counts, watch } = orders("");
        assert_eq!((problem.width(), problem.height(), problem.max_iter()), (600, 600, 17_500));
        assert_eq!((problem.cut().slices(), problem.region()), (64, Region::FULL_SET));
        assert!(!problem.early_outs());
        assert_eq!((threads, counts, watch), (None, None, None));
        assert_eq!(out.unwrap().to_str(), Some("mandelbrot.png"));
    }

    #[test]
    fn every_option_is_understood() {
        let orders = orders(
            "--size 30x20 --slices 5 --max-iter 99 --early-outs --threads 3 --region -1,0.5,-0.25,1e-1 --out a.png \
             --counts b.bin --watch 0",
        );
        assert_eq!((orders.problem.width(), orders.problem.height()), (30, 20));
        assert_eq!((orders.problem.cut().slices(), orders.problem.max_iter()), (5, 99));
        assert!(orders.problem.early_outs());
        assert_eq!(orders.problem.region(), Region { x0: -1.0, x1: 0.5, y0: -0.25, y1: 0.1 });
        assert_eq!((orders.threads, orders.watch), (Some(3), Some(0)));
        assert_eq!(orders.out.unwrap().to_str(), Some("a.png"));
        assert_eq!(orders.counts.unwrap().to_str(), Some("b.bin"));
    }

    #[test]
    fn counts_alone_write_no_picture() {
        assert_eq!(orders("--counts b.bin").out, None);
    }

    #[test]
    fn no_example_is_wrapped_on_a_terminal_of_80_columns() {
        assert!(EXAMPLES.lines().all(|line| line.len() <= 80), "{EXAMPLES}");
    }

    #[test]
    fn a_bad_option_is_answered_by_one_line_that_says_what_to_type() {
        for (line, wanted) in [
            ("--size 600", "--size 600x600"),
            ("--size 0x5", "--size from 1x1"),
            ("--slices none", "--slices"),
            ("--slices 0", "a whole number from 1 "),
            ("--max-iter 0", "a whole number from 1 to 4294967295"),
            ("--region 1,2,3", "--region -2.25,0.75,-1.5,1.5"),
            ("--region 1,0,0,1", "left < right"),
            ("--region -1e308,1e308,-1e308,1e308", "region -1e308,1e308,-1e308,1e308: -1e308 is too far out"),
            ("--threads 0", "--threads"),
            ("--watch 70000", "--watch"),
            ("--out", "--out"),
            ("--nodes 4", "mandelbrot --help"),
            ("picture.png", "mandelbrot --help"),
            ("--out same --counts ./same", "--counts"),
        ] {
            let text = usage(line);
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(text.contains(wanted), "{line}: {text}");
        }
    }

    #[test]
    fn help_and_version_are_answers() {
        for line in ["--help", "-h", "--version"] {
            assert!(matches!(parse(["mandelbrot", line]), Err(Refusal::Answer(text)) if text.contains("mandelbrot")));
        }
    }
}
