//! The messages between workers and master: the only file that packs and unpacks them.
//!
//! ```text
//!   worker                                   master ("<program>.master")
//!     | -- hello: address of a reply box -------> |   again after a silence, until there is a welcome
//!     | <- welcome: worker number, work --------- |
//!     | <- compute: slice ----------------------- |   (a short message: one slot)
//!     | -- lines: slice, rows, their values ----> |   as often as some are ready
//!     | -- lines, the last of the slice --------> |   which also asks for the next slice
//!     |                  ...                      |
//!     | -- still there? ------------------------> |   after a long silence; no answer, only the post matters
//!     | -- failed: slice, whether all must, why > |
//!     | <- done --------------------------------- |
//! ```
//!
//! Every message begins with a head of five numbers: kind, worker, slice, first row, rows. What a message says is
//! checked here as far as it can be without knowing who has which slice.

use std::ops::Range;
use std::time::Duration;

use deck::{Error, ErrorKind, MailboxAddress, MailboxClone, Message, Node, Result};

use crate::slices::WorkerId;
use crate::work::{Failure, Work};

/// How long the master waits for the reply box of a new worker to be connected: all others wait with it, and the worker
/// says hello again.
const CONNECT: Duration = Duration::from_millis(250);
/// Most bytes of a failure's text that are sent.
const WHY_BYTES: usize = 16 << 10;

/// Kinds carry the protocol's version: "SL", 1, kind.
const HELLO: u32 = 0x534c_0101;
const WELCOME: u32 = 0x534c_0102;
const COMPUTE: u32 = 0x534c_0103;
const LINES: u32 = 0x534c_0104;
const LAST_LINES: u32 = 0x534c_0105;
const STILL_THERE: u32 = 0x534c_0106;
const FAILED: u32 = 0x534c_0107;
const DONE: u32 = 0x534c_0108;

/// What the master retrieves.
pub enum ToMaster {
    /// A new worker and its reply box.
    Hello(MailboxClone),
    /// Lines of a slice: their values follow in the message.
    Lines {
        /// Who made them.
        worker: WorkerId,
        /// The slice that they are of.
        slice: u32,
        /// Rows of the picture.
        rows: Range<u32>,
        /// Whether these are the last ones of the slice.
        is_last: bool,
    },
    /// A worker that has heard nothing for a while.
    StillThere,
    /// A worker that cannot go on, or finds that nobody can.
    Failed(WorkerId, Failed),
}

/// A [`Failure`], as it arrives.
pub struct Failed {
    /// Whether nobody can make the picture.
    pub is_impossible: bool,
    /// What is wrong.
    pub what: String,
    /// What to do, if nobody can make the picture.
    pub remedy: String,
}

/// What a worker retrieves.
#[derive(Debug, PartialEq)]
pub enum ToWorker<W> {
    /// The worker's number and the work.
    Welcome(WorkerId, W),
    /// A slice to compute.
    Compute(u32),
    /// The picture is finished, or the master gives up.
    Done,
}

/// Name of the master's mail box.
pub fn master_name<W: Work>() -> String {
    format!("{}.master", W::PROGRAM)
}

fn head(node: &Node, kind: u32, worker: u32, slice: u32) -> Result<Message> {
    let mut message = node.message();
    message.pack(&[kind, worker, slice, 0, 0])?;
    Ok(message)
}

