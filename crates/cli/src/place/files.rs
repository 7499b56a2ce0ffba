//! Reading models and placements, and writing results; every failure names the file and what to do.

use std::fs;
use std::path::{Path, PathBuf};

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

/// Writes a result: the whole of it, or the file stays as it was.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{} cannot be written: {error}", path.display());
    if is_special(path) {
        return fs::write(path, text).map_err(failed);
    }
    let unfinished = unfinished(path);
    let result = fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, path));
    if result.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    result.map_err(failed)
}

/// Tells beforehand what [`write`] would fail with; leaves everything as it was.
pub fn try_to_write(path: &Path) -> Result<(), String> {
    if path.is_dir() {
        return Err(format!("{} cannot be written: it is a folder", path.display()));
    }
    if is_special(path) {
        return Ok(());
    }
    let unfinished = unfinished(path);
    fs::write(&unfinished, "")
        .and_then(|()| fs::remove_file(&unfinished))
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// What is not a plain file (a terminal, a pipe) cannot be replaced.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

/// What a file is called while it is being written.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.unfinished", std::process::id()));
    name.into()
}
