//! Where the copies of one segment should be: each costs what writing to it costs, each reader takes the nearest.
//!
//! This is the uncapacitated facility location problem. Dual ascent gives a bound, its tight facilities a solution; where
//! the two differ, the search branches on a copy that a reader pays for twice. Sources: D. Erlenkotter, "A dual-based
//! procedure for uncapacitated facility location", 1978; O. Bilde and J. Krarup 1977.

/// Finds copies of one segment after another without allocating anew.
#[derive(Clone, Debug, Default)]
pub struct Facility {
    nodes: usize,
    open: Vec<f64>,
    read: Vec<f64>,
    order: Vec<u32>,
    slack: Vec<f64>,
    pays: Vec<f64>,
    level: Vec<usize>,
    best: f64,
    copies: Vec<u32>,
    steps: usize,
}

/// Branches after which a search for copies gives up proving (never seen with a machine of up to 64 nodes).
const MOST_STEPS: usize = 20_000;

impl Facility {
    /// The best nodes for copies, their cost, and a lower bound on it (the cost itself, but for rounding, unless the
    /// search was too long). `open` is what a copy on each node costs, infinite where there may be none; `read` holds a
    /// row per reader: what it pays for reading from each node.
    pub fn solve(&mut self, open: &[f64], read: &[f64]) -> Option<(f64, f64, &[u32])> {
        let nodes = open.len();
        self.nodes = nodes;
        self.open.clear();
        self.open.extend_from_slice(open);
        self.read.clear();
        self.read.extend_from_slice(read);
        self.best = f64::INFINITY;
        self.copies.clear();
        self.steps = 0;
        for node in 0..nodes {
            let alone = open[node] + read.chunks_exact(nodes).map(|row| row[node]).sum::<f64>();
            if alone < self.best {
                self.best = alone;
                self.copies = vec![node as u32];
            }
        }
        if self.best == f64::INFINITY {
            return None;
        }
        let readers = read.len() / nodes;
        if readers < 2 {
            return Some((self.best, self.best, &self.copies));
        }
        self.order.clear();
        for row in read.chunks_exact(nodes) {
            let start = self.order.len();
            self.order.extend(0..nodes as u32);
            self.order[start..].sort_by(|&x, &y| row[x as usize].total_cmp(&row[y as usize]));
        }
        let open = self.explore(0.0);
        let bound = open.min(self.best * (1.0 - 1e-12));
        Some((self.best, bound, &self.copies))
    }

    /// Searches below the present `open` costs; `paid` was paid for copies that are there already (their cost is 0 now).
    /// What it gives is a bound on what was left out.
    fn explore(&mut self, paid: f64) -> f64 {
        self.steps += 1;
        let bound = paid + self.ascend();
        if bound >= self.best * (1.0 - 1e-12) {
            return f64::INFINITY;
        }
        let chosen = self.close_tight();
        let nodes = self.nodes;
        let serve =
            |copies: &[u32], row: &[f64]| copies.iter().map(|&node| row[node as usize]).fold(f64::INFINITY, f64::min);
        let cost = paid
            + chosen.iter().map(|&node| self.open[node as usize]).sum::<f64>()
            + self.read.chunks_exact(nodes).map(|row| serve(&chosen, row)).sum::<f64>();
        if cost < self.best {
            self.best = cost;
            self.copies = chosen.clone();
            self.copies.sort_unstable();
        }
        if bound >= self.best * (1.0 - 1e-12) {
            return f64::INFINITY;
        }
        if self.steps > MOST_STEPS {
            return bound;
        }
        // A copy that some reader pays for in the dual though another serves it.
        let twice = |node: u32| -> usize {
            let rows = self.read.chunks_exact(nodes).zip(&self.pays);
            rows.filter(|(row, pays)| {
                row[node as usize] < **pays && chosen.iter().filter(|&&other| row[other as usize] < **pays).count() > 1
            })
            .count()
        };
        let candidates = (0..nodes as u32)
            .filter(|&node| self.open[node as usize] > 0.0 && self.open[node as usize] < f64::INFINITY);
        let scored = candidates.map(|node| (twice(node), chosen.contains(&node), node));
        let Some((_, _, node)) = scored.max_by_key(|&(twice, chosen, node)| (chosen, twice, u32::MAX - node)) else {
            return f64::INFINITY;
        };
        let cost = self.open[node as usize];
        self.open[node as usize] = 0.0;
        let with = self.explore(paid + cost);
        self.open[node as usize] = f64::INFINITY;
        let without = self.explore(paid);
        self.open[node as usize] = cost;
        with.min(without)
    }

