//! The one place where a search meets the outside: how long, whether to go on, the best so far and who is told of it.
//!
//! Work is counted, not timed, wherever a decision depends on it; the clock only ends a search. So a search that ends
//! by itself gives the same bytes however fast the machine is.

use std::time::Duration;

use super::instance::Instance;
use super::{Control, Progress};
use crate::Placement;

/// Relative difference below which a bound meets a cost.
pub const PROVED: f64 = 1e-9;

/// What the sums behind two costs can differ by through rounding alone, relatively, when they are not whole numbers.
const ROUNDING: f64 = 1e-11;

/// The incumbent, the bound, and the caller's control.
pub struct Watch<'c> {
    control: &'c mut dyn Control,
    limit: Option<Duration>,
    stopped: bool,
    method: &'static str,
    best: Option<(f64, Placement)>,
    bound: f64,
    slack: f64,
    found_by: &'static str,
}

impl<'c> Watch<'c> {
    /// Watches a search that starts now.
    pub fn new(control: &'c mut dyn Control, limit: Option<Duration>, instance: &Instance<'_>) -> Watch<'c> {
        let slack = if instance.is_whole() { 0.0 } else { ROUNDING };
        Watch { control, limit, stopped: false, method: "", best: None, bound: 0.0, slack, found_by: "" }
    }

    /// What is done from now on, for people.
    pub fn method(&mut self, method: &'static str) {
        self.method = method;
    }

    /// The method that the best placement comes from.
    pub fn found_by(&self) -> &'static str {
        self.found_by
    }

    /// Whether to go on; asked some hundred times a second.
    pub fn go_on(&mut self) -> bool {
        if !self.stopped {
            self.stopped =
                !self.control.progress(None) || self.limit.is_some_and(|limit| self.control.elapsed() >= limit);
        }
        !self.stopped
    }

    /// Time since the search began.
    pub fn elapsed(&self) -> Duration {
        self.control.elapsed()
    }

    /// Time until the limit, if there is one.
    pub fn left(&self) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_sub(self.control.elapsed()))
    }

    /// Offers a placement. It is taken if it obeys all limits and is cheaper than the best so far.
    pub fn offer(&mut self, instance: &Instance<'_>, placement: Placement) -> bool {
        // A search that time has run out for gives back what it began with, and what that costs may take long to find.
        if self.best.as_ref().is_some_and(|(_, best)| *best == placement) {
            return false;
        }
        let (cost, feasible) = instance.evaluate(&placement);
        if !feasible || self.best.as_ref().is_some_and(|(best, _)| cost >= *best) {
            return false;
        }
        debug_assert!(cost >= self.bound * (1.0 - PROVED), "{} found {cost}, bound {}", self.method, self.bound);
        self.best = Some((cost, placement));
        self.found_by = self.method;
        self.tell(instance);
        true
    }

    /// Tells that no placement costs less than `bound`.
    pub fn raise(&mut self, instance: &Instance<'_>, bound: f64) {
        debug_assert!(bound * (1.0 - PROVED) <= self.cost(), "{} proves {bound}, known {}", self.method, self.cost());
        if bound > self.bound {
            self.bound = bound;
            self.tell(instance);
        }
    }

    fn tell(&mut self, instance: &Instance<'_>) {
        let Some((cost, placement)) = &self.best else { return };
        let progress = Progress {
            objective: instance.objective,
            cost: *cost,
            bound: self.bound(),
            method: self.method,
            placement,
        };
        self.stopped |= !self.control.progress(Some(&progress));
    }

    /// The cost of the best placement; infinite while there is none.
    pub fn cost(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |(cost, _)| *cost)
    }

    /// No placement costs less than this.
    pub fn bound(&self) -> f64 {
        self.bound.min(self.cost() * (1.0 - self.slack))
    }

    /// The best placement.
    pub fn best(&self) -> Option<&Placement> {
        self.best.as_ref().map(|(_, placement)| placement)
    }

    /// Whether the best placement is proved to be the best.
    pub fn proved(&self) -> bool {
        self.best.is_some() && self.cost() - self.bound() <= PROVED * self.cost()
    }
}
