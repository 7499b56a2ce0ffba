//! Waiting for room: in one ring, or in this node's budget.

pub mod rows;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use deck_peers::{Depending, Peer};
use deck_sync::{About, Deadline, Error, Event, Goal, Interrupted, Result, Waiting, now_ns};
use deck_transport::segment::sender::Ending;
use deck_transport::{Parcel, Protocol, Refusal};

use crate::node::NodeShared;
use crate::poster::Poster;

/// How long a thread that waits for budget sleeps before it looks which rings there are by now.
const BUDGET_LOOK: Duration = Duration::from_millis(10);

/// Waits for room in one ring, or in this node's budget.
struct Room<'a> {
    node: &'a NodeShared,
    poster: &'a Poster,
    parcel: &'a Parcel,
    is_budget: bool,
    /// Rings that may give bytes of the budget back.
    all: &'a [Arc<Poster>],
    has_asked: bool,
    /// That this post has waited is counted once.
    is_counted: &'a Cell<bool>,
    depending: Option<Depending>,
    since_ns: u64,
    until_ns: u64,
}

impl Room<'_> {
    fn asked(&self) -> impl Iterator<Item = &Poster> {
        let others: &[Arc<Poster>] = if self.is_budget { self.all } else { &[] };
        others.iter().map(|poster| &**poster).chain((!self.is_budget).then_some(self.poster))
    }
}

impl Waiting for Room<'_> {
    /// `None` if what is missing changed, from room in the ring to budget or back.
    type Output = Option<Result<Protocol, Refusal>>;

    fn look(&mut self) -> Option<Self::Output> {
        if self.is_budget {
            for poster in self.all {
                poster.sender.reap();
            }
        }
        match self.poster.try_post(self.node, self.parcel) {
            Err(Refusal::Full) if self.is_budget => Some(None),
            Err(Refusal::Budget) if !self.is_budget => Some(None),
            Err(Refusal::Full | Refusal::Budget) => None,
            result => Some(Some(result)),
        }
    }

    fn arm(&mut self) {
        if !std::mem::replace(&mut self.has_asked, true) {
            self.poster.count_wait(self.is_counted);
            self.asked().for_each(|poster| poster.want_room(self.node));
            self.depending = self.poster.peer.as_ref().map(|peer| self.node.membership().depend(peer));
        }
    }

    fn disarm(&mut self) {
        if std::mem::take(&mut self.has_asked) {
            self.asked().for_each(|poster| poster.ask_for_room(false));
        }
    }

    fn about(&self) -> Option<About<'_>> {
        let goal = if self.is_budget { Goal::Budget } else { Goal::Room };
        let about = self.poster.about(goal, self.since_ns, self.until_ns);
        Some(if self.is_budget { about } else { about.on(self.poster.id.owner) })
    }
}

/// Posts by `poster`, which has refused it with `refusal`, as soon as there is room.
///
/// # Errors
/// As [`crate::MailboxClone::post`].
#[cold]
pub fn post_later(
    node: &NodeShared,
    poster: &Poster,
    parcel: &Parcel,
    mut refusal: Refusal,
    deadline: Deadline,
) -> Result<()> {
    poster.note_refused();
    let since_ns = if deadline.is_now() { 0 } else { now_ns() };
    let (mut first, is_counted) = (None, Cell::new(false));
    loop {
        let is_budget = match refusal {
            Refusal::Full => false,
            Refusal::Budget => true,
            other => return Err(poster.error(node, other)),
        };
        if poster.sender.ended() == Some(Ending::Lost) {
            return Err(poster.error(node, Refusal::Lost));
        }
        if is_budget || deadline.is_now() {
            // Whoever waits for something else, or not at all, keeps nobody else from the room that there is.
            first = None;
        } else if first.is_none() {
            let about = poster.about(Goal::Room, since_ns, deadline.at_ns()).on(poster.id.owner);
            let asleep = || poster.count_wait(&is_counted);
            match poster.rows.come(parcel.size(), about, asleep, node.membership().crowd(), deadline) {
                Ok(come) => first = Some(come),
                // It tries once more: there may be room that the one before has not come to.
                Err(Interrupted::Deadline) => {}
                Err(interrupted) => return Err(no_room(node, poster, interrupted, Refusal::Full)),
            }
        }
        let all = if is_budget { node.posters() } else { Vec::new() };
        let mut events: Vec<&Event> = all.iter().map(|poster| poster.sender.room()).collect();
        if !all.iter().any(|other| std::ptr::eq(&**other, poster)) {
            events.push(poster.sender.room());
        }
        let mut room = Room {
            node,
            poster,
            parcel,
            is_budget,
            all: &all,
            has_asked: false,
            is_counted: &is_counted,
            depending: None,
            since_ns,
            until_ns: deadline.at_ns(),
        };
        // Bytes of the budget may come back by rings that are not there yet: look around again now and then.
        let look_again = Deadline::after(BUDGET_LOOK);
        let until = if is_budget { deadline.min(look_again) } else { deadline };
        if deadline.is_now() {
            room.asked().for_each(|poster| poster.remember(node));
        }
        let waited = deck_sync::wait(&mut room, &events, node.membership().crowd(), until);
        match waited {
            Err(Interrupted::Deadline) if is_budget && !deadline.has_passed() => {}
            Ok(Some(Ok(_))) => {
                room.asked().for_each(Poster::note_success);
                return Ok(());
            }
            Ok(Some(Err(other))) => return Err(poster.error(node, other)),
            Ok(None) => refusal = if is_budget { Refusal::Full } else { Refusal::Budget },
            Err(interrupted) => {
                let missing = if is_budget { Refusal::Budget } else { Refusal::Full };
                return Err(no_room(node, poster, interrupted, missing));
            }
        }
    }
}

/// The error of a wait for room that was interrupted, where this was missing.
#[cold]
fn no_room(node: &NodeShared, poster: &Poster, interrupted: Interrupted, missing: Refusal) -> Error {
    let is_frozen = |peer: &Peer| node.membership().frozen_for(peer).is_some();
    match &poster.peer {
        Some(peer) if interrupted == Interrupted::Cancelled || is_frozen(peer) => {
            let doing = format!("posting to {}", poster.what());
            node.membership().interrupted(interrupted, &doing, peer)
        }
        _ if interrupted == Interrupted::Cancelled => interrupted.error(format!("posting to {}", poster.what())),
        _ => poster.error(node, missing),
    }
}
