//! Processes on nodes so that every message goes the shortest way there is: a perfect mapping, where one exists.
//!
//! No message between processes on different nodes can cost less than the cheapest pair of nodes. If the processes can
//! be laid onto the machine so that partners are always such a pair, that is the optimum, and the bound proves it:
//! stencils on the torus that they were made for, however the processes are numbered. This is subgraph isomorphism,
//! solved by backtracking in an order that takes the process with the most placed partners next, so that a wrong turn
//! shows soon. Applications have a few messages more than a perfect stencil; they are recognised by what most messages
//! say. Source: L. Cordella et al., "A (sub)graph isomorphism algorithm for matching large graphs" (VF2), 2004.

mod backbone;

use std::collections::HashMap;

use super::instance::{Instance, Rows};
use super::random::Random;

/// Steps for each process before a new start.
const STEPS_PER_PROCESS: usize = 40;

/// New starts.
const STARTS: usize = 12;

/// New starts without the edges that were in the way before.
const RECOGNITIONS: usize = 40;

struct Search<'a> {
    partners: &'a Rows,
    neighbours: &'a Rows,
    node: Vec<Option<u32>>,
    taken: Vec<bool>,
    open: Vec<u32>,
    fixed: usize,
    steps: usize,
    /// How often a pair of processes was all that was in the way.
    blame: HashMap<(u32, u32), u32>,
}

/// A node for each process with every message on the cheapest way, if one is found.
pub fn search(instance: &Instance<'_>, random: &mut Random, go_on: &mut dyn FnMut() -> bool) -> Option<Vec<u32>> {
    let neighbours = neighbours(instance, go_on)?;
    let mut edges: Vec<(u32, u32)> = instance.posts.iter().flat_map(|p| [(p.from, p.to), (p.to, p.from)]).collect();
    edges.sort_unstable();
    edges.dedup();
    let partners = Rows::collect(instance.processes(), edges.iter().copied());
    if most(&partners, instance.processes()) > most(&neighbours, instance.nodes) {
        return None;
    }
    (0..STARTS).find_map(|_| {
        let mut search = Search::new(instance, &partners, &neighbours);
        if go_on() { search.run(random) } else { None }
    })
}

/// A node for each process so that the messages that make up its [`backbone`] go the cheapest way, if one is found.
/// Where an edge of the backbone keeps being in the way of others it is left out.
pub fn recognise(instance: &Instance<'_>, random: &mut Random, go_on: &mut dyn FnMut() -> bool) -> Option<Vec<u32>> {
    let neighbours = neighbours(instance, go_on)?;
    let most = most(&neighbours, instance.nodes);
    for typical in [false, true] {
        let mut edges = backbone::edges(instance, most, typical)?;
        for _ in 0..RECOGNITIONS {
            let partners = Rows::collect(instance.processes(), edges.iter().copied());
            let mut search = Search::new(instance, &partners, &neighbours);
            if !go_on() {
                return None;
            }
            if let Some(nodes) = search.run(random) {
                return Some(nodes);
            }
            let blamed = search.blame.into_iter().max_by_key(|&((x, y), count)| (count, std::cmp::Reverse((x, y))));
            if let Some(((x, y), _)) = blamed {
                edges.retain(|&edge| edge != (x, y) && edge != (y, x));
            }
        }
    }
    None
}

fn most(rows: &Rows, count: usize) -> usize {
    (0..count).map(|row| rows.row(row).len()).max().unwrap_or(0)
}

/// For each node the nodes that are as near to it as two nodes can be; `None` where mapping onto neighbours is not the
/// point.
fn neighbours(instance: &Instance<'_>, go_on: &mut dyn FnMut() -> bool) -> Option<Rows> {
    if instance.posts.is_empty() || !instance.uses.is_empty() || instance.process_slots.iter().any(|&slots| slots > 1) {
        return None;
    }
    let table = instance.posts[0].first.0;
    if instance.posts.iter().any(|post| post.first.0 != table || post.second.1 != 0.0) {
        return None;
    }
    let table = &instance.tables[table as usize];
    let nodes = instance.nodes as u32;
    let open: Vec<u32> = (0..nodes).filter(|&node| instance.process_slots[node as usize] > 0).collect();
    let mut least = f64::INFINITY;
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for &a in &open {
        if a % 256 == 0 && !go_on() {
            return None;
        }
        for &b in open.iter().filter(|&&b| b != a) {
            let cost = table.at(a as usize, b as usize);
            if cost < least {
                least = cost;
                pairs.clear();
            }
            if cost == least {
                pairs.push((a, b));
            }
        }
        if pairs.len() > 64 * open.len() {
            return None;
        }
    }
    // Messages both ways need a pair of nodes that is near both ways.
    let one_way: std::collections::HashSet<(u32, u32)> = pairs.iter().copied().collect();
    let directed = pairs.iter().any(|&(a, b)| !one_way.contains(&(b, a)));
    (!directed).then(|| Rows::collect(nodes as usize, pairs.iter().copied()))
}

