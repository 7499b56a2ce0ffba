//! Names and sizes: a newcomer's first guess where something is must be right.

use crate::Finding;
use crate::arrows::Package;
use crate::tree::File;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] = ["utils", "util", "common", "misc", "helpers", "helper", "stuff"];

/// A file with so many lines or more holds more than one idea.
pub const LINES_PER_FILE: usize = 700;

/// Packages whose name does not follow from their folder.
pub fn packages_named_otherwise(packages: &[Package]) -> Vec<Finding> {
    packages
        .iter()
        .filter_map(|package| {
            let folder = package.folder.strip_prefix("crates/")?;
            let expected = if folder == "deck" { folder.to_owned() } else { format!("deck-{folder}") };
            (package.name != expected).then(|| {
                let advice = format!("the package is named {}: name it {expected}, after its folder", package.name);
                Finding::new(format!("{}/Cargo.toml", package.folder), advice)
            })
        })
        .collect()
}

/// Files and folders whose name is a drawer for everything.
pub fn empty_names(files: &[File]) -> Vec<Finding> {
    files
        .iter()
        .filter_map(|file| {
            let parts = file.path.split('/').map(|part| part.split('.').next().unwrap_or(part));
            let empty = parts.into_iter().find(|part| EMPTY_NAMES.contains(&part.to_lowercase().as_str()))?;
            let advice =
                format!("`{empty}` says nothing about what is inside: name it after the one idea that it holds");
            Some(Finding::new(&file.path, advice))
        })
        .collect()
}

/// Files that hold more than one idea.
pub fn long_files(files: &[File]) -> Vec<Finding> {
    files
        .iter()
        .filter_map(|file| {
            let count = file.text.lines().count();
            (count >= LINES_PER_FILE).then(|| {
                let advice = format!(
                    "has {count} lines: stay under {LINES_PER_FILE}; find the second idea in it and give that a file of its own"
                );
                Finding::new(&file.path, advice)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str) -> Package {
        Package { name: name.to_owned(), folder: folder.to_owned(), uses: Vec::new(), roots: Vec::new() }
    }

    #[test]
    fn crates_are_named_after_their_folder() {
        let good =
            [package("deck-sync", "crates/sync"), package("deck", "crates/deck"), package("mandelbrot", "apps/m")];
        assert!(packages_named_otherwise(&good).is_empty());
        assert_eq!(packages_named_otherwise(&[package("sync", "crates/sync")]).len(), 1);
        assert_eq!(packages_named_otherwise(&[package("deck-deck", "crates/deck")]).len(), 1);
    }

    #[test]
    fn drawers_are_found_as_files_and_as_folders() {
        let files = ["a/utils.rs", "a/common/mod.rs", "a/Misc.py", "a/helpers.test.ts", "a/uncommon.rs"];
        let files: Vec<_> = files.iter().map(|&path| File::new(path, "")).collect();
        assert_eq!(empty_names(&files).len(), 4);
    }

    #[test]
    fn the_limit_counts_lines() {
        let long = "//\n".repeat(LINES_PER_FILE);
        assert_eq!(long_files(&[File::new("a.rs", &long[3..]), File::new("b.rs", long)]).len(), 1);
    }
}
