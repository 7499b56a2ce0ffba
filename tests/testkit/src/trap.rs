//! Points at which a node of a test is killed or stopped (`deck_sync::point`).
//!
//! Release builds have none. A test with a trap says so: `cargo test --release` leaves it out, shows that, and runs all
//! others.

use std::process::Command;

/// In whose environment a process finds its trap.
pub(crate) const POINT_VARIABLE: &str = "DECK_POINT";

/// Has the program that `command` starts be killed when it comes to a point, `NAME` or `NAME:3` for the third time, or
/// be stopped there, `NAME:3:stop`.
///
/// # Panics
/// In a build without points, where the test would wait for nothing.
#[track_caller]
pub fn set_trap(command: &mut Command, point: &str) {
    if cfg!(not(debug_assertions)) {
        panic!("this build has no point {point}: mark the test as others are that set traps, #[cfg_attr(...)]");
    }
    command.env(POINT_VARIABLE, point);
}
