//! Which method for which model, in which order. The table of classes is in `docs/design/023-which-search.md`.
//!
//! Every search goes the same way: can the limits be obeyed at all; some placement; a bound that costs nothing; better
//! placements by a method that suits the model; then the proof, by the strongest method that the size allows; then, if
//! a time limit leaves time, more attempts. It ends as soon as bound and cost meet.

#[cfg(feature = "highs")]
use std::time::Duration;

use super::colocation::Colocation;
use super::follow::Follow;
use super::homes::{self, Rest};
use super::instance::Instance;
use super::lagrangian::Capacitated;
use super::limits::{self, Packing};
use super::multilevel::Multilevel;
use super::random::Random;
use super::symmetry::Symmetry;
use super::tabu::Quadratic;
use super::watch::{PROVED, Watch};
use super::weights::Weights;
use super::{
    annealing, both, bounds, dominance, embedding, factors, lagrangian, pairs, parallel, rearrangement, transport,
};
use crate::Placement;
use crate::model::Objective;
use crate::placement::Home;

/// Attempts side by side. A number of its own, not that of the cores, so that the result does not depend on them.
const ATTEMPTS: usize = 4;

/// Entries of tables of pairs up to which [`both`] can bound a model, and search it exhaustively.
const MOST_ENTRIES: usize = 3_000_000;

/// Costs of all segments on all nodes up to which a search may keep them: about half a gigabyte for four attempts.
const MOST_COSTS: usize = 16_000_000;

/// Processes and segments that annealing from scratch comes to an end with.
const MOST_HOT_ITEMS: u64 = 2_500;

/// Costs that one attempt of annealing from scratch may look at: a second or two.
const MOST_HOT_WORK: u64 = 2_000_000_000;

/// Entries of tables that [`factors`] may look at without a time limit: some ten seconds.
const MOST_FACTOR_WORK: u64 = 20_000_000_000;

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
    if fixed && instance.objective == Objective::Sum {
        watch.method("separable");
        let (placement, bound) = homes::separate(instance, &nodes, &mut || watch.go_on());
        watch.offer(instance, placement);
        watch.raise(instance, if bound >= watch.cost() * (1.0 - PROVED) { watch.cost() } else { bound });
        if watch.proved() {
            return Ok(());
        }
    }
    watch.method("greedy");
    let start = start_on(instance, &nodes, watch)?;
    watch.offer(instance, start.clone());
    watch.raise(instance, bounds::simple(instance));
    let copies = (0..instance.segments()).any(|segment| instance.may_have_copies(segment));
    match (fixed, instance.objective) {
        (true, Objective::Sum) if !copies && keeps_costs(instance) => capacitated(instance, &nodes, watch, seed),
        (true, _) => homes_of_fixed(instance, &nodes, &start, watch, seed),
        (false, Objective::Sum) if instance.uses.is_empty() => mapping(instance, &start, watch, seed),
        (false, _) => free(instance, &start, watch, seed),
    }
    if !watch.proved() && watch.left().is_some() {
        use_the_time(instance, watch, seed);
    }
    Ok(())
}

/// Whether a search may keep what each segment costs on each node.
fn keeps_costs(instance: &Instance<'_>) -> bool {
    instance.segments().saturating_mul(instance.nodes) <= MOST_COSTS
}

/// Processes on these nodes, and segments so that all limits are obeyed, each as cheap as there is room.
fn start_on(instance: &Instance<'_>, nodes: &[u32], watch: &mut Watch<'_>) -> Result<Placement, Failure> {
    let mut cost = |segment: usize, costs: &mut [f64]| {
        for entry in instance.uses_of(segment) {
            instance.add_uses(entry, nodes[entry.process as usize] as usize, costs);
        }
    };
    let is_limited = watch.left().is_some();
    match limits::pack(instance, &mut cost, is_limited, &mut || watch.go_on()) {
        Packing::Fits(segments) => Ok(Placement { processes: nodes.to_vec(), segments }),
        Packing::Cannot(reason) => Err(Failure::Infeasible(reason)),
        Packing::Unknown => Err(Failure::NotFound(
            "memory_bytes: no way was found to fit the segments into the memory of the nodes, nor a proof that there is \
             none"
                .to_owned(),
        )),
    }
}

