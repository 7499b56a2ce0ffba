//! Threads: started, cancelled and joined through a handle.
//!
//! They are threads of the system's own library, and not of Rust's: C programs may end one by `pthread_exit`, which
//! unwinds its stack and stops the process if Rust is to catch that anywhere. So between the system and what the
//! program wants to run stands one function that keeps nothing.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::{Arc, Mutex, mpsc};

use deck_api::{Canceller, Error, ErrorKind, FOREVER, Result};
use deck_sync::locks::lock;
use deck_sync::{About, Ending, Ends, rest_while, stack_bytes};

use crate::error::{DECK_OK, answer, answer_uncancelled, invalid, prepare};
use crate::handle::{Kind, Object, Table};
use crate::{arguments, node};

/// Opaque to C.
#[repr(C)]
pub struct ThreadHandle([u8; 0]);

/// What C runs in a thread.
pub type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

static THREADS: Table<Started> = Table::new();

// SAFETY: this is the only table of threads.
unsafe impl Object for Started {
    const KIND: Kind = Kind::Thread;
}

struct Started {
    /// Taken by the one who joins.
    thread: Mutex<Option<Thread>>,
    /// Its number in the system's library: of `std` a thread that is ending has none any more. Some libraries have
    /// pointers for it.
    number: usize,
    canceller: Canceller,
    ending: Arc<Ending>,
}

/// A thread of the system. Dropped, it runs on.
struct Thread(libc::pthread_t);

// SAFETY: any thread may join or detach another.
unsafe impl Send for Thread {}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: it was neither joined nor detached before.
        unsafe { libc::pthread_detach(self.0) };
    }
}

impl Thread {
    /// Starts a thread that does `work`; its stack is as long as the system's limit says.
    fn start(work: Box<Work>) -> Result<Thread> {
        let (mut how, mut thread) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let work = Box::into_raw(work);
        // SAFETY:
        // - attributes are made before they are used, and taken away after that;
        // - a length that cannot be is refused, and then it is that of the system;
        // - `run` takes what it is given, once.
        let refused = unsafe {
            libc::pthread_attr_init(how.as_mut_ptr());
            libc::pthread_attr_setstacksize(how.as_mut_ptr(), stack_bytes().next_multiple_of(PAGE));
            let refused = libc::pthread_create(thread.as_mut_ptr(), how.as_ptr(), enter(), work.cast());
            libc::pthread_attr_destroy(how.as_mut_ptr());
            refused
        };
        if refused != 0 {
            // SAFETY: no thread has it.
            drop(unsafe { Box::from_raw(work) });
            return Err(Error::no_thread("starting a thread", &io::Error::from_raw_os_error(refused)));
        }
        // SAFETY: it was written, as the thread was made.
        Ok(Thread(unsafe { thread.assume_init() }))
    }

    /// Waits for its end, which is what those who look on are told it is `about`, and gives what it has returned or
    /// exited with.
    fn join(self, about: &About<'_>) -> Result<*mut c_void> {
        let mut result = ptr::null_mut();
        // SAFETY: it was neither joined nor detached here before, and is not from now on; `result` may be written.
        let refused = rest_while(about, || unsafe { libc::pthread_join(self.0, &mut result) });
        mem::forget(self);
        match refused {
            0 => Ok(result),
            _ => Err(Error::system("joining a thread, which has perhaps detached itself", refused)),
        }
    }
}

/// Stacks consist of whole pages, and no system that DECK runs on has longer ones.
const PAGE: usize = 64 << 10;

/// What a thread is given when it starts.
struct Work {
    start: Start,
    argument: *mut c_void,
    tell: mpsc::SyncSender<Canceller>,
    ends: Ends,
}

thread_local!(static ENDS: Cell<Option<Ends>> = const { Cell::new(None) });

/// Runs what C wants to run. Keeps nothing that would have to be dropped: the program's function may never come back.
extern "C-unwind" fn run(work: *mut c_void) -> *mut c_void {
    let (start, argument) = begin(work.cast());
    start(argument)
}

/// [`run`] as the system's library takes it, which does not mind how it ends.
fn enter() -> extern "C" fn(*mut c_void) -> *mut c_void {
    // SAFETY: the two differ in nothing but that this one may end by an unwinding, which its caller, the system's
    // library, began.
    unsafe { mem::transmute::<Start, extern "C" fn(*mut c_void) -> *mut c_void>(run) }
}

fn begin(work: *mut Work) -> (Start, *mut c_void) {
    // SAFETY: it was made for this thread, which takes it once.
    let Work { start, argument, tell, ends } = *unsafe { Box::from_raw(work) };
    // SAFETY: the calling thread and a name that ends, of less than 16 bytes.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), c"deck".as_ptr()) };
    prepare();
    ends.0.be_of_this_thread();
    // What is the thread's own in DECK's crates besides is dropped before.
    ENDS.with(|own| own.set(Some(ends)));
    let _ = tell.send(Canceller::of_this_thread());
    (start, argument)
}

/// `deck_thread_create` in deck.h.
///
/// # Safety
/// `thread` is NULL or may be written; `start` may be called with `argument` in another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_thread_create(
    thread: *mut *mut ThreadHandle,
    start: Option<Start>,
    argument: *mut c_void,
) -> c_int {
    answer_uncancelled("deck_thread_create", || {
        let session = node::session()?;
        arguments::place(thread, "new thread", "the first argument")?;
        let start = start.ok_or_else(|| invalid("the function that the thread shall run is NULL"))?;
        // Before the thread runs: it could not be taken back.
        let room = THREADS.reserve()?;
        let ending = Arc::new(Ending::default());
        let (tell, told) = mpsc::sync_channel(1);
        let ends = Ends(ending.clone());
        let started = Thread::start(Box::new(Work { start, argument, tell, ends }))?;
        let no_begin = |_| Error::new(ErrorKind::System, "starting a thread that ended before it began");
        let canceller = told.recv().map_err(no_begin)?;
        let number = started.0 as usize;
        let handle = room.fill(session, Started { thread: Mutex::new(Some(started)), number, canceller, ending });
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
    answer_uncancelled("deck_thread_join", || {
        let pin = node::pin_to_destroy(&THREADS, thread)?;
        let place = || lock(&pin.thread);
        // SAFETY: it only tells.
        if pin.number == unsafe { libc::pthread_self() } as usize {
            return Err(invalid("a thread cannot join itself").with_remedy("join it from another thread"));
        }
        let joined = place().take();
        let joined = joined.ok_or_else(|| invalid("another thread is joining this one").with_remedy("join it once"))?;
        if let Err(cancelled) = pin.ending.wait(FOREVER) {
            *place() = Some(joined);
            return Err(cancelled);
        }
        let returned = joined.join(&pin.ending.about());
        pin.remove();
        let returned = returned?;
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
