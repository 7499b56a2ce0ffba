//! Counters.

use std::ffi::{c_char, c_int};

use deck_api::Result;
use deck_api::shared::Counter;

use crate::error::{DECK_OK, answer};
use crate::handle::{Kind, Object, Pin, Table};
use crate::{arguments, node};

/// Opaque to C.
#[repr(C)]
pub struct CounterHandle([u8; 0]);

static COUNTERS: Table<Counter> = Table::new();

// SAFETY: this is the only table of counters.
unsafe impl Object for Counter {
    const KIND: Kind = Kind::Counter;
}

fn pin(handle: *const CounterHandle) -> Result<Pin<Counter>> {
    super::pin(&COUNTERS, handle)
}

/// Writes a value where C wants it, if it does.
///
/// # Safety
/// `place` is NULL or may be written.
unsafe fn tell(place: *mut i64, value: i64) -> Result<c_int> {
    if !place.is_null() {
        // SAFETY: not NULL, and the caller lets it be written.
        unsafe { place.write(value) };
    }
    Ok(DECK_OK)
}

/// `deck_counter_open` in deck.h.
///
/// # Safety
/// `counter` is NULL or may be written; `name` is NULL or a string that ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_counter_open(counter: *mut *mut CounterHandle, name: *const c_char) -> c_int {
    // SAFETY: the caller keeps what this function asks for.
    unsafe { super::open("deck_counter_open", &COUNTERS, counter, name, Counter::open) }
}

/// `deck_counter_add` in deck.h.
///
/// # Safety
/// `value` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_counter_add(counter: *mut CounterHandle, amount: i64, value: *mut i64) -> c_int {
    answer("deck_counter_add", || {
        let now = pin(counter)?.add(amount)?;
        // SAFETY: as the caller says.
        unsafe { tell(value, now) }
    })
}

/// `deck_counter_read` in deck.h.
///
/// # Safety
/// `value` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_counter_read(counter: *mut CounterHandle, value: *mut i64) -> c_int {
    answer("deck_counter_read", || {
        node::session()?;
        // Whoever reads wants to know, unlike one who adds or waits.
        arguments::place(value, "value", "the second argument")?;
        let now = pin(counter)?.read()?;
        // SAFETY: as the caller says.
        unsafe { tell(value, now) }
    })
}

/// `deck_counter_wait` in deck.h.
///
/// # Safety
/// `value` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_counter_wait(
    counter: *mut CounterHandle,
    at_least: i64,
    value: *mut i64,
    timeout_ms: c_int,
) -> c_int {
    answer("deck_counter_wait", || {
        node::session()?;
        let timeout = arguments::timeout(timeout_ms)?;
        let now = pin(counter)?.wait_for(at_least, timeout)?;
        // SAFETY: as the caller says.
        unsafe { tell(value, now) }
    })
}

/// `deck_counter_close` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_counter_close(counter: *mut CounterHandle) -> c_int {
    super::close("deck_counter_close", &COUNTERS, counter, |_| Ok(()), Counter::close)
}
