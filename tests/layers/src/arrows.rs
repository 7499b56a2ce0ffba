//! Arrows between crates go one way.
//!
//! The layers are an order: a crate uses only what stands above it, so that a change can break only what stands below.
//! The order is read from `cargo metadata`, which knows what a crate really asks for. Dependencies of tests alone are
//! left out: a test may look at a layer from above.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Finding;

/// The folders of `crates/`, the lowest layer first.
pub const ORDER: [&str; 14] = [
    "sync",
    "segment",
    "peers",
    "transport",
    "launch",
    "mudeck",
    "deck",
    "tile",
    "files",
    "http",
    "optisci",
    "c",
    "python",
    "cli",
];

/// What the crate `deck` may use: µDECK, and for collectives, segments and locks what these stand on.
const SERVICES_MAY_USE: [&str; 4] = ["mudeck", "sync", "segment", "peers"];

/// A package of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder, from the root of the tree.
    pub folder: String,
    /// Folders of the workspace's packages that it needs to be built, not counting what only its tests need.
    pub uses: Vec<String>,
    /// Root files of its libraries and programs, from the root of the tree.
    pub roots: Vec<String>,
}

/// The packages of the workspace at `root`, as Cargo sees them.
///
/// # Errors
/// A sentence when Cargo cannot be run or its answer cannot be read.
pub fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        .output()
        .map_err(|error| format!("cargo metadata does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata fails: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    read(&metadata).ok_or_else(|| "cargo metadata answers in an unknown form".to_owned())
}

fn read(metadata: &Value) -> Option<Vec<Package>> {
    let root = PathBuf::from(metadata["workspace_root"].as_str()?);
    let relative = |path: &str| Some(Path::new(path).strip_prefix(&root).ok()?.to_string_lossy().replace('\\', "/"));
    let read_package = |package: &Value| {
        let manifest = relative(package["manifest_path"].as_str()?)?;
        let uses = package["dependencies"].as_array()?.iter().filter(|dependency| dependency["kind"] != "dev");
        let targets = package["targets"].as_array()?.iter().filter(|target| is_library_or_program(target));
        Some(Package {
            name: package["name"].as_str()?.to_owned(),
            folder: manifest.strip_suffix("/Cargo.toml")?.to_owned(),
            uses: uses.filter_map(|dependency| relative(dependency["path"].as_str()?)).collect(),
            roots: targets.filter_map(|target| relative(target["src_path"].as_str()?)).collect(),
        })
    };
    metadata["packages"].as_array()?.iter().map(read_package).collect()
}

fn is_library_or_program(target: &Value) -> bool {
    let others = ["test", "bench", "example", "custom-build"];
    target["kind"].as_array().is_some_and(|kinds| kinds.iter().all(|kind| !others.iter().any(|other| kind == other)))
}

/// Dependencies that run against the order, and crates that have no place in it.
pub fn against_the_order(packages: &[Package]) -> Vec<Finding> {
    packages.iter().flat_map(|package| package.uses.iter().filter_map(|used| judge(package, used))).collect()
}

/// Crates that the order does not name.
pub fn without_a_place(packages: &[Package]) -> Vec<Finding> {
    let crates = packages.iter().filter(|package| package.folder.starts_with("crates/"));
    crates
        .filter(|package| place(&package.folder).is_none())
        .map(|package| {
            let advice = "has no place among the layers: add it to ORDER in tests/layers/src/arrows.rs, above all that \
                          use it and below all that it uses";
            Finding::new(&package.folder, advice)
        })
        .collect()
}

fn judge(package: &Package, used: &str) -> Option<Finding> {
    let finding = |advice: String| Some(Finding::new(format!("{}/Cargo.toml", package.folder), advice));
    // A program that tests start needs the kit of tests, and programs have no dev-dependencies of their own.
    if package.folder.starts_with("tests/") && used.starts_with("tests/") {
        return None;
    }
    // What several applications share is a package beside them.
    if package.folder.starts_with("apps/") && used.starts_with("apps/") {
        return None;
    }
    let Some(layer) = used.strip_prefix("crates/") else {
        return finding(format!(
            "depends on {used}: nothing may depend on applications, benchmarks or tests; move the shared part into a \
             crate, or make it a dev-dependency if only tests need it"
        ));
    };
    // Applications, benchmarks and tests stand below all crates; a crate without a place is a finding of its own.
    let (Some(user_place), Some(used_place)) = (place(&package.folder), place(used)) else { return None };
    if used_place >= user_place {
        return finding(format!(
            "depends on {used}, which stands below it: a crate may use only what stands above it ({}); move what it \
             needs into a higher layer, or pass it in from below as a trait or a closure",
            ORDER.join(", ")
        ));
    }
    if package.folder == "crates/deck" && !SERVICES_MAY_USE.contains(&layer) {
        return finding(format!(
            "depends on {used}: services are built on {} only; let µDECK offer what they need",
            SERVICES_MAY_USE.join(", ")
        ));
    }
    None
}

fn place(folder: &str) -> Option<usize> {
    let layer = folder.strip_prefix("crates/")?;
    ORDER.iter().position(|&other| other == layer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(folder: &str, uses: &[&str]) -> Package {
        let uses = uses.iter().map(|&used| used.to_owned()).collect();
        Package { name: folder.to_owned(), folder: folder.to_owned(), uses, roots: Vec::new() }
    }

    #[test]
    fn upward_is_allowed_downward_and_sideways_are_not() {
        assert!(against_the_order(&[package("crates/mudeck", &["crates/sync", "crates/launch"])]).is_empty());
        assert_eq!(against_the_order(&[package("crates/sync", &["crates/mudeck"])]).len(), 1);
        assert_eq!(against_the_order(&[package("crates/sync", &["crates/sync"])]).len(), 1);
    }

    #[test]
    fn services_stay_away_from_transport_and_launch() {
        assert!(against_the_order(&[package("crates/deck", &["crates/mudeck", "crates/peers"])]).is_empty());
        assert_eq!(against_the_order(&[package("crates/deck", &["crates/transport"])]).len(), 1);
    }

    #[test]
    fn applications_use_everything_and_one_another_and_are_used_by_nothing_else() {
        assert!(against_the_order(&[package("apps/mandelbrot", &["crates/deck", "crates/cli"])]).is_empty());
        assert!(against_the_order(&[package("apps/mandelbrot", &["apps/slices"])]).is_empty());
        assert_eq!(against_the_order(&[package("crates/cli", &["apps/mandelbrot"])]).len(), 1);
        assert_eq!(against_the_order(&[package("bench", &["tests/testkit"])]).len(), 1);
    }

    #[test]
    fn a_new_crate_asks_for_its_place() {
        assert_eq!(without_a_place(&[package("crates/sync", &[]), package("crates/news", &[])]).len(), 1);
    }

    #[test]
    fn metadata_is_read_without_what_only_tests_need() {
        let metadata = json!({
            "workspace_root": "/tree",
            "packages": [{
                "name": "deck-peers",
                "manifest_path": "/tree/crates/peers/Cargo.toml",
                "dependencies": [
                    { "name": "deck-sync", "kind": null, "path": "/tree/crates/sync" },
                    { "name": "deck-testkit", "kind": "dev", "path": "/tree/tests/testkit" },
                    { "name": "libc", "kind": null },
                ],
                "targets": [
                    { "kind": ["lib"], "src_path": "/tree/crates/peers/src/lib.rs" },
                    { "kind": ["test"], "src_path": "/tree/crates/peers/tests/meeting.rs" },
                ],
            }],
        });
        let expected = Package {
            name: "deck-peers".to_owned(),
            folder: "crates/peers".to_owned(),
            uses: vec!["crates/sync".to_owned()],
            roots: vec!["crates/peers/src/lib.rs".to_owned()],
        };
        assert_eq!(read(&metadata), Some(vec![expected]));
    }
}
