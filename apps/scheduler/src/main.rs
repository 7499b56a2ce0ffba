//! A priority scheduler on shared segments: the program that the paper on OptiSCI validates its cost model with.
//!
//! Two producers put tasks of three priorities into three queues, two consumers take them out in rounds of three, two
//! and one. Processes talk through the queues only.
//!
//! | file | idea |
//! |---|---|
//! | `arguments` | the command line |
//! | `task` | tasks and their priorities |
//! | `queue` | a queue in a shared segment |
//! | `shop` | what the nodes share besides: where they meet, what has arrived |
//! | `patience` | waiting for other nodes without hanging |
//! | `process` | producers and consumers, and on which node each is |
//! | `report` | what a process did; whether all together did what they should |
//! | `record` | the access record |

#![forbid(unsafe_code)]

mod arguments;
mod patience;
mod process;
mod queue;
mod record;
mod report;
mod shop;
mod task;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use deck::{Error, ErrorKind, Mailbox, Node, NodeId, NodeState, Result, Thread, default_timeout};
use user_interface::command_line::{self, Failure, counted};
use user_interface::leader::Purpose;
use user_interface::patience::{Arrivals, LOOK};
use user_interface::{Display, Progress, files};

use crate::arguments::Orders;
use crate::process::{OF_A_KIND, Process, in_words};
use crate::queue::Queue;
use crate::report::Report;
use crate::shop::Shop;
use crate::task::TASK_BYTES;

/// The mail box that processes post their reports to.
const REPORTS: &str = "scheduler reports";
/// Node 0 collects and checks.
const FIRST: NodeId = NodeId(0);
/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    command_line::run("scheduler", arguments::parse(std::env::args_os()), run)
}

fn run(orders: &Orders) -> Result<(), Failure> {
    let node = Node::join()?;
    let purpose = Purpose::of(&node, "scheduler")?;
    let nodes = orders.nodes.unwrap_or_else(|| node.count());
    // How many there are to be, each of them would take for something else.
    let is_alone = node.number() == FIRST && nodes == 1;
    if orders.nodes.is_none() && !is_alone && !command_line::is_started_by_deck_run() {
        let what = format!("this is {} of job {}, and none of deck run", node.number(), node.job());
        let _ = node.leave();
        return Err(Failure::Usage(format!("{what}: say with --nodes N how many there are, the same for each")));
    }
    if node.number() == FIRST
        && let Err(failure) = check(orders, nodes)
    {
        // Without ever having met the others, who see a node that left and have nothing to add.
        let _ = node.leave();
        return Err(failure);
    }
    let shop = Arc::new(Shop::open(&node, nodes)?);
    let done =
        if node.number() == FIRST { lead(&shop, orders).map(Some) } else { follow(&shop, &purpose).map(|()| None) };
    match done {
        Ok(summary) => {
            // The others have ended well, whether it can be printed or not.
            let left = node.leave();
            summary.map_or(Ok(()), |text| command_line::say(&text))?;
            Ok(left?)
        }
        Err(error) if shop.meeting_is_given_up().unwrap_or(false) => {
            // The others have given up as well, or are going to: nobody waits for this node.
            let _ = node.leave();
            Err(error.into())
        }
        Err(error) => {
            // The others wait for what will not come: this node shall count as lost, not as one that left.
            std::mem::forget(shop);
            Err(match error.kind() {
                // What a single wait could do without that node, the job cannot.
                ErrorKind::PeerLost => error.with_remedy("look what that node said, and start the job again"),
                _ => error,
            }
            .into())
        }
    }
}

/// Starts this node's processes, each of which does `run`; what each of them came to arrives in the channel.
fn start(shop: &Arc<Shop>, run: fn(&Shop, Process) -> Result<()>) -> Result<Receiver<Result<()>>> {
    let (tell, told) = channel();
    for process in Process::all().filter(|process| process.node(shop.nodes) == shop.node().number().0) {
        let (shop, tell) = (shop.clone(), tell.clone());
        Thread::spawn(move || {
            // A process that says nothing would be taken for one that has done its work.
            let result = catch_unwind(AssertUnwindSafe(|| run(&shop, process)));
            let panicked = |_| {
                let error = Error::new(ErrorKind::System, format!("{process} panicked"));
                Err(error.with_remedy("report it, with the words of the panic"))
            };
            // Nobody listens any more once something went wrong elsewhere.
            let _ = tell.send(result.unwrap_or_else(panicked));
        })?;
    }
    Ok(told)
}

/// Any node but the first. One that is not needed waits for the end.
fn follow(shop: &Arc<Shop>, purpose: &Purpose) -> Result<()> {
    if shop.node().number().0 < shop.nodes {
        if !meet(shop)? {
            // Or ran another program: whoever was there then knows.
            return if purpose.has_met_leader() { purpose.check() } else { Ok(()) };
        }
        for result in start(shop, process::run)? {
            result?;
        }
    }
    wait_for_the_end(shop)
}

