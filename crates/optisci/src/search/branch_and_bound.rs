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

/// Bytes of costs, one copy for each process on the way down, that a search may keep.
const MOST_BYTES: usize = 512 << 20;

/// Processes on the way down, whose calls a thread's stack must bear. A search that deep comes to no end anyhow.
const MOST_LEVELS: usize = 1000;

/// A depth-first search.
pub struct BranchAndBound<'a, B> {
    shape: &'a Shape,
    below: &'a mut B,
    symmetry: &'a Symmetry,
    ascent: DualAscent,
    /// As deep as the search has been.
    levels: Vec<Costs>,
    most_levels: usize,
    /// Processes without a node at the root.
    free: usize,
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
        let free = root.node.iter().filter(|&&node| node == FREE).count();
        let most_levels = (MOST_BYTES / root.bytes().max(1)).clamp(1, MOST_LEVELS);
        BranchAndBound {
            shape,
            below,
            symmetry,
            ascent: DualAscent::default(),
            levels: vec![root],
            most_levels,
            free,
            enough,
            rounds: 4,
            stopped: false,
            reported: 0,
            visited: 0,
        }
    }

    /// Searches. The result is a lower bound on everything that was not seen: infinite if nothing was left out. What
    /// lies deeper than memory reaches is left out.
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
        if depth == self.free {
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
            if depth + 1 == self.most_levels {
                open = open.min(bound);
                continue;
            }
            if depth + 1 == self.levels.len() {
                self.levels.push(self.levels[depth].clone());
            } else {
                let (upper, lower) = self.levels.split_at_mut(depth + 1);
                lower[0].copy_from(&upper[depth]);
            }
            let child = &mut self.levels[depth + 1];
            child.place(self.shape, process, node);
            let rounds = if depth + 1 == self.free { 1 } else { self.rounds };
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Below, BranchAndBound, Finished};
    use crate::Model;
    use crate::model::Objective;
    use crate::search::instance::Instance;
    use crate::search::pairs::Pairs;
    use crate::search::symmetry::Symmetry;
    use crate::search::weights::Weights;

    struct Leaves {
        goes_on: bool,
        least: f64,
    }

    impl Below for Leaves {
        fn finish(&mut self, _node: &[u32], bound: f64, _enough: f64) -> Finished {
            self.least = self.least.min(bound);
            Finished { found: Some(bound), open: f64::INFINITY }
        }

        fn go_on(&mut self, _work: u64) -> bool {
            self.goes_on
        }
    }

    /// Processes in a row, each of which sends to the next, on a ring that takes `slots` of them on each node.
    fn row(processes: usize, nodes: usize, slots: usize) -> Model {
        let message = |from| json!({"from": format!("{from}"), "to": format!("{}", from + 1), "count": 1, "size": 8});
        let model = json!({
            "topology": {"kind": "torus", "dims": [nodes]},
            "cost_model": {"kind": "hop_bytes", "ns_per_byte_hop": 1},
            "processes": (0..processes).map(|number| json!({"id": format!("{number}")})).collect::<Vec<_>>(),
            "segments": [],
            "accesses": [],
            "messages": (0..processes - 1).map(message).collect::<Vec<_>>(),
            "process_slots": vec![slots; nodes],
        });
        Model::from_json(&model.to_string()).unwrap()
    }

    fn search<T>(model: &Model, goes_on: bool, with: impl FnOnce(&mut BranchAndBound<'_, Leaves>) -> T) -> (T, f64) {
        let instance = Instance::new(model, Objective::Sum);
        let Pairs { shape, costs, .. } = Pairs::new(&instance, &Weights::even(&instance), f64::INFINITY);
        let symmetry = Symmetry::of(&instance);
        let mut leaves = Leaves { goes_on, least: f64::INFINITY };
        let result = with(&mut BranchAndBound::new(&shape, &symmetry, &mut leaves, costs, f64::INFINITY));
        (result, leaves.least)
    }

    #[test]
    fn costs_are_copied_only_as_deep_as_the_search_goes() {
        let (levels, _) = search(&row(1000, 16, 100), false, |search| {
            search.run(1);
            search.levels.len()
        });
        assert!(levels <= 2, "{levels}");
    }

    #[test]
    fn what_lies_too_deep_is_bounded() {
        let model = row(6, 4, 2);
        let (open, least) = search(&model, true, |search| search.run(1));
        assert_eq!(open, f64::INFINITY);
        let (shallow, seen) = search(&model, true, |search| {
            search.most_levels = 3;
            let open = search.run(1);
            assert!(search.levels.len() <= 3);
            open
        });
        assert_eq!(seen, f64::INFINITY);
        assert!(shallow <= least, "{shallow} {least}");
    }
}
