//! The process as a node of a job: `deck_init` to `deck_done`, and the number that tells sessions apart.
//!
//! One word holds the state. Every call loads it first, so it must be cheap, and a fork must change it in the child
//! before the child can do anything:
//!
//! ```text
//!                 deck_init           joined              deck_done          left
//!        0 (none) ---------> JOINING --------> session n ----------> LEAVING -----> 0
//!                                in a forked child, from anything but 0:  FORKED, for ever
//! ```
//!
//! Objects remember the session they were made in. `FORKED` matters beyond manners: the child has copies of locks that
//! its parent's other threads may have held at that moment, and must touch none of them.

use std::ffi::{CStr, c_char, c_int};
use std::sync::{Once, RwLock};

use deck_api::{Error, ErrorKind, Node, NodeId, NodeState, Result};
use deck_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use deck_sync::locks::{read, write};
use deck_sync::stay_loaded;

use crate::error::{DECK_OK, answer, answer_uncancelled, invalid, prepare};
use crate::handle::{Caller, Object, Pinned, Table};
use crate::{mailbox, semaphore};

const NONE: u64 = 0;
const JOINING: u64 = 1;
const LEAVING: u64 = 2;
const FORKED: u64 = 3;
/// Sessions are counted from here on, so that one comparison tells them from everything else.
const FIRST_SESSION: u64 = 4;

static STATE: AtomicU64 = AtomicU64::new(NONE);
static NEXT_SESSION: AtomicU64 = AtomicU64::new(FIRST_SESSION);
static NODE: RwLock<Option<Node>> = RwLock::new(None);
/// What `NODE` says of it, for programs that ask again and again. Meaningful in a session.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The present session.
///
/// # Errors
/// `NotInitialized` before `deck_init`, after `deck_done` and in a forked child.
#[inline(always)]
pub fn session() -> Result<u64> {
    // Acquire, pairs with: node/session (NODE)
    let state = STATE.load(Ordering::Acquire);
    if state >= FIRST_SESSION { Ok(state) } else { Err(no_session(state)) }
}

/// The calling thread, in the present session.
///
/// # Errors
/// As [`session`].
#[inline(always)]
pub fn caller() -> Result<Caller> {
    Ok(Caller::here(session()?))
}

#[cold]
fn no_session(state: u64) -> Error {
    if state == FORKED { forked() } else { not_initialized() }
}

/// Whether this process is the child of a node: then nothing of the library may be touched.
pub fn is_forked() -> bool {
    STATE.load(Ordering::Relaxed) == FORKED
}

/// The session with the process's place in the job.
pub fn node() -> Result<(u64, Node)> {
    with_node(|session, node| Ok((session, node.clone())))
}

/// Acts with what [`node`] tells. Until `act` returns, the session goes on.
#[inline]
pub fn with_node<R>(act: impl FnOnce(u64, &Node) -> Result<R>) -> Result<R> {
    let session = session()?;
    act(session, read(&NODE).as_ref().ok_or_else(not_initialized)?)
}

/// Pins an object to destroy it: also one of an earlier session, and also when there is no session now.
pub fn pin_to_destroy<T: Object, O, const ALONE: bool>(
    table: &'static Table<T, ALONE>,
    handle: *const O,
) -> Result<Pinned<T, ALONE>> {
    if is_forked() {
        return Err(forked());
    }
    table.pin_of_any_session(handle).or_else(|error| {
        // A handle that is no good gives the same error as in every other call outside a session.
        session()?;
        Err(error)
    })
}

/// A node's number for C.
pub fn number(node: NodeId) -> c_int {
    c_int::try_from(node.0).unwrap_or(c_int::MAX)
}

fn not_initialized() -> Error {
    Error::new(ErrorKind::NotInitialized, "this process is no node of a job now")
        .with_remedy("call deck_init first, in this process")
}

pub fn forked() -> Error {
    Error::new(ErrorKind::NotInitialized, "this process was forked from a node and is none itself")
        .with_remedy("fork before deck_init, or let the child start a program of its own (exec)")
}

fn watch_for_forks() {
    extern "C" fn in_child() {
        if STATE.load(Ordering::Relaxed) != NONE {
            STATE.store(FORKED, Ordering::Relaxed);
        }
    }
    static ONCE: Once = Once::new();
    stay_loaded();
    ONCE.call_once(|| {
        // SAFETY:
        // - the handler only loads and stores one atomic, as a child of a process with threads may;
        // - it stays mapped.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// `deck_init` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    answer_uncancelled("deck_init", || {
        prepare();
        if is_forked() {
            return Err(forked());
        }
        watch_for_forks();
        // Acquire, pairs with: node/ended (NODE is empty)
        STATE.compare_exchange(NONE, JOINING, Ordering::Acquire, Ordering::Relaxed).map_err(already)?;
        let undo = Reset;
        let node = Node::join()?;
        NUMBER.store(node.number().0, Ordering::Relaxed);
        *write(&NODE) = Some(node);
        let session = NEXT_SESSION.fetch_add(1, Ordering::Relaxed);
        std::mem::forget(undo);
        // Release, pairs with: node/session (NODE, NUMBER)
        STATE.store(session, Ordering::Release);
        Ok(DECK_OK)
    })
}

/// Ends a session's state also when joining or leaving fails or panics.
struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        // Release, pairs with: node/ended (NODE is empty)
        STATE.store(NONE, Ordering::Release);
    }
}

#[cold]
fn already(state: u64) -> Error {
    let what = match state {
        JOINING => "another thread is in deck_init".to_owned(),
        LEAVING => "another thread is in deck_done".to_owned(),
        _ => match node() {
            Ok((_, node)) => format!("this process is already {}", node.number()),
            Err(error) => return error,
        },
    };
    invalid(what).with_remedy("call deck_init once, and deck_done before joining again")
}

/// `deck_done` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_done() -> c_int {
    answer_uncancelled("deck_done", || {
        let present = session()?;
        // AcqRel, pairs with: node/session (NODE)
        let claimed = STATE.compare_exchange(present, LEAVING, Ordering::AcqRel, Ordering::Relaxed);
        claimed.map_err(|_| not_initialized())?;
        let _end = Reset;
        // From here on no call begins; those that wait in this process's own objects are sent home.
        mailbox::close_all();
        semaphore::close_all();
        let node = write(&NODE).take();
        node.map_or(Ok(()), Node::leave)?;
        Ok(DECK_OK)
    })
}

/// `deck_node` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_node() -> c_int {
    answer("deck_node", || {
        session()?;
        Ok(number(NodeId(NUMBER.load(Ordering::Relaxed))))
    })
}

/// `deck_numnodes` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_numnodes() -> c_int {
    answer("deck_numnodes", || Ok(c_int::try_from(node()?.1.count()).unwrap_or(c_int::MAX)))
}

/// `deck_node_state` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_node_state(number: c_int) -> c_int {
    answer_uncancelled("deck_node_state", || {
        let (_, here) = node()?;
        let asked = u32::try_from(number).ok().filter(|number| *number < here.count());
        let asked = asked.ok_or_else(|| {
            invalid(format!("there is no node {number}"))
                .with_remedy(format!("ask for a node from 0 to {}", here.count().saturating_sub(1)))
        })?;
        Ok(match here.state(NodeId(asked))? {
            NodeState::Live => 0,
            NodeState::Frozen => 1,
            NodeState::Left => 2,
            NodeState::Lost => 3,
        })
    })
}

/// `deck_version` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no zero byte"),
    };
    VERSION.as_ptr()
}
