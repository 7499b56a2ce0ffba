//! A child that is forked and executes nothing: what DECK is not for, and must survive.

use std::time::Duration;

/// Forks. In the child, `child` runs in its only thread, and then the child sleeps until it is killed. Returns the
/// child's process number, `None` if there can be none.
pub fn fork(child: impl FnOnce()) -> Option<u32> {
    // No other thread is inside the output's lock now; the child gets it as held by its own thread, which may take it
    // again.
    let _output = std::io::stdout().lock();
    // SAFETY:
    // - The child has one thread, a copy of this one. It runs test code that may allocate: the C library's allocator
    //   can be used behind a fork. The output's lock is this thread's, and no other lane is busy when a test has a node
    //   fork.
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
