//! Which invitations the nodes of this process have come through: each leads to one node at a time, of all processes
//! that have it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex};

use deck_sync::locks::lock;
use deck_sync::{Error, ErrorKind, Result, fork};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use crate::process::own_number;
use crate::socket::Socket;
use crate::wire::Refusal;

/// The sockets of those that are in use, by the numbers that the system gives them.
static IN_USE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// A node of this process has come through this invitation, and has not left. If another one came, each of the two
/// would read what the broker tells the other.
#[derive(Debug)]
pub(crate) struct Invitation {
    number: u64,
    /// Once it is this process's for all to see.
    socket: Option<Arc<Socket>>,
}

impl Invitation {
    /// # Errors
    /// [`ErrorKind::Invalid`] while another node has it: of this process, be it one of another copy of DECK, or of a
    /// process that shares it, as they were forked from one another or started by the same shell.
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
        if owner(socket) == Some(own_number()) {
            let what = "joining: another copy of DECK in this process has its place in the job already";
            return Err(Error::new(ErrorKind::Invalid, what).with_remedy(
                "let the program and all that it loads use one libdeck.so, or let that node leave first",
            ));
        }
        in_use.push(number);
        Ok(Invitation { number, socket: None })
    }

    /// It has led into the job, which other copies of DECK are to know.
    pub fn claim(&mut self, socket: &Arc<Socket>) {
        set_owner(socket.as_ref(), Some(own_number()));
        self.socket = Some(socket.clone());
    }
}

impl Drop for Invitation {
    fn drop(&mut self) {
        // In a forked child, whoever has the lock may not be there.
        if fork::is_child() {
            return;
        }
        let mut in_use = lock(&IN_USE);
        // The program may keep the socket for long, and another node may come.
        if let Some(socket) = &self.socket {
            set_owner(socket.as_ref(), None);
            let _ = fcntl_lock(socket.as_ref(), FlockOperation::Unlock);
        }
        in_use.retain(|number| *number != self.number);
    }
}

/// The process that has the socket as its own. Copies of DECK in one process (two plugins, each linked with libdeck.a)
/// share nothing but that socket, so there it stands: as the process to be sent signals about it, which a socket of
/// this kind never causes. Two copies that join in the same instant are not told apart by it.
fn owner(socket: impl AsFd) -> Option<u32> {
    // SAFETY: an open descriptor; nothing is written.
    let owner = unsafe { libc::fcntl(socket.as_fd().as_raw_fd(), libc::F_GETOWN) };
    u32::try_from(owner).ok().filter(|owner| *owner != 0)
}

/// Where the system refuses, another copy is not told.
fn set_owner(socket: impl AsFd, process: Option<u32>) {
    let owner = process.unwrap_or(0) as libc::pid_t;
    // SAFETY: an open descriptor, and a number.
    unsafe { libc::fcntl(socket.as_fd().as_raw_fd(), libc::F_SETOWN, owner) };
}
