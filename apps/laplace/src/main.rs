//! Temperatures in a heated slab, calculated by all nodes of a DECK job: the second application of the papers.
//!
//! Every computing thread of every node is an address: it has a band of the slab and mail boxes for the outer rows of
//! the bands above and below, whether those belong to its own node or to another one. There are no locks and no
//! barriers.
//!
//! | file | idea |
//! |---|---|
//! | `arguments` | the command line |
//! | `slab` | what to calculate, and its exact solution |
//! | `kernel`, `band` | relaxing one row; a band of rows in two colours |
//! | `protocol` | the messages |
//! | `computing` | a computing thread: relax, exchange, stop together |
//! | `manager` | node 0's main thread: divide, show, collect |
//! | `pace` | how far it is, from how fast the change comes down |
//! | `patience` | waiting for other nodes without hanging |
//! | `palette` | colours |

#![forbid(unsafe_code)]

mod arguments;
mod band;
mod computing;
mod kernel;
mod manager;
mod pace;
mod palette;
mod patience;
mod protocol;
mod slab;

use std::process::ExitCode;

use deck::{Error, ErrorKind, MailboxClone, Node, Result, Thread};
use user_interface::command_line::{self, Failure, computing_threads, counted};
use user_interface::leader::Purpose;
use user_interface::{Display, Subject, Watch, files, watch};

use crate::arguments::Orders;
use crate::manager::{MANAGER_NODE, Manager, Outcome, short};

fn main() -> ExitCode {
    command_line::run("laplace", arguments::parse(std::env::args_os()), run)
}

fn run(orders: &Orders) -> std::result::Result<(), Failure> {
    let (node, mut page) = (Node::join()?, None);
    let purpose = Purpose::of(&node, "laplace")?;
    let end = match node.number() {
        MANAGER_NODE => lead(&node, orders, &mut page),
        _ => follow(&node, &purpose, orders),
    };
    // Also after a failure: the others then see a node that left, and why it did is said here.
    let left = node.leave();
    watch::close("laplace", page, end.and(left))
}

/// Node 0: manager and computing threads. The page, if there is one, is still being served afterwards.
fn lead(node: &Node, orders: &Orders, page: &mut Option<Watch>) -> Result<()> {
    [&orders.out, &orders.temperatures].into_iter().flatten().try_for_each(|path| files::check_writable(path))?;
    let slab = orders.slab;
    let size = (slab.width(), slab.height());
    let subject = Subject { title: "Heated slab".to_owned(), what: slab.to_string(), unit: "rows", size };
    *page = watch::open("laplace", "the temperatures change", orders.watch, subject)?;
    let manager = Manager::new(node, slab, orders.nodes.unwrap_or_else(|| node.count()))?;
    let threads = start_threads(node, &manager.mailbox()?, orders)?;
    let display = Display::new("laplace", page.as_ref());
    let outcome = manager.run(&display);
    display.end();
    if outcome.is_err() {
        threads.iter().for_each(Thread::cancel);
    }
    let outcome = match (outcome, join(threads)) {
        // What one of its own threads failed of, the manager knows of as a node that was lost.
        (Err(_), Err(cause)) if is_cause(&cause) => return Err(cause),
        (outcome, ends) => outcome.and_then(|outcome| ends.map(|()| outcome))?,
    };
    save(&outcome, orders)?;
    command_line::say(&format!("{}\n", report(&outcome)))
}

/// Any other node: computing threads alone.
fn follow(node: &Node, purpose: &Purpose, orders: &Orders) -> Result<()> {
    match purpose.find_leader(protocol::MANAGER)? {
        Some(manager) => join(start_threads(node, &manager, orders)?),
        None => Ok(()),
    }
}

fn start_threads(node: &Node, manager: &MailboxClone, orders: &Orders) -> Result<Vec<Thread<Result<()>>>> {
    let threads = computing_threads(node, orders.threads);
    let start = |thread| {
        let (node, manager) = (node.clone(), manager.clone());
        Thread::spawn(move || computing::work(&node, &manager, thread, threads))
    };
    (0..threads).map(start).collect()
}

/// Waits for all threads; the first error of one is told, and a panic of one goes on here.
fn join(threads: Vec<Thread<Result<()>>>) -> Result<()> {
    let ends: Vec<_> = threads.into_iter().map(Thread::join).collect();
    let end = |end: std::thread::Result<_>| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let mut errors: Vec<_> = ends.into_iter().filter_map(|ended| end(ended).err()).collect();
    let first = errors.iter().position(is_cause).unwrap_or(0);
    if errors.is_empty() { Ok(()) } else { Err(errors.swap_remove(first)) }
}

/// It does not follow from what happened elsewhere.
fn is_cause(error: &Error) -> bool {
    !matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::PeerLost)
}

fn save(Outcome { slab, temperatures, .. }: &Outcome, orders: &Orders) -> Result<()> {
    if let Some(path) = &orders.out {
        let rows = temperatures.chunks_exact(slab.width() as usize).map(palette::paint);
        files::save_png(path, (slab.width(), slab.height()), rows)?;
    }
    if let Some(path) = &orders.temperatures {
        files::save(path, |file| temperatures.iter().try_for_each(|value| file.write_all(&value.to_le_bytes())))?;
    }
    Ok(())
}

fn report(outcome: &Outcome) -> String {
    let Outcome { slab, sweeps, change, elapsed, threads, .. } = outcome;
    let mut each: Vec<u32> = threads.values().copied().collect();
    let all: u32 = each.iter().sum();
    each.dedup();
    let nodes = counted(threads.len() as u64, "node");
    let who = match each[..] {
        [each] => format!("{nodes} x {}", counted(each.into(), "thread")),
        _ => format!("{nodes}, {}", counted(all.into(), "thread")),
    };
    let mut report = format!("{slab}, {who}: {:.3} s, {}", elapsed.as_secs_f64(), counted(*sweeps, "sweep"));
    if *change >= slab.tolerance() {
        report += &format!(
            "\nnot at the tolerance yet, the largest change is {} degrees: use more --max-sweeps",
            short(*change)
        );
    }
    if let Some(error) = largest_error(outcome) {
        report += &format!("\nlargest difference from the exact solution: {} degrees", short(error));
    }
    report
}

/// The largest difference from the exact solution, if that is known.
fn largest_error(Outcome { slab, temperatures, .. }: &Outcome) -> Option<f64> {
    let width = slab.width() as usize;
    temperatures.iter().enumerate().try_fold(0.0, |largest, (place, value)| {
        let difference = (value - slab.solution(place % width, place / width)?).abs();
        Some(f64::max(largest, difference))
    })
}
