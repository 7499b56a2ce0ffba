//! What `make install` does behind the build: where files go, what `deck.pc` says, and what `make uninstall` leaves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    /// A folder with stand-ins for what is built; its name is one that a shell would take apart.
    fn new() -> Folder {
        let folder = tempfile::Builder::new().prefix("deck install's & | ").tempdir().unwrap();
        let built = folder.path().join("built");
        fs::create_dir(&built).unwrap();
        for product in ["deck", "libdeck.so"] {
            fs::copy("/bin/true", built.join(product)).unwrap();
        }
        fs::write(built.join("libdeck.a"), "").unwrap();
        Folder(folder)
    }

    fn install(&self, prefix: &Path, arguments: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install");
        let mut command = Command::new(script);
        command.args(arguments).env("PREFIX", prefix).env("DESTDIR", "").current_dir(self.0.path());
        command.env("RELEASE", self.0.path().join("built")).env("VERSION", "1.2.3").output().unwrap()
    }
}

fn files(folder: &Path) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found.sort();
    found
}

#[test]
fn every_file_is_found_wherever_it_is_installed_and_goes_again() {
    let folder = Folder::new();
    // The second one is relative.
    for prefix in [folder.0.path().join("in st #1"), PathBuf::from("beside")] {
        let there = folder.0.path().join(&prefix);
        let installed = folder.install(&prefix, &[]);
        assert!(installed.status.success(), "{installed:?}");
        let expected = ["deck", "deck.h", "deck.pc", "libdeck.a", "libdeck.so", "libdeck.so.0"];
        assert_eq!(files(&there), expected);
        assert!(Command::new(there.join("bin/deck")).status().unwrap().success());
        let described = fs::read_to_string(there.join("lib/pkgconfig/deck.pc")).unwrap();
        let written = there.display().to_string().replace('#', "\\#");
        assert_eq!(described.lines().next().unwrap(), format!("prefix={written}"));
        assert!(described.contains("Version: 1.2.3\n"), "{described}");

        fs::write(there.join("bin/other"), "").unwrap();
        let removed = folder.install(&prefix, &["--remove"]);
        assert!(removed.status.success(), "{removed:?}");
        assert_eq!(files(&there), ["other"]);
    }
}

#[test]
fn without_products_it_says_what_to_run() {
    let folder = Folder::new();
    fs::remove_file(folder.0.path().join("built/libdeck.so")).unwrap();
    let refused = folder.install(Path::new("beside"), &[]);
    assert!(!refused.status.success() && !folder.0.path().join("beside").exists());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("run: make build"), "{refused:?}");
}
