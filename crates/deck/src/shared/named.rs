//! What all things with a name have in common: finding them, and waiting in them.

use std::time::Duration;

use deck_mudeck::{Error, ErrorKind, Node, NodeId, NodeState, Result};
use deck_peers::{ObjectKind, OpenObject, fork};
use deck_segment::Words;
use deck_sync::{Deadline, Event, Interrupted, Waiting};

/// A thing that this node has open.
pub struct Named {
    node: Node,
    kind: ObjectKind,
    name: Box<str>,
    opened: OpenObject,
}

/// Why a wait ended without what it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The deadline passed, or another thread cancelled this one.
    Interrupted(Interrupted),
    /// This node has left its job.
    Left,
}

/// Fails after leaving and in a forked child.
pub fn check(node: &Node) -> Result<()> {
    if fork::is_child() {
        return Err(Error::new(ErrorKind::NotInitialized, "a call in a forked child")
            .with_remedy("execute a program in the child; it can join the job as a node of its own"));
    }
    if node.is_left() {
        return Err(left());
    }
    Ok(())
}

fn left() -> Error {
    Error::new(ErrorKind::NotInitialized, "this node has left its job").with_remedy("join again")
}

/// Ends a wait when the node leaves.
struct WhileHere<'a, W> {
    waiting: &'a mut W,
    node: &'a Node,
}

impl<W: Waiting> Waiting for WhileHere<'_, W> {
    type Output = Option<W::Output>;

    fn look(&mut self) -> Option<Option<W::Output>> {
        match self.waiting.look() {
            Some(output) => Some(Some(output)),
            None => self.node.is_left().then_some(None),
        }
    }
}

/// Waits, besides on `events`, on what changes when a node comes or goes.
pub fn wait<W: Waiting>(
    node: &Node,
    waiting: &mut W,
    event: Option<&Event>,
    deadline: Deadline,
) -> Result<W::Output, Stopped> {
    let membership = node.membership();
    let changed = membership.table().changed();
    let mut waiting = WhileHere { waiting, node };
    let waited = match event {
        Some(event) => deck_sync::wait(&mut waiting, &[event, changed], membership.crowd(), deadline),
        None => deck_sync::wait(&mut waiting, &[changed], membership.crowd(), deadline),
    };
    waited.map_err(Stopped::Interrupted)?.ok_or(Stopped::Left)
}

impl Stopped {
    /// The error of a call that was `doing` something. `remedy` is for one whose deadline has passed.
    #[cold]
    pub fn error(self, doing: impl Into<String>, remedy: &'static str) -> Error {
        match self {
            Stopped::Interrupted(Interrupted::Deadline) => Error::new(ErrorKind::Timeout, doing).with_remedy(remedy),
            Stopped::Interrupted(Interrupted::Cancelled) => Error::new(ErrorKind::Cancelled, doing),
            Stopped::Left => left().context(doing),
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
    /// Opens the thing, which exists from its first opening on. Waits at most a second, if another node stopped while it
    /// entered the same name.
    pub fn open(node: &Node, kind: ObjectKind, name: &str) -> Result<Named> {
        check(node)?;
        let membership = node.membership();
        let object = membership.objects().enter(kind, name, membership.seat())?;
        let opened = membership.open_object(object);
        Ok(Named { node: node.clone(), kind, name: name.into(), opened })
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

    /// The job's count of nodes that are gone.
    pub fn departures(&self) -> u64 {
        self.node.membership().table().departures()
    }

    /// Fails after leaving and in a forked child.
    pub fn check(&self) -> Result<()> {
        check(&self.node)
    }

    /// `mutex "name"`.
    pub fn described(&self) -> String {
        format!("{} \"{}\"", self.kind.word(), self.name)
    }

    /// Waits for something about this thing.
    pub fn wait<W: Waiting>(&self, waiting: &mut W, event: &Event, deadline: Deadline) -> Result<W::Output, Stopped> {
        wait(&self.node, waiting, Some(event), deadline)
    }
}

/// The deadline of a call that was given a timeout.
pub fn until(timeout: Duration) -> Deadline {
    Deadline::after(timeout)
}
