//! How a process comes into a job: through a broker that welcomes it.
//!
//! Whoever is alone, or the first to come by a name, starts the broker in its own process, and then joins like
//! everybody else.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use deck_segment::Seat;
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result};

use crate::broker::Broker;
use crate::credentials;
use crate::process::is_stopped;
use crate::process::namespace;
use crate::process::parent_only::ParentOnly;
use crate::socket::{Received, Socket};
use crate::table::Table;
use crate::wire::{Frame, Refusal};
use crate::{poll, process, rendezvous};

/// Before a node that was turned away by the end of a connection asks again. Too long is a late start, too short keeps
/// a core busy.
const AGAIN_AFTER: Duration = Duration::from_millis(5);

/// So often it asks at once after a connection that could not be made.
const AT_ONCE: u32 = 10;

/// How a process comes into its job.
#[derive(Debug)]
pub enum Door {
    /// A job of one node.
    Alone,
    /// Through a socket that the launcher's broker invited with.
    Invited(OwnedFd),
    /// The job of this user on this host that has this name; opens it if there is none.
    Named(String),
}

/// What the broker told in its welcome.
pub(super) struct Welcomed {
    pub number: NodeId,
    pub seat: Seat,
    pub broker_node: u64,
    pub table: Table,
    /// The socket that a job joined by name listens on.
    pub listener: Option<ParentOnly>,
}

/// A process that has come into its job.
pub(super) struct Entered {
    pub socket: Arc<Socket>,
    /// The broker, if it has to live here.
    pub hosted: Option<Broker>,
    /// The job's name, if it is joined by name.
    pub job: Option<String>,
    pub welcomed: Welcomed,
}

/// Tells the broker that this process leaves.
pub(super) fn leave_by(broker: &Socket) {
    let _ = broker.send(&Frame::Leave { process: process::own_word() }, None);
}

/// Comes to a broker and joins.
pub(super) fn enter(door: Door, fences: u64, deadline: Deadline) -> Result<Entered> {
    let is_by_name = matches!(door, Door::Named(_));
    let join = |fd: OwnedFd, retries: u64| {
        let socket = Arc::new(Socket::new(fd));
        socket.send(
            &Frame::Join { process: process::own_word(), network: namespace::network(), fences, retries },
            None,
        )?;
        let mut was_seated = false;
        let welcomed = welcome(&socket, deadline, &mut was_seated).inspect_err(|_| {
            // A broker that has its hands full may still seat this process, which is not there any more; through an
            // invitation it may come again, and is welcome then.
            if is_by_name || was_seated {
                leave_by(&socket);
            }
        })?;
        Ok((socket, welcomed))
    };
    match door {
        Door::Alone => {
            let broker = Broker::start("", 1)?;
            let (socket, welcomed) = join(broker.invite()?, 0)?;
            Ok(Entered { socket, hosted: Some(broker), job: None, welcomed })
        }
        Door::Invited(fd) => {
            join(fd, 0).map(|(socket, welcomed)| Entered { socket, hosted: None, job: None, welcomed })
        }
        Door::Named(job) => {
            let (mut retries, mut in_vain) = (0, 0);
            loop {
                if let Some(listener) = rendezvous::listen(&job)? {
                    // This node first: whoever comes next is told where the broker lives.
                    let broker = Broker::open(Table::create(&job, 1)?)?;
                    let (socket, welcomed) = join(broker.invite()?, 0)?;
                    broker.found(u64::from(welcomed.number.0), listener)?;
                    return Ok(Entered { socket, hosted: Some(broker), job: Some(job), welcomed });
                }
                if let Some(fd) = rendezvous::connect(&job)? {
                    match join(fd, retries) {
                        Ok((socket, welcomed)) => {
                            return Ok(Entered { socket, hosted: None, job: Some(job), welcomed });
                        }
                        // The node that the broker lived in died just now; another takes over.
                        Err(error) if error.kind() == ErrorKind::PeerLost => {
                            retries += 1;
                            poll::pause(AGAIN_AFTER);
                        }
                        Err(error) => return Err(error),
                    }
                }
                if deadline.has_passed() {
                    return Err(Error::new(
                        ErrorKind::Timeout,
                        format!("joining job {job}: the process that lets nodes in does not answer"),
                    ));
                }
                // Somebody holds the name and does not listen yet, or any more: a moment of a few instructions, unless
                // that one is stopped. Or so many wait to be let in that there is no room for another.
                in_vain += 1;
                match in_vain {
                    ..=AT_ONCE => deck_sync::atomic::yield_now(),
                    _ => poll::pause(deadline.remaining().map_or(AGAIN_AFTER, |left| left.min(AGAIN_AFTER))),
                }
            }
        }
    }
}

