//! Reading models and placements, and writing results; every failure names the file and what to do.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use optisci::{Model, Placement};
use serde_json::Value;

/// A model file.
pub fn model(path: &Path) -> Result<Model, String> {
    Ok(model_with_text(path)?.0)
}

/// A model file, and its text: a pipe can be read once.
pub fn model_with_text(path: &Path) -> Result<(Model, String), String> {
    let text = text(path)?;
    match Model::from_json(&text) {
        Ok(model) => Ok((model, text)),
        Err(error) => {
            let hint = if is_placement(&text) { " (this is a placement; a model is wanted here)" } else { "" };
            Err(format!("{}: {error}{hint}", path.display()))
        }
    }
}

/// A placement file of a model.
pub fn placement(path: &Path, model: &Model) -> Result<Placement, String> {
    let text = text(path)?;
    Placement::from_json(&text, model).map_err(|error| {
        let hint = if is_model(&text) { " (this is a model; a placement is wanted here)" } else { "" };
        format!("{}: {error}{hint}", path.display())
    })
}

/// Whether standard output is meant, as with most commands. A file of that name is `./-`.
pub fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Where a result went, in words.
pub fn place(path: &Path) -> String {
    if is_standard_output(path) { "standard output".to_owned() } else { path.display().to_string() }
}

/// Writes a result: the whole of it, or the file stays as it was, as far as its folder allows ([`deck_files::save`]).
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    if is_standard_output(path) {
        return super::print(text);
    }
    deck_files::save(path, |file| file.write_all(text.as_bytes())).map_err(|error| not_written(path, &error))
}

/// Tells beforehand what [`write`] would fail with; leaves everything as it was.
pub fn check_writable(path: &Path) -> Result<(), String> {
    if is_standard_output(path) {
        return Ok(());
    }
    deck_files::check_writable(path).map_err(|error| not_written(path, &error))
}

fn not_written(path: &Path, error: &io::Error) -> String {
    let why = match error.kind() {
        ErrorKind::IsADirectory => "it is a folder".to_owned(),
        ErrorKind::NotFound => "name a file in a folder that exists".to_owned(),
        _ => format!("{error}; name a file in a folder that you may write to and that has room"),
    };
    format!("{} cannot be written: {why}", path.display())
}

/// Whether somebody took the one file for the other.
fn is_placement(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|file| file["processes"].is_object() && file["topology"].is_null())
}

fn is_model(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|file| file["topology"].is_object())
}

/// Most bytes of a file that is read: what is larger is the wrong file, or has no end.
const BYTES_MAX: u64 = 1 << 30;

/// A file's text.
pub fn text(path: &Path) -> Result<String, String> {
    let bytes = bytes(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("{} cannot be read: name a file that exists", path.display()),
        ErrorKind::IsADirectory => format!("{} cannot be read: it is a folder", path.display()),
        _ => format!("{} cannot be read: {error}", path.display()),
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("{} is no text: byte {at} is not UTF-8; is it the right file?", path.display())
    })
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    // Devices have no length.
    if file.metadata()?.len() <= BYTES_MAX {
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 <= BYTES_MAX {
            return Ok(bytes);
        }
    }
    Err(io::Error::other("it has more than 1 GiB; is it the right file?"))
}
