//! Collectives that were started and are waited for later.
//!
//! Those of one member are carried in the order in which they were started. Starting one says this member's first part
//! at once, so short ones need nothing more from it; longer ones go on whenever this member is inside a call of the
//! group.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deck_mudeck::{Element, Error, ErrorKind, Message, Result};
use deck_sync::locks::lock;
use deck_sync::{Deadline, Given, vectors};

use super::Group;
use super::array::Array;
use super::call::{Call, Kind};
use super::member::Member;
use super::progress::{Progress, Step};
use super::ways::Route;

/// What memory is for that there may be too little of.
const MEMORY: &str = "for a collective that is started";

/// Where the result is put.
pub(super) type Slot = Arc<Mutex<Outcome>>;

pub(super) enum Outcome {
    UnderWay,
    Done(Result<Box<dyn Array>>),
    Taken,
}

/// A collective in the queue of its group.
pub(super) struct Started {
    progress: Progress,
    /// What this member gives, which threads of its node may have as well until the call has ended.
    input: Arc<Box<dyn Array>>,
    output: Box<dyn Array>,
    /// The input is what the result will be: this member is the root of a broadcast.
    gives_result: bool,
    /// Where the input is laid out for threads of this node.
    given: Option<Given>,
    slot: Slot,
}

/// The input, for a shelf.
struct Input(Arc<Box<dyn Array>>);

impl AsRef<[u8]> for Input {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Started {
    pub fn call(&self) -> &Call {
        &self.progress.call
    }

    pub fn has_ended(&self) -> bool {
        self.progress.has_ended()
    }

    /// Goes on as far as is possible without waiting.
    pub fn advance(&mut self, member: &mut Member) -> Result<Step> {
        let Started { progress, input, output, given, .. } = self;
        if let Some((shelf, call)) = progress.lays_out(member)
            && given.is_none()
            && !input.bytes().is_empty()
        {
            *given = Some(shelf.give(member.index as usize, call, Arc::new(Input(input.clone()))));
        }
        let result = progress.advance(member, input.bytes(), output.bytes_mut());
        if !progress.is_under_way() {
            *given = None;
        }
        result
    }

    /// As [`Progress::keep_shown`].
    pub fn keep_shown(&mut self, member: &mut Member) {
        let Started { progress, input, output, .. } = self;
        progress.keep_shown(member, input.bytes(), output.bytes_mut());
    }

    /// Its result is there to be asked for.
    pub fn end(self, result: Result<Step>) {
        let Started { progress, input, output, gives_result, given, slot } = self;
        // Before the arrays: others are told where these lay.
        drop((progress, given));
        let output = match gives_result {
            true => Arc::into_inner(input)
                .ok_or_else(|| Error::new(ErrorKind::System, "the array of a call that has ended is still read")),
            false => Ok(output),
        };
        *lock(&slot) = Outcome::Done(result.and(output));
    }
}

/// A collective that was started: its result is asked for with [`Pending::test`] or [`Pending::wait`].
///
/// Dropping it does not take the call back, which the other members count on: it is finished by later calls of the
/// group, and its result is dropped.
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
#[doc(alias = "deck_request_destroy")]
#[must_use = "a collective that was started goes on only while its member tests, waits or calls"]
pub struct Pending<T: Element> {
    ticket: Ticket,
    _elements: PhantomData<T>,
}

impl<T: Element> Pending<T> {
    /// Its result if it has ended; `None` if not. Never blocks, but while another thread of this node reads a piece of
    /// what any of its members gives, when a long call begins and ends.
    ///
    /// # Errors
    /// Those of the blocking call, now and later; [`ErrorKind::Invalid`] if the result was taken already. That an
    /// earlier call differed ([`crate::Completion::Own`]) is told once, and the result is there when it is asked for
    /// again.
    #[doc(alias = "deck_test")]
    pub fn test(&mut self, group: &mut Group) -> Result<Option<Vec<T>>> {
        Ok(self.ticket.test(group)?.map(elements))
    }

