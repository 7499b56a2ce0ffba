//! A descriptor that wakes a thread out of epoll, or whoever else polls it.

use std::os::fd::OwnedFd;

use deck_sync::descriptor::beyond_standard;
use deck_sync::{Error, Result};
use rustix::event::EventfdFlags;
use rustix::fs::FileType;

/// A new one, not rung.
pub fn new() -> Result<OwnedFd> {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .and_then(beyond_standard)
        .map_err(|errno| Error::system("making an eventfd", errno.raw_os_error()))
}

/// Makes it readable; true if it is. Never blocks.
pub fn ring(fd: &OwnedFd) -> bool {
    is_there(fd) && rustix::io::write(fd, &1u64.to_ne_bytes()).is_ok()
}

/// Makes it silent again. Never blocks, unless the program has put a blocking eventfd or timer in its place.
pub fn hush(fd: &OwnedFd) {
    if is_there(fd) {
        let _ = rustix::io::read(fd, &mut [0u8; 8]);
    }
}

/// False if the program has closed it, although it is not its own, and has a file, pipe or socket of that number by
/// now. That is not written to, and nobody waits for what may come there. (An eventfd is of no type.)
fn is_there(fd: &OwnedFd) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Unknown)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::poll::is_readable_within;

    #[test]
    #[cfg_attr(miri, ignore = "eventfd")]
    fn a_pipe_that_has_the_descriptors_number_by_now_is_neither_written_to_nor_waited_for() {
        let mut descriptor = new().unwrap();
        assert!(ring(&descriptor));
        hush(&descriptor);
        let is_readable = |fd: &OwnedFd| is_readable_within(fd, Some(Duration::ZERO));
        assert!(!is_readable(&descriptor));
        // As if the program had closed it, and opened its own.
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::dup2(&writer, &mut descriptor).unwrap();
        assert!(!ring(&descriptor) && !is_readable(&reader));
        rustix::io::dup2(&reader, &mut descriptor).unwrap();
        hush(&descriptor);
    }
}
