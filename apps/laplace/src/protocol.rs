//! The messages of a job: the only file that packs and unpacks them.
//!
//! ```text
//!   computing thread                       manager ("laplace.manager")
//!     | -- hello: its three mail boxes ------> |
//!     | <- welcome: slab, band, neighbours --- |   when all have said hello
//!     | <- given up: nodes that came --------- |   instead of it, when some do not come
//!     |                                        |
//!     |  halo: one colour of one row, twice a sweep, to the mail boxes of both neighbours
//!     |  change: of a sweep, to the thread of the first band, which posts the verdict to all
//!     |                                        |
//!     | -- progress: sweep, change ----------> |   the first band's thread, now and then
//!     | -- rows: their temperatures ---------> |   now and then if somebody looks on
//!     | -- last rows ------------------------> |
//!     | <- done ------------------------------ |   when all have come: from here on a node may leave
//!     | -- failed: why ----------------------> |   instead of anything, and the end of the job
//! ```
//!
//! A halo is nothing but numbers: a mail box of its own for each neighbour, and the order of messages, say what it is.
//! All others begin with three numbers, of which the first is the kind; change and verdict are nothing more, so that
//! they fit into a slot.

use deck::{Error, ErrorKind, MailboxAddress, MailboxClone, Message, Node, NodeId, Result};
use user_interface::memory;

use crate::manager::MANAGER_NODE;
use crate::patience;
use crate::slab::Slab;

/// Name of the manager's mail box.
pub const MANAGER: &str = "laplace.manager";
/// Most bytes of a failure's text that are sent.
const WHY_BYTES: usize = 4096;
/// Most temperatures in one message.
const ROWS_VALUES: usize = 1 << 19;

/// Kinds carry the protocol's version: "LA", 1, kind.
const HELLO: u64 = 0x4c41_0101;
const WELCOME: u64 = 0x4c41_0102;
const CHANGE: u64 = 0x4c41_0103;
const VERDICT: u64 = 0x4c41_0104;
const PROGRESS: u64 = 0x4c41_0105;
const ROWS: u64 = 0x4c41_0106;
const LAST_ROWS: u64 = 0x4c41_0107;
const DONE: u64 = 0x4c41_0108;
const FAILED: u64 = 0x4c41_0109;
const GIVEN_UP: u64 = 0x4c41_010a;

/// What the manager retrieves.
pub enum ToManager {
    /// A thread is there.
    Hello(Hello),
    /// The sweep that the first band is at, and the largest change of the last one judged.
    Progress(u64, f64),
    /// Some rows.
    Rows {
        /// The node that relaxes them.
        from: NodeId,
        /// The first one's number.
        first: u32,
        /// Their temperatures.
        temperatures: Vec<f64>,
        /// Whether they are the result.
        is_last: bool,
    },
    /// A thread cannot go on.
    Failed(String),
}

/// A new computing thread.
pub struct Hello {
    /// Which one of its node's it is.
    pub thread: u32,
    /// How many its node has.
    pub threads: u32,
    /// For welcome, change, verdict and done.
    pub orders: MailboxClone,
    /// For halos of the band above.
    pub above: MailboxClone,
    /// For halos of the band below.
    pub below: MailboxClone,
}

/// A computing thread's part of the slab.
pub struct Plan {
    /// The slab.
    pub slab: Slab,
    /// Its row above the band.
    pub above_row: u32,
    /// Rows of the band.
    pub rows: u32,
    /// Nodes that take part: 0 and those after it.
    pub nodes: u32,
    /// Whether somebody looks on.
    pub is_watched: bool,
    /// Where the band above takes halos.
    pub to_above: Option<MailboxClone>,
    /// Where the band below takes halos.
    pub to_below: Option<MailboxClone>,
    /// Where changes go; none for the first band, which judges them.
    pub judge: Option<MailboxClone>,
    /// Where the first band's thread posts verdicts.
    pub judged: Vec<MailboxClone>,
}

/// What a computing thread retrieves from its mail box for orders.
pub enum ToThread {
    /// Its part.
    Welcome(Box<Plan>),
    /// The largest change of one band in a sweep.
    Change(u64, f64),
    /// What follows from the changes of a sweep.
    Verdict(u64, Verdict),
    /// There is no more to do.
    Done,
    /// So many nodes came, of so many.
    GivenUp(u64, u64),
}

/// What follows from the changes of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Another sweep.
    GoOn,
    /// Another sweep, and the rows as they are for those who look on.
    Show,
    /// The end.
    Stop,
}

