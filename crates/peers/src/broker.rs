//! The broker of a job: gives numbers and seats, introduces nodes to one another, tells deaths, and sees a dead node's
//! holds forgotten.
//!
//! Under `deck run` it lives in the launcher, otherwise in one of the nodes. If the job is joined by name it listens on
//! an abstract socket of the user. It has a thread of its own, asleep unless a node comes, goes, or wants to meet
//! another. Messages never pass through it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use deck_segment::Seat;
use deck_sync::descriptor::beyond_standard;
use deck_sync::locks::lock;
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result, Running, Service};
use rustix::io::Errno;

use crate::credentials;
use crate::office::Office;
use crate::poll::{self, Poll};
use crate::process::namespace;
use crate::process::parent_only::ParentOnly;
use crate::process::watched::{Process, Watched};
use crate::rendezvous;
use crate::socket::{Received, Socket, TURN, pair};
use crate::table::Table;
use crate::wire::{Frame, Refusal};

mod absent;
mod coming;
mod departures;
mod introducing;
#[cfg(test)]
mod tests;

use absent::Absent;
use departures::Departure;

const STOP: u64 = 0;
const LISTENER: u64 = 1;
const WAKE: u64 = 2;
const FIRST_MEMBER: u64 = 16;
/// Added to a member's key for the descriptor of its process.
const PROCESS: u64 = 1 << 32;
/// How often frames for a process that does not read are tried again, and connections that could not be accepted.
const TRY_EVERY: Duration = Duration::from_millis(20);
/// `broker` field of [`Frame::Welcome`] when the broker is no node.
pub(crate) const NO_NODE: u64 = u64::MAX;

/// A connection of one process to the broker.
struct Member {
    socket: Arc<Socket>,
    node: Option<(NodeId, Seat)>,
    process: Option<Watched>,
    /// As it stands in the job's table.
    word: u64,
    /// How often the node had said that it was still here; 0 if it joined here.
    attempt: u64,
    /// Which invitation it came by: then the process may leave and join again through the same socket.
    invitation: Option<usize>,
}

impl Member {
    /// It is the process that stands so in the job's table, whose end is watched. True if it has ended already: nobody
    /// tells that.
    fn watch(&mut self, word: u64, poll: &Arc<Poll>, key: u64) -> bool {
        self.word = word;
        let process = Process::watch(word, poll, key | PROCESS);
        let has_ended = matches!(process, Process::Ended);
        self.process = process.watched();
        has_ended
    }
}

struct State {
    poll: Arc<Poll>,
    /// Live nodes that have not come to this broker yet, after it took over.
    absent: BTreeMap<NodeId, Absent>,
    /// The broker has just taken over, and not everybody has come.
    is_taking_over: bool,
    table: Table,
    members: BTreeMap<u64, Member>,
    departures: BTreeMap<NodeId, Departure>,
    /// Who is gone, and whether they were lost.
    gone: Vec<(NodeId, bool)>,
    /// The number that was last given through each invitation.
    invited: Vec<Option<NodeId>>,
    /// Who wants to meet whom that has not come to this broker yet.
    unmet: Vec<(u64, u64)>,
    next: u64,
    listener: Option<ParentOnly>,
    /// Held while it listens.
    office: Option<Office>,
    /// A connection could not be accepted: the listener is not watched until then.
    is_deaf_until: Option<Deadline>,
    /// Held so that a process without descriptors can still refuse, and introduce.
    spare: [Option<OwnedFd>; 2],
    node: u64,
    network: u64,
}

struct Shared {
    state: Mutex<State>,
    poll: Arc<Poll>,
    stop: OwnedFd,
    /// Another thread has changed something that the broker's waits for.
    wake: OwnedFd,
}

/// Serves one job from a thread of its own until dropped.
pub struct Broker {
    shared: Arc<Shared>,
    thread: Mutex<Option<Running>>,
}

fn spare() -> [Option<OwnedFd>; 2] {
    [(); 2].map(|()| crate::wakeup::new().ok())
}

impl Broker {
    /// Starts a broker for a new job that nobody can join uninvited; it expects `expected` nodes at least. Never
    /// blocks.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`] or [`ErrorKind::System`].
    pub fn start(job: &str, expected: u32) -> Result<Broker> {
        Broker::open(Table::create(job, expected)?)
    }

