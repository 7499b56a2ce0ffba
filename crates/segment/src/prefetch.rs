//! Hints to the processor's caches. A hint changes no value.

use std::ptr::NonNull;

use crate::layout::LINE;

/// The line at `address` will be read soon. Cannot fault, wherever it points.
#[inline]
pub fn to_read(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing and cannot fault.
    unsafe {
        std::arch::asm!("prefetcht0 [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// The line at `address` will be written soon: it is fetched so that no other core has it. Cannot fault, wherever it
/// points.
#[inline]
pub fn to_write(address: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch writes nothing and cannot fault; processors that do not know this one take it for nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// As [`to_write`], all lines of `bytes` bytes from `begin` on, which begins a line.
#[inline]
pub fn all_to_write(begin: *mut u8, bytes: usize) {
    (0..bytes).step_by(LINE).for_each(|at| to_write(begin.wrapping_add(at)));
}

/// Fetches `bytes` bytes from `begin` on for whoever reads all of them: all other cores lose them, so that the next one
/// that writes them has no copy to be taken away elsewhere ([why](../../../docs/design/070-buffers-rest.md)). A line is
/// written with what is in it, as processors give a line to a writer alone, but a line that was asked for by a hint to
/// whoever wants it.
///
/// Costs about as much as reading them, which is quick afterwards.
///
/// # Safety
/// The bytes are mapped writable, and nobody writes them meanwhile but with what is in them.
#[inline]
pub unsafe fn fetch(begin: NonNull<u8>, bytes: usize) {
    // The first byte, and then the first one of each line.
    let (mut at, mut next) = (0, LINE - begin.addr().get() % LINE);
    while at < bytes {
        // SAFETY: `at` is less than `bytes`, so it lies in what the caller has named.
        let address = unsafe { begin.add(at) }.as_ptr();
        (at, next) = (next, next + LINE);
        // SAFETY: a byte that is mapped writable (caller) and that afterwards is what it was. Nobody writes another
        // value there meanwhile (caller), so none is lost; to the program it is as if nothing had been written.
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        unsafe {
            std::arch::asm!("mov {byte}, [{address}]", "mov [{address}], {byte}", address = in(reg) address, byte = out(reg_byte) _,
                options(nostack, preserves_flags));
        }
        #[cfg(all(target_arch = "aarch64", not(any(loom, miri))))]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("ldrb {byte:w}, [{address}]", "strb {byte:w}, [{address}]", address = in(reg) address, byte = out(reg) _,
                options(nostack, preserves_flags));
        }
        #[cfg(any(loom, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
        let _ = address;
    }
}
