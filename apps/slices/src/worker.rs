//! A computing thread: asks the master for slices until there are none left.
//!
//! A worker talks with the master only. It never hangs: the loss of the master ends every wait with an error, and a
//! worker that has heard nothing for [`SILENCE`] looks whether the master's mail box still exists. A closed mail box
//! means that the picture is finished (or that the master ended with an error of its own, which it tells itself):
//! nothing to complain of.

use std::ops::{ControlFlow, Range};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use deck::{Error, ErrorKind, Mailbox, MailboxClone, Message, Node, NodeId, Result, Thread};

use crate::protocol::{self, ToWorker};
use crate::slices::WorkerId;
use crate::work::{Failure, Work};

/// The node that the master runs in.
pub const MASTER_NODE: NodeId = NodeId(0);
/// How long a worker waits without looking whether the master is still there.
const SILENCE: Duration = Duration::from_secs(1);

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
    pub fn start<W: Work>(node: &Node, master: &MailboxClone, count: u32) -> Result<Crew> {
        let mut crew = Crew { threads: Vec::new(), at_work: Arc::new(()) };
        for _ in 0..count {
            let (node, master, at_work) = (node.clone(), master.clone(), crew.at_work.clone());
            crew.threads.push(Thread::spawn(move || {
                let end = Worker::start(&node, master).and_then(Worker::work::<W>);
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

struct Worker<'a> {
    node: &'a Node,
    master: MailboxClone,
    replies: Mailbox,
}

impl Worker<'_> {
    fn start(node: &Node, master: MailboxClone) -> Result<Worker<'_>> {
        Ok(Worker { node, master, replies: node.anonymous_mailbox()? })
    }

    fn work<W: Work>(self) -> Result<()> {
        let mut task: Option<(WorkerId, W)> = None;
        if self.post(self.hello()?)?.is_break() {
            return Ok(());
        }
        loop {
            let slice = match self.retrieve::<W>(task.is_some())? {
                Some(ToWorker::Welcome(worker, work)) => {
                    task = Some((worker, work));
                    continue;
                }
                Some(ToWorker::Compute(slice)) => slice,
                Some(ToWorker::Done) | None => return Ok(()),
            };
            let (worker, work) = task.as_ref().filter(|(_, work)| slice < work.cut().slices()).ok_or_else(|| {
                let error = Error::new(ErrorKind::Corrupt, format!("asked for slice {slice}, which does not exist"));
                error.with_peer(self.master.owner())
            })?;
            let mut lines = Lines { conversation: &self, worker: *worker, slice, work };
            match work.compute(work.cut().rows(slice), &mut lines) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Ok(()),
                Err(failure) => {
                    self.tell_failure(*worker, slice, &failure);
                    return match failure {
                        // The master says it, once for all.
                        Failure::Impossible { .. } => Ok(()),
                        Failure::Worker(error) => Err(error),
                    };
                }
            }
        }
    }

    fn hello(&self) -> Result<Message> {
        protocol::hello(self.node, self.replies.address())
    }

    /// The master may be what failed, or be gone: nothing can be done about that here.
    fn tell_failure(&self, worker: WorkerId, slice: u32, failure: &Failure) {
        if let Ok(message) = protocol::failed(self.node, worker, slice, failure) {
            let _ = self.post(message);
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

    /// The master's next word, or `None` if its mail box is gone. The master may have turned to others when this node,
    /// stopped for a while, did not answer: until it is welcome a worker says hello again.
    fn retrieve<W: Work>(&self, is_welcome: bool) -> Result<Option<ToWorker<W>>> {
        loop {
            match self.replies.retrieve(SILENCE) {
                Ok(mut message) => return protocol::open_to_worker(&mut message).map(Some),
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                Err(error) => return Err(lost(error)),
            }
            let sign = if is_welcome { protocol::still_there(self.node)? } else { self.hello()? };
            if self.look_for_master(sign)?.is_break() {
                return Ok(None);
            }
        }
    }

    /// Whether the master's mail box is still there: it is given a sign of life.
    fn look_for_master(&self, sign: Message) -> Result<ControlFlow<()>> {
        match self.master.post(sign, Duration::ZERO) {
            Ok(()) => Ok(ControlFlow::Continue(())),
            Err(refused) => match refused.error.kind() {
                // A stopped master reads nothing, and its mail box fills.
                ErrorKind::Timeout => Ok(ControlFlow::Continue(())),
                ErrorKind::Closed => Ok(ControlFlow::Break(())),
                _ => Err(lost(refused.error)),
            },
        }
    }

    /// Whether the master's last word is waiting: a master that died after it owes nothing.
    fn is_done(&self) -> bool {
        std::iter::from_fn(|| self.replies.retrieve(Duration::ZERO).ok())
            .any(|mut message| protocol::is_done(&mut message))
    }
}

/// Where a computing thread delivers the lines of its slice.
pub struct Lines<'a, W: Work> {
    conversation: &'a Worker<'a>,
    worker: WorkerId,
    slice: u32,
    work: &'a W,
}

impl<W: Work> Lines<'_, W> {
    /// Delivers rows of the slice that are ready, for people who look on; rows that are delivered again take the place
    /// of the older ones. Waits for room however long the master lives. `Break`: nobody wants the rest.
    ///
    /// # Errors
    /// [`ErrorKind::PeerLost`] with the master, [`ErrorKind::NoMemory`].
    ///
    /// # Panics
    /// If there are more or fewer values than the rows have.
    pub fn deliver(&mut self, rows: Range<u32>, values: &[W::Value]) -> Result<ControlFlow<()>> {
        self.send(rows, values, false)
    }

    /// As [`Lines::deliver`], and says that all rows of the slice were delivered; there may be none left.
    ///
    /// # Errors
    /// As [`Lines::deliver`].
    ///
    /// # Panics
    /// As [`Lines::deliver`].
    pub fn finish(&mut self, rows: Range<u32>, values: &[W::Value]) -> Result<ControlFlow<()>> {
        self.send(rows, values, true)
    }

    /// Looks whether the master is still there, without waiting: for computations that deliver nothing for a long time.
    /// `Break`: nobody wants the rest.
    ///
    /// # Errors
    /// [`ErrorKind::PeerLost`] with the master.
    pub fn look(&self) -> Result<ControlFlow<()>> {
        self.conversation.look_for_master(protocol::still_there(self.conversation.node)?)
    }

    fn send(&mut self, rows: Range<u32>, values: &[W::Value], is_last: bool) -> Result<ControlFlow<()>> {
        assert_eq!(values.len(), rows.len() * self.work.cut().width() as usize * W::VALUES, "values of {rows:?}");
        let Lines { conversation, worker, slice, .. } = *self;
        conversation.post(protocol::lines::<W>(conversation.node, worker, slice, rows, values, is_last)?)
    }
}

fn lost(error: Error) -> Error {
    match error.kind() {
        ErrorKind::PeerLost => error.context("working for the master").with_remedy("start the job again"),
        _ => error.context("working for the master"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::night::Night;
    use crate::protocol::ToMaster;

    /// Whatever waits this long has failed.
    const WATCHDOG: Duration = Duration::from_secs(60);

    #[test]
    fn a_worker_says_hello_until_it_is_answered() {
        let node = Node::join().unwrap();
        let mailbox = node.mailbox(&protocol::master_name::<Night>()).unwrap();
        let crew = Crew::start::<Night>(&node, &mailbox.clone_here().unwrap(), 1).unwrap();
        let hello = || {
            let mut message = mailbox.retrieve(WATCHDOG).unwrap();
            match protocol::open_to_master::<Night>(&mut message).unwrap() {
                ToMaster::Hello(replies) => replies,
                _ => panic!("no hello"),
            }
        };
        let (first, second) = (hello(), hello());
        assert_eq!(first.address(), second.address());
        second.post(protocol::done(&node).unwrap(), WATCHDOG).unwrap();
        crew.join().unwrap();
    }
}
