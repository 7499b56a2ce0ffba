//! Opening named things: by one node at a time, so that nobody opens what another one is giving to another name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use deck_sync::locks::lock;
use deck_sync::{Deadline, Error, ErrorKind, Result, point};

use crate::membership::{Membership, left};
use crate::names::objects::{Keeps, Object, ObjectKind, Objects};
use crate::names::one_at_a_time::Inside;
use crate::names::patience;
use crate::pledges::Pledge;

/// How often this node has each thing open, by its number.
#[derive(Debug, Default)]
pub(crate) struct Opened(Mutex<HashMap<u32, u32>>);

impl Opened {
    pub fn is_open(&self, object: u32) -> bool {
        lock(&self.0).contains_key(&object)
    }

    /// From now on nothing is let go of any more: the seat may soon be another node's.
    pub fn wait_for_those_inside(&self) {
        drop(lock(&self.0));
    }
}

/// While it lives, nobody else opens or enters anything, and this node does not leave.
pub struct Opening<'a> {
    membership: &'a Arc<Membership>,
    _inside: Inside<'a>,
    _pledge: Pledge<'a>,
}

/// A thing that this node has open: others see that it does, until this is dropped.
pub struct OpenObject {
    membership: Arc<Membership>,
    object: Object,
}

impl Membership {
    /// The named things of the job.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The calling thread is going to open things. Waits for others that do: if one of them is stopped, until
    /// `deadline`, and a second at most. However late it is, a node that goes on is waited for.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] naming that one; [`ErrorKind::NotInitialized`] if this node has left.
    pub fn opening(self: &Arc<Self>, deadline: Deadline) -> Result<Opening<'_>> {
        let pledge = self.pledge().ok_or_else(left)?;
        let inside = self.objects.opening().enter(self.number, patience(deadline)).map_err(|node| {
            Error::new(ErrorKind::Timeout, "another node is opening something with a name and does not go on")
                .with_peer(node)
                .with_remedy("it is stopped or kept from running: let it continue, or end it")
        })?;
        point("objects/opening");
        Ok(Opening { membership: self, _inside: inside, _pledge: pledge })
    }
}

impl Opening<'_> {
    /// The thing of this kind and name, which has one from now on. If all entries have names, one that nobody has open
    /// and that is not of those that `keeps` tells loses its own.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an impossible name, [`ErrorKind::NoMemory`] if the job has too many names.
    pub fn enter(&self, kind: ObjectKind, name: &str, keeps: Keeps) -> Result<Object> {
        self.membership.objects.enter(kind, name, self.membership.seat(), keeps)
    }

    /// The thing of this kind and name, if it has one.
    pub fn find(&self, kind: ObjectKind, name: &str) -> Option<Object> {
        self.membership.objects.find(kind, name)
    }

    /// Opens a thing that was entered or found: others see that this node has it open.
    pub fn open(&self, object: Object) -> OpenObject {
        let mut opened = lock(&self.membership.opened.0);
        let count = opened.entry(object.number()).or_insert(0);
        *count += 1;
        if *count == 1 {
            object.hold(self.membership.seat());
        }
        OpenObject { membership: self.membership.clone(), object }
    }
}

impl std::ops::Deref for OpenObject {
    type Target = Object;
    fn deref(&self) -> &Object {
        &self.object
    }
}

impl OpenObject {
    /// The membership of the node that has it open.
    pub fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }
}

impl Drop for OpenObject {
    fn drop(&mut self) {
        if deck_sync::fork::is_child() {
            return;
        }
        let mut opened = lock(&self.membership.opened.0);
        let Some(count) = opened.get_mut(&self.object.number()) else { return };
        *count -= 1;
        if *count == 0 {
            opened.remove(&self.object.number());
            if !self.membership.has_left() {
                self.object.let_go(self.membership.seat());
            }
        }
    }
}

impl std::fmt::Debug for OpenObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenObject({})", self.object.number())
    }
}
