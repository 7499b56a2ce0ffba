//! What a node's memory is like, told in its header for those who look on.

use crate::Numa;

/// Kinds of memory that a heap consists of, as far as it has grown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// It was allocated as huge pages, as far as the kernel had any.
    pub huge_pages: bool,
    /// The NUMA nodes that it is bound to; 0 if it is not bound.
    pub numa_nodes: u8,
    /// The system refused to bind some of it.
    pub is_refused: bool,
    /// Some of it lies on another NUMA node than it was bound to.
    pub is_elsewhere: bool,
}

impl MemoryFacts {
    const HUGE_PAGES: u64 = 1 << 8;
    const REFUSED: u64 = 1 << 9;
    const ELSEWHERE: u64 = 1 << 10;

    pub(crate) fn of(huge_pages: bool, numa: &Numa) -> MemoryFacts {
        MemoryFacts {
            huge_pages,
            numa_nodes: if numa.binds() { numa.count() as u8 } else { 0 },
            is_refused: numa.is_refused(),
            is_elsewhere: numa.is_elsewhere(),
        }
    }

    /// As it stands in the header.
    pub fn to_word(self) -> u64 {
        let flag = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        u64::from(self.numa_nodes)
            | flag(self.huge_pages, Self::HUGE_PAGES)
            | flag(self.is_refused, Self::REFUSED)
            | flag(self.is_elsewhere, Self::ELSEWHERE)
    }

    /// What a header tells. Any word tells something.
    pub fn from_word(word: u64) -> MemoryFacts {
        MemoryFacts {
            huge_pages: word & Self::HUGE_PAGES != 0,
            numa_nodes: word as u8,
            is_refused: word & Self::REFUSED != 0,
            is_elsewhere: word & Self::ELSEWHERE != 0,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_read() {
        let all = [false, true];
        for (huge_pages, is_refused, is_elsewhere) in
            all.iter().flat_map(|a| all.map(|b| all.map(|c| (*a, b, c)))).flatten()
        {
            let facts = MemoryFacts { huge_pages, numa_nodes: 200, is_refused, is_elsewhere };
            assert_eq!(MemoryFacts::from_word(facts.to_word()), facts);
        }
    }
}
