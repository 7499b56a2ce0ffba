//! The threads that DECK starts for itself, and their names.
//!
//! A name is how a person recognises such a thread in `ps` or a debugger, and how `deck why` tells it from a thread of
//! the program: no wait of the program's ends because a service is awake.

use std::os::unix::thread::JoinHandleExt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{Builder, JoinHandle};
#[cfg(not(loom))]
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use crate::{Error, Result, signals};

/// How long the end of a service is waited for.
const END_WITHIN: Duration = Duration::from_secs(1);

/// What a thread of DECK's own does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Talks to the other nodes; one in each node.
    Control,
    /// Knows who is in the job; one in a job.
    Broker,
    /// Looks after mail boxes with a descriptor; at most one in each node.
    Watcher,
    /// Allocates shared segments, which may take long; one for each node that has asked for some.
    Memory,
    /// Sleeps for a thread that waits for more than the kernel watches for one; while that thread does.
    Sleeper,
}

impl Service {
    /// All of them.
    pub const ALL: [Service; 5] =
        [Service::Control, Service::Broker, Service::Watcher, Service::Memory, Service::Sleeper];

    /// The name of its thread: at most 15 bytes, as the kernel cuts what is longer. With a slash, as the kernel's own
    /// threads have it: no program is called so, and threads that have no name of their own are called as their
    /// program.
    pub const fn name(self) -> &'static str {
        match self {
            Service::Control => "deck/control",
            Service::Broker => "deck/broker",
            Service::Watcher => "deck/watcher",
            Service::Memory => "deck/memory",
            Service::Sleeper => "deck/sleeper",
        }
    }

    /// Whether a thread of this name is one.
    pub fn is_named(name: &str) -> bool {
        Service::ALL.iter().any(|service| service.name() == name)
    }

    /// Starts its thread, which takes no signals: a program may wait for them in a thread of its own.
    ///
    /// # Errors
    /// [`crate::ErrorKind::System`] if the operating system has none.
    pub fn start(self, work: impl FnOnce() + Send + 'static) -> Result<Running> {
        let (until_then, ended) = mpsc::channel();
        let work = move || {
            let _until_then = until_then;
            work();
        };
        let started = signals::while_blocked(|| self.builder().spawn(work));
        let thread =
            started.map_err(|error| Error::no_thread(format!("starting the thread {}", self.name()), &error))?;
        Ok(Running { thread, ended })
    }

    /// As [`Service::start`], for what is done before `scope` ends.
    #[cfg(not(loom))]
    pub(crate) fn start_within<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        work: impl FnOnce() + Send + 'scope,
    ) -> std::io::Result<ScopedJoinHandle<'scope, ()>> {
        signals::while_blocked(|| self.builder().spawn_scoped(scope, work))
    }

    fn builder(self) -> Builder {
        Builder::new().name(self.name().into())
    }
}

/// A service that was started. It goes on when this is dropped.
#[derive(Debug)]
pub struct Running {
    thread: JoinHandle<()>,
    /// Closed when it is at its end.
    ended: Receiver<()>,
}

impl Running {
    /// Waits until the thread has ended, which was told to: a second at most. If the program has closed what it
    /// was to be told by, it never does. Not waited for by the service itself.
    pub fn end(self) {
        // SAFETY: it only tells.
        let own = unsafe { libc::pthread_self() };
        // The thread's number in the system's library: of `std` an ending thread has none any more.
        if self.thread.as_pthread_t() as libc::pthread_t != own
            && self.ended.recv_timeout(END_WITHIN) != Err(RecvTimeoutError::Timeout)
        {
            // It may have panicked, which it has told by then.
            let _ = self.thread.join();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_known_by_the_name_of_its_thread() {
        for service in Service::ALL {
            assert!(service.name().len() <= 15 && service.name().contains('/'), "{service:?}");
            let known = service.start(|| {
                assert!(std::thread::current().name().is_some_and(Service::is_named));
            });
            known.expect("a thread").thread.join().expect("its name is known");
        }
        assert!(!Service::is_named("deck"));
    }
}
