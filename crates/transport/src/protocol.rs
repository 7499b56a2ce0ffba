//! Which protocol carries a message, and how much a node may have in flight.

use std::sync::Arc;

use deck_segment::layout::SLOT_CONTENT;
use deck_sync::atomic::{AtomicU64, Ordering};

use crate::parcel::Parcel;

/// The three protocols of DECK-SCI (de Oliveira et al., section 3), as they are here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Protocol 1: the content is in the slot.
    Short,
    /// Protocol 2: the content is copied into the area beside the ring.
    Buffered,
    /// Protocol 3: the buffer is handed over, or, on fabrics that can only be written, written straight to its
    /// destination.
    ZeroCopy,
}

/// Sizes at which the choice changes, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// The largest content that is copied (protocol 2) although it lies in a buffer that could be handed over.
    /// Measured: `docs/design/016-thresholds.md`.
    pub buffered_max: usize,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds { buffered_max: 1024 }
    }
}

/// Chooses the protocol for `parcel`.
///
/// 1. What fits into a slot goes into the slot: up to 120 bytes, and of those up to 62 raw ones, or 56 with types, in
///    one of its lines.
/// 2. What is small enough to be copied for less than a hand-over costs is copied, as long as the area has room for it
///    (`area_max` bytes at a time) so that it never waits for more than a slot.
/// 3. All else is zero-copy.
pub fn choose(parcel: &Parcel, thresholds: &Thresholds, area_max: usize) -> Protocol {
    let needed = Parcel::needed(parcel.size(), parcel.runs());
    if needed <= SLOT_CONTENT {
        Protocol::Short
    } else if needed <= thresholds.buffered_max && needed <= area_max {
        Protocol::Buffered
    } else {
        Protocol::ZeroCopy
    }
}

/// The bytes a node may have posted and not yet retrieved, over all its rings.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    /// At most `limit` bytes in flight.
    pub fn new(limit: u64) -> Arc<Budget> {
        Arc::new(Budget { limit, used: AtomicU64::new(0) })
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes in flight, as far as this node has looked.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes `bytes` of the budget if they are left. Relaxed: the counter guards no other memory.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= self.limit)
            })
            .is_ok()
    }

    pub(crate) fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
