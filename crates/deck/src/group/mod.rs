//! Groups and collectives: threads of any nodes that meet under a name.
//!
//! A [`Group`] is one *member*: a thread's place among `size` threads, wherever they run. All members call the same
//! collectives in the same order; each returns when this member's part is done, which is after all have come to it:
//! every collective is also a barrier, unless the group was joined with [`Completion::Own`].
//! `docs/design/050-collectives.md` tells how they work, 051 why results are the same bits in every run, 052 how
//! members get ahead of others.
//!
//! | file | idea |
//! |---|---|
//! | `join` | how threads find one another under a name |
//! | `board` | the words in shared memory at which they meet; `board/`: what a member says in a phase |
//! | `member` | one member's side: say, arrive, wait; `member/`: memory for what it gives, what others gave, calls of one round, where pieces flow, where it may be ahead of others, who will not come, what is read in programs' memory, what trials have told, what is made for all, where members are |
//! | `parties` | members that meet among themselves first |
//! | `call` | what is asked for; checked against buffers and against the other members |
//! | `collectives` | each collective by name, waiting and started |
//! | `choose` | which algorithm carries it |
//! | `progress` | the rounds of a call under way; `progress/`: what is given and taken, whether all are in it, whether counts fit, and where work is shared |
//! | `options` | what members agree on when they join |
//! | `protocols/` | who may go on, in words that all see: members that are ahead of others, where a call ends with the member's own part (`ahead`); who takes from whom (`course`); pieces with no meeting for each (`flow`); a part of a result that one member works out for all (`once`); that what a member gives lies somewhere else now (`relocation`); the members of each node (`teams`) |
//! | `reductions/` | operations on elements (`operation`); what all give, folded in the order of indexes (`folding`); long reductions that go from node to node (`relay`, and what a member makes of a piece), and where members of a node lay out arrays for one another (`neighbours`) |
//! | `difference` | whether members are in the same call |
//! | `stream` | what pieces give and take in each call |
//! | `sources` | from whom all is taken, in whatever order they come |
//! | `ways` | through the caches, past them, or read in the giver's own memory |
//! | `attaching` | what members tell the others to read in their programs' memory |
//! | `lending` | two members that give in one another's memory |
//! | `pending` | calls that are started and waited for later |
//! | `array` | what those read and write meanwhile |
//! | `absent` | errors that name who is missing |
//! | `observe` | a group as those see it who look on |
//! | `room` | memory for what a member contributes |
//! | `retired` | memory of members that have left |

mod absent;
mod array;
mod attaching;
mod board;
mod call;
mod choose;
mod collectives;
mod difference;
mod join;
mod lending;
mod member;
pub(crate) mod observe;
mod options;
mod parties;
mod pending;
mod progress;
mod protocols;
mod reductions;
mod retired;
mod room;
mod sources;
mod stream;
mod ways;

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use deck_mudeck::{Error, ErrorKind, Node, NodeId, Result};
use deck_segment::attach::Attach;
use deck_sync::{Deadline, Stays, cancellation, fork, now_ns};

use choose::may_be_attached;
use join::Joining;
use member::{Direct, Member};
use pending::Started;
use progress::{Progress, Step};
use ways::{Alike, Route, Then, Ways};

pub use array::{Array, Share};
pub use board::MEMBERS_MAX;
pub use call::{Call, Kind};
pub use options::{Completion, GroupOptions};
pub use pending::{Pending, PendingMessage};
pub use reductions::operation::Operation;

