//! Sleeping on words, also on words that several processes map.
//!
//! Under loom there is no kernel: a model of the futex (one lock, one condition variable) takes its place, so that a
//! lost wake-up shows as a deadlock.

use std::time::Duration;

use crate::atomic::AtomicU32;
#[cfg(not(loom))]
use crate::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use crate::wait::sleepers;

/// The most words one sleeper can watch at once (the kernel's `FUTEX_WAITV_MAX`).
#[cfg(not(loom))]
pub(crate) const WATCH_MAX: usize = 128;

/// How long one sleep lasts where not all the words are watched.
#[cfg(not(loom))]
pub(crate) const SLICE: Duration = Duration::from_millis(1);

/// Sleeps while `word` holds `expected`, at most for `timeout`; may return for no reason.
#[cfg(not(loom))]
pub fn sleep(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    use rustix::thread::futex;
    let timeout = timeout.map(timespec);
    // Every error is a reason to look again: the value changed, the time is over, a signal came.
    let _ = futex::wait(word, futex::Flags::empty(), expected, timeout.as_ref());
}

/// Sleeps while every word holds its expected value.
#[cfg(not(loom))]
pub fn sleep_any(words: &[(&AtomicU32, u32)], timeout: Option<Duration>) {
    if let [(word, expected)] = words {
        return sleep(word, *expected, timeout);
    }
    if words.is_empty() {
        return std::thread::sleep(timeout.unwrap_or(SLICE));
    }
    if words.len() > WATCH_MAX {
        return sleepers::sleep(words, timeout);
    }
    if !watch(words, timeout) {
        // A kernel before 5.16 cannot watch several words: look at all of them every slice.
        sleep(words[0].0, words[0].1, Some(timeout.map_or(SLICE, |timeout| timeout.min(SLICE))));
    }
}

/// The kernel's `struct futex_waitv`.
#[cfg(not(loom))]
#[repr(C)]
struct Watch {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// Whether `futex_waitv` was refused, by a kernel that does not have it or by a filter of system calls.
#[cfg(not(loom))]
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// `futex_waitv` on all words, at most [`WATCH_MAX`]; false if there is no such call for this process.
#[cfg(not(loom))]
pub(crate) fn watch(words: &[(&AtomicU32, u32)], timeout: Option<Duration>) -> bool {
    const SIZE_U32: u32 = 2;
    if IS_REFUSED.load(Ordering::Relaxed) {
        return false;
    }
    let watches: Vec<Watch> = words
        .iter()
        .map(|(word, expected)| Watch {
            value: u64::from(*expected),
            address: std::ptr::from_ref(*word) as u64,
            flags: SIZE_U32,
            reserved: 0,
        })
        .collect();
    // The call takes a moment, not a duration.
    let until = timeout.map(|timeout| {
        let end = crate::now_ns().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        timespec(Duration::from_nanos(end))
    });
    let until_ptr = until.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY:
    // - `watches` holds `watches.len()` (at most 128) initialised entries in the kernel's layout and outlives the call;
    // - each address is that of a live atomic, borrowed for the whole call;
    // - `until_ptr` is null or points to a timespec that outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex_waitv,
            watches.as_ptr(),
            watches.len() as libc::c_uint,
            0 as libc::c_uint,
            until_ptr,
            libc::CLOCK_MONOTONIC,
        )
    };
    if result >= 0 {
        return true;
    }
    // These are reasons to look again: a value had changed, a signal came, the time is over.
    let error = std::io::Error::last_os_error().raw_os_error();
    let is_over = matches!(error, Some(libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT));
    // That there was no memory for it passes.
    IS_REFUSED.store(!is_over && error != Some(libc::ENOMEM), Ordering::Relaxed);
    is_over
}

#[cfg(not(loom))]
fn timespec(duration: Duration) -> rustix::thread::futex::Timespec {
    rustix::thread::futex::Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos() as _,
    }
}

/// Wakes up to `count` sleepers of `word`, in any process.
#[cfg(not(loom))]
pub fn wake(word: &AtomicU32, count: u32) {
    use rustix::thread::futex;
    let _ = futex::wake(word, futex::Flags::empty(), count.min(i32::MAX as u32));
}

#[cfg(loom)]
mod model {
    loom::lazy_static! {
        pub static ref LOCK: loom::sync::Mutex<()> = loom::sync::Mutex::new(());
        pub static ref CHANGED: loom::sync::Condvar = loom::sync::Condvar::new();
    }
}

#[cfg(loom)]
pub fn sleep(word: &AtomicU32, expected: u32, _timeout: Option<Duration>) {
    let guard = model::LOCK.lock().unwrap();
    // Pairs with: event/notify, as the kernel's look does.
    if word.load(crate::atomic::Ordering::SeqCst) == expected {
        drop(model::CHANGED.wait(guard).unwrap());
    }
}

#[cfg(loom)]
pub fn sleep_any(words: &[(&AtomicU32, u32)], timeout: Option<Duration>) {
    assert_eq!(words.len(), 1, "the model of the futex watches one word");
    sleep(words[0].0, words[0].1, timeout);
}

#[cfg(loom)]
pub fn wake(_word: &AtomicU32, _count: u32) {
    let _guard = model::LOCK.lock().unwrap();
    model::CHANGED.notify_all();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "futex_waitv")]
    fn a_changed_word_ends_the_sleep_at_once() {
        let word = AtomicU32::new(1);
        sleep(&word, 0, None);
        let other = AtomicU32::new(7);
        sleep_any(&[(&word, 1), (&other, 0)], None);
    }
}
