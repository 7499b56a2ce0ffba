//! Threads of benchmarks: where the system has none left, that is told.

use std::thread::{Builder, Scope, ScopedJoinHandle};

use deck::Error;

/// Starts a thread that ends before `scope` does.
///
/// # Errors
/// [`deck::ErrorKind::System`] if the operating system has none.
pub fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> deck::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, run).map_err(no_thread)
}

/// That a thread could not be started.
pub fn no_thread(error: std::io::Error) -> Error {
    Error::no_thread("starting a thread of the benchmark", &error)
}
