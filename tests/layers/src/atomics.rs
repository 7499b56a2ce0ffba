//! Atomics have one door, `deck-sync`: only there can the model checker take the place of the processor.
//!
//! Clippy refuses the types of `std`; this rule also sees what clippy does not compile on this machine (`cfg`), and it
//! sees functions and modules.

use crate::Finding;
use crate::source::word_offsets;
use crate::tree::File;

/// The door itself.
const DOOR: &str = "crates/sync";

/// Folders, at any depth, whose code no model checker runs: tests, applications and tools may count with plain atomics.
const EXEMPT: [&str; 8] = ["tests", "apps", "bench", "benches", "examples", "fuzz", "tools", "scripts"];

/// Uses of an atomic that did not come through the door.
pub fn raw_atomics(files: &[File]) -> Vec<Finding> {
    let suspects = files.iter().filter(|file| !file.is_in(DOOR) && !is_exempt(&file.path));
    suspects
        .flat_map(|file| {
            lines_with_raw_atomics(file).into_iter().map(|number| {
                let advice = "raw atomic: take it from deck_sync::atomic, so that the model checker can take its place";
                Finding::at_line(&file.path, number, advice)
            })
        })
        .collect()
}

fn is_exempt(path: &str) -> bool {
    let (folders, _) = path.rsplit_once('/').unwrap_or(("", path));
    folders.split('/').any(|folder| EXEMPT.contains(&folder))
}

/// Lines on which a path `sync::atomic` or `sync::{.. atomic ..}` begins, whatever spaces and line breaks it has and
/// whether it begins with `std`, `core` or `loom`.
fn lines_with_raw_atomics(file: &File) -> Vec<usize> {
    let mut packed = String::new();
    let mut line_of_byte = Vec::new();
    for (number, line) in file.lines.iter().enumerate() {
        let words = line.code.split_whitespace();
        for word in words {
            // One space between two words of a path that are no path: `use sync` must not become `usesync`.
            let needs_space = packed.ends_with(is_word_part) && word.starts_with(is_word_part);
            let start = packed.len();
            packed.push_str(if needs_space { " " } else { "" });
            packed.push_str(word);
            line_of_byte.resize(line_of_byte.len() + packed.len() - start, number);
        }
    }
    let mut found: Vec<usize> = word_offsets(&packed, "sync")
        .filter(|&offset| names_atomics(&packed[offset + "sync".len()..]))
        .map(|offset| line_of_byte[offset])
        .collect();
    found.dedup();
    found
}

fn is_word_part(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn names_atomics(after_sync: &str) -> bool {
    let Some(rest) = after_sync.strip_prefix("::") else { return false };
    let choices = if rest.starts_with('{') { braced(rest) } else { rest };
    let limit = if rest.starts_with('{') { usize::MAX } else { 1 };
    word_offsets(choices, "atomic").any(|offset| offset < limit)
}

/// From an opening brace to the one that closes it, or to the end.
fn braced(text: &str) -> &str {
    let mut depth = 0usize;
    for (offset, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..offset];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        raw_atomics(&[File::new("crates/peers/src/table.rs", text)]).len()
    }

    #[test]
    fn every_spelling_is_found() {
        assert_eq!(count("use std::sync::atomic::AtomicU32;"), 1);
        assert_eq!(count("let x = core::sync::atomic::AtomicU32::new(0);"), 1);
        assert_eq!(count("use std::{fmt, sync::{Arc, atomic::{AtomicU32, Ordering}}};"), 1);
        assert_eq!(count("use std::sync::{\n    Arc,\n    atomic::Ordering,\n};"), 1);
        assert_eq!(count("use loom::sync::atomic::fence;"), 1);
    }

    #[test]
    fn the_door_and_other_words_are_no_findings() {
        assert_eq!(count("use deck_sync::atomic::AtomicU32; // not std::sync::atomic"), 0);
        assert_eq!(count("use std::sync::{Arc, Mutex}; mod atomic {}"), 0);
        assert_eq!(count("use std::sync::Arc; use deck_sync::atomic::fence;"), 0);
        assert_eq!(count("let s = \"std::sync::atomic\";"), 0);
    }

    #[test]
    fn the_line_is_the_one_of_the_path() {
        let findings = raw_atomics(&[File::new("crates/peers/src/table.rs", "mod a;\n\nuse std::sync::atomic;")]);
        assert_eq!(findings[0].place, "crates/peers/src/table.rs:3");
    }

    #[test]
    fn tests_applications_and_the_door_are_exempt() {
        for path in
            ["crates/sync/src/atomic.rs", "crates/peers/tests/meet.rs", "apps/m/src/main.rs", "tests/x/src/lib.rs"]
        {
            assert!(raw_atomics(&[File::new(path, "use std::sync::atomic::fence;")]).is_empty(), "{path}");
        }
    }
}
