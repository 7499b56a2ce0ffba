//! Jobs that are joined by name: an abstract socket of the user on this host.
//!
//! The name lives in the kernel's network namespace, not in a file system, and is gone with the process that holds it:
//! nothing is left behind. Whoever binds it first is the broker; binding is atomic, so a job never splits in two.

use std::os::fd::OwnedFd;

use deck_sync::descriptor::beyond_standard;
use deck_sync::{Error, ErrorKind, Result};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::credentials::{self, Credentials};

fn address(job: &str) -> Result<SocketAddrUnix> {
    let name = format!("deck/{}/{job}", rustix::process::geteuid().as_raw());
    SocketAddrUnix::new_abstract_name(name.as_bytes())
        .map_err(|_| Error::new(ErrorKind::Invalid, format!("the job's name {job:?} is too long for a socket")))
}

fn socket() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .and_then(beyond_standard)
        .map_err(|errno| Error::system("making a socket", errno.raw_os_error()))
}

/// Listens for those who join `job`; `None` if somebody else does.
pub fn listen(job: &str) -> Result<Option<OwnedFd>> {
    let socket = socket()?;
    match rustix::net::bind(&socket, &address(job)?) {
        Ok(()) => {}
        Err(Errno::ADDRINUSE) => return Ok(None),
        Err(errno) => return Err(Error::system(format!("opening job {job}"), errno.raw_os_error())),
    }
    rustix::net::listen(&socket, 128).map_err(|errno| Error::system("listening", errno.raw_os_error()))?;
    Ok(Some(socket))
}

#[cfg(test)]
thread_local! {
    /// How often this thread has tried to connect.
    pub static TRIES: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Connects to whoever listens for `job`; `None` if nobody does just now.
///
/// # Errors
/// [`ErrorKind::Access`] if it is another user.
pub fn connect(job: &str) -> Result<Option<OwnedFd>> {
    #[cfg(test)]
    TRIES.set(TRIES.get() + 1);
    let socket = socket()?;
    match rustix::net::connect(&socket, &address(job)?) {
        Ok(()) => {}
        // AGAIN: its queue of connections is full.
        Err(Errno::CONNREFUSED | Errno::AGAIN | Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(Error::system(format!("joining job {job}"), errno.raw_os_error())),
    }
    let Credentials { user, .. } = credentials::of_peer(&socket)
        .map_err(|errno| Error::system("asking who the broker is", errno.raw_os_error()))?;
    if user != rustix::process::geteuid().as_raw() {
        let what = format!("job {job} on this host is held by user {user}");
        return Err(Error::new(ErrorKind::Access, what).with_remedy("choose another job name"));
    }
    if !credentials::is_own_user(user) {
        let what =
            format!("whether job {job} on this host is held by the same user cannot be told in this user namespace");
        return Err(Error::new(ErrorKind::Access, what).with_remedy("map the user in it (unshare --map-user)"));
    }
    Ok(Some(socket))
}
