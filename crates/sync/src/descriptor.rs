//! Descriptors that the library keeps are never 0, 1 or 2.
//!
//! A program may run with those closed and print all the same. What it prints must reach no memory and no socket of the
//! library's, which the system would give these numbers to.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;

/// The first number that no program takes for its input, output or errors.
const FIRST: i32 = 3;

/// The same file, by another descriptor if this is one of the first three. Closed in programs that are executed. Never
/// blocks.
///
/// # Errors
/// `MFILE` if there is no other descriptor.
pub fn beyond_standard(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    if fd.as_raw_fd() >= FIRST { Ok(fd) } else { rustix::io::fcntl_dupfd_cloexec(&fd, FIRST) }
}
