//! Tables of a spreadsheet: read or refused, never a panic; what was read is written and read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optisci::Model;
use optisci::import::{self, Format, Input, Result};

fuzz_target!(|text: &str| {
    let Ok(imported) = import::read(Format::Csv, &[Input { name: "input", text }], None) else { return };
    let Result::Model(model) = imported.result else { panic!("a model was asked for") };
    assert_eq!(Model::from_json(&model.to_json()).as_ref(), Ok(&model));
});
