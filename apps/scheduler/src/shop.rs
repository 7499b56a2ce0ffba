//! All that a node shares with the others, opened once for all of its processes.
//!
//! A node that fails keeps it open to its end: DECK then tells all who wait in any part of it that the node died.

use std::sync::OnceLock;

use deck::shared::{Barrier, Counter};
use deck::{Node, Result};

use crate::patience::Patience;
use crate::process::{OF_A_KIND, PROCESSES};
use crate::queue::Queue;
use crate::task::QUEUES;

/// What the nodes share.
pub struct Shop {
    node: Node,
    /// For waits for the others.
    pub patience: Patience,
    /// How many nodes take part.
    pub nodes: u32,
    /// All nodes meet here before anything else.
    pub meeting: Barrier,
    /// All processes meet here before the first task.
    pub start: Barrier,
    /// All processes meet here after the last task: reports that are packed while others work are in the time that
    /// these tell.
    pub finish: Barrier,
    /// Tasks that were ever put into any queue.
    pub arrived: Counter,
    /// Rounds that each consumer has made.
    pub rounds: Vec<Counter>,
    /// 1 when everything was checked.
    pub ended: Counter,
    /// Nodes that have given up waiting at the meeting.
    gave_up: Counter,
    tasks: Counter,
    queues: OnceLock<Vec<Queue>>,
}

impl Shop {
    /// Opens all but the queues.
    ///
    /// # Errors
    /// Those of [`Barrier::open`] and [`Counter::open`].
    pub fn open(node: &Node, nodes: u32) -> Result<Shop> {
        Ok(Shop {
            node: node.clone(),
            patience: Patience::new(node, nodes),
            nodes,
            meeting: Barrier::open(node, "meeting", nodes)?,
            start: Barrier::open(node, "start", PROCESSES)?,
            finish: Barrier::open(node, "finish", PROCESSES)?,
            arrived: Counter::open(node, "arrived")?,
            rounds: (0..OF_A_KIND)
                .map(|consumer| Counter::open(node, &format!("rounds of consumer {consumer}")))
                .collect::<Result<_>>()?,
            ended: Counter::open(node, "ended")?,
            gave_up: Counter::open(node, "gave up the meeting")?,
            tasks: Counter::open(node, "tasks of a producer")?,
            queues: OnceLock::new(),
        })
    }

    /// This node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Not all have come to the meeting in time: now nobody waits there any more.
    ///
    /// # Errors
    /// Those of [`Counter::add`].
    pub fn give_up_meeting(&self) -> Result<()> {
        self.gave_up.add(1).map(drop)
    }

    /// Whether a node has given up waiting at the meeting: then nobody gets beyond it.
    ///
    /// # Errors
    /// Those of [`Counter::read`].
    pub fn meeting_is_given_up(&self) -> Result<bool> {
        Ok(self.gave_up.read()? > 0)
    }

    /// Node 0, before the meeting: how many tasks each producer has.
    ///
    /// # Errors
    /// Those of [`Counter::add`].
    pub fn set_tasks(&self, tasks: u64) -> Result<()> {
        self.tasks.add(tasks.cast_signed()).map(drop)
    }

    /// How many tasks each producer has; after the meeting.
    ///
    /// # Errors
    /// Those of [`Counter::read`].
    pub fn tasks(&self) -> Result<u64> {
        Ok(self.tasks.read()?.unsigned_abs())
    }

    /// The queues, opened now if they were not; waits until node 0 has created them.
    ///
    /// # Errors
    /// Those of [`Queue::open`].
    pub fn queues(&self) -> Result<&[Queue]> {
        if let Some(queues) = self.queues.get() {
            return Ok(queues);
        }
        let queues =
            (0..QUEUES).map(|number| Queue::open(&self.node, &self.patience, number)).collect::<Result<_>>()?;
        Ok(self.queues.get_or_init(|| queues))
    }
}
