//! Node 0 and what it runs: a process that joins a job by name may find that the job is another program's.
//!
//! Node 0 says so in a counter of the job, at once and before anything that could fail. A counter lasts for as long as
//! anybody has it open, and all nodes have it open until they have left: so whoever was there while node 0 was knows
//! for certain whether it ran the same program, also when it is gone.

use deck::shared::Counter;
use deck::{Error, ErrorKind, MailboxClone, Node, NodeId, NodeState, Result};

use crate::command_line::is_started_by_deck_run;
use crate::patience::{Arrivals, LOOK};

/// The node that all others look for.
const LEADER: NodeId = NodeId(0);

/// What a job is for. To be kept until the node has left.
pub struct Purpose {
    node: Node,
    program: &'static str,
    led: Counter,
    has_met_leader: bool,
}

impl Purpose {
    /// Says in node 0 that it runs `program`; other nodes are going to know.
    ///
    /// # Errors
    /// Those of [`Counter::open`].
    pub fn of(node: &Node, program: &'static str) -> Result<Purpose> {
        let led = Counter::open(node, &format!("{program} leads"))?;
        let has_met_leader = matches!(node.state(LEADER), Ok(NodeState::Live | NodeState::Frozen));
        if node.number() == LEADER {
            led.add(1)?;
        }
        Ok(Purpose { node: node.clone(), program, led, has_met_leader })
    }

    /// Whether node 0 was there when this node came.
    pub fn has_met_leader(&self) -> bool {
        self.has_met_leader
    }

    /// Fails if node 0, which has left, did not run this program, as far as anybody knows: then this process has
    /// nothing to tell, and nobody else told anything. `deck run` starts one program everywhere.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub fn check(&self) -> Result<()> {
        if self.led.read()? > 0 || is_started_by_deck_run() {
            return Ok(());
        }
        let (node, job, program) = (LEADER, self.node.job(), self.program);
        let what = format!(
            "{node} of job {job} has left, and did not run {program}: there was nothing to do, and nothing was made"
        );
        Err(Error::new(ErrorKind::NotFound, what).with_remedy("start it again with another DECK_JOB, or with none"))
    }

    /// The mail box `name` of node 0, which makes it soon after it has joined; `None` if it has been and gone: the
    /// others were faster. Waits for `DECK_TIMEOUT`, not counted while that node is stopped.
    ///
    /// # Errors
    /// [`ErrorKind::PeerLost`] if the node died, [`ErrorKind::Timeout`] if there is no such mail box in time; those of
    /// [`Purpose::check`].
    pub fn find_leader(&self, name: &str) -> Result<Option<MailboxClone>> {
        let node = &self.node;
        let mut arrivals = Arrivals::within(deck::default_timeout());
        loop {
            let error = match node.clone_mailbox(name, LOOK.min(deck::default_timeout())) {
                Ok(mailbox) => return Ok(Some(mailbox)),
                Err(error) => error,
            };
            match (node.state(LEADER), error.kind()) {
                (_, ErrorKind::Closed) => return Ok(None),
                (Ok(NodeState::Left), _) => return self.check().map(|()| None),
                (Ok(NodeState::Lost), _) => {
                    let lost = Error::new(ErrorKind::PeerLost, format!("looking for mail box {name:?}"));
                    return Err(lost.with_peer(LEADER).with_remedy("start the job again"));
                }
                (_, ErrorKind::Timeout) if !arrivals.are_overdue(node, LEADER.0 + 1) => {}
                _ => return Err(error.with_peer(LEADER)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use deck::Door;

    use super::*;

    #[test]
    fn who_comes_after_the_end_has_nothing_to_do_and_who_is_elsewhere_has_lost_its_way() {
        let job = format!("leader-{}", std::process::id());
        let [first, late] = [(); 2].map(|()| Node::join_by(Door::Named(job.clone())).unwrap());
        let [led, follows] = [&first, &late].map(|node| Purpose::of(node, "idle").unwrap());
        first.leave().unwrap();
        drop(led);
        assert!(follows.find_leader("idle.master").unwrap().is_none());
        let elsewhere = Purpose::of(&late, "busy").unwrap();
        assert!(!elsewhere.has_met_leader());
        let error = elsewhere.find_leader("busy.master").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        late.leave().unwrap();
    }

    #[test]
    fn what_node_0_runs_is_known_and_what_it_does_not_run_too() {
        let node = Node::join().unwrap();
        let purpose = Purpose::of(&node, "idle").unwrap();
        assert_eq!((node.number(), purpose.has_met_leader()), (LEADER, true));
        purpose.check().unwrap();
        let other = Counter::open(&node, "busy leads").unwrap();
        let other = Purpose { node: node.clone(), program: "busy", led: other, has_met_leader: true };
        let error = other.check().unwrap_err();
        assert!(error.to_string().contains("did not run busy") && error.remedy().contains("DECK_JOB"), "{error}");
    }
}
