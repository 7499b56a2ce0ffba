//! The mutex of a job: one thread of all nodes inside.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use deck_mudeck::{Error, ErrorKind, Node, NodeId, NodeState, Result};
use deck_peers::ObjectKind;
use deck_sync::{About, Deadline, Goal, Interrupted, now_ns};

use super::held::{self, HeldBy};
use super::lock::{Attempt, Holder, Lock, Outcome, RESERVED_FOR, STARVING_AFTER, Since, Taken, Taking, Turn};
use super::named::{Named, Stopped, how_it_is};

/// A mutex that the threads of all nodes share by its name.
///
/// Its holder is known, node and thread. If the holder's node dies or leaves, or its thread ends or panics, the next
/// one gets the mutex and is told; it then decides whether what the mutex protects is still whole.
///
/// Fairness: at first whoever comes takes a free mutex, which is fastest. A thread that has waited for a millisecond
/// asks for the turn, and while somebody has the turn, nobody else takes the mutex; of several who ask, the one that
/// has waited longest gets it. Who sleeps is woken whenever the mutex is unlocked, and asks then. So a thread that
/// waits is passed at most by those who came in its first millisecond, by those who asked before it woke up, and by
/// those who have waited longer than itself.
///
/// Free and unwanted, locking and unlocking are a compare-and-swap each and some loads of one cache line.
///
/// A node that leaves waits until its threads have come out of `lock`, and counts as lost if one has not within a
/// second.
#[doc(alias = "deck_mutex_t")]
pub struct Mutex {
    named: Arc<Named>,
}

/// The calling thread holds the mutex until this is dropped.
#[must_use = "the mutex is unlocked at once if the guard is not kept"]
pub struct Guard<'a> {
    mutex: &'a Mutex,
    /// The dead holder that nobody has been told of: whoever drops this guard unseen leaves it to the next one.
    untold: Option<NodeId>,
    /// The thread was panicking already when it locked the mutex.
    was_panicking: bool,
    /// A mutex is unlocked by the thread that has locked it.
    _of_this_thread: PhantomData<*const ()>,
}

/// How what the mutex protects is left.
enum Left {
    Whole,
    /// Perhaps half changed.
    ByPanic,
    /// As this node left it that died, and nobody has looked.
    ByDead(NodeId),
}

/// A lock that is none, or one that wants to be looked at first.
pub struct LockError<'a> {
    /// What happened: [`ErrorKind::OwnerDied`] if the mutex is held now, by the caller.
    pub error: Error,
    guard: Option<Guard<'a>>,
}

impl<'a> LockError<'a> {
    pub(super) fn without_guard(error: Error) -> LockError<'a> {
        LockError { error, guard: None }
    }

    pub(super) fn with(error: Error, guard: Guard<'a>) -> LockError<'a> {
        LockError { error, guard: Some(guard) }
    }

    /// The guard, if the mutex is held by the calling thread all the same; the error otherwise. If its last holder
    /// died, that counts as told: the next one will not hear of it again.
    ///
    /// # Errors
    /// The error without a guard.
    ///
    /// ```
    /// use std::time::Duration;
    /// use deck::shared::Mutex;
    /// use deck::{ErrorKind, Node, Thread};
    /// const PATIENCE: Duration = Duration::from_secs(10);
    ///
    /// # fn main() -> deck::Result<()> {
    /// let node = Node::join()?;
    /// // A thread that ends inside. Of a node that dies inside, the next one hears in the same way.
    /// let careless = Thread::spawn({
    ///     let node = node.clone();
    ///     move || Mutex::open(&node, "account")?.lock_unguarded(PATIENCE)
    /// })?;
    /// careless.join().expect("it does not panic")?;
    ///
    /// let mutex = Mutex::open(&node, "account")?;
    /// let guard = match mutex.lock(PATIENCE) {
    ///     Ok(guard) => guard,
    ///     Err(refused) => {
    ///         assert_eq!(refused.kind(), ErrorKind::OwnerDied);
    ///         let guard = refused.into_guard()?;
    ///         // The place to look at what the mutex protects, which may be half changed, and to mend it.
    ///         guard
    ///     }
    /// };
    /// drop(guard);
    /// assert!(mutex.lock(PATIENCE).is_ok(), "it is told once");
    /// # Ok(()) }
    /// ```
    pub fn into_guard(self) -> Result<Guard<'a>> {
        match self.guard {
            Some(mut guard) => {
                guard.untold = None;
                Ok(guard)
            }
            None => Err(self.error),
        }
    }

    /// True if the calling thread holds the mutex.
    pub fn is_locked(&self) -> bool {
        self.guard.is_some()
    }
}

