//! A table with an entry for each buffer that a heap can have: zeroes, whose pages are taken when they are first
//! touched.
//!
//! Its memory comes from the system and goes back there. An allocator keeps what was freed, whatever its size, and has
//! to write zeroes into all of it for the next table: then each node that is met takes 4 MiB.

use std::ops::Index;
use std::ptr::{self, NonNull};

use deck_sync::{Error, ErrorKind, Result};

use crate::layout::BUFFERS;
use crate::limits;

/// As many `T` as a heap can have buffers.
#[derive(Debug)]
pub struct Table<T> {
    entries: NonNull<[T]>,
}

// SAFETY: the table owns its entries, as a box does.
unsafe impl<T: Send> Send for Table<T> {}
// SAFETY: as above; all that is given out is `&T`.
unsafe impl<T: Sync> Sync for Table<T> {}

impl<T> Table<T> {
    const BYTES: usize = BUFFERS * size_of::<T>();

    /// # Errors
    /// [`ErrorKind::NoMemory`] where the process may not have that much address space.
    ///
    /// # Safety
    /// All zero bytes have to be a valid `T`, and that have a size and nothing to drop.
    pub unsafe fn zeroed() -> Result<Table<T>> {
        // libc's calls, as Miri knows them.
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let begin = unsafe { libc::mmap(ptr::null_mut(), Self::BYTES, access, flags, -1, 0) };
        if begin == libc::MAP_FAILED {
            let what = format!("{} of this process for a table of a node's buffers", limits::size(Self::BYTES as u64));
            return Err(
                Error::new(ErrorKind::NoMemory, what).with_remedy("raise the limit of address space (ulimit -v)")
            );
        }
        let begin = NonNull::new(begin.cast::<T>()).expect("the kernel does not choose address 0");
        Ok(Table { entries: NonNull::slice_from_raw_parts(begin, BUFFERS) })
    }

    /// For models, which have no buffers.
    #[cfg(loom)]
    pub fn empty() -> Table<T> {
        Table { entries: NonNull::slice_from_raw_parts(NonNull::dangling(), 0) }
    }
}

impl<T> Index<usize> for Table<T> {
    type Output = T;

    /// Of one entry alone a reference is made: for one of all Miri would look at each.
    #[inline]
    fn index(&self, index: usize) -> &T {
        assert!(index < self.entries.len(), "entry {index} of {}", self.entries.len());
        // SAFETY: inside; mapped until drop, all zero at first, which is valid (caller of `zeroed`); a page is more
        // than any `T` needs to be aligned.
        unsafe { self.entries.cast::<T>().add(index).as_ref() }
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        if !self.entries.is_empty() {
            // SAFETY: mapped by `zeroed` with this size; what was given out has ended, as it borrows the table.
            unsafe { libc::munmap(self.entries.as_ptr().cast(), Self::BYTES) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "entry 1048576 of 1048576")]
    fn there_is_no_entry_behind_the_last() {
        // SAFETY: all zero bytes are a valid u64, which has nothing to drop.
        let table: Table<u64> = unsafe { Table::zeroed() }.unwrap();
        assert_eq!((table[0], table[BUFFERS - 1]), (0, 0));
        let _ = table[BUFFERS];
    }
}
