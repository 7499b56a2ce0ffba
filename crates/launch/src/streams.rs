//! Standard streams that were closed when this process was started, as by `>&-` in a shell.
//!
//! Before `main`, Rust opens `/dev/null` in their place, so that no other file gets their numbers. What is printed then
//! is lost without an error. Whoever has to tell that looks here.

use std::os::fd::AsRawFd;
use std::sync::OnceLock;

/// For each of the three whether it was closed.
static CLOSED: OnceLock<[bool; 3]> = OnceLock::new();

// SAFETY: the loader calls what stands in this section once, before `main` and before anybody else's code of this
// program; the function has the form that is called, and needs nothing that is made later.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: asking for the flags of a descriptor touches no memory, and may be done to one that is not open.
    let is_closed = |fd| unsafe { libc::fcntl(fd, libc::F_GETFD) == -1 };
    let _ = CLOSED.set([0, 1, 2].map(is_closed));
}

/// Whether this standard stream was closed.
pub fn was_closed(stream: &impl AsRawFd) -> bool {
    let index = usize::try_from(stream.as_raw_fd()).ok();
    index.zip(CLOSED.get()).and_then(|(index, closed)| closed.get(index).copied()).unwrap_or(false)
}
