//! Why a placement costs what it costs: what is dearest in it, and which single move would help most.
//!
//! Moves are judged by the time of all processes together, each alone, everything else staying where it is. A best
//! placement has none that helps; a placement that has none need not be the best.

use super::Costs;
use crate::model::{Access, Message, Op};
use crate::placement::{Home, Placement};
use crate::sum::Sum;
use crate::topology::Node;

/// One entry of the model and what it costs where things are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contribution {
    /// An entry of `accesses`, by its index.
    Access(usize, f64),
    /// An entry of `messages`, by its index.
    Message(usize, f64),
}

impl Contribution {
    /// Its cost in ns.
    pub fn ns(self) -> f64 {
        match self {
            Contribution::Access(_, ns) | Contribution::Message(_, ns) => ns,
        }
    }
}

/// What may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A process, by its index.
    Process(usize),
    /// A segment that has one home, by its index.
    Segment(usize),
}

/// A move and what it saves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// What moves.
    pub item: Item,
    /// Where to.
    pub to: Node,
    /// What all processes together save, in ns.
    pub saves_ns: f64,
}

impl Costs<'_> {
    /// The `most` dearest entries of the model, the dearest first.
    pub fn dearest(&self, placement: &Placement, most: usize) -> Vec<Contribution> {
        let accesses = self.model.accesses.iter().enumerate();
        let accesses = accesses.map(|(index, access)| Contribution::Access(index, self.paid(access, placement)));
        let messages = self.model.messages.iter().enumerate();
        let messages = messages.map(|(index, message)| Contribution::Message(index, self.sent(message, placement)));
        let mut all: Vec<Contribution> = accesses.chain(messages).filter(|entry| entry.ns() > 0.0).collect();
        all.sort_by(|a, b| b.ns().total_cmp(&a.ns()));
        all.truncate(most);
        all
    }

    /// The best move of each item that saves anything and breaks no limit or pin, the `most` best of these.
    ///
    /// Segments with copies stay. Takes time in proportion to accesses times nodes.
    pub fn best_moves(&self, placement: &Placement, most: usize) -> Vec<Move> {
        let total: f64 = self.evaluate(placement).total_ns;
        let room = Room::beside(self, placement);
        let uses = Uses::of(self);
        let mut trial = placement.clone();
        let mut moves = Vec::new();
        let items =
            (0..placement.processes.len()).map(Item::Process).chain((0..placement.segments.len()).map(Item::Segment));
        for item in items {
            let Some(home) = movable(self, placement, item) else { continue };
            let stays = uses.cost(self, item, &trial);
            let mut best = Move { item, to: home, saves_ns: 0.0 };
            for to in (0..self.model.nodes() as Node).filter(|&to| to != home && room.takes(self, item, to)) {
                put(&mut trial, item, to);
                let saves_ns = stays - uses.cost(self, item, &trial);
                if saves_ns > best.saves_ns {
                    best = Move { item, to, saves_ns };
                }
            }
            put(&mut trial, item, home);
            // Less than the exactness of costs is no saving.
            if best.saves_ns > 1e-9 * total {
                moves.push(best);
            }
        }
        moves.sort_by(|a, b| b.saves_ns.total_cmp(&a.saves_ns));
        moves.truncate(most);
        moves
    }

    fn paid(&self, access: &Access, placement: &Placement) -> f64 {
        let a = placement.processes[access.process as usize];
        let home = &placement.segments[access.segment as usize];
        let one = match access.op {
            Op::Read => self.nearest(home, access.size, a).1,
            Op::Write => home.nodes().iter().map(|&node| self.access_ns(Op::Write, access.size, a, node)).sum(),
        };
        self.weight(access.count) * one
    }

    fn sent(&self, message: &Message, placement: &Placement) -> f64 {
        let (a, b) = (placement.processes[message.from as usize], placement.processes[message.to as usize]);
        self.weight(message.count) * self.message_ns(message.size, a, b)
    }
}

/// The entries of the model that each item takes part in.
struct Uses {
    of_process: Vec<(Vec<u32>, Vec<u32>)>,
    of_segment: Vec<Vec<u32>>,
}

impl Uses {
    fn of(costs: &Costs<'_>) -> Uses {
        let model = costs.model();
        let mut uses = Uses {
            of_process: vec![Default::default(); model.processes.len()],
            of_segment: vec![Vec::new(); model.segments.len()],
        };
        for (index, access) in (0u32..).zip(&model.accesses) {
            uses.of_process[access.process as usize].0.push(index);
            uses.of_segment[access.segment as usize].push(index);
        }
        for (index, message) in (0u32..).zip(&model.messages) {
            uses.of_process[message.from as usize].1.push(index);
            if message.to != message.from {
                uses.of_process[message.to as usize].1.push(index);
            }
        }
        uses
    }

    fn cost(&self, costs: &Costs<'_>, item: Item, placement: &Placement) -> f64 {
        let model = costs.model();
        let paid = |&index: &u32| costs.paid(&model.accesses[index as usize], placement);
        let sent = |&index: &u32| costs.sent(&model.messages[index as usize], placement);
        match item {
            Item::Segment(segment) => self.of_segment[segment].iter().map(paid).collect::<Sum>().value(),
            Item::Process(process) => {
                let (accesses, messages) = &self.of_process[process];
                accesses.iter().map(paid).chain(messages.iter().map(sent)).collect::<Sum>().value()
            }
        }
    }
}

/// What limits leave free on each node.
struct Room {
    processes: Vec<u64>,
    segments: Vec<u64>,
    bytes: Vec<u64>,
}

impl Room {
    fn beside(costs: &Costs<'_>, placement: &Placement) -> Room {
        let model = costs.model();
        let limit = |limit: &Option<Vec<u64>>| limit.clone().unwrap_or_else(|| vec![u64::MAX; model.nodes()]);
        let mut room = Room {
            processes: limit(&model.process_slots),
            segments: limit(&model.segment_slots),
            bytes: limit(&model.memory_bytes),
        };
        let take = |free: &mut u64, used: u64| *free = free.saturating_sub(used);
        placement.processes.iter().for_each(|&node| take(&mut room.processes[node as usize], 1));
        for (segment, home) in model.segments.iter().zip(&placement.segments) {
            for &node in home.nodes() {
                take(&mut room.segments[node as usize], 1);
                take(&mut room.bytes[node as usize], segment.bytes);
            }
        }
        room
    }

    fn takes(&self, costs: &Costs<'_>, item: Item, to: Node) -> bool {
        match item {
            Item::Process(_) => self.processes[to as usize] > 0,
            Item::Segment(segment) => {
                self.segments[to as usize] > 0 && self.bytes[to as usize] >= costs.model().segments[segment].bytes
            }
        }
    }
}

/// Where an item is, if it may move from there.
fn movable(costs: &Costs<'_>, placement: &Placement, item: Item) -> Option<Node> {
    match item {
        Item::Process(process) => {
            costs.model().processes[process].pin.is_none().then_some(placement.processes[process])
        }
        Item::Segment(segment) => match &placement.segments[segment] {
            Home::One(node) => costs.model().segments[segment].pin.is_none().then_some(*node),
            Home::Copies(_) => None,
        },
    }
}

fn put(placement: &mut Placement, item: Item, node: Node) {
    match item {
        Item::Process(process) => placement.processes[process] = node,
        Item::Segment(segment) => placement.segments[segment] = Home::One(node),
    }
}
