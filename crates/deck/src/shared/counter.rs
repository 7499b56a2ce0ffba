//! The counter of a job: a number that threads of all nodes add to, read, and wait for.

use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use deck_mudeck::{Error, ErrorKind, Node, NodeId, NodeState, Result};
use deck_peers::{ObjectKind, Reclaimed};
use deck_sync::locks::lock;
use deck_sync::{About, Deadline, Goal, Waiting};

use super::count::Count;
use super::named::Named;

/// A number of 64 bits, 0 at first, that the threads of all nodes share by its name.
#[doc(alias = "deck_counter_t")]
pub struct Counter {
    named: Named,
    /// As of the last death that was told through this handle.
    told: Mutex<Users>,
}

enum End {
    Reached(i64),
    Lost(NodeId),
}

/// Who has the counter open, to notice a death among them.
#[derive(Clone, Debug)]
struct Users {
    live: Vec<NodeId>,
    /// Those that died with it open: that are not reclaimed yet, and the last of so many that were.
    lost: Vec<NodeId>,
    reclaimed: u64,
    /// How many had been before those were looked at who are live.
    reclaimed_before: u64,
    /// Those that have died since and of whom nobody was told yet.
    untold: Vec<NodeId>,
    /// The job's count of changes before the others were looked at.
    seen: u64,
}

impl Users {
    fn of(named: &Named) -> Users {
        let seen = named.node().membership().table().changes();
        let opened = named.opened();
        let reclaimed_before = opened.reclaimed().count;
        let live = opened.holding();
        // In this order: who died with it open is written down before its bit goes.
        let mut lost = opened.holding_lost();
        let Reclaimed { count: reclaimed, last } = opened.reclaimed();
        lost.extend(last);
        Users { live, lost, reclaimed, reclaimed_before, untold: Vec::new(), seen }
    }

    /// True if a dead node that was live at this look, and is not among those that died with the counter open by a
    /// `later` one, had closed it before it died. If too many have died in between, nobody knows any more: then it
    /// counts.
    fn had_closed(&self, later: &Users, dead: NodeId) -> bool {
        let reclaimed = later.reclaimed.saturating_sub(self.reclaimed_before);
        !later.lost.contains(&dead) && reclaimed <= Reclaimed::KNOWN
    }

    /// Looks again: a node that has died, one after the other if there are several.
    fn renew(&mut self, named: &Named) -> Option<NodeId> {
        let table = named.node().membership().table();
        if table.changes() != self.seen {
            let before = std::mem::replace(self, Users::of(named));
            let died = |node: &NodeId| table.state(*node) == Some(NodeState::Lost) && !before.had_closed(self, *node);
            let mut dead: Vec<NodeId> = before.live.iter().copied().filter(died).collect();
            dead.extend(self.lost.iter().filter(|node| !before.lost.contains(node)));
            self.untold = before.untold;
            for node in dead {
                if !self.untold.contains(&node) {
                    self.untold.push(node);
                }
                // It may have died after the others were looked at.
                self.live.retain(|other| *other != node);
                if !self.lost.contains(&node) {
                    self.lost.push(node);
                }
            }
        }
        (!self.untold.is_empty()).then(|| self.untold.remove(0))
    }
}

struct Until<'a, F> {
    counter: &'a Counter,
    is_enough: F,
    /// The least that is enough, if that is what it depends on.
    at_least: Option<i64>,
    users: Users,
}

impl<F: FnMut(i64) -> bool> Waiting for Until<'_, F> {
    type Output = End;

    fn look(&mut self) -> Option<End> {
        let now = self.counter.count().read();
        if (self.is_enough)(now) {
            return Some(End::Reached(now));
        }
        self.users.renew(&self.counter.named).map(End::Lost)
    }

    fn about(&self) -> Option<About<'_>> {
        let at_least = self.at_least.map(|value| [1, value.cast_unsigned()]);
        Some(About::new(Goal::Counter, self.counter.name()).with(at_least.unwrap_or_default()))
    }
}

impl Counter {
    /// Opens the counter `name`, which exists, with the value 0, from its first opening on. Blocks for a second at
    /// most, and only if another node stopped while it opened something.
    ///
    /// # Errors
    /// As [`crate::shared::Mutex::open`].
    #[doc(alias = "deck_counter_open")]
    pub fn open(node: &Node, name: &str) -> Result<Counter> {
        let named = Named::open(node, ObjectKind::Counter, name)?;
        let told = Mutex::new(Users::of(&named));
        Ok(Counter { named, told })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.named.name()
    }

