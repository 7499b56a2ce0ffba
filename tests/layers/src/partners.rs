//! Memory orderings name their partner.
//!
//! An ordering is right only together with the one that it synchronises with. Both carry a comment with the same label,
//! as in `pairs with: ring/publish`, so that whoever changes one finds the other. A label that occurs once has lost its
//! partner, or never had one. Relaxed orders nothing and needs no label.

use std::collections::BTreeMap;

use crate::Finding;
use crate::source::{Line, word_offsets};
use crate::tree::File;

/// In lower case: at the beginning of a sentence it is written with a capital.
const SIGN: &str = "pairs with:";

const ORDERINGS: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

/// Folders, at any depth, whose orderings nobody has to pair: tests and models say what they want to see, not how it is
/// done.
const EXEMPT: [&str; 5] = ["tests", "bench", "benches", "examples", "fuzz"];

/// Labels that occur only once, and signs without a label.
pub fn without_partner(files: &[File]) -> Vec<Finding> {
    let mut places: BTreeMap<String, Vec<(&File, usize)>> = BTreeMap::new();
    // The rule's own package speaks of labels without having orderings.
    for file in files.iter().filter(|file| !file.is_in("tests/layers")) {
        for (number, line) in file.lines.iter().enumerate() {
            for label in labels(&line.comment) {
                places.entry(label).or_default().push((file, number));
            }
        }
    }
    let mut findings = Vec::new();
    for (label, places) in places {
        let advice = match (label.contains('/'), places.len()) {
            (false, _) => "names no partner: write a label, such as ring/publish, after it".to_owned(),
            (true, 1) => format!(
                "`{label}` occurs only here: put the same `{SIGN} {label}` at the other side too (a label names the \
                 meeting, not the other function; one label after each `{SIGN}`), or correct the spelling"
            ),
            (true, _) => continue,
        };
        findings.extend(places.iter().map(|(file, number)| Finding::at_line(&file.path, *number, advice.clone())));
    }
    findings
}

/// Orderings that name no partner: neither in their statement, up to where they stand, nor in the comment directly
/// above it.
pub fn without_label(files: &[File]) -> Vec<Finding> {
    let advice = format!(
        "an ordering without a partner: write `{SIGN} <label>`, such as ring/publish, in the comment directly above the \
         statement, and the same label at the other side"
    );
    let judged = files.iter().filter(|file| file.is_rust() && !is_exempt(&file.path));
    judged
        .flat_map(|file| {
            let lines = before_the_tests(&file.lines);
            let suspects = (0..lines.len()).filter(|&number| orders(lines, number) && !is_labelled(lines, number));
            suspects.map(|number| Finding::at_line(&file.path, number, advice.clone()))
        })
        .collect()
}

fn is_exempt(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    name == "tests.rs" || folders.split('/').any(|folder| EXEMPT.contains(&folder))
}

/// A file's tests stand at its end, in a module of their own.
fn before_the_tests(lines: &[Line]) -> &[Line] {
    let begins = |pair: &[Line]| {
        word_offsets(&pair[0].code, "test").next().is_some()
            && pair[0].code.starts_with("#[cfg(")
            && pair[1].code.starts_with("mod ")
    };
    &lines[..lines.windows(2).position(begins).unwrap_or(lines.len())]
}

fn orders(lines: &[Line], number: usize) -> bool {
    let code = &lines[number].code;
    let is_import = word_offsets(code, "use").next().is_some_and(|offset| code[..offset].trim().is_empty());
    !is_import && ORDERINGS.iter().any(|ordering| word_offsets(code, ordering).next().is_some())
}

fn is_labelled(lines: &[Line], number: usize) -> bool {
    let has_label = |line: &Line| labels(&line.comment).any(|label| label.contains('/'));
    if has_label(&lines[number]) {
        return true;
    }
    let above = lines[..number].iter().rev();
    above.take_while(|line| line.is_only_comment() || goes_on(&line.code)).any(has_label)
}

/// The statement that this line is a part of goes on in the next one.
fn goes_on(code: &str) -> bool {
    let code = code.trim_end();
    !code.is_empty() && !code.ends_with([';', '{', '}'])
}

/// The labels in a comment, one after each sign: empty where none follows.
fn labels(comment: &str) -> impl Iterator<Item = String> {
    let comment = comment.to_ascii_lowercase();
    let ends: Vec<usize> = comment.match_indices(SIGN).map(|(offset, sign)| offset + sign.len()).collect();
    ends.into_iter().map(move |end| label(&comment[end..]).to_owned())
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
    fn a_sign_counts_wherever_it_stands_in_a_sentence() {
        assert!(findings("a(); // Release: pairs with: a/b\nb(); // Pairs with: a/b. So b is after a.").is_empty());
        assert_eq!(findings("a(); // Pairs with: a/b.").len(), 1);
    }

    #[test]
    fn a_word_is_no_label() {
        assert_eq!(findings("// Pairs with: the fence of b.\n// Pairs with: the fence of a.").len(), 2);
    }

    #[test]
    fn strings_are_no_labels() {
        assert!(findings("let s = \"// pairs with: x\";").is_empty());
    }

    fn unlabelled(text: &str) -> Vec<String> {
        let found = without_label(&[File::new("crates/transport/src/ring.rs", text)]);
        found.into_iter().map(|finding| finding.place.replace("crates/transport/src/ring.rs:", "")).collect()
    }

    #[test]
    fn an_ordering_with_a_label_passes() {
        for text in [
            "a.load(Ordering::Acquire); // pairs with: a/b",
            "// Acquire: pairs with: a/b. The reason\n// goes on.\nlet x = a.load(Ordering::Acquire);",
            "// Pairs with: a/b.\nlet x = a\n    .first()\n    // A word about this.\n    .load(Ordering::Acquire);",
            "a.load(Ordering::Relaxed);\nuse std::sync::atomic::Ordering::{Acquire, Release};\nlet s = \"Ordering::Acquire\";",
        ] {
            assert!(unlabelled(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn an_ordering_without_a_label_is_found() {
        assert_eq!(unlabelled("a.load(Ordering::SeqCst);\nfence(Release);"), ["1", "2"]);
        // The label of one statement is not that of the next.
        assert_eq!(unlabelled("// pairs with: a/b\na.load(Ordering::Acquire);\nb.load(Ordering::Acquire);"), ["3"]);
        assert_eq!(unlabelled("// pairs with: a/b\n\na.load(Ordering::Acquire);"), ["3"]);
        assert_eq!(unlabelled("// pairs with: the other one\na.load(Ordering::Acquire);"), ["2"]);
    }

    #[test]
    fn tests_and_models_order_as_they_like() {
        let text = "#[cfg(all(test, not(loom)))]\nmod tests {\n    a.load(Ordering::SeqCst);\n}";
        assert!(unlabelled(text).is_empty());
        for path in ["crates/sync/tests/loom_wait.rs", "crates/c/src/handle/tests.rs", "bench/peers/rust/src/lib.rs"] {
            assert!(without_label(&[File::new(path, "a.load(Ordering::SeqCst);")]).is_empty(), "{path}");
        }
    }
}
