//! The wait for descriptors: with a time, and in spite of signals.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

/// Polls, for at most `patience`; being interrupted counts as nothing having happened.
pub fn wait(events: &mut [PollFd<'_>], patience: Option<Duration>) -> io::Result<()> {
    let timeout =
        patience.map(|patience| Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 }));
    match poll(events, timeout.as_ref()) {
        Ok(_) => Ok(()),
        Err(Errno::INTR) => {
            events.iter_mut().for_each(PollFd::clear_revents);
            Ok(())
        }
        Err(errno) => Err(errno.into()),
    }
}
