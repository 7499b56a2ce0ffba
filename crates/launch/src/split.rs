//! One process becomes two.

use std::fs;
use std::io;

use rustix::process::Pid;

/// Which of the two a process is after [`split`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The process that was there before. It has to wait for the other one.
    Parent {
        /// The new one.
        child: Pid,
    },
    /// The new one: a copy, with copies of all open files.
    Child,
}

/// Copies this process, which may have no thread but the calling one: a second thread could be half-way through
/// something, such as an allocation, which would stay half-way for ever in the copy.
///
/// # Errors
/// When there are other threads, when `/proc` is missing, and those of the system, when there may be no more processes.
///
/// # Blocking
/// Never.
pub fn split() -> io::Result<Half> {
    let threads = fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!("a process of {threads} threads cannot be split")));
    }
    // SAFETY: there is no other thread that could hold a lock or be half-way through something, and none can appear, as
    // only this one could start it: so the child may go on like any process.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Half::Child),
        pid => Ok(Half::Parent { child: Pid::from_raw(pid).expect("fork returns a process number") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_several_threads_is_refused() {
        // The test harness itself has another thread.
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(split().unwrap_err().to_string().contains("threads")));
        });
    }
}