    /// Its result. Blocks until the deadline; after a timeout or a cancellation it can be waited for again.
    ///
    /// # Errors
    /// As [`Pending::test`], and [`ErrorKind::Timeout`] and [`ErrorKind::Cancelled`] naming who is absent.
    #[doc(alias = "deck_wait")]
    pub fn wait(&mut self, group: &mut Group, timeout: Duration) -> Result<Vec<T>> {
        self.ticket.wait(group, timeout).map(elements)
    }
}

/// The elements of a result; none if they lie where the caller has them anyway.
fn elements<T: Element>(result: Box<dyn Array>) -> Vec<T> {
    (result as Box<dyn Any>).downcast::<Vec<T>>().map_or_else(|_| Vec::new(), |elements| *elements)
}

/// A broadcast of a message that was started ([`Group::start_bcast_message`]). As [`Pending`], with a message for a
/// result.
#[must_use = "a collective that was started goes on only while its member tests, waits or calls"]
pub struct PendingMessage {
    ticket: Ticket,
    /// In the root: what it has given, and gets back.
    given: Option<Message>,
}

impl PendingMessage {
    /// The message if the call has ended; `None` if not. Never blocks.
    ///
    /// # Errors
    /// As [`Pending::test`].
    pub fn test(&mut self, group: &mut Group) -> Result<Option<Message>> {
        let result = self.ticket.test(group)?;
        result.map(|result| self.message(result)).transpose()
    }

    /// The message. Blocks until the deadline; after a timeout or a cancellation it can be waited for again.
    ///
    /// # Errors
    /// As [`Pending::wait`].
    pub fn wait(&mut self, group: &mut Group, timeout: Duration) -> Result<Message> {
        let result = self.ticket.wait(group, timeout)?;
        self.message(result)
    }

    fn message(&mut self, result: Box<dyn Array>) -> Result<Message> {
        let taken = (result as Box<dyn Any>).downcast::<Message>().ok().map(|message| *message);
        self.given
            .take()
            .or(taken)
            .ok_or_else(|| Error::new(ErrorKind::System, "a message was broadcast, and none came"))
    }
}

impl<T: Element> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ticket.show("Pending", f)
    }
}

impl fmt::Debug for PendingMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ticket.show("PendingMessage", f)
    }
}

/// What the result of a call is fetched with.
struct Ticket {
    kind: Kind,
    slot: Slot,
}

impl Ticket {
    /// `Pending(allreduce, under way)`.
    fn show(&self, what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match &*lock(&self.slot) {
            Outcome::UnderWay => "under way",
            Outcome::Done(_) => "ended",
            Outcome::Taken => "taken",
        };
        write!(f, "{what}({}, {how})", self.kind.name())
    }

    fn is_under_way(&self) -> bool {
        matches!(*lock(&self.slot), Outcome::UnderWay)
    }

    fn test(&mut self, group: &mut Group) -> Result<Option<Box<dyn Array>>> {
        if self.is_under_way() {
            let went_on = group.inside(Group::go_on);
            // What keeps a later call from its end is told to whoever asks for that one.
            if self.is_under_way() {
                went_on?;
            }
        }
        self.take(group)
    }

    fn wait(&mut self, group: &mut Group, timeout: Duration) -> Result<Box<dyn Array>> {
        // One that has ended is there, whatever has become of the group since.
        if self.is_under_way() {
            let has_ended = |_: &VecDeque<Started>| !self.is_under_way();
            group.inside(|group| group.go_on_until(Deadline::after(timeout), has_ended))?;
        }
        let kind = self.kind.name();
        self.take(group)?.ok_or_else(|| {
            Error::new(ErrorKind::Invalid, format!("waiting for {kind}, which was started in another group"))
                .with_remedy("give the group that started it")
        })
    }

    fn take(&mut self, group: &mut Group) -> Result<Option<Box<dyn Array>>> {
        let mut outcome = lock(&self.slot);
        match &*outcome {
            Outcome::UnderWay => return Ok(None),
            Outcome::Done(Ok(_)) => group.member.tell_late()?,
            Outcome::Done(Err(error)) => return Err(error.clone()),
            Outcome::Taken => {}
        }
        match std::mem::replace(&mut *outcome, Outcome::Taken) {
            Outcome::Done(result) => result.map(Some),
            Outcome::Taken | Outcome::UnderWay => Err(Error::new(
                ErrorKind::Invalid,
                format!("the result of this {} was taken already", self.kind.name()),
            )
            .with_remedy("take it once; start another call for another result")),
        }
    }
}

impl Group {
    /// Starts a collective: the form that all others are made of. Inputs and outputs are those of [`Group::call`];
    /// `output` is what the result is written into (a broadcast's root reads from it). The input is copied; the output
    /// is not. Never blocks, as [`Pending::test`].
    ///
    /// # Errors
    /// As [`Group::call`] without those of waiting; [`ErrorKind::Invalid`] while a blocking call that timed out is
    /// under way; [`ErrorKind::NoMemory`] if there is none for a copy of the input: nothing was started. Where there is
    /// no memory for what this member contributes, [`Pending::test`] and [`Pending::wait`] say so.
    pub fn start<T: Element>(&mut self, call: &Call, input: &[T], output: Vec<T>) -> Result<Pending<T>> {
        // Before it is copied: a call that cannot be asks for no memory.
        self.check_new(call, size_of_val(input), size_of_val(&*output))?;
        let input: Box<dyn Array> =
            if input.is_empty() { Box::default() } else { Box::new(vectors::copied(input, MEMORY)?) };
        let ticket = self.start_arrays(call, input, Box::new(output))?;
        Ok(Pending { ticket, _elements: PhantomData })
    }

