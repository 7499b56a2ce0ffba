//! How long a buffer rests before it is used again.
//!
//! A line that was written on one core and read on another is in both caches. Writing it again takes the other core's
//! copy away, and that is slow for many lines in a row: the processor finds each line in its own cache, so nothing
//! fetches ahead, and only as many are under way as a core has fill buffers for its first-level cache. Lines that have
//! left the caches of both cores meanwhile are fetched ahead and cost a fraction of that. So a buffer that others have
//! read is better not written again at once, but after as many bytes of other buffers as push it out. Short buffers are
//! better used again while all that belongs to them is near, and so are those that their readers have fetched
//! ([`crate::Buffer::fetch`]). `docs/design/070-buffers-rest.md` has the measurements.

use crate::{Fetching, caches};

/// The smallest buffer that rests, in bytes.
const FROM: usize = 8 << 10;
/// A buffer rests for so many times the second-level cache of a core: it has to leave those of two cores, and a cache
/// does not give up what was used longest ago, but about that.
const CACHES: usize = 4;
/// Where writers fetch. There it suffices for streams, and a program that computes between its messages has more of its
/// own in the caches.
const CACHES_WHERE_WRITERS_FETCH: usize = 2;

/// How many bytes of other buffers are handed out before a buffer is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    bytes: usize,
    /// The longest buffer that rests.
    longest: usize,
}

impl Rest {
    /// For `bytes` bytes of other buffers; 0: not at all.
    pub fn new(bytes: usize) -> Rest {
        Rest { bytes, longest: bytes / 2 }
    }

    /// As long as this machine's caches make it worth.
    pub fn with(fetching: Fetching) -> Rest {
        let caches = match fetching {
            Fetching::ByReaders => CACHES,
            Fetching::ByWriters => CACHES_WHERE_WRITERS_FETCH,
        };
        // The same either way: longer ones push themselves out.
        let longest = CACHES / 2 * caches::second_level();
        Rest { bytes: caches * caches::second_level(), longest }
    }

    /// At most an eighth of a heap of `heap_bytes`.
    #[must_use]
    pub fn within(self, heap_bytes: usize) -> Rest {
        let bytes = self.bytes.min(heap_bytes / 8);
        Rest { bytes, longest: self.longest.min(bytes) }
    }

    /// Bytes of other buffers.
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// True if a buffer of `capacity` bytes is not too short to rest, however long that is.
    pub fn may_be_for(capacity: usize) -> bool {
        capacity >= FROM
    }

    /// True if a buffer of `capacity` bytes rests: a short one does not, nor one that pushes itself out of the caches.
    pub fn is_for(self, capacity: usize) -> bool {
        (FROM..=self.longest).contains(&capacity)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn middle_sizes_rest_and_nothing_does_where_it_is_turned_off() {
        let rest = Rest::new(4 << 20);
        assert_eq!([4 << 10, 8 << 10, 2 << 20, 3 << 20].map(|size| rest.is_for(size)), [false, true, true, false]);
        assert!(![1 << 10, 8 << 10, 1 << 20].iter().any(|size| Rest::new(0).is_for(*size)));
        let within = rest.within(8 << 20);
        assert_eq!((within.bytes(), within.is_for(1 << 20), within.is_for(2 << 20)), (1 << 20, true, false));
        let longest = CACHES / 2 * caches::second_level();
        for fetching in [Fetching::ByReaders, Fetching::ByWriters] {
            assert_eq!([longest, longest + 1].map(|size| Rest::with(fetching).is_for(size)), [true, false]);
        }
    }
}
