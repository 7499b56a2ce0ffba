//! The Mandelbrot set, calculated by all nodes of a DECK job: the first application of the papers.
//!
//! Node 0 runs the master (in its main thread, the manager thread of the papers) and, like every node, a crew of
//! computing threads. The picture is cut into horizontal slices; workers keep asking for slices until all are ready
//! and talk with the master only. A worker node that dies costs its slices a recomputation.
//!
//! | file | idea |
//! |---|---|
//! | `arguments` | the command line |
//! | `problem` | what to calculate, and where its pixels lie |
//! | `kernel` | iteration counts, fast and exact |
//! | `slices` | who has which slice |
//! | `protocol` | the messages |
//! | `master`, `worker` | both sides of the conversation |
//! | `picture`, `palette` | files and colours |
//! | `display`, `terminal`, `watch` | progress bar, also through `deck run`, and page |

#![forbid(unsafe_code)]

mod arguments;
mod display;
mod kernel;
mod master;
mod palette;
mod picture;
mod problem;
mod protocol;
mod slices;
mod terminal;
mod watch;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use deck::{Node, Result};

use crate::arguments::{Orders, Refusal};
use crate::display::Display;
use crate::master::{Master, Outcome};
use crate::watch::Watch;
use crate::worker::{Crew, MASTER_NODE};

/// How long the page is served after the last request for it.
const LINGER: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let orders = match arguments::parse(std::env::args_os()) {
        Ok(orders) => orders,
        Err(Refusal::Answer(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(Refusal::Usage(text)) => {
            eprintln!("mandelbrot: {text}");
            return ExitCode::from(2);
        }
    };
    match run(&orders) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mandelbrot: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Takes part in the job and leaves it in an orderly fashion also after a failure, so that other nodes see a node that
/// left and not one that was lost.
fn run(orders: &Orders) -> Result<()> {
    let node = Node::join()?;
    let part = match node.number() {
        MASTER_NODE => lead(&node, orders),
        _ => follow(&node, orders).map(|()| None),
    };
    let left = node.leave();
    if let Some(watch) = part? {
        watch.linger(LINGER);
    }
    left
}

/// Computing threads of this node: its share of the cores, when all nodes run on one host.
fn threads(node: &Node, orders: &Orders) -> u32 {
    let share = || {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        (cores / node.count().max(1)).max(1)
    };
    orders.threads.unwrap_or_else(share)
}

/// Node 0: master and crew. The page, if there is one, is still being served.
fn lead(node: &Node, orders: &Orders) -> Result<Option<Watch>> {
    for path in [&orders.out, &orders.counts].into_iter().flatten() {
        picture::check_writable(path)?;
    }
    let watch = orders.watch.map(|port| Watch::start(port, orders.problem)).transpose()?;
    if let Some(watch) = &watch {
        eprintln!("mandelbrot: watch the picture grow at {}", watch.address());
    }
    let master = Master::new(node, orders.problem)?;
    let crew = Crew::start(node, &master.mailbox()?, threads(node, orders))?;
    let mut display = Display::new(orders.problem, watch);
    let outcome = master.run(&mut display, || crew.has_ended());
    let watch = display.end();
    if let Some(watch) = &watch {
        watch.finish();
    }
    let crew_end = crew.join();
    let outcome = match (outcome, crew_end) {
        (Ok(outcome), Ok(())) => outcome,
        (Ok(outcome), Err(error)) => {
            eprintln!("mandelbrot: the picture is complete, but a computing thread failed: {error}");
            outcome
        }
        (Err(_), Err(cause)) => return Err(cause),
        (Err(error), Ok(())) => return Err(error),
    };
    if let Some(path) = &orders.out {
        outcome.picture.save_png(path)?;
    }
    if let Some(path) = &orders.counts {
        outcome.picture.save_counts(path)?;
    }
    report(orders, &outcome);
    Ok(watch)
}

/// Any other node: a crew alone.
fn follow(node: &Node, orders: &Orders) -> Result<()> {
    match worker::find_master(node, deck::default_timeout())? {
        Some(master) => Crew::start(node, &master, threads(node, orders))?.join(),
        None => Ok(()),
    }
}

/// Two lines for people and scripts: who did how much, and the result.
fn report(orders: &Orders, outcome: &Outcome) {
    println!("{}", shares_line(outcome));
    println!("{}", result_line(orders, outcome));
}

fn shares_line(outcome: &Outcome) -> String {
    let share = |(node, share): (&deck::NodeId, &master::Share)| {
        format!("{node}: {}{}", share.slices, if share.lost { " (lost)" } else { "" })
    };
    format!("slices by {}", outcome.nodes.iter().map(share).collect::<Vec<_>>().join(", "))
}

fn result_line(orders: &Orders, outcome: &Outcome) -> String {
    let problem = &orders.problem;
    let mut threads: Vec<u32> = outcome.nodes.values().map(|share| share.threads).collect();
    let all: u32 = threads.iter().sum();
    threads.dedup();
    let who = match (outcome.nodes.len(), &threads[..]) {
        (nodes, [each]) => format!("{} x {}", counted(nodes as u64, "node"), counted(u64::from(*each), "thread")),
        (nodes, _) => format!("{}, {}", counted(nodes as u64, "node"), counted(all.into(), "thread")),
    };
    format!(
        "{}x{}, {}, {}, {who}: {:.2} s, {} recomputed",
        problem.width(),
        problem.height(),
        counted(problem.max_iter().into(), "iteration"),
        counted(problem.slices().into(), "slice"),
        outcome.elapsed.as_secs_f64(),
        counted(outcome.recomputed, "slice"),
    )
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use deck::NodeId;

    use super::*;
    use crate::master::Share;
    use crate::picture::Picture;

    fn outcome(orders: &Orders, threads: &[u32]) -> Outcome {
        let share = |&threads: &u32| Share { threads, slices: 16, lost: threads == 1 };
        let nodes: BTreeMap<_, _> = (0..).map(NodeId).zip(threads.iter().map(share)).collect();
        let picture = Picture::new(orders.problem);
        Outcome { picture, elapsed: Duration::from_millis(1234), recomputed: 12, nodes }
    }

    #[test]
    fn the_last_line_says_what_was_done_by_whom_and_how_fast() {
        let orders = arguments::parse(["mandelbrot"]).unwrap();
        assert_eq!(
            result_line(&orders, &outcome(&orders, &[2, 2, 2, 2])),
            "600x600, 17500 iterations, 64 slices, 4 nodes x 2 threads: 1.23 s, 12 slices recomputed"
        );
        assert!(result_line(&orders, &outcome(&orders, &[1])).contains("1 node x 1 thread: "));
        assert!(result_line(&orders, &outcome(&orders, &[3, 1])).contains("2 nodes, 4 threads: "));
        assert_eq!(shares_line(&outcome(&orders, &[3, 1])), "slices by node 0: 16, node 1: 16 (lost)");
    }
}
