//! Waits that wait for one another only.
//!
//! From all waits of a job those are taken away that somebody can end who is not waiting among them; again and again,
//! as long as there are any. That is the reduction of a graph of processes whose requests are AND (a collective needs
//! all who are absent) or OR (any of the nodes that can post) (Holt, 1972: *Some deadlock properties of computer
//! systems*). What is left and comes back to itself is a cycle. A thread that sleeps outside of DECK may do anything
//! when it wakes: it does not end a wait here, and is told beside the cycle.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;

use deck::{NodeId, NodeState};
use deck_peers::observe::{Goal, JobSight};

use super::components;
use super::waits::{Wait, Whom};

/// A cycle that a thread outside of DECK could end is told when its waits have lasted so long: those of a job that goes
/// on are shorter.
const DOUBTED_FOR_NS: u64 = 300_000_000;

/// Waits that end in themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Each waits for the next, the last for the first: places in the list of waits.
    pub waits: Vec<usize>,
    /// Threads of their nodes that sleep outside of DECK and could end it.
    pub bystanders: Vec<(NodeId, u32)>,
    /// A node that joins the job by its name could end it.
    pub on_guests: bool,
}

/// What else is known of the threads of a job.
#[derive(Default)]
pub struct Others {
    /// Threads that run, and wait for nothing in DECK.
    pub running: BTreeSet<(NodeId, u32)>,
    /// Threads that sleep outside of DECK.
    pub asleep: BTreeMap<NodeId, Vec<u32>>,
    /// Nodes whose processes are stopped.
    pub frozen: BTreeSet<NodeId>,
    /// Nodes of whose threads nothing is seen: any of these may run.
    pub out_of_sight: BTreeSet<NodeId>,
}

impl Others {
    /// Those of `job`, beside these waits.
    pub fn of(job: &JobSight, waits: &[Wait]) -> Others {
        let mut others = Others::default();
        // Where others go on, a process that is stopped is what keeps them up, and its threads go on when it does.
        // Where all are stopped, nothing tells what those threads did before.
        let all_are_stopped =
            job.nodes.iter().filter(|node| node.process.is_some()).all(|node| node.state == NodeState::Frozen);
        for node in &job.nodes {
            if node.state == NodeState::Frozen {
                others.frozen.insert(node.number);
            }
            if node.is_out_of_sight() {
                others.out_of_sight.insert(node.number);
            }
            for thread in node.threads.iter().filter(|thread| !thread.is_service()) {
                if waits.binary_search_by_key(&(node.number, thread.number), Wait::whose).is_ok() {
                    continue;
                }
                if thread.runs() || thread.is_stopped() && !all_are_stopped {
                    others.running.insert((node.number, thread.number));
                } else {
                    others.asleep.entry(node.number).or_default().push(thread.number);
                }
            }
        }
        others
    }

    /// What is known of the time between this look and a later one: who is not seen asleep in both may have run.
    pub fn until(&self, later: &Others) -> Others {
        let (before, after) = (self.all_asleep(), later.all_asleep());
        let mut both = Others {
            running: self.running.union(&later.running).copied().chain(&before ^ &after).collect(),
            asleep: BTreeMap::new(),
            frozen: later.frozen.clone(),
            out_of_sight: &self.out_of_sight | &later.out_of_sight,
        };
        for (node, thread) in &before & &after {
            both.asleep.entry(node).or_default().push(thread);
        }
        both
    }

    fn all_asleep(&self) -> BTreeSet<(NodeId, u32)> {
        self.asleep.iter().flat_map(|(node, threads)| threads.iter().map(|thread| (*node, *thread))).collect()
    }

    /// The same if all woke that sleep outside of DECK.
    fn awake(&self) -> Others {
        let running = &self.running | &self.all_asleep();
        let (frozen, out_of_sight) = (self.frozen.clone(), self.out_of_sight.clone());
        Others { running, asleep: BTreeMap::new(), frozen, out_of_sight }
    }

    /// A thread that `whom` means runs, or may do so where nobody sees it.
    fn run(&self, whom: Whom) -> bool {
        if self.out_of_sight.contains(&whom.node()) {
            return true;
        }
        match whom {
            Whom::Runner(node) | Whom::Control(node) => !self.frozen.contains(&node),
            whom => self.running.range(whom.threads()).next().is_some(),
        }
    }

    /// Threads that `whom` means and that sleep outside of DECK.
    fn asleep(&self, whom: Whom) -> Vec<(NodeId, u32)> {
        if let Whom::Runner(_) | Whom::Control(_) = whom {
            return vec![];
        }
        let of_node = self.asleep.get(&whom.node()).into_iter().flatten().map(|thread| (whom.node(), *thread));
        of_node.filter(|thread| whom.threads().contains(thread)).collect()
    }
}

