//! A priority scheduler on shared segments: the program that the paper on OptiSCI validates its cost model with.
//!
//! Two producers put tasks of three priorities into three queues, two consumers take them out in rounds of three, two and one.
//! Processes talk through the queues only.
//!
//! | file | idea |
//! |---|---|
//! | `arguments` | the command line |
//! | `task` | tasks and their priorities |
//! | `queue` | a queue in a shared segment |
//! | `process` | producers and consumers, and on which node each is |
//! | `report` | what a process did; whether all together did what they should |
//! | `record` | the access record |

#![forbid(unsafe_code)]

mod arguments;
mod process;
mod queue;
mod record;
mod report;
mod task;

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use deck::shared::{Barrier, Counter};
use deck::{Error, ErrorKind, FOREVER, Mailbox, Node, NodeId, Result, Thread};
use user_interface::{Display, Progress, command_line, files};

use crate::arguments::Orders;
use crate::process::{OF_A_KIND, Process, in_words};
use crate::queue::{PATIENCE, Queue};
use crate::report::Report;
use crate::task::{QUEUES, TASK_BYTES};

/// The mail box that processes post their reports to.
const REPORTS: &str = "scheduler reports";
/// Node 0 collects and checks.
const FIRST: NodeId = NodeId(0);
/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    command_line::run("scheduler", arguments::parse(std::env::args_os()), run)
}

fn run(orders: &Orders) -> Result<()> {
    let node = Node::join()?;
    match if node.number() == FIRST { lead(&node, orders) } else { follow(&node, orders) } {
        Ok(()) => node.leave(),
        Err(error) => {
            // The others wait for what will not come: this node shall count as lost, not as one that left.
            std::mem::forget(node);
            Err(error)
        }
    }
}

/// How many nodes take part, and whether the queues can be where they are wanted.
fn nodes(node: &Node, orders: &Orders) -> Result<u32> {
    let nodes = orders.nodes.unwrap_or_else(|| node.count());
    match orders.place.iter().enumerate().find(|(_, home)| **home >= nodes) {
        None => Ok(nodes),
        Some((queue, home)) => {
            let what = format!("placing {} on node {home}: {nodes} nodes take part", queue::name(queue));
            Err(Error::new(ErrorKind::Invalid, what)
                .with_remedy("use more nodes (deck run -n 4), or place it elsewhere"))
        }
    }
}

/// Starts this node's processes; what each of them came to arrives in the channel.
fn start(node: &Node, nodes: u32, tasks: u64) -> Result<Receiver<Result<()>>> {
    let (tell, told) = channel();
    for process in Process::all().filter(|process| process.node(nodes) == node.number().0) {
        let (node, tell) = (node.clone(), tell.clone());
        Thread::spawn(move || {
            // Nobody listens any more once something went wrong elsewhere.
            let _ = tell.send(process::run(&node, process, tasks));
        })?;
    }
    Ok(told)
}

/// Any node but the first.
fn follow(node: &Node, orders: &Orders) -> Result<()> {
    let nodes = orders.nodes.unwrap_or_else(|| node.count());
    let ended = Counter::open(node, "ended")?;
    let tasks = Counter::open(node, "tasks of a producer")?;
    Barrier::open(node, "meeting", nodes)?.wait(PATIENCE)?;
    for result in start(node, nodes, tasks.read()?.unsigned_abs())? {
        result?;
    }
    ended.wait_for(1, FOREVER)?;
    Ok(())
}

/// The first node: makes the queues, collects what all processes did, checks it and writes the record.
fn lead(node: &Node, orders: &Orders) -> Result<()> {
    // First of all: whoever comes to these is told if this node fails before.
    let ended = Counter::open(node, "ended")?;
    let meeting = Barrier::open(node, "meeting", orders.nodes.unwrap_or_else(|| node.count()))?;
    let nodes = nodes(node, orders)?;
    files::check_writable(&orders.record)?;
    let reports = node.mailbox(REPORTS)?;
    Counter::open(node, "tasks of a producer")?.add(orders.tasks.cast_signed())?;
    let homes = orders.place.iter().enumerate();
    let _memory = homes
        .map(|(number, home)| queue::create(node, number, orders.slots, NodeId(*home)))
        .collect::<Result<Vec<_>>>()?;
    meeting.wait(PATIENCE)?;
    let own = start(node, nodes, orders.tasks)?;
    let collected = collect(node, &reports, &own, orders)?;
    report::check(&collected, orders.tasks)?;
    let record = record::record(&collected, nodes, orders.slots, orders.place);
    files::save(&orders.record, |file| writeln!(file, "{record:#}"))?;
    ended.add(1)?;
    print!("{}", summary(&collected, nodes, orders));
    Ok(())
}

/// Waits for the reports of all processes, and shows how far they are.
fn collect(node: &Node, reports: &Mailbox, own: &Receiver<Result<()>>, orders: &Orders) -> Result<Vec<Report>> {
    let display = Display::new("scheduler", "{msg}, {elapsed}", None);
    let queues = (0..QUEUES).map(|number| Queue::open(node, number)).collect::<Result<Vec<_>>>()?;
    let total = orders.tasks * u64::from(OF_A_KIND);
    let mut collected = Vec::new();
    while collected.len() < Process::all().count() {
        match reports.retrieve(TICK) {
            Ok(mut message) => collected.push(Report::unpack(&mut message)?),
            Err(error) if error.kind() == ErrorKind::Timeout => {}
            Err(error) => return Err(error),
        }
        if let Some(failed) = own.try_iter().find_map(Result::err) {
            return Err(failed);
        }
        let done = queues.iter().map(Queue::taken_out).sum::<Result<u64>>()?;
        display.advance(Progress { done, total, words: format!("{done} of {total} tasks"), ..Progress::default() });
    }
    display.end();
    collected.sort_by_key(|report| report.process.number());
    Ok(collected)
}

fn summary(reports: &[Report], nodes: u32, orders: &Orders) -> String {
    let time = reports.iter().map(|report| report.time).max().unwrap_or_default();
    let total = orders.tasks * u64::from(OF_A_KIND);
    let mut text = format!(
        "{total} tasks of {TASK_BYTES} bytes in {}: each ran once, in the order of its queue\n",
        in_words(time)
    );
    text += "            node      q0      q1      q2\n";
    for report in reports {
        let [first, second, third] = std::array::from_fn(|queue| report.written[queue] + report.read[queue]);
        let (process, node) = (report.process.to_string(), report.process.node(nodes));
        text += &format!("{process:<12}{node:>4}{first:>8}{second:>8}{third:>8}\n");
    }
    let homes = orders.place.map(|home| format!("{home:>8}")).concat();
    text += &format!("home        {:>4}{homes}\n", "");
    text + &format!("what was read and written where is in {}\n", orders.record.display())
}
