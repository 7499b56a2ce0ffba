//! The code of DECK stays where it is once it has been used.
//!
//! A program may load it at run time, as `libdeck.so` or as a part of a plugin that was linked with it, and unload it
//! again. But the system calls some of it in forked children as long as the process lives, and threads of DECK's own
//! come to their end a moment after their node has left.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// From now on whatever library this code is a part of is never unloaded. A program is not in any case. May wait for
/// the loader, and so for constructors of libraries that are being loaded: not to be called where those may wait for
/// it.
pub fn stay_loaded() {
    static IS_HELD: AtomicBool = AtomicBool::new(false);
    // To hold it twice does no harm.
    if !cfg!(miri) && !IS_HELD.load(Ordering::Relaxed) {
        hold_own_library();
        IS_HELD.store(true, Ordering::Relaxed);
    }
}

fn hold_own_library() {
    let own = hold_own_library as fn() as *const c_void;
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: an address of code, and a place for what is told of it.
    if unsafe { libc::dladdr(own, found.as_mut_ptr()) } == 0 {
        return;
    }
    // SAFETY: it was written; the loader's names of what is loaded end, and stay as long as that.
    let name = unsafe { CStr::from_ptr(found.assume_init().dli_fname) };
    // The loader knows a library by its path. Without one it is the program, by the name that it was called by.
    if name.to_bytes().contains(&b'/') {
        // SAFETY: a name that ends. Nothing is loaded, and so no code of others runs: what is there is counted once
        // more, which is never taken back.
        unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    }
}
