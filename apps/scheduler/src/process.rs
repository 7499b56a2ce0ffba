//! The four processes of the paper: two that put tasks into the queues, two that take them out.

use std::fmt;
use std::time::{Duration, Instant};

use deck::Result;
use deck::shared::Counter;
use user_interface::memory;

use crate::queue::Queue;
use crate::report::{self, Done, Report, room};
use crate::shop::Shop;
#[cfg(test)]
use crate::task::QUEUES;
use crate::task::{ROUND, Task};

/// Processes of each kind.
pub const OF_A_KIND: u32 = 2;
/// All processes.
pub const PROCESSES: u32 = 2 * OF_A_KIND;

/// One of the four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// Takes tasks out and runs them: a master, in the paper's words.
    Consumer(u32),
    /// Puts tasks in: a slave.
    Producer(u32),
}

impl Process {
    /// All of them, in the order in which nodes get them.
    pub fn all() -> impl Iterator<Item = Process> {
        (0..PROCESSES).map(Process::from_number)
    }

    /// Its number among all.
    pub fn number(self) -> u32 {
        match self {
            Process::Consumer(number) => number,
            Process::Producer(number) => OF_A_KIND + number,
        }
    }

    /// The one with this number.
    pub fn from_number(number: u32) -> Process {
        match number.checked_sub(OF_A_KIND) {
            None => Process::Consumer(number),
            Some(number) => Process::Producer(number),
        }
    }

    /// The node that it is on, in a job of `nodes`.
    pub fn node(self, nodes: u32) -> u32 {
        self.number() % nodes
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Process::Consumer(number) => write!(f, "consumer {number}"),
            Process::Producer(number) => write!(f, "producer {number}"),
        }
    }
}

/// Does the work of a process of this node, and posts its report. Blocks until every task has gone through the queues.
///
/// # Errors
/// Those of its queues, and of other nodes that die.
pub fn run(shop: &Shop, process: Process) -> Result<()> {
    let (node, patience) = (shop.node(), &shop.patience);
    let reports = patience.wait(|time| node.clone_mailbox(crate::REPORTS, time))?;
    let tasks = shop.tasks()?;
    // A producer has all that it will hand out before it begins: arrival times are not modelled.
    let input: Vec<Task> = match process {
        Process::Producer(number) => {
            let mut input = room(tasks as usize, &format!("the tasks of {process}"))?;
            input.extend(Task::all_of(number, tasks));
            input
        }
        Process::Consumer(_) => Vec::new(),
    };
    // Of two consumers each takes about half. Before the start: whoever has no room for it has not begun.
    let mut done = room(tasks as usize, &told_of(process))?;
    let queues = shop.queues()?;
    patience.wait(|time| shop.start.wait(time))?;
    let began = Instant::now();
    match process {
        Process::Producer(_) => produce(queues, &shop.arrived, &input, &mut done)?,
        Process::Consumer(_) => consume(shop, queues, process, tasks * u64::from(OF_A_KIND), &mut done)?,
    }
    let report = Report { process, time: began.elapsed(), done };
    patience.wait(|time| shop.finish.wait(time))?;
    let mut message = node.message_with_capacity(report.bytes())?;
    report.pack(&mut message)?;
    patience.wait(|time| reports.post_shared(&message, time))
}

/// What the list is for that a report tells.
fn told_of(process: Process) -> String {
    format!("what {process} did")
}

fn produce(queues: &[Queue], arrived: &Counter, input: &[Task], done: &mut Vec<Done>) -> Result<()> {
    for task in input {
        let queue = task.priority();
        let place = queues[queue].put(&task.bytes())?;
        arrived.add(1)?;
        done.push(Done { queue, place, task: *task });
    }
    Ok(())
}

/// Rounds through the queues until all tasks have arrived and none is left.
fn consume(shop: &Shop, queues: &[Queue], process: Process, all: u64, done: &mut Vec<Done>) -> Result<()> {
    let (number, all) = (process.number() as usize, i64::try_from(all).unwrap_or(i64::MAX));
    let mut rounds = 0;
    loop {
        if done.capacity() - done.len() < ROUND.iter().sum() {
            memory::grow(done, ROUND.iter().sum(), &told_of(process), report::FEWER)?;
        }
        keep_step(shop, number, rounds)?;
        // Before the queues are looked at: what arrived until now is in them, or was taken.
        let seen = shop.arrived.read()?;
        let before = done.len();
        round(|queue| {
            let taken = queues[queue].take()?;
            done.extend(taken.map(|(task, place)| Done { queue, place, task }));
            Ok(taken.is_some())
        })?;
        if done.len() > before {
            rounds += 1;
            shop.rounds[number].add(1)?;
        } else if seen == all {
            // Nobody waits for this one any more.
            shop.rounds[number].add(all)?;
            return Ok(());
        } else {
            shop.patience.wait(|time| shop.arrived.wait_for(seen + 1, time))?;
        }
    }
}

/// Waits while this consumer is a round ahead of another. In the paper each has a processor of its own; with fewer,
/// whichever runs first would take all there is, and the access record would tell of one consumer only.
fn keep_step(shop: &Shop, number: usize, own: i64) -> Result<()> {
    let mut others = shop.rounds.iter().enumerate().filter(|(other, _)| *other != number);
    others.try_for_each(|(_, other)| shop.patience.wait(|time| other.wait_for(own, time)).map(drop))
}

/// One round: up to three tasks of the first queue, two of the second, one of the third; a queue that has no more is
/// left for the next. `take` tells whether there was one.
fn round(mut take: impl FnMut(usize) -> Result<bool>) -> Result<()> {
    for (queue, share) in ROUND.into_iter().enumerate() {
        for _ in 0..share {
            if !take(queue)? {
                break;
            }
        }
    }
    Ok(())
}

/// Time in a unit that fits it.
pub fn in_words(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 1.0 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(mut waiting: [usize; QUEUES], rounds: usize) -> Vec<usize> {
        let mut order = Vec::new();
        for _ in 0..rounds {
            round(|queue| {
                let is_there = waiting[queue] > 0;
                if is_there {
                    waiting[queue] -= 1;
                    order.push(queue);
                }
                Ok(is_there)
            })
            .unwrap();
        }
        order
    }

    #[test]
    fn a_round_gives_three_two_and_one_and_waits_for_no_empty_queue() {
        assert_eq!(served([9, 9, 9], 2), [0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 1, 2]);
        assert_eq!(served([1, 0, 5], 3), [0, 2, 2, 2]);
        assert!(served([0, 0, 0], 1).is_empty());
    }

    #[test]
    fn processes_are_spread_over_the_nodes_there_are() {
        let nodes = |count| Process::all().map(|process| process.node(count)).collect::<Vec<_>>();
        assert_eq!(
            (nodes(4), nodes(2), nodes(1), nodes(9)),
            (vec![0, 1, 2, 3], vec![0, 1, 0, 1], vec![0; 4], vec![0, 1, 2, 3])
        );
        assert_eq!(Process::from_number(3).to_string(), "producer 1");
    }
}
