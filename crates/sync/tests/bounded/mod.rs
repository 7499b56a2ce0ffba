//! How far a model is explored.

/// Runs `run` in every order in which threads are stopped so many times where they need not be.
pub fn bounded(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}
