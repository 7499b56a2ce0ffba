//! The files of the source tree, read once.
//!
//! The tree is walked as it lies on the disk, so that the rules also hold for files that are not committed yet and for
//! a tree without a repository. Products (`target`, `node_modules`, `dist`) and hidden folders are left out.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::source::{self, Line};

/// Folders that hold source code.
const SOURCE_FOLDERS: [&str; 8] = ["crates", "apps", "examples", "tests", "bench", "fuzz", "web", "scripts"];
/// Folders that hold what tools made or fetched.
const PRODUCT_FOLDERS: [&str; 5] = ["target", "node_modules", "dist", "__pycache__", "corpus"];
/// Endings of files that people write as code.
const SOURCE_ENDINGS: [&str; 10] = ["rs", "c", "h", "cpp", "py", "ts", "js", "svelte", "css", "sh"];

/// One source file.
pub struct File {
    /// Path from the root of the tree, with `/` on every system.
    pub path: String,
    /// Its content.
    pub text: String,
    /// Its lines taken apart, for Rust files; empty for others.
    pub lines: Vec<Line>,
}

impl File {
    /// A file from its content, as the walk makes it and as the tests of the rules make it.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> File {
        let (path, text) = (path.into(), text.into());
        let lines = if path.ends_with(".rs") { source::lines(&text) } else { Vec::new() };
        File { path, text, lines }
    }

    /// Written in Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Written for a shell.
    pub fn is_shell(&self) -> bool {
        self.path.ends_with(".sh")
            || self.text.lines().next().is_some_and(|first| first.starts_with("#!") && first.ends_with("sh"))
    }

    /// Lies in `folder`, which is given from the root without a closing `/`.
    pub fn is_in(&self, folder: &str) -> bool {
        self.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// The root of the tree that this package is part of.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("the package lies two folders below the root").to_path_buf()
}

/// Every source file of the tree at `root`, in the order of their paths.
///
/// # Panics
/// When a folder or a file cannot be read: a rule must not pass because it saw half of the tree.
pub fn source_files(root: &Path) -> Vec<File> {
    files_in(root, &SOURCE_FOLDERS, is_source)
}

/// Every page of documentation of the tree at `root`, in the order of their paths.
///
/// # Panics
/// As [`source_files`].
pub fn pages(root: &Path) -> Vec<File> {
    let is_page = |path: &Path| path.extension().is_some_and(|ending| ending == "md");
    let mut pages = files_in(root, &[&SOURCE_FOLDERS[..], &["docs"]].concat(), is_page);
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        pages.push(File::new(name, text));
    }
    pages
}

fn files_in(root: &Path, folders: &[&str], is_wanted: impl Fn(&Path) -> bool) -> Vec<File> {
    let mut files = Vec::new();
    for folder in folders {
        let folder = root.join(folder);
        if folder.is_dir() {
            walk(root, &folder, &is_wanted, &mut files);
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn walk(root: &Path, folder: &Path, is_wanted: &impl Fn(&Path) -> bool, files: &mut Vec<File>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if kind.is_dir() && !name.starts_with('.') && !PRODUCT_FOLDERS.contains(&name.as_str()) {
            walk(root, &path, is_wanted, files);
        } else if kind.is_file() && is_wanted(&path) {
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let relative = path.strip_prefix(root).expect("the walk starts at the root");
            files.push(File::new(relative.to_string_lossy().replace('\\', "/"), text));
        }
    }
}

/// Is `name` that of a file which people write as code?
pub fn has_source_ending(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, ending)| SOURCE_ENDINGS.contains(&ending))
}

fn is_source(path: &Path) -> bool {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some(ending) => SOURCE_ENDINGS.contains(&ending),
        None => is_script(path),
    }
}

/// A command that is written in a shell's or another language, which its first line names.
fn is_script(path: &Path) -> bool {
    let mut begin = [0; 2];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *b"#!"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_finds_this_very_file() {
        let files = source_files(&root());
        assert!(files.iter().any(|file| file.path == "tests/layers/src/tree.rs" && file.is_in("tests/layers")));
        assert!(files.iter().all(|file| !file.path.contains("/target/")));
    }

    #[test]
    fn commands_without_an_ending_are_found() {
        let files = source_files(&root());
        assert!(files.iter().any(|file| file.path == "bench/compare" && file.is_shell()));
        assert!(!files.iter().any(|file| file.path.ends_with("/Cargo.lock")));
    }

    #[test]
    fn a_folder_is_not_the_beginning_of_a_name() {
        assert!(!File::new("crates/sync_more/src/lib.rs", "").is_in("crates/sync"));
    }
}
