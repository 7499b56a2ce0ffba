//! Names the shared library for the loader.
//!
//! Programs that link `-ldeck` ask for `libdeck.so.0` at run time: a release that breaks the C API raises that number,
//! and old programs keep their old library. Programs linked against the build folder itself must find that name there
//! too, hence the symbolic link beside `libdeck.so`.

use std::path::Path;
use std::{env, fs};

const SONAME: &str = "libdeck.so.0";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");

    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let profile_folder = Path::new(&out).ancestors().nth(3).expect("OUT_DIR is <profile>/build/<package>/out");
    let link = profile_folder.join(SONAME);
    if fs::symlink_metadata(&link).is_err() {
        // Another build script of the same folder may win the race; what counts is that the link is there.
        let made = std::os::unix::fs::symlink("libdeck.so", &link);
        assert!(made.is_ok() || fs::symlink_metadata(&link).is_ok(), "cannot link {}: {made:?}", link.display());
    }
}
