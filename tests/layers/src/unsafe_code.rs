//! `unsafe` is rare, stands in few crates, and always says why it is right.

use crate::Finding;
use crate::arrows::Package;
use crate::source::{Line, word_offsets};
use crate::tree::File;

/// Crates that talk to memory or to the operating system in ways that the compiler cannot check.
pub const ALLOWED: [&str; 11] = [
    "crates/sync",
    "crates/segment",
    "crates/peers",
    "crates/transport",
    "crates/launch",
    "crates/mudeck",
    "crates/c",
    "crates/python",
    // The way in and out of WebAssembly memory.
    "web/optisci/engine",
    // One fork, to test what forked children may not do.
    "tests/testkit",
    "bench/twins/kernels",
];

/// How many lines of code may stand between an `unsafe` and the comment above it: the beginning of its statement.
const LINES_BETWEEN: usize = 2;

/// Unsafe code outside the crates that may hold it.
pub fn outside_allowed_crates(files: &[File]) -> Vec<Finding> {
    let suspects = files.iter().filter(|file| !ALLOWED.iter().any(|folder| file.is_in(folder)));
    suspects
        .flat_map(|file| {
            file.lines.iter().enumerate().filter(|(_, line)| uses_unsafe(&line.code)).map(|(number, _)| {
                let advice = "unsafe code is not allowed here: put a safe call into one of the crates that may hold it \
                              (ALLOWED in tests/layers/src/unsafe_code.rs) and use that";
                Finding::at_line(&file.path, number, advice)
            })
        })
        .collect()
}

/// Libraries and programs that hold no unsafe code and do not say so to the compiler.
pub fn without_forbid(packages: &[Package], files: &[File]) -> Vec<Finding> {
    let safe = packages.iter().filter(|package| !ALLOWED.contains(&package.folder.as_str()));
    safe.flat_map(|package| &package.roots)
        .filter(|root| {
            let file = files.iter().find(|file| file.path == **root);
            !file.is_some_and(|file| file.lines.iter().any(|line| line.code.contains("#![forbid(unsafe_code)]")))
        })
        .map(|root| Finding::new(root, "add #![forbid(unsafe_code)] below the header of this file"))
        .collect()
}

/// Unsafe blocks and implementations without a reason above them.
pub fn without_reason(files: &[File]) -> Vec<Finding> {
    files
        .iter()
        .flat_map(|file| {
            (0..file.lines.len())
                .filter(|&number| needs_reason(&file.lines, number) && !has_reason(&file.lines, number))
                .map(|number| {
                    let advice = "unsafe without a reason: write `// SAFETY:` right above it, with each obligation and \
                                  why it is met here";
                    Finding::at_line(&file.path, number, advice)
                })
        })
        .collect()
}

/// The attribute `#[unsafe(...)]` counts too: an exported symbol can break a program as a pointer can.
fn uses_unsafe(code: &str) -> bool {
    word_offsets(code, "unsafe").next().is_some()
}

/// An unsafe block or an unsafe implementation begins on this line. Declarations (`unsafe fn`, `unsafe trait`) carry a
/// `# Safety` section instead, which clippy asks for.
fn needs_reason(lines: &[Line], number: usize) -> bool {
    let code = &lines[number].code;
    word_offsets(code, "unsafe").any(|offset| {
        let rest = code[offset + "unsafe".len()..].trim_start();
        let rest = if rest.is_empty() { following_code(lines, number) } else { rest };
        rest.starts_with('{') || word_offsets(rest, "impl").next() == Some(0)
    })
}

fn following_code(lines: &[Line], number: usize) -> &str {
    lines[number + 1..].iter().map(|line| line.code.trim()).find(|code| !code.is_empty()).unwrap_or("")
}

/// A comment with `SAFETY:` stands on the line itself or above it; a comment of many lines counts as one, and so do
/// several unsafe implementations in a row under one reason.
fn has_reason(lines: &[Line], number: usize) -> bool {
    let mut between = 0;
    for (above, line) in lines[..=number].iter().enumerate().rev() {
        if line.comment.contains("SAFETY:") {
            return true;
        }
        if above == number || line.is_only_comment() {
            continue;
        }
        between += 1;
        if between > LINES_BETWEEN || line.code.trim().is_empty() {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Vec<File> {
        vec![File::new("crates/segment/src/map.rs", text)]
    }

    #[test]
    fn a_block_with_a_reason_passes() {
        assert!(
            without_reason(&file("// SAFETY:\n// - a\n// - b\n// - c\n// - d\nlet x = unsafe { f() };")).is_empty()
        );
        assert!(without_reason(&file("// SAFETY: mapped above\nlet x =\n    g(unsafe { f() });")).is_empty());
        assert!(
            without_reason(&file("// SAFETY: no fields\nunsafe impl Send for X {}\nunsafe impl Sync for X {}"))
                .is_empty()
        );
    }

    #[test]
    fn a_block_without_a_reason_is_found() {
        assert_eq!(without_reason(&file("let x = unsafe { f() };"))[0].place, "crates/segment/src/map.rs:1");
        assert_eq!(without_reason(&file("unsafe\n{ f() }")).len(), 1);
        assert_eq!(without_reason(&file("unsafe impl Send for X {}")).len(), 1);
        assert_eq!(without_reason(&file("// SAFETY: of another one\na();\n\nunsafe { f() }")).len(), 1);
        assert_eq!(without_reason(&file("// SAFETY: far away\na();\nb();\nc();\nunsafe { f() }")).len(), 1);
    }

    #[test]
    fn declarations_need_no_reason_here() {
        assert!(
            without_reason(&file("pub unsafe fn f() {}\nunsafe trait T {}\n#[unsafe(no_mangle)]\nfn g() {}"))
                .is_empty()
        );
    }

    #[test]
    fn unsafe_code_is_found_outside_its_crates_only() {
        let text = "unsafe { f() }\n// unsafe\n#![forbid(unsafe_code)]";
        assert!(outside_allowed_crates(&[File::new("crates/c/src/lib.rs", text)]).is_empty());
        assert_eq!(outside_allowed_crates(&[File::new("crates/cli/src/main.rs", text)]).len(), 1);
    }

    #[test]
    fn every_other_root_forbids_it() {
        let package = |folder: &str, root: &str| Package {
            name: String::new(),
            folder: folder.to_owned(),
            uses: Vec::new(),
            roots: vec![root.to_owned()],
        };
        let packages = [package("crates/c", "c.rs"), package("apps/a", "good.rs"), package("apps/b", "bad.rs")];
        let files = [File::new("good.rs", "//! Head.\n#![forbid(unsafe_code)]"), File::new("bad.rs", "//! Head.")];
        assert_eq!(without_forbid(&packages, &files).iter().map(|f| f.place.as_str()).collect::<Vec<_>>(), ["bad.rs"]);
    }
}
