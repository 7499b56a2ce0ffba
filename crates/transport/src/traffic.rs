//! How much went by one end of a ring or mail box.

use deck_sync::atomic::{AtomicU64, Ordering};

use crate::protocol::Protocol;

/// Messages by protocol, and bytes. Whoever counts is alone (inside a lock); anybody may read at any time.
#[derive(Debug, Default)]
pub struct Traffic {
    messages: [AtomicU64; 3],
    bytes: AtomicU64,
}

impl Traffic {
    /// Counts one message. Only one thread at a time: no locked operation.
    #[inline]
    pub fn count(&self, protocol: Protocol, bytes: usize) {
        // Relaxed: statistics.
        let add = |counter: &AtomicU64, more: u64| {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(&self.messages[protocol as usize], 1);
        add(&self.bytes, bytes as u64);
    }

    /// For tests: begins with so many messages.
    #[doc(hidden)]
    pub fn begin_at(&self, messages: u64) {
        self.messages[0].store(messages, Ordering::Relaxed);
    }

    /// Messages by protocol 1, 2 and 3.
    pub fn by_protocol(&self) -> [u64; 3] {
        [0, 1, 2].map(|index: usize| self.messages[index].load(Ordering::Relaxed))
    }

    /// Messages in all.
    pub fn messages(&self) -> u64 {
        self.by_protocol().iter().sum()
    }

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
