//! How long the stacks of the threads are that DECK starts for a program.

use super::limit::Limit;

/// Bytes: as the system's limit says (`ulimit -s`), and 8 MiB if there is none. Only addresses: memory is used as far
/// as a thread gets.
pub fn stack_bytes() -> usize {
    let limit = Limit::Stack.now().and_then(|bytes| usize::try_from(bytes).ok());
    // What the standard library goes by where nobody says anything.
    let wanted = std::env::var("RUST_MIN_STACK").ok().and_then(|bytes| bytes.parse().ok());
    limit.unwrap_or(8 << 20).max(wanted.unwrap_or(2 << 20))
}