/// Nobody lets this process in.
#[cold]
fn silent(socket: &Socket) -> Error {
    // Who has made the other end may not be who answers: the office goes on. In another namespace it has no number
    // here.
    let process = credentials::of_peer(socket).ok().and_then(|peer| peer.process).unwrap_or(0);
    let who = match std::fs::exists(format!("/proc/{process}")) {
        Ok(true) => format!("process {process}, which lets nodes in,"),
        _ => "the process that lets nodes in".to_owned(),
    };
    let silent = |why| Error::new(ErrorKind::Timeout, format!("joining: {who} does not answer{why}"));
    match is_stopped(process) {
        true => silent(", as it is stopped").with_remedy(format!("let it continue (kill -CONT {process}), or end it")),
        false => silent(""),
    }
}

/// Waits for the broker's welcome; `was_seated` tells that it has come, and something was wrong with it.
fn welcome(socket: &Socket, deadline: Deadline, was_seated: &mut bool) -> Result<Welcomed> {
    let mut listener = None;
    loop {
        match socket.receive() {
            Received::Frame(Frame::Listener {}, fd) => {
                listener = fd.map(ParentOnly::new);
                continue;
            }
            Received::Frame(Frame::Welcome { number, seat, broker }, fd) => {
                *was_seated = true;
                let no_descriptor = || {
                    let what = "joining: this process has no descriptor left for the job's table";
                    Error::new(ErrorKind::NoMemory, what)
                        .with_remedy("raise its limit (ulimit -n), or let it close files")
                };
                let table = Table::adopt(fd.ok_or_else(no_descriptor)?)?;
                let known = u32::try_from(number).ok().zip(u16::try_from(seat).ok());
                let known = known.filter(|(_, seat)| usize::from(*seat) < Seat::COUNT);
                let (number, seat) = known.ok_or_else(|| Error::new(ErrorKind::Corrupt, "the broker's welcome"))?;
                let (number, seat) = (NodeId(number), Seat(seat));
                if table.process_of(number) != Some(process::own_word()) {
                    // Of somebody who had come through the same invitation, and died before reading it.
                    *was_seated = false;
                    continue;
                }
                if !table.arrive(number) {
                    let what = "joining: the broker died, and the next one has not waited for this node";
                    return Err(Error::new(ErrorKind::PeerLost, what).with_remedy("join again"));
                }
                return Ok(Welcomed { number, seat, broker_node: broker, table, listener });
            }
            Received::Frame(Frame::Refuse { reason }, _) => {
                return Err(Refusal::from_word(reason).of_a_join(Refusal::because_of(reason)));
            }
            // Told to whoever had this place in the job before.
            Received::Frame(..) => continue,
            Received::Nothing => {}
            Received::End => {
                return Err(Error::new(ErrorKind::PeerLost, "the broker closed the connection while joining")
                    .with_remedy("start the job again"));
            }
            Received::Nonsense => {
                return Err(Error::new(ErrorKind::Corrupt, "the broker speaks another version of DECK")
                    .with_remedy("use the same version of DECK for all nodes and for deck run"));
            }
        }
        let left = deadline.remaining();
        if left.is_some_and(|left| left.is_zero()) {
            return Err(silent(socket));
        }
        poll::is_readable_within(socket, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_lets_nobody_in_is_waited_for_asleep() {
        let job = format!("full-{}", std::process::id());
        let _listener = rendezvous::listen(&job).unwrap().unwrap();
        let _queue: Vec<OwnedFd> = std::iter::from_fn(|| rendezvous::connect(&job).unwrap()).collect();
        rendezvous::TRIES.set(0);
        let entered = enter(Door::Named(job), 0, Deadline::after(Duration::from_millis(100)));
        assert_eq!(entered.err().map(|error| error.kind()), Some(ErrorKind::Timeout));
        let tries = rendezvous::TRIES.get();
        assert!(tries <= AT_ONCE + 100 / 5 + 1, "{tries} connections tried");
    }
}
