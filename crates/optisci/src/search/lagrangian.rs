//! Many segments, nodes with little room, processes fixed: prices on slots and bytes, and repair.
//!
//! With a price on each slot and byte every segment chooses by itself; what that costs, less what the limits are worth
//! at those prices, bounds every placement that obeys them. Prices follow the subgradient: dearer where too much is.
//! From each good set of prices a placement is made that obeys the limits, by moving what loses least per byte out of
//! nodes that are too full, then by single moves and exchanges. Sources: M. Fisher, R. Jaikumar, L. Van Wassenhove, "A
//! multiplier adjustment method for the generalized assignment problem", 1986; M. Held, P. Wolfe, H. Crowder 1974
//! (steps); M. Yagiura, T. Ibaraki, F. Glover, "An ejection chain approach for the generalized assignment problem",
//! 2004 (shifts and swaps).

use super::instance::Instance;
use super::random::Random;
use crate::model::UNLIMITED;
use crate::sum::Sum;

/// Segments with one home each, and what it costs anywhere.
pub struct Capacitated {
    nodes: usize,
    /// What each segment costs on each node; infinite where it may not be.
    pub cost: Vec<f64>,
    bytes: Vec<f64>,
    slots: Vec<f64>,
    memory: Vec<f64>,
}

/// Where segments are, and what room there is left.
#[derive(Clone)]
struct Assigned {
    at: Vec<u32>,
    slots: Vec<f64>,
    memory: Vec<f64>,
    cost: f64,
}

/// Prices of limits.
#[derive(Clone)]
pub struct Prices {
    /// Of a slot on each node.
    pub slot: Vec<f64>,
    /// Of a byte on each node.
    pub byte: Vec<f64>,
}

impl Capacitated {
    /// The segments of an instance with processes on these nodes, each in one copy.
    pub fn new(instance: &Instance<'_>, node: &[u32]) -> Capacitated {
        let (nodes, segments) = (instance.nodes, instance.segments());
        let mut cost = vec![0.0; segments * nodes];
        for (segment, row) in cost.chunks_exact_mut(nodes.max(1)).enumerate() {
            for entry in instance.uses_of(segment) {
                instance.add_uses(entry, node[entry.process as usize] as usize, row);
            }
            let bytes = instance.model.segments[segment].bytes;
            for (at, cost) in row.iter_mut().enumerate() {
                let pinned = instance.segment_pin(segment).is_some_and(|pin| pin != at);
                if pinned || instance.memory[at] < bytes || instance.segment_slots[at] == 0 {
                    *cost = f64::INFINITY;
                }
            }
        }
        let limit = |limits: &[u64]| -> Vec<f64> {
            limits.iter().map(|&limit| if limit == UNLIMITED { f64::INFINITY } else { limit as f64 }).collect()
        };
        Capacitated {
            nodes,
            cost,
            bytes: instance.model.segments.iter().map(|segment| segment.bytes as f64).collect(),
            slots: limit(&instance.segment_slots),
            memory: limit(&instance.memory),
        }
    }

    fn segments(&self) -> usize {
        self.bytes.len()
    }

    fn row(&self, segment: usize) -> &[f64] {
        &self.cost[segment * self.nodes..][..self.nodes]
    }

    /// Each segment where it is cheapest at these prices. Gives the bound, rounded down.
    fn relax(&self, prices: &Prices, at: &mut [u32], line: &mut [f64]) -> f64 {
        let mut sum = Sum::default();
        let plain = prices.slot.iter().all(|&price| price == 0.0);
        for (segment, at) in at.iter_mut().enumerate() {
            let bytes = self.bytes[segment];
            let row = self.row(segment);
            let mut least = f64::INFINITY;
            for (out, (cost, byte)) in line.iter_mut().zip(row.iter().zip(&prices.byte)) {
                *out = cost + byte * bytes;
            }
            if !plain {
                line.iter_mut().zip(&prices.slot).for_each(|(out, slot)| *out += slot);
            }
            for &cost in line.iter() {
                least = if cost < least { cost } else { least };
            }
            *at = line.iter().position(|&cost| cost == least).unwrap_or(0) as u32;
            sum.add(least);
        }
        let mut worth = Sum::default();
        for node in 0..self.nodes {
            for (limit, price) in [(self.slots[node], prices.slot[node]), (self.memory[node], prices.byte[node])] {
                if price > 0.0 {
                    worth.add(limit * price);
                }
            }
        }
        let (sum, worth) = (sum.value(), worth.value());
        sum - worth - 1e-12 * (sum.abs() + worth.abs())
    }

