//! The numbers of a placement, as the page reads them, in one list: total, makespan, busiest link; then for each
//! process what it pays for reading, writing and messages, and by terms (memory, bus, bridge, insertion, wire for
//! itself, wire shared with others); for each segment what its accesses cost; for each link its bytes.
//!
//! For a placement that is shown they come from an evaluation. While an item is in the hand they follow it: what has to
//! do with the item is taken off and added again elsewhere, so that a frame does not look at the whole model.

use optisci::cost::{Changes, Crossings, Terms, Transfer};
use optisci::model::{Model, Op};
use optisci::placement::{Home, Placement};
use optisci::topology::Node;
use optisci::{Costs, Evaluation};

use crate::session::Session;
use crate::trial::{Item, Places};

/// Numbers before those of the processes, and of each process.
const HEAD: usize = 3;
const PER_PROCESS: usize = 9;
/// Among those of a process: what it pays for wires of its own, and for those that others use.
const WIRE: usize = 7;
const CONTENDED: usize = 8;

/// The numbers of a placement.
pub fn of(model: &Model, placement: &Placement, evaluation: &Evaluation, crossings: &Crossings) -> Vec<f64> {
    let mut tally = Tally::new(model, vec![0.0; HEAD + PER_PROCESS * model.processes.len() + model.segments.len()]);
    for number in 0..model.accesses.len() {
        let access = model.accesses[number];
        let a = placement.processes[access.process as usize];
        tally.access(number, a, &placement.segments[access.segment as usize], 1.0);
    }
    for number in 0..model.messages.len() {
        let message = model.messages[number];
        let [a, b] = [message.from, message.to].map(|process| placement.processes[process as usize]);
        tally.message(number, a, b, 1.0);
    }
    let mut numbers = tally.numbers;
    // What an evaluation knows exactly is taken from there.
    numbers[..HEAD].copy_from_slice(&[evaluation.total_ns, evaluation.makespan_ns, evaluation.max_link_bytes as f64]);
    for (process, cost) in evaluation.per_process.iter().enumerate() {
        let at = HEAD + PER_PROCESS * process;
        numbers[at..at + 3].copy_from_slice(&[cost.read_ns, cost.write_ns, cost.message_ns]);
    }
    contend(&mut numbers, &crossings.contended_ns());
    numbers.extend(evaluation.per_link.iter().map(|&bytes| bytes as f64));
    numbers
}

/// Splits what processes pay for wires anew.
fn contend(numbers: &mut [f64], contended_ns: &[f64]) {
    for (process, &contended_ns) in numbers[HEAD..].chunks_mut(PER_PROCESS).zip(contended_ns) {
        // What was taken off and added leaves rounding behind.
        let wire_ns = (process[WIRE] + process[CONTENDED]).max(0.0);
        process[CONTENDED] = contended_ns.clamp(0.0, wire_ns);
        process[WIRE] = wire_ns - process[CONTENDED];
    }
}

impl Session {
    /// The numbers of the shown placement with `items` on `node`.
    pub fn numbers_with(&self, items: &[Item], node: Node) -> Vec<f64> {
        let swap = self.swap(items, node as usize, self.obstacles(items)[node as usize]);
        let mut concerned = self.concerned(items);
        if let Some((process, _)) = swap {
            concerned.add(self.concerned(&[Item::Process(process)]));
        }
        let mut places = Places::new(self, items, swap);
        let mut tally = Tally::new(&self.model, self.numbers.clone());
        for sign in [-1.0, 1.0] {
            for &number in &concerned.accesses {
                let access = self.model.accesses[number];
                let (a, home) = (places.process(access.process as usize), places.segment(access.segment as usize));
                tally.access(number, a, home, sign);
            }
            for &number in &concerned.messages {
                let message = self.model.messages[number];
                tally.message(number, places.process(message.from as usize), places.process(message.to as usize), sign);
            }
            places.go(node);
        }
        let Tally { mut numbers, changes, .. } = tally;
        let shown = self.numbers[HEAD..].chunks(PER_PROCESS).take(self.model.processes.len());
        let mut contended_ns: Vec<f64> = shown.map(|process| process[CONTENDED]).collect();
        self.crossings.follow(&changes, &mut contended_ns);
        contend(&mut numbers, &contended_ns);
        let links = HEAD + PER_PROCESS * self.model.processes.len() + self.model.segments.len();
        let (mut total, mut most) = (0.0, 0.0f64);
        for process in numbers[HEAD..HEAD + PER_PROCESS * self.model.processes.len()].chunks(PER_PROCESS) {
            let pays: f64 = process[..3].iter().sum();
            total += pays;
            most = most.max(pays);
        }
        numbers[0] = total;
        numbers[1] = most;
        numbers[2] = numbers[links..].iter().copied().fold(0.0, f64::max);
        numbers
    }
}

/// Numbers to which accesses are added, or from which they are taken.
struct Tally<'a> {
    model: &'a Model,
    costs: Costs<'a>,
    numbers: Vec<f64>,
    /// Of what links carry for whom; kept while numbers follow the hand.
    changes: Changes,
}

impl<'a> Tally<'a> {
    fn new(model: &'a Model, numbers: Vec<f64>) -> Tally<'a> {
        Tally { model, costs: Costs::new(model), numbers, changes: Changes::default() }
    }

    fn access(&mut self, number: usize, a: Node, home: &Home, sign: f64) {
        let access = self.model.accesses[number];
        let weight = sign * self.costs.weight(access.count);
        let segment = HEAD + PER_PROCESS * self.model.processes.len() + access.segment as usize;
        let pay = |tally: &mut Self, b: Node| {
            let terms = tally.costs.terms(access.op, access.size, a, b);
            tally.pay(access.process as usize, usize::from(access.op == Op::Write), terms, weight);
            tally.numbers[segment] += weight * terms.total_ns();
            tally.carry(tally.costs.transfer(access.process, access.op, access.count, access.size, a, b), sign);
        };
        match access.op {
            Op::Read => pay(self, self.costs.nearest_node(home, access.size, a)),
            Op::Write => home.nodes().iter().for_each(|&b| pay(self, b)),
        }
    }

    fn message(&mut self, number: usize, a: Node, b: Node, sign: f64) {
        let message = self.model.messages[number];
        let weight = sign * self.costs.weight(message.count);
        if a != b {
            let terms = self.costs.terms(Op::Write, message.size, a, b);
            self.pay(message.from as usize, 2, terms, weight);
            self.carry(self.costs.transfer(message.from, Op::Write, message.count, message.size, a, b), sign);
        }
    }

    fn pay(&mut self, process: usize, kind: usize, terms: Terms, weight: f64) {
        let at = HEAD + PER_PROCESS * process;
        self.numbers[at + kind] += weight * terms.total_ns();
        let parts = [terms.memory_ns, terms.bus_ns, terms.bridge_ns, terms.insertion_ns, terms.wire_ns];
        self.numbers[at + 3..at + PER_PROCESS].iter_mut().zip(parts).for_each(|(sum, part)| *sum += weight * part);
    }

    /// Bytes are whole numbers: exact in a double up to 2^53.
    fn carry(&mut self, transfer: Transfer, sign: f64) {
        let links = HEAD + PER_PROCESS * self.model.processes.len() + self.model.segments.len();
        if self.numbers.len() > links {
            let (topology, bytes) = (&self.model.topology, sign * transfer.bytes as f64);
            topology.route(transfer.from, transfer.to, |link| self.numbers[links + link] += bytes);
            match sign > 0.0 {
                true => self.changes.add(topology, transfer),
                false => self.changes.remove(topology, transfer),
            }
        }
    }
}
