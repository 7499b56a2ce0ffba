//! Processes of other nodes: handles that tell their end, by pidfd.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::{namespace, poll};

/// This process as it stands in the job's table: its number in the lower half, the namespace of that number in the upper.
pub fn own_word() -> u64 {
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
    u64::from(namespace::processes()) << 32 | u64::from(pid)
}

/// The number of the process that stands so in the job's table, if it means something here: a process in another namespace has
/// another one, and where a namespace is not known nobody can tell.
pub fn pid_here(word: u64) -> Option<u32> {
    let namespace = (word >> 32) as u32;
    (namespace != 0 && namespace == namespace::processes()).then_some(word as u32)
}

/// A handle of the process, readable once it has ended.
///
/// # Errors
/// `SRCH` if there is no such process (any more); others if the handle may not be had.
pub fn open(pid: u32) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?;
    pidfd_open(pid, PidfdFlags::empty())
}

/// As [`open`], of the process that stands so in the job's table; `None` if there is no handle of it here.
pub fn open_here(word: u64) -> Option<OwnedFd> {
    pid_here(word).and_then(|pid| open(pid).ok())
}

/// True if the process that stands so in the job's table is there, as far as can be told without a handle.
pub fn is_there(word: u64) -> bool {
    pid_here(word).and_then(signal_zero).is_some_and(|sent| sent != Err(Errno::SRCH))
}

/// True if it is certain that the process with this number has ended; without a handle one that nobody has waited for
/// yet seems to run.
pub fn pid_has_ended(pid: u32) -> bool {
    match open(pid) {
        Ok(process) => has_ended(&process),
        Err(Errno::SRCH) => true,
        Err(_) => signal_zero(pid) == Some(Err(Errno::SRCH)),
    }
}

/// As [`pid_has_ended`], of the process that stands so in the job's table.
pub fn word_has_ended(word: u64) -> bool {
    pid_here(word).is_some_and(pid_has_ended)
}

fn signal_zero(pid: u32) -> Option<Result<(), Errno>> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).map(rustix::process::test_kill_process)
}

/// True if the process has ended, also if its parent has not waited for it yet.
pub fn has_ended(process: &OwnedFd) -> bool {
    poll::is_readable_within(process, Some(Duration::ZERO))
}
