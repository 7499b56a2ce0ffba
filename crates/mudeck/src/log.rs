//! What DECK says about itself while it runs: nothing, unless somebody asks.

use std::cell::Cell;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once, RwLock};

use deck_sync::atomic::{AtomicU32, Ordering};
use deck_sync::locks::{read, write};
use deck_sync::{fork, signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::{Errno, ReadWriteFlags};

/// What a pipe takes in one piece, if it takes anything (`PIPE_BUF`).
const PIPE_BYTES: usize = 4096;

/// How much a line matters.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// This node is lost to its job: the others have given it up.
    Error = 1,
    /// Another node is lost: it died.
    Warn = 2,
    /// Nodes come and go.
    Info = 3,
    /// For those who work on DECK.
    Debug = 4,
}

impl LogLevel {
    /// As `DECK_LOG` names it.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
        }
    }

    /// That which `DECK_LOG` names.
    fn named(wanted: &str) -> Option<LogLevel> {
        let mut levels = [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug].into_iter();
        levels.find(|level| level.name().eq_ignore_ascii_case(wanted) || (*level as i32).to_string() == wanted)
    }
}

/// Takes a line of the log; called from any thread, also from those that DECK itself has, which others depend on: it
/// should not wait. A panic ends in it. It may call DECK, also [`set_log`]; what that would log is not said.
pub type LogSink = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

static SINK: RwLock<Option<Arc<LogSink>>> = RwLock::new(None);
/// The highest level that anybody wants to hear; 0 for none.
static WANTED: AtomicU32 = AtomicU32::new(0);
static FROM_ENVIRONMENT: Once = Once::new();

thread_local! {
    /// The calling thread is in the sink.
    static IN_SINK: Cell<bool> = const { Cell::new(false) };
}

/// Sends every line to `sink` from now on, from any thread; `None` for silence. Takes the place of `DECK_LOG`. Never
/// blocks; a thread that is in the sink that was there before goes on with that. Does nothing in a forked child.
#[doc(alias = "deck_set_log")]
pub fn set_log(sink: Option<LogSink>) {
    // Whoever has the lock may not be there.
    if fork::is_child() {
        return;
    }
    FROM_ENVIRONMENT.call_once(|| {});
    let wanted = if sink.is_some() { LogLevel::Debug as u32 } else { 0 };
    set(sink, wanted);
}

fn set(sink: Option<LogSink>, wanted: u32) {
    let mut place = write(&SINK);
    let before = std::mem::replace(&mut *place, sink.map(Arc::new));
    WANTED.store(wanted, Ordering::Relaxed);
    drop(place);
    // Outside the lock: it is the program's, and may call DECK.
    drop(before);
}

/// `DECK_LOG=error|warn|info|debug` writes lines to standard error, unless the program has set a sink of its own; so
/// does the level's number.
pub(crate) fn look_at_environment() {
    FROM_ENVIRONMENT.call_once(|| {
        let Some(level) = std::env::var("DECK_LOG").ok().and_then(|wanted| LogLevel::named(&wanted)) else { return };
        let sink: LogSink = Box::new(|level, line| write_line(format!("deck {}: {line}\n", level.name())));
        set(Some(sink), level as u32);
    });
}

/// Writes to standard error, unless that is not read at the moment, or not any more: whoever says something must not
/// wait for it, as it may be the thread that others depend on.
fn write_line(line: String) {
    let errors = std::io::stderr();
    let mut is_writable = [PollFd::new(&errors, PollFlags::OUT)];
    if poll(&mut is_writable, Some(&Timespec::default())) == Ok(1) && is_writable[0].revents().contains(PollFlags::OUT)
    {
        let bytes = &line.as_bytes()[..line.len().min(PIPE_BYTES)];
        let _ = signals::without_broken_pipe(|| write_now(errors.as_fd(), bytes));
    }
}

/// Of a pipe that is writable somebody else may take the last room in this moment. Kernels before Linux 6.4 cannot
/// write without waiting for that.
fn write_now(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    let is_pipe = rustix::fs::fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    if is_pipe {
        // At where it is: a pipe has no other place.
        let written = rustix::io::pwritev2(fd, &[IoSlice::new(bytes)], u64::MAX, ReadWriteFlags::NOWAIT);
        if !matches!(written, Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM)) {
            return written;
        }
    }
    rustix::io::write(fd, bytes)
}

/// Says a line that is only put together if somebody wants to hear it.
pub(crate) fn say(level: LogLevel, line: impl FnOnce() -> String) {
    if WANTED.load(Ordering::Relaxed) < level as u32 {
        return;
    }
    let sink = read(&SINK).clone();
    if let Some(sink) = sink
        && !IN_SINK.replace(true)
    {
        ignore_panics(move || sink(level, &line()));
        IN_SINK.set(false);
    }
}

/// Calls what is the program's, in a thread that others depend on. What it panicked with is never dropped: that may
/// panic, too.
pub(crate) fn ignore_panics(call: impl FnOnce()) {
    if let Err(panicked) = catch_unwind(AssertUnwindSafe(call)) {
        std::mem::forget(panicked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_programs_code_panicked_with_is_not_dropped_where_that_would_panic_again() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("dropped");
            }
        }
        ignore_panics(|| std::panic::panic_any(Panics));
    }

    #[test]
    fn a_level_has_a_name_in_any_case_and_a_number() {
        for (wanted, level) in [("error", 1), ("Warn", 2), ("INFO", 3), ("4", 4)] {
            assert_eq!(LogLevel::named(wanted).map(|level| level as i32), Some(level), "{wanted}");
        }
        assert!(["", "0", "5", "all", "4 "].iter().all(|wanted| LogLevel::named(wanted).is_none()));
    }

    #[test]
    #[cfg_attr(miri, ignore = "pipes")]
    fn a_pipe_that_another_one_has_filled_is_not_waited_for() {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let nothing = [IoSlice::new(b"x")];
        if rustix::io::pwritev2(&writer, &nothing, u64::MAX, ReadWriteFlags::NOWAIT).is_err() {
            return eprintln!("skipped: this kernel cannot write to a pipe without waiting");
        }
        while rustix::io::write(&writer, &[b'x'; PIPE_BYTES]).is_ok() {}
        rustix::io::ioctl_fionbio(&writer, false).unwrap();
        assert_eq!(write_now(writer.as_fd(), b"a line"), Err(Errno::AGAIN));
        while rustix::io::read(&reader, &mut [0; PIPE_BYTES]).is_ok() {}
        assert_eq!(write_now(writer.as_fd(), b"a line"), Ok(6));
        let mut line = [0; PIPE_BYTES];
        assert_eq!(rustix::io::read(&reader, &mut line), Ok(6));
        assert_eq!(&line[..6], b"a line");
    }
}