    fn count(&self) -> Count<'_> {
        Count::new(self.named.words())
    }

    fn told(&self) -> MutexGuard<'_, Users> {
        lock(&self.told)
    }

    /// Ends every wait through this handle, now and later, with [`ErrorKind::Closed`]. Never blocks.
    #[doc(alias = "deck_counter_close")]
    pub fn close(&self) {
        self.named.close();
    }

    /// Adds `amount`, which may be negative, and gives the new value. Never blocks. What the caller did before is
    /// visible to whoever reads the new value.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the sum does not fit into 64 bits: then nothing was added;
    /// [`ErrorKind::NotInitialized`] after leaving and in a forked child.
    #[doc(alias = "deck_counter_add")]
    pub fn add(&self, amount: i64) -> Result<i64> {
        self.named.check()?;
        self.count().add(amount).ok_or_else(|| {
            let what = format!("adding {amount} to {}: the sum does not fit into 64 bits", self.named.described());
            Error::new(ErrorKind::Invalid, what)
        })
    }

    /// The value now. Never blocks.
    ///
    /// # Errors
    /// [`ErrorKind::NotInitialized`] after leaving and in a forked child.
    #[doc(alias = "deck_counter_read")]
    pub fn read(&self) -> Result<i64> {
        self.named.check()?;
        Ok(self.count().read())
    }

    /// Waits, at most `timeout`, until the value is `at_least` or more, and gives it.
    ///
    /// # Errors
    /// As [`Counter::wait_until`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use deck::shared::Counter;
    /// use deck::{Node, Thread};
    /// const PATIENCE: Duration = Duration::from_secs(10);
    ///
    /// # fn main() -> deck::Result<()> {
    /// let node = Node::join()?;
    /// let worker = Thread::spawn({
    ///     let node = node.clone();
    ///     move || -> deck::Result<()> {
    ///         let done = Counter::open(&node, "parts done")?;
    ///         (0..3).try_for_each(|_| done.add(1).map(|_| ()))
    ///     }
    /// })?;
    /// assert_eq!(Counter::open(&node, "parts done")?.wait_for(3, PATIENCE)?, 3);
    /// worker.join().expect("the worker does not panic")?;
    /// # Ok(()) }
    /// ```
    #[doc(alias = "deck_counter_wait")]
    pub fn wait_for(&self, at_least: i64, timeout: Duration) -> Result<i64> {
        self.wait_as(|now| now >= at_least, Some(at_least), timeout)
    }

    /// Waits, at most `timeout`, until `is_enough` accepts the value, and gives it. `is_enough` is asked very often and
    /// must not block; a value that stands for a moment only may be missed.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] saying the value and, after 300 ms or more, who has it open and is frozen;
    /// [`ErrorKind::Cancelled`]; [`ErrorKind::PeerLost`], naming the node, if one died that had the counter open: it
    /// may have been the one to add. Whoever can go on without it waits again: a death is told once through each
    /// handle, to the waits that it falls into or else to the next one that has to wait. [`ErrorKind::Closed`] once
    /// [`Counter::close`] was called; [`ErrorKind::NotInitialized`] after leaving and in a forked child.
    pub fn wait_until(&self, is_enough: impl FnMut(i64) -> bool, timeout: Duration) -> Result<i64> {
        self.wait_as(is_enough, None, timeout)
    }

    fn wait_as(&self, is_enough: impl FnMut(i64) -> bool, at_least: Option<i64>, timeout: Duration) -> Result<i64> {
        self.named.check()?;
        let mut is_enough = is_enough;
        let now = self.count().read();
        if is_enough(now) {
            return Ok(now);
        }
        let users = {
            let mut told = self.told();
            if let Some(dead) = told.renew(&self.named) {
                return Err(self.lost(dead));
            }
            told.clone()
        };
        let mut waiting = Until { counter: self, is_enough, at_least, users };
        match self.named.wait(&mut waiting, self.count().changed(), Deadline::after(timeout)) {
            Ok(End::Reached(value)) => Ok(value),
            Ok(End::Lost(dead)) => {
                let mut told = self.told();
                // Another thread may have looked again since, or told of some.
                if waiting.users.seen > told.seen {
                    let mut users = waiting.users;
                    users.untold.retain(|node| told.untold.contains(node) || !told.lost.contains(node));
                    *told = users;
                }
                Err(self.lost(dead))
            }
            Err(stopped) => {
                let what = format!("waiting for {}, which is {}", self.named.described(), self.count().read());
                Err(self.named.error(
                    stopped,
                    timeout,
                    &what,
                    "wait longer, or check that whoever is to add still runs",
                ))
            }
        }
    }

    #[cold]
    fn lost(&self, dead: NodeId) -> Error {
        Error::new(ErrorKind::PeerLost, format!("waiting for {}: a node died that had it open", self.named.described()))
            .with_peer(dead)
            .with_remedy("wait again, if the others can bring the number without it")
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counter({}: {})", self.name(), self.count().read())
    }
}
