//! Takes the built page of the browser tool into the library, if there is one: `make web` builds it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by Cargo"));
    let folder = root.join("../../web/optisci/dist");
    // The folder is always there. A path that is missing would make Cargo build everything again each time.
    if folder.is_dir() {
        println!("cargo::rerun-if-changed={}", folder.display());
    } else {
        println!("cargo::rerun-if-changed=build.rs");
    }
    let page = folder.join("page");
    let mut files = Vec::new();
    if page.join("index.html").is_file() {
        collect(&page, &mut files);
    }
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(&page).expect("collected below it").to_string_lossy().replace('\\', "/");
        writeln!(list, "    ({name:?}, include_bytes!({:?})),", file.display().to_string()).expect("a String grows");
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
