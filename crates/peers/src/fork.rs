//! Forked children: they must not keep a node alive, and DECK is not for them.
//!
//! A child inherits the descriptors of its parent, so the other nodes would see the parent's sockets open after its
//! death. The child therefore closes them at once, in the handler that runs inside `fork`, and every call of DECK in it
//! fails. (Programs that are executed inherit nothing: all descriptors are close-on-exec.)

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Once;

use deck_sync::atomic::{AtomicBool, AtomicI32, Ordering};

const EMPTY: i32 = -1;
static OPEN: [AtomicI32; 4096] = [const { AtomicI32::new(EMPTY) }; 4096];
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// True in a process that was forked after its parent had joined a job.
pub fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

extern "C" fn in_child() {
    // Only what is allowed between fork and exec: atomics and close.
    IS_CHILD.store(true, Ordering::Relaxed);
    for place in &OPEN {
        let fd = place.swap(EMPTY, Ordering::Relaxed);
        if fd != EMPTY {
            // SAFETY: closes a descriptor of this child that the parent's socket was; nothing in the child uses it, as
            // every call checks `is_child` first.
            unsafe { libc::close(fd) };
        }
    }
}

/// Has `fd` closed in children that are forked from now on. Beyond 4,096 descriptors the rest is left open.
pub fn close_in_children(fd: BorrowedFd<'_>) {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handler is a function that lives for ever and does only what is allowed in a forked child.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    let raw = fd.as_raw_fd();
    for place in &OPEN {
        if place.compare_exchange(EMPTY, raw, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// `fd` is about to be closed here.
pub fn forget(fd: BorrowedFd<'_>) {
    let raw = fd.as_raw_fd();
    for place in &OPEN {
        if place.compare_exchange(raw, EMPTY, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}
