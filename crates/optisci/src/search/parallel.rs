//! Work on several cores where there are any, with the same result where there is one.
//!
//! Work is cut into pieces by its size alone, never by the number of cores, and results come in the order of the
//! pieces.

use std::ops::Range;

/// Cuts `0..count` into ranges of about `piece` and gives each one's result in order, as [`each`] does.
pub fn pieces<T: Send>(
    count: usize,
    piece: usize,
    go_on: &mut dyn FnMut() -> bool,
    work: impl Fn(Range<usize>, &dyn Fn() -> bool) -> T + Sync,
) -> Vec<T> {
    let parts = count.div_ceil(piece.max(1)).max(1);
    let range = |index: usize| index * count / parts..(index + 1) * count / parts;
    each(parts, go_on, |index, go_on| work(range(index), go_on))
}

/// The results of `work(0)`, `work(1)`, ... in order. Each piece asks the function that it is given whether to go on,
/// which passes on what `go_on` says; that one is called on the caller's thread only.
pub fn each<T: Send>(
    count: usize,
    go_on: &mut dyn FnMut() -> bool,
    work: impl Fn(usize, &dyn Fn() -> bool) -> T + Sync,
) -> Vec<T> {
    #[cfg(not(target_family = "wasm"))]
    {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count).min(16);
        if threads > 1 {
            return on_threads(threads, count, go_on, work);
        }
    }
    let go_on = std::cell::RefCell::new(go_on);
    (0..count).map(|index| work(index, &|| (go_on.borrow_mut())())).collect()
}

#[cfg(not(target_family = "wasm"))]
fn on_threads<T: Send>(
    threads: usize,
    count: usize,
    go_on: &mut dyn FnMut() -> bool,
    work: impl Fn(usize, &dyn Fn() -> bool) -> T + Sync,
) -> Vec<T> {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::sync::{Mutex, OnceLock, PoisonError};
    use std::time::Duration;
    let next = Mutex::new(0..count);
    let stop = OnceLock::new();
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let (sender, receiver) = channel();
    let (next, stop, work) = (&next, &stop, &work);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            scope.spawn(move || {
                loop {
                    let Some(index) = next.lock().unwrap_or_else(PoisonError::into_inner).next() else { break };
                    let result = work(index, &|| stop.get().is_none());
                    if sender.send((index, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(Duration::from_millis(5)) {
                Ok((index, result)) => results[index] = Some(result),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stop.get().is_none() && !go_on() {
                stop.get_or_init(|| ());
            }
        }
    });
    results.into_iter().flatten().collect()
}
