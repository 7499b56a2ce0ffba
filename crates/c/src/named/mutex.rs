//! Mutexes.

use std::ffi::{c_char, c_int};

use deck_api::Result;
use deck_api::shared::Mutex;

use crate::error::{DECK_OK, answer, invalid};
use crate::handle::{Kind, Object, Pin, Table};
use crate::{arguments, node};

/// Opaque to C.
#[repr(C)]
pub struct MutexHandle([u8; 0]);

static MUTEXES: Table<Mutex> = Table::new();

// SAFETY: this is the only table of mutexes.
unsafe impl Object for Mutex {
    const KIND: Kind = Kind::Mutex;
}

/// The mutex behind `handle`.
pub fn pin(handle: *const MutexHandle) -> Result<Pin<Mutex>> {
    super::pin(&MUTEXES, handle)
}

/// `deck_mutex_open` in deck.h.
///
/// # Safety
/// `mutex` is NULL or may be written; `name` is NULL or a string that ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_mutex_open(mutex: *mut *mut MutexHandle, name: *const c_char) -> c_int {
    // SAFETY: the caller keeps what this function asks for.
    unsafe { super::open("deck_mutex_open", &MUTEXES, mutex, name, Mutex::open) }
}

/// `deck_mutex_lock` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_mutex_lock(mutex: *mut MutexHandle, timeout_ms: c_int) -> c_int {
    answer("deck_mutex_lock", || {
        node::session()?;
        let timeout = arguments::timeout(timeout_ms)?;
        pin(mutex)?.lock_unguarded(timeout)?;
        Ok(DECK_OK)
    })
}

/// `deck_mutex_unlock` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_mutex_unlock(mutex: *mut MutexHandle) -> c_int {
    answer("deck_mutex_unlock", || {
        pin(mutex)?.unlock()?;
        Ok(DECK_OK)
    })
}

/// `deck_mutex_close` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_mutex_close(mutex: *mut MutexHandle) -> c_int {
    let is_free = |mutex: &Mutex| match mutex.is_mine() {
        true => Err(invalid("closing a mutex that this thread holds").with_remedy("unlock it first")),
        false => Ok(()),
    };
    super::close("deck_mutex_close", &MUTEXES, mutex, is_free, Mutex::close)
}
