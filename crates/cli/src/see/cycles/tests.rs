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
    assert_eq!(of(&waits, &asleep), [Cycle { waits: vec![1, 2], bystanders: vec![(NodeId(1), 9)], on_guests: false }]);
}

#[test]
fn an_absent_member_that_sleeps_is_told_unless_another_one_is_in_the_cycle() {
    let thread = |node, thread| Whom::Thread(NodeId(node), thread);
    let asleep = Others { asleep: BTreeMap::from([(NodeId(2), vec![9])]), ..Others::default() };
    let waits = [wait(0, 1, &[thread(1, 2), thread(2, 9)], true), wait(1, 2, &[node(0)], false)];
    assert_eq!(of(&waits, &asleep), [Cycle { waits: vec![0, 1], bystanders: vec![], on_guests: false }]);
    let waits = [wait(0, 1, &[thread(1, 2), thread(2, 9)], false), wait(1, 2, &[node(0)], false)];
    assert_eq!(of(&waits, &asleep), [Cycle { waits: vec![0, 1], bystanders: vec![(NodeId(2), 9)], on_guests: false }]);
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
    assert_eq!(of(&waits, &asleep), [Cycle { waits: vec![0, 1], bystanders: vec![(NodeId(0), 2)], on_guests: false }]);
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
    // However many they are, and whoever waits for the end of one of them.
    let ends = for_thing(Goal::Join, "", wait(0, 1, &[Whom::Thread(NodeId(0), 2)], false));
    let waits = [ends, at(2, 64), at(3, 64), at(4, 64)];
    assert_eq!(ways(&waits[1..], &Others::default()), [[0, 1]]);
    assert_eq!(ways(&waits, &Others::default()), [[0, 1]]);
}

#[test]
fn who_waits_for_the_end_of_a_thread_is_told_where_it_is_the_one_that_could_help() {
    let joins = |node, thread, other| {
        for_thing(Goal::Join, "", wait(node, thread, &[Whom::Thread(NodeId(node), other)], false))
    };
    let waits = [joins(0, 1, 2), wait(0, 2, &[node(0)], false)];
    assert_eq!(ways(&waits, &Others::default()), [[0, 1]]);
    assert_eq!(ways(&[joins(0, 1, 2), joins(0, 2, 1)], &Others::default()), [[0, 1]]);
    // It holds what the other one wants.
    let waits = [joins(0, 1, 2), wait(0, 2, &[Whom::Thread(NodeId(1), 3)], false)];
    let holds = wait(1, 3, &[Whom::Thread(NodeId(0), 1)], false);
    assert_eq!(ways(&[&waits[..], &[holds]].concat(), &Others::default()), [[0, 1, 2]]);
    // The other one is asked first: this one only waits for it.
    let waits = [joins(0, 1, 2), wait(0, 2, &[node(1)], false), wait(1, 3, &[node(0)], false)];
    assert_eq!(ways(&waits, &Others::default()), [[1, 2]]);
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