/// A member of a group of threads: joins under a name, calls collectives, leaves.
///
/// One thread at a time uses it (`&mut`); it may be handed to another thread of its node. Dropping it leaves the group.
///
/// # What holds for every collective
/// * All members call the same ones in the same order, with the same root, element type, operation and count (the forms
///   ending in v: with counts that fit). If they do not, each member that is in the call gets [`ErrorKind::Invalid`]
///   naming the first one that differs, and the group goes on.
/// * Any size from 0 up, also more than the node's budget: large data travels in pieces. An array in the content of a
///   [`crate::Message`] that this node made, with more than 16 KiB for each receiver, is read by the others where it
///   lies, except in the forms ending in v. Others of that size may be read in the program's own memory, where the
///   system lets a process do so and that is found to be faster (`DECK_ATTACH`), except in these forms and in
///   reductions; in reductions by the threads of the member's own node alone. All others are copied.
/// * Reductions are folded in the order of indexes: the same inputs give the same bits in every run, whichever nodes
///   the members are on.
/// * It blocks until all members have come, at most `timeout`; longer by as long as another thread of its node reads a
///   piece of what it gives, of 1 MiB at most. [`ErrorKind::Timeout`] and [`ErrorKind::Cancelled`] name the members
///   that are absent, and nothing is lost: the same call again, with the same arrays, goes on where it was (and another
///   one is [`ErrorKind::Invalid`] until then). After a call that failed the output is undefined: a part of it may have
///   been written. It is as it was if arguments were refused, or lengths that do not fit in the forms ending in v. What
///   the call has read of its input by then stays read; an array in the content of a message is read where it lies
///   until the call has ended: leave the slice that was given as it is. The message may be dropped, and to edit it anew
///   copies it. Of another long array others may read a copy until the call has ended: the first time that it ends for
///   want of time takes the time and memory for that.
/// * If a member that is needed dies or leaves, every other member's call ends with [`ErrorKind::PeerLost`] or
///   [`ErrorKind::Closed`] naming it, now and later: what is left to do is to leave.
/// * [`ErrorKind::NoMemory`] if this node has none for what it contributes: call again, as after a timeout.
///   [`ErrorKind::System`] naming a member if what it gives in its program's memory cannot be read (`DECK_ATTACH`), or
///   was not kept, for want of memory, when it left the call for a while; [`ErrorKind::Corrupt`] naming one that said
///   what makes no sense; [`ErrorKind::TooLarge`] for counts that no memory could hold.
///
/// # What [`Completion::Own`] changes
/// In a group that was joined with it ([`Group::join_with`]), broadcasts, reductions to a root, gathers, scatters and
/// scans of up to 16 KiB a block (and 64 KiB at the root) wait only for those from whom this member takes something.
/// Then
/// * what a member gives reaches the others also when it has left since, or died: joining ends when all have met, or
///   else the first call waits for that;
/// * a member gets up to 16 such calls ahead of the slowest (8 in which it gives more than 32 bytes), and waits for it
///   then; all other calls wait for all;
/// * who is absent is told by the next call that needs them, directly or through others, and not in the very call in
///   which they are;
/// * after a death each call that has to wait ends with [`ErrorKind::PeerLost`]; one that has what it needs does not;
/// * members that are in different calls are told at once only if one takes from the other. The others get
///   [`ErrorKind::Invalid`] from one of the next 16 calls, or from the next that waits for all; it says that an earlier
///   call differed, was itself carried out, and the group goes on.
///
/// ```
/// use std::time::Duration;
/// use deck::{Group, Node, Operation, Thread};
/// const PATIENCE: Duration = Duration::from_secs(10);
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = Node::join()?;
/// let threads: Vec<_> = (0..3)
///     .map(|index| {
///         let node = node.clone();
///         Thread::spawn(move || -> deck::Result<Vec<f64>> {
///             let mut group = Group::join(&node, "workers", 3, Some(index), PATIENCE)?;
///             let mut sum = [0.0; 2];
///             group.allreduce(&[f64::from(index), 0.5], &mut sum, Operation::Sum, PATIENCE)?;
///             group.barrier(PATIENCE)?;
///             Ok(sum.to_vec())
///         })
///     })
///     .collect::<deck::Result<_>>()?;
/// for thread in threads {
///     assert_eq!(thread.join().expect("no member panics")?, [3.0, 1.5]);
/// }
/// # Ok(()) }
/// ```
#[doc(alias = "deck_group_t")]
pub struct Group {
    /// A blocking call whose deadline passed.
    stalled: Option<Progress>,
    /// Calls that were started, in their order.
    queue: VecDeque<Started>,
    /// Dropped after the calls: what these say at their end they say on a board that may be another group's when the
    /// last member has left.
    member: Member,
    ways: Ways,
}

