//! The end of a thread, which others wait for.

use std::sync::Arc;
use std::time::Duration;

use crate::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::{About, Deadline, Event, Goal, Result, Waiting, crowd_of_this_thread, wait};

/// Whether a thread has run all of its own.
#[derive(Default)]
pub struct Ending {
    is_there: AtomicBool,
    changed: Event,
    /// That thread, as the system numbers threads; 0 before it has said so.
    thread: AtomicU32,
}

/// Belongs to the thread, which drops it last, also when it panics: that is its end.
pub struct Ends(pub Arc<Ending>);

impl Drop for Ends {
    fn drop(&mut self) {
        // Release: pairs with: thread/end.
        self.0.is_there.store(true, Ordering::Release);
        self.0.changed.notify();
    }
}

struct Joining<'a>(&'a Ending);

impl Waiting for Joining<'_> {
    type Output = ();

    fn look(&mut self) -> Option<()> {
        // Acquire: pairs with: thread/end.
        self.0.is_there.load(Ordering::Acquire).then_some(())
    }

    fn about(&self) -> Option<About<'_>> {
        Some(self.0.about())
    }
}

impl Ending {
    /// It is that of the calling thread.
    pub fn be_of_this_thread(&self) {
        // Relaxed: one number, for those who look on.
        self.thread.store(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs(), Ordering::Relaxed);
    }

    /// What those who look on are told of a wait for it.
    pub fn about(&self) -> About<'static> {
        About::new(Goal::Join, "").with([u64::from(self.thread.load(Ordering::Relaxed))])
    }

    /// Waits for it. Blocks until the deadline.
    ///
    /// # Errors
    /// `Timeout`, `Cancelled` if the calling thread was cancelled.
    pub fn wait(&self, timeout: Duration) -> Result<()> {
        let waited = wait(&mut Joining(self), &[&self.changed], &crowd_of_this_thread(), Deadline::after(timeout));
        waited.map_err(|interrupted| interrupted.error("waiting for the end of a thread"))
    }
}
