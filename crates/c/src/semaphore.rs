//! Semaphores between the threads of a process, which can be destroyed under those who wait.

use std::ffi::c_int;

use deck_api::{Result, Semaphore};

use crate::error::{DECK_OK, answer, answer_uncancelled};
use crate::handle::{Caller, Kind, Object, Pin, Table};
use crate::{arguments, node};

/// Opaque to C.
#[repr(C)]
pub struct SemaphoreHandle([u8; 0]);

static SEMAPHORES: Table<Semaphore> = Table::new();

// SAFETY: this is the only table of semaphores.
unsafe impl Object for Semaphore {
    const KIND: Kind = Kind::Semaphore;
}

/// Ends every wait in a semaphore, because the node leaves its job.
pub fn close_all() {
    SEMAPHORES.find(|semaphore| {
        semaphore.close();
        None::<()>
    });
}

fn pin(handle: *const SemaphoreHandle, caller: Caller) -> Result<Pin<Semaphore>> {
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
        let handle = SEMAPHORES.insert(session, Semaphore::new(initial))?;
        // SAFETY: not NULL, and the caller lets it be written.
        unsafe { semaphore.write(handle) };
        Ok(DECK_OK)
    })
}

/// `deck_sem_post` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_sem_post(semaphore: *mut SemaphoreHandle) -> c_int {
    answer("deck_sem_post", || {
        pin(semaphore, node::caller()?)?.post()?;
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
