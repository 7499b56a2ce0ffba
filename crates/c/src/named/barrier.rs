//! Barriers.

use std::ffi::{c_char, c_int};

use deck_api::Node;
use deck_api::shared::Barrier;

use crate::error::{DECK_OK, answer};
use crate::handle::{Kind, Object, Table};
use crate::{arguments, node};

/// Opaque to C.
#[repr(C)]
pub struct BarrierHandle([u8; 0]);

static BARRIERS: Table<Barrier> = Table::new();

// SAFETY: this is the only table of barriers.
unsafe impl Object for Barrier {
    const KIND: Kind = Kind::Barrier;
}

/// `deck_barrier_open` in deck.h.
///
/// # Safety
/// `barrier` is NULL or may be written; `name` is NULL or a string that ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_barrier_open(barrier: *mut *mut BarrierHandle, name: *const c_char, size: u32) -> c_int {
    let open = |node: &Node, name: &str| Barrier::open(node, name, size);
    // SAFETY: the caller keeps what this function asks for.
    unsafe { super::open("deck_barrier_open", &BARRIERS, barrier, name, open) }
}

/// `deck_barrier_wait` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_barrier_wait(barrier: *mut BarrierHandle, timeout_ms: c_int) -> c_int {
    answer("deck_barrier_wait", || {
        node::session()?;
        let timeout = arguments::timeout(timeout_ms)?;
        super::pin(&BARRIERS, barrier)?.wait(timeout)?;
        Ok(DECK_OK)
    })
}

/// `deck_barrier_close` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_barrier_close(barrier: *mut BarrierHandle) -> c_int {
    super::close("deck_barrier_close", &BARRIERS, barrier, |_| Ok(()), Barrier::close)
}