impl<'a> Search<'a> {
    fn new(instance: &Instance<'_>, partners: &'a Rows, neighbours: &'a Rows) -> Search<'a> {
        let mut search = Search {
            partners,
            neighbours,
            node: vec![None; instance.processes()],
            taken: instance.process_slots.iter().map(|&slots| slots == 0).collect(),
            open: (0..instance.nodes as u32).filter(|&node| instance.process_slots[node as usize] > 0).collect(),
            fixed: 0,
            steps: 0,
            blame: HashMap::new(),
        };
        for process in 0..instance.processes() {
            if let Some(pin) = instance.process_pin(process) {
                search.node[process] = Some(pin as u32);
                search.taken[pin] = true;
                search.fixed += 1;
            }
        }
        search
    }

    fn run(&mut self, random: &mut Random) -> Option<Vec<u32>> {
        let processes = self.node.len();
        let order = self.order(random);
        let most_steps = STEPS_PER_PROCESS * processes + 10_000;
        // Candidates left at each depth.
        let mut stack: Vec<Vec<u32>> = Vec::with_capacity(order.len());
        let first = |search: &mut Self, depth: usize, random: &mut Random| {
            let mut candidates = search.candidates(order[depth] as usize);
            random.shuffle(&mut candidates);
            candidates
        };
        if order.is_empty() {
            return self.node.iter().copied().collect();
        }
        stack.push(first(self, 0, random));
        while let Some(candidates) = stack.last_mut() {
            self.steps += 1;
            if self.steps > most_steps {
                return None;
            }
            let next = candidates.pop();
            let depth = stack.len() - 1;
            let process = order[depth] as usize;
            if let Some(node) = self.node[process].take() {
                self.taken[node as usize] = false;
            }
            let Some(node) = next else {
                stack.pop();
                continue;
            };
            self.node[process] = Some(node);
            self.taken[node as usize] = true;
            if !self.partners_have_room(process) {
                continue;
            }
            if stack.len() == order.len() {
                return self.node.iter().copied().collect();
            }
            let candidates = first(self, depth + 1, random);
            stack.push(candidates);
        }
        None
    }

    /// Each time the process with the most partners before it; of equal ones the one whose partners came first.
    fn order(&self, random: &mut Random) -> Vec<u32> {
        let processes = self.node.len();
        let mut order: Vec<u32> = Vec::with_capacity(processes);
        let mut before = vec![0usize; processes];
        let mut done: Vec<bool> = self.node.iter().map(Option::is_some).collect();
        let most = (0..processes).map(|process| self.partners.row(process).len()).max().unwrap_or(0);
        let mut queues: Vec<std::collections::VecDeque<u32>> = vec![Default::default(); most + 1];
        for process in (0..processes).filter(|&process| done[process]) {
            for &partner in self.partners.row(process) {
                before[partner as usize] += 1;
                queues[before[partner as usize]].push_back(partner);
            }
        }
        let mut all: Vec<u32> = (0..processes as u32).collect();
        random.shuffle(&mut all);
        let mut rest = all.into_iter();
        while order.len() + self.fixed < processes {
            let queued = (1..=most).rev().find_map(|count| {
                loop {
                    let process = queues[count].pop_front()?;
                    if !done[process as usize] && before[process as usize] == count {
                        return Some(process);
                    }
                }
            });
            let Some(process) = queued.or_else(|| rest.find(|&process| !done[process as usize])) else { break };
            done[process as usize] = true;
            order.push(process);
            for &partner in self.partners.row(process as usize) {
                if !done[partner as usize] {
                    before[partner as usize] += 1;
                    queues[before[partner as usize]].push_back(partner);
                }
            }
        }
        order
    }

    fn candidates(&mut self, process: usize) -> Vec<u32> {
        let partners = self.partners.row(process);
        let placed: Vec<(u32, u32)> =
            partners.iter().filter_map(|&partner| Some((partner, self.node[partner as usize]?))).collect();
        let free = |node: &&u32| !self.taken[**node as usize];
        let Some((&(_, at), rest)) = placed.split_first() else {
            let enough = |node: &&u32| self.neighbours.row(**node as usize).len() >= partners.len();
            return self.open.iter().filter(free).filter(enough).copied().collect();
        };
        let near = |node: u32, other: u32| self.neighbours.row(other as usize).contains(&node);
        let all = |node: &&u32| rest.iter().all(|&(_, other)| near(**node, other));
        let candidates: Vec<u32> = self.neighbours.row(at as usize).iter().filter(free).filter(all).copied().collect();
        if candidates.is_empty() && placed.len() > 2 {
            // Who is in the way when all others agree?
            for (without, &(partner, _)) in placed.iter().enumerate() {
                let others = || placed.iter().enumerate().filter(|(number, _)| *number != without);
                let agreed = |node: &u32| others().all(|(_, &(_, other))| near(*node, other));
                let from = if without == 0 { rest[0].1 } else { at };
                if self.neighbours.row(from as usize).iter().filter(free).any(agreed) {
                    let (x, y) = (partner.min(process as u32), partner.max(process as u32));
                    *self.blame.entry((x, y)).or_insert(0) += 1;
                }
            }
        }
        candidates
    }

    /// Whether those who have a node still have enough free neighbours for their partners without one.
    fn partners_have_room(&mut self, process: usize) -> bool {
        let crowded = |search: &Self, process: u32| {
            let Some(node) = search.node[process as usize] else { return false };
            let wanted = search.partners.row(process as usize).iter().filter(|&&p| search.node[p as usize].is_none());
            let free = search.neighbours.row(node as usize).iter().filter(|&&n| !search.taken[n as usize]).count();
            free < wanted.count()
        };
        let partners = self.partners.row(process);
        let Some(crowded) = [process as u32].iter().chain(partners).copied().find(|&other| crowded(self, other)) else {
            return true;
        };
        for &waiting in self.partners.row(crowded as usize) {
            if self.node[waiting as usize].is_none() {
                *self.blame.entry((crowded.min(waiting), crowded.max(waiting))).or_insert(0) += 1;
            }
        }
        false
    }
}
