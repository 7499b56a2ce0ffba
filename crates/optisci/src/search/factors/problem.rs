//! What is left to decide: the processes without a node, the nodes with room, and the tables of costs between them.

use super::super::assignment::Assignment;
use super::super::dual_ascent::{FREE, Partner};
use super::super::pairs::Pairs;
use super::factor::{self, Factor};

/// A problem, smaller with each process that gets a node. All costs are whole numbers or infinite.
///
/// What a placement costs is at least `bound`, plus what its processes pay in `own`, plus what the factors say; and
/// none of that is negative.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Node of each process of the instance, or `u32::MAX`.
    pub node: Vec<u32>,
    /// What everything pays.
    pub bound: f64,
    /// Nodes with room.
    pub open: Vec<u32>,
    /// What each process without a node pays on each open node.
    pub own: Vec<f64>,
    room: Vec<u32>,
    processes: Vec<u32>,
    factors: Vec<Factor>,
}

/// Memory that is used again.
#[derive(Default)]
pub struct Scratch {
    assignment: Assignment,
    factor: factor::Scratch,
    share: Vec<f64>,
    parts: Vec<u32>,
}

impl Problem {
    /// The tables of all pairs. `None`: some process has nowhere to go.
    pub fn new(pairs: &Pairs) -> Option<Problem> {
        let (shape, costs) = (&pairs.shape, &pairs.costs);
        let count = costs.node.len();
        let processes: Vec<u32> = (0..count as u32).filter(|&process| costs.node[process as usize] == FREE).collect();
        let open: Vec<u32> = (0..shape.nodes as u32).filter(|&at| costs.room[at as usize] > 0).collect();
        let room: Vec<u32> = open.iter().map(|&at| costs.room[at as usize]).collect();
        let number = |process: u32| processes.binary_search(&process).ok();
        let rows = processes.iter().flat_map(|&process| open.iter().map(move |&at| (process, at)));
        let own = rows.map(|(process, at)| costs.process[process as usize * shape.nodes + at as usize]).collect();
        let mut problem = Problem {
            node: costs.node.clone(),
            bound: costs.bound,
            own,
            factors: Vec::new(),
            room,
            processes: processes.clone(),
            open,
        };
        let mut factors: Vec<Factor> = Vec::new();
        for (segment, own) in costs.segment.chunks_exact(shape.nodes).enumerate() {
            let mut users: Vec<(usize, &[f64])> = Vec::new();
            for &pair in &shape.users[segment] {
                let table = &costs.pair[pair as usize * shape.nodes * shape.nodes..][..shape.nodes * shape.nodes];
                // What pinned processes pay stands with the segment already.
                users.extend(number(shape.pairs[pair as usize].process).map(|user| (user, table)));
            }
            users.sort_by_key(|user| user.0);
            if users.is_empty() {
                problem.bound += own.iter().copied().fold(f64::INFINITY, f64::min);
            } else {
                factors.push(problem.table(own, &users));
            }
        }
        for (pair, table) in shape.pairs.iter().zip(costs.pair.chunks_exact(shape.nodes * shape.nodes)) {
            let Partner::Process(other) = pair.partner else { continue };
            if let (Some(first), Some(second)) = (number(pair.process), number(other)) {
                let pairs =
                    problem.open.iter().flat_map(|&a| problem.open.iter().map(move |&b| (a as usize, b as usize)));
                let entry = |(a, b): (usize, usize)| {
                    if a == b && costs.room[a] < 2 { f64::INFINITY } else { table[a * shape.nodes + b] }
                };
                let costs = pairs.map(entry).collect();
                factors.push(Factor { users: vec![first, second], costs, prices: vec![0.0; 2 * problem.open.len()] });
            }
        }
        factors.sort_by_key(|factor| std::cmp::Reverse(factor.users.len()));
        factors.into_iter().for_each(|factor| problem.add(factor));
        (problem.bound < f64::INFINITY && (processes.is_empty() || !problem.open.is_empty())).then_some(problem)
    }

    /// What the users of a segment pay together, with the segment where that is least.
    fn table(&self, segment: &[f64], users: &[(usize, &[f64])]) -> Factor {
        let width = self.open.len();
        let mut costs = Vec::with_capacity(width.pow(users.len() as u32));
        let mut load = vec![0u32; width];
        self.fill(users, segment, &mut load, &mut costs);
        Factor { users: users.iter().map(|user| user.0).collect(), costs, prices: vec![0.0; users.len() * width] }
    }

