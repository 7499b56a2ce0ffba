//! The lock in two shared words: one says who holds it, the other whose turn is next.
//!
//! A thread takes the lock by one compare-and-swap of its own name, node included, into the word: so it is known at any
//! moment who holds it, and if that node dies the next one takes it over and learns of it. This is the robust mutex of
//! POSIX with the liveness of a job's nodes in place of the kernel's list of held futexes.
//!
//! Fairness is that of Go's mutex (`sync.Mutex`, "starvation mode", 2016), with a first-come order added: at first
//! whoever comes takes a free lock, which is fast because the last holder is still running. A waiter that has got
//! nothing for [`STARVING_AFTER`] writes its name and the time of its coming into the word of the turn, and while a
//! name stands there only its owner takes the lock. Of several the one that came first has the turn: it takes it from a
//! later one.
//!
//! Letting go wakes all who sleep, not one: the one might be a stopped process, and the others would sleep beside a
//! free lock. A turn whose owner does not use it (its node is stopped) is taken away by whoever finds the lock free and
//! reserved for [`RESERVED_FOR`]. Nothing here waits; [`Taking`] is what a wait looks at.

use std::time::Duration;

use deck_segment::Words;
use deck_sync::atomic::Ordering;
use deck_sync::{About, Event, NodeId, Waiting, barrier};

/// Without the lock for so long a waiter asks for the turn.
pub const STARVING_AFTER: Duration = Duration::from_millis(1);
/// A lock that is free and reserved for so long goes to another one.
pub const RESERVED_FOR: Duration = Duration::from_millis(10);

/// Word of the holder: a [`Holder`], or 0.
const LOCK: usize = 0;
/// Word of the turn: a [`Turn`], or 0.
const TURN: usize = 1;
/// The event that is notified when the lock is let go of.
const FREED: usize = 2;

const THREAD_BITS: u32 = 20;
const HOLDER_BITS: u32 = THREAD_BITS + 17;
const SINCE_BITS: u32 = 64 - HOLDER_BITS;
// As `docs/layout/job-table.md` says.
const _: () = assert!(LOCK == 0 && TURN == 1 && FREED == 2 && THREAD_BITS == 20 && HOLDER_BITS == 37);
/// Numbers of nodes.
const NODES: u64 = 1 << 16;
/// In place of a thread: the thread ended, or gave up, without unlocking.
const NO_THREAD: u64 = (1 << THREAD_BITS) - 1;

/// A thread of a job, as it stands in a lock.
///
/// ```text
///   63           37 36                20 19            0
///  +---------------+--------------------+---------------+
///  | since, in a   |  node + 1          |  thread       |
///  | turn; else 0  |                    |               |
///  +---------------+--------------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder(u64);

/// When a waiter came, in units of about a millisecond; wraps after 39 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since(u64);

/// Whose turn it is, and since when it has been waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn(u64);

impl Holder {
    /// The most threads of a node that can use locks at a time.
    pub const THREADS_MAX: u32 = NO_THREAD as u32;

    /// Thread `thread` (from 0, below [`Holder::THREADS_MAX`]) of `node`.
    pub fn new(node: NodeId, thread: u32) -> Holder {
        debug_assert!(u64::from(thread) < NO_THREAD && u64::from(node.0) < NODES);
        Holder((u64::from(node.0) + 1) << THREAD_BITS | u64::from(thread))
    }

    /// Its node. A word that names none that there can be names the last one: whoever takes over from that says so to
    /// the next one.
    pub fn node(self) -> NodeId {
        NodeId((self.0 >> THREAD_BITS).saturating_sub(1).min(NODES - 1) as u32)
    }

    /// Its thread, by the number by which it stands in mutexes; `None` if that has ended.
    pub fn thread(self) -> Option<u32> {
        (!self.is_abandoned()).then_some((self.0 & NO_THREAD) as u32)
    }

    fn abandoned(self) -> Holder {
        Holder(self.0 | NO_THREAD)
    }

    fn is_abandoned(self) -> bool {
        self.0 & NO_THREAD == NO_THREAD
    }
}

impl Since {
    /// This moment on the monotonic clock.
    pub fn at_ns(ns: u64) -> Since {
        Since(ns >> 20 & ((1 << SINCE_BITS) - 1))
    }

    fn is_before(self, other: Since) -> bool {
        let span = 1u64 << SINCE_BITS;
        let later_by = other.0.wrapping_sub(self.0) & (span - 1);
        later_by != 0 && later_by < span / 2
    }
}

impl Turn {
    fn of(holder: Holder, since: Since) -> Turn {
        Turn(since.0 << HOLDER_BITS | holder.0)
    }

    fn holder(self) -> Holder {
        Holder(self.0 & ((1 << HOLDER_BITS) - 1))
    }

    /// The node whose thread has it.
    pub fn node(self) -> NodeId {
        self.holder().node()
    }

