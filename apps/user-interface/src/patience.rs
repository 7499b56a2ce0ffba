//! Waiting for other nodes without ever hanging, and without giving up one that is stopped.
//!
//! A wait that needs others goes on for as long as they are there: whoever has waited for [`LOOK`] looks whether they
//! are. A stopped node is there, and waits for it go on when it does.

use std::time::{Duration, Instant};

use deck::{ErrorKind, Node, NodeId, NodeState, Result};

/// How long a wait goes on without looking at the nodes.
pub const LOOK: Duration = Duration::from_millis(250);

/// Which of the first `nodes` nodes is gone, and how.
pub fn gone(node: &Node, nodes: u32) -> Option<(NodeId, &'static str)> {
    // A lost node is why others have left.
    [(NodeState::Lost, "was lost"), (NodeState::Left, "has left before the end")].into_iter().find_map(
        |(state, how)| {
            let is_gone = |other: &NodeId| node.state(*other).is_ok_and(|found| found == state);
            (0..nodes).map(NodeId).find(is_gone).map(|other| (other, how))
        },
    )
}

/// Which of the first `nodes` nodes are stopped.
pub fn stopped(node: &Node, nodes: u32) -> Vec<NodeId> {
    let is_stopped = |other: &NodeId| node.state(*other).is_ok_and(|state| state == NodeState::Frozen);
    (0..nodes).map(NodeId).filter(is_stopped).collect()
}

/// How long others are waited for that have not come yet. The time begins anew with each that comes, and does not run
/// while a node of the job is stopped: what it was about to do it does when it goes on.
pub struct Arrivals {
    within: Duration,
    since: Instant,
}

impl Arrivals {
    /// Somebody is to come within this time.
    pub fn within(time: Duration) -> Arrivals {
        Arrivals { within: time, since: Instant::now() }
    }

    /// One has come.
    pub fn go_on(&mut self) {
        self.since = Instant::now();
    }

    /// Whether the time is over. `nodes` of the job count, the first ones.
    pub fn are_overdue(&mut self, node: &Node, nodes: u32) -> bool {
        if !stopped(node, nodes).is_empty() {
            self.go_on();
        }
        self.since.elapsed() >= self.within
    }
}

/// Calls `wait`, each time with so long to wait, until it ends otherwise than by running out of time, or `check` says
/// that there is nobody to wait for.
///
/// # Errors
/// Those of `wait`, except [`ErrorKind::Timeout`], and those of `check`.
pub fn wait<T>(check: impl Fn() -> Result<()>, mut wait: impl FnMut(Duration) -> Result<T>) -> Result<T> {
    loop {
        match wait(LOOK) {
            Err(error) if error.kind() == ErrorKind::Timeout => check()?,
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use deck::Error;

    use super::*;

    #[test]
    fn a_wait_goes_on_until_it_ends_or_there_is_nobody_to_wait_for() {
        let (calls, checks) = (Cell::new(0), Cell::new(0));
        let call = |end: Result<u32>| {
            calls.set(calls.get() + 1);
            if calls.get() < 4 { Err(Error::new(ErrorKind::Timeout, "waiting")) } else { end }
        };
        let check = |most: u32| {
            checks.set(checks.get() + 1);
            if checks.get() < most { Ok(()) } else { Err(Error::new(ErrorKind::PeerLost, "checking")) }
        };
        assert_eq!(wait(|| check(9), |_| call(Ok(7))).unwrap(), 7);
        assert_eq!((calls.replace(0), checks.replace(0)), (4, 3));
        let closed = || Err(Error::new(ErrorKind::Closed, "waiting"));
        assert_eq!(wait(|| check(9), |_| call(closed())).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!((calls.replace(0), checks.replace(0)), (4, 3));
        assert_eq!(wait(|| check(2), |_| call(Ok(7))).unwrap_err().kind(), ErrorKind::PeerLost);
        assert_eq!((calls.get(), checks.get()), (2, 2));
    }

    #[test]
    fn a_node_that_has_not_come_yet_is_not_gone() {
        assert_eq!(gone(&Node::join().unwrap(), 3), None);
    }

    #[test]
    fn nobody_is_overdue_before_the_time_is_over_that_begins_with_each_that_comes() {
        let node = Node::join().unwrap();
        let mut arrivals = Arrivals::within(Duration::from_secs(1000));
        assert!(!arrivals.are_overdue(&node, 3));
        arrivals.within = Duration::ZERO;
        assert!(arrivals.are_overdue(&node, 3));
        let began = arrivals.since;
        arrivals.go_on();
        assert!(arrivals.since >= began);
    }
}
