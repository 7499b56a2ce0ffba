//! Vectors of a length that others decide: where there is no memory for them a library says so, and does not abort.

use crate::{Error, ErrorKind, Result};

/// A copy of `elements`. Never blocks.
///
/// # Errors
/// [`ErrorKind::NoMemory`] with the bytes and what they are for.
pub fn copied<T: Copy>(elements: &[T], what_for: &str) -> Result<Vec<T>> {
    let mut copy = room(elements.len(), what_for)?;
    copy.extend_from_slice(elements);
    Ok(copy)
}

/// `count` default elements. Never blocks.
///
/// # Errors
/// As [`copied`].
pub fn defaults<T: Copy + Default>(count: usize, what_for: &str) -> Result<Vec<T>> {
    let mut elements = room(count, what_for)?;
    elements.resize(count, T::default());
    Ok(elements)
}

/// Makes sure that there is memory for the few small things that a call makes and cannot do without: where such an
/// allocation fails, the standard library ends the process. Never blocks.
///
/// # Errors
/// As [`copied`].
pub fn headroom(what_for: &str) -> Result<()> {
    // Not more, or the allocator gives it back to the system each time.
    const BYTES: usize = 48 << 10;
    std::hint::black_box(room::<u8>(BYTES, what_for)?);
    Ok(())
}

fn room<T>(count: usize, what_for: &str) -> Result<Vec<T>> {
    let mut elements = Vec::new();
    elements.try_reserve_exact(count).map_err(|_| {
        let bytes = count.saturating_mul(size_of::<T>());
        Error::new(ErrorKind::NoMemory, format!("{bytes} bytes {what_for}"))
    })?;
    Ok(elements)
}
