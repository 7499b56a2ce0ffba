//! A computing thread: asks the master for slices until there are none left.
//!
//! A worker talks with the master only. It never hangs: the loss of the master ends every wait with an error, and a
//! worker that has heard nothing for [`SILENCE`] looks whether the master's mail box still exists. A closed mail box
//! means that the picture is finished (or that the master ended with an error of its own, which it tells itself):
//! nothing to complain of.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deck::{Error, ErrorKind, Mailbox, MailboxClone, Message, Node, NodeId, NodeState, Result, Thread};

use crate::kernel;
use crate::problem::Problem;
use crate::protocol::{self, MASTER, ToWorker};
use crate::slices::WorkerId;

/// The node that the master runs in.
pub const MASTER_NODE: NodeId = NodeId(0);
/// How long a worker waits without looking whether the master is still there.
const SILENCE: Duration = Duration::from_secs(1);
/// How long a worker waits for the master's mail box to be created without looking whether its node has left.
const LOOK: Duration = Duration::from_millis(250);

/// The computing threads of one node.
pub struct Crew {
    threads: Vec<Thread<Result<()>>>,
    /// Each thread holds a copy for as long as it works.
    at_work: Arc<()>,
}

impl Crew {
    /// Starts `count` computing threads that work for `master`.
    ///
    /// # Errors
    /// Those of [`Thread::spawn`]; threads that were started before go on.
    pub fn start(node: &Node, master: &MailboxClone, count: u32) -> Result<Crew> {
        let mut crew = Crew { threads: Vec::new(), at_work: Arc::new(()) };
        for _ in 0..count {
            let (node, master, at_work) = (node.clone(), master.clone(), crew.at_work.clone());
            crew.threads.push(Thread::spawn(move || {
                let end = Worker::start(&node, master).and_then(Worker::work);
                drop(at_work);
                end
            })?);
        }
        Ok(crew)
    }

    /// Whether every thread has ended.
    pub fn has_ended(&self) -> bool {
        Arc::strong_count(&self.at_work) == 1
    }

    /// Waits for all threads, each of which ends with the master's last word or the master's loss. A panic of a thread
    /// goes on in the caller.
    ///
    /// # Errors
    /// The first error of a thread.
    pub fn join(self) -> Result<()> {
        let ends: Vec<_> = self.threads.into_iter().map(Thread::join).collect();
        ends.into_iter().try_for_each(|end| end.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

/// The master's mail box, or `None` if the master has left already: the others were faster.
///
/// # Errors
/// [`ErrorKind::PeerLost`] if the master's node died, [`ErrorKind::Timeout`] if there is no master within `timeout`.
pub fn find_master(node: &Node, timeout: Duration) -> Result<Option<MailboxClone>> {
    let start = Instant::now();
    loop {
        let error = match node.clone_mailbox(MASTER, LOOK.min(timeout)) {
            Ok(master) => return Ok(Some(master)),
            Err(error) => error,
        };
        match (node.state(MASTER_NODE), error.kind()) {
            (Ok(NodeState::Left), _) | (_, ErrorKind::Closed) => return Ok(None),
            (Ok(NodeState::Lost), _) => {
                let lost = Error::new(ErrorKind::PeerLost, "looking for the master").with_peer(MASTER_NODE);
                return Err(lost.with_remedy("start the job again"));
            }
            (_, ErrorKind::Timeout) if start.elapsed() < timeout => {}
            _ => return Err(error.context("looking for the master").with_peer(MASTER_NODE)),
        }
    }
}

struct Worker<'a> {
    node: &'a Node,
    master: MailboxClone,
    replies: Mailbox,
}

impl Worker<'_> {
    fn start(node: &Node, master: MailboxClone) -> Result<Worker<'_>> {
        Ok(Worker { node, master, replies: node.anonymous_mailbox()? })
    }

    fn work(self) -> Result<()> {
        let mut task: Option<(WorkerId, Problem)> = None;
        let mut post = protocol::hello(self.node, self.replies.address())?;
        loop {
            if self.post(post)?.is_break() {
                return Ok(());
            }
            let slice = loop {
                match self.retrieve()? {
                    Some(ToWorker::Welcome(worker, problem)) => task = Some((worker, problem)),
                    Some(ToWorker::Compute(slice)) => break slice,
                    Some(ToWorker::Done) | None => return Ok(()),
                }
            };
            let (worker, problem) = task.filter(|(_, problem)| slice < problem.slices()).ok_or_else(|| {
                let error = Error::new(ErrorKind::Corrupt, format!("asked for slice {slice}, which does not exist"));
                error.with_peer(self.master.owner())
            })?;
            let counts = kernel::counts(&problem, problem.rows(slice));
            post = protocol::result(self.node, worker, slice, &counts)?;
        }
    }

    /// Posts to the master, however long that takes while the master lives (it may be stopped). `Break`: there is no
    /// need to go on.
    fn post(&self, mut message: Message) -> Result<ControlFlow<()>> {
        loop {
            let refused = match self.master.post(message, SILENCE) {
                Ok(()) => return Ok(ControlFlow::Continue(())),
                Err(refused) => refused,
            };
            match refused.error.kind() {
                ErrorKind::Timeout => message = refused.message,
                ErrorKind::Closed => return Ok(ControlFlow::Break(())),
                ErrorKind::PeerLost if self.is_done() => return Ok(ControlFlow::Break(())),
                _ => return Err(lost(refused.error)),
            }
        }
    }

    /// The master's next word, or `None` if its mail box is gone.
    fn retrieve(&self) -> Result<Option<ToWorker>> {
        loop {
            match self.replies.retrieve(SILENCE) {
                Ok(mut message) => return protocol::open_to_worker(&mut message).map(Some),
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                Err(error) => return Err(lost(error)),
            }
            match self.master.post(protocol::still_there(self.node)?, Duration::ZERO) {
                Ok(()) => {}
                // A stopped master reads nothing, and its mail box fills.
                Err(refused) if refused.error.kind() == ErrorKind::Timeout => {}
                Err(refused) if refused.error.kind() == ErrorKind::Closed => return Ok(None),
                Err(refused) => return Err(lost(refused.error)),
            }
        }
    }

    /// Whether the master's last word is waiting: a master that died after it owes nothing.
    fn is_done(&self) -> bool {
        std::iter::from_fn(|| self.replies.retrieve(Duration::ZERO).ok())
            .any(|mut message| matches!(protocol::open_to_worker(&mut message), Ok(ToWorker::Done)))
    }
}

fn lost(error: Error) -> Error {
    match error.kind() {
        ErrorKind::PeerLost => error.context("working for the master").with_remedy("start the job again"),
        _ => error.context("working for the master"),
    }
}