/// What the manager tells a thread: everything of a [`Plan`], with addresses for clones.
pub struct Order<'a> {
    /// See [`Plan::slab`].
    pub slab: &'a Slab,
    /// See [`Plan::above_row`].
    pub above_row: u32,
    /// See [`Plan::rows`].
    pub rows: u32,
    /// See [`Plan::nodes`].
    pub nodes: u32,
    /// See [`Plan::is_watched`].
    pub is_watched: bool,
    /// See [`Plan::to_above`].
    pub to_above: Option<MailboxAddress>,
    /// See [`Plan::to_below`].
    pub to_below: Option<MailboxAddress>,
    /// See [`Plan::judge`].
    pub judge: Option<MailboxAddress>,
    /// See [`Plan::judged`].
    pub judged: Vec<MailboxAddress>,
}

fn head(node: &Node, numbers: [u64; 3]) -> Result<Message> {
    let mut message = node.message();
    message.pack(&numbers)?;
    Ok(message)
}

/// A thread offers its mail boxes: for orders, and for halos of the bands above and below.
pub fn hello(node: &Node, thread: u32, threads: u32, boxes: [MailboxAddress; 3]) -> Result<Message> {
    let mut message = head(node, [HELLO, thread.into(), threads.into()])?;
    boxes.into_iter().try_for_each(|address| message.pack_mailbox(address))?;
    Ok(message)
}

/// The manager gives a thread its part.
pub fn welcome(node: &Node, order: &Order<'_>) -> Result<Message> {
    let mut message = head(node, [WELCOME, 0, 0])?;
    let Order { slab, above_row, rows, nodes, is_watched, to_above, to_below, judge, judged } = order;
    slab.pack(&mut message)?;
    let there = [to_above, to_below, judge].map(|address| u32::from(address.is_some()));
    let [has_above, has_below, has_judge] = there;
    let is_watched = u32::from(*is_watched);
    message.pack(&[*above_row, *rows, *nodes, is_watched, has_above, has_below, has_judge, judged.len() as u32])?;
    let addresses = [to_above, to_below, judge].into_iter().copied().flatten().chain(judged.iter().copied());
    addresses.into_iter().try_for_each(|address| message.pack_mailbox(address))?;
    Ok(message)
}

/// A thread's largest change in a sweep.
pub fn change(node: &Node, sweep: u64, change: f64) -> Result<Message> {
    head(node, [CHANGE, sweep, change.to_bits()])
}

/// What follows from the changes of a sweep.
pub fn verdict(node: &Node, sweep: u64, verdict: Verdict) -> Result<Message> {
    head(node, [VERDICT, sweep, verdict as u64])
}

/// How far the first band is.
pub fn progress(node: &Node, sweep: u64, change: f64) -> Result<Message> {
    head(node, [PROGRESS, sweep, change.to_bits()])
}

/// How many rows of so many temperatures are in one message.
pub fn rows_at_once(width: usize) -> usize {
    (ROWS_VALUES / width).max(1)
}

/// Rows of temperatures: the first one's number, how many, and how many temperatures each has, which `pack` packs.
pub fn rows(
    node: &Node,
    (first, rows, width): (u32, usize, usize),
    is_last: bool,
    pack: impl FnOnce(&mut Message) -> Result<()>,
) -> Result<Message> {
    let kind = if is_last { LAST_ROWS } else { ROWS };
    let mut message = node.message_with_capacity(rows * width * size_of::<f64>() + 64)?;
    message.pack(&[kind, first.into(), rows as u64])?;
    pack(&mut message)?;
    Ok(message)
}

/// The manager has everything.
pub fn done(node: &Node) -> Result<Message> {
    head(node, [DONE, 0, 0])
}

/// So many nodes came of so many, and the manager waits for no more.
pub fn given_up(node: &Node, came: u64, of: u64) -> Result<Message> {
    head(node, [GIVEN_UP, came, of])
}

/// A thread cannot go on.
pub fn failed(node: &Node, why: &Error) -> Result<Message> {
    let why = why.to_string();
    let why = &why.as_bytes()[..why.len().min(WHY_BYTES)];
    let mut message = head(node, [FAILED, why.len() as u64, 0])?;
    message.pack(why)?;
    Ok(message)
}

fn unknown(message: &Message, kind: u64) -> Error {
    let error = Error::new(ErrorKind::Corrupt, format!("a message of the unknown kind {kind:#x}"))
        .with_remedy("run the same version of laplace in every node");
    match message.sender() {
        Some(peer) => error.with_peer(peer),
        None => error,
    }
}

