//! Finding a placement: the best one and the proof, or the best that time allowed and how far it can be from the best.

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

/// Finds a placement of small cost.
pub fn solve(model: &Model, options: &Options, control: &mut dyn Control) -> Outcome {
    Outcome {
        status: Status::Unknown,
        objective: options.objective.unwrap_or(model.objective),
        cost: None,
        bound: None,
        gap: None,
        method: "none".to_owned(),
        seed: options.seed,
        seconds: control.elapsed().as_secs_f64(),
        placement: None,
        reason: Some("not yet".to_owned()),
    }
}