impl Group {
    /// Joins the group `name` of `size` threads, and waits until all have come. With an `index` each member has its
    /// own; with `None` indexes are given in the order of arrival. A name has 1 to 89 bytes. Names of groups and of
    /// mail boxes do not collide, but a job can have 16,384 different ones of both together at a time. A name can be
    /// used again, with any size and options, when all members of its last group have left or died; until then joining
    /// waits, as soon as the first of them has. Once all have come there is a group, which nobody ends for want of
    /// time: the first call goes on with meeting the members' nodes, and tells of one that cannot be met in its time.
    /// Members of more than 16 nodes leave that to the first call in which somebody gives more than 32 bytes, unless
    /// they joined with [`Completion::Own`]. Blocks until the deadline.
    ///
    /// # Errors
    /// - [`ErrorKind::Timeout`] and [`ErrorKind::Cancelled`], naming the indexes that are absent;
    /// - [`ErrorKind::Invalid`] if size, index or name cannot be, or another member gave another size;
    /// - [`ErrorKind::Exists`] if the index is taken, or all members have come already;
    /// - [`ErrorKind::NoMemory`], also if the job has too many names;
    /// - [`ErrorKind::PeerLost`] naming a member that died meanwhile, [`ErrorKind::Closed`] one whose node left the
    ///   job, [`ErrorKind::Corrupt`] one that said what makes no sense.
    #[doc(alias = "deck_group_join")]
    pub fn join(node: &Node, name: &str, size: u32, index: Option<u32>, timeout: Duration) -> Result<Group> {
        Group::join_with(node, name, size, index, &GroupOptions::default(), timeout)
    }

    /// As [`Group::join`], with options: the same in every member.
    ///
    /// # Errors
    /// As [`Group::join`]; [`ErrorKind::Invalid`] also if another member gave other options: then all who have come by
    /// then get it.
    #[doc(alias = "deck_group_join_with")]
    pub fn join_with(
        node: &Node,
        name: &str,
        size: u32,
        index: Option<u32>,
        options: &GroupOptions,
        timeout: Duration,
    ) -> Result<Group> {
        let deadline = Deadline::after(timeout);
        let joined = Joining { node, name, size, index, options }.join(deadline)?;
        let mut member = Member::new(node.clone(), name.to_string(), options.completion.ahead(), joined);
        member.enter()?;
        // The group is formed: to leave it for want of time, or of room for another node's memory, would end it for
        // all. What is left to do the first call does.
        let met = if member.meets_at_once() { member.meet(deadline) } else { Ok(()) };
        let met = match met.map_err(|error| (error.kind(), error)) {
            Err((ErrorKind::Timeout | ErrorKind::NoMemory, _)) => Ok(()),
            Err((ErrorKind::Cancelled, _)) => {
                cancellation::postpone();
                Ok(())
            }
            met => met.map_err(|(_, error)| absent::before_joining(error).context("joining")),
        };
        if met.is_ok() {
            member.await_met(deadline);
        }
        member.step_out();
        met.map(|()| Group { member, stalled: None, queue: VecDeque::new(), ways: Ways::new(size) })
    }