    /// As [`Broker::start`], for a job that processes of this user may join by its name. Never blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if there is another job of that name: then nothing is to be seen of this one; those of
    /// [`Broker::start`].
    pub fn start_by_name(job: &str, expected: u32) -> Result<Broker> {
        let taken = || {
            let what = format!("opening job {job}: another job of this user has the name");
            Error::new(ErrorKind::Exists, what).with_remedy("choose another name, or end the other job")
        };
        let listener = rendezvous::listen(job)?.ok_or_else(taken)?;
        let broker = Broker::start(job, expected)?;
        broker.found(NO_NODE, listener)?;
        Ok(broker)
    }

    /// Starts a broker for a job, new or not, that nobody can come to yet.
    pub(crate) fn open(table: Table) -> Result<Broker> {
        let poll = Arc::new(Poll::new()?);
        let stop = crate::wakeup::new()?;
        let wake = crate::wakeup::new()?;
        poll.watch(&stop, STOP)?;
        poll.watch(&wake, WAKE)?;
        let state = State {
            poll: poll.clone(),
            absent: BTreeMap::new(),
            is_taking_over: false,
            table,
            members: BTreeMap::new(),
            departures: BTreeMap::new(),
            gone: Vec::new(),
            invited: Vec::new(),
            unmet: Vec::new(),
            next: FIRST_MEMBER,
            listener: None,
            office: None,
            is_deaf_until: None,
            spare: spare(),
            node: NO_NODE,
            network: namespace::network(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), poll, stop, wake });
        let serving = shared.clone();
        let thread = Service::Broker.start(move || serving.serve())?;
        Ok(Broker { shared, thread: Mutex::new(Some(thread)) })
    }

    /// A socket for one process to join through, close-on-exec: the launcher lets exactly one child inherit it.
    ///
    /// # Errors
    /// [`ErrorKind::System`].
    pub fn invite(&self) -> Result<OwnedFd> {
        let (ours, theirs) = pair()?;
        let mut state = self.shared.lock();
        let invitation = state.invited.len();
        state.add(ours, Some(invitation)).map_err(|(_, error)| error)?;
        state.invited.push(None);
        // The other end belongs to a program that knows nothing of our non-blocking habit until DECK takes it over.
        Ok(theirs)
    }

    /// The number last given through the socket that the `invitation`-th call of [`Broker::invite`] made, counted from
    /// 0; also when that node has left or died since.
    pub fn node_of_invitation(&self, invitation: usize) -> Option<NodeId> {
        self.shared.lock().invited.get(invitation).copied().flatten()
    }

    /// Those of `nodes` that are gone, in the order in which they went, and whether they were lost. Who died of
    /// another's death comes after that one, in whatever order this broker heard of both. Waits `patience` at most for
    /// ends that it has not heard of yet.
    pub fn gone_of(&self, nodes: &[NodeId], patience: Duration) -> Vec<(NodeId, bool)> {
        let deadline = Deadline::after(patience);
        loop {
            let is_asked_for = |(node, _): &&(NodeId, bool)| nodes.contains(node);
            let state = self.shared.lock();
            let mut gone: Vec<_> = state.gone.iter().filter(is_asked_for).copied().collect();
            gone.sort_by_key(|(node, _)| state.table.order_of_going(*node));
            drop(state);
            if gone.len() == nodes.len() || deadline.has_passed() {
                return gone;
            }
            poll::pause(Duration::from_millis(1));
        }
    }

    /// The broker of a new job lives in `node` and listens from now on: whoever joins is told of both.
    pub(crate) fn found(&self, node: u64, listener: OwnedFd) -> Result<()> {
        let office = Office::take(&self.shared.lock().table)?;
        let taken = || Error::new(ErrorKind::Corrupt, "opening a job: somebody else holds a lock on its new table");
        self.listen(node, listener, office.ok_or_else(taken)?, false)
    }

    /// The broker takes a job over: it lives in `node` and listens from now on. Until stock is taken it waits for the
    /// job's nodes.
    pub(crate) fn take_over(&self, node: NodeId, listener: OwnedFd, office: Office) -> Result<()> {
        self.listen(u64::from(node.0), listener, office, true)
    }

    fn listen(&self, node: u64, listener: OwnedFd, office: Office, is_taking_over: bool) -> Result<()> {
        let mut state = self.shared.lock();
        (state.node, state.office, state.is_taking_over) = (node, Some(office), is_taking_over);
        self.shared.poll.watch(&listener, LISTENER)?;
        state.listener = Some(ParentOnly::new(listener));
        Ok(())
    }

    /// See `State::take_stock`.
    pub(crate) fn take_stock(&self) {
        self.shared.lock().take_stock();
        crate::wakeup::ring(&self.shared.wake);
    }

    /// The nodes that have come (again) to this broker.
    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.shared.lock().nodes()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if deck_sync::fork::is_child() {
            return;
        }
        crate::wakeup::ring(&self.shared.stop);
        lock(&self.thread).take().into_iter().for_each(Running::end);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn serve(&self) {
        let mut keys = Vec::new();
        let (mut is_backed_up, mut was_due) = (false, false);
        loop {
            // Frames for somebody who did not read wait to be sent, and who went without a word may come again.
            let send = is_backed_up.then_some(TRY_EVERY);
            let timeout = {
                let state = self.lock();
                let listen = state.is_deaf_until.and_then(Deadline::remaining);
                send.into_iter().chain(listen).chain(state.next_look()).min()
            };
            if self.poll.wait(&mut keys, timeout).is_err() {
                return;
            }
            let mut state = self.lock();
            state.listen_again();
            for key in &keys {
                match *key {
                    STOP => return,
                    WAKE => crate::wakeup::hush(&self.wake),
                    LISTENER => state.accept(),
                    key if key & PROCESS != 0 => {
                        state.process_may_have_ended(key & !PROCESS);
                        state.absent_ended(key & !PROCESS);
                    }
                    key => state.serve_member(key),
                }
            }
            // What came in the meantime comes first, but not for ever.
            let is_due = state.next_look().is_some_and(|left| left.is_zero());
            if keys.is_empty() || is_due && was_due {
                state.look_after_the_absent();
            }
            was_due = is_due;
            is_backed_up = state.members.values().fold(false, |is_backed_up, member| {
                let socket = &member.socket;
                (socket.is_backed_up() && socket.send_waiting()) || is_backed_up
            });
        }
    }
}

