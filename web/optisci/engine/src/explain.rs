//! Why a placement costs what it costs: what weighs most, and which single moves would help.

use std::collections::BTreeSet;

use optisci::model::{Objective, Op};
use optisci::topology::Node;
use serde::Serialize;

use crate::session::Session;
use crate::trial::{Item, Links, Obstacle};

/// Moves are tried for as many items as this when each trial looks at every link; those on the busiest link come first.
const LINK_TRIALS: usize = 48;

/// Something that costs: accesses of one process to one segment, or messages between two processes.
#[derive(Clone, Debug, Serialize)]
pub struct Contribution {
    /// Index of the process that pays.
    pub process: u32,
    /// Index of the segment, of accesses.
    pub segment: Option<u32>,
    /// Index of the receiver, of messages.
    pub to: Option<u32>,
    /// `read`, `write` or `message`.
    pub op: &'static str,
    /// How often.
    pub count: u64,
    /// Bytes each.
    pub size: u64,
    /// Time altogether; for the busiest link, bytes that it carries of it.
    pub amount: f64,
    /// The two are on one node.
    pub local: bool,
}

/// A single move.
#[derive(Clone, Debug, Serialize)]
pub struct Move {
    /// `process` or `segment`.
    pub kind: &'static str,
    /// Index of the item.
    pub index: usize,
    /// The node that it, or its copy, leaves.
    pub from: Node,
    /// Where to.
    pub to: Node,
    /// The process that goes the other way.
    pub swap: Option<usize>,
    /// What the placement would cost then.
    pub cost: f64,
}

/// What weighs most and what would help.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Heaviest first.
    pub contributions: Vec<Contribution>,
    /// Best first; only moves that help and that limits and pins allow.
    pub moves: Vec<Move>,
}

impl Session {
    /// The `top` heaviest contributions to an objective, and the `top` best single moves.
    pub fn explain(&self, objective: Objective, top: usize) -> Explanation {
        let mut contributions = self.contributions(objective);
        contributions.sort_by(|a, b| b.amount.total_cmp(&a.amount));
        let moves = self.moves(objective, top, &contributions);
        contributions.truncate(top);
        Explanation { contributions, moves }
    }

    /// Everything that adds to the objective: all of it, that of the slowest process, or that on the busiest link.
    fn contributions(&self, objective: Objective) -> Vec<Contribution> {
        let costs = optisci::Costs::new(&self.model);
        let slowest = most(self.evaluation.per_process.iter().map(optisci::cost::ProcessCost::total_ns));
        let busiest = most(self.evaluation.per_link.iter().map(|&bytes| bytes as f64));
        let carried = |from: Node, to: Node, bytes: u64| {
            let mut carried = 0;
            self.model.topology.route(from, to, |link| carried += if Some(link) == busiest { bytes } else { 0 });
            carried as f64
        };
        let mut found = Vec::new();
        for access in &self.model.accesses {
            let a = self.placement.processes[access.process as usize];
            let home = &self.placement.segments[access.segment as usize];
            let bytes = self.model.weight(access.count) * access.size;
            let nearest = [costs.nearest_node(home, access.size, a)];
            let targets = if access.op == Op::Read { &nearest[..] } else { home.nodes() };
            let amount = targets
                .iter()
                .map(|&b| match (objective, access.op) {
                    (Objective::MaxLink, Op::Read) => carried(b, a, bytes),
                    (Objective::MaxLink, Op::Write) => carried(a, b, bytes),
                    _ => costs.weight(access.count) * costs.access_ns(access.op, access.size, a, b),
                })
                .sum();
            found.push(Contribution {
                process: access.process,
                segment: Some(access.segment),
                to: None,
                op: if access.op == Op::Read { "read" } else { "write" },
                count: access.count,
                size: access.size,
                amount,
                local: home.nodes() == [a],
            });
        }
        for message in &self.model.messages {
            let (from, to) = (message.from as usize, message.to as usize);
            let (a, b) = (self.placement.processes[from], self.placement.processes[to]);
            let amount = match objective {
                Objective::MaxLink => carried(a, b, self.model.weight(message.count) * message.size),
                _ => costs.weight(message.count) * costs.message_ns(message.size, a, b),
            };
            found.push(Contribution {
                process: message.from,
                segment: None,
                to: Some(message.to),
                op: "message",
                count: message.count,
                size: message.size,
                amount,
                local: a == b,
            });
        }
        if objective == Objective::Makespan {
            found.retain(|contribution| Some(contribution.process as usize) == slowest);
        }
        found.retain(|contribution| contribution.amount > 0.0);
        found
    }

