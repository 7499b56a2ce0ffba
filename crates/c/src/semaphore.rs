//! Semaphores between the threads of a process, which can be destroyed under those who wait.

use std::ffi::c_int;

use deck_api::{Error, ErrorKind, Result, Semaphore};
use deck_sync::atomic::{AtomicBool, Ordering};

use crate::error::{DECK_OK, answer, answer_uncancelled};
use crate::handle::{Caller, Kind, Object, Pin, Table};
use crate::{arguments, node};

/// Opaque to C.
#[repr(C)]
pub struct SemaphoreHandle([u8; 0]);

static SEMAPHORES: Table<Closable> = Table::new();

// SAFETY: this is the only table of semaphores.
unsafe impl Object for Closable {
    const KIND: Kind = Kind::Semaphore;
}

/// A semaphore whose waiters can be sent home. Closing posts one extra unit that nobody keeps: whoever gets it sees
/// that the semaphore is closed and posts it on to the next.
struct Closable {
    inner: Semaphore,
    closed: AtomicBool,
}

impl Closable {
    fn wait(&self, timeout: std::time::Duration) -> Result<()> {
        self.inner.wait(timeout)?;
        // Acquire, pairs with: semaphore/closed
        if self.closed.load(Ordering::Acquire) {
            // A full semaphore refuses the unit, and then nobody needs it.
            let _ = self.inner.post();
            return Err(Error::new(ErrorKind::Closed, "the semaphore was destroyed while a thread waited in it"));
        }
        Ok(())
    }

    fn close(&self) {
        // Release, pairs with: semaphore/closed
        self.closed.store(true, Ordering::Release);
        let _ = self.inner.post();
    }
}

/// Ends every wait in a semaphore, because the node leaves its job.
pub fn close_all() {
    SEMAPHORES.find(|semaphore| {
        semaphore.close();
        None::<()>
    });
}

fn pin(handle: *const SemaphoreHandle, caller: Caller) -> Result<Pin<Closable>> {
    SEMAPHORES.pin(handle, caller)
}

/// `deck_sem_create` in deck.h.
///
/// # Safety
/// `semaphore` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_sem_create(semaphore: *mut *mut SemaphoreHandle, initial: u32) -> c_int {
    answer_uncancelled("deck_sem_create", || {
        let session = node::session()?;
        arguments::place(semaphore, "new semaphore", "the first argument")?;
        let closable = Closable { inner: Semaphore::new(initial), closed: AtomicBool::new(false) };
        let handle = SEMAPHORES.insert(session, closable)?;
        // SAFETY: not NULL, and the caller lets it be written.
        unsafe { semaphore.write(handle) };
        Ok(DECK_OK)
    })
}

/// `deck_sem_post` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_sem_post(semaphore: *mut SemaphoreHandle) -> c_int {
    answer("deck_sem_post", || {
        pin(semaphore, node::caller()?)?.inner.post()?;
        Ok(DECK_OK)
    })
}

/// `deck_sem_wait` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_sem_wait(semaphore: *mut SemaphoreHandle, timeout_ms: c_int) -> c_int {
    answer("deck_sem_wait", || {
        let caller = node::caller()?;
        let timeout = arguments::timeout(timeout_ms)?;
        pin(semaphore, caller)?.wait(timeout)?;
        Ok(DECK_OK)
    })
}

/// `deck_sem_destroy` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_sem_destroy(semaphore: *mut SemaphoreHandle) -> c_int {
    answer_uncancelled("deck_sem_destroy", || {
        let pin = node::pin_to_destroy(&SEMAPHORES, semaphore)?;
        pin.end()?;
        pin.close();
        Ok(DECK_OK)
    })
}