impl State {
    /// # Errors
    /// The connection, and why it cannot be watched.
    fn add(&mut self, fd: OwnedFd, invitation: Option<usize>) -> Result<(), (OwnedFd, Error)> {
        let key = self.next;
        self.next += 1;
        if let Err(error) = self.poll.watch(&fd, key) {
            return Err((fd, error));
        }
        let socket = Arc::new(Socket::new(fd));
        self.members.insert(key, Member { socket, node: None, process: None, word: 0, attempt: 0, invitation });
        Ok(())
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
        // One at a time: the listener stays readable while more are waiting.
        let accept = || rustix::net::accept_with(listener, flags).and_then(beyond_standard);
        let accepted = match accept() {
            // It would stay readable, and this thread would run in circles: the next one is let in to be sent away.
            Err(Errno::MFILE | Errno::NFILE) => {
                self.spare = [const { None }; 2];
                match accept() {
                    Ok(fd) => self.have_no_descriptor_for(fd),
                    Err(errno) => self.stop_listening(errno),
                }
                self.spare = spare();
                return;
            }
            accepted => accepted,
        };
        let fd = match accepted {
            Ok(fd) => fd,
            Err(errno) => return self.stop_listening(errno),
        };
        let is_ours = credentials::of_peer(&fd).is_ok_and(|peer| credentials::is_own_user(peer.user));
        if !is_ours {
            return turn_away(fd, Refusal::User);
        }
        if let Err((fd, _)) = self.add(fd, None) {
            self.have_no_descriptor_for(fd);
        }
    }

    /// Nobody can be accepted now, for want of memory or of descriptors in the whole system. The listener stays
    /// readable, and this thread would run in circles.
    fn stop_listening(&mut self, errno: Errno) {
        let Some(listener) = self.listener.as_ref().filter(|_| errno != Errno::AGAIN) else { return };
        self.poll.forget(listener);
        self.is_deaf_until = Some(Deadline::after(TRY_EVERY));
    }

    fn listen_again(&mut self) {
        if self.is_deaf_until.take_if(|until| until.has_passed()).is_some()
            && let Some(listener) = &self.listener
            && self.poll.watch(listener, LISTENER).is_err()
        {
            self.is_deaf_until = Some(Deadline::after(TRY_EVERY));
        }
    }

    /// Turns away somebody who may be one of those who should come again.
    fn have_no_descriptor_for(&mut self, fd: OwnedFd) {
        turn_away(fd, Refusal::Descriptors);
        self.absent.values_mut().for_each(Absent::put_off);
    }

