//! Which method for which model, in which order.

use super::annealing::Annealing;
use super::follow::Follow;
use super::homes::{self, Rest};
use super::instance::Instance;
use super::limits::{self, Packing};
use super::random::Random;
use super::symmetry::Symmetry;
use super::watch::{PROVED, Watch};
use super::weights::Weights;
use super::{both, pairs, rearrangement};
use crate::Placement;

/// Why there is no placement.
pub enum Failure {
    /// There is none.
    Infeasible(String),
    /// None was found.
    NotFound(String),
}

/// Searches; what was found is with the watch.
pub fn search(instance: &Instance<'_>, watch: &mut Watch<'_>, seed: u64) -> Result<(), Failure> {
    if let Some(reason) = limits::obstacle(instance) {
        return Err(Failure::Infeasible(reason));
    }
    let nodes = limits::some_nodes(instance);
    let fixed = (0..instance.processes()).all(|process| instance.process_pin(process).is_some());
    if fixed && homes::are_separable(instance) {
        watch.method("separable");
        let (placement, bound) = homes::separate(instance, &nodes);
        watch.offer(instance, placement);
        watch.raise(instance, if bound >= watch.cost() * (1.0 - PROVED) { watch.cost() } else { bound });
        return Ok(());
    }
    watch.method("greedy");
    let start = start(instance, &nodes)?;
    watch.offer(instance, start.clone());
    watch.method("annealing");
    let mut random = Random::new(seed);
    if !fixed && homes::are_separable(instance) {
        let mut best: Option<(f64, Vec<u32>)> = None;
        for _ in 0..3 {
            let mut follow = Follow::new(instance, &nodes);
            let steps = (2_000 * instance.processes() as u64).min(100_000);
            let found = follow.cool(&mut random, steps, 0.7, &mut || watch.go_on());
            if best.as_ref().is_none_or(|best| found.0 < best.0) {
                best = Some(found);
            }
        }
        if let Some((_, nodes)) = best {
            watch.offer(instance, homes::separate(instance, &nodes).0);
        }
    }
    let size = instance.processes() + instance.segments();
    let mut annealing = Annealing::new(instance, &start);
    annealing.cool(&mut random, (200 * size as u64).clamp(20_000, 2_000_000), 1.0, &mut || watch.go_on());
    watch.offer(instance, annealing.placement());
    if fixed {
        if let Some(rest) = Rest::new(instance, &nodes) {
            watch.method("branch and bound");
            let (placement, open) = rest.solve(&nodes, watch.cost(), 300, 20_000_000);
            if let Some(placement) = placement {
                watch.offer(instance, placement);
            }
            let cost = watch.cost();
            watch.raise(instance, open.min(cost));
        }
        return Ok(());
    }
    let symmetry = Symmetry::of(instance);
    if rearrangement::suits(instance) {
        watch.method("branch and bound");
        let cost = watch.cost();
        let (found, open) = rearrangement::search(instance, &symmetry, cost, 50_000_000, &mut || watch.go_on());
        if let Some(nodes) = found {
            watch.offer(instance, homes::separate(instance, &nodes).0);
        }
        let cost = watch.cost();
        watch.raise(instance, open.min(cost));
        return Ok(());
    }
    if pairs::entries(instance) <= 4_000_000 {
        watch.method("branch and bound");
        let weights = Weights::even(instance);
        both::search(instance, watch, &weights, &symmetry, 60, 2_000_000);
    }
    Ok(())
}

/// Some placement that obeys all limits.
fn start(instance: &Instance<'_>, nodes: &[u32]) -> Result<Placement, Failure> {
    let mut cost = |segment: usize, costs: &mut [f64]| {
        for entry in instance.uses_of(segment) {
            instance.add_uses(entry, nodes[entry.process as usize] as usize, costs);
        }
    };
    match limits::pack(instance, &mut cost) {
        Packing::Fits(segments) => Ok(Placement { processes: nodes.to_vec(), segments }),
        Packing::Cannot(reason) => Err(Failure::Infeasible(reason)),
        Packing::Unknown => Err(Failure::NotFound(
            "memory_bytes: no packing of the segments was found, nor a proof that there is none".to_owned(),
        )),
    }
}