    fn used(&self, at: &[u32]) -> (Vec<f64>, Vec<f64>) {
        let (mut slots, mut memory) = (self.slots.clone(), self.memory.clone());
        for (&at, &bytes) in at.iter().zip(&self.bytes) {
            slots[at as usize] -= 1.0;
            memory[at as usize] -= bytes;
        }
        (slots, memory)
    }

    /// Better and better bounds and placements until the gap is below `enough`, `steps` are done or `go_on` says no.
    /// `offer` is told each better placement.
    pub fn solve(
        &self,
        random: &mut Random,
        known: f64,
        enough: f64,
        steps: usize,
        offer: &mut dyn FnMut(f64, &[u32]),
        go_on: &mut dyn FnMut(f64) -> bool,
    ) -> (f64, Prices) {
        let (nodes, segments) = (self.nodes, self.segments());
        let mut prices = Prices { slot: vec![0.0; nodes], byte: vec![0.0; nodes] };
        let mut best_prices = prices.clone();
        let mut best_bound = f64::NEG_INFINITY;
        let mut best = known;
        let (mut at, mut line) = (vec![0u32; segments], vec![0.0; nodes]);
        let mut direction = vec![0.0; 2 * nodes];
        let mut scale = 1.0;
        let mut since = 0;
        let mut last_repair = 0;
        for step in 0..steps {
            if !go_on(best_bound) {
                break;
            }
            let bound = self.relax(&prices, &mut at, &mut line);
            let (slots, memory) = self.used(&at);
            if bound > best_bound {
                if bound > best_bound + 1e-7 * bound.abs() {
                    since = 0;
                }
                best_bound = bound;
                best_prices = prices.clone();
            }
            since += 1;
            if since >= 12 {
                scale *= 0.7;
                since = 0;
                prices = best_prices.clone();
                direction.fill(0.0);
            }
            let due = step - last_repair >= if scale > 0.2 { 25 } else { 8 };
            if (due && bound > best_bound - 0.02 * (best.min(1e300) - best_bound).abs())
                || step == 0
                || step + 1 == steps
            {
                last_repair = step;
                if let Some(mut assigned) = self.repair(&at, &prices) {
                    self.improve(&mut assigned, &prices, random);
                    if assigned.cost < best {
                        best = assigned.cost;
                        offer(best, &assigned.at);
                    }
                }
            }
            if best - best_bound <= enough * best || scale < 1e-4 {
                break;
            }
            // In units of what each limit is, so that slots and bytes weigh alike.
            let mut norm = 0.0;
            for node in 0..nodes {
                for (index, left, limit) in
                    [(node, slots[node], self.slots[node]), (nodes + node, memory[node], self.memory[node])]
                {
                    let over = if limit.is_finite() { -left / limit.max(1.0) } else { 0.0 };
                    direction[index] = 0.4 * direction[index] + over;
                    norm += direction[index] * direction[index];
                }
            }
            if norm == 0.0 {
                break;
            }
            let target = if best.is_finite() { best.max(bound) } else { bound.abs() * 1.05 };
            let length = scale * (target - bound + 1e-4 * bound.abs().max(1e-9)) / norm;
            for node in 0..nodes {
                prices.slot[node] = (prices.slot[node] + length * direction[node] / self.slots[node].max(1.0)).max(0.0);
                prices.byte[node] =
                    (prices.byte[node] + length * direction[nodes + node] / self.memory[node].max(1.0)).max(0.0);
            }
        }
        (best_bound, best_prices)
    }

