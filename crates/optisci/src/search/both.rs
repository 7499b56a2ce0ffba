//! Both maps free: branch and bound over processes, the best homes of segments under each complete assignment.

use super::branch_and_bound::{Below, BranchAndBound, Finished};
use super::homes::{self, Rest};
use super::instance::Instance;
use super::pairs::Pairs;
use super::rounding::Rounding;
use super::symmetry::Symmetry;
use super::watch::{PROVED, Watch};
use super::weights::Weights;

/// Visits under one complete assignment of processes before the rest is left to a bound.
const MOST_VISITS: u64 = 2_000_000;

struct Leaves<'s, 'w, 'c> {
    instance: &'s Instance<'s>,
    watch: &'w mut Watch<'c>,
    rounding: Rounding,
    separable: bool,
    /// What homes cost at least that may be cheaper than the best when they were looked for: by their own rounding,
    /// which is finer than that of all processes and segments.
    least: f64,
    work: u64,
    most_work: u64,
}

impl Below for Leaves<'_, '_, '_> {
    fn finish(&mut self, node: &[u32], bound: f64, _enough: f64) -> Finished {
        let before = self.watch.cost();
        let mut open = f64::INFINITY;
        if self.separable {
            let (placement, least) = homes::separate(self.instance, node, &mut || self.watch.go_on());
            self.watch.offer(self.instance, placement);
            // Many copies on a large machine are a search of their own, which may have given up.
            if least < self.watch.cost() * (1.0 - PROVED) {
                self.least = self.least.min(least);
            }
        } else if let Some((_, least)) = homes::search(self.instance, self.watch, node, (60, MOST_VISITS), |known| {
            Rest::new(self.instance, node, known)
        }) {
            self.least = self.least.min(least.max(self.rounding.bound(bound)));
        } else {
            open = bound;
        }
        let after = self.watch.cost();
        Finished { found: (after < before).then(|| self.rounding.enough(after)), open }
    }

    fn go_on(&mut self, work: u64) -> bool {
        self.work += work;
        self.work < self.most_work && self.watch.go_on()
    }
}

/// Searches until everything was seen, the watch says stop, or `most_work` was done. Raises the watch's bound.
pub fn search(
    instance: &Instance<'_>,
    watch: &mut Watch<'_>,
    weights: &Weights,
    symmetry: &Symmetry,
    root_rounds: usize,
    most_work: u64,
) {
    let Pairs { shape, costs, rounding } = Pairs::new(instance, weights, watch.cost());
    let enough = rounding.enough(watch.cost());
    let separable = homes::are_separable(instance);
    let mut leaves = Leaves { instance, watch, rounding, separable, least: f64::INFINITY, work: 0, most_work };
    let mut search = BranchAndBound::new(&shape, symmetry, &mut leaves, costs, enough);
    let open = rounding.bound(search.run(root_rounds));
    let least = leaves.least;
    watch.raise(instance, open.min(least).min(watch.cost()));
}
