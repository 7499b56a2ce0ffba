//! A time limit for a test of several processes.
//!
//! When it passes, every process of the job is killed, so that whatever the test waits for ends and the test fails;
//! should even that not end it, the test program is aborted.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long a test that has lost all its processes may take to notice.
const LAST_CHANCE: Duration = Duration::from_secs(15);

/// Watches until it is dropped.
pub struct Watchdog {
    _alive: Sender<()>,
}

impl Watchdog {
    /// Calls `bite` after `limit`; `repeat` says how to run the test again.
    pub fn start(limit: Duration, repeat: String, bite: impl FnOnce() + Send + 'static) -> Watchdog {
        let (alive, ended) = channel::<()>();
        std::thread::spawn(move || {
            if ended.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            eprintln!(
                "watchdog: the test hangs: {limit:?} are over, its processes are killed; repeat it with\n  {repeat}"
            );
            bite();
            if ended.recv_timeout(LAST_CHANCE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("watchdog: the test does not end without its processes either");
                std::process::abort();
            }
        });
        Watchdog { _alive: alive }
    }
}
