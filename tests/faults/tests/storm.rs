//! The kill storm: four nodes post to one another while one after the other is killed at a random moment and replaced.
//!
//! `DECK_STORM=1000 cargo test -p deck-faults --release --test storm -- --nocapture` kills a thousand times and tells
//! how it goes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use deck_testkit::expect::LIVENESS;
use deck_testkit::{Chance, Job, NodeId, Process, storm};

const PROGRAM: &str = deck_testkit::node_program!();
const PLACES: usize = 4;
/// Kills in an ordinary run of the tests.
const KILLS: usize = 25;
/// What must happen at all must happen within this.
const SOON_MS: u64 = 10_000;

/// Four nodes, by the place at which they sit.
struct Storm {
    job: Job,
    nodes: Vec<Process>,
    chance: Chance,
    seed: u64,
}

impl Storm {
    fn start(job: Job) -> Storm {
        let seed = job.seed();
        let mut storm = Storm { job, nodes: Vec::new(), chance: Chance::new(seed), seed };
        for place in 0..PLACES {
            let node = storm.sit(place);
            storm.nodes.push(node);
        }
        storm.all_meet();
        storm
    }

    fn sit(&self, place: usize) -> Process {
        let node = self.job.node();
        // The names of the one who sat here are free as soon as its death is known.
        let began = Instant::now();
        while let Err(failure) = node.ask(&format!("exchange {place} {PLACES} {}", self.seed)).result {
            let is_taken = failure.kind == "Exists" && began.elapsed() < LIVENESS;
            assert!(is_taken, "{} after {:?}: {failure}", node.number(), began.elapsed());
        }
        node
    }

    /// Asks every node something about every other one, all at the same time.
    fn ask_all(&self, what: impl Fn(&Process, &Process) -> String) {
        let pairs = || (0..PLACES).flat_map(|one| (0..PLACES).map(move |other| (one, other)));
        for (one, other) in pairs().filter(|(one, other)| one != other) {
            self.nodes[one].tell(&format!("about-{other}"), &what(&self.nodes[one], &self.nodes[other]));
        }
        for (one, other) in pairs().filter(|(one, other)| one != other) {
            let answer = self.nodes[one].answer(&format!("about-{other}"));
            let answer = answer.unwrap_or_else(|| panic!("node {:?} is gone", self.nodes[one].number()));
            if let Err(failure) = answer.result {
                panic!("{}: {failure}", self.nodes[one].number());
            }
        }
    }

    fn all_meet(&self) {
        self.ask_all(|_, other| format!("met {} {SOON_MS}", other.number().0));
    }

    /// Kills one node, now and then two, and has others take their places.
    fn kill_some(&mut self) -> usize {
        let mut places = vec![self.chance.below(PLACES)];
        if self.chance.below(5) == 0 {
            places.push((places[0] + 1 + self.chance.below(PLACES - 1)) % PLACES);
        }
        storm::pause(&mut self.chance);
        let victims: Vec<NodeId> = places.iter().map(|place| self.nodes[*place].number()).collect();
        places.iter().for_each(|place| _ = self.nodes[*place].kill_and_wait());
        let is_early = self.chance.below(2) == 0;
        if is_early {
            // Not every loss has been noticed when the next nodes come.
            self.refill(&places);
        }
        let survivors = || self.nodes.iter().enumerate().filter(|(at, _)| !places.contains(at)).map(|(_, node)| node);
        for (node, victim) in survivors().flat_map(|node| victims.iter().map(move |victim| (node, victim))) {
            node.tell("told", &format!("told {} {SOON_MS}", victim.0));
        }
        for (node, victim) in survivors().flat_map(|node| victims.iter().map(move |victim| (node, victim))) {
            let answer = node.answer("told").unwrap_or_else(|| panic!("{} is gone", node.number()));
            answer.result.unwrap_or_else(|failure| panic!("{} after the death of {victim}: {failure}", node.number()));
        }
        if !is_early {
            self.refill(&places);
        }
        if self.chance.below(2) == 0 {
            self.all_meet();
        }
        victims.len()
    }

    fn refill(&mut self, places: &[usize]) {
        for place in places {
            if self.chance.below(4) == 0 {
                // One that does not get far.
                let early = self.job.start(&[], &[]);
                storm::pause(&mut self.chance);
                early.kill();
            }
            self.nodes[*place] = self.sit(*place);
        }
    }

    /// Ends the posting; then everything that was posted among the survivors has arrived exactly once.
    fn settle(&self) {
        self.all_meet();
        self.nodes.iter().for_each(|node| node.tell("stop", "stop"));
        let mut posted: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
        for node in &self.nodes {
            let words = node.answer("stop").unwrap_or_else(|| panic!("{} is gone", node.number())).words();
            let (direct, relayed) = words.split_once('/').expect("two lists");
            let entries = |list: &str| {
                let entry = |entry: &str| {
                    let (to, count) = entry.split_once(':').expect("a node and a count");
                    (to.parse::<u32>().expect("a node"), count.parse::<u64>().expect("a count"))
                };
                list.split_whitespace().map(entry).collect::<Vec<_>>()
            };
            for (to, count) in entries(direct) {
                posted.entry((node.number().0, to)).or_default().0 = count;
            }
            for (to, count) in entries(relayed) {
                posted.entry((node.number().0, to)).or_default().1 = count;
            }
        }
        self.ask_all(|one, other| {
            let (count, relays) = posted.get(&(other.number().0, one.number().0)).copied().unwrap_or_default();
            format!("drained {} {count} {relays} {SOON_MS}", other.number().0)
        });
        let total: u64 = posted.values().map(|(count, relays)| count + relays).sum();
        println!("{total} messages among the last four");
    }
}

fn storm(job: Job) {
    let kills = storm::rounds(KILLS);
    let mut storm = Storm::start(job.with_limit(Duration::from_secs(60 + kills as u64)));
    let began = Instant::now();
    let mut told = Instant::now();
    let mut killed = 0;
    while killed < kills {
        killed += storm.kill_some();
        if told.elapsed() > Duration::from_secs(5) {
            told = Instant::now();
            let memory: Vec<u64> = storm.nodes.iter().map(|node| node.shared_bytes() >> 20).collect();
            println!("{killed} of {kills} kills in {:?}; MiB of the nodes: {memory:?}", began.elapsed());
        }
    }
    let each = began.elapsed() / killed.max(1) as u32;
    println!("{killed} kills in {:?}, {each:?} each", began.elapsed());
    storm.settle();
    let Storm { job, nodes, .. } = storm;
    drop(nodes);
    job.end();
}

#[test]
fn launched_nodes_go_on_without_loss_while_one_after_the_other_is_killed() {
    storm(Job::launched(PROGRAM));
}

#[test]
fn nodes_joined_by_name_go_on_without_loss_while_one_after_the_other_is_killed() {
    storm(Job::by_name(PROGRAM));
}
