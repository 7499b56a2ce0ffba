//! Processes of other nodes: handles that tell their end, by pidfd.

pub(crate) mod namespace;
pub(crate) mod parent_only;
pub mod stat;
pub(crate) mod watched;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use deck_sync::descriptor::beyond_standard;
use deck_sync::{Error, ErrorKind, Result, control_groups, told};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::poll;

/// No number of a process has more bits (`PID_MAX_LIMIT` of Linux).
const NUMBER_BITS: u32 = 22;
const BEGIN_BITS: u32 = 32 - NUMBER_BITS;

/// This process as it stands in the job's table: its number in the lowest 22 bits, above them 10 that tell when it
/// began (0: not known), and the namespace of the number in the upper half. Numbers are given again, and a later
/// process with the same one began at another time.
///
/// The same each time, whether or not it can be asked again when it began.
pub fn own_word() -> u64 {
    static WORD: OnceLock<u64> = OnceLock::new();
    let pid = own_number();
    let of_this_process = |word: &u64| number(*word) == pid;
    let ask = || {
        let begin = if tells_begins() { begin_of(pid) } else { 0 };
        u64::from(namespace::processes()) << 32 | u64::from(begin << NUMBER_BITS | pid)
    };
    // A forked child has its parent's.
    Some(*WORD.get_or_init(ask)).filter(of_this_process).unwrap_or_else(ask)
}

/// The number of this process.
pub fn own_number() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}

/// The number of the process that stands so in the job's table, whatever it means here.
pub fn number(word: u64) -> u32 {
    word as u32 & ((1 << NUMBER_BITS) - 1)
}

/// As [`number`], if it means something here: a process in another namespace has another one, and where a namespace is
/// not known nobody can tell.
pub fn pid_here(word: u64) -> Option<u32> {
    let namespace = (word >> 32) as u32;
    (namespace != 0 && namespace == namespace::processes()).then_some(number(word))
}

/// Whether `/proc` is there and of this process's own namespace: it may be mounted from another one.
fn is_proc_ours() -> bool {
    let stat = stat::read(Path::new("/proc/self/stat")).unwrap_or_default();
    stat.starts_with(format!("{} ", own_number()).as_bytes())
}

/// Makes sure that processes are seen under their numbers.
///
/// # Errors
/// [`ErrorKind::System`], with what to do. Never blocks.
pub fn see_processes() -> Result<()> {
    if is_proc_ours() {
        return Ok(());
    }
    let is_there = Path::new("/proc/self").exists();
    let why = if is_there { "it is that of another process namespace" } else { "it is not mounted" };
    Err(Error::new(ErrorKind::System, format!("looking for processes in /proc: {why}"))
        .with_remedy("mount it for this process namespace (mount -t proc proc /proc; unshare --mount-proc)"))
}

/// What `/proc` tells here is of this process's own namespace, and in its own time: that may be moved.
fn tells_begins() -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    *TELLS.get_or_init(|| {
        let is_own = is_proc_ours();
        // Absent where there are no namespaces of time.
        let offsets = told("/proc/self/timens_offsets").unwrap_or_default();
        is_own && offsets.lines().all(|line| line.split_ascii_whitespace().skip(1).all(|offset| offset == "0"))
    })
}

/// When the process began, as far as so few bits tell; 0 if that is not to be known.
fn begin_of(pid: u32) -> u32 {
    let stat = stat::of(pid).ok();
    let ticks = stat.as_deref().and_then(stat::begin_of);
    ticks.map_or(0, |ticks| 1 + (ticks % ((1 << BEGIN_BITS) - 1)) as u32)
}

/// True if another process has the number by now of the one that stands so in the job's table.
fn is_another(word: u64, pid: u32) -> bool {
    let begin = (word as u32) >> NUMBER_BITS;
    if begin == 0 || !tells_begins() {
        return false;
    }
    let now = begin_of(pid);
    now != 0 && now != begin
}

/// A handle of the process that stands so in the job's table, readable once it has ended; `None` if its number means
/// nothing here.
///
/// # Errors
/// `SRCH` if there is no such process (any more); others if the handle may not be had.
pub fn open(word: u64) -> Option<Result<OwnedFd, Errno>> {
    pid_here(word).map(|pid| {
        let known = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?;
        let process = pidfd_open(known, PidfdFlags::empty()).and_then(beyond_standard)?;
        // Looked at after it was opened: it is the one that the handle is of, or one that came later still.
        if is_another(word, pid) { Err(Errno::SRCH) } else { Ok(process) }
    })
}

/// True if the process that stands so in the job's table is there, as far as can be told without a handle.
pub fn is_there(word: u64) -> bool {
    let is_used = |pid: &u32| signal_zero(*pid).is_some_and(|sent| sent != Err(Errno::SRCH));
    pid_here(word).filter(is_used).is_some_and(|pid| !is_another(word, pid))
}

/// True if it is certain that the process that stands so in the job's table has ended; without a handle one that nobody
/// has waited for yet seems to run.
pub fn word_has_ended(word: u64) -> bool {
    match open(word) {
        None => false,
        Some(Ok(process)) => has_ended(&process),
        Some(Err(Errno::SRCH)) => true,
        Some(Err(_)) => pid_here(word).and_then(signal_zero) == Some(Err(Errno::SRCH)),
    }
}

fn signal_zero(pid: u32) -> Option<Result<(), Errno>> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).map(rustix::process::test_kill_process)
}

/// True if the process has ended, also if its parent has not waited for it yet.
pub fn has_ended(process: &OwnedFd) -> bool {
    poll::is_readable_within(process, Some(Duration::ZERO))
}

/// True if a signal or a debugger has stopped the process, or its control group is frozen.
pub fn is_stopped(pid: u32) -> bool {
    stat::of(pid).is_ok_and(|stat| stat::state_of(&stat).is_some_and(stat::is_stopped))
        || control_groups::are_frozen(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_process_with_the_same_number_is_another_one() {
        let own = own_word();
        assert!(own as u32 >> NUMBER_BITS != 0, "this test needs a /proc of its own namespace");
        assert_eq!(pid_here(own), Some(std::process::id()));
        assert!(is_there(own) && !word_has_ended(own));
        let begun_at = |begin: u32| own >> 32 << 32 | u64::from(begin << NUMBER_BITS | std::process::id());
        let another = begun_at(if own == begun_at(1) { 2 } else { 1 });
        assert!(!is_there(another) && word_has_ended(another));
        assert_eq!(open(another).map(|opened| opened.err()), Some(Some(Errno::SRCH)));
        let not_known = begun_at(0);
        assert!(is_there(not_known) && !word_has_ended(not_known));
        // No process has this number: nothing is certain of it.
        let none = own >> 32 << 32;
        assert!(!is_there(none) && !word_has_ended(none));
    }
}
