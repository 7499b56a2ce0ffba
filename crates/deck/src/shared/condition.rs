//! The condition variable of a job: waiting, without the mutex, until somebody says that something has changed.

use std::fmt;
use std::time::Duration;

use deck_mudeck::{Error, ErrorKind, Node, Result};
use deck_peers::ObjectKind;
use deck_sync::cancellation::{self, postponed_while};
use deck_sync::{Deadline, Interrupted};

use super::mutex::{Guard, LockError, Mutex};
use super::named::{Named, Stopped};
use super::tickets::{Call, Called, Tickets};

/// How long a wait that is over tries to get the mutex back, if its own deadline is nearer: the liveness bound.
const BACK_WITHIN: Duration = Duration::from_secs(1);

/// A condition variable that the threads of all nodes share by its name.
///
/// A wait may end without a signal, as with every condition variable: look at what you wait for, and wait again. A
/// signal goes to the thread that has waited longest; it is never taken by one that came later. When a node dies, all
/// who wait wake, and when a wait was given up before one that began earlier, the next signal wakes all, so that none
/// is lost on them. A node that leaves waits until its threads are out of theirs, and counts as lost if one is not
/// within a second.
#[doc(alias = "deck_cond_t")]
pub struct Condition {
    named: Named,
}

impl Condition {
    /// Opens the condition variable `name`, which exists from its first opening on. Blocks for a second at most, and
    /// only if another node stopped while it opened something.
    ///
    /// # Errors
    /// As [`Mutex::open`].
    #[doc(alias = "deck_cond_open")]
    pub fn open(node: &Node, name: &str) -> Result<Condition> {
        Ok(Condition { named: Named::open(node, ObjectKind::Condition, name)? })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.named.name()
    }

