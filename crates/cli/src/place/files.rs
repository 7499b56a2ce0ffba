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
    let path = behind_links(path);
    let unfinished = unfinished(&path);
    let result = fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, &path));
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
    let unfinished = unfinished(&behind_links(path));
    fs::write(&unfinished, "")
        .and_then(|()| fs::remove_file(&unfinished))
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// What is not a plain file (a terminal, a pipe) cannot be replaced.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

/// The file itself, which may be replaced, where the path is a link to it, which may not.
fn behind_links(path: &Path) -> PathBuf {
    // What is not there yet has no other name.
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// What a file is called while it is being written.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.unfinished", std::process::id()));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_a_link_and_its_file_is_written() {
        let folder = std::env::temp_dir().join(format!("deck-place-links-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, link) = (folder.join("model.json"), folder.join("latest.json"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink("model.json", &link).unwrap();
        let written = try_to_write(&link).and_then(|()| write(&link, "new"));
        let found = (fs::read_to_string(&file).unwrap(), fs::symlink_metadata(&link).unwrap().is_symlink());
        let files = fs::read_dir(&folder).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((written, found, files), (Ok(()), ("new".to_owned(), true), 2));
    }
}
