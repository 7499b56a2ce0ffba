//! What a C caller is told about a failure: a code, and on request a sentence.
//!
//! A code is the error's page number with a minus sign: `DECK_E_TIMEOUT` is -102 and its page is D0102. The hundreds
//! are the band: call, message, mail box, peer, node. The sentence is kept per thread and written out only when
//! `deck_last_error` asks for it, so that a polling loop does not pay for text that nobody reads.
//!
//! A panic is a bug of this library. It ends at the C door as `DECK_E_SYSTEM`, and Rust's own line about it goes to
//! stderr: the one exception from printing nothing. To keep it back would take a panic hook, which belongs to the whole
//! program wherever that is Rust too and links this library statically, and would take the place in the code out of
//! every report.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use deck_api::{Error, ErrorKind, Result};
use deck_sync::{ThreadEnd, uncancelled};

/// Success.
pub const DECK_OK: c_int = 0;

const NO_ERROR: &CStr = c"no error in this thread";

/// The C code of a kind of failure.
pub fn code(kind: ErrorKind) -> c_int {
    -c_int::from(kind.number())
}

fn describe(number: c_int) -> &'static CStr {
    if number == DECK_OK {
        return c"success";
    }
    let kind = ErrorKind::ALL.iter().find(|kind| code(**kind) == number);
    kind.map_or(c"not a code of DECK", |kind| kind.describe_c())
}

struct Failure {
    call: &'static str,
    error: Error,
    /// Written on demand.
    text: Option<Text>,
}

/// A text that C may hold a pointer to. Moving a `CString` would say that nobody does.
struct Text(NonNull<c_char>);

impl Text {
    fn new(text: CString) -> Text {
        Text(NonNull::new(text.into_raw()).expect("an address"))
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: from `CString::into_raw`, and given back once.
        drop(unsafe { CString::from_raw(self.0.as_ptr()) });
    }
}

/// Texts of earlier failures that C may hold pointers to. `printf("%d: %s", deck_node(), deck_last_error())` is no
/// mistake after a `deck_init` that failed, though the first argument fails as well and is evaluated last.
const KEPT: usize = 3;

#[derive(Default)]
struct Last {
    failure: Option<Failure>,
    kept: [Option<Text>; KEPT],
}

impl Last {
    fn replace(&mut self, failure: Failure) {
        if let Some(Failure { text: Some(text), .. }) = self.failure.replace(failure) {
            self.kept.rotate_right(1);
            self.kept[0] = Some(text);
        }
    }
}

thread_local! {
    /// Not dropped with other thread-local values: what cleans up after them may fail, too, and wants to say why.
    static LAST: RefCell<ManuallyDrop<Last>> =
        const { RefCell::new(ManuallyDrop::new(Last { failure: None, kept: [const { None }; KEPT] })) };
}

static END: ThreadEnd = ThreadEnd::new(|| drop(last(mem::take)));

fn last<R>(what: impl FnOnce(&mut Last) -> R) -> R {
    LAST.with(|last| what(&mut last.borrow_mut()))
}

/// Runs the body of the C call `call` and gives its value, or a negative code; nothing unwinds into C.
pub fn answer(call: &'static str, body: impl FnOnce() -> Result<c_int>) -> c_int {
    attempt(call, body, code)
}

/// As [`answer`], for calls in which files are read, descriptors closed or threads waited for: a thread that
/// `pthread_cancel` ends is unwound from such a place, and would take the process with it. On the short path there is
/// none.
pub fn answer_uncancelled(call: &'static str, body: impl FnOnce() -> Result<c_int>) -> c_int {
    uncancelled(|| answer(call, body))
}

/// Like [`answer`] for calls that return something else than a code: a failure gives `failed`.
pub fn answer_or<R: Copy>(call: &'static str, failed: R, body: impl FnOnce() -> Result<R>) -> R {
    attempt(call, body, move |_| failed)
}

fn attempt<R>(call: &'static str, body: impl FnOnce() -> Result<R>, failed: impl Fn(ErrorKind) -> R + Copy) -> R {
    let told = move |error| failed(remember(call, error));
    // Nothing that a panic could leave half-done is looked at again: objects are pinned by guards, and what the core
    // shares between threads is its own business.
    let outcome = catch_unwind(AssertUnwindSafe(move || body().unwrap_or_else(told)));
    outcome.unwrap_or_else(|panic| told(bug(panic.as_ref())))
}

/// An error of kind `Invalid`: `what` happened.
#[cold]
pub fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, what)
}

