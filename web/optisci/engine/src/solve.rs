//! The search, with its clock and its reports given by the page.

use std::time::Duration;

use optisci::model::Objective;
use optisci::placement::Placement;
use optisci::search::{self, Control, Options, Progress};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::session::Session;

/// Between two reports passes at least this; the last word is the outcome.
const BETWEEN_REPORTS: Duration = Duration::from_millis(40);

/// What the page asks for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What to make small.
    pub objective: Objective,
    /// When to come back.
    pub seconds: f64,
    /// Where random choices start.
    pub seed: u64,
}

struct Reporter<'a> {
    now_ms: &'a dyn Fn() -> f64,
    report: &'a mut dyn FnMut(&Value),
    start_ms: f64,
    last: Option<Duration>,
    /// What came too soon after another report.
    waiting: Option<Incumbent>,
}

struct Incumbent {
    cost: f64,
    bound: f64,
    method: String,
    elapsed: Duration,
    placement: Placement,
}

impl Control for Reporter<'_> {
    fn elapsed(&self) -> Duration {
        // A clock that was set back is not worth a panic.
        Duration::from_secs_f64(((self.now_ms)() - self.start_ms).max(0.0) / 1000.0)
    }

    fn progress(&mut self, incumbent: Option<&Progress<'_>>) -> bool {
        if incumbent.is_none() && self.waiting.is_none() {
            return true;
        }
        let elapsed = self.elapsed();
        if let Some(&Progress { cost, bound, method, placement, .. }) = incumbent {
            let (method, placement) = (method.to_owned(), placement.clone());
            self.waiting = Some(Incumbent { cost, bound, method, elapsed, placement });
        }
        if self.last.is_none_or(|last| elapsed >= last + BETWEEN_REPORTS)
            && let Some(incumbent) = self.waiting.take()
        {
            self.last = Some(elapsed);
            (self.report)(&json!({
                "cost": finite(incumbent.cost),
                "bound": finite(incumbent.bound),
                "method": incumbent.method,
                "seconds": incumbent.elapsed.as_secs_f64(),
                "placement": indices(&incumbent.placement),
            }));
        }
        true
    }
}

impl Session {
    /// Searches, telling the page about better placements as they are found. Whoever wants to stop it ends the worker
    /// that it runs in, and keeps what was reported last.
    pub fn solve(&self, request: &Request, now_ms: &dyn Fn() -> f64, report: &mut dyn FnMut(&Value)) -> Value {
        let options = Options {
            objective: Some(request.objective),
            time_limit: Some(Duration::from_secs_f64(request.seconds.clamp(0.0, 86_400.0))),
            seed: request.seed,
        };
        let mut reporter = Reporter { now_ms, report, start_ms: now_ms(), last: None, waiting: None };
        let outcome = search::solve(&self.model, &options, &mut reporter);
        json!({
            "status": outcome.status,
            "cost": outcome.cost,
            "bound": outcome.bound.and_then(finite),
            "gap": outcome.gap.and_then(finite),
            "method": outcome.method,
            "seed": outcome.seed,
            "seconds": outcome.seconds,
            "placement": outcome.placement.as_ref().map(indices),
            "reason": outcome.reason,
        })
    }
}

/// JSON has no infinity: nothing is known yet.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// A placement as the page holds it: by indices, copies as lists.
pub(crate) fn indices(placement: &Placement) -> Value {
    let segments: Vec<_> = placement.segments.iter().map(|home| home.nodes()).collect();
    json!({ "processes": placement.processes, "segments": segments })
}
