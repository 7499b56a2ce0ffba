//! A partition of METIS, of the scheduler's graph: read or refused, never a panic; what was read is written and read as
//! the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optisci::import::{self, Format, Input, Result};
use optisci::{Costs, Model, Placement, table1};

fuzz_target!(|text: &str| {
    let model = Model::from_json(table1::SCHEDULER).expect("the example is a model");
    let Ok(imported) = import::read(Format::MetisPart, &[Input { name: "input", text }], Some(model)) else { return };
    let Result::Placement(model, placement) = imported.result else { panic!("a placement was asked for") };
    assert_eq!(Placement::from_json(&placement.to_json(&model), &model).as_ref(), Ok(&placement));
    Costs::new(&model).evaluate(&placement);
});
