//! Where the copies of one segment should be: each costs what writing to it costs, each reader takes the nearest.
//!
//! This is the uncapacitated facility location problem. Dual ascent gives a bound, its tight facilities a solution;
//! where the two differ, the search branches on a copy that a reader pays for twice. Sources: D. Erlenkotter, "A
//! dual-based procedure for uncapacitated facility location", 1978; O. Bilde and J. Krarup 1977.

/// Finds copies of one segment after another without allocating anew.
#[derive(Clone, Debug, Default)]
pub struct Facility {
    nodes: usize,
    open: Vec<f64>,
    read: Vec<f64>,
    /// What all readers pay together for one copy, on each node.
    alone: Vec<f64>,
    /// Where each reader reads for least.
    nearest: Vec<u32>,
    order: Vec<u32>,
    slack: Vec<f64>,
    pays: Vec<f64>,
    level: Vec<usize>,
    best: f64,
    copies: Vec<u32>,
    steps: usize,
    /// Costs looked at since it was asked whether to go on.
    work: usize,
    stopped: bool,
}

/// Branches after which a search for copies gives up proving (never seen with a machine of up to 64 nodes).
const MOST_STEPS: usize = 20_000;

/// Branches one below the other, whose calls a thread's stack must bear.
const MOST_DEPTH: usize = 500;

/// Costs to look at before it is asked whether to go on: a millisecond or so.
const WORK_PER_QUESTION: usize = 1 << 20;

impl Facility {
    /// The best nodes for copies, their cost, and a lower bound on it (the cost itself, but for rounding, unless the
    /// search was too long). `open` is what a copy on each node costs, infinite where there may be none; `read` holds a
    /// row per reader: what it pays for reading from each node. Once `go_on` says no, this and all later segments get
    /// what a glance gives.
    pub fn solve(&mut self, open: &[f64], read: &[f64], go_on: &dyn Fn() -> bool) -> Option<(f64, f64, &[u32])> {
        let nodes = open.len();
        self.nodes = nodes;
        self.steps = 0;
        self.alone.clear();
        self.alone.resize(nodes, 0.0);
        // Wherever copies are, a reader pays for the nearest node at least, and there is one copy.
        let mut least = 0.0;
        self.nearest.clear();
        for row in read.chunks_exact(nodes) {
            self.alone.iter_mut().zip(row).for_each(|(sum, cost)| *sum += cost);
            let (mut cheapest, mut nearest) = (f64::INFINITY, None);
            for ((node, &read), open) in (0..).zip(row).zip(open) {
                if read < cheapest && open.is_finite() {
                    (cheapest, nearest) = (read, Some(node));
                }
            }
            least += cheapest;
            self.nearest.extend(nearest);
        }
        self.best = f64::INFINITY;
        self.copies.clear();
        for (node, (open, reads)) in (0..).zip(open.iter().zip(&self.alone)) {
            if open + reads < self.best {
                self.best = open + reads;
                self.copies = vec![node];
            }
        }
        if self.best == f64::INFINITY {
            return None;
        }
        let readers = read.len() / nodes;
        if readers < 2 {
            return Some((self.best, self.best, &self.copies));
        }
        self.nearest.sort_unstable();
        self.nearest.dedup();
        let cost = least + self.nearest.iter().map(|&node| open[node as usize]).sum::<f64>();
        if cost < self.best {
            self.best = cost;
            self.copies.clone_from(&self.nearest);
        }
        self.order.clear();
        for row in read.chunks_exact(nodes) {
            if self.stops_after(nodes * nodes.ilog2() as usize, go_on) {
                let one_copy = open.iter().copied().fold(f64::INFINITY, f64::min);
                let bound = (least + one_copy).min(self.best);
                return Some((self.best, bound, &self.copies));
            }
            let start = self.order.len();
            self.order.extend(0..nodes as u32);
            self.order[start..].sort_by(|&x, &y| row[x as usize].total_cmp(&row[y as usize]));
        }
        self.open.clear();
        self.open.extend_from_slice(open);
        self.read.clear();
        self.read.extend_from_slice(read);
        let open = self.explore(0.0, 0, go_on);
        let bound = open.min(self.best * (1.0 - 1e-12));
        Some((self.best, bound, &self.copies))
    }

    /// Searches below the present `open` costs; `paid` was paid for copies that are there already (their cost is 0
    /// now). What it gives is a bound on what was left out.
    fn explore(&mut self, paid: f64, depth: usize, go_on: &dyn Fn() -> bool) -> f64 {
        self.steps += 1;
        let bound = paid + self.ascend(go_on);
        if bound >= self.best * (1.0 - 1e-12) {
            return f64::INFINITY;
        }
        let chosen = self.close_tight(go_on);
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
        let scoring = self.pays.len() * (nodes + chosen.len());
        if self.steps > MOST_STEPS || depth == MOST_DEPTH || self.stops_after(scoring, go_on) {
            return bound;
        }
        // Readers that pay for a copy in the dual though another serves them.
        let mut twice = vec![0; nodes];
        for (row, &pays) in self.read.chunks_exact(nodes).zip(&self.pays) {
            if chosen.iter().filter(|&&node| row[node as usize] < pays).count() > 1 {
                twice.iter_mut().zip(row).for_each(|(twice, &cost)| *twice += usize::from(cost < pays));
            }
        }
        let candidates = (0..nodes as u32)
            .filter(|&node| self.open[node as usize] > 0.0 && self.open[node as usize] < f64::INFINITY);
        let score = |&node: &u32| (chosen.contains(&node), twice[node as usize], u32::MAX - node);
        let Some(node) = candidates.max_by_key(score) else { return f64::INFINITY };
        let cost = self.open[node as usize];
        self.open[node as usize] = 0.0;
        let with = self.explore(paid + cost, depth + 1, go_on);
        self.open[node as usize] = f64::INFINITY;
        // No time to look any more: this bound holds there too.
        let without = if self.stopped { bound } else { self.explore(paid, depth + 1, go_on) };
        self.open[node as usize] = cost;
        with.min(without)
    }

