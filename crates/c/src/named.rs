//! What nodes share by name: opened by a name, closed by a handle.

mod barrier;
mod condition;
mod counter;
mod mutex;
mod segment;

use std::ffi::{c_char, c_int};

use deck_api::{Node, Result};
use deck_sync::vectors;

use crate::error::{DECK_OK, answer_uncancelled};
use crate::handle::{Object, Pin, Table};
use crate::{arguments, node};

/// As [`open_with`], for what is opened by its name alone.
///
/// # Safety
/// As there.
unsafe fn open<T: Object, O>(
    call: &'static str,
    table: &'static Table<T>,
    place: *mut *mut O,
    name: *const c_char,
    open: impl FnOnce(&Node, &str) -> Result<T>,
) -> c_int {
    // SAFETY: the caller keeps what this function asks for.
    unsafe { open_with(call, table, place, name, || Ok(()), |node, name, ()| open(node, name)) }
}

/// Opens something by its name and gives its handle to C. `plain` reads the other arguments.
///
/// # Safety
/// `place` is NULL or may be written; `name` is NULL or a string that ends.
unsafe fn open_with<T: Object, O, A>(
    call: &'static str,
    table: &'static Table<T>,
    place: *mut *mut O,
    name: *const c_char,
    plain: impl FnOnce() -> Result<A>,
    open: impl FnOnce(&Node, &str, A) -> Result<T>,
) -> c_int {
    answer_uncancelled(call, || {
        let (session, node) = node::node()?;
        let plain = plain()?;
        let what = T::KIND.words();
        arguments::place(place, what, "the first argument")?;
        // SAFETY: the caller gives NULL or a string that ends and stays as it is during the call.
        let name = unsafe { arguments::name(name, what) }?;
        vectors::headroom("for what belongs to a handle")?;
        let room = table.reserve()?;
        let handle = room.fill(session, open(&node, name, plain)?);
        // SAFETY: not NULL, and the caller lets it be written.
        unsafe { place.write(handle) };
        Ok(DECK_OK)
    })
}

/// The object behind a handle of the present session.
fn pin<T: Object, O>(table: &'static Table<T>, handle: *const O) -> Result<Pin<T>> {
    table.pin(handle, node::caller()?)
}

/// Ends a handle. `before` may refuse; `after` sends those home who wait.
fn close<T: Object, O>(
    call: &'static str,
    table: &'static Table<T>,
    handle: *const O,
    before: impl FnOnce(&T) -> Result<()>,
    after: impl FnOnce(&T),
) -> c_int {
    answer_uncancelled(call, || {
        let pin = node::pin_to_destroy(table, handle)?;
        before(&pin)?;
        pin.end()?;
        after(&pin);
        Ok(DECK_OK)
    })
}
