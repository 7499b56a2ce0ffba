//! The master: hands out slices, collects results, survives its workers.
//!
//! It waits for nothing but its mail box. Posts to a worker have a short deadline (a reply box never holds more than
//! a few small messages, so room is the rule); a worker that cannot be posted to gets no more work and its slice goes
//! to another one. A lost node is told once by a retrieve; a node that left with a slice is not told, so the master
//! also looks at the states of nodes whenever it has heard nothing for [`QUIET`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use deck::{Error, ErrorKind, Mailbox, MailboxClone, Message, Node, NodeId, NodeState, Result};
use user_interface::command_line::counted;
use user_interface::{Display, Progress, memory};

use crate::protocol::{self, ToMaster};
use crate::slices::{Delivery, Slices, WorkerId};
use crate::work::Work;

/// After how long without a message the master looks at the workers that it has not heard of.
const QUIET: Duration = Duration::from_millis(250);
/// How long a post to a worker may wait for room.
const POST: Duration = Duration::from_millis(100);

/// What came out.
pub struct Outcome<W: Work> {
    /// What was made.
    pub work: W,
    /// The values of all pixels, row by row from the upper left.
    pub values: Vec<W::Value>,
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

struct Worker<V> {
    node: NodeId,
    replies: MailboxClone,
    mode: Mode,
    slices: u32,
    /// What it has delivered of the slice that it was given last. A slice enters the picture whole, so that two workers
    /// that have the same one do not mix.
    part: Part<V>,
}

struct Part<V> {
    slice: u32,
    values: Vec<V>,
    /// The rows of the slice that have not come.
    missing: BTreeSet<u32>,
}

fn corrupt(what: String) -> Error {
    Error::new(ErrorKind::Corrupt, what)
}

/// The master of one picture.
pub struct Master<'a, W: Work> {
    node: &'a Node,
    mailbox: Mailbox,
    work: W,
    values: Vec<W::Value>,
    slices: Slices,
    workers: Vec<Worker<W::Value>>,
    lost: BTreeSet<NodeId>,
    /// Why nobody can make the picture, once that was found out.
    impossible: Option<Error>,
    /// Failures of this node's own computing threads, which the user has been told.
    told: Vec<String>,
    start: Instant,
}