/// Without looking: the mutex is let go of, and if its last holder died, the next one is told of it.
impl From<LockError<'_>> for Error {
    fn from(refused: LockError<'_>) -> Error {
        refused.error
    }
}

impl Deref for LockError<'_> {
    type Target = Error;
    fn deref(&self) -> &Error {
        &self.error
    }
}

impl fmt::Debug for LockError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl fmt::Display for LockError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl std::error::Error for LockError<'_> {}

impl Mutex {
    /// Opens the mutex `name`, which exists from its first opening on. Blocks for a second at most, and only if another
    /// node stopped while it opened something.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an impossible name, [`ErrorKind::NoMemory`] if the job has too many names,
    /// [`ErrorKind::Timeout`], naming the node that stopped, after that second;
    /// [`ErrorKind::NotInitialized`] after leaving and in a forked child.
    #[doc(alias = "deck_mutex_open")]
    pub fn open(node: &Node, name: &str) -> Result<Mutex> {
        Ok(Mutex { named: Arc::new(Named::open(node, ObjectKind::Mutex, name)?) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.named.name()
    }

    /// The node whose thread holds it now; also one that is gone, until somebody takes it over. Never blocks.
    pub fn holder(&self) -> Option<NodeId> {
        Lock::new(self.named.words()).holder().map(Holder::node)
    }

    /// Locks it, waiting at most `timeout`.
    ///
    /// # Errors
    /// [`ErrorKind::OwnerDied`], naming the node, with a guard ([`LockError::into_guard`]): it is locked, but its last
    /// holder died, left, or ended its thread or panicked inside. [`ErrorKind::Timeout`] naming the holder, and saying
    /// if it is frozen; [`ErrorKind::Cancelled`]; [`ErrorKind::Closed`] once [`Mutex::close`] was called;
    /// [`ErrorKind::Invalid`] if the calling thread holds it already; [`ErrorKind::NoMemory`] if the system cannot be
    /// told what is to be done when the thread ends; [`ErrorKind::NotInitialized`] after leaving and in a forked child.
    pub fn lock(&self, timeout: Duration) -> Result<Guard<'_>, LockError<'_>> {
        self.lock_until(Deadline::after(timeout))
    }

    pub(super) fn lock_until(&self, deadline: Deadline) -> Result<Guard<'_>, LockError<'_>> {
        let guard =
            |untold| Guard { mutex: self, untold, was_panicking: thread::panicking(), _of_this_thread: PhantomData };
        match self.take(HeldBy::Guard, deadline).map_err(LockError::without_guard)? {
            Taken::Clean => Ok(guard(None)),
            Taken::FromDead(dead) => Err(LockError::with(self.died(dead), guard(Some(dead)))),
        }
    }

    /// Locks it without a guard, for languages that have none; the calling thread has to [`unlock`](Mutex::unlock).
    ///
    /// # Errors
    /// As [`Mutex::lock`]; after [`ErrorKind::OwnerDied`] it is locked.
    #[doc(alias = "deck_mutex_lock")]
    pub fn lock_unguarded(&self, timeout: Duration) -> Result<()> {
        self.lock_unguarded_until(Deadline::after(timeout))
    }

    pub(super) fn lock_unguarded_until(&self, deadline: Deadline) -> Result<()> {
        match self.take(HeldBy::Thread, deadline)? {
            Taken::Clean => Ok(()),
            Taken::FromDead(dead) => Err(self.died(dead)),
        }
    }

    /// Unlocks what the calling thread has locked without a guard. Never blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the calling thread does not hold it, or a guard of it does, also one that was
    /// forgotten; [`ErrorKind::NotInitialized`] after leaving and in a forked child.
    #[doc(alias = "deck_mutex_unlock")]
    pub fn unlock(&self) -> Result<()> {
        let me = self.check_held_unguarded(|| format!("unlocking {}", self.named.described()))?;
        self.let_go(me, Left::Whole);
        Ok(())
    }

    /// The calling thread, which holds it without a guard; `doing` what needs that.
    pub(super) fn check_held_unguarded(&self, doing: impl Fn() -> String) -> Result<Holder> {
        self.named.check()?;
        let me = held::me(self.named.node())?;
        let invalid = |how| Error::new(ErrorKind::Invalid, format!("{}: {how}", doing()));
        if !self.is_held_by(me) {
            return Err(invalid("this thread does not hold the mutex")
                .with_remedy("lock it first; only the thread that has locked it unlocks it, once"));
        }
        if held::held_by(&self.named) == Some(HeldBy::Guard) {
            return Err(
                invalid("a guard of this thread holds the mutex").with_remedy("drop the guard, or wait with it")
            );
        }
        Ok(me)
    }

    /// Ends every wait through this handle, now and later, with [`ErrorKind::Closed`]. What is locked stays locked
    /// until its thread unlocks it or ends. Never blocks.
    #[doc(alias = "deck_mutex_close")]
    pub fn close(&self) {
        self.named.close();
    }

    /// True if the calling thread holds it.
    pub fn is_mine(&self) -> bool {
        self.named.check().and_then(|()| held::me(self.named.node())).is_ok_and(|me| self.is_held_by(me))
    }

    fn is_held_by(&self, me: Holder) -> bool {
        Lock::new(self.named.words()).holder() == Some(me)
    }

    fn let_go(&self, me: Holder, left: Left) {
        let lock = Lock::new(self.named.words());
        // First: between the two a thread that ends would unlock for somebody else.
        held::remove(&self.named);
        let _ = match left {
            Left::Whole => lock.release(me),
            Left::ByPanic => lock.abandon(me),
            Left::ByDead(dead) => lock.pass_on(me, dead),
        };
    }

    #[cold]
    fn died(&self, dead: NodeId) -> Error {
        let how = match self.named.node().membership().table().state(dead) {
            Some(NodeState::Lost) => "died",
            Some(NodeState::Left) => "left its job",
            // Its node is there: the thread is not, or has panicked.
            _ => "panicked, or ended its thread",
        };
        let named = self.named.described();
        let what = format!("locking {named}: it is locked, and its last holder {how} without unlocking");
        Error::new(ErrorKind::OwnerDied, what).with_peer(dead)
    }

    fn take(&self, by: HeldBy, deadline: Deadline) -> Result<Taken> {
        let doing = || format!("locking {}", self.named.described());
        self.named.check_open(doing)?;
        held::while_here(self.named.node(), doing, || self.take_here(by, deadline))
    }

    fn take_here(&self, by: HeldBy, deadline: Deadline) -> Result<Taken> {
        let node = self.named.node();
        let me = held::me(node)?;
        let lock = Lock::new(self.named.words());
        if self.is_held_by(me) {
            let error =
                Error::new(ErrorKind::Invalid, format!("locking {}: this thread holds it", self.named.described()));
            return Err(error.with_remedy("unlock it first; a mutex is not locked twice"));
        }
        let table = node.membership().table();
        let taken = self.wait_for(lock, me, deadline, &|node| table.is_live(node)).map_err(|stopped| {
            lock.give_up(me);
            self.not_locked(lock, stopped)
        })?;
        deck_sync::point("mutex/taken");
        // A node that has begun to leave keeps nothing. One that has been given up is gone, for this very thread too:
        // it may have taken what its own node's threads have left, and so may others.
        self.named.check().inspect_err(|_| {
            let _ = match taken {
                Taken::Clean => lock.release(me),
                Taken::FromDead(dead) => lock.pass_on(me, dead),
            };
        })?;
        held::add(&self.named, by);
        Ok(taken)
    }

    fn wait_for(
        &self,
        lock: Lock<'_>,
        me: Holder,
        deadline: Deadline,
        is_live: &dyn Fn(NodeId) -> bool,
    ) -> Result<Taken, Stopped> {
        let mut taking = Taking { lock, me, since: None, patient_with: None, is_live, about: None };
        if let Some(Outcome::Taken(taken)) = deck_sync::Waiting::look(&mut taking) {
            return Ok(taken);
        }
        if deadline.is_now() {
            return self.take_from_stopped(lock, me, is_live);
        }
        let since_ns = now_ns();
        let began = Since::at_ns(since_ns);
        let about = About::new(Goal::Mutex, self.name());
        taking.about = Some(About { since_ns, until_ns: deadline.at_ns(), ..about });
        let mut until = Deadline::after(STARVING_AFTER).min(deadline);
        loop {
            match self.named.wait(&mut taking, lock.freed(), until) {
                Ok(Outcome::Taken(taken)) => return Ok(taken),
                Ok(Outcome::Changed) => (taking.patient_with, until) = (None, deadline),
                Ok(Outcome::Reserved(turn)) => {
                    (taking.patient_with, until) = (Some(turn), Deadline::after(RESERVED_FOR).min(deadline));
                }
                Err(Stopped::Interrupted(Interrupted::Deadline)) if !deadline.has_passed() => {
                    until = deadline;
                    match (taking.patient_with.take(), taking.since) {
                        (Some(unused), Some(since)) => lock.take_turn(unused, me, since),
                        _ => taking.since = Some(began),
                    }
                }
                Err(Stopped::Interrupted(Interrupted::Deadline)) => return self.take_from_stopped(lock, me, is_live),
                Err(stopped) => return Err(stopped),
            }
        }
    }

    /// The time is over. If the lock is free, and only the turn of a thread whose node is stopped keeps it so, that is
    /// taken.
    #[cold]
    fn take_from_stopped(
        &self,
        lock: Lock<'_>,
        me: Holder,
        is_live: &dyn Fn(NodeId) -> bool,
    ) -> Result<Taken, Stopped> {
        let is_stopped = |turn: Turn| matches!(self.named.node().state(turn.node()), Ok(NodeState::Frozen));
        let attempt = match lock.try_take(me, None, is_live) {
            Attempt::Reserved(turn) if is_stopped(turn) => {
                let since = Since::at_ns(now_ns());
                lock.take_turn(turn, me, since);
                lock.try_take(me, Some(since), is_live)
            }
            attempt => attempt,
        };
        match attempt {
            Attempt::Taken(taken) => Ok(taken),
            Attempt::Held(_) | Attempt::Reserved(_) => Err(Stopped::Interrupted(Interrupted::Deadline)),
        }
    }

    #[cold]
    fn not_locked(&self, lock: Lock<'_>, stopped: Stopped) -> Error {
        // Whoever only tries does not wait.
        self.named.node().membership().watch_strangers();
        let what = format!("locking {}", self.named.described());
        let remedy = "wait longer, or look what its holder does";
        match lock.holder().map(Holder::node) {
            Some(holder) => {
                let how = how_it_is(self.named.node(), holder);
                stopped.error(format!("{what}, which {holder} holds{how}"), remedy).with_peer(holder)
            }
            None => stopped.error(what, remedy),
        }
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mutex({})", self.name())
    }
}

impl<'a> Guard<'a> {
    /// The mutex.
    pub fn mutex(&self) -> &'a Mutex {
        self.mutex
    }

    /// Unlocks. The same as dropping the guard.
    #[doc(alias = "deck_mutex_unlock")]
    pub fn unlock(self) {}
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let left = match self.untold {
            Some(dead) => Left::ByDead(dead),
            None if thread::panicking() && !self.was_panicking => Left::ByPanic,
            None => Left::Whole,
        };
        // After leaving, the others have been told already.
        if self.mutex.named.check().is_ok()
            && let Ok(me) = held::me(self.mutex.named.node())
        {
            self.mutex.let_go(me, left);
        }
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({})", self.mutex.name())
    }
}
