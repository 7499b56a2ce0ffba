//! The master: hands out slices, collects results, survives its workers.
//!
//! It waits for nothing but its mail box. Posts to a worker have a short deadline (a reply box never holds more than
//! a few small messages, so room is the rule); a worker that cannot be posted to gets no more work and its slice goes
//! to another one. A lost node is told once by a retrieve; a node that left with a slice is not told, so the master
//! also looks at the states of nodes whenever it has heard nothing for [`QUIET`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use deck::{Error, ErrorKind, Mailbox, MailboxClone, Message, Node, NodeId, NodeState, Result};

use crate::picture::Picture;
use crate::problem::Problem;
use crate::protocol::{self, ToMaster};
use crate::slices::{Delivery, Slices, WorkerId};

/// After how long without a message the master looks at the workers that it has not heard of.
const QUIET: Duration = Duration::from_millis(250);
/// How long a post to a worker may wait for room.
const POST: Duration = Duration::from_millis(100);

/// Who is told how the picture grows.
pub trait Audience {
    /// A slice that `node` computed is in the picture; `finished` slices are.
    fn slice(&mut self, slice: u32, node: NodeId, picture: &Picture, finished: u32);
    /// Something happened that the user should know and that does not end the calculation.
    fn notice(&mut self, text: &str);
}

/// What came out.
pub struct Outcome {
    /// The whole picture.
    pub picture: Picture,
    /// From the creation of the master to the last slice.
    pub elapsed: Duration,
    /// Slices that were handed out again.
    pub recomputed: u64,
    /// What each node did, in the order of their numbers.
    pub nodes: BTreeMap<NodeId, Share>,
}

/// What one node did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Computing threads that asked for work.
    pub threads: u32,
    /// Slices of the picture that it computed.
    pub slices: u32,
    /// Whether it was lost on the way.
    pub lost: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Busy,
    Idle,
    Gone,
}

struct Worker {
    node: NodeId,
    replies: MailboxClone,
    mode: Mode,
    slices: u32,
}

/// The master of one picture.
pub struct Master<'a> {
    node: &'a Node,
    mailbox: Mailbox,
    problem: Problem,
    picture: Picture,
    slices: Slices,
    workers: Vec<Worker>,
    lost: BTreeSet<NodeId>,
    start: Instant,
}

