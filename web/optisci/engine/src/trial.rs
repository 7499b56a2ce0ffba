//! What everything would cost with some items on another node, for every node at once.
//!
//! This is what the page asks when somebody picks items up, so it looks at the accesses and messages of these only:
//! with d of them and n nodes it takes O(n d) accesses and routes, not n evaluations of the model.

use std::collections::{BTreeSet, HashMap};

use optisci::Costs;
use optisci::cost::ProcessCost;
use optisci::model::{Model, Op};
use optisci::placement::Home;
use optisci::topology::Node;

use crate::session::Session;

/// What may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A process, by its index.
    Process(usize),
    /// The copy of a segment that is on `from`.
    Segment {
        /// Its index.
        index: usize,
        /// The node that the copy leaves.
        from: Node,
    },
}

/// Why items may not be dropped on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Obstacle {
    /// They may.
    None = 0,
    /// One is pinned to another node.
    Pin = 1,
    /// Too few process slots are left there.
    ProcessSlots = 2,
    /// Too few segment slots are left there.
    SegmentSlots = 3,
    /// Not enough memory is left there.
    Memory = 4,
}

/// The outcome for each node.
#[derive(Clone, Debug)]
pub struct Trial {
    /// All processes together, ns.
    pub total_ns: Vec<f64>,
    /// The process that takes longest, ns.
    pub makespan_ns: Vec<f64>,
    /// Bytes on the busiest directed link.
    pub max_link_bytes: Vec<u64>,
    /// Whether they may be dropped there.
    pub obstacles: Vec<Obstacle>,
    /// The process that would go to the place of the one that is dropped: a node whose last slot one process has is no
    /// obstacle to another, they change places.
    pub swaps: Vec<Option<usize>>,
}

/// What a trial is asked for: routes are most of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Count what they carry.
    Count,
    /// Leave `max_link_bytes` 0.
    Ignore,
}

/// Where the items are, or would be.
pub(crate) struct Places<'a> {
    session: &'a Session,
    processes: HashMap<usize, Node>,
    /// The node that a copy leaves, and the home of the segment meanwhile.
    segments: HashMap<usize, (Node, Home)>,
    /// A process that makes room, and the node that it goes to.
    swapped: Option<(usize, Node)>,
}

impl<'a> Places<'a> {
    /// Everything where it is shown.
    pub(crate) fn new(session: &'a Session, items: &[Item], swapped: Option<(usize, Node)>) -> Places<'a> {
        let placement = &session.placement;
        let (mut processes, mut segments) = (HashMap::new(), HashMap::new());
        for &item in items {
            match item {
                Item::Process(index) => drop(processes.insert(index, placement.processes[index])),
                Item::Segment { index, from } => {
                    drop(segments.insert(index, (from, placement.segments[index].clone())));
                }
            }
        }
        Places { session, processes, segments, swapped }
    }

    /// Everything on `target`, and whoever makes room out of the way.
    pub(crate) fn go(&mut self, target: Node) {
        self.processes.values_mut().for_each(|node| *node = target);
        for (&segment, (from, home)) in &mut self.segments {
            *home = moved(&self.session.placement.segments[segment], *from, target);
        }
        if let Some((process, node)) = self.swapped {
            self.processes.insert(process, node);
        }
    }

    pub(crate) fn process(&self, index: usize) -> Node {
        self.processes.get(&index).copied().unwrap_or(self.session.placement.processes[index])
    }

    pub(crate) fn segment(&self, index: usize) -> &Home {
        self.segments.get(&index).map_or(&self.session.placement.segments[index], |(_, home)| home)
    }
}

/// What processes pay and links carry.
struct Bill<'a> {
    costs: Costs<'a>,
    model: &'a Model,
    per_process: Vec<f64>,
    per_link: Vec<u64>,
    links: Links,
}

impl Bill<'_> {
    fn carry(&mut self, from: Node, to: Node, bytes: u64, sign: i8) {
        if self.links == Links::Count {
            self.model.topology.route(from, to, |link| load(&mut self.per_link[link], bytes, sign));
        }
    }

    /// Adds (`sign` 1) or takes away (-1) one access with the process on `a` and the segment at `home`.
    fn access(&mut self, number: usize, a: Node, home: &Home, sign: i8) {
        let access = self.model.accesses[number];
        let weight = self.costs.weight(access.count) * f64::from(sign);
        let bytes = self.model.weight(access.count) * access.size;
        let process = access.process as usize;
        match access.op {
            Op::Read => {
                let (b, ns) = self.costs.nearest(home, access.size, a);
                self.per_process[process] += weight * ns;
                self.carry(b, a, bytes, sign);
            }
            Op::Write => {
                for &b in home.nodes() {
                    self.per_process[process] += weight * self.costs.access_ns(Op::Write, access.size, a, b);
                    self.carry(a, b, bytes, sign);
                }
            }
        }
    }

    fn message(&mut self, number: usize, a: Node, b: Node, sign: i8) {
        let message = self.model.messages[number];
        let weight = self.costs.weight(message.count) * f64::from(sign);
        self.per_process[message.from as usize] += weight * self.costs.message_ns(message.size, a, b);
        let bytes = self.model.weight(message.count) * message.size;
        self.carry(a, b, bytes, sign);
    }
}

