//! A process whose end a [`Poll`] tells, as long as somebody holds this.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::poll::Poll;
use crate::process;

/// What is known of a process that may have ended.
pub enum Process {
    /// It has.
    Ended,
    /// Its end will be told.
    Runs(Watched),
    /// It may be in another namespace, or there is no handle to be had.
    Unknown,
}

/// The handle of a process, watched by a [`Poll`] until this is dropped. Closing the handle is not enough: a child that
/// was forked holds another one, and the end would be told for as long as that lives.
pub struct Watched {
    process: OwnedFd,
    poll: Arc<Poll>,
}

impl Watched {
    /// True if the process has ended, also if that was not told yet.
    pub fn has_ended(&self) -> bool {
        process::has_ended(&self.process)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.poll.forget(&self.process);
    }
}

impl Process {
    /// Watches the process that stands so in the job's table: its end is told by `key`.
    pub fn watch(word: u64, poll: &Arc<Poll>, key: u64) -> Process {
        let process = match process::open(word) {
            Some(Ok(process)) => process,
            Some(Err(Errno::SRCH)) => return Process::Ended,
            Some(Err(_)) | None => return Process::Unknown,
        };
        if process::has_ended(&process) {
            return Process::Ended;
        }
        match poll.watch(&process, key) {
            Ok(()) => Process::Runs(Watched { process, poll: poll.clone() }),
            Err(_) => Process::Unknown,
        }
    }

    /// What watches it, if anything does.
    pub fn watched(self) -> Option<Watched> {
        match self {
            Process::Runs(watched) => Some(watched),
            Process::Ended | Process::Unknown => None,
        }
    }
}
