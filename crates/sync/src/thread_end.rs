//! What is done when all of a thread has ended, its thread-local values included.
//!
//! Whoever cleans up may use DECK still: destructors of thread-local values in their thread, and handlers of `exit` and
//! destructors of static objects in the thread that ends the process, which has destroyed its thread-local values
//! before them. So what a thread has of DECK and needs there is not dropped like those. The keys of the system's
//! threads come after them, and the system comes to them several times while destructors set them anew: what is done
//! here is done the second time, behind those of the program's own keys. `exit` leaves keys alone, as the process ends
//! with all it has.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use crate::{Error, ErrorKind, Result, stay_loaded};

/// What is done at the end of each thread that expects it.
pub struct ThreadEnd {
    key: OnceLock<libc::pthread_key_t>,
    act: fn(),
}

impl ThreadEnd {
    /// Nobody expects it yet. `act` must not panic.
    pub const fn new(act: fn()) -> ThreadEnd {
        ThreadEnd { key: OnceLock::new(), act }
    }

    /// It comes at the end of the calling thread, however often this is called. Never blocks.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`].
    pub fn expect(&'static self) -> Result<()> {
        let key = self.key.get().copied().or_else(|| self.make_key());
        match key.filter(|key| self.set(*key, IS_ENDING.get())) {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::NoMemory, "noting what is to be done at the end of a thread")
                .with_remedy("let the program use fewer keys of threads (pthread_key_create), or less memory")),
        }
    }

    #[cold]
    fn make_key(&'static self) -> Option<libc::pthread_key_t> {
        stay_loaded();
        let mut key = 0;
        // SAFETY: a place for the key; `ended` stays loaded, and takes what `set` gives.
        if unsafe { libc::pthread_key_create(&mut key, Some(ended)) } != 0 {
            return None;
        }
        if self.key.set(key).is_err() {
            // Another thread was faster.
            // SAFETY: nobody else knows this one.
            unsafe { libc::pthread_key_delete(key) };
        }
        self.key.get().copied()
    }

    /// The calling thread does it when the system comes to the key: `at_once`, or the time after that.
    fn set(&'static self, key: libc::pthread_key_t, at_once: bool) -> bool {
        let this = ptr::from_ref(self).wrapping_byte_add(at_once.into());
        // SAFETY: a key that was made and is never deleted.
        unsafe { libc::pthread_setspecific(key, this.cast()) == 0 }
    }
}

thread_local!(static IS_ENDING: Cell<bool> = const { Cell::new(false) });

/// Called by the system's library at the end of a thread, with what was set for its key.
unsafe extern "C" fn ended(end: *mut c_void) {
    let at_once = !end.addr().is_multiple_of(align_of::<ThreadEnd>());
    let end = end.wrapping_byte_sub(at_once.into());
    // SAFETY: `set` has given the address of one that lives for ever, or the byte behind that.
    let end: &'static ThreadEnd = unsafe { &*end.cast() };
    // Whoever comes this late waits no more: the system does not come for ever.
    IS_ENDING.set(true);
    let is_put_off = !at_once && end.key.get().is_some_and(|key| end.set(*key, true));
    if !is_put_off {
        (end.act)();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::sync::Mutex;
    use std::thread;

    use super::*;
    use crate::locks::lock;

    static SEEN: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    static END: ThreadEnd = ThreadEnd::new(|| lock(&SEEN).push("end"));

    struct Late;

    impl Drop for Late {
        fn drop(&mut self) {
            lock(&SEEN).push("thread-local");
            END.expect().unwrap();
        }
    }

    #[test]
    fn it_comes_after_thread_local_values_once_and_only_where_it_is_expected() {
        thread_local! {
            static LATE: Late = const { Late };
            static OTHER: Cell<u32> = const { Cell::new(0) };
        }
        thread::spawn(|| OTHER.set(1)).join().unwrap();
        assert!(lock(&SEEN).is_empty());
        let expects = || {
            END.expect().unwrap();
            LATE.with(|_| ());
            END.expect().unwrap();
        };
        thread::spawn(expects).join().unwrap();
        assert_eq!(*lock(&SEEN), ["thread-local", "end"]);
    }
}
