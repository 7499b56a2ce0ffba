//! Waits that wait for one another only.
//!
//! From all waits of a job those are taken away that somebody can end who is not waiting among them; again and again,
//! as long as there are any. That is the reduction of a graph of processes whose requests are AND (a collective needs
//! all who are absent) or OR (any of the nodes that can post) (Holt, 1972: *Some deadlock properties of computer
//! systems*). What is left and comes back to itself is a cycle. A thread that sleeps outside of DECK may do anything
//! when it wakes: it does not end a wait here, and is told beside the cycle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
            Whom::Node(node) | Whom::Owner(node) => self.running.range((node, 0)..=(node, u32::MAX)).next().is_some(),
            Whom::Thread(node, thread) => self.running.contains(&(node, thread)),
            Whom::Runner(node) | Whom::Control(node) => !self.frozen.contains(&node),
        }
    }

    /// Threads that `whom` means and that sleep outside of DECK.
    fn asleep(&self, whom: Whom) -> Vec<(NodeId, u32)> {
        let of_node = |node: NodeId| self.asleep.get(&node).into_iter().flatten().map(move |thread| (node, *thread));
        match whom {
            Whom::Node(node) | Whom::Owner(node) => of_node(node).collect(),
            Whom::Thread(node, thread) => of_node(node).filter(|(_, asleep)| *asleep == thread).collect(),
            Whom::Runner(_) | Whom::Control(_) => vec![],
        }
    }
}

