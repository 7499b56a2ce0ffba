//! What all things with a name have in common: finding them, and waiting in them.

use std::time::Duration;

use deck_mudeck::{Error, ErrorKind, Node, NodeId, NodeState, Result, default_timeout};
use deck_peers::{FROZEN_AFTER, Object, ObjectKind, OpenObject, Pledge, left};
use deck_segment::Words;
use deck_sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use deck_sync::{About, Deadline, Event, Goal, Interrupted, Waiting, barrier, fork};

use super::count::Count;
use super::lock::Lock;
use super::registry::{Phase, Registry};

/// A thing that this node has open.
pub struct Named {
    node: Node,
    kind: ObjectKind,
    name: Box<str>,
    opened: OpenObject,
    is_closed: AtomicBool,
    /// Threads that wait through this handle.
    waiters: AtomicU32,
}

/// Why a wait ended without what it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The deadline passed, or another thread cancelled this one.
    Interrupted(Interrupted),
    /// This node has left its job.
    Left,
    /// The handle was closed by another thread.
    Closed,
}

/// Whether a thing that nobody has open is another one than a new one: then it keeps its name.
pub fn keeps(kind: ObjectKind, object: &Object) -> bool {
    let words = object.words();
    match kind {
        ObjectKind::Segment => {
            matches!(Registry::new(words).state().phase, Phase::Making(maker) if object.is_live(maker))
        }
        ObjectKind::Mutex => Lock::new(words).holder().is_some(),
        ObjectKind::Condition => false,
        ObjectKind::Barrier => object.lost().is_some(),
        ObjectKind::Counter => Count::new(words).read() != 0,
    }
}

/// Ends a wait when the node leaves, or the handle is closed.
struct WhileOpen<'a, W> {
    waiting: &'a mut W,
    node: &'a Node,
    is_closed: Option<&'a AtomicBool>,
    about: Option<About<'a>>,
}

impl<W: Waiting> Waiting for WhileOpen<'_, W> {
    type Output = Result<W::Output, Stopped>;

    fn look(&mut self) -> Option<Result<W::Output, Stopped>> {
        if let Some(output) = self.waiting.look() {
            return Some(Ok(output));
        }
        if self.node.is_left() {
            return Some(Err(Stopped::Left));
        }
        let is_closed = self.is_closed.is_some_and(|is_closed| is_closed.load(Ordering::Relaxed));
        is_closed.then_some(Err(Stopped::Closed))
    }

    fn arm(&mut self) {
        self.node.membership().watch_strangers();
        self.waiting.arm();
    }

    fn about(&self) -> Option<About<'_>> {
        self.waiting.about().or(self.about)
    }
}

impl<W: Waiting> WhileOpen<'_, W> {
    fn wait(mut self, events: &[&Event], deadline: Deadline) -> Result<W::Output, Stopped> {
        let membership = self.node.membership();
        deck_sync::wait(&mut self, events, membership.crowd(), deadline).map_err(|interrupted| {
            // Whoever only tries, again and again, never sleeps.
            membership.watch_strangers();
            Stopped::Interrupted(interrupted)
        })?
    }
}

/// Waits for something that changes when a node comes or goes, or a name does.
pub fn wait<W: Waiting>(node: &Node, waiting: &mut W, deadline: Deadline) -> Result<W::Output, Stopped> {
    let membership = node.membership();
    let waiting = WhileOpen { waiting, node, is_closed: None, about: None };
    waiting.wait(&[membership.table().changed()], deadline)
}

impl Stopped {
    /// The error of a call that was `doing` something. `remedy` is for one whose deadline has passed.
    #[cold]
    pub fn error(self, doing: impl Into<String>, remedy: &'static str) -> Error {
        match self {
            Stopped::Interrupted(Interrupted::Deadline) => Interrupted::Deadline.error(doing).with_remedy(remedy),
            Stopped::Interrupted(interrupted) => interrupted.error(doing),
            Stopped::Left => left().context(doing),
            Stopped::Closed => Error::new(ErrorKind::Closed, doing),
        }
    }
}

/// ", which is stopped" for a node that is.
pub fn how_it_is(node: &Node, other: NodeId) -> &'static str {
    match node.state(other) {
        Ok(NodeState::Frozen) => ", which is frozen",
        _ => "",
    }
}

