//! Threads: those of the operating system, with a way to cancel their waits.

use std::sync::mpsc;
use std::thread::JoinHandle;

use deck_sync::{About, Error, Goal, Result};

pub use deck_sync::Canceller;

/// A thread that can be cancelled while it waits in DECK. Dropping the handle lets the thread run on.
///
/// ```
/// let thread = deck_mudeck::Thread::spawn(|| 6 * 7)?;
/// assert_eq!(thread.join().unwrap(), 42);
/// # Ok::<(), deck_mudeck::Error>(())
/// ```
#[doc(alias = "deck_thread_t")]
pub struct Thread<T> {
    handle: JoinHandle<T>,
    canceller: Canceller,
}

impl<T: Send + 'static> Thread<T> {
    /// Starts a thread.
    ///
    /// # Errors
    /// `System` if the operating system has none.
    #[doc(alias = "deck_thread_create")]
    pub fn spawn(run: impl FnOnce() -> T + Send + 'static) -> Result<Thread<T>> {
        let (tell, told) = mpsc::sync_channel(1);
        let handle = std::thread::Builder::new()
            .name("deck".into())
            .spawn(move || {
                let _ = tell.send(Canceller::of_this_thread());
                run()
            })
            .map_err(|error| Error::system("starting a thread", error.raw_os_error().unwrap_or(0)))?;
        match told.recv() {
            Ok(canceller) => Ok(Thread { handle, canceller }),
            Err(_) => Err(Error::system("starting a thread", 0)),
        }
    }

    /// Waits for its end, however long that takes: the one wait without a deadline.
    ///
    /// # Errors
    /// What the thread panicked with.
    #[doc(alias = "deck_thread_join")]
    pub fn join(self) -> std::thread::Result<T> {
        // Others may spin meanwhile.
        deck_sync::rest_while(&About::new(Goal::Join, ""), || self.handle.join())
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