/// Whether the end of `wait`, whose thread is one that `whom` means, could help `from`. Who waits for the end of a
/// thread is no help to anybody, nor who has come to the same barrier or joined the same group.
fn helps(wait: &Wait, whom: Whom, from: &Wait) -> bool {
    let has_come =
        matches!(from.goal, Goal::Barrier | Goal::Group) && wait.is_for_the_same_as(from) && !wait.is_passing;
    match whom {
        Whom::Node(_) | Whom::Owner(_) => !has_come && wait.goal != Goal::Join && wait.whose() != from.whose(),
        Whom::Thread(..) => true,
        Whom::Runner(_) | Whom::Control(_) => false,
    }
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
        let (first, last) = match whom {
            Whom::Thread(node, thread) => ((node, thread), (node, thread)),
            whom => ((whom.node(), 0), (whom.node(), u32::MAX)),
        };
        let begin = self.waits.partition_point(|wait| wait.whose() < first);
        let end = self.waits.partition_point(|wait| wait.whose() <= last);
        self.which.range(begin..end).copied().filter(move |index| helps(&self.waits[*index], whom, from))
    }

    /// Those of all who could end wait `from`; the same one more than once if several mean it.
    fn next(&self, from: usize) -> impl Iterator<Item = usize> {
        let from = &self.waits[from];
        from.on.iter().flat_map(move |whom| self.of(*whom, from))
    }

    /// The same for a cycle: two threads that retrieve from a mail box of their node do not wait for one another
    /// because each could post to it.
    fn next_in_a_cycle(&self, from: usize) -> impl Iterator<Item = usize> {
        let from = &self.waits[from];
        let others = from.on.iter().filter(|whom| !matches!(whom, Whom::Owner(_)));
        others.flat_map(move |whom| self.of(*whom, from))
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
        let mut before: BTreeMap<usize, usize> = BTreeMap::new();
        let mut queue = VecDeque::from([first]);
        while let Some(at) = queue.pop_front() {
            let next = self.among.next_in_a_cycle(at).filter(comes_back);
            for to in next.filter(|to| which(&waits[at], &waits[*to])) {
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

    /// Threads that sleep outside of DECK and are meant by wait `first`, or by waits that it depends on in turn; and
    /// whether a guest could end one of these.
    fn bystanders(&self, others: &Others, first: usize) -> (Vec<(NodeId, u32)>, bool) {
        let mut reached: BTreeSet<usize> = BTreeSet::from([first]);
        let mut open = vec![first];
        while let Some(at) = open.pop() {
            open.extend(self.among.next(at).filter(|to| reached.insert(*to)));
        }
        let on: BTreeSet<Whom> = reached.iter().flat_map(|index| &self.among.waits[*index].on).copied().collect();
        let asleep: BTreeSet<_> = on.into_iter().flat_map(|whom| others.asleep(whom)).collect();
        (asleep.into_iter().collect(), reached.iter().any(|index| self.among.waits[*index].on_guests))
    }
}

/// True if there is any cycle.
pub fn are_any(waits: &[Wait], others: &Others) -> bool {
    let left = Left::of(waits, others);
    left.among.which.iter().any(|first| left.way_back(*first, |_, _| true).is_some())
}

/// The cycles: one for each wait that is in any, and none twice.
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
    // Where threads that wait for the same thing could go on if another wait ended, that one is in a cycle of its own.
    let mut with_others: BTreeSet<usize> = BTreeSet::new();
    let firsts = || left.among.which.iter().copied();
    for (first, is_plain) in firsts().map(|first| (first, true)).chain(firsts().map(|first| (first, false))) {
        let component = left.components[first];
        if told.contains(&first) || !is_plain && with_others.contains(&component) {
            continue;
        }
        let which = |from: &Wait, to: &Wait| !is_plain || !to.is_for_the_same_as(from);
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
pub mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use deck_peers::observe::FACTS;

    use super::*;

    /// Many times as long as it takes.
    const WATCHDOG: Duration = Duration::from_secs(60);

    /// A thread that waits, and for whom.
    pub fn wait(node: u32, thread: u32, on: &[Whom], needs_all: bool) -> Wait {
        Wait {
            node: NodeId(node),
            thread,
            thread_name: String::new(),
            goal: Goal::Message,
            doing: String::new(),
            name: String::new(),
            facts: [0; FACTS],
            since_ns: 0,
            waited_ns: DOUBTED_FOR_NS,
            left_ns: None,
            on: on.iter().copied().collect(),
            needs_all,
            on_newcomers: false,
            on_guests: false,
            is_passing: false,
            runs: false,
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
        let others = Others { running: BTreeSet::from([(NodeId(1), 9)]), ..Others::default() };
        assert!(ways(&waits, &others).is_empty());
        let others = Others { asleep: BTreeMap::from([(NodeId(0), vec![9])]), ..Others::default() };
        assert_eq!(of(&waits, &others)[0].bystanders, [(NodeId(0), 9)]);
        // Nobody knows what is done where nobody sees it.
        let unseen = Others { out_of_sight: BTreeSet::from([NodeId(0)]), ..Others::default() };
        assert!(ways(&waits, &unseen).is_empty() && ways(&waits, &unseen.until(&Others::default())).is_empty());
        // One that is just beginning may wait for who is still at work.
        let waits = [waits[0].clone(), Wait { waited_ns: DOUBTED_FOR_NS - 1, ..waits[1].clone() }];
        assert!(ways(&waits, &others).is_empty());
        assert_eq!(ways(&waits, &Others::default()), [[0, 1]]);
    }

    #[test]
    fn a_master_is_in_no_cycle_with_its_idle_workers_while_one_of_them_works() {
        let waits = [wait(0, 1, &[node(1), node(2)], false), wait(1, 2, &[node(0)], false)];
        let working = Others { running: BTreeSet::from([(NodeId(2), 9)]), ..Others::default() };
        assert!(ways(&waits, &working).is_empty());
        // A collective needs the idle one too.
        let waits = [wait(0, 1, &[node(1), node(2)], true), wait(1, 2, &[node(0)], false)];
        assert_eq!(ways(&waits, &working), [[0, 1]]);
    }

    #[test]
    fn who_waits_for_a_member_that_runs_ends_its_wait_and_those_who_wait_for_it_are_in_no_cycle() {
        let absent = [Whom::Thread(NodeId(1), 9)];
        let waits =
            [wait(0, 1, &absent, true), wait(2, 2, &[node(0), node(3)], false), wait(3, 3, &[node(0), node(2)], false)];
        let running = Others { running: BTreeSet::from([(NodeId(1), 9)]), ..Others::default() };
        assert!(ways(&waits, &running).is_empty());
        // Another thread of that node is no help, and one that sleeps may be.
        let others = Others { running: BTreeSet::from([(NodeId(1), 8)]), ..Others::default() };
        assert_eq!(of(&waits, &others), [Cycle { waits: vec![1, 2], bystanders: vec![], on_guests: false }]);
        let asleep = Others { asleep: BTreeMap::from([(NodeId(1), vec![8, 9])]), ..Others::default() };
        assert_eq!(
            of(&waits, &asleep),
            [Cycle { waits: vec![1, 2], bystanders: vec![(NodeId(1), 9)], on_guests: false }]
        );
    }

    #[test]
    fn an_absent_member_that_sleeps_is_told_unless_another_one_is_in_the_cycle() {
        let thread = |node, thread| Whom::Thread(NodeId(node), thread);
        let asleep = Others { asleep: BTreeMap::from([(NodeId(2), vec![9])]), ..Others::default() };
        let waits = [wait(0, 1, &[thread(1, 2), thread(2, 9)], true), wait(1, 2, &[node(0)], false)];
        assert_eq!(of(&waits, &asleep), [Cycle { waits: vec![0, 1], bystanders: vec![], on_guests: false }]);
        let waits = [wait(0, 1, &[thread(1, 2), thread(2, 9)], false), wait(1, 2, &[node(0)], false)];
        assert_eq!(
            of(&waits, &asleep),
            [Cycle { waits: vec![0, 1], bystanders: vec![(NodeId(2), 9)], on_guests: false }]
        );
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
    fn a_wait_for_a_mutex_that_is_free_ends_and_with_it_those_that_any_of_several_can_end() {
        let mut waits = [wait(0, 1, &[], false), wait(1, 2, &[node(0), node(2)], false), wait(2, 3, &[node(1)], false)];
        waits[0].is_passing = true;
        assert!(ways(&waits, &Others::default()).is_empty());
    }

    #[test]
    fn another_thread_of_the_owner_may_post_to_its_mail_box_but_two_that_retrieve_from_it_are_no_cycle() {
        let to_its_main_thread = [Whom::Thread(NodeId(0), 1)];
        let waits = [wait(0, 1, &[node(1), Whom::Owner(NodeId(0))], false), wait(1, 3, &to_its_main_thread, true)];
        let computes = Others { running: BTreeSet::from([(NodeId(0), 2)]), ..Others::default() };
        assert!(ways(&waits, &computes).is_empty());
        let asleep = Others { asleep: BTreeMap::from([(NodeId(0), vec![2])]), ..Others::default() };
        assert_eq!(
            of(&waits, &asleep),
            [Cycle { waits: vec![0, 1], bystanders: vec![(NodeId(0), 2)], on_guests: false }]
        );
        let on = [node(1), Whom::Owner(NodeId(0))];
        let pool = [wait(0, 1, &on, false), wait(0, 2, &on, false)];
        let client_asleep = Others { asleep: BTreeMap::from([(NodeId(1), vec![3])]), ..Others::default() };
        assert!(ways(&pool, &client_asleep).is_empty());
    }

    fn for_thing(goal: Goal, name: &str, wait: Wait) -> Wait {
        Wait { goal, name: name.to_owned(), ..wait }
    }

    #[test]
    fn who_has_come_to_a_barrier_or_a_group_is_no_help_to_others_there_and_the_one_that_is_missing_is() {
        let anybody = [node(0), node(1), node(2)];
        for goal in [Goal::Barrier, Goal::Group] {
            let come = [0, 1].map(|number| for_thing(goal, "b", wait(number, number + 1, &anybody, false)));
            assert!(ways(&come, &Others::default()).is_empty());
            // Of another one they may be missed.
            let apart = [come[0].clone(), for_thing(goal, "c", come[1].clone())];
            assert_eq!(ways(&apart, &Others::default()), [[0, 1]]);
            let [one, other] = come;
            let missing = for_thing(Goal::Mutex, "m", wait(2, 3, &[Whom::Thread(NodeId(0), 1)], false));
            assert_eq!(ways(&[one.clone(), other.clone(), missing.clone()], &Others::default()), [[0, 2]]);
            // Who has still to wake up from a round that is over may come to the next one.
            let late = Wait { is_passing: true, ..other };
            assert!(ways(&[one, late, missing], &Others::default()).is_empty());
        }
    }

    #[test]
    fn who_waits_for_the_same_signal_is_told_only_if_nothing_else_keeps_them_up() {
        let anybody = [node(0), node(1), node(2)];
        let both = [0, 1].map(|number| for_thing(Goal::Condition, "c", wait(number, number + 1, &anybody, false)));
        assert_eq!(ways(&both, &Others::default()), [[0, 1]]);
        let [one, other] = both;
        let third = wait(2, 3, &[Whom::Thread(NodeId(1), 2)], false);
        assert_eq!(ways(&[one, other, third], &Others::default()), [[1, 2]]);
    }

    #[test]
    fn who_waits_for_the_same_semaphore_is_told_with_who_waits_for_them() {
        let at = |thread, address| {
            let wait = wait(0, thread, &[node(0)], false);
            Wait { goal: Goal::Semaphore, facts: [address; FACTS], ..wait }
        };
        let absent = [1, 2].map(|thread| Whom::Thread(NodeId(0), thread));
        let waits = [at(1, 64), at(2, 64), wait(0, 3, &absent, true)];
        assert_eq!(ways(&waits, &Others::default()), [[0, 2], [1, 2]]);
        // One of the threads could post to the other one's.
        assert_eq!(ways(&[at(1, 64), at(2, 128)], &Others::default()), [[0, 1]]);
        assert_eq!(ways(&waits[..2], &Others::default()), [[0, 1]]);
    }

    #[test]
    fn a_cycle_that_a_guest_could_end_says_so() {
        let waits = [wait(0, 1, &[node(1)], false), wait(1, 2, &[node(0)], false)];
        assert!(!of(&waits, &Others::default())[0].on_guests);
        let waits = [Wait { on_guests: true, ..waits[0].clone() }, waits[1].clone()];
        assert!(of(&waits, &Others::default())[0].on_guests);
    }

    /// So large that no wait may be compared with every other one for each node that it waits for.
    #[test]
    fn a_large_job_that_idles_is_looked_through_before_anybody_loses_patience() {
        const NODES: u32 = 256;
        let all: Vec<Whom> = (0..NODES).map(node).collect();
        let servers = &all[..128];
        let each = |on: &[Whom]| -> Vec<Wait> {
            (0..NODES).flat_map(|node| [1, 2, 3, 4].map(|thread| wait(node, thread, on, false))).collect()
        };
        let jobs = [(each(&all), 256), (each(servers), 128)];
        let (done, is_done) = channel();
        thread::spawn(move || {
            let asleep = (0..NODES).map(|node| (NodeId(node), vec![9])).collect();
            let others = Others { asleep, ..Others::default() };
            for (waits, meant) in jobs {
                let cycles = of(&waits, &others);
                let is_such = |cycle: &Cycle| (cycle.waits.len(), cycle.bystanders.len()) == (2, meant);
                let told: BTreeSet<usize> = cycles.iter().flat_map(|cycle| &cycle.waits).copied().collect();
                done.send(are_any(&waits, &others) && told.len() == 4 * meant && cycles.iter().all(is_such)).unwrap();
            }
        });
        for _ in 0..2 {
            assert_eq!(is_done.recv_timeout(WATCHDOG), Ok(true));
        }
    }

    #[test]
    fn who_is_not_asleep_in_both_looks_may_have_run_between_them() {
        let asleep =
            |threads: &[u32]| Others { asleep: BTreeMap::from([(NodeId(0), threads.to_vec())]), ..Others::default() };
        let between = asleep(&[1, 2]).until(&asleep(&[2, 3]));
        assert_eq!(between.asleep, BTreeMap::from([(NodeId(0), vec![2])]));
        assert_eq!(between.running, BTreeSet::from([(NodeId(0), 1), (NodeId(0), 3)]));
    }

    #[test]
    fn who_waits_for_its_own_node_waits_for_the_other_threads_there() {
        let waits = [wait(0, 1, &[node(0)], false)];
        assert!(ways(&waits, &Others::default()).is_empty());
        let waits = [wait(0, 1, &[node(0)], false), wait(0, 2, &[node(0)], false)];
        assert_eq!(ways(&waits, &Others::default()), [[0, 1]]);
    }
}