/// Processes fixed, one copy each, limits that matter.
fn capacitated(instance: &Instance<'_>, nodes: &[u32], watch: &mut Watch<'_>, seed: u64) {
    let problem = Capacitated::new(instance, nodes);
    let place =
        |at: &[u32]| Placement { processes: nodes.to_vec(), segments: at.iter().map(|&at| Home::One(at)).collect() };
    if let Some(room) = lagrangian::units(instance)
        && instance.nodes <= 512
    {
        watch.method("transportation");
        if let Some(at) = transport::assign(&problem.cost, &room, &mut || watch.go_on()) {
            watch.offer(instance, place(&at));
            watch.raise(instance, watch.cost());
            return;
        }
    }
    watch.method("lagrangian");
    let messages: f64 = instance
        .posts
        .iter()
        .map(|post| instance.post_cost(post, nodes[post.from as usize] as usize, nodes[post.to as usize] as usize))
        .sum();
    let mut random = Random::new(seed);
    let known = watch.cost() - messages;
    let steps = 3_000;
    let mut found = None;
    let mut offer = |_, at: &[u32]| found = Some(at.to_vec());
    let (bound, prices) = problem.solve(&mut random, known, PROVED, steps, &mut offer, &mut |_| watch.go_on());
    if let Some(at) = found {
        watch.offer(instance, place(&at));
    }
    watch.raise(instance, bound + messages);
    if watch.proved() {
        return;
    }
    // What the prices leave open, exhaustively.
    watch.method("branch and bound");
    let survivors = problem.survivors(&prices, bound, watch.cost() - messages);
    let below = |known| Rest::among(instance, nodes, known, |segment| survivors[segment].clone());
    exhaust(instance, nodes, watch, 3_000_000, below);
}

/// Processes fixed, every other objective, and copies under limits.
fn homes_of_fixed(instance: &Instance<'_>, nodes: &[u32], start: &Placement, watch: &mut Watch<'_>, seed: u64) {
    anneal(instance, start, watch, seed, 0, 1);
    if let Some(rest) = Rest::new(instance, nodes, watch.cost()) {
        watch.method("branch and bound");
        let (_, bound) = rest.prices(watch.cost(), 400);
        watch.raise(instance, bound.min(watch.cost()));
        exhaust(instance, nodes, watch, 20_000_000, |known| Rest::new(instance, nodes, known));
    }
}

/// The best of the homes that are left, and the proof.
fn exhaust(
    instance: &Instance<'_>,
    nodes: &[u32],
    watch: &mut Watch<'_>,
    most_visits: u64,
    below: impl Fn(f64) -> Option<Rest>,
) {
    if let Some((rest, least)) = homes::search(instance, watch, nodes, (400, most_visits), below) {
        watch.raise(instance, least.min(watch.cost()));
        finish(instance, nodes, &rest, watch);
    }
}

/// What is still open of the homes goes to HiGHS. It cannot be interrupted, so it gets longer and longer turns.
#[cfg(feature = "highs")]
fn finish(instance: &Instance<'_>, nodes: &[u32], rest: &Rest, watch: &mut Watch<'_>) {
    watch.method("HiGHS");
    let mut turn = Duration::from_secs(1);
    while !watch.proved() && watch.go_on() {
        let time = watch.left().map_or(turn, |left| left.min(turn));
        let (placement, bound, finished) = rest.solve_by_highs(nodes, watch.cost(), time);
        if let Some(placement) = placement {
            watch.offer(instance, placement);
        }
        watch.raise(instance, bound.min(watch.cost()));
        if finished {
            return;
        }
        turn *= 2;
    }
}

#[cfg(not(feature = "highs"))]
fn finish(_: &Instance<'_>, _: &[u32], _: &Rest, _: &mut Watch<'_>) {}

