//! What the tests in this crate's modules share.

pub mod talkers;

use std::time::{Duration, Instant};

/// A watchdog: whatever waits this long has failed.
pub const SOON: Duration = Duration::from_secs(20);

/// Waits until `condition` holds; `what` says what was missing if it never does.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < SOON, "never happened: {what}");
        std::thread::park_timeout(Duration::from_micros(100));
    }
}
