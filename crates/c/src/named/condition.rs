//! Condition variables.

use std::ffi::{c_char, c_int};

use deck_api::Result;
use deck_api::shared::Condition;

use super::mutex::{self, MutexHandle};
use crate::error::{DECK_OK, answer};
use crate::handle::{Kind, Object, Pin, Table};
use crate::{arguments, node};

/// Opaque to C.
#[repr(C)]
pub struct ConditionHandle([u8; 0]);

static CONDITIONS: Table<Condition> = Table::new();

// SAFETY: this is the only table of condition variables.
unsafe impl Object for Condition {
    const KIND: Kind = Kind::Condition;
}

fn pin(handle: *const ConditionHandle) -> Result<Pin<Condition>> {
    super::pin(&CONDITIONS, handle)
}

/// `deck_cond_open` in deck.h.
///
/// # Safety
/// `condition` is NULL or may be written; `name` is NULL or a string that ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_cond_open(condition: *mut *mut ConditionHandle, name: *const c_char) -> c_int {
    // SAFETY: the caller keeps what this function asks for.
    unsafe { super::open("deck_cond_open", &CONDITIONS, condition, name, Condition::open) }
}

/// `deck_cond_wait` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_cond_wait(condition: *mut ConditionHandle, mutex: *mut MutexHandle, timeout_ms: c_int) -> c_int {
    answer("deck_cond_wait", || {
        node::session()?;
        let timeout = arguments::timeout(timeout_ms)?;
        let (condition, mutex) = (pin(condition)?, mutex::pin(mutex)?);
        condition.wait_unguarded(&mutex, timeout)?;
        Ok(DECK_OK)
    })
}

/// `deck_cond_signal` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_cond_signal(condition: *mut ConditionHandle) -> c_int {
    answer("deck_cond_signal", || {
        pin(condition)?.signal()?;
        Ok(DECK_OK)
    })
}

/// `deck_cond_broadcast` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_cond_broadcast(condition: *mut ConditionHandle) -> c_int {
    answer("deck_cond_broadcast", || {
        pin(condition)?.broadcast()?;
        Ok(DECK_OK)
    })
}

/// `deck_cond_close` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_cond_close(condition: *mut ConditionHandle) -> c_int {
    super::close("deck_cond_close", &CONDITIONS, condition, |_| Ok(()), Condition::close)
}