/// Only messages count: processes onto nodes.
fn mapping(instance: &Instance<'_>, start: &Placement, watch: &mut Watch<'_>, seed: u64) {
    let place = |nodes: Vec<u32>| Placement { processes: nodes, segments: start.segments.clone() };
    watch.method("embedding");
    let mut random = Random::new(seed);
    if let Some(nodes) = embedding::search(instance, &mut random, &mut || watch.go_on()) {
        watch.offer(instance, place(nodes));
        if watch.proved() {
            return;
        }
    } else if let Some(nodes) = embedding::recognise(instance, &mut random, &mut || watch.go_on()) {
        mend(instance, watch, seed, nodes);
        if watch.proved() {
            return;
        }
    }
    let quadratic = Quadratic::new(instance);
    if let Some(quadratic) = &quadratic {
        watch.method("tabu");
        // Small ones are proved in a moment anyway, large ones hardly ever: there the search is the point.
        let steps = if instance.nodes <= 16 { 3_000 } else { 60_000 };
        tabu(instance, quadratic, start, watch, seed, 0, steps);
    } else {
        let longer = if watch.left().is_some() { 1 } else { 8 };
        multilevel(instance, watch, seed, 0, longer);
        if let Some(best) = watch.best().cloned() {
            watch.method("annealing");
            let steps = (instance.processes() as u64 * 200).clamp(100_000, 20_000_000);
            let placement = annealing::anneal(instance, &best, &mut random, steps, 0.02, &mut || watch.go_on());
            watch.offer(instance, placement);
        }
    }
    prove(instance, watch, |_| Weights::even(instance));
    if let Some(quadratic) = &quadratic {
        for round in 1..if watch.left().is_some() { u64::MAX } else { 4 } {
            if watch.proved() || !watch.go_on() {
                break;
            }
            tabu(instance, quadratic, start, watch, seed, round, 200_000);
        }
    }
}

/// Some tabu searches side by side, each from a start of its own.
fn tabu(
    instance: &Instance<'_>,
    quadratic: &Quadratic,
    start: &Placement,
    watch: &mut Watch<'_>,
    seed: u64,
    round: u64,
    steps: u64,
) {
    watch.method("tabu");
    let results = parallel::each(ATTEMPTS, &mut || watch.go_on(), |attempt, go_on| {
        let mut random = Random::stream(seed, round * ATTEMPTS as u64 + attempt as u64);
        let first = quadratic.shuffled(&start.processes, &mut random);
        quadratic.search(first, &mut random, steps, go_on)
    });
    let least = results.into_iter().reduce(|x, y| if y.0 < x.0 { y } else { x });
    if let Some((_, mut nodes)) = least {
        nodes.truncate(instance.processes());
        watch.offer(instance, Placement { processes: nodes, segments: start.segments.clone() });
    }
}

/// Processes and segments, or any other objective.
fn free(instance: &Instance<'_>, start: &Placement, watch: &mut Watch<'_>, seed: u64) {
    let separable = homes::are_separable(instance);
    let colocation = (instance.objective == Objective::Sum).then(|| Colocation::new(instance)).flatten();
    if let Some(colocation) = &colocation {
        watch.raise(instance, colocation.bound());
    }
    if let Some(colocation) = &colocation {
        watch.method("colocation");
        let mut random = Random::stream(seed, u64::MAX);
        let nodes = colocation.gather(instance, &start.processes, &mut random, &mut || watch.go_on());
        if let Ok(placement) = start_on(instance, &nodes, watch) {
            watch.offer(instance, placement);
        }
    }
    if separable && keeps_costs(instance) {
        follow(instance, start, watch, seed, 0, 1);
        let copies = (0..instance.segments()).any(|segment| instance.may_have_copies(segment));
        if copies && !watch.proved() {
            anneal(instance, start, watch, seed, 0, 1);
        }
    } else {
        anneal(instance, start, watch, seed, 0, 1);
    }
    if watch.proved() {
        return;
    }
    if factors::suits(instance) {
        watch.method("branch and bound");
        factors::search(instance, watch, &Symmetry::of(instance), MOST_FACTOR_WORK);
        return;
    }
    if rearrangement::suits(instance) {
        // The less there is to decide about segments, the more this is a quadratic assignment problem.
        let hosts = dominance::hosts(instance);
        if hosts.iter().flatten().count() * 2 > hosts.len() {
            prove(instance, watch, |_| Weights::even(instance));
        }
        if watch.proved() || !watch.go_on() {
            return;
        }
        watch.method("branch and bound");
        let symmetry = Symmetry::of(instance);
        let cost = watch.cost();
        let (found, open) = rearrangement::search(instance, &symmetry, cost, 40_000_000, &mut || watch.go_on());
        if let Some(nodes) = found {
            let (placement, _) = homes::separate(instance, &nodes, &mut || watch.go_on());
            watch.offer(instance, placement);
        }
        watch.raise(instance, open.min(watch.cost()));
        return;
    }
    prove(instance, watch, |watch| {
        let mut weights = Weights::even(instance);
        if let Some(best) = watch.best()
            && !separable
            && let Some(rest) = Rest::new(instance, &best.processes, watch.cost())
        {
            // The weights and prices that show best why this placement of processes cannot be much better.
            let (prices, _) = rest.prices(watch.cost(), 200);
            weights = Weights::new(instance, &prices.row);
            weights.slot = prices.slot.iter().map(|&price| rest.rounding.cost(price)).collect();
            weights.byte = prices.byte.iter().map(|&price| rest.rounding.cost(price)).collect();
        }
        weights
    });
}

