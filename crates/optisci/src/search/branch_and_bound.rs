//! The best nodes for processes, proved: depth first over processes, with the bounds of [`super::dual_ascent`].
//!
//! Each step takes the process for which the fewest nodes are still worth trying, and tries them, the most promising
//! first. Of nodes that a symmetry of the machine turns into each other (keeping those in use where they are) one is
//! tried. Sources: P. Hahn, T. Grant, N. Hall, "A branch-and-bound algorithm for the quadratic assignment problem based
//! on the Hungarian method", 1998; A. Land and A. Doig 1960.

use super::dual_ascent::{Costs, DualAscent, FREE, Shape};
use super::symmetry::Symmetry;

/// Decides what a complete assignment of processes is worth, and what keeps the search going.
pub trait Below {
    /// All processes have nodes: finds the best rest that costs less than `enough`. Gives its cost, or what is known
    /// from below about everything under these nodes (at least `enough`: there is nothing to find).
    fn finish(&mut self, node: &[u32], bound: f64, enough: f64) -> Finished;
    /// Called now and then, with the work done since the last call. False: stop.
    fn go_on(&mut self, work: u64) -> bool;
}

/// What is known about the placements under a complete assignment of processes.
pub struct Finished {
    /// The cost of the best that was found, if it is less than what was asked for.
    pub found: Option<f64>,
    /// A lower bound; infinite when everything was seen.
    pub open: f64,
}

/// A depth-first search.
pub struct BranchAndBound<'a, B> {
    shape: &'a Shape,
    below: &'a mut B,
    symmetry: &'a Symmetry,
    ascent: DualAscent,
    levels: Vec<Costs>,
    enough: f64,
    rounds: usize,
    stopped: bool,
    reported: u64,
    /// Assignments of some processes that were looked at.
    pub visited: u64,
}

impl<'a, B: Below> BranchAndBound<'a, B> {
    /// A search below `root` for something cheaper than `enough`.
    pub fn new(shape: &'a Shape, symmetry: &'a Symmetry, below: &'a mut B, root: Costs, enough: f64) -> Self {
        let depth = root.node.iter().filter(|&&node| node == FREE).count();
        let levels = vec![root; depth + 1];
        BranchAndBound {
            shape,
            below,
            symmetry,
            ascent: DualAscent::default(),
            levels,
            enough,
            rounds: 4,
            stopped: false,
            reported: 0,
            visited: 0,
        }
    }

    /// Searches. The result is a lower bound on everything that was not seen: infinite if nothing was left out.
    pub fn run(&mut self, root_rounds: usize) -> f64 {
        let below = &mut *self.below;
        let mut go_on = || below.go_on(0);
        if !self.ascent.raise(self.shape, &mut self.levels[0], self.enough, (root_rounds, 0.002), &mut go_on) {
            return f64::INFINITY;
        }
        if self.levels[0].bound >= self.enough {
            return f64::INFINITY;
        }
        self.explore(0)
    }

    fn explore(&mut self, depth: usize) -> f64 {
        self.visited += 1;
        if depth + 1 == self.levels.len() {
            let costs = &self.levels[depth];
            let finished = self.below.finish(&costs.node, costs.bound, self.enough);
            if let Some(cost) = finished.found {
                self.enough = self.enough.min(cost);
            }
            return finished.open;
        }
        let process = self.choose(depth);
        let n = self.shape.nodes;
        let mut children = self.children(depth, process);
        children.sort_by(|&x, &y| {
            let own = &self.levels[depth].process[process * n..][..n];
            own[x].total_cmp(&own[y]).then(x.cmp(&y))
        });
        let mut open = f64::INFINITY;
        for node in children {
            let bound = self.levels[depth].bound + self.levels[depth].process[process * n + node];
            if bound >= self.enough {
                break;
            }
            if self.stopped || !self.below.go_on(self.ascent.rounds - self.reported) {
                self.stopped = true;
                open = open.min(bound);
                continue;
            }
            self.reported = self.ascent.rounds;
            let (upper, lower) = self.levels.split_at_mut(depth + 1);
            let child = &mut lower[0];
            child.copy_from(&upper[depth]);
            child.place(self.shape, process, node);
            let rounds = if depth + 2 == self.levels.len() { 1 } else { self.rounds };
            let child = &mut self.levels[depth + 1];
            let always = &mut || true;
            if self.ascent.raise(self.shape, child, self.enough, (rounds, 0.05), always) && child.bound < self.enough {
                open = open.min(self.explore(depth + 1));
            }
        }
        open
    }

    /// The process with the fewest nodes worth trying.
    fn choose(&self, depth: usize) -> usize {
        let costs = &self.levels[depth];
        let n = self.shape.nodes;
        let slack = self.enough - costs.bound;
        let mut best = (usize::MAX, 0.0, 0);
        for process in (0..costs.node.len()).filter(|&process| costs.node[process] == FREE) {
            let own = &costs.process[process * n..][..n];
            let worth = own.iter().filter(|&&cost| cost < slack).count();
            let weight: f64 = own.iter().map(|cost| cost.min(slack)).sum();
            if worth < best.0 || worth == best.0 && weight > best.1 {
                best = (worth, weight, process);
            }
        }
        best.2
    }

    fn children(&self, depth: usize, process: usize) -> Vec<usize> {
        let costs = &self.levels[depth];
        let n = self.shape.nodes;
        let open = |node: &usize| costs.process[process * n + node] < f64::INFINITY;
        let used: Vec<bool> = (0..n).map(|node| costs.node.contains(&(node as u32))).collect();
        let orbit = self.symmetry.orbits(&used);
        (0..n).filter(open).filter(|&node| orbit[node] as usize == node).collect()
    }
}
