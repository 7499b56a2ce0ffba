//! Copies of short content: what most messages have is moved by two loads and two stores, where the library's copy is a
//! call.

/// Copies as [`std::ptr::copy_nonoverlapping`] does.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn copy_short(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            8..=16 => copy_ends::<u64>(from, to, bytes),
            4..=7 => copy_ends::<u32>(from, to, bytes),
            _ => std::ptr::copy_nonoverlapping(from, to, bytes),
        }
    }
}

/// Copies the first and the last word, which are or overlap all that there is.
///
/// # Safety
/// As [`copy_short`]; there are `bytes` bytes from one word to two.
#[inline(always)]
unsafe fn copy_ends<Word>(from: *const u8, to: *mut u8, bytes: usize) {
    let behind = bytes - size_of::<Word>();
    // SAFETY: both words lie within the bytes (caller), and may lie anywhere.
    unsafe {
        let (first, last) = (from.cast::<Word>().read_unaligned(), from.add(behind).cast::<Word>().read_unaligned());
        to.cast::<Word>().write_unaligned(first);
        to.add(behind).cast::<Word>().write_unaligned(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_copied_and_nothing_else() {
        let from: [u8; 64] = std::array::from_fn(|at| at as u8 + 1);
        for bytes in 0..=40 {
            for offset in 0..8 {
                let mut to = [0; 64];
                // SAFETY: both arrays have room for 47 bytes.
                unsafe { copy_short(from.as_ptr().add(offset), to.as_mut_ptr().add(offset), bytes) };
                let expected: [u8; 64] =
                    std::array::from_fn(|at| if (offset..offset + bytes).contains(&at) { from[at] } else { 0 });
                assert_eq!(to, expected, "{bytes} bytes from {offset} on");
            }
        }
    }
}
