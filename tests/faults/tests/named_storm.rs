//! The storm of named things: threads of several nodes put numbers into a queue in a shared segment and take them,
//! under a mutex and with conditions, while nodes are stopped for a moment and killed.
//!
//! `DECK_STORM=1000 cargo test -p deck-faults --release --test named_storm -- --nocapture` has a thousand queues and
//! tells how it goes.

use deck_testkit::{Chance, Job, Process, storm};

const PROGRAM: &str = deck_testkit::node_program!();
/// Queues in an ordinary run.
const QUEUES: usize = 8;
const PLACES: usize = 3;

/// A thread that works with the queue: a lane of a node.
struct Worker {
    place: usize,
    lane: String,
    puts: bool,
}

struct Storm {
    job: Job,
    nodes: Vec<Process>,
    chance: Chance,
}

impl Storm {
    fn start(queues: usize) -> Storm {
        let job = Job::launched(PROGRAM).with_limit(storm::limit(queues));
        let chance = Chance::new(job.seed());
        let nodes = job.nodes::<PLACES>().into();
        Storm { job, nodes, chance }
    }

    /// Those of a place: some of each kind.
    fn workers(&mut self, place: usize) -> Vec<Worker> {
        let [takers, putters] = [(); 2].map(|()| 1 + self.chance.below(2));
        let worker = |puts: bool, number| Worker { place, lane: format!("{puts}-{number}"), puts };
        (0..takers).map(|number| worker(false, number)).chain((0..putters).map(|number| worker(true, number))).collect()
    }

    /// Has them work. Makers are threads of nodes.
    fn set_to_work(&mut self, workers: &[Worker], how: &str) {
        for (number, worker) in workers.iter().enumerate() {
            let (node, seed) = (&self.nodes[worker.place], self.chance.bits());
            let maker = node.number().0 << 4 | number as u32;
            let what = if worker.puts { format!("queue-put q {maker}") } else { "queue-take q".to_string() };
            node.tell(&worker.lane, &format!("{what} {seed} {how}"));
        }
    }

    /// Nobody waits for ever, as the node at `place` sees it.
    fn goes_on(&mut self, place: usize) {
        let count = self.chance.below(300);
        self.nodes[place].done(&format!("queue-goes-on q {count}"));
    }

    /// Kills a node, and has another work in its place.
    fn kill(&mut self, workers: &mut Vec<Worker>, how: &str) {
        let place = self.chance.below(PLACES);
        self.nodes[place].kill();
        if self.chance.below(2) == 0 {
            self.goes_on((place + 1) % PLACES);
        }
        self.nodes[place] = self.job.node();
        workers.retain(|worker| worker.place != place);
        self.nodes[place].done("queue-open q");
        let fresh = self.workers(place);
        self.set_to_work(&fresh, how);
        workers.extend(fresh);
    }

    /// One queue, from its creation to its end.
    fn queue(&mut self) {
        let creator = self.chance.below(PLACES);
        let room = 1 + self.chance.below(4);
        self.nodes[creator].done(&format!("queue-create q {room}"));
        for place in (0..PLACES).filter(|place| *place != creator) {
            self.nodes[place].done("queue-open q");
        }
        let mut workers: Vec<Worker> = (0..PLACES).flat_map(|place| self.workers(place)).collect();
        let how = ["", "impatient"][self.chance.below(2)];
        self.set_to_work(&workers, how);
        let kills = self.chance.below(3);
        for _ in 0..kills {
            storm::pause(&mut self.chance);
            self.kill(&mut workers, how);
        }
        for _ in 0..self.chance.below(3) {
            let place = self.chance.below(PLACES);
            storm::pause(&mut self.chance);
            storm::stop_for_a_moment(&self.nodes[place], &mut self.chance);
        }
        let place = self.chance.below(PLACES);
        self.goes_on(place);
        self.nodes[self.chance.below(PLACES)].done("queue-end q");
        let mut balance = 0;
        for worker in &workers {
            let answer = self.nodes[worker.place].answer(&worker.lane);
            let answer = answer.unwrap_or_else(|| panic!("the node of {} is gone", worker.lane));
            let count = answer.result.unwrap_or_else(|failure| panic!("{}: {failure}", worker.lane));
            let count: i64 = count.parse().expect("a number");
            balance += if worker.puts { count } else { -count };
        }
        assert!(kills > 0 || balance == 0, "{balance} numbers were put and not taken");
        self.nodes.iter().for_each(|node| _ = node.done("queue-close q"));
    }
}

#[test]
fn numbers_go_through_a_queue_in_their_order_whoever_is_stopped_or_killed() {
    let queues = storm::rounds(QUEUES);
    let mut storm = Storm::start(queues);
    storm::each(queues, "queues", |_| storm.queue());
    let Storm { job, nodes, .. } = storm;
    drop(nodes);
    job.end();
}

#[test]
fn what_a_mutex_protects_stays_in_order_however_many_holders_are_killed() {
    let job = Job::launched(PROGRAM);
    let mut chance = Chance::new(job.seed());
    let [first, second] = job.nodes();
    first.done("segment-create w 16 -1");
    second.done("segment-open w 20000");
    for node in [&first, &second] {
        node.tell("work", "work w 4000");
    }
    for _ in 0..10 {
        let victim = job.node();
        victim.done("segment-open w 20000");
        victim.tell("work", "work w 1000000");
        for _ in 0..1 + chance.below(100) {
            assert!(victim.answer("work").is_some_and(|answer| answer.is_note));
        }
        victim.kill_and_wait();
    }
    for node in [&first, &second] {
        let (done, end) = node.posted("work");
        let repaired = end.expect("it lives").words();
        println!("{}: {done} times, repaired {repaired} times", node.number());
        assert_eq!(done, 4000);
    }
    drop((first, second));
    job.end();
}
