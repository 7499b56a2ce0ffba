//! Copies past the caches, by non-temporal stores, in the order that this machine's processors take most quickly.
//!
//! Which one that is differs by maker: what one fetches ahead by itself another one has to be asked for, and the
//! buffers in which a core gathers what it stores past the caches put up with several pages at a time on the one and
//! not on the other. `docs/design/070-buffers-rest.md` has the measurements.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128, _mm256_loadu_si256, _mm256_stream_si256,
};

use deck_sync::Maker;

use crate::layout::{LINE, PAGE};

/// Where processors fetch ahead inside a page, and in several pages at once: so many at a time.
const PAGES: usize = 4;

/// # Safety
/// `from` can be read and `to` be written for `bytes` bytes. Where they overlap, what is written is not told.
pub unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    let head = to.align_offset(LINE).min(bytes);
    let lines = (bytes - head) / LINE * LINE;
    let end = head + lines;
    let is_in_a_row = Maker::here() == Maker::Amd && is_x86_feature_detected!("avx");
    // SAFETY: all addresses are inside the caller's `bytes` bytes, and `to + head` begins a line. The fence orders the
    // stores before every later one of this thread, so that a release publishes them. `in_a_row` is called where the
    // processor has what it is made for.
    unsafe {
        std::ptr::copy(from, to, head);
        match is_in_a_row {
            true => in_a_row(from.add(head), to.add(head), lines),
            false => in_pages(from.add(head), to.add(head), lines),
        }
        _mm_sfence();
        std::ptr::copy(from.add(end), to.add(end), bytes - end);
    }
}

/// # Safety
/// As [`copy`]; `to` begins a line, and `bytes` are whole lines.
#[target_feature(enable = "avx")]
unsafe fn in_a_row(from: *const u8, to: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(LINE) {
        // SAFETY: a line inside the caller's `bytes` bytes; one that begins at a multiple of 32 in `to`, as these
        // stores want it.
        unsafe {
            let (source, target) = (from.add(at).cast::<__m256i>(), to.add(at).cast::<__m256i>());
            let halves = [0, 1].map(|half| _mm256_loadu_si256(source.add(half)));
            _mm256_stream_si256(target, halves[0]);
            _mm256_stream_si256(target.add(1), halves[1]);
        }
    }
}

/// # Safety
/// As [`in_a_row`], on any processor.
unsafe fn in_pages(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: called below alone, with lines that are inside the caller's `bytes` bytes and begin at a multiple of 64
    // in `to`: these stores want multiples of 16.
    let stream_line = |at: usize| unsafe {
        let (source, target) = (from.add(at).cast::<__m128i>(), to.add(at).cast::<__m128i>());
        let quarters = [0, 1, 2, 3].map(|quarter| _mm_loadu_si128(source.add(quarter)));
        quarters.into_iter().enumerate().for_each(|(quarter, value)| _mm_stream_si128(target.add(quarter), value));
    };
    let whole = bytes / (PAGES * PAGE) * (PAGES * PAGE);
    for pages in (0..whole).step_by(PAGES * PAGE) {
        for line in (pages..pages + PAGE).step_by(LINE) {
            (0..PAGES).for_each(|page| stream_line(line + page * PAGE));
        }
    }
    (whole..bytes).step_by(LINE).for_each(stream_line);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const BYTES: usize = 5 * PAGES * PAGE / 2;

    #[repr(align(64))]
    struct Lines([u8; BYTES]);

    #[test]
    fn both_orders_copy_every_line_and_nothing_else() {
        const LENGTHS: [usize; 5] = [0, LINE, PAGE + LINE, PAGES * PAGE, 2 * PAGES * PAGE + PAGE + LINE];
        let source = Lines(std::array::from_fn(|at| (at % 251) as u8 + 1));
        let mut orders: Vec<unsafe fn(*const u8, *mut u8, usize)> = vec![in_pages];
        if is_x86_feature_detected!("avx") {
            // SAFETY: as `in_a_row`, on this processor.
            orders.push(|from, to, bytes| unsafe { in_a_row(from, to, bytes) });
        }
        for copy in orders {
            for bytes in LENGTHS {
                for begin in [0, 1, 63] {
                    let mut target = Lines([0; BYTES]);
                    // SAFETY: both are longer than this, and the target begins a line.
                    unsafe { copy(source.0.as_ptr().add(begin), target.0.as_mut_ptr(), bytes) };
                    assert_eq!(target.0[..bytes], source.0[begin..begin + bytes], "{bytes} from {begin}");
                    assert!(target.0[bytes..].iter().all(|byte| *byte == 0), "{bytes} from {begin}");
                }
            }
        }
    }
}
