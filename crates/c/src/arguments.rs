//! What C gives to a call beside handles: names, types of elements, places for results.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::time::Duration;

use deck_api::{ElementType, FOREVER, Result};

use crate::error::invalid;

/// The name of a `what`.
///
/// # Errors
/// `Invalid` if it is NULL or not UTF-8.
///
/// # Safety
/// `pointer` is NULL or a string that ends and stays as it is during the call.
pub unsafe fn name<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(invalid(format!("the name of the {what} is NULL")));
    }
    // SAFETY: not NULL, and the caller gives a string that ends and stays.
    let name = unsafe { CStr::from_ptr(pointer) };
    name.to_str()
        .map_err(|_| invalid(format!("the name of the {what} is not UTF-8")).with_remedy("choose a name in UTF-8"))
}

/// Looks whether there is a place for the `what` that a call gives; `which` argument says where.
///
/// # Errors
/// `Invalid` if it is NULL.
pub fn place<T>(pointer: *const T, what: &str, which: &str) -> Result<()> {
    if pointer.is_null() { Err(invalid(format!("no place for the {what}: {which} is NULL"))) } else { Ok(()) }
}

/// A C timeout: -1 for ever, 0 try, else milliseconds.
pub fn timeout(milliseconds: c_int) -> Result<Duration> {
    match milliseconds {
        -1 => Ok(FOREVER),
        0.. => Ok(Duration::from_millis(milliseconds.unsigned_abs().into())),
        _ => Err(invalid(format!("a timeout of {milliseconds} ms"))
            .with_remedy("use DECK_FOREVER (-1), 0 to try, or a number of milliseconds")),
    }
}

/// A `deck_type_t`.
///
/// # Errors
/// `Invalid` if it is none.
pub fn element_type(code: c_uint) -> Result<ElementType> {
    u8::try_from(code).ok().and_then(ElementType::from_code).ok_or_else(|| {
        invalid(format!("{code} is no element type")).with_remedy("use a deck_type_t, DECK_BYTE to DECK_DOUBLE")
    })
}