/// Reads a message to the manager, about a slab so many points across and down. What is next in a hello is connected to
/// by `connect`.
///
/// # Errors
/// [`ErrorKind::Corrupt`], [`ErrorKind::Type`] or [`ErrorKind::Truncated`] for what no thread says; the errors of
/// `connect` for a thread that cannot be reached.
pub fn open_to_manager(
    message: &mut Message,
    (width, height): (u32, u32),
    connect: impl Fn(&mut Message) -> Result<MailboxClone>,
) -> Result<ToManager> {
    let mut head = [0u64; 3];
    message.unpack(&mut head)?;
    match head {
        [HELLO, thread, threads] => Ok(ToManager::Hello(Hello {
            thread: thread as u32,
            threads: threads as u32,
            orders: connect(message)?,
            above: connect(message)?,
            below: connect(message)?,
        })),
        [PROGRESS, sweep, change] => Ok(ToManager::Progress(sweep, f64::from_bits(change))),
        [kind @ (ROWS | LAST_ROWS), first, rows] => {
            if first.saturating_add(rows) > u64::from(height) {
                return Err(Error::new(ErrorKind::Corrupt, format!("{rows} rows from {first} on of {height}")));
            }
            let values = rows as usize * width as usize;
            // Before there is room for as many as a number in the message says.
            if values > message.size() / size_of::<f64>() {
                let error = Error::new(ErrorKind::Truncated, format!("{rows} rows in {} bytes", message.size()));
                return Err(error);
            }
            let mut temperatures = memory::defaults(values, "rows of the slab")?;
            message.unpack(&mut temperatures)?;
            let from = message.sender().unwrap_or(MANAGER_NODE);
            Ok(ToManager::Rows { from, first: first as u32, temperatures, is_last: kind == LAST_ROWS })
        }
        [FAILED, bytes, _] => {
            let mut why = vec![0u8; (bytes as usize).min(WHY_BYTES)];
            message.unpack(&mut why)?;
            Ok(ToManager::Failed(String::from_utf8_lossy(&why).into_owned()))
        }
        [kind, ..] => Err(unknown(message, kind)),
    }
}

/// Reads an order. A welcome connects to the neighbours, however long that takes while all nodes are there.
///
/// # Errors
/// [`ErrorKind::Corrupt`], [`ErrorKind::Type`], [`ErrorKind::Truncated`] or [`ErrorKind::Invalid`] for what nobody
/// says; the errors of [`patience::connect`] for a neighbour that cannot be reached any more.
pub fn open_to_thread(node: &Node, message: &mut Message) -> Result<ToThread> {
    let mut head = [0u64; 3];
    message.unpack(&mut head)?;
    match head {
        [WELCOME, ..] => open_welcome(node, message).map(|plan| ToThread::Welcome(Box::new(plan))),
        [CHANGE, sweep, change] => Ok(ToThread::Change(sweep, f64::from_bits(change))),
        [VERDICT, sweep, verdict] => {
            let known = [Verdict::GoOn, Verdict::Show, Verdict::Stop].into_iter().find(|&one| one as u64 == verdict);
            known.map(|verdict| ToThread::Verdict(sweep, verdict)).ok_or_else(|| unknown(message, VERDICT))
        }
        [DONE, ..] => Ok(ToThread::Done),
        [GIVEN_UP, came, of] => Ok(ToThread::GivenUp(came, of)),
        [kind, ..] => Err(unknown(message, kind)),
    }
}

fn open_welcome(node: &Node, message: &mut Message) -> Result<Plan> {
    let slab = Slab::unpack(message)?;
    let mut numbers = [0u32; 8];
    message.unpack(&mut numbers)?;
    let [above_row, rows, nodes, is_watched, has_above, has_below, has_judge, judged] = numbers;
    if rows == 0 || u64::from(above_row) + u64::from(rows) + 1 >= u64::from(slab.height()) {
        return Err(Error::new(ErrorKind::Corrupt, format!("{rows} rows after {above_row} of {}", slab.height())));
    }
    let mut connect = |is_there: bool| is_there.then(|| patience::connect(node, nodes, message)).transpose();
    let (to_above, to_below, judge) = (connect(has_above != 0)?, connect(has_below != 0)?, connect(has_judge != 0)?);
    let judged = (0..judged).map(|_| patience::connect(node, nodes, message)).collect::<Result<_>>()?;
    let is_watched = is_watched != 0;
    Ok(Plan { slab, above_row, rows, nodes, is_watched, to_above, to_below, judge, judged })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rows_that_are_not_in_the_message_are_refused_before_there_is_room_for_them() {
        let node = Node::join().unwrap();
        let side = u32::MAX;
        let mut message = node.message();
        message.pack(&[ROWS, 0, u64::from(side)]).unwrap();
        message.pack(&[20.0; 4]).unwrap();
        let opened = open_to_manager(&mut message, (side, side), |message| message.unpack_mailbox(Duration::ZERO));
        assert_eq!(opened.err().map(|error| error.kind()), Some(ErrorKind::Truncated));
        drop(message);
        node.leave().unwrap();
    }
}
