//! Waits that wait for one another only.
//!
//! From all waits of a job those are taken away that somebody can end who is not waiting among them; again and again, as
//! long as there are any. That is the reduction of a graph of processes whose requests are AND (a collective needs all who
//! are absent) or OR (any of the nodes that can post) (Holt, 1972: *Some deadlock properties of computer systems*). What is left
//! and comes back to itself is a cycle. A thread that sleeps outside of DECK may do anything when it wakes: it does not end
//! a wait here, and is told beside the cycle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use deck::{NodeId, NodeState};
use deck_peers::observe::{Goal, JobSight};

use super::waits::{Wait, Whom};

/// Waits that end in themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Each waits for the next, the last for the first: places in the list of waits.
    pub waits: Vec<usize>,
    /// Threads of their nodes that sleep outside of DECK and could end it.
    pub bystanders: Vec<(NodeId, u32)>,
}

/// What else is known of the threads of a job.
#[derive(Default)]
pub struct Others {
    /// Nodes with threads that run, and wait for nothing in DECK.
    pub running: BTreeSet<NodeId>,
    /// Threads that sleep outside of DECK.
    pub asleep: BTreeMap<NodeId, Vec<u32>>,
    /// Nodes whose processes are stopped.
    pub frozen: BTreeSet<NodeId>,
}

impl Others {
    /// Those of `job`, beside these waits.
    pub fn of(job: &JobSight, waits: &[Wait]) -> Others {
        let mut others = Others::default();
        for node in &job.nodes {
            if node.state == NodeState::Frozen {
                others.frozen.insert(node.number);
            }
            for thread in node.threads.iter().filter(|thread| !thread.is_service()) {
                if waits.iter().any(|wait| (wait.node, wait.thread) == (node.number, thread.number)) {
                    continue;
                }
                if matches!(thread.state, 'R' | 'D') {
                    others.running.insert(node.number);
                } else {
                    others.asleep.entry(node.number).or_default().push(thread.number);
                }
            }
        }
        others
    }
}

/// True for the wait of a thread that `whom` means, seen from `from`. Who waits for the end of a thread is no help to anybody.
fn is_of(wait: &Wait, whom: Whom, from: &Wait) -> bool {
    match whom {
        Whom::Node(node) => {
            wait.node == node && wait.goal != Goal::Join && (wait.node, wait.thread) != (from.node, from.thread)
        }
        Whom::Thread(node, thread) => (wait.node, wait.thread) == (node, thread),
        Whom::Runner(_) | Whom::Control(_) => false,
    }
}

/// The waits that nobody ends who is not among them.
fn reduce(waits: &[Wait], others: &Others) -> BTreeSet<usize> {
    let mut left: BTreeSet<usize> = (0..waits.len()).collect();
    loop {
        let can_end = |from: &Wait, whom: Whom| match whom {
            Whom::Runner(node) | Whom::Control(node) => !others.frozen.contains(&node),
            Whom::Node(node) if others.running.contains(&node) => true,
            _ => waits.iter().enumerate().any(|(index, wait)| !left.contains(&index) && is_of(wait, whom, from)),
        };
        let ends = |index: &usize| {
            let wait = &waits[*index];
            let mut on = wait.on.iter();
            if wait.needs_all { on.all(|whom| can_end(wait, *whom)) } else { on.any(|whom| can_end(wait, *whom)) }
        };
        let Some(ended) = left.iter().copied().find(ends) else { return left };
        left.remove(&ended);
    }
}

/// The shortest way from `first` back to itself.
fn way_back(waits: &[Wait], left: &BTreeSet<usize>, first: usize) -> Option<Vec<usize>> {
    let next = |from: usize| {
        let is_next = move |to: &usize| waits[from].on.iter().any(|whom| is_of(&waits[*to], *whom, &waits[from]));
        left.iter().copied().filter(is_next)
    };
    let mut before: BTreeMap<usize, usize> = BTreeMap::new();
    let mut queue = VecDeque::from([first]);
    while let Some(at) = queue.pop_front() {
        for to in next(at) {
            if to == first {
                let mut way = vec![at];
                while way.last() != Some(&first) {
                    way.push(before[way.last().expect("it has an end")]);
                }
                way.reverse();
                return Some(way);
            }
            before.entry(to).or_insert_with(|| {
                queue.push_back(to);
                at
            });
        }
    }
    None
}

