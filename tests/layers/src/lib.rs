//! The rules of the source tree, as code that reads it.
//!
//! A rule that nobody checks is a wish. Each module here knows one rule, takes the tree as text and answers with
//! findings: where, what is wrong, and what to do. The modules are tested on small snippets of their own, so that a
//! rule that has gone blind is noticed; `tests/layers.rs` holds them against the real tree. Nothing here compiles or
//! runs the code that it judges, so a rule also holds for code behind a `cfg` that is off.
#![forbid(unsafe_code)]

pub mod aliases;
pub mod arrows;
pub mod atomics;
pub mod comments;
pub mod error_pages;
pub mod fences;
pub mod links;
pub mod names;
pub mod partners;
pub mod source;
pub mod tree;
pub mod unsafe_code;
pub mod variables;

use std::fmt;

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// File, or file and line, relative to the root of the tree.
    pub place: String,
    /// What is wrong and what to do about it.
    pub advice: String,
}

impl Finding {
    /// A finding about a whole file, folder or package.
    pub fn new(place: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { place: place.into(), advice: advice.into() }
    }

    /// A finding about a line, counted from 0 as in a slice of lines and shown from 1 as in an editor.
    pub fn at_line(file: &str, line: usize, advice: impl Into<String>) -> Finding {
        Finding::new(format!("{file}:{}", line + 1), advice)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.advice)
    }
}
