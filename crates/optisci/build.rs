//! Takes the page of the browser tool into the library: the one that `make web` has built here, or else the one that is
//! kept in the tree, so that no build needs Node.js.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    // The engine inside the page serves no page. Looking at one would build it again each time that the page has
    // changed.
    if env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        println!("cargo::rerun-if-changed=build.rs");
        return;
    }
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by Cargo")).join("../../web/optisci");
    // Both folders are always there. A path that is missing would make Cargo build everything again each time.
    let folders = [root.join("dist"), root.join("built")];
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    let [dist, built] = folders;
    let page = [dist.join("page"), built].into_iter().find(|page| page.join("index.html").is_file());
    let mut list = String::from("&[\n");
    if let Some(page) = page {
        let mut files = Vec::new();
        collect(&page, &mut files);
        files.sort();
        for file in files {
            let name = file.strip_prefix(&page).expect("collected below it").to_string_lossy().replace('\\', "/");
            writeln!(list, "    ({name:?}, include_bytes!({:?})),", file.display().to_string())
                .expect("a String grows");
        }
    }
    list.push(']');
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("set by Cargo")).join("page.rs");
    fs::write(&output, list).unwrap_or_else(|error| panic!("{}: {error}", output.display()));
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
