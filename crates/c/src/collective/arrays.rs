//! The arrays of a collective that is started. Long ones in the content of a message are used where they lie, so that
//! there is one buffer for all; whatever becomes of the message meanwhile, the call keeps a share of it. All others are
//! copied.

use std::{ptr, slice};

use deck_api::Result;
use deck_api::group::{Array, Group, Share};
use deck_sync::vectors;

/// What memory is for that there may be too little of.
pub const MEMORY: &str = "of a collective";

/// Longer arrays are looked for in messages: below, copying costs less.
const LENT_ABOVE: usize = 16 << 10;

/// Content of a message.
struct Lent {
    address: *mut u8,
    bytes: usize,
    _share: Share,
}

// SAFETY: the bytes belong to the call until it has ended, as deck.h says, whichever thread carries it.
unsafe impl Send for Lent {}
// SAFETY: as above; they are written through `&mut` alone.
unsafe impl Sync for Lent {}

impl Lent {
    /// The `bytes` bytes at `address`, if they are long and lie in a message.
    ///
    /// # Safety
    /// The bytes can be read.
    unsafe fn of(group: &Group, address: *mut u8, bytes: usize) -> Option<Lent> {
        if bytes <= LENT_ABOVE {
            return None;
        }
        // SAFETY: as the caller promises.
        let share = group.share_of(unsafe { slice::from_raw_parts(address, bytes) })?;
        Some(Lent { address, bytes, _share: share })
    }
}

impl Array for Lent {
    fn bytes(&self) -> &[u8] {
        // SAFETY: they lie in the buffer that is shared, and are left to the library.
        unsafe { slice::from_raw_parts(self.address, self.bytes) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; only what the call writes is asked for in this way.
        unsafe { slice::from_raw_parts_mut(self.address, self.bytes) }
    }
}

/// What a call reads. Where it `is_written` too, it is copied.
///
/// # Safety
/// `address` can be read for `bytes` bytes, or is anything if these are 0; in a message they stay as they are until the
/// call has ended.
pub unsafe fn to_read(group: &Group, address: *const u8, bytes: usize, is_written: bool) -> Result<Box<dyn Array>> {
    if bytes == 0 {
        return Ok(Box::default());
    }
    if !is_written {
        // SAFETY: as the caller promises. Nothing is written through the address.
        let lent = unsafe { Lent::of(group, address.cast_mut(), bytes) };
        if let Some(lent) = lent {
            return Ok(Box::new(lent));
        }
    }
    // SAFETY: as the caller promises.
    let content = unsafe { slice::from_raw_parts(address, bytes) };
    Ok(Box::new(vectors::copied(content, MEMORY)?))
}

/// What a call writes: where the result is wanted, or memory from which [`put`] brings it there.
///
/// # Safety
/// `address` can be read and written for `bytes` bytes, or is anything if these are 0, and is left to the call until it
/// has ended.
pub unsafe fn to_write(group: &Group, address: *mut u8, bytes: usize) -> Result<Box<dyn Array>> {
    // SAFETY: as the caller promises.
    match unsafe { Lent::of(group, address, bytes) } {
        Some(lent) => Ok(Box::new(lent)),
        None => Ok(Box::new(vectors::defaults::<u8>(bytes, MEMORY)?)),
    }
}

/// Puts a result where it is wanted. One that is there already has no bytes.
///
/// # Safety
/// `address` can be written for as many bytes as the result has.
pub unsafe fn put(result: &[u8], address: *mut u8) {
    if !result.is_empty() {
        // SAFETY: as the caller promises; the result is memory of its own.
        unsafe { ptr::copy_nonoverlapping(result.as_ptr(), address, result.len()) };
    }
}
