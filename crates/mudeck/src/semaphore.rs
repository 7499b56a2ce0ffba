//! Semaphores among the threads of a node.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use deck_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use deck_sync::{
    About, Deadline, Error, ErrorKind, Event, Goal, Interrupted, Result, Waiting, crowd_of_this_thread, wait,
};

/// A counting semaphore. Handles are shared by reference or `Arc`; waiting sleeps when nothing comes.
///
/// ```
/// use std::time::Duration;
/// let semaphore = deck_mudeck::Semaphore::new(1);
/// semaphore.wait(Duration::ZERO)?;
/// assert!(semaphore.wait(Duration::ZERO).is_err());
/// semaphore.post()?;
/// semaphore.wait(deck_mudeck::FOREVER)?;
/// # Ok::<(), deck_mudeck::Error>(())
/// ```
#[doc(alias = "deck_sem_t")]
pub struct Semaphore {
    count: AtomicU32,
    changed: Event,
    is_closed: AtomicBool,
    /// What a wait in vain ends with, from the first on: who polls gets it often.
    timed_out: OnceLock<Error>,
}

struct Taking<'a> {
    semaphore: &'a Semaphore,
    may_have_slept: bool,
}

impl Waiting for Taking<'_> {
    type Output = bool;

    fn look(&mut self) -> Option<bool> {
        // Acquire: pairs with: semaphore/end.
        if self.semaphore.is_closed.load(Ordering::Acquire) {
            return Some(false);
        }
        let count = &self.semaphore.count;
        // Acquire: pairs with: semaphore/post. What the poster did before is visible to the one who takes its count.
        let taken = count.fetch_update(Ordering::Acquire, Ordering::Relaxed, |count| count.checked_sub(1));
        taken.is_ok().then_some(true)
    }

    fn arm(&mut self) {
        self.may_have_slept = true;
    }

    fn about(&self) -> Option<About<'_>> {
        Some(About::new(Goal::Semaphore, "").with([std::ptr::from_ref(self.semaphore).addr() as u64]))
    }
}

impl Semaphore {
    /// A semaphore with this count.
    #[doc(alias = "deck_sem_create")]
    pub fn new(initial: u32) -> Semaphore {
        Semaphore {
            count: AtomicU32::new(initial),
            changed: Event::new(),
            is_closed: AtomicBool::new(false),
            timed_out: OnceLock::new(),
        }
    }

    /// Adds one and lets a waiter go on. Never blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the count would pass `u32::MAX`.
    #[doc(alias = "deck_sem_post")]
    pub fn post(&self) -> Result<()> {
        // Release: pairs with: semaphore/post.
        let posted = self.count.fetch_update(Ordering::Release, Ordering::Relaxed, |count| count.checked_add(1));
        posted.map_err(|_| Error::new(ErrorKind::Invalid, "posting a semaphore whose count is at its largest"))?;
        self.changed.notify_one();
        Ok(())
    }

    /// Takes one, waiting for it at most `timeout`. Blocks until the deadline.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`], [`ErrorKind::Cancelled`], [`ErrorKind::Closed`] once [`Semaphore::close`] was called.
    #[doc(alias = "deck_sem_wait")]
    pub fn wait(&self, timeout: Duration) -> Result<()> {
        let mut taking = Taking { semaphore: self, may_have_slept: false };
        match wait(&mut taking, &[&self.changed], &crowd_of_this_thread(), Deadline::after(timeout)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::new(ErrorKind::Closed, "waiting for a semaphore")),
            Err(interrupted) => {
                // A post may have chosen this thread to wake: another waiter goes on in its place.
                if taking.may_have_slept {
                    self.changed.notify_one();
                }
                let error = || interrupted.error("waiting for a semaphore");
                Err(match interrupted {
                    Interrupted::Deadline => self.timed_out.get_or_init(error).clone(),
                    Interrupted::Cancelled => error(),
                })
            }
        }
    }

    /// Ends every wait, now and later, with [`ErrorKind::Closed`].
    #[doc(alias = "deck_sem_destroy")]
    pub fn close(&self) {
        // Release: pairs with: semaphore/end. What was done before is visible to whoever is turned away.
        self.is_closed.store(true, Ordering::Release);
        self.changed.notify();
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Semaphore({})", self.count.load(Ordering::Relaxed))
    }
}