/// Whether the end of `wait`, whose thread is one that `whom` means, could help `from`. Who has come to the same
/// barrier, or joined the same group, is no help.
fn helps(wait: &Wait, whom: Whom, from: &Wait) -> bool {
    let has_come =
        matches!(from.goal, Goal::Barrier | Goal::Group) && wait.is_for_the_same_as(from) && !wait.is_passing;
    match whom {
        Whom::Node(_) | Whom::Owner(_) => !has_come && wait.whose() != from.whose(),
        Whom::Thread(..) => true,
        Whom::Runner(_) | Whom::Control(_) => false,
    }
}

/// Who could end a wait of a cycle: two threads that retrieve from a mail box of their node do not wait for one another
/// because each could post to it.
fn on_in_a_cycle(wait: &Wait) -> impl Iterator<Item = Whom> {
    wait.on.iter().copied().filter(|whom| !matches!(whom, Whom::Owner(_)))
}

/// Whether a step from one wait to another tells more than that they are in the same trouble: `to` is not for the same
/// thing, and does not wait for the end of a thread, which goes on first, unless it is its very thread that is needed.
fn is_plain_step(from: &Wait, to: &Wait) -> bool {
    let is_needed = || from.on.contains(&Whom::Thread(to.node, to.thread));
    !to.is_for_the_same_as(from) && (to.goal != Goal::Join || is_needed())
}

/// Some of the waits of a job, which are in the order of their nodes and threads.
struct Among<'a> {
    waits: &'a [Wait],
    which: BTreeSet<usize>,
}

impl<'a> Among<'a> {
    fn new(waits: &'a [Wait], which: BTreeSet<usize>) -> Among<'a> {
        debug_assert!(waits.is_sorted_by_key(Wait::whose));
        Among { waits, which }
    }

    /// Those of the threads that `whom` means, seen from `from`.
    fn of(&self, whom: Whom, from: &Wait) -> impl Iterator<Item = usize> {
        let threads = whom.threads();
        let begin = self.waits.partition_point(|wait| wait.whose() < *threads.start());
        let end = self.waits.partition_point(|wait| wait.whose() <= *threads.end());
        self.which.range(begin..end).copied().filter(move |index| helps(&self.waits[*index], whom, from))
    }

    /// Those of all who could end wait `from`; the same one more than once if several mean it.
    fn next(&self, from: usize) -> impl Iterator<Item = usize> {
        let from = &self.waits[from];
        from.on.iter().flat_map(move |whom| self.of(*whom, from))
    }

    /// The same for a cycle.
    fn next_in_a_cycle(&self, from: usize) -> impl Iterator<Item = usize> {
        let from = &self.waits[from];
        on_in_a_cycle(from).flat_map(move |whom| self.of(whom, from))
    }

    /// Whether `to` is one of those.
    fn leads_to(&self, from: usize, to: usize) -> bool {
        let (from, wait) = (&self.waits[from], &self.waits[to]);
        let is_meant = |whom: Whom| whom.threads().contains(&wait.whose()) && helps(wait, whom, from);
        self.which.contains(&to) && on_in_a_cycle(from).any(is_meant)
    }
}

/// The waits that nobody ends who is not among them.
fn reduce(waits: &[Wait], others: &Others) -> BTreeSet<usize> {
    let (passing, mut left): (BTreeSet<usize>, BTreeSet<usize>) =
        (0..waits.len()).partition(|index| waits[*index].is_passing);
    let mut ended = Among::new(waits, passing);
    loop {
        let count = left.len();
        left.retain(|index| {
            let wait = &waits[*index];
            let can_end = |whom: &Whom| others.run(*whom) || ended.of(*whom, wait).next().is_some();
            let ends = if wait.needs_all { wait.on.iter().all(can_end) } else { wait.on.iter().any(can_end) };
            if ends {
                ended.which.insert(*index);
            }
            !ends
        });
        if left.len() == count {
            return left;
        }
    }
}

/// The waits that are left, and which of them come back to one another.
struct Left<'a> {
    among: Among<'a>,
    components: Vec<usize>,
}