    /// Moves segments out of nodes that are too full, those first that lose least for what they use.
    fn repair(&self, at: &[u32], prices: &Prices) -> Option<Assigned> {
        let (mut slots, mut memory) = self.used(at);
        let mut at = at.to_vec();
        let mut on: Vec<Vec<u32>> = vec![Vec::new(); self.nodes];
        at.iter().zip(0..).for_each(|(&at, segment)| on[at as usize].push(segment));
        let mut full: Vec<usize> = (0..self.nodes).filter(|&node| slots[node] < 0.0 || memory[node] < 0.0).collect();
        full.sort_by(|&x, &y| memory[x].total_cmp(&memory[y]).then(x.cmp(&y)));
        for node in full {
            let mut losses: Vec<(f64, u32, u32)> = Vec::new();
            for &segment in &on[node] {
                let own = segment as usize;
                let price = |v: usize| self.row(own)[v] + prices.slot[v] + prices.byte[v] * self.bytes[own];
                for v in 0..self.nodes {
                    if v != node && slots[v] >= 1.0 && memory[v] >= self.bytes[own] && price(v).is_finite() {
                        let loss = price(v) - price(node);
                        let weight =
                            if memory[node] < 0.0 { self.bytes[own].min(-memory[node]).max(1e-9) } else { 1.0 };
                        losses.push((loss / weight, segment, v as u32));
                    }
                }
            }
            losses.sort_by(|x, y| x.0.total_cmp(&y.0).then((x.1, x.2).cmp(&(y.1, y.2))));
            for (_, segment, to) in losses {
                if slots[node] >= 0.0 && memory[node] >= 0.0 {
                    break;
                }
                let (own, to) = (segment as usize, to as usize);
                if at[own] as usize != node || slots[to] < 1.0 || memory[to] < self.bytes[own] {
                    continue;
                }
                at[own] = to as u32;
                slots[node] += 1.0;
                memory[node] += self.bytes[own];
                slots[to] -= 1.0;
                memory[to] -= self.bytes[own];
            }
            if slots[node] < 0.0 || memory[node] < 0.0 {
                return None;
            }
        }
        let cost = at.iter().enumerate().map(|(segment, &at)| self.row(segment)[at as usize]).collect::<Sum>().value();
        cost.is_finite().then_some(Assigned { at, slots, memory, cost })
    }