fn unknown<W: Work>(message: &Message, kind: u32) -> Error {
    let error = Error::new(ErrorKind::Corrupt, format!("a message of the unknown kind {kind:#x}"))
        .with_remedy(format!("run the same version of {} in every node", W::PROGRAM));
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

/// A worker delivers lines of a slice; with the last ones it asks for the next slice.
pub fn lines<W: Work>(
    node: &Node,
    worker: WorkerId,
    slice: u32,
    rows: Range<u32>,
    values: &[W::Value],
    is_last: bool,
) -> Result<Message> {
    let mut message = node.message_with_capacity(size_of_val(values) + 64)?;
    let kind = if is_last { LAST_LINES } else { LINES };
    message.pack(&[kind, worker.0, slice, rows.start, rows.len() as u32])?;
    message.pack(values)?;
    Ok(message)
}

/// A worker looks whether the master's mail box is still there.
pub fn still_there(node: &Node) -> Result<Message> {
    head(node, STILL_THERE, 0, 0)
}

/// A worker says why it cannot compute a slice.
pub fn failed(node: &Node, worker: WorkerId, slice: u32, failure: &Failure) -> Result<Message> {
    let mut message = head(node, FAILED, worker.0, slice)?;
    let (is_impossible, what, remedy) = match failure {
        Failure::Impossible { what, remedy } => (1, what.clone(), remedy.clone()),
        Failure::Worker(error) => (0, error.to_string(), String::new()),
    };
    let cut = |text: &str| text.as_bytes()[..text.len().min(WHY_BYTES)].to_vec();
    let (what, remedy) = (cut(&what), cut(&remedy));
    message.pack(&[is_impossible, what.len() as u32, remedy.len() as u32])?;
    message.pack(&what)?;
    message.pack(&remedy)?;
    Ok(message)
}

fn open_failed(message: &mut Message) -> Result<Failed> {
    let mut numbers = [0u32; 3];
    message.unpack(&mut numbers)?;
    let mut text = |bytes: u32| -> Result<String> {
        let mut text = vec![0u8; (bytes as usize).min(WHY_BYTES)];
        message.unpack(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    let [is_impossible, what, remedy] = numbers;
    let (what, remedy) = (text(what)?, text(remedy)?);
    Ok(Failed { is_impossible: is_impossible != 0, what, remedy })
}

/// The master greets a new worker.
pub fn welcome<W: Work>(node: &Node, worker: WorkerId, work: &W) -> Result<Message> {
    let mut message = head(node, WELCOME, worker.0, 0)?;
    work.pack(&mut message)?;
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

/// Reads a message to the master; of lines only the head. Waits for a new worker's reply box for a quarter of a second
/// at most.
///
/// # Errors
/// [`ErrorKind::Corrupt`], [`ErrorKind::Type`] or [`ErrorKind::Truncated`] for what no worker says; the errors of
/// [`Message::unpack_mailbox`] for a worker that cannot be reached any more.
pub fn open_to_master<W: Work>(message: &mut Message) -> Result<ToMaster> {
    let mut head = [0; 5];
    message.unpack(&mut head)?;
    match head {
        [HELLO, ..] => Ok(ToMaster::Hello(message.unpack_mailbox(CONNECT)?)),
        [kind @ (LINES | LAST_LINES), worker, slice, first, rows] => Ok(ToMaster::Lines {
            worker: WorkerId(worker),
            slice,
            rows: first..first.saturating_add(rows),
            is_last: kind == LAST_LINES,
        }),
        [STILL_THERE, ..] => Ok(ToMaster::StillThere),
        [FAILED, worker, ..] => Ok(ToMaster::Failed(WorkerId(worker), open_failed(message)?)),
        [kind, ..] => Err(unknown::<W>(message, kind)),
    }
}

/// Reads a message to a worker.
///
/// # Errors
/// [`ErrorKind::Corrupt`], [`ErrorKind::Type`], [`ErrorKind::Truncated`] or [`ErrorKind::Invalid`] for what no master
/// says.
pub fn open_to_worker<W: Work>(message: &mut Message) -> Result<ToWorker<W>> {
    let mut head = [0; 5];
    message.unpack(&mut head)?;
    match head {
        [WELCOME, worker, ..] => Ok(ToWorker::Welcome(WorkerId(worker), W::unpack(message)?)),
        [COMPUTE, _, slice, ..] => Ok(ToWorker::Compute(slice)),
        [DONE, ..] => Ok(ToWorker::Done),
        [kind, ..] => Err(unknown::<W>(message, kind)),
    }
}

/// Whether a message to a worker is the master's last word.
pub fn is_done(message: &mut Message) -> bool {
    let mut head = [0u32; 5];
    message.unpack(&mut head).is_ok() && head[0] == DONE
}
