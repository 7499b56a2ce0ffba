//! Atomics, fences and the pause instruction: `std`'s, or loom's when the crate is built with `--cfg loom`.
//!
//! Every other crate of DECK takes its atomics from here (clippy refuses the `std` ones), so that each lock-free part
//! can be run under the model checker.

#[cfg(loom)]
use loom::sync::atomic as real;
#[cfg(not(loom))]
use std::sync::atomic as real;

pub use real::{Ordering, fence};

macro_rules! atomics {
    ($($(#[$doc:meta])* $name:ident)*) => { $($(#[$doc])* pub type $name = real::$name;)* };
}

// Aliases rather than re-exports: clippy looks through a re-export and would refuse the type everywhere.
atomics! {
    /// A `bool` that threads share.
    AtomicBool
    /// An `i32` that threads share.
    AtomicI32
    /// A `u32` that threads share.
    AtomicU32
    /// A `u64` that threads share.
    AtomicU64
    /// A `usize` that threads share.
    AtomicUsize
}

/// A pointer that threads share.
pub type AtomicPtr<T> = real::AtomicPtr<T>;

/// Tells the processor that this is a spin loop; under loom, lets another thread run.
pub fn pause() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}

/// Gives the core to another runnable thread of the same scheduling group, if there is one.
pub fn yield_now() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}
