//! Both maps free: branch and bound over processes, the best homes of segments under each complete assignment.

use super::branch_and_bound::{Below, BranchAndBound, Finished};
use super::homes::{self, Rest};
use super::instance::Instance;
use super::pairs::Pairs;
use super::rounding::Rounding;
use super::symmetry::Symmetry;
use super::watch::Watch;
use super::weights::Weights;

/// Visits under one complete assignment of processes before the rest is left to a bound.
const MOST_VISITS: u64 = 2_000_000;

struct Leaves<'s, 'w, 'c> {
    instance: &'s Instance<'s>,
    watch: &'w mut Watch<'c>,
    rounding: Rounding,
    separable: bool,
    work: u64,
    most_work: u64,
}

impl Below for Leaves<'_, '_, '_> {
    fn finish(&mut self, node: &[u32], bound: f64, _enough: f64) -> Finished {
        let before = self.watch.cost();
        let open = if self.separable {
            let (placement, _) = homes::separate(self.instance, node);
            self.watch.offer(self.instance, placement);
            f64::INFINITY
        } else {
            match Rest::new(self.instance, node) {
                Some(rest) => {
                    let watch = &mut *self.watch;
                    let (placement, open) = rest.solve(node, before, 60, MOST_VISITS, &mut || watch.go_on());
                    if let Some(placement) = placement {
                        self.watch.offer(self.instance, placement);
                    }
                    if open == f64::INFINITY { open } else { self.rounding.whole(open).max(bound) }
                }
                None => bound,
            }
        };
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
    let Pairs { shape, costs, rounding } = Pairs::new(instance, weights);
    let enough = rounding.enough(watch.cost());
    let separable = homes::are_separable(instance);
    let mut leaves = Leaves { instance, watch, rounding, separable, work: 0, most_work };
    let mut search = BranchAndBound::new(&shape, symmetry, &mut leaves, costs, enough);
    let open = search.run(root_rounds);
    let bound = rounding.bound(open.min(rounding.enough(watch.cost())));
    watch.raise(instance, if open == f64::INFINITY { watch.cost() } else { bound });
}