    /// Starts a collective with arrays that the caller has made or lends. A broadcast's root may have its data in
    /// `input` and nothing in `output`. Results in arrays that are no vectors of bytes are where they were written, and
    /// [`Pending::wait`] gives none. Never blocks.
    ///
    /// # Errors
    /// As [`Group::start`].
    #[doc(hidden)]
    pub fn start_in(&mut self, call: &Call, input: Box<dyn Array>, output: Box<dyn Array>) -> Result<Pending<u8>> {
        let ticket = self.start_arrays(call, input, output)?;
        Ok(Pending { ticket, _elements: PhantomData })
    }

    /// Starts a [`Group::bcast`] of a message's content in place of a vector's. Nobody copies what the root gives: the
    /// others read it where it lies, as in a blocking call with [`Message::edit`]. Elsewhere `message` has the same
    /// size, and its content is replaced; types of elements stay. The result is the message. Changing a clone of it
    /// meanwhile works on a copy, as ever.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use deck::{Group, Node, Thread};
    /// # const PATIENCE: Duration = Duration::from_secs(10);
    /// fn member(node: &Node, index: u32) -> deck::Result<()> {
    ///     let mut group = Group::join(node, "picture", 2, Some(index), PATIENCE)?;
    ///     let mut picture = node.message();
    ///     picture.resize(1 << 20)?;
    ///     if index == 0 {
    ///         picture.edit()?.fill(7);
    ///     }
    ///     let mut coming = group.start_bcast_message(0, picture)?;
    ///     // The member does something else.
    ///     let picture = coming.wait(&mut group, PATIENCE)?;
    ///     assert!(picture.as_bytes().iter().all(|byte| *byte == 7));
    ///     Ok(())
    /// }
    /// # fn main() -> deck::Result<()> {
    /// # let node = Node::join()?;
    /// # let other = Thread::spawn({
    /// #     let node = node.clone();
    /// #     move || member(&node, 1)
    /// # })?;
    /// # member(&node, 0)?;
    /// # other.join().expect("the other member does not panic")
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Group::start`]; [`ErrorKind::NoMemory`] also where others hold the content that is to be replaced, and
    /// there is none for new.
    #[doc(alias = "deck_start_bcast")]
    pub fn start_bcast_message(&mut self, root: u32, mut message: Message) -> Result<PendingMessage> {
        let call = Call::bcast(root, u8::TYPE, message.size());
        if self.index() == root {
            let ticket = self.start_arrays(&call, Box::new(message.clone()), Box::default())?;
            return Ok(PendingMessage { ticket, given: Some(message) });
        }
        // From now on it is this call's alone.
        message.edit()?;
        let ticket = self.start_arrays(&call, Box::default(), Box::new(message))?;
        Ok(PendingMessage { ticket, given: None })
    }

    fn start_arrays(&mut self, call: &Call, input: Box<dyn Array>, mut output: Box<dyn Array>) -> Result<Ticket> {
        let (takes, gives) = (input.bytes(), &*output.bytes_mut());
        self.check_new(call, takes.len(), gives.len())?;
        let alike = self.alike(call, takes, gives);
        let slot = Arc::new(Mutex::new(Outcome::UnderWay));
        let route = alike.map_or(Route::Through, |alike| self.ways.choose(alike).0);
        let progress = Progress::new(call, &self.member, route);
        let gives_result = call.kind == Kind::Bcast && call.root == self.index() && input.bytes().is_empty();
        let (input, output) = if gives_result { (output, Box::default()) } else { (input, output) };
        let (input, given) = (Arc::new(input), None);
        self.queue.push_back(Started { progress, input, output, gives_result, given, slot: slot.clone() });
        match self.inside(Group::go_on) {
            // The call is in the queue: whoever was refused would start it again.
            Err(error) if error.kind() != ErrorKind::NoMemory => Err(error),
            _ => Ok(Ticket { kind: call.kind, slot }),
        }
    }

    /// Starts a call with an output of the size that it needs.
    pub(super) fn start_sized<T: Element>(&mut self, call: &Call, input: &[T]) -> Result<Pending<T>> {
        let (_, bytes) = call.bytes(self.index(), self.size())?;
        self.start(call, input, vectors::defaults(bytes / size_of::<T>(), MEMORY)?)
    }
}
