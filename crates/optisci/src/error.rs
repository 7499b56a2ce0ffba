//! The one error of this crate: where in the input, what was expected there, what to do.

use std::fmt;

/// Why a model, a placement or a file of another tool was not understood, or could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    file: Option<String>,
    place: Place,
    message: String,
}

/// Where in an input something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A field of a JSON text, as `accesses[3].size`; empty for the text as a whole.
    Path(String),
    /// A line of a text, counted from 1.
    Line(usize),
    /// No place: the input as a whole.
    Whole,
}

impl Error {
    /// An error at a field of a JSON text.
    pub fn at_path(path: impl Into<String>, message: impl Into<String>) -> Error {
        Error { file: None, place: Place::Path(path.into()), message: message.into() }
    }

    /// An error at a line of a text, counted from 1.
    pub fn at_line(line: usize, message: impl Into<String>) -> Error {
        Error { file: None, place: Place::Line(line), message: message.into() }
    }

    /// An error of an input as a whole.
    pub fn whole(message: impl Into<String>) -> Error {
        Error { file: None, place: Place::Whole, message: message.into() }
    }

    /// The same error, of the input of this name.
    pub fn in_file(mut self, name: &str) -> Error {
        self.file = Some(name.to_owned());
        self
    }

    /// The input that it is in, where there are several.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What was found there and what was expected.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        match &self.place {
            Place::Path(path) if !path.is_empty() => write!(f, "{path}: {}", self.message),
            Place::Line(line) => write!(f, "line {line}: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}
