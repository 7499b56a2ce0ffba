//! Work on long data in the widest vectors that are worth it on this machine's processors.
//!
//! Programs are compiled for every processor of an architecture. On x86-64 that is vectors of 16 bytes, and what a core
//! can do in the time in which it fetches a line from a cache that all share is not enough then: to fold two arrays
//! that lie there takes twice as long as with vectors of 32 bytes. Of 64 bytes it takes the same
//! (`docs/design/050-collectives.md`).

/// Something to be done with long data, which the compiler can do in vectors. `run` is compiled once for each kind of
/// vectors, so it is to be `#[inline(always)]`, and so is all that it calls and that is worth it.
pub trait Work {
    /// What comes of it: the same with all vectors.
    type Output;

    /// Does it.
    fn run(self) -> Self::Output;
}

/// Does `work`. Blocks as it does.
///
/// ```
/// use deck_segment::wide::{Work, widest};
///
/// struct Double<'a>(&'a mut [f64]);
///
/// impl Work for Double<'_> {
///     type Output = ();
///     #[inline(always)]
///     fn run(self) {
///         self.0.iter_mut().for_each(|value| *value *= 2.0);
///     }
/// }
///
/// let mut values = vec![1.5; 1000];
/// widest(Double(&mut values));
/// assert_eq!(values, [3.0; 1000]);
/// ```
#[inline]
pub fn widest<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: it needs nothing but a processor that has these vectors.
        return unsafe { in_32_bytes(work) };
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn in_32_bytes<W: Work>(work: W) -> W::Output {
    work.run()
}