    /// Single moves and exchanges until none helps. Only nodes that are nearly best at these prices are tried.
    fn improve(&self, assigned: &mut Assigned, prices: &Prices, random: &mut Random) {
        let nodes = self.nodes;
        let mut on: Vec<Vec<u32>> = vec![Vec::new(); nodes];
        assigned.at.iter().zip(0..).for_each(|(&at, segment)| on[at as usize].push(segment));
        let mut order: Vec<usize> = (0..self.segments()).collect();
        random.shuffle(&mut order);
        let mut wishes: Vec<(f64, u32)> = Vec::with_capacity(nodes);
        for _ in 0..6 {
            let mut moved = false;
            for &segment in &order {
                let here = assigned.at[segment] as usize;
                let row = self.row(segment);
                let bytes = self.bytes[segment];
                let price = |v: usize| row[v] + prices.slot[v] + prices.byte[v] * bytes;
                wishes.clear();
                wishes.extend(
                    (0..nodes).filter(|&v| v != here && row[v] < row[here]).map(|v| (price(v) - price(here), v as u32)),
                );
                wishes.sort_by(|x, y| x.0.total_cmp(&y.0));
                for &(_, to) in wishes.iter().take(5) {
                    let to = to as usize;
                    let gain = row[here] - row[to];
                    if assigned.slots[to] >= 1.0 && assigned.memory[to] >= bytes {
                        self.carry(assigned, &mut on, segment, to);
                        moved = true;
                        break;
                    }
                    // Who there would lose less than this one gains?
                    let swap = on[to].iter().copied().filter_map(|other| {
                        let (theirs, costs) = (self.bytes[other as usize], self.row(other as usize));
                        let loss = costs[here] - costs[to];
                        let fits = assigned.memory[to] + theirs >= bytes && assigned.memory[here] + bytes >= theirs;
                        (fits && loss < gain * (1.0 - 1e-9)).then_some((loss, other))
                    });
                    if let Some((_, other)) = swap.min_by(|x, y| x.0.total_cmp(&y.0).then(x.1.cmp(&y.1))) {
                        self.carry(assigned, &mut on, segment, to);
                        self.carry(assigned, &mut on, other as usize, here);
                        moved = true;
                        break;
                    }
                    // Or goes on to a third node.
                    let chain = on[to].iter().copied().find_map(|other| {
                        let (theirs, costs) = (self.bytes[other as usize], self.row(other as usize));
                        if assigned.memory[to] + theirs < bytes {
                            return None;
                        }
                        let third = (0..nodes).filter(|&v| v != to && v != here).find(|&v| {
                            assigned.slots[v] >= 1.0
                                && assigned.memory[v] >= theirs
                                && costs[v] - costs[to] < gain * (1.0 - 1e-9)
                        });
                        third.map(|third| (other, third))
                    });
                    if let Some((other, third)) = chain {
                        self.carry(assigned, &mut on, other as usize, third);
                        self.carry(assigned, &mut on, segment, to);
                        moved = true;
                        break;
                    }
                }
            }
            if !moved {
                break;
            }
        }
        assigned.cost = assigned
            .at
            .iter()
            .enumerate()
            .map(|(segment, &at)| self.row(segment)[at as usize])
            .collect::<Sum>()
            .value();
    }

    fn carry(&self, assigned: &mut Assigned, on: &mut [Vec<u32>], segment: usize, to: usize) {
        let from = assigned.at[segment] as usize;
        on[from].retain(|&other| other as usize != segment);
        on[to].push(segment as u32);
        assigned.at[segment] = to as u32;
        assigned.slots[from] += 1.0;
        assigned.memory[from] += self.bytes[segment];
        assigned.slots[to] -= 1.0;
        assigned.memory[to] -= self.bytes[segment];
    }

    /// Nodes of each segment that may be in a placement cheaper than `best`, by reduced cost.
    pub fn survivors(&self, prices: &Prices, bound: f64, best: f64) -> Vec<Vec<u32>> {
        let of = |segment: usize| {
            let price = |v: usize| self.row(segment)[v] + prices.slot[v] + prices.byte[v] * self.bytes[segment];
            let least = (0..self.nodes).map(price).fold(f64::INFINITY, f64::min);
            let survives = |v: &usize| bound + (price(*v) - least) * (1.0 - 1e-9) < best;
            (0..self.nodes).filter(survives).map(|v| v as u32).collect()
        };
        (0..self.segments()).map(of).collect()
    }
}

/// How many segments each node can take, if they all use the same room.
pub fn units(instance: &Instance<'_>) -> Option<Vec<u64>> {
    let mut bytes = instance.model.segments.iter().map(|segment| segment.bytes);
    let first = bytes.next()?;
    let limited_by_bytes = instance.memory.iter().any(|&memory| memory != UNLIMITED);
    if limited_by_bytes && bytes.any(|bytes| bytes != first) {
        return None;
    }
    let of = |(&slots, &memory): (&u64, &u64)| {
        let by_bytes = if memory != UNLIMITED { memory.checked_div(first) } else { None };
        slots.min(by_bytes.unwrap_or(UNLIMITED)).min(instance.segments() as u64)
    };
    Some(instance.segment_slots.iter().zip(&instance.memory).map(of).collect())
}
