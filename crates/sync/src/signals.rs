//! What keeps signals away for a moment: they are the program's, and no handler is ever installed.

use std::mem::MaybeUninit;
use std::ptr;

/// What a thread raises by what it does itself.
const OWN_FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Acts while a write to a pipe or socket that nobody reads any more fails, and that is all: for descriptors of a
/// program that such a write would end. Other threads notice nothing.
pub fn without_broken_pipe<R>(act: impl FnOnce() -> R) -> R {
    let mut pipe = empty();
    let mut pending = empty();
    // SAFETY: all of them read or write a set that is the caller's own and initialised.
    let was_pending = unsafe {
        libc::sigaddset(&mut pipe, libc::SIGPIPE);
        libc::sigpending(&mut pending);
        libc::sigismember(&pending, libc::SIGPIPE) == 1
    };
    let before = change(libc::SIG_BLOCK, &pipe);
    let result = act();
    // One that was pending before is the program's own, and stays. A write raises it for the thread that writes, so it
    // is there by now or not at all.
    if !was_pending {
        take(&pipe);
    }
    change(libc::SIG_SETMASK, &before);
    result
}

/// Acts while no signal comes to the calling thread but those of its own faults. A thread that is started meanwhile
/// takes no signal that a thread of the program waits for.
pub fn while_blocked<R>(act: impl FnOnce() -> R) -> R {
    // Miri sends no signals, and has no call that keeps them away.
    if cfg!(miri) {
        return act();
    }
    let mut all = empty();
    // SAFETY: a set that is the caller's own and initialised.
    unsafe {
        libc::sigfillset(&mut all);
        for fault in OWN_FAULTS {
            libc::sigdelset(&mut all, fault);
        }
    }
    let before = change(libc::SIG_BLOCK, &all);
    let result = act();
    change(libc::SIG_SETMASK, &before);
    result
}

/// Takes a signal of `set` away, if one is pending.
fn take(set: &libc::sigset_t) {
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        // SAFETY: a set that is the caller's own and initialised; nothing is to be told of the signal.
        let taken = unsafe { libc::sigtimedwait(set, ptr::null_mut(), &at_once) };
        if taken >= 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return;
        }
    }
}

fn empty() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: it initialises the set, and cannot fail.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// Changes which signals the calling thread takes, and tells which it did not take before.
fn change(how: libc::c_int, set: &libc::sigset_t) -> libc::sigset_t {
    let mut before = empty();
    // SAFETY: both sets are the caller's own and initialised; it fails only for an impossible `how`.
    unsafe { libc::pthread_sigmask(how, set, &mut before) };
    before
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    fn is_blocked(signal: libc::c_int) -> bool {
        let before = change(libc::SIG_BLOCK, &empty());
        // SAFETY: an initialised set.
        unsafe { libc::sigismember(&before, signal) == 1 }
    }

    #[test]
    fn signals_are_kept_away_for_a_moment_and_faults_are_not() {
        let blocked = while_blocked(|| [libc::SIGTERM, libc::SIGUSR1, libc::SIGSEGV, libc::SIGBUS].map(is_blocked));
        assert_eq!(blocked, [true, true, false, false]);
        assert!(without_broken_pipe(|| is_blocked(libc::SIGPIPE)));
        assert!(![libc::SIGTERM, libc::SIGUSR1, libc::SIGPIPE].into_iter().any(is_blocked));
        let inherited = while_blocked(|| std::thread::spawn(|| is_blocked(libc::SIGUSR1)));
        assert!(inherited.join().expect("it does not panic"));
    }

    #[test]
    fn a_write_that_nobody_reads_leaves_no_signal_behind() {
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        drop(read);
        let written = without_broken_pipe(|| rustix::io::write(&write, b"lost"));
        assert_eq!(written, Err(rustix::io::Errno::PIPE));
        let mut pending = empty();
        // SAFETY: an initialised set.
        let is_pending =
            unsafe { libc::sigpending(&mut pending) == 0 && libc::sigismember(&pending, libc::SIGPIPE) == 1 };
        assert!(!is_pending);
    }
}