impl<'a, W: Work> Master<'a, W> {
    /// Creates the mail box that workers look for.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if this job has a master already; [`ErrorKind::NoMemory`].
    pub fn new(node: &'a Node, work: W) -> Result<Master<'a, W>> {
        Ok(Master {
            node,
            mailbox: node.mailbox(&protocol::master_name::<W>())?,
            values: memory::defaults(work.cut().pixels() * W::VALUES, "the picture")?,
            slices: Slices::new(work.cut().slices()),
            work,
            workers: Vec::new(),
            lost: BTreeSet::new(),
            impossible: None,
            told: Vec::new(),
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
    /// Those of [`Mailbox::retrieve`] on the master's own mail box, [`ErrorKind::Invalid`] if a worker found that
    /// nobody can make the picture, [`ErrorKind::TooLarge`] if this node's budget is too small to tell workers what to
    /// do, and [`ErrorKind::PeerLost`] if nobody is left. The loss of workers alone is no error. In any case the
    /// workers are told that there is no more to do.
    ///
    /// Second: the failures of this node's own threads, in their words, that the user has been told on the way.
    pub fn run(mut self, display: &Display, is_alone: impl Fn() -> bool) -> (Result<Outcome<W>>, Vec<String>) {
        self.tell_progress(display);
        let mut end = Ok(());
        while end.is_ok() && !self.slices.all_finished() {
            end = self.step(display, &is_alone);
        }
        let elapsed = self.start.elapsed();
        self.say_farewell();
        let nodes = self.shares();
        let Master { work, values, slices, told, .. } = self;
        (end.map(|()| Outcome { work, values, elapsed, recomputed: slices.recomputed(), nodes }), told)
    }

    /// One retrieve and what follows from it.
    fn step(&mut self, display: &Display, is_alone: &impl Fn() -> bool) -> Result<()> {
        match self.mailbox.retrieve(QUIET) {
            Ok(mut message) => match self.receive(&mut message, display) {
                Ok(()) => {}
                // A worker that does not answer says hello again once it can.
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                Err(error) => display.notice(&format!("a message was ignored: {error}")),
            },
            Err(error) => match (error.kind(), error.peer()) {
                (ErrorKind::PeerLost, Some(peer)) => self.lose(peer, display),
                (ErrorKind::Timeout | ErrorKind::PeerLost, _) => self.look_after_workers(display, is_alone),
                _ => return Err(error.context("collecting the slices")),
            },
        }
        if let Some(error) = self.impossible.take() {
            return Err(error);
        }
        self.serve_the_idle(display)?;
        if is_alone() && self.workers.iter().all(|worker| worker.mode == Mode::Gone) && !self.slices.all_finished() {
            let error = Error::new(ErrorKind::PeerLost, "no computing thread is left in any node");
            return Err(error.with_remedy("look why they ended, and start the job again"));
        }
        Ok(())
    }

    fn receive(&mut self, message: &mut Message, display: &Display) -> Result<()> {
        match protocol::open_to_master::<W>(message)? {
            ToMaster::StillThere => {}
            // Said again before the answer had come.
            ToMaster::Hello(replies) if self.workers.iter().any(|one| one.replies.address() == replies.address()) => {}
            ToMaster::Hello(replies) => {
                let worker = WorkerId(self.workers.len() as u32);
                let part = Part { slice: u32::MAX, values: Vec::new(), missing: BTreeSet::new() };
                self.workers.push(Worker { node: replies.owner(), replies, mode: Mode::Idle, slices: 0, part });
                let welcome = protocol::welcome(self.node, worker, &self.work)?;
                self.post(worker, welcome, display);
            }
            ToMaster::Failed(worker, failed) => {
                let node = self.known(worker, message)?.node;
                if failed.is_impossible {
                    self.impossible = Some(Error::new(ErrorKind::Invalid, failed.what).with_remedy(failed.remedy));
                    return Ok(());
                }
                display.notice(&format!("a thread of {node} gets no more work: {}", failed.what));
                if node == self.node.number() {
                    self.told.push(failed.what);
                }
                self.dismiss(worker);
            }
            ToMaster::Lines { worker, slice, rows, is_last } => {
                let state = self.known(worker, message)?;
                let is_its_slice = slice == state.part.slice;
                let slice_rows = if is_its_slice { self.work.cut().rows(slice) } else { 0..0 };
                if !is_its_slice || rows.start < slice_rows.start || slice_rows.end < rows.end {
                    return Err(corrupt(format!("rows {rows:?} of slice {slice} from worker {}", worker.0)));
                }
                if let Err(error) = self.deliver(worker, rows, is_last, message, display) {
                    self.dismiss(worker);
                    return Err(error);
                }
                let state = &mut self.workers[worker.0 as usize];
                if is_last && state.mode == Mode::Busy {
                    state.mode = Mode::Idle;
                }
            }
        }
        Ok(())
    }

    /// The worker that a message says it is from, if it can be.
    fn known(&self, worker: WorkerId, message: &Message) -> Result<&Worker<W::Value>> {
        let state = self.workers.get(worker.0 as usize);
        state
            .filter(|state| message.sender().is_none_or(|sender| sender == state.node))
            .ok_or_else(|| corrupt(format!("a message from worker {}, which never said hello", worker.0)))
    }

    fn deliver(
        &mut self,
        worker: WorkerId,
        rows: Range<u32>,
        is_last: bool,
        message: &mut Message,
        display: &Display,
    ) -> Result<()> {
        let row_values = self.work.cut().width() as usize * W::VALUES;
        let Worker { node, part, .. } = &mut self.workers[worker.0 as usize];
        let slice = part.slice;
        if self.slices.is_finished(slice) {
            self.slices.finish(worker, slice, self.start.elapsed());
            return Ok(());
        }
        let first = self.work.cut().rows(slice).start;
        let within = (rows.start - first) as usize * row_values..(rows.end - first) as usize * row_values;
        let values = &mut part.values[within];
        message.unpack(values)?;
        if !rows.is_empty() {
            display.show(rows.clone(), *node, || self.work.paint(values));
        }
        rows.for_each(|row| {
            part.missing.remove(&row);
        });
        if !is_last {
            return Ok(());
        }
        // Before the slice counts as finished: one with rows missing must not.
        if !part.missing.is_empty() {
            return Err(corrupt(format!("slice {slice} without {} of its rows", part.missing.len())).with_peer(*node));
        }
        self.values[first as usize * row_values..][..part.values.len()].copy_from_slice(&part.values);
        if self.slices.finish(worker, slice, self.start.elapsed()) == Delivery::New {
            self.workers[worker.0 as usize].slices += 1;
            self.tell_progress(display);
        }
        Ok(())
    }

    fn tell_progress(&self, display: &Display) {
        let (done, total) = (self.slices.finished().into(), self.work.cut().slices().into());
        let nodes = self.workers.iter().map(|worker| worker.node.0 as usize + 1).max().unwrap_or(0);
        let mut shares = vec![0; nodes];
        self.workers.iter().for_each(|worker| shares[worker.node.0 as usize] += u64::from(worker.slices));
        let lost = self.lost.iter().map(|node| node.0).collect();
        display.advance(Progress {
            done,
            total,
            words: format!("{done} of {}", counted(total, "slice")),
            shares,
            lost,
        });
    }

    /// Gives every idle worker a slice while there are any.
    fn serve_the_idle(&mut self, display: &Display) -> Result<()> {
        for worker in (0..self.workers.len() as u32).map(WorkerId) {
            if self.workers[worker.0 as usize].mode != Mode::Idle {
                continue;
            }
            let now = self.start.elapsed();
            let slice = self.slices.hand_out(worker, now).or_else(|| {
                let node_of = |holder: WorkerId| self.workers[holder.0 as usize].node;
                let is_stopped = |holder| matches!(self.node.state(node_of(holder)), Ok(NodeState::Frozen));
                self.slices.hand_out_again(worker, now, is_stopped)
            });
            let Some(slice) = slice else { return Ok(()) };
            let rows = self.work.cut().rows(slice);
            let state = &mut self.workers[worker.0 as usize];
            state.mode = Mode::Busy;
            let count = rows.len() * self.work.cut().width() as usize * W::VALUES;
            state.part = Part { slice, values: memory::defaults(count, "a slice")?, missing: rows.collect() };
            self.post(worker, protocol::compute(self.node, worker, slice)?, display);
        }
        Ok(())
    }

    fn post(&mut self, worker: WorkerId, message: Message, display: &Display) {
        let state = &self.workers[worker.0 as usize];
        let Err(refused) = state.replies.post(message, POST) else { return };
        let node = state.node;
        match refused.error.kind() {
            ErrorKind::PeerLost => self.lose(node, display),
            // Nor would it be taken for any other worker.
            ErrorKind::TooLarge => self.impossible = Some(refused.error),
            _ => {
                display.notice(&format!("a thread of {node} gets no more work: {}", refused.error));
                self.dismiss(worker);
            }
        }
    }

    /// A worker will deliver nothing any more. Returns how many slices wait again because of that.
    fn dismiss(&mut self, worker: WorkerId) -> u32 {
        self.workers[worker.0 as usize].mode = Mode::Gone;
        self.slices.lose(worker)
    }

    fn lose(&mut self, node: NodeId, display: &Display) {
        if self.lost.insert(node) {
            let again = self.dismiss_all_of(node);
            let slices = if again == 1 { "slice is" } else { "slices are" };
            display.notice(&format!("{node} was lost; {again} {slices} computed again"));
            self.tell_progress(display);
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

    /// Finds nodes that went without a word for the master, and this node's own threads that could not say why they
    /// ended.
    fn look_after_workers(&mut self, display: &Display, is_alone: &impl Fn() -> bool) {
        if is_alone() {
            self.dismiss_all_of(self.node.number());
        }
        let nodes: BTreeSet<_> = self.workers.iter().filter(|w| w.mode != Mode::Gone).map(|w| w.node).collect();
        for node in nodes {
            match self.node.state(node) {
                Ok(NodeState::Lost) => self.lose(node, display),
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
            if let Ok(ToMaster::Hello(replies)) = protocol::open_to_master::<W>(&mut message) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::night::Night;

    #[test]
    fn threads_that_ended_without_a_word_are_not_waited_for() {
        let node = Node::join().unwrap();
        let mut master = Master::new(&node, Night::new()).unwrap();
        let replies = node.anonymous_mailbox().unwrap();
        let display = Display::new("night", None);
        master.mailbox().unwrap().post(protocol::hello(&node, replies.address()).unwrap(), POST).unwrap();
        master.step(&display, &|| false).unwrap();
        assert!(master.workers[0].mode == Mode::Busy);
        let error = master.step(&display, &|| true).unwrap_err();
        assert!(error.to_string().starts_with("no computing thread is left"), "{error}");
    }

    #[test]
    fn a_worker_that_says_hello_twice_is_one() {
        let node = Node::join().unwrap();
        let mut master = Master::new(&node, Night::new()).unwrap();
        let replies = node.anonymous_mailbox().unwrap();
        let display = Display::new("night", None);
        for _ in 0..2 {
            let hello = protocol::hello(&node, replies.address()).unwrap();
            master.mailbox().unwrap().post(hello, POST).unwrap();
            master.step(&display, &|| false).unwrap();
        }
        assert_eq!(master.workers.len(), 1);
    }
}
