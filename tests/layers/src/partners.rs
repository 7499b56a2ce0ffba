//! Memory orderings name their partner.
//!
//! An ordering is right only together with the one that it synchronises with. Both carry a comment with the same label,
//! as in `pairs with: ring/publish`, so that whoever changes one finds the other. A label that occurs once has lost its
//! partner, or never had one.

use std::collections::BTreeMap;

use crate::Finding;
use crate::tree::File;

const SIGN: &str = "pairs with:";

/// Labels that occur only once, and signs without a label.
pub fn without_partner(files: &[File]) -> Vec<Finding> {
    let mut places: BTreeMap<&str, Vec<(&File, usize)>> = BTreeMap::new();
    // The rule's own package speaks of labels without having orderings.
    for file in files.iter().filter(|file| !file.is_in("tests/layers")) {
        for (number, line) in file.lines.iter().enumerate() {
            for (offset, _) in line.comment.match_indices(SIGN) {
                let label = label(&line.comment[offset + SIGN.len()..]);
                places.entry(label).or_default().push((file, number));
            }
        }
    }
    let mut findings = Vec::new();
    for (label, places) in places {
        let advice = match (label, places.len()) {
            ("", _) => "names no partner: write a label, such as ring/publish, after it".to_owned(),
            (_, 1) => format!(
                "`{label}` occurs only here: put the same `{SIGN} {label}` at the other side too (a label names the \
                 meeting, not the other function; one label after each `{SIGN}`), or correct the spelling"
            ),
            _ => continue,
        };
        findings.extend(places.iter().map(|(file, number)| Finding::at_line(&file.path, *number, advice.clone())));
    }
    findings
}

/// The label at the beginning of `text`: words joined by `/`, `-`, `_` or `.`, as long as no space is between them.
fn label(text: &str) -> &str {
    let text = text.trim_start().trim_start_matches('`');
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | ':');
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    text[..end].trim_end_matches(['.', ':'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<Finding> {
        without_partner(&[File::new("crates/transport/src/ring.rs", text)])
    }

    #[test]
    fn two_of_a_label_are_partners() {
        assert!(findings("a(); // pairs with: ring/publish\nb(); // Release, pairs with: `ring/publish`.").is_empty());
    }

    #[test]
    fn a_lonely_label_is_found() {
        let found = findings("a(); // pairs with: ring/publish\nb(); // pairs with: ring/publsh");
        assert_eq!(
            found.iter().map(|f| f.place.as_str()).collect::<Vec<_>>(),
            ["crates/transport/src/ring.rs:1", "crates/transport/src/ring.rs:2"]
        );
    }

    #[test]
    fn a_sign_without_a_label_is_found() {
        assert_eq!(findings("// pairs with:\n// pairs with:").len(), 2);
    }

    #[test]
    fn strings_are_no_labels() {
        assert!(findings("let s = \"// pairs with: x\";").is_empty());
    }
}
