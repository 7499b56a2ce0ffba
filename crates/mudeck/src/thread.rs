//! Threads: those of the operating system, with a way to cancel their waits.

use std::fmt;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use deck_sync::{Ending, Ends, Error, ErrorKind, Result, stack_bytes};

pub use deck_sync::Canceller;

/// A thread that can be cancelled while it waits in DECK. Dropping the handle lets the thread run on.
///
/// ```
/// let thread = deck_mudeck::Thread::spawn(|| 6 * 7)?;
/// thread.wait(deck_mudeck::FOREVER)?;
/// assert_eq!(thread.join().unwrap(), 42);
/// # Ok::<(), deck_mudeck::Error>(())
/// ```
#[doc(alias = "deck_thread_t")]
pub struct Thread<T> {
    handle: JoinHandle<T>,
    canceller: Canceller,
    end: Arc<Ending>,
}

impl<T: Send + 'static> Thread<T> {
    /// Starts a thread, whose stack is as long as the system's limit says (`ulimit -s`), as that of threads of C
    /// programs is; 8 MiB if there is no limit, and no less than 2 MiB, or than `RUST_MIN_STACK` says.
    ///
    /// # Errors
    /// `System` if the operating system has none.
    #[doc(alias = "deck_thread_create")]
    pub fn spawn(run: impl FnOnce() -> T + Send + 'static) -> Result<Thread<T>> {
        let (tell, told) = mpsc::sync_channel(1);
        let end = Arc::new(Ending::default());
        let ends = Ends(end.clone());
        let handle = std::thread::Builder::new()
            .name("deck".into())
            .stack_size(stack_bytes())
            .spawn(move || {
                ends.0.be_of_this_thread();
                let _ends = ends;
                let _ = tell.send(Canceller::of_this_thread());
                run()
            })
            .map_err(|error| Error::no_thread("starting a thread", &error))?;
        match told.recv() {
            Ok(canceller) => Ok(Thread { handle, canceller, end }),
            Err(_) => Err(Error::new(ErrorKind::System, "starting a thread that ended before it began")),
        }
    }

    /// Waits until it has come to its end; [`Thread::join`] does not wait then. Blocks until the deadline.
    ///
    /// # Errors
    /// `Timeout`, `Cancelled` if the calling thread was cancelled.
    pub fn wait(&self, timeout: Duration) -> Result<()> {
        self.end.wait(timeout)
    }

    /// Waits for its end, however long that takes, and whether the calling thread is cancelled or not: [`Thread::wait`]
    /// comes before it where that matters.
    ///
    /// # Errors
    /// What the thread panicked with.
    #[doc(alias = "deck_thread_join")]
    pub fn join(self) -> std::thread::Result<T> {
        // Others may spin meanwhile.
        deck_sync::rest_while(&self.end.about(), || self.handle.join())
    }

    /// Its present or next DECK wait ends with `Cancelled`. Never blocks.
    #[doc(alias = "deck_cancel")]
    pub fn cancel(&self) {
        self.canceller.cancel();
    }

    /// What cancels it, also after this handle is gone.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }
}

impl<T> fmt::Debug for Thread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Thread").field(&self.handle.thread().id()).field(&self.canceller).finish()
    }
}

#[cfg(test)]
mod tests {
    use deck_sync::ErrorKind;

    use super::*;

    const NOT_YET: Duration = Duration::from_millis(2);

    #[test]
    fn a_wait_for_the_end_of_a_thread_has_a_deadline_and_can_be_cancelled() {
        let (go, goes) = mpsc::channel::<()>();
        let thread = Thread::spawn(move || goes.recv().is_ok()).unwrap();
        assert_eq!(thread.wait(Duration::ZERO).unwrap_err().kind(), ErrorKind::Timeout);
        assert_eq!(thread.wait(NOT_YET).unwrap_err().kind(), ErrorKind::Timeout);
        Canceller::of_this_thread().cancel();
        assert_eq!(thread.wait(deck_sync::FOREVER).unwrap_err().kind(), ErrorKind::Cancelled);
        go.send(()).unwrap();
        thread.wait(deck_sync::FOREVER).unwrap();
        assert!(thread.join().unwrap());
    }

    #[test]
    fn a_thread_that_panics_comes_to_its_end_too() {
        let thread = Thread::spawn(|| panic!("on purpose")).unwrap();
        thread.wait(deck_sync::FOREVER).unwrap();
        assert!(thread.join().is_err());
    }
}
