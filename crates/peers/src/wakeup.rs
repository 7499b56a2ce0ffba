//! A descriptor that wakes a thread out of epoll, or whoever else polls it.

use std::os::fd::OwnedFd;

use deck_sync::descriptor::beyond_standard;
use deck_sync::{Error, Result};
use rustix::event::EventfdFlags;

/// A new one, not rung.
pub fn new() -> Result<OwnedFd> {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .and_then(beyond_standard)
        .map_err(|errno| Error::system("making an eventfd", errno.raw_os_error()))
}

/// Makes it readable. Never blocks.
pub fn ring(fd: &OwnedFd) {
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

/// Makes it silent again.
pub fn hush(fd: &OwnedFd) {
    let _ = rustix::io::read(fd, &mut [0u8; 8]);
}