    /// Lets readers pay more and more, in turn, until no copy could be paid for any more.
    fn ascend(&mut self) -> f64 {
        let nodes = self.nodes;
        let readers = self.read.len() / nodes;
        self.slack.clear();
        self.slack.extend_from_slice(&self.open);
        self.pays.clear();
        self.level.clear();
        for reader in 0..readers {
            let order = &self.order[reader * nodes..][..nodes];
            let first = order.iter().position(|&node| self.open[node as usize] < f64::INFINITY);
            let Some(first) = first else { return f64::INFINITY };
            self.level.push(first);
            self.pays.push(self.read[reader * nodes + order[first] as usize]);
        }
        loop {
            let mut moved = false;
            for reader in 0..readers {
                let order = &self.order[reader * nodes..][..nodes];
                let row = &self.read[reader * nodes..][..nodes];
                let mut next = self.level[reader];
                while next < nodes && (row[order[next] as usize] <= self.pays[reader]) {
                    next += 1;
                }
                let reach = &order[..next];
                let room = reach.iter().map(|&node| self.slack[node as usize]).fold(f64::INFINITY, f64::min);
                let up = if next < nodes { row[order[next] as usize] - self.pays[reader] } else { f64::INFINITY };
                let step = room.min(up);
                self.level[reader] = next;
                if step > 0.0 && step < f64::INFINITY {
                    reach.iter().for_each(|&node| self.slack[node as usize] -= step);
                    // Rounding must not leave a debt.
                    reach.iter().for_each(|&node| self.slack[node as usize] = self.slack[node as usize].max(0.0));
                    self.pays[reader] = if step == up { row[order[next] as usize] } else { self.pays[reader] + step };
                    moved = true;
                }
            }
            if !moved {
                return self.pays.iter().sum();
            }
        }
    }

    /// Copies that are paid for, without those that nobody needs.
    fn close_tight(&self) -> Vec<u32> {
        let nodes = self.nodes;
        let scale = self.open.iter().copied().filter(|cost| cost.is_finite()).fold(0.0, f64::max);
        let mut chosen: Vec<u32> =
            (0..nodes as u32).filter(|&node| self.slack[node as usize] <= 1e-12 * scale).collect();
        if chosen.is_empty() {
            let least = (0..nodes as u32).min_by(|&x, &y| self.slack[x as usize].total_cmp(&self.slack[y as usize]));
            chosen.extend(least);
        }
        // Dearest first: is the cost lower without it?
        let mut by_cost = chosen.clone();
        by_cost.sort_by(|&x, &y| self.open[y as usize].total_cmp(&self.open[x as usize]).then(x.cmp(&y)));
        for node in by_cost {
            if chosen.len() == 1 {
                break;
            }
            let more: f64 = self
                .read
                .chunks_exact(nodes)
                .map(|row| {
                    let other = chosen.iter().filter(|&&other| other != node).map(|&other| row[other as usize]);
                    (other.fold(f64::INFINITY, f64::min) - row[node as usize]).max(0.0)
                })
                .sum();
            if more < self.open[node as usize] {
                chosen.retain(|&other| other != node);
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::Facility;
    use crate::search::random::Random;

    #[test]
    fn copies_are_as_good_as_the_best_of_all_subsets() {
        let mut random = Random::new(1);
        for _ in 0..500 {
            let (nodes, readers) = (1 + random.below(7), random.below(6));
            let mut cost = |most: usize| random.below(most) as f64;
            let open: Vec<f64> = (0..nodes).map(|_| cost(60)).collect();
            let read: Vec<f64> = (0..readers * nodes).map(|_| cost(50)).collect();
            let least = (1u32..1 << nodes)
                .map(|set| {
                    let inside = |node: &usize| set >> node & 1 == 1;
                    let reads = read
                        .chunks_exact(nodes)
                        .map(|row| (0..nodes).filter(inside).map(|node| row[node]).fold(f64::INFINITY, f64::min));
                    (0..nodes).filter(inside).map(|node| open[node]).sum::<f64>() + reads.sum::<f64>()
                })
                .fold(f64::INFINITY, f64::min);
            let mut facility = Facility::default();
            let (cost, bound, _) = facility.solve(&open, &read).unwrap();
            assert_eq!(cost, least, "{open:?} {read:?}");
            assert!(bound <= least && bound >= least * (1.0 - 1e-9), "{bound} {least}");
        }
    }
}
