//! Reading models and placements; every failure names the file and what to do.

use std::fs;
use std::path::Path;

use optisci::{Model, Placement};
use serde_json::Value;

/// A model file.
pub fn model(path: &Path) -> Result<Model, String> {
    let text = text(path)?;
    Model::from_json(&text).map_err(|error| {
        let hint = if is_placement(&text) { " (this is a placement; a model is wanted here)" } else { "" };
        format!("{}: {error}{hint}", path.display())
    })
}

/// A placement file of a model.
pub fn placement(path: &Path, model: &Model) -> Result<Placement, String> {
    let text = text(path)?;
    Placement::from_json(&text, model).map_err(|error| {
        let hint = if is_model(&text) { " (this is a model; a placement is wanted here)" } else { "" };
        format!("{}: {error}{hint}", path.display())
    })
}

/// Whether somebody took the one file for the other.
fn is_placement(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|file| file["processes"].is_object() && file["topology"].is_null())
}

fn is_model(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|file| file["topology"].is_object())
}

/// A file's text.
pub fn text(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("{} is no text: byte {at} is not UTF-8; is it the right file?", path.display())
    })
}
