//! Files of other tools, dropped onto the page or saved from it.

use optisci::import::{self, Input};
use optisci::{Error, Model, export};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::session::Session;
use crate::solve::indices;

/// Files that were dropped together.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dropped {
    /// All of one format, which is guessed from the first.
    pub files: Vec<File>,
}

/// One file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Reads files; what they do not tell is taken from `base`, the model that is open.
///
/// # Errors
/// The file, the line or the JSON path, and what was expected there.
pub fn read(dropped: &Dropped, base: Option<&Model>) -> Result<Value, Error> {
    let first = dropped.files.first().ok_or_else(|| Error::whole("no file was dropped"))?;
    let format = import::Format::guess(&first.name, &first.text).ok_or_else(|| {
        let formats = "a model or placement (.json), .csv, .mat, .prof, hwloc .xml, METIS .graph or .part.N, Scotch .grf, .tgt or .map";
        Error::whole(format!("{}: no format that is known here; {formats} can be opened", first.name))
    })?;
    let inputs: Vec<_> = dropped.files.iter().map(|file| Input { name: &file.name, text: &file.text }).collect();
    // A model file says everything itself.
    let base = base.filter(|_| format != import::Format::Json).cloned();
    let imported = import::read(format, &inputs, base)?;
    let notes = imported.notes;
    Ok(match imported.result {
        import::Result::Model(model) => {
            json!({ "format": format.name(), "notes": notes, "model": model.to_json(), "placement": null })
        }
        import::Result::Placement(_, placement) => {
            json!({ "format": format.name(), "notes": notes, "model": null, "placement": indices(&placement) })
        }
    })
}

impl Session {
    /// The shown placement for another tool.
    ///
    /// # Errors
    /// When the format is unknown or cannot express the placement.
    pub fn export(&self, format: &str) -> Result<String, Error> {
        let format = export::Format::of(format).ok_or_else(|| Error::whole(format!("there is no format {format}")))?;
        export::write(format, &self.model, &self.placement, &[])
    }
}
