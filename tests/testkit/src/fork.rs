//! A child that is forked and executes nothing: what DECK is not for, and must survive.

use std::time::Duration;

/// Forks. In the child, `child` runs in its only thread, and then the child sleeps until it is killed. Returns the child's
/// process number, `None` if there can be none.
pub fn fork(child: impl FnOnce()) -> Option<u32> {
    // SAFETY:
    // - The child has one thread, a copy of this one. It runs test code that may allocate; the C library's allocator can be
    //   used behind a fork, and no other lock that the child takes is held by another thread: nodes under test write their
    //   output under a lock only while they answer, and no other lane is busy when a test has a node fork.
    // - The child never returns from here, so nothing is dropped or unwound twice.
    match unsafe { libc::fork() } {
        0 => {
            child();
            loop {
                std::thread::park_timeout(Duration::from_secs(3600));
            }
        }
        pid => u32::try_from(pid).ok(),
    }
}
