//! Which mutexes the calling thread holds, the number by which it stands in them, and that it is at one: its node does
//! not leave meanwhile.
//!
//! A thread that ends without having unlocked leaves its mutexes to the next ones, who are told: the memory that they
//! protect may be half changed.

use std::cell::RefCell;
use std::mem::{self, ManuallyDrop};
use std::sync::{Arc, Mutex, Weak};

use deck_mudeck::{Error, ErrorKind, Node, Result};
use deck_peers::{Membership, Presence, left};
use deck_sync::locks::lock;
use deck_sync::{ThreadEnd, fork};

use super::lock::{Holder, Lock};
use super::named::Named;

/// Numbers of threads that have ended, and the lowest that was never given.
static FREE: Mutex<(Vec<u32>, u32)> = Mutex::new((Vec::new(), 0));

/// What the calling thread knows about itself.
struct Here {
    number: Option<u32>,
    held: Vec<Held>,
    /// Where the node that it used last sees that it is at a mutex.
    presence: Option<(Weak<Membership>, Arc<Presence>)>,
}

/// A mutex that the calling thread holds.
struct Held {
    named: Arc<Named>,
    by: HeldBy,
}

/// Who unlocks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// A guard, when it is dropped.
    Guard,
    /// The thread, which says so.
    Thread,
}

thread_local! {
    /// Not dropped with other thread-local values: destructors of those, and of the program's static objects, may use
    /// mutexes, too.
    static HERE: RefCell<ManuallyDrop<Here>> =
        const { RefCell::new(ManuallyDrop::new(Here { number: None, held: Vec::new(), presence: None })) };
}

static END: ThreadEnd = ThreadEnd::new(leave_to_others);

impl Here {
    fn place_of(&self, named: &Named) -> Option<usize> {
        self.held.iter().position(|Held { named: held, .. }| {
            let is_same_job = Arc::ptr_eq(held.node().membership(), named.node().membership());
            is_same_job && held.opened().number() == named.opened().number()
        })
    }
}

/// The calling thread has ended.
fn leave_to_others() {
    if fork::is_child() {
        return;
    }
    let (number, held, _presence) = here(|here| (here.number.take(), mem::take(&mut here.held), here.presence.take()));
    let Some(number) = number else { return };
    for Held { named, .. } in held {
        Lock::new(named.words()).abandon(Holder::new(named.node().number(), number));
    }
    // Only now: whoever gets the number must not be taken for the holder.
    lock(&FREE).0.push(number);
}

fn here<R>(what: impl FnOnce(&mut Here) -> R) -> R {
    HERE.with(|here| what(&mut here.borrow_mut()))
}

/// Does what writes the name of the calling thread to where others see it: meanwhile its node does not leave, whose
/// number would be that of a dead holder.
///
/// # Errors
/// `NotInitialized` if it has left or begun to; those of `act`.
pub fn while_here<R>(node: &Node, doing: impl Fn() -> String, act: impl FnOnce() -> Result<R>) -> Result<R> {
    let membership = node.membership();
    let is_of_this = |of: &Weak<Membership>| std::ptr::eq(of.as_ptr(), Arc::as_ptr(membership));
    // Taken out and put back: no count of an `Arc` is touched, and `act` may come by here.
    let known = here(|here| here.presence.take()).filter(|(of, _)| is_of_this(of));
    let (of, presence) = match known {
        Some(known) => known,
        None => {
            END.expect().map_err(|error| error.context(doing()))?;
            (Arc::downgrade(membership), membership.presence())
        }
    };
    let result = if membership.enter(&presence) {
        let result = act();
        membership.step_out(&presence);
        result
    } else {
        Err(left().context(doing()))
    };
    here(|here| here.presence = Some((of, presence)));
    result
}

fn next_number() -> u32 {
    let mut free = lock(&FREE);
    free.0.pop().unwrap_or_else(|| {
        free.1 += 1;
        free.1 - 1
    })
}

/// The calling thread as it stands in mutexes.
pub fn me(node: &Node) -> Result<Holder> {
    let number = match here(|here| here.number) {
        Some(number) => number,
        None => {
            END.expect()?;
            let number = next_number();
            here(|here| here.number = Some(number));
            number
        }
    };
    if number >= Holder::THREADS_MAX {
        let what = format!("at most {} threads of a node use mutexes at a time", Holder::THREADS_MAX);
        return Err(Error::new(ErrorKind::NoMemory, what).with_remedy("let threads end, or use fewer"));
    }
    deck_sync::set_locker_number(number);
    Ok(Holder::new(node.number(), number))
}

/// The calling thread holds this mutex from now on.
pub fn add(named: &Arc<Named>, by: HeldBy) {
    let of_jobs_left = here(|here| {
        // What it held when its node left the job has been told to the others, and keeps that job's memory here.
        let of_jobs_left: Vec<_> = here.held.extract_if(.., |held| held.named.node().is_left()).collect();
        here.held.push(Held { named: named.clone(), by });
        of_jobs_left
    });
    // Dropped here, as below.
    drop(of_jobs_left);
}

/// The calling thread does not hold this mutex any more.
pub fn remove(named: &Named) {
    let removed = here(|here| here.place_of(named).map(|place| here.held.swap_remove(place)));
    // Dropped here, as the last user may look for a thread-local of its own.
    drop(removed);
}

/// By whom the calling thread holds this mutex; `None` if it does not.
pub fn held_by(named: &Named) -> Option<HeldBy> {
    here(|here| here.place_of(named).map(|place| here.held[place].by))
}