    /// Counts the work, and asks now and then whether to go on.
    fn stops_after(&mut self, work: usize, go_on: &dyn Fn() -> bool) -> bool {
        self.work += work;
        if self.work >= WORK_PER_QUESTION && !self.stopped {
            self.work = 0;
            self.stopped = !go_on();
        }
        self.stopped
    }

    /// Lets readers pay more and more, in turn, until no copy could be paid for any more. What they pay is a bound at
    /// every moment.
    fn ascend(&mut self, go_on: &dyn Fn() -> bool) -> f64 {
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
            if !moved || self.stops_after(readers * nodes, go_on) {
                return self.pays.iter().sum();
            }
        }
    }

    /// Copies that are paid for, without those that nobody needs.
    fn close_tight(&mut self, go_on: &dyn Fn() -> bool) -> Vec<u32> {
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
            if chosen.len() == 1 || self.stops_after(self.pays.len() * chosen.len(), go_on) {
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
    use std::cell::Cell;

    use super::{Facility, MOST_DEPTH, MOST_STEPS};
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
            let (cost, bound, _) = facility.solve(&open, &read, &|| true).unwrap();
            assert_eq!(cost, least, "{open:?} {read:?}");
            assert!(bound <= least && bound >= least * (1.0 - 1e-9), "{bound} {least}");
        }
    }

    /// Three nodes and three readers at a time, each of which reads from two of the three for nothing. Two copies are
    /// needed, and the ascent proves one: nothing is proved before nearly everything was looked at.
    fn triangles(count: usize) -> (Vec<f64>, Vec<f64>) {
        let nodes = 3 * count;
        let far = |reader: usize, node: usize| reader / 3 != node / 3 || reader == node;
        let read = (0..nodes * nodes).map(|entry| if far(entry / nodes, entry % nodes) { 10.0 } else { 0.0 });
        (vec![1.0; nodes], read.collect())
    }

    #[test]
    fn a_search_that_shall_not_go_on_gives_its_bound() {
        let (open, read) = triangles(20);
        let (asked, mut facility) = (Cell::new(0), Facility::default());
        let go_on = || asked.replace(asked.get() + 1) == 0;
        let (cost, bound, _) = facility.solve(&open, &read, &go_on).unwrap();
        assert!(bound <= cost && bound >= 19.9, "{bound} {cost}");
        assert_eq!(asked.get(), 2);
        assert!(facility.steps < MOST_STEPS / 10, "{}", facility.steps);
        // What comes then is only glanced at.
        let (cost, bound, _) = facility.solve(&open, &read, &go_on).unwrap();
        assert!(bound <= cost, "{bound} {cost}");
        assert_eq!((asked.get(), facility.steps), (2, 0));
    }

    #[test]
    fn a_glance_gives_the_best_single_copy_and_a_bound_without_a_search() {
        // Each reader reads from its own node for nothing: enough of them that sorting alone takes too long.
        let nodes = 1024;
        let read: Vec<f64> = (0..nodes * nodes).map(|at| if at / nodes == at % nodes { 1.0 } else { 3.0 }).collect();
        let open: Vec<f64> = (0..nodes).map(|node| if node == 7 { 1.0 } else { 2.0 }).collect();
        let (asked, mut facility) = (Cell::new(0), Facility::default());
        let go_on = || asked.replace(asked.get() + 1) > 0;
        let glance = facility.solve(&open, &read, &go_on).unwrap();
        assert_eq!(glance, (1.0 + 1.0 + 3.0 * 1023.0, 1025.0, &[7][..]));
        assert_eq!((asked.get(), facility.steps), (1, 0));
    }

    #[test]
    fn a_glance_gives_each_reader_its_nearest_copy_where_one_for_all_is_dear() {
        let nodes = 5;
        let far = |entry: usize| if entry / nodes == entry % nodes { 0.0 } else { 1000.0 };
        let read: Vec<f64> = (0..4 * nodes).map(far).chain([5.0, 7.0, 6.0, 9.0, 0.0]).collect();
        let mut facility = Facility { stopped: true, ..Facility::default() };
        // The last reader's nearest node takes no copy.
        let open = [1.0, 2.0, 3.0, 4.0, f64::INFINITY];
        assert_eq!(facility.solve(&open, &read, &|| true).unwrap(), (15.0, 6.0, &[0, 1, 2, 3][..]));
        let dear = [1.0, 2.0, 3.0, 4000.0, f64::INFINITY];
        assert_eq!(facility.solve(&dear, &read, &|| true).unwrap(), (3006.0, 6.0, &[0][..]));
    }

    #[test]
    fn a_search_goes_only_so_deep() {
        let (open, read) = triangles(2);
        let mut facility = Facility::default();
        assert_eq!(facility.solve(&open, &read, &|| true).unwrap().0, 4.0);
        assert!(facility.steps > 1);
        (facility.steps, facility.best) = (0, f64::INFINITY);
        assert_eq!(facility.explore(0.0, MOST_DEPTH, &|| true), 2.0);
        assert_eq!(facility.steps, 1);
    }
}
