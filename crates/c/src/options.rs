//! Structs of options, which later versions may make longer.

use deck_api::{Error, ErrorKind, Result};

use crate::error::invalid;

/// Reads what this version knows of a struct that begins with its own size; what a later version adds must be 0. NULL:
/// all 0. `what` they are options of, and the `remedy` where they say no size, go into errors.
///
/// # Safety
/// `options` is NULL or a struct whose first member, a `size_t`, is its size; any bytes are a `T`.
pub unsafe fn read<T: Copy + Default>(options: *const T, what: &str, remedy: &'static str) -> Result<T> {
    const LARGEST: usize = 4096;
    let known = size_of::<T>();
    if options.is_null() {
        return Ok(T::default());
    }
    // SAFETY: the caller gives at least the first member.
    let size = unsafe { options.cast::<usize>().read_unaligned() };
    if !(known..=LARGEST).contains(&size) {
        return Err(invalid(format!("{what} options of {size} bytes")).with_remedy(remedy));
    }
    // SAFETY: the bytes from `known` to `size` belong to the same struct.
    let newer = unsafe { std::slice::from_raw_parts(options.cast::<u8>().add(known), size - known) };
    if newer.iter().any(|byte| *byte != 0) {
        let what = format!("the {what} options ask for something that this version of libdeck does not know");
        return Err(Error::new(ErrorKind::Unsupported, what)
            .with_remedy("run with the libdeck that the program was compiled for, or a later one"));
    }
    // SAFETY: the caller says that the struct has `size` bytes, at least those of `T`.
    Ok(unsafe { options.read_unaligned() })
}