    fn since(self) -> Since {
        Since(self.0 >> HOLDER_BITS)
    }
}

/// How the lock was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Its last holder let go of it.
    Clean,
    /// Its last holder died, left or ended while it held it.
    FromDead(NodeId),
}

/// What came of trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The lock is the caller's.
    Taken(Taken),
    /// Another thread holds it.
    Held(Holder),
    /// It is free, and another thread has the turn.
    Reserved(Turn),
}

/// A view of the words of a lock.
#[derive(Clone, Copy)]
pub struct Lock<'a>(&'a Words);

impl<'a> Lock<'a> {
    /// The lock in these words.
    pub fn new(words: &'a Words) -> Lock<'a> {
        Lock(words)
    }

    /// Notified when the lock may be had.
    pub fn freed(self) -> &'a Event {
        self.0.event(FREED)
    }

    /// Who holds it now.
    pub fn holder(self) -> Option<Holder> {
        Some(Holder(self.0.get(LOCK).load(Ordering::Relaxed))).filter(|holder| holder.0 != 0)
    }

    /// Tries to take the lock; with `since`, also to get the turn. Free and unwanted: two loads, one compare-and-swap.
    pub fn try_take(self, me: Holder, since: Option<Since>, is_live: &dyn Fn(NodeId) -> bool) -> Attempt {
        let (lock, turn) = (self.0.get(LOCK), self.0.get(TURN));
        loop {
            let mut first = Turn(turn.load(Ordering::Relaxed));
            let may_go = first.0 == 0
                || !is_live(first.holder().node())
                || since.is_some_and(|since| since.is_before(first.since()));
            if first.holder() != me && may_go {
                let mine = since.map_or(Turn(0), |since| Turn::of(me, since));
                if mine != first {
                    if turn.compare_exchange(first.0, mine.0, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                        continue;
                    }
                    first = mine;
                }
            }
            // Acquire: pairs with: lock/freed.
            let now = Holder(lock.load(Ordering::Acquire));
            let is_dead = now.0 != 0 && (now.is_abandoned() || !is_live(now.node()));
            if now.0 != 0 && !is_dead {
                return Attempt::Held(now);
            }
            if first.0 != 0 && first.holder() != me {
                return Attempt::Reserved(first);
            }
            // Acquire: pairs with: lock/freed. What the last holder did is before what this one does.
            if lock.compare_exchange(now.0, me.0, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                if first.0 != 0 {
                    let _ = turn.compare_exchange(first.0, 0, Ordering::Relaxed, Ordering::Relaxed);
                }
                return Attempt::Taken(if is_dead { Taken::FromDead(now.node()) } else { Taken::Clean });
            }
        }
    }

    /// Lets go of the lock; false if `me` does not hold it.
    pub fn release(self, me: Holder) -> bool {
        self.hand_back(me, Holder(0))
    }

    /// Lets go of the lock as if the holder had died: the next one is told.
    pub fn abandon(self, me: Holder) -> bool {
        self.hand_back(me, me.abandoned())
    }

    /// Lets go of a lock that came from a dead node, so that the next one is told of that node as well.
    pub fn pass_on(self, me: Holder, dead: NodeId) -> bool {
        self.hand_back(me, Holder::new(dead, 0).abandoned())
    }

    fn hand_back(self, me: Holder, left: Holder) -> bool {
        // Release: pairs with: lock/freed.
        let is_mine = self.0.get(LOCK).compare_exchange(me.0, left.0, Ordering::Release, Ordering::Relaxed).is_ok();
        if is_mine {
            deck_sync::point("mutex/freed");
            self.wake();
        }
        is_mine
    }

    fn wake(self) {
        // Light: pairs with: wait/sleep.
        barrier::light();
        if self.freed().has_sleepers() {
            self.freed().notify();
        }
    }

    /// `me` does not wait any more: if it had the turn, another one gets it.
    pub fn give_up(self, me: Holder) {
        let turn = self.0.get(TURN);
        let now = Turn(turn.load(Ordering::Relaxed));
        let had_turn = now.0 != 0 && now.holder() == me;
        if had_turn && turn.compare_exchange(now.0, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.wake();
        }
    }

    /// Takes `unused`, a turn that stood too long beside a free lock, for `me`.
    #[cold]
    pub fn take_turn(self, unused: Turn, me: Holder, since: Since) {
        let mine = Turn::of(me, since);
        let _ = self.0.get(TURN).compare_exchange(unused.0, mine.0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A wait for the lock. Ends with the lock, or, where that was asked for, when another thread has the turn at a free
/// lock.
pub struct Taking<'a> {
    /// The lock.
    pub lock: Lock<'a>,
    /// Who wants it.
    pub me: Holder,
    /// Since when, once it asks for the turn.
    pub since: Option<Since>,
    /// Who has the turn may keep it a little longer: nothing to tell.
    pub patient_with: Option<Turn>,
    /// Whether a node still runs.
    pub is_live: &'a dyn Fn(NodeId) -> bool,
    /// What those who look on are told of the whole wait, of which this may be a part.
    pub about: Option<About<'a>>,
}

/// How such a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With the lock.
    Taken(Taken),
    /// The lock is free, and this one has the turn.
    Reserved(Turn),
    /// Another one than the one we were patient with has the turn, or the lock.
    Changed,
}

impl Waiting for Taking<'_> {
    type Output = Outcome;

