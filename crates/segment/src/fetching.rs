//! Who fetches lines that go to and fro between two cores: whoever reads them, or whoever is to write them again.
//!
//! A line that was written on one core and read on another is in both caches, and has to be taken away from the reader
//! before it is written again. What is quick there differs from processor to processor.
//! `docs/design/070-buffers-rest.md` has the measurements.

use deck_sync::Maker;

use crate::caches;

/// How lines get where they are needed next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fetching {
    /// Readers take what they read away from whoever has written it ([`crate::Buffer::fetch`]): then it is written anew
    /// as quickly as if nobody had read it. Waiting writers fetch back what they write next. Best on processors of AMD.
    ByReaders,
    /// Readers leave copies behind. Each message has two buffers in turn, and who waits for an answer fetches back the
    /// one that is written next. Best on processors of Intel, and taken on all that were not measured, as it consists
    /// of hints.
    #[default]
    ByWriters,
}

/// By readers: the smallest buffer that is fetched back, in bytes.
const BACK_FROM_READERS: usize = 4 << 10;
/// By readers: buffers of so many bytes are used in turn with another one though they came back, as that one can be
/// fetched back from the begin of a wait on. With shorter ones it takes longer to change buffers; four longer ones do
/// not fit into a first-level cache.
const IN_TURN_BY_READERS: usize = 8 << 10;
/// By readers: the largest buffer, as a part of a second-level cache. Longer ones have left the caches before they are
/// written again, and would be written to memory once more.
pub(crate) const FETCHED_PART: usize = 4;
/// By writers: what is longer than this is used in turn with another one.
const IN_TURN_ABOVE: usize = 512;
/// By writers: the largest buffer, in second-level caches. Longer ones go through memory.
const CACHES: usize = 4;
/// The most lines that a receiver asks for while it waits for them to be written.
const EXPECTED_LINES: u32 = 8;

/// The most lines that come with a look at a baton. With more of them the writer loses some before all are written.
const PASSED_LINES: usize = 4;

impl Fetching {
    /// As this machine's processors have it best.
    pub fn of_this_machine() -> Fetching {
        match Maker::here() {
            Maker::Amd => Fetching::ByReaders,
            Maker::Other => Fetching::ByWriters,
        }
    }

    /// True if a reader of all of a buffer of `capacity` bytes had better fetch it.
    #[inline]
    pub fn readers_fetch(self, capacity: usize) -> bool {
        self == Fetching::ByReaders && capacity <= caches::second_level() / FETCHED_PART
    }

    /// True if whoever waits had better fetch back a buffer of `capacity` bytes that it will write next.
    pub(crate) fn writers_fetch(self, capacity: usize) -> bool {
        match self {
            Fetching::ByReaders => capacity >= BACK_FROM_READERS && self.readers_fetch(capacity),
            Fetching::ByWriters => self.takes_turns(capacity),
        }
    }

    /// True if a buffer of `capacity` bytes is used in turn with another one.
    pub fn takes_turns(self, capacity: usize) -> bool {
        match self {
            Fetching::ByReaders => capacity == IN_TURN_BY_READERS,
            Fetching::ByWriters => capacity > IN_TURN_ABOVE && capacity <= CACHES * caches::second_level(),
        }
    }

    /// True if content that is copied beside a slot had better lie in the same lines each time where two nodes answer
    /// one another. On processors of AMD that was not measured.
    pub fn passes_copies(self) -> bool {
        self == Fetching::ByWriters
    }

    /// Of so many lines of content beside the line of a baton, how many a receiver asks for with each look at that
    /// line.
    #[inline]
    pub fn passed_lines(self, lines: usize) -> usize {
        if self == Fetching::ByWriters && lines <= PASSED_LINES { lines } else { 0 }
    }

    /// Of so many lines of content, how many a receiver that waits for them asks for again and again, to have them as
    /// soon as they are written. Who asks for many takes them away from whoever writes them: on some processors before
    /// all of them are written.
    pub fn expected_lines(self, lines: u32) -> u32 {
        match self {
            Fetching::ByReaders => lines.min(EXPECTED_LINES),
            Fetching::ByWriters if lines <= EXPECTED_LINES => lines,
            Fetching::ByWriters => 0,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn readers_fetch_what_the_caches_hold_and_writers_the_rest_of_what_goes_to_and_fro() {
        let cache = caches::second_level();
        let (readers, writers) = (Fetching::ByReaders, Fetching::ByWriters);
        assert_eq!([1, cache / 4, cache / 4 + 1].map(|bytes| readers.readers_fetch(bytes)), [true, true, false]);
        assert!(!writers.readers_fetch(4096));
        assert_eq!([2048, 4096, cache].map(|bytes| readers.writers_fetch(bytes)), [false, true, false]);
        assert_eq!([4096, 8192, 9216].map(|bytes| readers.takes_turns(bytes)), [false, true, false]);
        for (bytes, expected) in [(512, false), (640, true), (4 * cache, true), (4 * cache + 64, false)] {
            assert_eq!((writers.takes_turns(bytes), writers.writers_fetch(bytes)), (expected, expected), "{bytes}");
        }
        assert_eq!([3, 8, 16].map(|lines| readers.expected_lines(lines)), [3, 8, 8]);
        assert_eq!([3, 8, 16].map(|lines| writers.expected_lines(lines)), [3, 8, 0]);
    }
}
