//! What nodes share by name: opened by a name, closed by a handle.

mod barrier;
mod condition;
mod counter;
mod mutex;
mod segment;

use std::ffi::{CStr, c_char, c_int};

use deck_api::{Node, Result};

use crate::error::{DECK_OK, answer, invalid};
use crate::handle::{Pin, Table};
use crate::node;

/// Opens something by its name and gives its handle to C.
///
/// # Safety
/// `place` is NULL or may be written; `name` is NULL or a string that ends.
unsafe fn open<T, O>(
    call: &'static str,
    table: &Table<T>,
    place: *mut *mut O,
    name: *const c_char,
    open: impl FnOnce(&Node, &str) -> Result<T>,
) -> c_int {
    answer(call, || {
        let (session, node) = node::node()?;
        let what = table.kind().words();
        if place.is_null() {
            return Err(invalid(format!("no place for the {what}: the first argument is NULL")));
        }
        if name.is_null() {
            return Err(invalid(format!("no name for the {what}: the second argument is NULL")));
        }
        // SAFETY: not NULL, and the caller gives a string, which stays as it is during the call.
        let name = unsafe { CStr::from_ptr(name) };
        let name = name.to_str().map_err(|_| {
            invalid(format!("the name of the {what} is not UTF-8")).with_remedy("choose a name in UTF-8")
        })?;
        let room = table.reserve()?;
        let handle = room.fill(session, open(&node, name)?);
        // SAFETY: not NULL, and the caller lets it be written.
        unsafe { place.write(handle) };
        Ok(DECK_OK)
    })
}

/// The object behind a handle of the present session.
fn pin<'t, T, O>(table: &'t Table<T>, handle: *const O) -> Result<Pin<'t, T>> {
    table.pin(handle, Some(node::session()?)).map_err(|unusable| unusable.error(table.kind()))
}

/// Ends a handle. `before` may refuse; `after` sends those home who wait.
fn close<T, O>(
    call: &'static str,
    table: &Table<T>,
    handle: *const O,
    before: impl FnOnce(&T) -> Result<()>,
    after: impl FnOnce(&T),
) -> c_int {
    answer(call, || {
        let pin = node::pin_to_destroy(table, handle)?;
        before(&pin)?;
        pin.end()?;
        after(&pin);
        Ok(DECK_OK)
    })
}