fn load(link: &mut u64, bytes: u64, sign: i8) {
    *link = if sign > 0 { *link + bytes } else { *link - bytes };
}

/// The bill without what has to do with the items: they are in the hand.
struct Lifted<'a> {
    session: &'a Session,
    places: Places<'a>,
    concerned: Concerned,
    bill: Bill<'a>,
    /// Processes that pay something else when the items move, and what they pay without them.
    payers: Vec<(usize, f64)>,
    /// What all others pay together, and the one that pays most.
    others_ns: f64,
    others_most: f64,
    per_link: Vec<u64>,
}

impl<'a> Lifted<'a> {
    fn new(session: &'a Session, items: &[Item], swap: Option<(usize, Node)>, links: Links) -> Lifted<'a> {
        let places = Places::new(session, items, swap);
        let mut bill = Bill {
            costs: Costs::new(&session.model),
            model: &session.model,
            per_process: session.evaluation.per_process.iter().map(ProcessCost::total_ns).collect(),
            per_link: if links == Links::Count { session.evaluation.per_link.clone() } else { Vec::new() },
            links,
        };
        let mut concerned = session.concerned(items);
        if let Some((process, _)) = swap {
            concerned.add(session.concerned(&[Item::Process(process)]));
        }
        session.add(&mut bill, &places, &concerned, -1);
        let payers: BTreeSet<usize> = {
            let accesses = concerned.accesses.iter().map(|&access| session.model.accesses[access].process);
            let messages = concerned.messages.iter().map(|&message| session.model.messages[message].from);
            accesses.chain(messages).map(|process| process as usize).collect()
        };
        let mut pays = vec![false; bill.per_process.len()];
        payers.iter().for_each(|&process| pays[process] = true);
        let others = || bill.per_process.iter().zip(&pays).filter(|(_, pays)| !**pays).map(|(&ns, _)| ns);
        Lifted {
            session,
            others_ns: others().sum(),
            others_most: others().fold(0.0, f64::max),
            payers: payers.iter().map(|&process| (process, bill.per_process[process])).collect(),
            per_link: bill.per_link.clone(),
            places,
            concerned,
            bill,
        }
    }

    /// Total, makespan and busiest link with the items on `node`.
    fn costs_on(&mut self, node: Node) -> (f64, f64, u64) {
        self.places.go(node);
        self.session.add(&mut self.bill, &self.places, &self.concerned, 1);
        let now = self.payers.iter().map(|&(process, _)| self.bill.per_process[process]);
        let total_ns = self.others_ns + now.clone().sum::<f64>();
        let makespan_ns = now.fold(self.others_most, f64::max);
        let max_link_bytes = self.bill.per_link.iter().copied().max().unwrap_or(0);
        self.payers.iter().for_each(|&(process, ns)| self.bill.per_process[process] = ns);
        self.bill.per_link.copy_from_slice(&self.per_link);
        (total_ns, makespan_ns, max_link_bytes)
    }
}

/// Accesses and messages that items have to do with, each once.
#[derive(Default)]
pub(crate) struct Concerned {
    pub(crate) accesses: BTreeSet<usize>,
    pub(crate) messages: BTreeSet<usize>,
}

impl Concerned {
    pub(crate) fn add(&mut self, more: Concerned) {
        self.accesses.extend(more.accesses);
        self.messages.extend(more.messages);
    }
}

impl Session {
    /// Tries `items` on every node, everything else staying where it is shown. A single process may change places with
    /// another that has the last slot.
    pub fn trial(&self, items: &[Item], links: Links) -> Trial {
        let nodes = self.model.nodes();
        let mut trial = Trial {
            total_ns: Vec::with_capacity(nodes),
            makespan_ns: Vec::with_capacity(nodes),
            max_link_bytes: Vec::with_capacity(nodes),
            obstacles: self.obstacles(items),
            swaps: vec![None; nodes],
        };
        let mut lifted = Lifted::new(self, items, None, links);
        for node in 0..nodes {
            let swap = self.swap(items, node, trial.obstacles[node]);
            let (total_ns, makespan_ns, max_link_bytes) = match swap {
                None => lifted.costs_on(node as Node),
                Some(_) => Lifted::new(self, items, swap, links).costs_on(node as Node),
            };
            trial.total_ns.push(total_ns);
            trial.makespan_ns.push(makespan_ns);
            trial.max_link_bytes.push(max_link_bytes);
            if let Some((process, _)) = swap {
                trial.obstacles[node] = Obstacle::None;
                trial.swaps[node] = Some(process);
            }
        }
        trial
    }