    fn fill(&self, users: &[(usize, &[f64])], sums: &[f64], load: &mut [u32], out: &mut Vec<f64>) {
        let Some(((_, table), rest)) = users.split_first() else {
            out.push(sums.iter().copied().fold(f64::INFINITY, |x, y| if y < x { y } else { x }));
            return;
        };
        let nodes = sums.len();
        let mut with = vec![0.0; nodes];
        for (at, &node) in self.open.iter().enumerate() {
            if load[at] >= self.room[at] {
                out.resize(out.len() + self.open.len().pow(rest.len() as u32), f64::INFINITY);
                continue;
            }
            let row = &table[node as usize * nodes..][..nodes];
            with.iter_mut().zip(sums.iter().zip(row)).for_each(|(with, (sum, cost))| *with = sum + cost);
            load[at] += 1;
            self.fill(rest, &with, load, out);
            load[at] -= 1;
        }
    }

    /// Adds a table to one that has all its users, if there is one.
    fn add(&mut self, factor: Factor) {
        let width = self.open.len();
        match factor.users[..] {
            [] => self.bound += factor.costs[0],
            [process] => {
                let own = &mut self.own[process * width..][..width];
                let costs = factor.costs.iter().zip(&factor.prices);
                own.iter_mut().zip(costs).for_each(|(own, (cost, price))| *own += cost + price);
            }
            _ => match self.factors.iter_mut().find(|other| other.contains(&factor)) {
                Some(other) => other.absorb(width, &factor),
                None => self.factors.push(factor),
            },
        }
    }

    /// Whether all processes have nodes.
    pub fn is_complete(&self) -> bool {
        self.processes.is_empty()
    }

    /// Entries of all tables, a measure of work.
    pub fn entries(&self) -> usize {
        self.own.len() + self.factors.iter().map(|factor| factor.costs.len()).sum::<usize>()
    }

    /// Moves costs from tables to processes, and to the bound what every assignment of them to nodes pays. What cannot
    /// be part of anything cheaper than `enough` is forbidden. False: nothing is left.
    pub fn raise(&mut self, enough: f64, backwards: bool, scratch: &mut Scratch) -> bool {
        let width = self.open.len();
        let mut raise = |factor: &mut Factor| factor.raise(width, &mut self.own, backwards, &mut scratch.factor);
        if backwards {
            self.factors.iter_mut().rev().for_each(&mut raise);
        } else {
            self.factors.iter_mut().for_each(&mut raise);
        }
        let assignment = &mut scratch.assignment;
        let Some(value) = assignment.solve(&self.own, self.processes.len(), &self.room) else { return false };
        self.bound += value;
        let slack = enough - self.bound;
        for (own, row) in self.own.chunks_exact_mut(width.max(1)).zip(&assignment.row_price) {
            for (own, column) in own.iter_mut().zip(&assignment.column_price) {
                *own -= row + column;
                *own = if *own < slack { *own } else { f64::INFINITY };
            }
        }
        true
    }

    /// Gives back to the tables, in equal parts, what processes pay: the next round may find more in it.
    pub fn spread(&mut self, scratch: &mut Scratch) {
        let (width, Scratch { share, parts, .. }) = (self.open.len(), scratch);
        parts.clear();
        parts.resize(self.processes.len(), 0);
        self.factors.iter().flat_map(|factor| &factor.users).for_each(|&user| parts[user] += 1);
        share.clear();
        for (own, &parts) in self.own.chunks_exact_mut(width).zip(parts.iter()) {
            for own in own {
                let part = if parts > 0 { (*own / f64::from(parts)).floor() } else { 0.0 };
                share.push(part);
                if part < f64::INFINITY {
                    *own -= part * f64::from(parts);
                }
            }
        }
        for factor in &mut self.factors {
            for (prices, &user) in factor.prices.chunks_exact_mut(width).zip(&factor.users) {
                prices.iter_mut().zip(&share[user * width..]).for_each(|(price, share)| *price += share);
            }
        }
    }

    /// What is left once a process has an open node, with a bound that is known already.
    pub fn with(&self, process: usize, at: usize, bound: f64) -> Problem {
        let width = self.open.len();
        let gone = self.room[at] == 1;
        let stays = |node: &usize| !(gone && *node == at);
        let mut node = self.node.clone();
        node[self.processes[process] as usize] = self.open[at];
        let mut room = self.room.clone();
        room[at] -= 1;
        let rows = self.own.chunks_exact(width).enumerate().filter(|(row, _)| *row != process);
        let mut problem = Problem {
            node,
            bound,
            open: (0..width).filter(stays).map(|node| self.open[node]).collect(),
            own: rows.flat_map(|(_, own)| (0..width).filter(stays).map(|node| own[node])).collect(),
            room: (0..width).filter(stays).map(|node| room[node]).collect(),
            processes: self.processes.iter().copied().filter(|&other| other != self.processes[process]).collect(),
            factors: Vec::with_capacity(self.factors.len()),
        };
        let (touched, others): (Vec<_>, Vec<_>) =
            self.factors.iter().partition(|factor| factor.users.contains(&process));
        // The larger ones first: they take in the others.
        problem.factors.extend(others.iter().map(|factor| factor.with(width, process, at, gone)));
        touched.iter().for_each(|factor| problem.add(factor.with(width, process, at, gone)));
        problem
    }
}
