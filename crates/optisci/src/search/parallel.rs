//! Work on several cores where there are any, with the same result where there is one.
//!
//! Work is cut into pieces by its size alone, never by the number of cores, and results come in the order of the pieces.

use std::ops::Range;

/// Cuts `0..count` into ranges of about `piece` and gives each one's result in order.
pub fn pieces<T: Send>(count: usize, piece: usize, work: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let parts = count.div_ceil(piece.max(1)).max(1);
    let range = |index: usize| index * count / parts..(index + 1) * count / parts;
    each(parts, |index| work(range(index)))
}

/// The results of `work(0)`, `work(1)`, ... in order.
#[cfg(not(target_family = "wasm"))]
pub fn each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    use std::sync::{Mutex, PoisonError};
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count).min(16);
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let next = Mutex::new(0..count);
    let results: Mutex<Vec<Option<T>>> = Mutex::new((0..count).map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some(index) = next.lock().unwrap_or_else(PoisonError::into_inner).next() else { break };
                    let result = work(index);
                    results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

/// The results of `work(0)`, `work(1)`, ... in order.
#[cfg(target_family = "wasm")]
pub fn each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    (0..count).map(work).collect()
}