impl Named {
    /// Opens the thing, which exists from its first opening on. Waits at most a second, if another node stopped while
    /// it opened something.
    pub fn open(node: &Node, kind: ObjectKind, name: &str) -> Result<Named> {
        node.check()?;
        let described = |error: Error| error.context(format!("opening the {} {name:?}", kind.word()));
        let turn = node.membership().opening(Deadline::after(default_timeout())).map_err(described)?;
        let opened = turn.open(turn.enter(kind, name, keeps).map_err(described)?);
        drop(turn);
        Ok(Named {
            node: node.clone(),
            kind,
            name: name.into(),
            opened,
            is_closed: AtomicBool::new(false),
            waiters: AtomicU32::new(0),
        })
    }

    /// The node that has it open.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What nodes know of it.
    pub fn opened(&self) -> &OpenObject {
        &self.opened
    }

    /// Its own words.
    pub fn words(&self) -> &Words {
        self.opened.words()
    }

    /// The job's count of nodes that have died.
    pub fn deaths(&self) -> u64 {
        self.node.membership().table().deaths()
    }

    /// The job's count of nodes that are gone.
    pub fn departures(&self) -> u64 {
        self.node.membership().table().departures()
    }

    /// Fails after leaving and in a forked child.
    pub fn check(&self) -> Result<()> {
        self.node.check()
    }

    /// As [`Named::check`], and once the handle is closed, in a call that was `doing` something.
    pub fn check_open(&self, doing: impl FnOnce() -> String) -> Result<()> {
        self.check()?;
        // Relaxed: whoever closes it has to tell this thread of that, or may come later.
        if self.is_closed.load(Ordering::Relaxed) { Err(Stopped::Closed.error(doing(), "")) } else { Ok(()) }
    }

    /// As [`Named::check`]. The node does not leave before the guard is dropped: what the calling thread takes back
    /// when the node leaves is taken back before others see that it has left.
    pub fn pledge(&self) -> Result<Pledge<'_>> {
        self.check()?;
        self.node.membership().pledge().ok_or_else(left)
    }

    /// `mutex "name"`.
    pub fn described(&self) -> String {
        format!("{} {:?}", self.kind.word(), self.name)
    }

    /// Waits for something about this thing, that `event` or the coming and going of nodes tells.
    pub fn wait<W: Waiting>(&self, waiting: &mut W, event: &Event, deadline: Deadline) -> Result<W::Output, Stopped> {
        let membership = self.node.membership();
        let goal = match self.kind {
            ObjectKind::Segment => Goal::Segment,
            ObjectKind::Mutex => Goal::Mutex,
            ObjectKind::Condition => Goal::Condition,
            ObjectKind::Barrier => Goal::Barrier,
            ObjectKind::Counter => Goal::Counter,
        };
        let about = Some(About::new(goal, &self.name));
        let waiting = WhileOpen { waiting, node: &self.node, is_closed: Some(&self.is_closed), about };
        self.waiters.fetch_add(1, Ordering::Relaxed);
        // SeqCst: pairs with: named/close. Either whoever closes the handle sees this waiter, or this one sees that it
        // is closed.
        fence(Ordering::SeqCst);
        let waited = waiting.wait(&[event, membership.table().changed()], deadline);
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        waited
    }

    /// The error of a wait of up to `timeout` for what somebody else was to do. Which node that is nobody knows: those
    /// that are frozen are told, and none is the error's peer. It may have done its part, and its end would break a
    /// barrier for good.
    #[cold]
    pub fn error(&self, stopped: Stopped, timeout: Duration, doing: &str, remedy: &'static str) -> Error {
        // Whoever only looks, again and again, is not kept busy with looking at the others.
        let has_waited = stopped == Stopped::Interrupted(Interrupted::Deadline) && timeout >= FROZEN_AFTER;
        let others = if has_waited { self.opened.holding() } else { Vec::new() };
        let is_frozen = |other: &NodeId| matches!(self.node.state(*other), Ok(NodeState::Frozen));
        let frozen: Vec<String> = others.iter().filter(|other| is_frozen(other)).map(NodeId::to_string).collect();
        if frozen.is_empty() {
            return stopped.error(doing, remedy);
        }
        stopped.error(format!("{doing}; frozen, and perhaps what it waits for: {}", frozen.join(", ")), remedy)
    }

    /// Ends every wait through this handle, now and later.
    pub fn close(&self) {
        if fork::is_child() {
            return;
        }
        self.is_closed.store(true, Ordering::Relaxed);
        // SeqCst: pairs with: named/close.
        fence(Ordering::SeqCst);
        // All sleepers of the job would wake up.
        if self.waiters.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Light: pairs with: wait/sleep. The notification is at what all waits also look at.
        barrier::light();
        self.node.membership().table().changed().notify();
    }
}
