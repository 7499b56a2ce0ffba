//! What keeps `pthread_cancel` away for a moment.
//!
//! A C program may cancel its threads, which unwinds their stacks from within whatever call of the system comes next
//! (pthreads(7), "Cancellation points"): reading a file, closing a descriptor, waiting for a thread. Rust does not let
//! that pass, and the process would end.

use libc::c_int;

/// `PTHREAD_CANCEL_DISABLE` of glibc and musl.
const DISABLE: c_int = 1;

// SAFETY: of the C library, as declared in pthread.h: whoever calls it may give any state, and NULL or a place for one.
unsafe extern "C" {
    safe fn pthread_setcancelstate(state: c_int, before: Option<&mut c_int>) -> c_int;
}

/// Acts while the calling thread cannot be cancelled by `pthread_cancel`, which comes to it afterwards. Costs some
/// nanoseconds.
pub fn uncancelled<R>(act: impl FnOnce() -> R) -> R {
    let mut before = DISABLE;
    if !cfg!(miri) {
        pthread_setcancelstate(DISABLE, Some(&mut before));
    }
    let _restored = Restored(before);
    act()
}

/// Whether a thread can be cancelled is as it was, however `act` ends.
struct Restored(c_int);

impl Drop for Restored {
    fn drop(&mut self) {
        if self.0 != DISABLE {
            pthread_setcancelstate(self.0, None);
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn state() -> c_int {
        let mut state = -1;
        pthread_setcancelstate(DISABLE, Some(&mut state));
        pthread_setcancelstate(state, None);
        state
    }

    #[test]
    fn a_thread_can_be_cancelled_again_afterwards_also_if_that_panics() {
        let before = state();
        assert_ne!(before, DISABLE);
        assert_eq!(uncancelled(|| uncancelled(state)), DISABLE);
        assert_eq!(state(), before);
        std::panic::catch_unwind(|| uncancelled(|| panic!("on purpose"))).unwrap_err();
        assert_eq!(state(), before);
    }
}