    fn serve_member(&mut self, key: u64) {
        for _ in 0..TURN {
            let Some(member) = self.members.get(&key) else { return };
            match member.socket.receive() {
                Received::Nothing => return,
                // A program that a node has started may have its descriptor.
                Received::Nonsense if member.node.is_some() => {}
                Received::Frame(frame, _) => self.handle(key, frame),
                received @ (Received::End | Received::Nonsense) => {
                    if matches!(received, Received::Nonsense) {
                        // One that speaks another version cannot read this either, and knows by that what is wrong.
                        refuse(&member.socket, Refusal::Nonsense);
                    }
                    self.connection_ended(key);
                    self.members.remove(&key);
                    return;
                }
            }
        }
    }

    fn handle(&mut self, key: u64, frame: Frame) {
        match frame {
            Frame::Join { process, network, fences, retries } => {
                if retries > 0 {
                    self.forget_unanswered(process);
                }
                self.join(key, process, network, fences != 0);
            }
            Frame::Rejoin { number, seat, process, attempt, table } => {
                if table == self.table.segment().inode() {
                    self.rejoin(key, [number, seat, process], attempt);
                } else if let Some(member) = self.members.remove(&key) {
                    // It could not listen when all others of its job ended, and another one has the name since.
                    refuse(&member.socket, Refusal::Nonsense);
                }
            }
            Frame::Connect { to } => self.introduce(key, to),
            Frame::Adopted { number } => self.answered(key, number, false),
            Frame::Reclaimed { number } => self.answered(key, number, true),
            Frame::Leave { process } => self.leave(key, process),
            // Anything else is not for a broker; a later version may know more.
            _ => {}
        }
    }

    /// The process that joins has asked a broker that died. If that one had given it a number, nobody ever heard of it.
    fn forget_unanswered(&mut self, process: u64) {
        let here = self.nodes();
        let is_its = |number: &NodeId| self.table.process_of(*number) == Some(process);
        let unanswered = self.table.live().into_iter().filter(|number| !here.contains(number) && is_its(number));
        for number in unanswered.collect::<Vec<_>>() {
            // The process may have another node in this job, which comes again.
            if self.table.give_up(number) {
                self.absent.remove(&number);
                self.depart(u64::MAX, number, false);
            }
        }
    }

    /// The poll has told of a process that came through this connection. Meanwhile another one may have come.
    fn process_may_have_ended(&mut self, key: u64) {
        let process = self.members.get(&key).and_then(|member| member.process.as_ref());
        if process.is_some_and(Watched::has_ended) {
            self.process_ended(key);
        }
    }

    fn process_ended(&mut self, key: u64) {
        let Some(member) = self.members.get_mut(&key) else { return };
        member.process = None;
        if let Some((number, _)) = member.node.take() {
            self.depart(key, number, true);
        }
    }

    fn leave(&mut self, key: u64, process: u64) {
        let Some(member) = self.members.get_mut(&key).filter(|member| member.word == process) else { return };
        member.process = None;
        if let Some((number, _)) = member.node.take() {
            self.depart(key, number, false);
        }
        // A node that came by name has its own socket each time it joins.
        if self.members.get(&key).is_some_and(|member| member.invitation.is_none()) {
            self.members.remove(&key);
        }
    }

    /// The nodes that have come to this broker.
    fn nodes(&self) -> Vec<NodeId> {
        self.members.values().filter_map(|member| member.node.map(|(number, _)| number)).collect()
    }

    fn others(&self) -> Vec<u64> {
        self.members.iter().filter(|(_, member)| member.node.is_some()).map(|(key, _)| *key).collect()
    }

    fn tell(&self, members: &[u64], frame: &Frame) {
        for key in members {
            if let Some(member) = self.members.get(key) {
                let _ = member.socket.send(frame, None);
            }
        }
    }
}

fn refuse(socket: &Socket, reason: Refusal) {
    refuse_because_of(None, socket, reason);
}

fn refuse_because_of(node: Option<NodeId>, socket: &Socket, reason: Refusal) {
    let _ = socket.send(&Frame::Refuse { reason: reason.to_word(node) }, None);
}

/// Whoever is turned away without a word takes the broker for dead.
fn turn_away(fd: OwnedFd, reason: Refusal) {
    refuse(&Socket::new(fd), reason);
}
