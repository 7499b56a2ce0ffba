//! Finding a placement: the best one and the proof, or the best that time allowed and how far it can be from the best.

mod annealing;
mod assignment;
mod both;
mod bounds;
mod branch_and_bound;
mod choice;
mod colocation;
mod dominance;
mod dual_ascent;
mod embedding;
mod facility;
mod factors;
mod follow;
mod homes;
mod instance;
mod lagrangian;
mod limits;
#[cfg(feature = "highs")]
mod mixed_integer;
mod multilevel;
mod packing;
mod pairs;
mod parallel;
mod random;
mod rearrangement;
mod rounding;
mod separable;
mod strategy;
mod symmetry;
mod table;
mod tabu;
mod transport;
mod watch;
mod weights;

use std::time::Duration;

use crate::model::Objective;
use crate::{Model, Placement};

/// What to look for and for how long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// What to make small; `None`: what the model says.
    pub objective: Option<Objective>,
    /// When to come back with the best found; `None`: when it is proved.
    pub time_limit: Option<Duration>,
    /// Where random choices start: the same seed gives the same placement, as long as time does not run out.
    pub seed: u64,
}

/// The caller's clock and its say in whether to go on. The search itself reads no clock, so that it runs in a browser.
pub trait Control {
    /// Time since the search began.
    fn elapsed(&self) -> Duration;

    /// Called often, some hundred times a second: with an incumbent when a better one or a better bound was found,
    /// otherwise without. `false`: stop and return the incumbent.
    fn progress(&mut self, incumbent: Option<&Progress<'_>>) -> bool;
}

/// The best placement so far.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// What is made small.
    pub objective: Objective,
    /// What the best placement so far costs: ns, or bytes for [`Objective::MaxLink`].
    pub cost: f64,
    /// No placement costs less than this.
    pub bound: f64,
    /// The method at work.
    pub method: &'a str,
    /// The placement itself.
    pub placement: &'a Placement,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The placement is proved to be the best.
    Optimal,
    /// The placement obeys all limits; it may be beaten by at most the gap.
    Feasible,
    /// No placement obeys all limits, for the reason that is told.
    Infeasible,
    /// Time ran out before any placement that obeys all limits was found, and before it was proved that there is none.
    Unknown,
}

/// The end of a search.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was found.
    pub status: Status,
    /// What was made small.
    pub objective: Objective,
    /// What the placement costs.
    pub cost: Option<f64>,
    /// No placement costs less than this.
    pub bound: Option<f64>,
    /// How much of its cost a better placement could save at most: `(cost - bound) / cost`, 0 when proved.
    pub gap: Option<f64>,
    /// How it was found.
    pub method: String,
    /// Where random choices started.
    pub seed: u64,
    /// How long it took.
    pub seconds: f64,
    /// The placement.
    pub placement: Option<Placement>,
    /// Why there is none.
    pub reason: Option<String>,
}

/// Finds a placement of small cost: the best and the proof of it where that can be had in time, otherwise the best
/// found and how far from the best it can be at most.
///
/// Blocks until the result is proved, nothing more is to be tried, `options.time_limit` has passed, or
/// [`Control::progress`] answers `false`; it looks some hundred times a second. Natively a search may use all cores;
/// its result does not depend on how many there are. The same model, options and seed give the same placement on every
/// run unless the search was cut by time or by the caller; then cost, bound and gap are as true, but another run may
/// have come further.
pub fn solve(model: &Model, options: &Options, control: &mut dyn Control) -> Outcome {
    let objective = options.objective.unwrap_or(model.objective);
    let instance = instance::Instance::new(model, objective);
    let mut watch = watch::Watch::new(control, options.time_limit, &instance);
    let result = strategy::search(&instance, &mut watch, options.seed);
    let found = watch.best().is_some();
    let status = match (&result, found) {
        (_, true) if watch.proved() => Status::Optimal,
        (_, true) => Status::Feasible,
        (Err(strategy::Failure::Infeasible(_)), false) => Status::Infeasible,
        _ => Status::Unknown,
    };
    let (cost, bound) = (watch.cost(), watch.bound());
    let gap = if cost > 0.0 { ((cost - bound) / cost).max(0.0) } else { 0.0 };
    Outcome {
        status,
        objective,
        cost: found.then_some(cost),
        bound: found.then_some(bound),
        gap: found.then_some(if status == Status::Optimal { 0.0 } else { gap }),
        method: watch.found_by().to_owned(),
        seed: options.seed,
        seconds: watch.elapsed().as_secs_f64(),
        placement: watch.best().cloned(),
        reason: match result {
            Err(strategy::Failure::Infeasible(reason) | strategy::Failure::NotFound(reason)) if !found => Some(reason),
            _ => None,
        },
    }
}
