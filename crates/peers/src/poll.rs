//! Sleeping until a descriptor has something to tell, or some time has passed.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use deck_sync::descriptor::beyond_standard;
use deck_sync::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;

/// Keys that are told at once, at most; more are told by the next wait.
const KEYS_MAX: usize = 64;

/// Descriptors that a thread of DECK's own sleeps on, each with a key that tells what it is.
#[derive(Debug)]
pub struct Poll(OwnedFd);

impl Poll {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// [`ErrorKind::System`](deck_sync::ErrorKind::System).
    pub fn new() -> Result<Poll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).and_then(beyond_standard);
        epoll.map(Poll).map_err(|errno| Error::system("making an epoll", errno.raw_os_error()))
    }

    /// From now on [`Poll::wait`] tells `key` while `fd` is readable.
    ///
    /// # Errors
    /// [`ErrorKind::System`](deck_sync::ErrorKind::System).
    pub fn watch(&self, fd: impl AsFd, key: u64) -> Result<()> {
        epoll::add(&self.0, fd, epoll::EventData::new_u64(key), epoll::EventFlags::IN)
            .map_err(|errno| Error::system("watching a descriptor", errno.raw_os_error()))
    }

    /// Nothing is told of `fd` any more. Closing it is not enough while somebody else, such as a forked child, has it
    /// open.
    pub fn forget(&self, fd: impl AsFd) {
        // Fails only for one that is not watched.
        let _ = epoll::delete(&self.0, fd);
    }

    /// Sleeps until a descriptor is readable, `timeout` at most; then `keys` are those of all that are. None if the
    /// time is over or a signal has come.
    ///
    /// # Errors
    /// [`ErrorKind::System`](deck_sync::ErrorKind::System).
    pub fn wait(&self, keys: &mut Vec<u64>, timeout: Option<Duration>) -> Result<()> {
        keys.clear();
        let mut space = [const { std::mem::MaybeUninit::uninit() }; KEYS_MAX];
        match epoll::wait(&self.0, &mut space, timeout.map(timespec).as_ref()) {
            Ok((events, _)) => keys.extend(events.iter().map(|event| event.data.u64())),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::system("waiting for descriptors", errno.raw_os_error())),
        }
        Ok(())
    }
}

/// True once `fd` is readable; false if it was not within `timeout`, or a signal came first.
pub fn is_readable_within(fd: impl AsFd, timeout: Option<Duration>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
    rustix::event::poll(&mut fds, timeout.map(timespec).as_ref()).is_ok_and(|count| count > 0)
}

/// Waits before something is tried again that may be possible then.
pub fn pause(time: Duration) {
    let _ = rustix::event::poll(&mut [], Some(&timespec(time)));
}

/// What cannot be said in the system's words is for ever as well.
fn timespec(time: Duration) -> Timespec {
    Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wakeup;

    #[test]
    fn what_is_readable_is_told_by_its_key_until_it_is_forgotten() {
        let (poll, mut keys) = (Poll::new().unwrap(), vec![7]);
        let [silent, rung] = [(); 2].map(|()| wakeup::new().unwrap());
        poll.watch(&silent, 1).unwrap();
        poll.watch(&rung, 2).unwrap();
        poll.wait(&mut keys, Some(Duration::ZERO)).unwrap();
        assert_eq!(keys, []);
        wakeup::ring(&rung);
        poll.wait(&mut keys, None).unwrap();
        assert_eq!(keys, [2]);
        poll.forget(&rung);
        poll.wait(&mut keys, Some(Duration::from_millis(1))).unwrap();
        assert_eq!(keys, []);
    }

    #[test]
    fn the_longest_time_is_one_that_the_system_takes() {
        let rung = wakeup::new().unwrap();
        assert!(!is_readable_within(&rung, Some(Duration::ZERO)));
        wakeup::ring(&rung);
        assert!(is_readable_within(&rung, Some(Duration::MAX)));
        assert!(is_readable_within(&rung, None));
    }
}
