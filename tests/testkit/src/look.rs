//! Waiting for what nobody tells: looks again and again, and leaves the processor to those who are looked at.

use std::time::Duration;

/// Between two looks. On a machine with few cores one that only yields takes as much of them as whoever it waits for.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Returns when it is time to look again.
pub fn pause() {
    std::thread::park_timeout(BETWEEN_LOOKS);
}
