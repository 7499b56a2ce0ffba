//! Host memory: the other node's segment is mapped here, a write is a store.

use std::ptr::NonNull;
use std::sync::Arc;

use deck_sync::atomic::{AtomicU64, Ordering};
use deck_sync::{Crowd, Event, Spot};

use super::{Line, Remote};
use crate::layout::{SLOT, SLOT_WORDS};
use crate::{MappedSlots, Segment, Words, content};

/// A mapped segment as a [`Remote`].
#[derive(Clone)]
pub struct Host {
    segment: Arc<Segment>,
    /// Where threads of the other node are called, and its place there.
    crowd: Option<(Arc<dyn Crowd>, u16)>,
}

impl Host {
    /// Writes to `segment` by stores.
    pub fn new(segment: Arc<Segment>) -> Host {
        Host { segment, crowd: None }
    }

    /// As [`Host::new`], for a node that may share cores with this one: both are in `crowd`, and it has `place` there.
    pub fn in_crowd(segment: Arc<Segment>, crowd: &Arc<dyn Crowd>, place: u16) -> Host {
        Host { segment, crowd: Some((crowd.clone(), place)) }
    }

    fn at(&self, offset: usize, bytes: usize, align: usize) -> NonNull<u8> {
        assert!(offset.is_multiple_of(align), "offset {offset} is no multiple of {align}");
        self.segment.at(offset, bytes).expect("the offset lies outside of the segment")
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        let word = self.at(offset, 8, 8).cast::<AtomicU64>();
        // SAFETY: inside a live mapping, aligned; any bit pattern is a valid AtomicU64.
        unsafe { word.as_ref() }
    }

    /// The event at `offset`.
    pub fn event(&self, offset: usize) -> &Event {
        let event = self.at(offset, size_of::<Event>(), 8).cast::<Event>();
        // SAFETY: inside a live mapping, aligned; any bit pattern is a valid Event.
        unsafe { event.as_ref() }
    }
}

impl Remote for Host {
    const IS_MAPPED: bool = true;

    type Slots = MappedSlots;

    fn slots(&self, offset: usize, count: u32) -> MappedSlots {
        assert!(offset.is_multiple_of(SLOT), "offset {offset} is no multiple of a slot");
        let words = Words::in_segment(&self.segment, offset, count as usize * SLOT_WORDS);
        MappedSlots::of(&words.expect("the slots lie outside of the segment"), count)
    }

    #[inline]
    fn write_word(&self, offset: usize, value: u64) {
        // Release: pairs with: ring/credit.
        self.word(offset).store(value, Ordering::Release);
    }

    #[inline]
    unsafe fn write_bytes(&self, offset: usize, data: *const u8, bytes: usize) {
        let target = self.at(offset, bytes, size_of::<Line>());
        // SAFETY: `data` is readable for `bytes` (caller); `target` is inside a live mapping that nobody borrows; the
        // ranges are different memory or the caller's bug costs content only, as the copy allows overlap.
        unsafe { content::copy_to_other_core(data, target.as_ptr(), bytes) };
    }

    /// Stores of x86 and releases of the following writes keep the order: nothing to do.
    #[inline]
    fn flush(&self) {}

    fn set_bits(&self, offset: usize, bits: u64) {
        // Release: pairs with: ring/bell.
        self.word(offset).fetch_or(bits, Ordering::Release);
    }

    fn interrupt(&self, offset: usize) {
        self.event(offset).notify();
        if let Some((crowd, place)) = &self.crowd {
            crowd.call_back(*place);
        }
    }

    fn call(&self, spot: Spot) {
        if let Some((crowd, _)) = &self.crowd {
            crowd.call(spot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Called(Mutex<Vec<Spot>>);

    impl Crowd for Called {
        fn resume(&self) {}
        fn rest(&self) {}
        fn is_crowded(&self) -> bool {
            true
        }
        fn call(&self, spot: Spot) {
            self.0.lock().unwrap().push(spot);
        }
        fn call_back(&self, place: u16) {
            self.call(Spot { core: 0, place });
        }
    }

    #[test]
    fn a_node_is_called_in_the_crowd_that_both_are_in() {
        let segment = Segment::create("deck-test", 4096).unwrap();
        let called = Arc::new(Called::default());
        let crowd: Arc<dyn Crowd> = called.clone();
        let spot = Spot { core: 1, place: 2 };
        let host = Host::in_crowd(segment.clone(), &crowd, 7);
        host.call(spot);
        host.interrupt(0);
        let other = Host::new(segment);
        other.call(spot);
        other.interrupt(0);
        assert_eq!(*called.0.lock().unwrap(), [spot, Spot { core: 0, place: 7 }]);
    }
}