/// A panic that reached the C door.
#[cold]
fn bug(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given");
    Error::new(ErrorKind::System, format!("a bug in DECK ({text})")).with_remedy("report it with what the program did")
}

#[cold]
fn remember(call: &'static str, error: Error) -> ErrorKind {
    let kind = error.kind();
    prepare();
    last(|last| last.replace(Failure { call, error, text: None }));
    kind
}

/// Makes room for this thread's failures. Otherwise its first one does, which may be the end of a long sleep, with
/// nothing left in caches.
pub fn prepare() {
    // Where a thread's end cannot be noted, its last texts stay.
    let _ = END.expect();
}

/// `deck_strerror` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_strerror(code: c_int) -> *const c_char {
    describe(code).as_ptr()
}

/// `deck_last_error` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_last_error() -> *const c_char {
    let text = last(|last| {
        last.failure.as_mut().map(|failure| {
            let Failure { call, error, text } = failure;
            text.get_or_insert_with(|| Text::new(c_string(&format!("{call}: {error}")))).0.as_ptr().cast_const()
        })
    });
    text.unwrap_or(NO_ERROR.as_ptr())
}

/// `text` for C; a zero byte inside, which C would take for the end, becomes a space.
pub fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn last_error() -> String {
        // SAFETY: deck_last_error gives a string that outlives this thread's next failures.
        unsafe { CStr::from_ptr(deck_last_error()) }.to_str().unwrap().to_owned()
    }

    /// `NotLocked` is `NOT_LOCKED`; one name in deck.h is shorter.
    fn name_in_c(kind: ErrorKind) -> String {
        if kind == ErrorKind::NoMemory {
            return "DECK_E_NOMEM".to_owned();
        }
        let word = format!("{kind:?}");
        let letters = word.chars().enumerate().flat_map(|(at, letter)| {
            let gap = (at > 0 && letter.is_uppercase()).then_some('_');
            gap.into_iter().chain(letter.to_uppercase())
        });
        format!("DECK_E_{}", letters.collect::<String>())
    }

    #[test]
    fn deck_h_has_every_kind_with_the_number_of_its_page_and_no_other() {
        let declared = include_str!("../include/deck.h").lines().filter_map(|line| {
            let (name, rest) = line.trim_start().strip_prefix("DECK_E_")?.split_once(" = ")?;
            let number = rest.split([',', ' ']).next()?.parse().expect("a constant is a number");
            Some((format!("DECK_E_{name}"), number))
        });
        let kinds = ErrorKind::ALL.iter().map(|kind| (name_in_c(*kind), code(*kind)));
        assert_eq!(declared.collect::<BTreeMap<String, c_int>>(), kinds.collect());
    }

    #[test]
    fn a_text_outlives_failures_of_what_stands_beside_it() {
        let fail = |what: &str| answer("deck_call", || Err(invalid(what)));
        fail("first");
        let first = deck_last_error();
        for other in ["second", "third", "fourth"] {
            fail(other);
            assert!(last_error().contains(other));
        }
        // SAFETY: as promised in deck.h.
        let first = unsafe { CStr::from_ptr(first) };
        assert!(first.to_str().unwrap().contains("first"), "{first:?}");
    }

    #[test]
    fn every_code_has_the_words_of_its_kind() {
        for kind in ErrorKind::ALL {
            assert_eq!(describe(code(*kind)).to_str(), Ok(kind.describe()));
        }
    }

    #[test]
    fn unknown_codes_and_success_have_a_text_too() {
        assert_eq!(describe(0), c"success");
        assert_eq!(describe(42), c"not a code of DECK");
        assert_eq!(describe(c_int::MIN), c"not a code of DECK");
    }

    #[test]
    fn the_last_error_names_call_peer_and_remedy_and_belongs_to_its_thread() {
        std::thread::spawn(|| {
            assert_eq!(last_error(), "no error in this thread");
            let lost = || Err(Error::new(ErrorKind::PeerLost, "waiting").with_peer(deck_api::NodeId(3)));
            assert_eq!(answer("deck_mbox_post", lost), -401);
            let text = last_error();
            assert!(text.starts_with("deck_mbox_post: waiting") && text.contains("node 3") && text.contains("go on"));
            assert_eq!(answer("deck_node", || Ok(7)), 7);
            assert_eq!(last_error(), text, "success leaves it");
            std::thread::spawn(|| assert_eq!(last_error(), "no error in this thread")).join().unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_panic_becomes_an_error_that_says_whose_bug_it_is() {
        assert_eq!(answer("deck_node", || panic!("index {}", 9)), -107);
        assert!(last_error().contains("a bug in DECK (index 9)"), "{}", last_error());
    }
}