impl<'a> Left<'a> {
    fn of(waits: &'a [Wait], others: &Others) -> Left<'a> {
        let among = Among::new(waits, reduce(waits, others));
        let components = components::of(waits.len(), |from| among.next_in_a_cycle(from));
        Left { among, components }
    }

    /// The shortest way from `first` back to itself, past none but `which` steps from one wait to the next.
    fn way_back(&self, first: usize, which: impl Fn(&Wait, &Wait) -> bool) -> Option<Vec<usize>> {
        let waits = self.among.waits;
        let comes_back = |to: &usize| self.components[*to] == self.components[first];
        let is_last = |at: usize| self.among.leads_to(at, first) && which(&waits[at], &waits[first]);
        let mut before: BTreeMap<usize, usize> = BTreeMap::new();
        let mut queue = VecDeque::from([first]);
        let mut last = is_last(first).then_some(first);
        while last.is_none() {
            let at = queue.pop_front()?;
            let next = self.among.next_in_a_cycle(at).filter(comes_back);
            for to in next.filter(|to| which(&waits[at], &waits[*to])) {
                if let Entry::Vacant(unseen) = before.entry(to) {
                    unseen.insert(at);
                    queue.push_back(to);
                    // Not when its turn comes: where all wait for all, all others would be in the queue by then.
                    if is_last(to) {
                        last = Some(to);
                        break;
                    }
                }
            }
        }
        let mut way: Vec<usize> = last.into_iter().collect();
        while way.last() != Some(&first) {
            way.push(before[way.last().expect("it has an end")]);
        }
        way.reverse();
        Some(way)
    }

    /// Threads that sleep outside of DECK and are meant by wait `first`, or by waits that it depends on in turn; and
    /// whether a guest could end one of these.
    fn bystanders(&self, others: &Others, first: usize) -> (Vec<(NodeId, u32)>, bool) {
        let mut reached = vec![first];
        let mut is_reached = vec![false; self.among.waits.len()];
        is_reached[first] = true;
        let mut open = 0;
        while let Some(&at) = reached.get(open) {
            open += 1;
            reached.extend(self.among.next(at).filter(|to| !mem::replace(&mut is_reached[*to], true)));
        }
        let waits = || reached.iter().map(|index| &self.among.waits[*index]);
        let on: BTreeSet<Whom> = waits().flat_map(|wait| &wait.on).copied().collect();
        let asleep: BTreeSet<_> = on.into_iter().flat_map(|whom| others.asleep(whom)).collect();
        (asleep.into_iter().collect(), waits().any(|wait| wait.on_guests))
    }
}

/// True if there is any cycle.
pub fn are_any(waits: &[Wait], others: &Others) -> bool {
    let left = Left::of(waits, others);
    left.among.which.iter().any(|first| left.way_back(*first, |_, _| true).is_some())
}

/// The cycles: one for each wait that is in any, and none twice. Of waits that are in one only because they are for the
/// same thing, one is told.
pub fn of(waits: &[Wait], others: &Others) -> Vec<Cycle> {
    let left = Left::of(waits, others);
    if left.among.which.is_empty() {
        return vec![];
    }
    let left_by_all = reduce(waits, &others.awake());
    let mut told = BTreeSet::new();
    let mut cycles = Vec::new();
    // Those of a component's cycles are the same.
    let mut known: BTreeMap<usize, (Vec<(NodeId, u32)>, bool)> = BTreeMap::new();
    // Where threads that wait for the same thing, or for the end of others, could go on if another wait ended, that one
    // is in a cycle of its own.
    let mut with_others: BTreeSet<usize> = BTreeSet::new();
    let firsts = || left.among.which.iter().copied();
    for (first, is_plain) in firsts().map(|first| (first, true)).chain(firsts().map(|first| (first, false))) {
        let component = left.components[first];
        // One that waits for the same thing as another one is in the same trouble: once is enough.
        let is_like =
            |index: &usize| left.components[*index] == component && waits[*index].is_for_the_same_as(&waits[first]);
        if told.contains(&first) || !is_plain && (with_others.contains(&component) || told.iter().any(is_like)) {
            continue;
        }
        let which = |from: &Wait, to: &Wait| !is_plain || is_plain_step(from, to);
        let Some(way) = left.way_back(first, which) else { continue };
        told.extend(way.iter().copied());
        if is_plain {
            with_others.insert(component);
        }
        let is_hopeless = way.iter().all(|index| left_by_all.contains(index));
        let (bystanders, on_guests) = known.entry(component).or_insert_with(|| left.bystanders(others, first)).clone();
        let bystanders = if is_hopeless { vec![] } else { bystanders };
        let is_young = |index: &usize| waits[*index].waited_ns < DOUBTED_FOR_NS;
        if bystanders.is_empty() || !way.iter().any(is_young) {
            cycles.push(Cycle { waits: way, bystanders, on_guests });
        }
    }
    cycles
}

#[cfg(test)]
pub mod tests;