    fn look(&mut self) -> Option<Outcome> {
        match (self.lock.try_take(self.me, self.since, self.is_live), self.patient_with) {
            (Attempt::Taken(taken), _) => Some(Outcome::Taken(taken)),
            (Attempt::Held(_), None) => None,
            (Attempt::Reserved(turn), None) => self.since.map(|_| Outcome::Reserved(turn)),
            (Attempt::Reserved(turn), Some(same)) if turn == same => None,
            _ => Some(Outcome::Changed),
        }
    }

    fn about(&self) -> Option<About<'_>> {
        self.about
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use deck_segment::Segment;

    fn words() -> Words {
        let segment = Segment::create("test", 4096).unwrap();
        segment.allocate(0, 4096).unwrap();
        Words::in_segment(&segment, 0, 8).unwrap()
    }

    const fn alive(_: NodeId) -> bool {
        true
    }

    fn thread(number: u32) -> Holder {
        Holder::new(NodeId(65_535), number)
    }

    #[test]
    fn only_the_holder_lets_go() {
        let words = words();
        let lock = Lock::new(&words);
        assert_eq!(lock.try_take(thread(1), None, &alive), Attempt::Taken(Taken::Clean));
        assert_eq!(lock.try_take(thread(2), None, &alive), Attempt::Held(thread(1)));
        assert!(!lock.release(thread(2)) && lock.release(thread(1)) && !lock.release(thread(1)));
        assert_eq!(lock.try_take(thread(2), None, &alive), Attempt::Taken(Taken::Clean));
        assert_eq!(lock.holder().map(Holder::node), Some(NodeId(65_535)));
    }

    #[test]
    fn what_nobody_can_have_written_is_taken_for_a_dead_node_and_told() {
        let nobody = |_: NodeId| false;
        for nonsense in [u64::MAX, u64::MAX - 1, 1 << 63, 1 << HOLDER_BITS, 7] {
            let words = words();
            words.get(LOCK).store(nonsense, Ordering::Relaxed);
            let lock = Lock::new(&words);
            let Attempt::Taken(Taken::FromDead(dead)) = lock.try_take(thread(1), None, &nobody) else {
                panic!("{nonsense:x}");
            };
            assert!(lock.pass_on(thread(1), dead));
            assert_eq!(lock.try_take(thread(2), None, &alive), Attempt::Taken(Taken::FromDead(dead)), "{nonsense:x}");
        }
    }

    #[test]
    fn the_one_that_came_first_gets_the_turn_and_newcomers_stand_back() {
        let words = words();
        let lock = Lock::new(&words);
        // Next to the overflow of the clock.
        let early = Since((1 << SINCE_BITS) - 2);
        let late = Since(3);
        assert!(early.is_before(late) && !late.is_before(early) && !late.is_before(late));
        lock.try_take(thread(0), None, &alive);
        assert_eq!(lock.try_take(thread(2), Some(late), &alive), Attempt::Held(thread(0)));
        assert_eq!(lock.try_take(thread(1), Some(early), &alive), Attempt::Held(thread(0)));
        lock.release(thread(0));
        let first = Turn::of(thread(1), early);
        assert_eq!(lock.try_take(thread(0), None, &alive), Attempt::Reserved(first));
        assert_eq!(lock.try_take(thread(2), Some(late), &alive), Attempt::Reserved(first));
        assert_eq!(lock.try_take(thread(1), Some(early), &alive), Attempt::Taken(Taken::Clean));
        lock.release(thread(1));
        assert_eq!(lock.try_take(thread(2), Some(late), &alive), Attempt::Taken(Taken::Clean));
    }

    #[test]
    fn the_dead_lose_lock_and_turn_and_the_next_one_is_told_once() {
        let words = words();
        let lock = Lock::new(&words);
        let dead = Holder::new(NodeId(3), 0);
        let is_live = |node: NodeId| node != NodeId(3);
        lock.try_take(dead, None, &alive);
        lock.try_take(Holder::new(NodeId(3), 1), Some(Since(1)), &alive);
        assert_eq!(lock.try_take(thread(1), None, &is_live), Attempt::Taken(Taken::FromDead(NodeId(3))));
        assert!(lock.release(thread(1)));
        assert_eq!(lock.try_take(thread(2), None, &is_live), Attempt::Taken(Taken::Clean));
        assert!(lock.abandon(thread(2)));
        assert_eq!(lock.try_take(thread(1), None, &is_live), Attempt::Taken(Taken::FromDead(NodeId(65_535))));
    }
}
