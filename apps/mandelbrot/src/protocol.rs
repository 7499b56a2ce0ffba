//! The messages between workers and master: the only file that packs and unpacks them.
//!
//! ```text
//!   worker                                  master ("mandelbrot.master")
//!     | -- hello: address of a reply box ------> |
//!     | <- welcome: worker number, problem ----- |
//!     | <- compute: slice ---------------------- |   (a short message: one slot)
//!     | -- result: slice, counts --------------> |   which also asks for the next slice
//!     |                 ...                      |
//!     | -- still there? -----------------------> |   after a long silence; no answer, only the post matters
//!     | <- done -------------------------------- |
//! ```
//!
//! Every message begins with a head of three numbers: kind, worker, slice. What a message says is checked here as far
//! as it can be without knowing who has which slice.

use std::time::Duration;

use deck::{Error, ErrorKind, MailboxAddress, MailboxClone, Message, Node, Result};

use crate::problem::{Problem, Region};
use crate::slices::WorkerId;

/// Name of the master's mail box.
pub const MASTER: &str = "mandelbrot.master";
/// How long the master waits for the reply box of a new worker to be connected.
const CONNECT: Duration = Duration::from_secs(1);

/// Kinds carry the protocol's version: "MB", 1, kind.
const HELLO: u32 = 0x4d42_0101;
const WELCOME: u32 = 0x4d42_0102;
const COMPUTE: u32 = 0x4d42_0103;
const RESULT: u32 = 0x4d42_0104;
const STILL_THERE: u32 = 0x4d42_0105;
const DONE: u32 = 0x4d42_0106;

/// What the master retrieves.
pub enum ToMaster {
    /// A new worker and its reply box.
    Hello(MailboxClone),
    /// A result: the counts follow in the message, to be unpacked into the picture.
    Result {
        /// Who computed it.
        worker: WorkerId,
        /// Which slice it is.
        slice: u32,
    },
    /// A worker that has heard nothing for a while.
    StillThere,
}

/// What a worker retrieves.
#[derive(Debug, PartialEq)]
pub enum ToWorker {
    /// The worker's number and the problem.
    Welcome(WorkerId, Problem),
    /// A slice to compute.
    Compute(u32),
    /// The picture is finished, or the master gives up.
    Done,
}

fn head(node: &Node, kind: u32, worker: u32, slice: u32) -> Result<Message> {
    let mut message = node.message();
    message.pack(&[kind, worker, slice])?;
    Ok(message)
}

fn unknown(message: &Message, kind: u32) -> Error {
    let error = Error::new(ErrorKind::Corrupt, format!("a message of the unknown kind {kind:#x}"))
        .with_remedy("run the same version of mandelbrot in every node");
    match message.sender() {
        Some(peer) => error.with_peer(peer),
        None => error,
    }
}

/// A worker asks to be given work at `replies`.
pub fn hello(node: &Node, replies: MailboxAddress) -> Result<Message> {
    let mut message = head(node, HELLO, 0, 0)?;
    message.pack_mailbox(replies)?;
    Ok(message)
}

/// A worker delivers the counts of a slice and asks for the next one.
pub fn result(node: &Node, worker: WorkerId, slice: u32, counts: &[u32]) -> Result<Message> {
    let mut message = node.message_with_capacity(size_of_val(counts) + 64)?;
    message.pack(&[RESULT, worker.0, slice])?;
    message.pack(counts)?;
    Ok(message)
}

/// A worker looks whether the master's mail box is still there.
pub fn still_there(node: &Node) -> Result<Message> {
    head(node, STILL_THERE, 0, 0)
}

/// The master greets a new worker.
pub fn welcome(node: &Node, worker: WorkerId, problem: &Problem) -> Result<Message> {
    let mut message = head(node, WELCOME, worker.0, 0)?;
    let Region { x0, x1, y0, y1 } = problem.region();
    message.pack(&[
        problem.width(),
        problem.height(),
        problem.slices(),
        problem.max_iter(),
        u32::from(problem.early_outs()),
    ])?;
    message.pack(&[x0, x1, y0, y1])?;
    Ok(message)
}

/// The master hands out a slice.
pub fn compute(node: &Node, worker: WorkerId, slice: u32) -> Result<Message> {
    head(node, COMPUTE, worker.0, slice)
}

/// The master has no more work.
pub fn done(node: &Node) -> Result<Message> {
    head(node, DONE, 0, 0)
}

/// Reads a message to the master; of a result only the head. Waits for a new worker's reply box for one second at most.
///
/// # Errors
/// [`ErrorKind::Corrupt`], [`ErrorKind::Type`] or [`ErrorKind::Truncated`] for what no worker says; the errors of
/// [`Message::unpack_mailbox`] for a worker that cannot be reached any more.
pub fn open_to_master(message: &mut Message) -> Result<ToMaster> {
    let mut head = [0; 3];
    message.unpack(&mut head)?;
    match head {
        [HELLO, ..] => Ok(ToMaster::Hello(message.unpack_mailbox(CONNECT)?)),
        [RESULT, worker, slice] => Ok(ToMaster::Result { worker: WorkerId(worker), slice }),
        [STILL_THERE, ..] => Ok(ToMaster::StillThere),
        [kind, ..] => Err(unknown(message, kind)),
    }
}

/// Reads a message to a worker.
///
/// # Errors
/// [`ErrorKind::Corrupt`], [`ErrorKind::Type`], [`ErrorKind::Truncated`] or [`ErrorKind::Invalid`] for what no master
/// says.
pub fn open_to_worker(message: &mut Message) -> Result<ToWorker> {
    let mut head = [0; 3];
    message.unpack(&mut head)?;
    match head {
        [WELCOME, worker, _] => {
            let mut numbers = [0; 5];
            let mut edges = [0.0; 4];
            message.unpack(&mut numbers)?;
            message.unpack(&mut edges)?;
            let ([width, height, slices, max_iter, early_outs], [x0, x1, y0, y1]) = (numbers, edges);
            let problem =
                Problem::checked((width, height), slices, max_iter, Region { x0, x1, y0, y1 }, early_outs != 0)?;
            Ok(ToWorker::Welcome(WorkerId(worker), problem))
        }
        [COMPUTE, _, slice] => Ok(ToWorker::Compute(slice)),
        [DONE, ..] => Ok(ToWorker::Done),
        [kind, ..] => Err(unknown(message, kind)),
    }
}
