//! A job of several nodes in one process.

use std::time::Duration;

use deck::{Door, Node};
use deck_peers::Broker;

/// A watchdog: whatever waits this long has failed.
pub const SOON: Duration = Duration::from_secs(20);
/// Try, do not wait.
pub const TRY: Duration = Duration::ZERO;
/// How long something is looked at that must not happen.
pub const A_MOMENT: Duration = Duration::from_millis(20);

/// A job of so many nodes.
pub fn job<const COUNT: usize>() -> (Broker, [Node; COUNT]) {
    let broker = Broker::start("test", COUNT as u32).unwrap();
    let nodes = std::array::from_fn(|_| Node::join_by(Door::Invited(broker.invite().unwrap())).unwrap());
    (broker, nodes)
}
