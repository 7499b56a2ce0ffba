//! A model file and a placement file of it: read or refused, never a panic; what was read is written and read as the
//! same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optisci::{Costs, Model, Placement};

fuzz_target!(|input: (&str, &str)| {
    let (model, placement) = input;
    let Ok(model) = Model::from_json(model) else { return };
    assert_eq!(Model::from_json(&model.to_json()).as_ref(), Ok(&model));
    let Ok(placement) = Placement::from_json(placement, &model) else { return };
    assert_eq!(Placement::from_json(&placement.to_json(&model), &model).as_ref(), Ok(&placement));
    let evaluation = Costs::new(&model).evaluate(&placement);
    assert!(evaluation.total_ns.is_finite() && evaluation.makespan_ns <= evaluation.total_ns * 1.000_001);
});
