//! Named points at which a test can have this process killed or stopped.
//!
//! They exist in builds with debug assertions only; in release builds a point is nothing. `DECK_POINT=NAME` kills the
//! process when it comes to the point NAME, `NAME:3` when it comes there for the third time, and `NAME:3:stop` stops it
//! there instead.

/// This process is at the point `name`.
#[inline(always)]
pub fn point(name: &'static str) {
    #[cfg(all(debug_assertions, not(loom), not(miri)))]
    armed::reached(name);
    let _ = name;
}

#[cfg(all(debug_assertions, not(loom), not(miri)))]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Trap {
        name: String,
        times_left: AtomicU32,
        is_stop: bool,
    }

    static TRAP: OnceLock<Option<Trap>> = OnceLock::new();

    pub fn reached(name: &'static str) {
        let trap = TRAP.get_or_init(|| {
            let text = std::env::var("DECK_POINT").ok()?;
            let mut parts = text.split(':');
            let name = parts.next()?.to_string();
            let times = parts.next().and_then(|times| times.parse().ok()).unwrap_or(1);
            Some(Trap { name, times_left: AtomicU32::new(times), is_stop: parts.next() == Some("stop") })
        });
        let Some(trap) = trap.as_ref().filter(|trap| trap.name == name) else { return };
        if trap.times_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            use rustix::process::{Signal, getpid, kill_process};
            let _ = kill_process(getpid(), if trap.is_stop { Signal::STOP } else { Signal::KILL });
            // The kernel may have another thread take the signal and stop all: until then this one would go on.
            while is_stop_pending() {
                std::thread::yield_now();
            }
        }
    }

    /// No thread of this process has taken the signal yet.
    fn is_stop_pending() -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        let pending = pending.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok());
        pending.is_some_and(|signals| signals >> (rustix::process::Signal::STOP.as_raw() - 1) & 1 != 0)
    }
}
