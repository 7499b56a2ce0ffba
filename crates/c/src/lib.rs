//! The C API of DECK: `libdeck.so`, `libdeck.a` and `include/deck.h`.
//!
//! `deck.h` is the documentation; here stands only what a C function does beyond its Rust twin:
//!
//! | module | idea |
//! |---|---|
//! | `handle` | what C holds is an index with a generation, looked up without a lock; a bad one is never a crash |
//! | `error` | one code per kind of failure, one sentence per thread, no panic leaves the library |
//! | `arguments`, `options` | names, times, places for results, structs of options: read, or refused by name |
//! | `node` | the process is one node at most; a session ends with `deck_done`, and at once in a forked child |
//! | `named` | shared segments, mutexes, condition variables, barriers, counters: opened by name, closed by handle |
//! | `collective` | all collectives: one call that is asked for different things, and waits or starts |
//! | `message`, `mailbox`, `semaphore`, `thread`, `group`, `log` | the calls, one file per object |
//!
//! Every function is `extern "C"`, runs inside `error::answer` and looks at its arguments in this order: is the process
//! a node, are plain arguments right, are the handles usable.

mod arguments;
mod collective;
mod error;
mod group;
mod handle;
mod log;
mod mailbox;
mod message;
mod named;
mod node;
mod options;
mod semaphore;
mod thread;
