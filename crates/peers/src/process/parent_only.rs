//! Forked children: they must not keep a node alive, and DECK is not for them.
//!
//! A child inherits the descriptors of its parent, so the other nodes would see the parent's sockets open after its
//! death. The child therefore closes them at once, in the handler that runs inside `fork`, and every call of DECK in it
//! fails. (Programs that are executed inherit nothing: all descriptors are close-on-exec.)

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::Once;

use deck_sync::atomic::{AtomicI32, Ordering};
use deck_sync::fork;

const EMPTY: i32 = -1;
static OPEN: [AtomicI32; 4096] = [const { AtomicI32::new(EMPTY) }; 4096];

extern "C" fn in_child() {
    // Only what is allowed between fork and exec: atomics and close.
    for place in &OPEN {
        let fd = place.swap(EMPTY, Ordering::Relaxed);
        if fd != EMPTY {
            // SAFETY: closes a descriptor of this child that the parent's socket was; nothing in the child uses it, as
            // every call checks `fork::is_child` first.
            unsafe { libc::close(fd) };
        }
    }
}

/// A descriptor that children which are forked from now on do not have. Beyond 4,096 of them the rest is left open
/// there.
#[derive(Debug)]
pub struct ParentOnly(Option<OwnedFd>);

impl ParentOnly {
    /// Takes the descriptor over.
    pub fn new(fd: OwnedFd) -> ParentOnly {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            fork::watch();
            // SAFETY: the handler is a function that lives for ever and does only what is allowed in a forked child.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        exchange(EMPTY, fd.as_raw_fd());
        ParentOnly(Some(fd))
    }
}

impl Drop for ParentOnly {
    fn drop(&mut self) {
        let Some(fd) = self.0.take() else { return };
        if fork::is_child() {
            // Closed already; by now the number may be somebody else's.
            let _ = fd.into_raw_fd();
        } else {
            // Before it is closed here: its number may be somebody else's afterwards.
            exchange(fd.as_raw_fd(), EMPTY);
        }
    }
}

impl AsFd for ParentOnly {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().expect("there until it is dropped").as_fd()
    }
}

fn exchange(old: i32, new: i32) {
    for place in &OPEN {
        if place.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}
