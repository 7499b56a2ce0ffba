//! The office of a job's broker: whoever holds it is the broker, and nobody else can be.

use std::os::fd::{AsFd, AsRawFd};

use deck_sync::descriptor::beyond_standard;
use deck_sync::{Error, Result};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::process::parent_only::ParentOnly;
use crate::table::Table;

/// A lock (flock(2)) on the job's table, by a descriptor of its own that no other process has. The kernel gives it back
/// when this is dropped or the process ends, whatever namespace that runs in: nobody has to be believed dead.
#[derive(Debug)]
pub struct Office {
    _lock: ParentOnly,
}

impl Office {
    /// Takes the office; `None` if somebody holds it. Never blocks.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`](deck_sync::ErrorKind::NoMemory) or [`ErrorKind::System`](deck_sync::ErrorKind::System),
    /// also if there is no `/proc`.
    pub fn take(table: &Table) -> Result<Option<Office>> {
        // The table's own descriptor was passed from process to process, and they would all hold a lock that one has
        // taken by it. `/proc/self` is empty once the first thread has ended.
        let path = format!("/proc/thread-self/fd/{}", table.as_fd().as_raw_fd());
        let own = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .and_then(beyond_standard)
            .map_err(|errno| Error::system("opening the job's table by /proc/thread-self/fd", errno.raw_os_error()))?;
        match rustix::fs::flock(&own, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Office { _lock: ParentOnly::new(own) })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(Error::system("locking the job's table", errno.raw_os_error())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_holds_it_also_of_those_that_were_passed_the_same_table() {
        let table = Table::create("test", 1).unwrap();
        let passed = Table::adopt(table.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let office = Office::take(&table).unwrap().unwrap();
        for other in [&table, &passed] {
            assert!(Office::take(other).unwrap().is_none());
        }
        drop(office);
        assert!(Office::take(&passed).unwrap().is_some());
    }
}
