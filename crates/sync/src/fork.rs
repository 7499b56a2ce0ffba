//! Forked children: DECK is not for them.
//!
//! A child has the parent's memory, mapped segments included, but not its threads. Whatever it did with DECK's objects
//! (dropping one is enough) it would do in the parent's name. So every call of DECK in it fails, and drops do nothing.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, ErrorKind, Result, stay_loaded};

static IS_CHILD: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// Notices forks from now on. Called when a node joins.
pub fn watch() {
    static REGISTERED: Once = Once::new();
    stay_loaded();
    REGISTERED.call_once(|| {
        // SAFETY: the handler is a function that lives for ever and only stores to an atomic, which is allowed between
        // fork and exec.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Fails in a forked child, as every call does that would touch what is its parent's.
///
/// # Errors
/// [`ErrorKind::NotInitialized`].
#[inline]
pub fn check() -> Result<()> {
    if is_child() { Err(in_a_child()) } else { Ok(()) }
}

#[cold]
fn in_a_child() -> Error {
    Error::new(ErrorKind::NotInitialized, "a call in a forked child")
        .with_remedy("execute a program in the child; it can join the job as a node of its own")
}

/// Whether a forked child finds that `it_is_so`, in good time.
#[cfg(all(test, not(any(loom, miri))))]
pub fn child_finds(it_is_so: impl FnOnce() -> bool) -> bool {
    const TOO_LONG: u32 = 10;
    watch();
    // SAFETY: the child has this one thread, which calls what a child may call, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::alarm(TOO_LONG) };
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(it_is_so));
        // SAFETY: as above.
        unsafe { libc::_exit((!answer.unwrap_or(false)).into()) };
    }
    let mut status = -1;
    // SAFETY: a child of this process, and a place for what becomes of it.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status == 0
}

/// True in a process that was forked after [`watch`] was called in its parent.
#[inline]
pub fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}
