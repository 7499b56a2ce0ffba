//! What the system tells in a file.

use std::fs;
use std::path::Path;

use crate::uncancelled;

/// All of the file, below `/proc` or `/sys`; `None` if it is not there, or may not be read.
pub fn told(path: impl AsRef<Path>) -> Option<String> {
    uncancelled(|| fs::read_to_string(path).ok())
}