    /// The process that can make room on a full node, and where it would go.
    pub(crate) fn swap(&self, items: &[Item], node: usize, obstacle: Obstacle) -> Option<(usize, Node)> {
        let &[Item::Process(index)] = items else { return None };
        if obstacle != Obstacle::ProcessSlots {
            return None;
        }
        let mut there = self.placement.processes.iter().enumerate().filter(|&(_, &at)| at as usize == node);
        let (process, _) = there.next()?;
        let home = self.placement.processes[index];
        (there.next().is_none() && self.model.processes[process].pin.is_none_or(|pin| pin == home))
            .then_some((process, home))
    }

    pub(crate) fn concerned(&self, items: &[Item]) -> Concerned {
        let mut concerned = Concerned::default();
        for &item in items {
            match item {
                Item::Segment { index, .. } => concerned.accesses.extend(self.users.of_segment.of(index)),
                Item::Process(index) => {
                    concerned.accesses.extend(self.users.of_process.of(index));
                    concerned.messages.extend(self.users.sent.of(index).chain(self.users.received.of(index)));
                }
            }
        }
        concerned
    }

    fn add(&self, bill: &mut Bill<'_>, places: &Places<'_>, concerned: &Concerned, sign: i8) {
        for &number in &concerned.accesses {
            let access = self.model.accesses[number];
            bill.access(number, places.process(access.process as usize), places.segment(access.segment as usize), sign);
        }
        for &number in &concerned.messages {
            let message = self.model.messages[number];
            bill.message(number, places.process(message.from as usize), places.process(message.to as usize), sign);
        }
    }

    /// Why the items may not be dropped on each node. What is there already takes no more room.
    pub(crate) fn obstacles(&self, items: &[Item]) -> Vec<Obstacle> {
        let model = &self.model;
        let count = model.nodes();
        let (mut moving, mut leaving) = (vec![false; model.processes.len()], vec![None; model.segments.len()]);
        for &item in items {
            match item {
                Item::Process(index) => moving[index] = true,
                Item::Segment { index, from } => leaving[index] = Some(from),
            }
        }
        let (mut processes, mut segments, mut bytes) = (vec![0u128; count], vec![0u128; count], vec![0u128; count]);
        for (&node, &moves) in self.placement.processes.iter().zip(&moving) {
            processes[node as usize] += u128::from(!moves);
        }
        let homes = self.placement.segments.iter().enumerate();
        for (segment, home) in homes {
            for &node in home.nodes().iter().filter(|&&node| leaving[segment] != Some(node)) {
                segments[node as usize] += 1;
                bytes[node as usize] += u128::from(model.segments[segment].bytes);
            }
        }
        let over = |limits: &Option<Vec<u64>>, node: usize, used: u128| {
            limits.as_ref().is_some_and(|limits| used > u128::from(limits[node]))
        };
        (0..count)
            .map(|node| {
                let (mut more_processes, mut more_segments, mut more_bytes) = (0, 0, 0);
                for &item in items {
                    let pin = match item {
                        Item::Process(index) => {
                            more_processes += 1;
                            model.processes[index].pin
                        }
                        Item::Segment { index, from } => {
                            let other_copy = |&other: &Node| other as usize == node && other != from;
                            if !self.placement.segments[index].nodes().iter().any(other_copy) {
                                more_segments += 1;
                                more_bytes += u128::from(model.segments[index].bytes);
                            }
                            model.segments[index].pin
                        }
                    };
                    if pin.is_some_and(|pin| pin as usize != node) {
                        return Obstacle::Pin;
                    }
                }
                if more_processes > 0 && over(&model.process_slots, node, processes[node] + more_processes) {
                    Obstacle::ProcessSlots
                } else if more_segments > 0 && over(&model.segment_slots, node, segments[node] + more_segments) {
                    Obstacle::SegmentSlots
                } else if more_bytes > 0 && over(&model.memory_bytes, node, bytes[node] + more_bytes) {
                    Obstacle::Memory
                } else {
                    Obstacle::None
                }
            })
            .collect()
    }
}

/// A home after its copy on `from` has gone to `to`.
pub fn moved(home: &Home, from: Node, to: Node) -> Home {
    if let Home::One(_) = home {
        return Home::One(to);
    }
    let others = home.nodes().iter().copied().filter(|&node| node != from);
    Home::of(others.chain([to]).collect::<Vec<_>>())
}
