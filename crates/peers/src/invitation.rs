//! Which invitations the nodes of this process have come through: each leads to one node at a time, of all processes
//! that have it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use deck_sync::locks::lock;
use deck_sync::{Error, ErrorKind, Result, fork};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use crate::wire::Refusal;

/// The sockets of those that are in use, by the numbers that the system gives them.
static IN_USE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// A node of this process has come through this invitation, and has not left. If another one came, each of the two
/// would read what the broker tells the other.
#[derive(Debug)]
pub(crate) struct Invitation(u64);

impl Invitation {
    /// # Errors
    /// [`ErrorKind::Invalid`] while another node has it, of this process or of one that shares it: they were forked from
    /// one another, or a shell has started them.
    pub fn take(socket: &OwnedFd) -> Result<Invitation> {
        let stat = rustix::fs::fstat(socket);
        let number = stat.map_err(|errno| Error::system("joining", errno.raw_os_error()))?.st_ino;
        let mut in_use = lock(&IN_USE);
        if in_use.contains(&number) {
            return Err(Error::new(ErrorKind::Invalid, "joining: this process has its place in the job already")
                .with_remedy("use the node that it is, also in other threads, or leave first"));
        }
        // The broker would refuse, too, but whoever has come might read that. The system takes the lock back when this
        // process ends, and also when it closes any descriptor of the socket: then, and where there are no such locks,
        // the broker is the only one who refuses.
        if let Err(Errno::AGAIN | Errno::ACCESS) = fcntl_lock(socket, FlockOperation::NonBlockingLockExclusive) {
            return Err(Refusal::Taken.of_a_join(None));
        }
        in_use.push(number);
        Ok(Invitation(number))
    }

    /// Its node has left: another process may come. The program may keep `socket` for long.
    pub fn give_back(self, socket: impl AsFd) {
        let _ = fcntl_lock(socket, FlockOperation::Unlock);
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