/// Waits until all nodes are there that take part; after each that comes, for as long as DECK waits by itself. When one
/// has waited long enough all others have, too. `false` if the first one has left: it was ordered what cannot be done,
/// and has said so.
fn meet(shop: &Shop) -> Result<bool> {
    let mut there = shop.patience.joined();
    let mut arrivals = Arrivals::within(default_timeout());
    loop {
        match shop.meeting.wait(LOOK.min(default_timeout())) {
            Err(error) if error.kind() == ErrorKind::Timeout => {}
            met => return met.map(|_| true),
        }
        let first_has_left = shop.node().state(FIRST)? == NodeState::Left;
        let now = shop.patience.joined();
        // After that look: whoever gives up says so before it leaves.
        if shop.meeting_is_given_up()? {
            return Err(not_all_came(now, shop.nodes));
        }
        if first_has_left {
            return Ok(false);
        }
        if now == shop.nodes {
            // Whoever has not come yet is stopped.
            shop.patience.check()?;
        } else if now > there {
            there = now;
            arrivals.go_on();
        } else if arrivals.are_overdue(shop.node(), shop.nodes) {
            shop.give_up_meeting()?;
            return Err(not_all_came(now, shop.nodes));
        }
    }
}

fn not_all_came(now: u32, nodes: u32) -> Error {
    let error = Error::new(ErrorKind::Timeout, format!("{now} of {} came", counted(nodes.into(), "node")));
    match now < nodes {
        true => error.with_remedy(format!("start the others, or use --nodes {now}")),
        false => error.with_remedy("start them all again: some had waited too long for the others before"),
    }
}

/// A first node that failed before this one opened the counter has no part in it: its death ends no wait there.
fn wait_for_the_end(shop: &Shop) -> Result<()> {
    loop {
        match shop.ended.wait_for(1, LOOK) {
            Err(error) if error.kind() == ErrorKind::Timeout => {
                let state = shop.node().state(FIRST)?;
                if state == NodeState::Left {
                    return Ok(());
                }
                if state == NodeState::Lost && shop.ended.read()? < 1 {
                    return Err(Error::new(ErrorKind::PeerLost, "waiting for the end").with_peer(FIRST));
                }
            }
            ended => return ended.map(drop),
        }
    }
}

/// The first node: makes the queues, collects what all processes did, checks it and writes the record. Returns what to
/// say.
fn lead(shop: &Arc<Shop>, orders: &Orders) -> Result<String> {
    let node = shop.node();
    let reports = node.mailbox(REPORTS)?;
    shop.set_tasks(orders.tasks)?;
    meet(shop)?;
    let homes = orders.place.iter().enumerate();
    let _memory = homes
        .map(|(number, home)| queue::create(node, &shop.patience, number, orders.slots, NodeId(*home)))
        .collect::<Result<Vec<_>>>()?;
    let own = start(shop, process::run)?;
    let collected = collect(shop, &reports, &own, orders)?;
    report::check(&collected, orders.tasks)?;
    let record = record::record(&collected, shop.nodes, orders.slots, orders.place);
    files::save(&orders.record, |file| writeln!(file, "{record:#}"))?;
    if let Some(history) = &orders.history {
        files::save(history, |file| report::write_history(&collected, file))?;
    }
    shop.ended.add(1)?;
    Ok(summary(&collected, shop.nodes, orders))
}

/// Whether everything can be where it is wanted.
fn check(orders: &Orders, nodes: u32) -> Result<(), Failure> {
    check_places(orders, nodes).map_err(|error| Failure::Usage(error.to_string()))?;
    let mut files = orders.history.iter().chain([&orders.record]);
    files.try_for_each(|path| files::check_writable(path).map_err(Failure::Error))
}

fn check_places(orders: &Orders, nodes: u32) -> Result<()> {
    match orders.place.iter().enumerate().find(|(_, home)| **home >= nodes) {
        None => Ok(()),
        Some((queue, home)) => {
            let takes = counted(nodes.into(), "node");
            let what = format!("placing {} on node {home} of a job of {takes}", queue::name(queue));
            Err(Error::new(ErrorKind::Invalid, what)
                .with_remedy(format!("use more nodes (deck run -n {}), or place it elsewhere", home + 1)))
        }
    }
}

/// Waits for the reports of all processes, and shows how far they are.
fn collect(shop: &Shop, reports: &Mailbox, own: &Receiver<Result<()>>, orders: &Orders) -> Result<Vec<Report>> {
    let display = Display::new("scheduler", None);
    let queues = shop.queues()?;
    let total = orders.tasks * u64::from(OF_A_KIND);
    let mut collected = Vec::new();
    while collected.len() < Process::all().count() {
        match reports.retrieve(TICK) {
            Ok(mut message) => collected.push(Report::unpack(&mut message)?),
            Err(error) if error.kind() == ErrorKind::Timeout => shop.patience.check()?,
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
        let [first, second, third] = report.accesses();
        let (process, node) = (report.process.to_string(), report.process.node(nodes));
        text += &format!("{process:<12}{node:>4}{first:>8}{second:>8}{third:>8}\n");
    }
    let homes = orders.place.map(|home| format!("{home:>8}")).concat();
    text += &format!("home        {:>4}{homes}\n", "");
    text + &format!("what was read and written where is in {}\n", orders.record.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_panics_has_failed() {
        let shop = Arc::new(Shop::open(&Node::join().unwrap(), 1).unwrap());
        let run = |_: &Shop, process| match process {
            Process::Producer(1) => panic!("on purpose"),
            _ => Ok(()),
        };
        let results: Vec<Result<()>> = start(&shop, run).unwrap().into_iter().collect();
        let failures: Vec<String> =
            results.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect();
        assert!(failures.len() == 1 && failures[0].contains("producer 1 panicked"), "{failures:?}");
    }
}
