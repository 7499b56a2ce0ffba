//! Who is at the other end of a socket, as the kernel knows it from when the connection was made.

use std::os::fd::{AsFd, AsRawFd};

use deck_sync::told;
use rustix::io::Errno;

/// Who made the other end of a connection, or who listened.
#[derive(Clone, Copy, Debug)]
pub struct Credentials {
    /// The effective user, as this process's user namespace numbers it.
    pub user: u32,
    /// `None` if it has no number in this process namespace.
    pub process: Option<u32>,
}

/// Asks for the other end's. rustix has a type for it that no process without a number fits into.
pub fn of_peer(socket: impl AsFd) -> Result<Credentials, Errno> {
    let mut told = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and both places are the caller's own, of the size that is told.
    let code = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut told).cast(),
            &raw mut bytes,
        )
    };
    if code != 0 {
        return Err(std::io::Error::last_os_error().raw_os_error().map_or(Errno::INVAL, Errno::from_raw_os_error));
    }
    Ok(Credentials { user: told.uid, process: u32::try_from(told.pid).ok().filter(|pid| *pid != 0) })
}

/// Whether that is the user whom this process acts for. All whom a user namespace does not know have one number there,
/// so that one says nothing unless the namespace knows everybody.
pub fn is_own_user(user: u32) -> bool {
    user == rustix::process::geteuid().as_raw() && (user != nobody() || everybody_is_known())
}

/// The number of whoever has none.
fn nobody() -> u32 {
    told("/proc/sys/kernel/overflowuid").and_then(|text| text.trim().parse().ok()).unwrap_or(65_534)
}

fn everybody_is_known() -> bool {
    told("/proc/thread-self/uid_map").is_some_and(|map| knows_everybody(&map))
}

/// A map of user numbers: where a range begins here, where outside, and how many they are.
fn knows_everybody(map: &str) -> bool {
    map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::pair;

    #[test]
    fn the_other_end_is_this_process() {
        let (one, _other) = pair().unwrap();
        let credentials = of_peer(&one).unwrap();
        assert!(is_own_user(credentials.user));
        assert_eq!(credentials.process, Some(std::process::id()));
    }

    #[test]
    fn only_a_namespace_that_numbers_all_as_outside_knows_everybody() {
        assert!(knows_everybody("         0          0 4294967295\n"));
        for map in ["", "0 0 65536", "0 100000 65536\n", "0 0 1000\n1000 1000 4294966295\n"] {
            assert!(!knows_everybody(map), "{map:?}");
        }
    }
}
