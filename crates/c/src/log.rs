//! DECK's log lines for C: a callback with a level and a line.

use std::ffi::{c_char, c_int, c_void};

use deck_api::{LogLevel, set_log};
use deck_sync::uncancelled;

use crate::error::{answer_uncancelled, c_string};
use crate::node;

/// What C gives to receive log lines.
pub type Write = extern "C" fn(level: c_int, line: *const c_char, context: *mut c_void);

struct Sink {
    write: Write,
    context: *mut c_void,
}

// SAFETY: the context is never looked behind here; deck.h tells the caller that lines come from any thread.
unsafe impl Send for Sink {}
// SAFETY: as above, and at several times at once.
unsafe impl Sync for Sink {}

impl Sink {
    fn line(&self, level: LogLevel, line: &str) {
        // What it writes by may be where a thread is cancelled.
        uncancelled(|| (self.write)(level as c_int, c_string(line).as_ptr(), self.context));
    }
}

/// `deck_set_log` in deck.h.
///
/// # Safety
/// `write` is NULL or may be called with `context` from any thread until another one is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_set_log(write: Option<Write>, context: *mut c_void) {
    answer_uncancelled("deck_set_log", || {
        if node::is_forked() {
            return Err(node::forked());
        }
        let sink = write.map(|write| Sink { write, context });
        set_log(sink.map(|sink| Box::new(move |level, line: &str| sink.line(level, line)) as Box<_>));
        Ok(0)
    });
}