/// The cycles: one for each wait that is in any, and none twice.
pub fn of(waits: &[Wait], others: &Others) -> Vec<Cycle> {
    let left = reduce(waits, others);
    let mut told = BTreeSet::new();
    let mut cycles = Vec::new();
    for first in left.iter().copied() {
        if told.contains(&first) {
            continue;
        }
        let Some(way) = way_back(waits, &left, first) else { continue };
        told.extend(way.iter().copied());
        let nodes: BTreeSet<NodeId> = way.iter().flat_map(|index| waits[*index].on.iter()).filter_map(meant).collect();
        let asleep = |node: &NodeId| {
            others.asleep.get(node).into_iter().flatten().map(|thread| (*node, *thread)).collect::<Vec<_>>()
        };
        let bystanders = nodes.iter().flat_map(asleep).collect();
        cycles.push(Cycle { waits: way, bystanders });
    }
    cycles
}

/// The node any of whose threads could end a wait.
fn meant(whom: &Whom) -> Option<NodeId> {
    match whom {
        Whom::Node(node) => Some(*node),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(node: u32, thread: u32, on: &[Whom], needs_all: bool) -> Wait {
        Wait {
            node: NodeId(node),
            thread,
            thread_name: String::new(),
            goal: Goal::Message,
            doing: String::new(),
            name: String::new(),
            since_ns: 0,
            left_ns: None,
            on: on.iter().copied().collect(),
            needs_all,
            note: None,
            absent: vec![],
        }
    }

    fn node(number: u32) -> Whom {
        Whom::Node(NodeId(number))
    }

    fn ways(waits: &[Wait], others: &Others) -> Vec<Vec<usize>> {
        of(waits, others).into_iter().map(|cycle| cycle.waits).collect()
    }

    #[test]
    fn two_that_wait_for_one_another_are_a_cycle_unless_one_has_a_thread_that_runs() {
        let waits = [wait(0, 1, &[node(1)], false), wait(1, 2, &[node(0)], false)];
        assert_eq!(ways(&waits, &Others::default()), [[0, 1]]);
        let others = Others { running: BTreeSet::from([NodeId(1)]), ..Others::default() };
        assert!(ways(&waits, &others).is_empty());
        let others = Others { asleep: BTreeMap::from([(NodeId(0), vec![9])]), ..Others::default() };
        assert_eq!(of(&waits, &others)[0].bystanders, [(NodeId(0), 9)]);
    }

    #[test]
    fn a_master_is_in_no_cycle_with_its_idle_workers_while_one_of_them_works() {
        let waits = [wait(0, 1, &[node(1), node(2)], false), wait(1, 2, &[node(0)], false)];
        let working = Others { running: BTreeSet::from([NodeId(2)]), ..Others::default() };
        assert!(ways(&waits, &working).is_empty());
        // A collective needs the idle one too.
        let waits = [wait(0, 1, &[node(1), node(2)], true), wait(1, 2, &[node(0)], false)];
        assert_eq!(ways(&waits, &working), [[0, 1]]);
    }

    #[test]
    fn locks_are_told_by_thread_and_a_wait_that_leads_into_a_cycle_is_not_in_it() {
        let thread = |node, thread| Whom::Thread(NodeId(node), thread);
        let waits = [
            wait(0, 1, &[thread(1, 2)], false),
            wait(1, 2, &[thread(2, 3)], false),
            wait(2, 3, &[thread(0, 1)], false),
            wait(2, 4, &[thread(0, 1)], false),
        ];
        assert_eq!(ways(&waits, &Others::default()), [[0, 1, 2]]);
    }

    #[test]
    fn who_waits_for_its_own_node_waits_for_the_other_threads_there() {
        let waits = [wait(0, 1, &[node(0)], false)];
        assert!(ways(&waits, &Others::default()).is_empty());
        let waits = [wait(0, 1, &[node(0)], false), wait(0, 2, &[node(0)], false)];
        assert_eq!(ways(&waits, &Others::default()), [[0, 1]]);
    }
}