    fn moves(&self, objective: Objective, top: usize, heaviest: &[Contribution]) -> Vec<Move> {
        let now = self.evaluation.cost(objective);
        let links = if objective == Objective::MaxLink { Links::Count } else { Links::Ignore };
        let mut moves: Vec<Move> = self
            .candidates(objective, heaviest)
            .into_iter()
            .filter_map(|item| {
                let trial = self.trial(&[item], links);
                let cost = |node: usize| match objective {
                    Objective::Sum => trial.total_ns[node],
                    Objective::Makespan => trial.makespan_ns[node],
                    Objective::MaxLink => trial.max_link_bytes[node] as f64,
                };
                let allowed = (0..self.model.nodes()).filter(|&node| trial.obstacles[node] == Obstacle::None);
                let best = allowed.min_by(|&a, &b| cost(a).total_cmp(&cost(b)))?;
                let (kind, index, from) = match item {
                    Item::Process(index) => ("process", index, self.placement.processes[index]),
                    Item::Segment { index, from } => ("segment", index, from),
                };
                // What differs by rounding only is no help.
                (cost(best) < now * (1.0 - 1e-9)).then(|| Move {
                    kind,
                    index,
                    from,
                    to: best as Node,
                    swap: trial.swaps[best],
                    cost: cost(best),
                })
            })
            .collect();
        moves.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(a.index.cmp(&b.index)));
        // Two processes that change places are one move, not two.
        let mut pairs = BTreeSet::new();
        moves.retain(|found| {
            found.swap.is_none_or(|other| pairs.insert((found.index.min(other), found.index.max(other))))
        });
        moves.truncate(top);
        moves
    }

    /// Items worth trying: all of them for the sum; else those that have to do with what weighs most.
    fn candidates(&self, objective: Objective, heaviest: &[Contribution]) -> Vec<Item> {
        let homes = self.placement.segments.iter().enumerate();
        let copies =
            homes.flat_map(|(index, home)| home.nodes().iter().map(move |&from| Item::Segment { index, from }));
        let small = self.model.nodes() * (self.model.accesses.len() + self.model.messages.len()) < 300_000;
        if objective != Objective::MaxLink || small {
            return (0..self.model.processes.len()).map(Item::Process).chain(copies).collect();
        }
        let mut found: Vec<Item> = Vec::new();
        for contribution in heaviest {
            let processes = [Some(contribution.process), contribution.to];
            let segment = contribution.segment.into_iter().flat_map(|index| {
                let index = index as usize;
                self.placement.segments[index].nodes().iter().map(move |&from| Item::Segment { index, from })
            });
            for item in processes.into_iter().flatten().map(|index| Item::Process(index as usize)).chain(segment) {
                if !found.contains(&item) {
                    found.push(item);
                }
            }
            if found.len() >= LINK_TRIALS {
                break;
            }
        }
        found
    }
}

/// Index of the largest; the first of equal ones.
fn most(values: impl Iterator<Item = f64>) -> Option<usize> {
    let best = values.enumerate().fold(None, |best: Option<(usize, f64)>, (index, value)| match best {
        Some((_, most)) if most >= value => best,
        _ => Some((index, value)),
    });
    best.map(|(index, _)| index)
}
