//! Free ranges of an offset space: best fit, neighbours joined. Private to one process, so it can be trusted.

use std::collections::{BTreeMap, BTreeSet};

/// A set of free, non-overlapping, non-touching ranges.
#[derive(Debug, Default)]
pub struct Extents {
    by_offset: BTreeMap<usize, usize>,
    by_size: BTreeSet<(usize, usize)>,
}

impl Extents {
    /// Takes `bytes` from the smallest range that has them (the lowest one of that size), or `None`.
    pub fn take(&mut self, bytes: usize) -> Option<usize> {
        let &(size, offset) = self.by_size.range((bytes, 0)..).next()?;
        self.remove(offset, size);
        if size > bytes {
            self.insert(offset + bytes, size - bytes);
        }
        Some(offset)
    }

    /// Takes `bytes` from the lowest range that has them at a multiple of `align`, or `None`.
    pub fn take_lowest(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let fits = |offset: usize, size: usize| {
            let skipped = offset.next_multiple_of(align) - offset;
            size.checked_sub(skipped).is_some_and(|left| left >= bytes)
        };
        let (&offset, _) = self.by_offset.iter().find(|(offset, size)| fits(**offset, **size))?;
        let begin = offset.next_multiple_of(align);
        self.take_at(begin, bytes);
        Some(begin)
    }

    /// Takes this range, all of which is free.
    ///
    /// # Panics
    /// If it is not: that is a bug of the owner.
    pub fn take_at(&mut self, offset: usize, bytes: usize) {
        let around = self.by_offset.range(..=offset).next_back();
        let (&begin, &size) = around.filter(|(begin, size)| *begin + *size >= offset + bytes).expect("it is free");
        self.remove(begin, size);
        self.give(begin, offset - begin);
        self.give(offset + bytes, begin + size - offset - bytes);
    }

    /// Offset and bytes of each range.
    pub fn ranges(&self) -> impl Iterator<Item = (usize, usize)> {
        self.by_offset.iter().map(|(offset, bytes)| (*offset, *bytes))
    }

    /// Gives a range back and joins it with free neighbours.
    ///
    /// # Panics
    /// If part of it is free already: that is a bug of the owner.
    pub fn give(&mut self, mut offset: usize, mut bytes: usize) {
        if bytes == 0 {
            return;
        }
        if let Some((&before, &size)) = self.by_offset.range(..=offset).next_back() {
            assert!(before + size <= offset, "range {offset}+{bytes} given back twice");
            if before + size == offset {
                self.remove(before, size);
                offset = before;
                bytes += size;
            }
        }
        if let Some((&after, &size)) = self.by_offset.range(offset..).next() {
            assert!(offset + bytes <= after, "range {offset}+{bytes} given back twice");
            if offset + bytes == after {
                self.remove(after, size);
                bytes += size;
            }
        }
        self.insert(offset, bytes);
    }

    fn insert(&mut self, offset: usize, bytes: usize) {
        self.by_offset.insert(offset, bytes);
        self.by_size.insert((bytes, offset));
    }

    fn remove(&mut self, offset: usize, bytes: usize) {
        self.by_offset.remove(&offset);
        self.by_size.remove(&(bytes, offset));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_are_joined() {
        let mut extents = Extents::default();
        extents.give(0, 64);
        extents.give(128, 64);
        assert_eq!(extents.take(128), None);
        extents.give(64, 64);
        assert_eq!(extents.take(192), Some(0));
        assert_eq!(extents.ranges().count(), 0);
    }

    #[test]
    #[should_panic(expected = "given back twice")]
    fn a_range_cannot_be_given_back_twice() {
        let mut extents = Extents::default();
        extents.give(0, 64);
        extents.give(0, 64);
    }

    #[test]
    fn an_aligned_range_leaves_what_is_before_and_behind_it() {
        let mut extents = Extents::default();
        extents.give(100, 50);
        extents.give(200, 1000);
        assert_eq!(extents.take_lowest(256, 256), Some(256));
        assert_eq!(extents.take_lowest(512, 512), Some(512));
        assert_eq!(extents.take_lowest(512, 512), None);
        assert_eq!(extents.ranges().collect::<Vec<_>>(), [(100, 50), (200, 56), (1024, 176)]);
        assert_eq!(extents.take_lowest(56, 1), Some(200));
        extents.give(200, 824);
        assert_eq!(extents.take(1000), Some(200));
    }

    #[test]
    fn a_range_is_taken_out_of_the_middle() {
        let mut extents = Extents::default();
        extents.give(100, 50);
        extents.take_at(110, 20);
        assert_eq!(extents.ranges().collect::<Vec<_>>(), [(100, 10), (130, 20)]);
        extents.take_at(130, 20);
        extents.take_at(100, 10);
        assert_eq!(extents.ranges().count(), 0);
    }

    #[test]
    #[should_panic(expected = "it is free")]
    fn a_range_that_is_not_free_cannot_be_taken() {
        let mut extents = Extents::default();
        extents.give(100, 50);
        extents.take_at(140, 20);
    }

    proptest! {
        #[test]
        fn taken_ranges_never_overlap_and_all_comes_back(sizes in prop::collection::vec((1usize..50, any::<bool>()), 1..200)) {
            const ALL: usize = 1000;
            let mut extents = Extents::default();
            extents.give(0, ALL);
            let mut taken: Vec<(usize, usize)> = Vec::new();
            for (size, give_first) in sizes {
                if give_first && !taken.is_empty() {
                    let (offset, bytes) = taken.swap_remove(size % taken.len());
                    extents.give(offset, bytes);
                }
                if let Some(offset) = extents.take(size) {
                    prop_assert!(offset + size <= ALL);
                    prop_assert!(taken.iter().all(|(other, bytes)| offset + size <= *other || other + bytes <= offset));
                    taken.push((offset, size));
                }
            }
            taken.into_iter().for_each(|(offset, bytes)| extents.give(offset, bytes));
            prop_assert_eq!(extents.take(ALL), Some(0));
        }
    }
}
