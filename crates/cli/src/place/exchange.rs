//! `deck place import` and `export`: files of other tools.

use std::path::{Path, PathBuf};

use optisci::{export, import};

use super::files;
use crate::result::{counted, remark};

/// The formats that can be read.
pub const IMPORT_HELP: &str = import::HELP;
/// The formats that can be written.
pub const EXPORT_HELP: &str = export::HELP;

/// The import format that users call `text`.
pub fn import_format(text: &str) -> Result<import::Format, String> {
    import::Format::of(text)
        .ok_or_else(|| format!("this version reads: {}", names(import::Format::ALL.iter().map(|format| format.name()))))
}

/// The export format that users call `text`.
pub fn export_format(text: &str) -> Result<export::Format, String> {
    export::Format::of(text).ok_or_else(|| {
        format!("this version writes: {}", names(export::Format::ALL.iter().map(|format| format.name())))
    })
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<&str>>().join(", ")
}

/// Makes a model, or a placement, of files.
pub fn import(format: import::Format, paths: &[PathBuf], onto: Option<&Path>, output: &Path) -> Result<(), String> {
    let base = onto.map(files::model).transpose()?;
    let texts = paths.iter().map(|path| Ok((path.display().to_string(), files::text(path)?)));
    let texts = texts.collect::<Result<Vec<(String, String)>, String>>()?;
    let inputs: Vec<import::Input<'_>> = texts.iter().map(|(name, text)| import::Input { name, text }).collect();
    let imported = import::read(format, &inputs, base).map_err(|error| error.to_string())?;
    let (text, summary) = match &imported.result {
        import::Result::Model(model) => (model.to_json(), model.summary()),
        import::Result::Placement(model, placement) => (
            placement.to_json(model),
            format!(
                "placed {} and {}",
                counted(placement.processes.len(), "process", "processes"),
                counted(placement.segments.len(), "segment", "segments")
            ),
        ),
    };
    files::write(output, &text)?;
    remark(&files::place(output), summary);
    imported.notes.iter().for_each(|note| remark("note", note));
    Ok(())
}

/// Writes a placement for another tool.
pub fn export(
    format: export::Format,
    model: &Path,
    placement: &Path,
    hosts: Vec<String>,
    output: &Path,
) -> Result<(), String> {
    let model = files::model(model)?;
    let placement = files::placement(placement, &model)?;
    let text = export::write(format, &model, &placement, &hosts).map_err(|error| error.to_string())?;
    files::write(output, &text)
}
