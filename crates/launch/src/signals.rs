//! Signals as something to poll for: a launcher waits for them like for everything else and installs no handler.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// Signals that were taken away from their default action, as a descriptor that is readable when one arrived.
pub struct Signals(OwnedFd);

impl Signals {
    /// From now on `signals` are blocked in this thread (and in threads it starts) and told by [`Signals::next`]. A
    /// SIGHUP that is ignored, as under `nohup`, stays ignored. Programs that [`Launch`](crate::Launch) starts get none
    /// of this.
    ///
    /// # Errors
    /// The system's, when no more files may be opened, or for a number that is no signal.
    pub fn take(signals: &[libc::c_int]) -> io::Result<Signals> {
        // SAFETY: `set` is initialized by sigemptyset before anything reads it; `action` is written by sigaction before
        // it is read, or not read; the new descriptor belongs to nobody else.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for &signal in signals {
                let mut action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &mut action);
                if signal != libc::SIGHUP || action.sa_sigaction != libc::SIG_IGN {
                    libc::sigaddset(&mut set, signal);
                }
            }
            if libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(Signals(OwnedFd::from_raw_fd(fd))),
            }
        }
    }

    /// A signal that arrived, without waiting.
    pub fn next(&self) -> Option<libc::c_int> {
        let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut bytes)).ok()?;
        // The number is the first field.
        let number = bytes[..length].first_chunk::<4>()?;
        Some(libc::c_int::from_ne_bytes(*number))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Lets this process wait for its children even if whoever started it ignores SIGCHLD, which would be inherited.
pub fn expect_children() {
    // SAFETY: the default action is no handler, so nothing runs that would have to be safe in one.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// A signal's usual name, for messages.
pub fn name(signal: i32) -> String {
    let known = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGSTKFLT, "SIGSTKFLT"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGVTALRM, "SIGVTALRM"),
        (libc::SIGPROF, "SIGPROF"),
        (libc::SIGIO, "SIGIO"),
        (libc::SIGPWR, "SIGPWR"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    known
        .iter()
        .find(|(number, _)| *number == signal)
        .map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_that_ends_a_process_has_its_usual_name() {
        let mild = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];
        let stopping = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        for signal in (1..32).filter(|signal| !mild.contains(signal) && !stopping.contains(signal)) {
            assert!(name(signal).starts_with("SIG"), "{signal}");
        }
        assert_eq!((name(libc::SIGSYS).as_str(), name(34).as_str()), ("SIGSYS", "signal 34"));
    }
}
