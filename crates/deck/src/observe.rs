//! What services keep in shared memory, as those see it who look on: for the `deck` command.

use deck_mudeck::NodeId;
pub use deck_mudeck::observe::{RingSight, ring};
use deck_peers::Object;

use crate::shared::{arrivals::Arrivals, count::Count, lock::Lock, registry};

pub use crate::group::observe::{GroupSight, MemberSight, board_of_entry, group_name};

/// The thread that holds a mutex: its node, and the number by which it stands in mutexes, `None` if it has ended.
pub fn holder(mutex: &Object) -> Option<(NodeId, Option<u32>)> {
    Lock::new(mutex.words()).holder().map(|holder| (holder.node(), holder.thread()))
}

/// How many threads have come to a barrier, and for how many it is.
pub fn arrivals(barrier: &Object) -> (u32, u32) {
    let arrivals = Arrivals::new(barrier.words());
    (arrivals.arrived(), arrivals.size())
}

/// The value of a counter.
pub fn value(counter: &Object) -> i64 {
    Count::new(counter.words()).read()
}

/// The home of a segment and its size in bytes; `None` if nobody has created it, or has it open.
pub fn segment(segment: &Object) -> Option<(NodeId, u64)> {
    let registry = registry::Registry::new(segment.words());
    match registry.state().phase {
        registry::Phase::Ready(home) if !segment.holding().is_empty() => Some((home, registry.bytes())),
        _ => None,
    }
}
