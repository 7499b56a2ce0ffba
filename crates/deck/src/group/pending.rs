//! Collectives that were started and are waited for later.
//!
//! Those of one member are carried in the order in which they were started. Starting one says this member's first part at
//! once, so short ones need nothing more from it; longer ones go on whenever this member is inside a call of the group.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deck_mudeck::{Element, Error, ErrorKind, Result};
use deck_segment::content::Way;
use deck_sync::locks::lock;
use deck_sync::{Deadline, vectors};

use super::Group;
use super::call::{Call, Kind};
use super::progress::Progress;

/// What memory is for that there may be too little of.
const MEMORY: &str = "for a collective that is started";

/// Where the result is put.
pub(super) type Slot = Arc<Mutex<Outcome>>;

pub(super) enum Outcome {
    UnderWay,
    Done(Result<Vec<u8>>),
    Taken,
}

/// A collective in the queue of its group.
pub(super) struct Started {
    pub progress: Progress,
    pub input: Vec<u8>,
    pub output: Vec<u8>,
    pub slot: Slot,
}

/// A collective that was started: its result is asked for with [`Pending::test`] or [`Pending::wait`].
///
/// Dropping it does not take the call back, which the other members count on: it is finished by later calls of the group,
/// and its result is dropped.
///
/// ```
/// use std::time::Duration;
/// use deck::{Group, Node, Operation, Thread};
/// const PATIENCE: Duration = Duration::from_secs(10);
///
/// fn member(node: &Node, index: u32) -> deck::Result<()> {
///     let mut group = Group::join(node, "sums", 2, Some(index), PATIENCE)?;
///     let mut sum = group.start_allreduce(&[index + 1], Operation::Sum)?;
///     let mut shares = group.start_allgather(&[index + 1])?;
///     // The member does something else, and looks now and then; a look carries on what was started.
///     let sum = loop {
///         match sum.test(&mut group)? {
///             Some(sum) => break sum,
///             None => std::thread::yield_now(),
///         }
///     };
///     // There is nothing else to do.
///     let shares = shares.wait(&mut group, PATIENCE)?;
///     assert_eq!((sum, shares), (vec![3], vec![1, 2]));
///     group.barrier(PATIENCE)
/// }
///
/// # fn main() -> deck::Result<()> {
/// let node = Node::join()?;
/// let other = Thread::spawn({
///     let node = node.clone();
///     move || member(&node, 1)
/// })?;
/// member(&node, 0)?;
/// other.join().expect("the other member does not panic")?;
/// # Ok(()) }
/// ```
#[doc(alias = "deck_request_t")]
#[must_use = "a collective that was started goes on only while its member tests, waits or calls"]
pub struct Pending<T: Element> {
    kind: Kind,
    slot: Slot,
    _elements: PhantomData<T>,
}

impl<T: Element> Pending<T> {
    /// Its result if it has ended; `None` if not. Never blocks.
    ///
    /// # Errors
    /// Those of the blocking call, now and later; [`ErrorKind::Invalid`] if the result was taken already. That an earlier call
    /// differed ([`crate::Completion::Own`]) is told once, and the result is there when it is asked for again.
    #[doc(alias = "deck_test")]
    pub fn test(&mut self, group: &mut Group) -> Result<Option<Vec<T>>> {
        if matches!(*lock(&self.slot), Outcome::UnderWay) {
            group.go_on()?;
        }
        self.take(group)
    }

    /// Its result. Blocks until the deadline; after a timeout or a cancellation it can be waited for again.
    ///
    /// # Errors
    /// As [`Pending::test`], and [`ErrorKind::Timeout`] and [`ErrorKind::Cancelled`] naming who is absent.
    #[doc(alias = "deck_wait")]
    pub fn wait(&mut self, group: &mut Group, timeout: Duration) -> Result<Vec<T>> {
        let slot = self.slot.clone();
        group.go_on_until(Deadline::after(timeout), |_| !matches!(*lock(&slot), Outcome::UnderWay))?;
        let kind = self.kind.name();
        self.take(group)?.ok_or_else(|| {
            Error::new(ErrorKind::Invalid, format!("waiting for a {kind} that was started in another group"))
                .with_remedy("give the group that started it")
        })
    }

    fn take(&mut self, group: &mut Group) -> Result<Option<Vec<T>>> {
        let mut outcome = lock(&self.slot);
        if matches!(*outcome, Outcome::Done(Ok(_))) {
            group.member.tell_late()?;
        }
        let mut elements = match &*outcome {
            Outcome::UnderWay => return Ok(None),
            // Before it is taken: where there is no memory, it can be asked for again.
            Outcome::Done(Ok(bytes)) => vectors::defaults(bytes.len() / size_of::<T>(), MEMORY)?,
            Outcome::Done(Err(_)) | Outcome::Taken => Vec::new(),
        };
        match std::mem::replace(&mut *outcome, Outcome::Taken) {
            Outcome::Done(Err(error)) => {
                *outcome = Outcome::Done(Err(error.clone()));
                Err(error)
            }
            Outcome::Done(Ok(bytes)) => {
                T::as_bytes_mut(&mut elements).copy_from_slice(&bytes);
                Ok(Some(elements))
            }
            Outcome::Taken | Outcome::UnderWay => Err(Error::new(
                ErrorKind::Invalid,
                format!("the result of this {} was taken already", self.kind.name()),
            )),
        }
    }
}

impl Group {
    /// Starts a collective: the form that all others are made of. Inputs and outputs are those of [`Group::call`]; `output` is
    /// what the result is written into (a broadcast's root reads from it). Never blocks.
    ///
    /// # Errors
    /// As [`Group::call`] without those of waiting; [`ErrorKind::Invalid`] while a blocking call that timed out is under
    /// way; [`ErrorKind::NoMemory`] if there is none for copies of input and output: nothing was started. Where there is no memory
    /// for what this member contributes, [`Pending::test`] and [`Pending::wait`] say so.
    pub fn start<T: Element>(&mut self, call: &Call, input: &[T], output: Vec<T>) -> Result<Pending<T>> {
        let (input, output) = (T::as_bytes(input), T::as_bytes(&output));
        self.check_new(call, input.len(), output.len())?;
        let alike = self.alike(call, input, output);
        let slot = Arc::new(Mutex::new(Outcome::UnderWay));
        let (input, output) = (vectors::copied(input, MEMORY)?, vectors::copied(output, MEMORY)?);
        let way = alike.map_or(Way::ThroughCaches, |alike| self.ways.choose(alike).0);
        self.queue.push_back(Started {
            progress: Progress::new(call, &self.member, way),
            input,
            output,
            slot: slot.clone(),
        });
        match self.go_on() {
            // The call is in the queue: whoever was refused would start it again.
            Err(error) if error.kind() != ErrorKind::NoMemory => Err(error),
            _ => Ok(Pending { kind: call.kind, slot, _elements: PhantomData }),
        }
    }

    /// Starts a call with an output of the size that it needs.
    pub(super) fn start_sized<T: Element>(&mut self, call: &Call, input: &[T]) -> Result<Pending<T>> {
        let (_, bytes) = call.bytes(self.index(), self.size())?;
        self.start(call, input, vectors::defaults(bytes / size_of::<T>(), MEMORY)?)
    }
}
