//! Threads: started, cancelled and joined through a handle.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::ThreadId;

use deck_api::{Canceller, FOREVER, Thread};
use deck_sync::locks::lock;

use crate::error::{DECK_OK, answer, bug, invalid, prepare};
use crate::handle::{Kind, Object, Table};
use crate::{arguments, node};

/// Opaque to C.
#[repr(C)]
pub struct ThreadHandle([u8; 0]);

/// What C runs in a thread.
pub type Start = extern "C" fn(*mut c_void) -> *mut c_void;

static THREADS: Table<Started> = Table::new();

// SAFETY: this is the only table of threads.
unsafe impl Object for Started {
    const KIND: Kind = Kind::Thread;
}

struct Started {
    /// Taken by the one who joins.
    thread: Mutex<Option<Thread<Opaque>>>,
    canceller: Canceller,
    /// Set by the thread itself before it runs anything of the user's.
    id: Arc<OnceLock<ThreadId>>,
}

/// A pointer that DECK carries from thread to thread and never looks behind.
struct Opaque(*mut c_void);

// SAFETY: the pointer is never dereferenced here; what it points to is shared by the C program, on its own terms.
unsafe impl Send for Opaque {}

/// `deck_thread_create` in deck.h.
///
/// # Safety
/// `thread` is NULL or may be written; `start` may be called with `argument` in another thread, and returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_thread_create(
    thread: *mut *mut ThreadHandle,
    start: Option<Start>,
    argument: *mut c_void,
) -> c_int {
    answer("deck_thread_create", || {
        let session = node::session()?;
        arguments::place(thread, "new thread", "the first argument")?;
        let start = start.ok_or_else(|| invalid("the function that the thread shall run is NULL"))?;
        // Before the thread runs: it could not be taken back.
        let room = THREADS.reserve()?;
        let id = Arc::new(OnceLock::new());
        let (own_id, argument) = (Arc::clone(&id), Opaque(argument));
        let spawned = Thread::spawn(move || {
            prepare();
            let _ = own_id.set(std::thread::current().id());
            // The whole Opaque moves in, not only the pointer inside, which could not.
            let argument = argument;
            Opaque(start(argument.0))
        })?;
        let canceller = spawned.canceller();
        let handle = room.fill(session, Started { thread: Mutex::new(Some(spawned)), canceller, id });
        // SAFETY: not NULL, and the caller lets it be written.
        unsafe { thread.write(handle) };
        Ok(DECK_OK)
    })
}

/// `deck_thread_join` in deck.h.
///
/// # Safety
/// `result` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_thread_join(thread: *mut ThreadHandle, result: *mut *mut c_void) -> c_int {
    answer("deck_thread_join", || {
        let pin = node::pin_to_destroy(&THREADS, thread)?;
        if pin.id.get() == Some(&std::thread::current().id()) {
            return Err(invalid("a thread cannot join itself").with_remedy("join it from another thread"));
        }
        let place = || lock(&pin.thread);
        let joined = place().take();
        let joined = joined.ok_or_else(|| invalid("another thread is joining this one").with_remedy("join it once"))?;
        if let Err(cancelled) = joined.wait(FOREVER) {
            *place() = Some(joined);
            return Err(cancelled);
        }
        let returned = joined.join();
        pin.remove();
        let Opaque(returned) = returned.map_err(|panic| bug(panic.as_ref()))?;
        if !result.is_null() {
            // SAFETY: not NULL, and the caller lets it be written.
            unsafe { result.write(returned) };
        }
        Ok(DECK_OK)
    })
}

/// `deck_cancel` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_cancel(thread: *mut ThreadHandle) -> c_int {
    answer("deck_cancel", || {
        let caller = node::caller()?;
        let pin = THREADS.pin(thread, caller)?;
        pin.canceller.cancel();
        Ok(DECK_OK)
    })
}