    fn tickets(&self) -> Tickets<'_> {
        Tickets::new(self.named.words())
    }

    /// Unlocks the mutex, waits at most `timeout` for a signal, and locks the mutex again. No signal given after the
    /// mutex was unlocked is missed. Getting the mutex back may take up to a second longer than `timeout`, if others
    /// hold it.
    ///
    /// # Errors
    /// With a guard ([`LockError::into_guard`]): [`ErrorKind::Timeout`], saying after 300 ms or more who has it open
    /// and is frozen; [`ErrorKind::Cancelled`]; [`ErrorKind::Closed`] once [`Condition::close`] was called; and
    /// [`ErrorKind::OwnerDied`] if whoever had locked the mutex meanwhile ended inside. Without one:
    /// [`ErrorKind::NotLocked`] if the mutex was not to be had again in time, [`ErrorKind::NotInitialized`] if this
    /// node has left meanwhile.
    pub fn wait<'a>(&self, guard: Guard<'a>, timeout: Duration) -> Result<Guard<'a>, LockError<'a>> {
        let mutex = guard.mutex();
        let deadline = Deadline::after(timeout);
        let _pledge = self.named.pledge().map_err(LockError::without_guard)?;
        let ended = self.wait_unlocked(timeout, deadline, || drop(guard)).map_err(LockError::without_guard)?;
        let back = back_until(deadline);
        let again = postponed_while(|| mutex.lock_until(back), |refused| refused.kind());
        let is_here = self.keep_for_the_next(&ended, again.is_ok());
        match (again, ended) {
            (Ok(guard), Ok(())) => is_here.map(|()| guard).map_err(LockError::without_guard),
            (Ok(guard), Err(error)) => Err(LockError::with(error, guard)),
            (Err(died), _) if died.is_locked() => Err(died),
            (Err(refused), _) => Err(LockError::without_guard(self.not_locked(refused.into()))),
        }
    }

    /// As [`Condition::wait`], for a mutex that was locked without a guard.
    ///
    /// # Errors
    /// As [`Condition::wait`]; and [`ErrorKind::Invalid`] if the calling thread does not hold the mutex, or a guard of
    /// it does.
    #[doc(alias = "deck_cond_wait")]
    pub fn wait_unguarded(&self, mutex: &Mutex, timeout: Duration) -> Result<()> {
        self.named.check()?;
        mutex.check_held_unguarded(|| format!("waiting in {}", self.named.described()))?;
        let deadline = Deadline::after(timeout);
        let _pledge = self.named.pledge()?;
        let ended = self.wait_unlocked(timeout, deadline, || drop(mutex.unlock()))?;
        let back = back_until(deadline);
        let again = postponed_while(|| mutex.lock_unguarded_until(back), Error::kind);
        let is_here = self.keep_for_the_next(&ended, again.is_ok());
        match again {
            Ok(()) => ended.and(is_here),
            Err(died) if died.kind() == ErrorKind::OwnerDied => Err(died),
            Err(refused) => Err(self.not_locked(refused)),
        }
    }

    /// Waits, after `unlock`, inside of a pledge: what a node that leaves was called to, it passes on before others see
    /// that it has left. The outer error: this node has left, and the mutex is nobody's here.
    fn wait_unlocked(&self, timeout: Duration, deadline: Deadline, unlock: impl FnOnce()) -> Result<Result<()>> {
        let tickets = self.tickets();
        let deaths = self.named.deaths();
        // In the row before the mutex is free: whoever changes something from now on signals behind it.
        let ticket = tickets.draw();
        unlock();
        let is_damaged = || self.named.deaths() != deaths;
        let mut called = Called { tickets, ticket, is_damaged: &is_damaged };
        let stopped = match self.named.wait(&mut called, tickets.event(ticket), deadline) {
            Ok(Call::Mine) => return Ok(Ok(())),
            Ok(Call::PerhapsLost) => {
                tickets.give_up(ticket);
                return Ok(Ok(()));
            }
            Err(stopped) => stopped,
        };
        let was_called = tickets.give_up(ticket);
        let error = || {
            let remedy = "wait longer, or check that whoever is to signal still runs";
            self.named.error(stopped, timeout, &format!("waiting in {}", self.named.described()), remedy)
        };
        match stopped {
            Stopped::Left => {
                if was_called {
                    self.call_one();
                }
                Err(error())
            }
            _ if was_called => {
                if stopped == Stopped::Interrupted(Interrupted::Cancelled) {
                    cancellation::postpone();
                }
                Ok(Ok(()))
            }
            _ => Ok(Err(error())),
        }
    }

    #[cold]
    fn not_locked(&self, refused: Error) -> Error {
        let kind = match refused.kind() {
            ErrorKind::NotInitialized => ErrorKind::NotInitialized,
            _ => ErrorKind::NotLocked,
        };
        let what =
            format!("waiting in {} is over, and the mutex was not to be had again: {refused}", self.named.described());
        let error = Error::new(kind, what);
        refused.peer().map_or(error.clone(), |peer| error.with_peer(peer))
    }

    /// Ends every wait through this handle, now and later, with [`ErrorKind::Closed`]. Never blocks.
    #[doc(alias = "deck_cond_close")]
    pub fn close(&self) {
        self.named.close();
    }

    /// Wakes the thread that has waited longest, if any waits. Never blocks. The mutex need not be held.
    ///
    /// # Errors
    /// [`ErrorKind::NotInitialized`] after leaving and in a forked child.
    #[doc(alias = "deck_cond_signal")]
    pub fn signal(&self) -> Result<()> {
        self.named.check()?;
        self.call_one();
        Ok(())
    }

    fn call_one(&self) {
        self.tickets().call_one(&|| self.named.deaths());
    }

    /// After a wait, with the mutex back or not: a signal is another one's if this node has begun to leave, which is
    /// the error, and a cancellation is the next wait's if this one is going to tell that it has no mutex.
    fn keep_for_the_next(&self, ended: &Result<()>, has_mutex: bool) -> Result<()> {
        match ended {
            Ok(()) => return self.named.check().inspect_err(|_| self.call_one()),
            Err(error) if !has_mutex && error.kind() == ErrorKind::Cancelled => cancellation::postpone(),
            Err(_) => {}
        }
        Ok(())
    }

    /// Wakes all who wait. Never blocks. The mutex need not be held.
    ///
    /// # Errors
    /// As [`Condition::signal`].
    #[doc(alias = "deck_cond_broadcast")]
    pub fn broadcast(&self) -> Result<()> {
        self.named.check()?;
        self.tickets().call_all(&|| self.named.deaths());
        Ok(())
    }
}

fn back_until(deadline: Deadline) -> Deadline {
    deadline.max(Deadline::after(BACK_WITHIN))
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({})", self.name())
    }
}