impl<'a> Master<'a> {
    /// Creates the mail box that workers look for.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if this job has a master already.
    pub fn new(node: &'a Node, problem: Problem) -> Result<Master<'a>> {
        Ok(Master {
            node,
            mailbox: node.mailbox(protocol::MASTER)?,
            problem,
            picture: Picture::new(problem),
            slices: Slices::new(problem.slices()),
            workers: Vec::new(),
            lost: BTreeSet::new(),
            start: Instant::now(),
        })
    }

    /// A clone of the mail box for workers of this node.
    pub fn mailbox(&self) -> Result<MailboxClone> {
        self.mailbox.clone_here()
    }

    /// Hands out slices until all are in the picture. `is_alone` answers whether this node's own computing threads have
    /// ended, so that nobody is left if the other nodes are gone too.
    ///
    /// # Errors
    /// Those of [`Mailbox::retrieve`] on the master's own mail box, and [`ErrorKind::PeerLost`] if nobody is left. The
    /// loss of workers alone is no error. In any case the workers are told that there is no more to do.
    pub fn run(mut self, audience: &mut dyn Audience, is_alone: impl Fn() -> bool) -> Result<Outcome> {
        let mut end = Ok(());
        while end.is_ok() && !self.slices.all_finished() {
            end = self.step(audience, &is_alone);
        }
        let elapsed = self.start.elapsed();
        self.say_farewell();
        end?;
        let nodes = self.shares();
        Ok(Outcome { picture: self.picture, elapsed, recomputed: self.slices.recomputed(), nodes })
    }

    /// One retrieve and what follows from it.
    fn step(&mut self, audience: &mut dyn Audience, is_alone: &impl Fn() -> bool) -> Result<()> {
        match self.mailbox.retrieve(QUIET) {
            Ok(mut message) => {
                if let Err(error) = self.receive(&mut message, audience) {
                    audience.notice(&format!("a message was ignored: {error}"));
                }
            }
            Err(error) => match (error.kind(), error.peer()) {
                (ErrorKind::PeerLost, Some(peer)) => self.lose(peer, audience),
                (ErrorKind::Timeout | ErrorKind::PeerLost, _) => self.look_after_workers(audience),
                _ => return Err(error.context("collecting the slices")),
            },
        }
        self.serve_the_idle(audience)?;
        if is_alone() && self.workers.iter().all(|worker| worker.mode == Mode::Gone) && !self.slices.all_finished() {
            let error = Error::new(ErrorKind::PeerLost, "no computing thread is left in any node");
            return Err(error.with_remedy("start the job again"));
        }
        Ok(())
    }

    fn receive(&mut self, message: &mut Message, audience: &mut dyn Audience) -> Result<()> {
        match protocol::open_to_master(message)? {
            ToMaster::StillThere => {}
            ToMaster::Hello(replies) => {
                let worker = WorkerId(self.workers.len() as u32);
                self.workers.push(Worker { node: replies.owner(), replies, mode: Mode::Idle, slices: 0 });
                let welcome = protocol::welcome(self.node, worker, &self.problem)?;
                self.post(worker, welcome, audience);
            }
            ToMaster::Result { worker, slice } => {
                let Some(state) = self.workers.get(worker.0 as usize) else {
                    return Err(Error::new(ErrorKind::Corrupt, "a result from a worker that never said hello"));
                };
                if message.sender().is_some_and(|sender| sender != state.node) || slice >= self.problem.slices() {
                    return Err(Error::new(ErrorKind::Corrupt, format!("slice {slice} of worker {}", worker.0)));
                }
                if let Err(error) = self.deliver(worker, slice, message, audience) {
                    self.dismiss(worker);
                    return Err(error);
                }
                let state = &mut self.workers[worker.0 as usize];
                if state.mode == Mode::Busy {
                    state.mode = Mode::Idle;
                }
            }
        }
        Ok(())
    }

    fn deliver(
        &mut self,
        worker: WorkerId,
        slice: u32,
        message: &mut Message,
        audience: &mut dyn Audience,
    ) -> Result<()> {
        // Before the slice counts as finished: a result with too few counts must not.
        if !self.slices.is_finished(slice) {
            message.unpack(self.picture.slice_mut(slice))?;
        }
        if self.slices.finish(worker, slice, self.start.elapsed()) == Delivery::New {
            let worker = &mut self.workers[worker.0 as usize];
            worker.slices += 1;
            audience.slice(slice, worker.node, &self.picture, self.slices.finished());
        }
        Ok(())
    }

    /// Gives every idle worker a slice while there are any.
    fn serve_the_idle(&mut self, audience: &mut dyn Audience) -> Result<()> {
        for worker in (0..self.workers.len() as u32).map(WorkerId) {
            if self.workers[worker.0 as usize].mode != Mode::Idle {
                continue;
            }
            let now = self.start.elapsed();
            let Some(slice) = self.slices.hand_out(worker, now).or_else(|| self.slices.hand_out_again(worker, now))
            else {
                return Ok(());
            };
            self.workers[worker.0 as usize].mode = Mode::Busy;
            self.post(worker, protocol::compute(self.node, worker, slice)?, audience);
        }
        Ok(())
    }

    fn post(&mut self, worker: WorkerId, message: Message, audience: &mut dyn Audience) {
        let state = &self.workers[worker.0 as usize];
        let Err(refused) = state.replies.post(message, POST) else { return };
        let node = state.node;
        match refused.error.kind() {
            ErrorKind::PeerLost => self.lose(node, audience),
            _ => {
                audience.notice(&format!("a thread of {node} gets no more work: {}", refused.error));
                self.dismiss(worker);
            }
        }
    }

    /// A worker will deliver nothing any more. Returns how many slices wait again because of that.
    fn dismiss(&mut self, worker: WorkerId) -> u32 {
        self.workers[worker.0 as usize].mode = Mode::Gone;
        self.slices.lose(worker)
    }

    fn lose(&mut self, node: NodeId, audience: &mut dyn Audience) {
        if self.lost.insert(node) {
            let again = self.dismiss_all_of(node);
            let slices = if again == 1 { "slice is" } else { "slices are" };
            audience.notice(&format!("{node} was lost; {again} {slices} computed again"));
        }
    }

    fn dismiss_all_of(&mut self, node: NodeId) -> u32 {
        (0..self.workers.len() as u32)
            .map(WorkerId)
            .filter(|worker| self.workers[worker.0 as usize].node == node)
            .collect::<Vec<_>>()
            .into_iter()
            .map(|worker| self.dismiss(worker))
            .sum()
    }

    /// Finds nodes that went without a word for the master.
    fn look_after_workers(&mut self, audience: &mut dyn Audience) {
        let nodes: BTreeSet<_> = self.workers.iter().filter(|w| w.mode != Mode::Gone).map(|w| w.node).collect();
        for node in nodes {
            match self.node.state(node) {
                Ok(NodeState::Lost) => self.lose(node, audience),
                Ok(NodeState::Left) => {
                    self.dismiss_all_of(node);
                }
                _ => {}
            }
        }
    }

    /// Tells all workers, also those that have just come, that there is no more to do. Who cannot be told finds the
    /// mail box closed.
    fn say_farewell(&mut self) {
        let Ok(done) = protocol::done(self.node) else { return };
        for worker in self.workers.iter().filter(|worker| worker.mode != Mode::Gone) {
            let _ = worker.replies.post_shared(&done, POST);
        }
        while let Ok(mut message) = self.mailbox.retrieve(Duration::ZERO) {
            if let Ok(ToMaster::Hello(replies)) = protocol::open_to_master(&mut message) {
                let _ = replies.post_shared(&done, POST);
            }
        }
    }

    fn shares(&self) -> BTreeMap<NodeId, Share> {
        let mut shares: BTreeMap<NodeId, Share> = BTreeMap::new();
        for worker in &self.workers {
            let share = shares.entry(worker.node).or_default();
            share.threads += 1;
            share.slices += worker.slices;
            share.lost = self.lost.contains(&worker.node);
        }
        shares
    }
}
