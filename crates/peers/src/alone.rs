//! Tests that are about what a process may have, or change that: each runs in a process of its own.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Mutex;

use deck_sync::locks::lock;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

/// As many descriptors as a process may have that is alone.
pub const DESCRIPTORS_MAX: u64 = 64;

/// `nobody` on most systems; that it has no name elsewhere does not matter.
const NOBODY: u32 = 65534;
const IS_ALONE: &str = "DECK_TEST_IS_ALONE";
/// One of them at a time: descriptors on their way are counted for all processes of a user.
static TURN: Mutex<()> = Mutex::new(());

/// True in a process of its own, which may have few descriptors and no privileges. Elsewhere this runs `test`, which
/// is the calling one, in such a process, and fails if it fails there.
pub fn is_alone(test: &str) -> bool {
    if std::env::var_os(IS_ALONE).is_some() {
        limit_descriptors(DESCRIPTORS_MAX);
        return true;
    }
    let _turn = lock(&TURN);
    // By this name, as the folder that the tests were built in need not be open to others.
    let mut alone = Command::new("/proc/self/exe");
    alone.args(["--exact", test, "--nocapture"]).env(IS_ALONE, "1");
    if geteuid().is_root() {
        alone.uid(NOBODY).gid(NOBODY);
    }
    let output = alone.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}{complaint}");
    false
}

/// From now on this process, which is alone, may have so many.
pub fn limit_descriptors(most: u64) {
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..getrlimit(Resource::Nofile) }).unwrap();
}
