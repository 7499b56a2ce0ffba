//! The end of a thread, which others wait for.

use std::sync::Arc;
use std::time::Duration;

use crate::atomic::{AtomicBool, Ordering};
use crate::{About, Deadline, Event, Goal, Result, Waiting, crowd_of_this_thread, wait};

/// Whether a thread has run all of its own.
#[derive(Default)]
pub struct Ending {
    is_there: AtomicBool,
    changed: Event,
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
        Some(About::new(Goal::Join, ""))
    }
}

impl Ending {
    /// Waits for it. Blocks until the deadline.
    ///
    /// # Errors
    /// `Timeout`, `Cancelled` if the calling thread was cancelled.
    pub fn wait(&self, timeout: Duration) -> Result<()> {
        let waited = wait(&mut Joining(self), &[&self.changed], &crowd_of_this_thread(), Deadline::after(timeout));
        waited.map_err(|interrupted| interrupted.error("waiting for the end of a thread"))
    }
}