/// Branch and bound with dual ascent, where tables of pairs are not too large. Only there `weights` are made: those of
/// links route from each node to each other.
fn prove(instance: &Instance<'_>, watch: &mut Watch<'_>, weights: impl FnOnce(&Watch<'_>) -> Weights) {
    if watch.proved() || !watch.go_on() || instance.nodes > 64 && instance.objective == Objective::MaxLink {
        return;
    }
    let entries = pairs::entries(instance);
    if entries > MOST_ENTRIES {
        return;
    }
    let weights = weights(watch);
    watch.method("branch and bound");
    let symmetry = Symmetry::of(instance);
    let most_work = 400_000_000 / entries.max(200) as u64;
    both::search(instance, watch, &weights, &symmetry, 80, most_work);
}

/// A mapping that is nearly right, with what exchanges make of it.
fn mend(instance: &Instance<'_>, watch: &mut Watch<'_>, seed: u64, nodes: Vec<u32>) {
    let Some(best) = watch.best().cloned() else { return };
    let place = |processes: Vec<u32>| Placement { processes, segments: best.segments.clone() };
    watch.offer(instance, place(nodes.clone()));
    if !watch.proved()
        && let Some(multilevel) = Multilevel::new(instance)
    {
        let results = parallel::each(multilevel.attempts(), &mut || watch.go_on(), |attempt, go_on| {
            multilevel.mend(&nodes, &mut Random::stream(seed, attempt as u64), 1, go_on)
        });
        results.into_iter().for_each(|nodes| _ = watch.offer(instance, place(nodes)));
    }
}

/// Maps processes from large groups to small ones, some attempts side by side.
fn multilevel(instance: &Instance<'_>, watch: &mut Watch<'_>, seed: u64, round: u64, longer: u64) -> bool {
    let (Some(multilevel), Some(best)) = (Multilevel::new(instance), watch.best().cloned()) else { return false };
    watch.method("multilevel");
    let results = parallel::each(multilevel.attempts(), &mut || watch.go_on(), |attempt, go_on| {
        let mut random = Random::stream(seed, round * multilevel.attempts() as u64 + attempt as u64);
        let processes = multilevel.search(&mut random, longer, go_on);
        Placement { processes, segments: best.segments.clone() }
    });
    results.into_iter().for_each(|placement| _ = watch.offer(instance, placement));
    true
}

/// Attempts of which the best is taken; each is offered as soon as all before it have ended.
fn attempts(
    instance: &Instance<'_>,
    watch: &mut Watch<'_>,
    attempt: impl Fn(u64, &dyn Fn() -> bool) -> Placement + Sync,
) {
    // Where nothing runs side by side, the first result need not wait for the others.
    let at_once = if cfg!(target_family = "wasm") { 1 } else { ATTEMPTS };
    for first in (0..ATTEMPTS).step_by(at_once) {
        let results =
            parallel::each(at_once, &mut || watch.go_on(), |index, go_on| attempt((first + index) as u64, go_on));
        results.into_iter().for_each(|placement| _ = watch.offer(instance, placement));
        if !watch.go_on() {
            return;
        }
    }
}

/// Anneals everything, some attempts side by side.
fn anneal(instance: &Instance<'_>, start: &Placement, watch: &mut Watch<'_>, seed: u64, round: u64, longer: u64) {
    watch.method("annealing");
    let size = (instance.processes() + instance.segments()) as u64;
    if size > MOST_HOT_ITEMS {
        // A hot search would be too long on its way: the best placement so far, kept cool, in rounds that grow. The
        // longest process becomes shorter only by way of placements that look worse.
        // Others are first freed of what every exchange mends: in so few moves heat would undo more than they do.
        let heat = |round: u64| match instance.objective {
            Objective::Makespan => 1.0,
            _ => 0.05 * [0.01, 0.1, 1.0][round.min(2) as usize],
        };
        for round in round..if round == 0 { 5 } else { round + 1 } {
            let Some(best) = watch.best().cloned().filter(|_| watch.go_on() && !watch.proved()) else { return };
            let steps = (20 * size).min(1_000_000) << round.min(6);
            attempts(instance, watch, |attempt, go_on| {
                let mut random = Random::stream(seed, round * ATTEMPTS as u64 + attempt);
                annealing::anneal(instance, &best, &mut random, steps, heat(round), &mut || go_on())
            });
        }
        return;
    }
    let steps = (400 * size).clamp(10_000, 1_000_000) * longer;
    attempts(instance, watch, |attempt, go_on| {
        let mut random = Random::stream(seed, round * ATTEMPTS as u64 + attempt);
        annealing::anneal(instance, start, &mut random, steps, 1.0, &mut || go_on())
    });
}

/// Anneals processes while segments follow, some attempts side by side.
fn follow(instance: &Instance<'_>, start: &Placement, watch: &mut Watch<'_>, seed: u64, round: u64, longer: u64) {
    watch.method("annealing");
    let processes = instance.processes() as u64;
    let steps = (1_500 * processes).clamp(5_000, 200_000) * longer;
    let work = steps * (instance.uses.len() as u64 / processes.max(1) + 1) * instance.nodes as u64;
    if work / longer > MOST_HOT_WORK {
        // A hot search would be too long on its way: the best placement so far, kept cool, in rounds that grow.
        for round in round..if round == 0 { 4 } else { round + 1 } {
            let Some(best) = watch.best().cloned().filter(|_| watch.go_on() && !watch.proved()) else { return };
            let steps = (50 * processes).clamp(1_000, 20_000) << round.min(6);
            attempts(instance, watch, |attempt, go_on| {
                let mut random = Random::stream(seed, round * ATTEMPTS as u64 + attempt);
                let mut follow = Follow::new(instance, &best.processes).exchanging_nodes();
                let (_, nodes) = follow.cool(&mut random, steps, 0.02, &mut || go_on());
                homes::separate(instance, &nodes, &mut || go_on()).0
            });
        }
        return;
    }
    attempts(instance, watch, |attempt, go_on| {
        let mut random = Random::stream(seed, round * ATTEMPTS as u64 + attempt);
        let (_, nodes) = Follow::new(instance, &start.processes).cool(&mut random, steps, 0.7, &mut || go_on());
        homes::separate(instance, &nodes, &mut || go_on()).0
    });
}

/// More and longer attempts until time is up.
fn use_the_time(instance: &Instance<'_>, watch: &mut Watch<'_>, seed: u64) {
    let mut round = 1;
    while watch.go_on() && !watch.proved() {
        let Some(best) = watch.best().cloned() else { return };
        let longer = 1 << round.min(6);
        if instance.uses.is_empty()
            && instance.objective == Objective::Sum
            && multilevel(instance, watch, seed, round, longer)
        {
            round += 1;
            continue;
        }
        let fixed = (0..instance.processes()).all(|process| instance.process_pin(process).is_some());
        if homes::are_separable(instance) && keeps_costs(instance) && !fixed && !instance.uses.is_empty() {
            follow(instance, &best, watch, seed, round, longer);
        } else {
            anneal(instance, &best, watch, seed, round, longer);
        }
        round += 1;
    }
}