    /// Does something that writes to what other members see: meanwhile this node does not leave.
    #[inline]
    fn inside<T>(&mut self, act: impl FnOnce(&mut Group) -> Result<T>) -> Result<T> {
        /// Steps out also where `act` panics: the node would not leave in good order any more.
        struct Inside<'a>(&'a mut Group);
        impl Drop for Inside<'_> {
            #[inline]
            fn drop(&mut self) {
                self.0.member.step_out();
            }
        }
        self.member.enter()?;
        let inside = Inside(self);
        act(inside.0)
    }

    /// This member's index, 0 to size - 1.
    #[doc(alias = "deck_group_index")]
    pub fn index(&self) -> u32 {
        self.member.index
    }

    /// How many members there are.
    #[doc(alias = "deck_group_size")]
    pub fn size(&self) -> u32 {
        self.member.size()
    }

    /// The group's name.
    pub fn name(&self) -> &str {
        &self.member.name
    }

    /// The node of each member, in the order of indexes.
    pub fn nodes(&self) -> &[NodeId] {
        &self.member.nodes
    }

    /// Leaves the group, as dropping does. Members that are in a call which needs this one get [`ErrorKind::Closed`].
    /// Never waits for them; for a second at most if a node is stopped in the moment in which it joins or leaves the
    /// same group.
    #[doc(alias = "deck_group_leave")]
    pub fn leave(self) {}

    /// A collective in its plainest form, which all others are made of: `input` and `output` are bytes of whole
    /// elements in native order, at least as many as [`Call::bytes`] says. Blocks until the deadline.
    ///
    /// # Errors
    /// As told at [`Group`]; [`ErrorKind::Invalid`] also for buffers that are too small, and for a root or counts that
    /// cannot be; [`ErrorKind::TooLarge`] for counts that no memory could hold.
    pub fn call(&mut self, call: &Call, input: &[u8], output: &mut [u8], timeout: Duration) -> Result<()> {
        self.inside(|group| group.call_inside(call, input, output, timeout))
    }

    #[inline]
    fn call_inside(&mut self, call: &Call, input: &[u8], output: &mut [u8], timeout: Duration) -> Result<()> {
        let (takes, gives) = call.bytes(self.index(), self.size())?;
        self.check_sizes(call, (takes, gives), (input.len(), output.len()))?;
        let (input, output) = (&input[..takes], &mut output[..gives]);
        let is_resumed = match &self.stalled {
            Some(stalled) if stalled.call != *call => return Err(still_under_way(stalled)),
            stalled => stalled.is_some(),
        };
        // What was started before is waited for in the same time.
        let mut deadline = None;
        if self.member.has_to_meet_for(call) {
            self.member.meet(*deadline.insert(Deadline::after(timeout)))?;
        }
        if !self.queue.is_empty() {
            let begun = *deadline.get_or_insert_with(|| Deadline::after(timeout));
            self.go_on_until(begun, |queue| queue.is_empty())?;
        }
        // What one took that was held up in between tells nothing.
        let alike = if is_resumed { None } else { self.alike(call, input, output) };
        let (route, then) = alike.map_or((Route::Through, Then::Nothing), |alike| self.ways.choose(alike));
        let began = if then == Then::Time { now_ns() } else { 0 };
        if let Then::Agree(told) = &then {
            self.member.tell_times(told);
        }
        let deadline_from_now = || deadline.unwrap_or_else(|| Deadline::after(timeout));
        let direct = match is_resumed {
            true => Direct::Nothing,
            false => self.member.call_direct(call, route, input, output, deadline_from_now),
        };
        let result = match direct {
            Direct::Done => Ok(()),
            direct => {
                let mut progress = self.stalled.take().unwrap_or_else(|| Progress::new(call, &self.member, route));
                let mut waited = Ok(());
                if let Direct::Said(said) = direct {
                    (progress.has_given, waited) = (true, said);
                    debug_assert!(progress.stream.is_none());
                }
                self.carry(progress, waited, input, output, deadline_from_now)
            }
        };
        if let Some(alike) = alike.filter(|_| result.is_ok()) {
            match then {
                Then::Nothing => {}
                Then::Time => self.ways.took(alike, now_ns() - began),
                Then::Agree(told) => self.ways.agree(alike, &self.member.times_told(told.key)),
            }
        }
        // Others count it once, and all are to try the same way at the same time.
        let will_begin_again = result.as_ref().is_err_and(is_resumable) && self.stalled.is_none();
        // Others have counted another call. Where counts differ, only some are told.
        let differs = !call.kind.has_counts() && result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Invalid);
        if let Some(alike) = alike.filter(|_| will_begin_again || differs) {
            self.ways.take_back(alike);
        }
        result.and_then(|()| self.member.tell_late())
    }

    /// The calls that tell how long this one will take, if that depends on anything.
    #[inline]
    fn alike(&mut self, call: &Call, input: &[u8], output: &[u8]) -> Option<Alike> {
        let block = match call.kind.has_counts() {
            true => input.len().max(output.len()) / self.size() as usize,
            false => call.block(),
        };
        Alike::new(call.kind, block, || {
            let is_in_place = |content: &[u8]| !content.is_empty() && self.member.offset_of(content).is_some();
            let is_in_place = is_in_place(input) || is_in_place(output);
            let may_attach = !is_in_place && may_be_attached(call.kind, block, self.size() as usize);
            (is_in_place, if may_attach { self.member.attach() } else { Attach::Never })
        })
    }

    /// Goes on with a call to its end, if it `waited` without an error. Blocks until the deadline.
    #[inline(never)]
    fn carry(
        &mut self,
        mut progress: Progress,
        waited: Result<()>,
        input: &[u8],
        output: &mut [u8],
        deadline_from_now: impl Fn() -> Deadline,
    ) -> Result<()> {
        let (laid_out, place, mut deadline) = (progress.lays_out(&self.member), self.member.index as usize, None);
        let (input, output) = progress.arrays(&self.member, input, output);
        progress.resume(input);
        let go_on = |progress: &mut Progress| {
            waited?;
            while progress.advance(&mut self.member, input, output)? == Step::Waiting {
                self.member.check()?;
                self.member.await_briefly(progress.call.kind, || *deadline.get_or_insert_with(&deadline_from_now))?;
            }
            Ok(())
        };
        let is_laid_out = laid_out.is_some();
        let run = || {
            let result = go_on(&mut progress);
            let is_left = progress.is_under_way() && result.as_ref().is_err_and(is_resumable);
            // Others may need what it gives before it is back.
            let stays = if is_left { progress.give_back(input, is_laid_out) } else { Stays::Nothing };
            ((result, is_left), stays)
        };
        let (result, is_left) = match laid_out {
            Some((shelf, call)) => shelf.lend(place, call, input, run),
            None => run().0,
        };
        match &result {
            Err(error) if may_be_read_after(error) => progress.keep_shown(&mut self.member, input, output),
            _ => self.member.let_go(),
        }
        if is_left {
            self.stalled = Some(progress);
        }
        result
    }

    fn check_sizes(&self, call: &Call, needed: (usize, usize), given: (usize, usize)) -> Result<()> {
        for (needed, given, name) in [(needed.0, given.0, "input"), (needed.1, given.1, "output")] {
            if given < needed {
                let what = format!("{}: an {name} of {given} bytes", self.member.doing(call.kind));
                return Err(Error::new(ErrorKind::Invalid, what).with_remedy(format!("it needs {needed} bytes here")));
            }
        }
        Ok(())
    }

    /// May `call` be started now?
    fn check_new(&mut self, call: &Call, input: usize, output: usize) -> Result<()> {
        self.member.check()?;
        let (takes, gives) = call.bytes(self.index(), self.size())?;
        let reads_input = call.kind == Kind::Bcast && call.root == self.index() && output == 0;
        let needed = if reads_input { (gives, 0) } else { (takes, gives) };
        self.check_sizes(call, needed, (input, output))?;
        self.stalled.as_ref().map_or(Ok(()), |stalled| Err(still_under_way(stalled)))
    }

    /// Calls that were started go on as far as is possible without waiting.
    fn go_on(&mut self) -> Result<()> {
        self.member.check()?;
        while let Some(started) = self.queue.front_mut() {
            if self.member.has_to_meet_for(started.call()) {
                match self.member.meet(Deadline::NOW) {
                    Err(error) if error.kind() == ErrorKind::Timeout => return Ok(()),
                    met => met?,
                }
            }
            let result = match started.advance(&mut self.member) {
                Ok(Step::Waiting) => return self.member.look(started.call().kind),
                Err(error) if error.kind() == ErrorKind::NoMemory && !started.has_ended() => return Err(error),
                ended => ended,
            };
            if let Some(mut started) = self.queue.pop_front() {
                if result.as_ref().is_err_and(may_be_read_after) {
                    started.keep_shown(&mut self.member);
                }
                started.end(result);
            }
        }
        Ok(())
    }

    /// Calls that were started go on until `is_enough`. Blocks until the deadline.
    fn go_on_until(&mut self, deadline: Deadline, is_enough: impl Fn(&VecDeque<Started>) -> bool) -> Result<()> {
        loop {
            if is_enough(&self.queue) {
                return Ok(());
            }
            let went_on = self.go_on();
            // Though a later one may have failed.
            if is_enough(&self.queue) {
                return Ok(());
            }
            went_on?;
            let Some(started) = self.queue.front() else { return Ok(()) };
            if self.member.has_to_meet_for(started.call()) {
                self.member.meet(deadline)?;
                continue;
            }
            self.member.wait(started.call().kind, deadline)?;
        }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({:?}, index {} of {})", self.name(), self.index(), self.size())
    }
}

impl Drop for Group {
    /// Calls that were started and have not ended are left, and what they own with them.
    fn drop(&mut self) {
        if fork::is_child() {
            return;
        }
        self.queue.iter_mut().for_each(|started| started.keep_shown(&mut self.member));
    }
}

/// Others may be in a call that has ended so for this member. Of one that differed nobody gets anything.
fn may_be_read_after(error: &Error) -> bool {
    error.kind() != ErrorKind::Invalid
}

/// After these a call can be called again.
fn is_resumable(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Cancelled | ErrorKind::NoMemory)
}

#[cold]
fn still_under_way(stalled: &Progress) -> Error {
    let name = stalled.call.kind.name();
    Error::new(ErrorKind::Invalid, format!("the last {name} did not come to its end and is still under way"))
        .with_remedy(format!("call the same {name} again: it goes on where it was"))
}

#[cfg(all(test, not(loom)))]
mod tests;
