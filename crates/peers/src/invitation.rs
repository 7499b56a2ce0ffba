//! Which invitations the nodes of this process have come through: each leads to one node at a time.

use std::os::fd::OwnedFd;
use std::sync::Mutex;

use deck_sync::locks::lock;
use deck_sync::{Error, ErrorKind, Result, fork};

/// The sockets of those that are in use, by the numbers that the system gives them.
static IN_USE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// A node of this process has come through this invitation, and has not left. If another one came, each of the two
/// would read what the broker tells the other.
#[derive(Debug)]
pub(crate) struct Invitation(u64);

impl Invitation {
    /// # Errors
    /// [`ErrorKind::Invalid`] while another node of this process has it.
    pub fn take(socket: &OwnedFd) -> Result<Invitation> {
        let stat = rustix::fs::fstat(socket);
        let number = stat.map_err(|errno| Error::system("joining", errno.raw_os_error()))?.st_ino;
        let mut in_use = lock(&IN_USE);
        if in_use.contains(&number) {
            return Err(Error::new(ErrorKind::Invalid, "joining: this process has its place in the job already")
                .with_remedy("use the node that it is, also in other threads, or leave first"));
        }
        in_use.push(number);
        Ok(Invitation(number))
    }
}

impl Drop for Invitation {
    fn drop(&mut self) {
        // In a forked child, whoever has the lock may not be there.
        if fork::is_child() {
            return;
        }
        lock(&IN_USE).retain(|number| *number != self.0);
    }
}
