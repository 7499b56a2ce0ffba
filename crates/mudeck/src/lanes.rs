//! Lanes: rings of their own for threads of a node that hold one another up at the ring that they share.
//!
//! A thread that finds others at the common ring of a mail box asks its owner for another ring, and goes on posting to
//! the common one. Once it is granted, the thread moves as soon as everything that it had posted to the common ring was
//! retrieved: so its messages keep their order. It asks for credits at once then, posts one message more, and looks for
//! a moment; if the receiver does not take the message that soon, it tries again later. It stays in its lane until it
//! ends; then the lane is another thread's.
//!
//! Nobody waits for a lane, and nobody has to get one: `docs/design/013-lanes.md`.

use std::cell::{Cell, RefCell};
use std::mem::{self, ManuallyDrop};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use deck_peers::Asked;
use deck_segment::Region;
use deck_sync::atomic::{self, AtomicBool, AtomicU32, AtomicU64, Ordering};
use deck_sync::locks::lock;
use deck_sync::{Result, ThreadEnd, fork};

use crate::node::NodeShared;
use crate::poster::Poster;

/// Lanes of one node to one mail box at a time. Further threads share the common ring.
const LANES_MAX: usize = 15;
/// How often threads have to have waited for one another at the common ring.
const CONTENDED: u32 = 4;

/// Looks, with a pause each, for the receiver to take a thread's last message: some microseconds.
const LOOKS: u32 = 256;
/// A thread that could not move posts two to the power of its failures messages before it tries again; of that many at
/// most.
const FAILURES_MAX: u32 = 12;

/// The lanes beside one common ring.
#[derive(Default)]
pub(crate) struct Lanes {
    /// Places that belong to a thread, a bit each.
    taken: AtomicU32,
    made: [OnceLock<Arc<Poster>>; LANES_MAX],
    /// The thread that posts there and to the common ring no more: its number.
    tenants: [AtomicU64; LANES_MAX],
    asked: Mutex<[Option<(Asked, Region)>; LANES_MAX]>,
    /// There is no room for more at one of the two sides, or the common ring has ended.
    is_refused: AtomicBool,
}

/// What a thread has at one mail box.
struct Mine {
    common: Weak<Poster>,
    place: Option<usize>,
    at: At,
}

/// Where a thread posts.
#[derive(Clone, Copy)]
enum At {
    /// To the common ring; after so many more messages it tries to move.
    Common { posts: u32, failures: u32 },
    /// To the common ring, for the last time if all goes well. The receiver is asked to tell credits at once.
    Leaving { failures: u32 },
    /// To its lane.
    Lane,
}

impl Drop for Mine {
    /// The thread ends, or the mail box did.
    fn drop(&mut self) {
        let Some(common) = self.common.upgrade().filter(|_| !fork::is_child()) else { return };
        if let At::Leaving { .. } = self.at {
            common.ask_for_room(false);
        }
        if let (Some(place), Some(lanes)) = (self.place, common.lanes.get()) {
            LAST.set(NO_PLACE);
            lanes.tenants[place].store(0, Ordering::Relaxed);
            // Release: pairs with: lanes/taken.
            lanes.taken.fetch_and(!(1 << place), Ordering::Release);
        }
    }
}

thread_local! {
    /// Not dropped with other thread-local values: what destructors of those post is not to overtake what the thread
    /// had posted before.
    static MINE: RefCell<ManuallyDrop<Vec<Mine>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    /// The place of the lane that the thread used last.
    static LAST: Cell<usize> = const { Cell::new(NO_PLACE) };
}

static END: ThreadEnd = ThreadEnd::new(|| drop(MINE.with(|mine| mem::take(&mut **mine.borrow_mut()))));

const NO_PLACE: usize = usize::MAX;

/// The number of the calling thread: never 0, and never that of another.
fn this_thread() -> u64 {
    thread_local!(static NUMBER: Cell<u64> = const { Cell::new(0) });
    static LAST_GIVEN: Mutex<u64> = Mutex::new(0);
    if NUMBER.get() == 0 {
        let mut last = lock(&LAST_GIVEN);
        *last += 1;
        NUMBER.set(*last);
    }
    NUMBER.get()
}

/// The lane beside `common` into which the calling thread has moved, if it has the place of the lane that it used last,
/// whichever that was. What small messages go by, in the place of a search. Never waits.
#[inline]
pub(crate) fn last_of_this_thread(common: &Poster) -> Option<&Poster> {
    let (lanes, place) = (common.lanes.get()?, LAST.get());
    // Relaxed: this thread alone writes its own number.
    if lanes.tenants.get(place)?.load(Ordering::Relaxed) != this_thread() {
        return None;
    }
    lanes.made[place].get().map(Arc::as_ref)
}

/// The poster that the calling thread is to use where it would post to `common`. Never waits.
#[inline]
pub(crate) fn of_this_thread<'a>(node: &NodeShared, common: &'a Arc<Poster>) -> &'a Poster {
    let has_lanes = common.lanes.get().is_some() || common.sender.contention() >= CONTENDED;
    if has_lanes { choose(node, common).unwrap_or(common) } else { common }
}

fn choose<'a>(node: &NodeShared, common: &'a Arc<Poster>) -> Option<&'a Poster> {
    let lanes = common.lanes.get_or_init(Lanes::default);
    MINE.with(|mine| {
        let mut mine = mine.try_borrow_mut().ok()?;
        // The favourite of the common ring posts there without coming by here.
        let is_bound = || common.sender.is_favourite();
        let at = match mine.iter().position(|mine| mine.is_at(common)) {
            Some(at) => at,
            // A mail box that is meant to hold its posters back: more rings would be more room.
            None if is_bound() || !common.sender.shape().shares_slots => return None,
            None => {
                END.expect().ok()?;
                mine.retain(|mine| mine.common.strong_count() > 0);
                let common = Arc::downgrade(common);
                mine.push(Mine { common, place: None, at: At::Common { posts: 0, failures: 0 } });
                mine.len() - 1
            }
        };
        let mine = &mut mine[at];
        mine.place = mine.place.or_else(|| lanes.take_place());
        let place = mine.place?;
        let Some(lane) = lanes.made[place].get() else {
            lanes.make(node, common, place);
            return None;
        };
        match mine.at {
            // Its owner found it corrupt, or all has ended, which the common ring tells as well.
            At::Lane if lane.sender.ended().is_some() => None,
            At::Lane => {
                LAST.set(place);
                Some(&**lane)
            }
            At::Common { posts: 0, failures } if !is_bound() => {
                mine.at = At::Leaving { failures };
                common.ask_for_room(true);
                None
            }
            At::Common { posts, failures } => {
                mine.at = At::Common { posts: posts.saturating_sub(1), failures };
                None
            }
            At::Leaving { .. } => None,
        }
    })
}

/// The calling thread has posted to `common`, or tried to.
#[inline]
pub(crate) fn note_post(common: &Arc<Poster>, is_posted: bool) {
    if common.lanes.get().is_some() {
        leave(common, is_posted);
    }
}

fn leave(common: &Arc<Poster>, is_posted: bool) {
    let _ = MINE.with(|mine| {
        let mut mine = mine.try_borrow_mut().ok()?;
        let mine = mine.iter_mut().find(|mine| mine.is_at(common))?;
        let At::Leaving { failures } = mine.at else { return None };
        let posted = common.sender.posted();
        let is_alone = is_posted && !common.sender.is_favourite();
        let has_left = is_alone && (0..LOOKS).any(|_| common.sender.has_retired(posted) || pause());
        common.ask_for_room(false);
        let failures = failures + 1;
        if let (true, Some(place), Some(lanes)) = (has_left, mine.place, common.lanes.get()) {
            lanes.tenants[place].store(this_thread(), Ordering::Relaxed);
        }
        mine.at = if has_left { At::Lane } else { At::Common { posts: 1 << failures.min(FAILURES_MAX), failures } };
        Some(())
    });
}

/// Never what was looked for.
fn pause() -> bool {
    atomic::pause();
    false
}

impl Mine {
    fn is_at(&self, common: &Arc<Poster>) -> bool {
        std::ptr::eq(self.common.as_ptr(), Arc::as_ptr(common))
    }
}

impl Lanes {
    /// The lanes that there are.
    pub fn made(&self) -> impl Iterator<Item = &Arc<Poster>> {
        self.made.iter().filter_map(OnceLock::get)
    }

    /// A place that is no thread's.
    fn take_place(&self) -> Option<usize> {
        let first_free = |taken: u32| Some(taken.trailing_ones() as usize).filter(|place| *place < LANES_MAX);
        // Acquire: pairs with: lanes/taken.
        let taken = self.taken.fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| {
            first_free(taken).map(|place| taken | 1 << place)
        });
        taken.ok().and_then(first_free)
    }

    /// Asks for the lane, or looks whether it was granted.
    fn make(&self, node: &NodeShared, common: &Arc<Poster>, place: usize) {
        let mut asked = lock(&self.asked);
        let lane = match asked[place].take() {
            // Inside the lock: at its end the common ring sets this before it takes back what was asked for.
            None if self.is_refused.load(Ordering::Relaxed) || common.sender.ended().is_some() => return,
            None => node.ask_for_lane(common),
            Some((question, credit)) => node.look_for_lane(common, question, credit),
        };
        match lane {
            Ok(Lane::Made(lane)) => {
                let _ = self.made[place].set(lane);
            }
            Ok(Lane::Asked(question, credit)) => asked[place] = Some((question, credit)),
            Err(_) => self.is_refused.store(true, Ordering::Relaxed),
        }
    }

    /// The owner has refused lanes, or closed them, before any thread looked: nobody is to ask again.
    pub fn forget_questions(&self, node: &NodeShared, is_over: impl Fn(&Asked) -> bool) {
        let mut asked = lock(&self.asked);
        for (question, _) in asked.iter_mut().filter_map(|asked| asked.take_if(|(question, _)| is_over(question))) {
            self.is_refused.store(true, Ordering::Relaxed);
            node.membership().forget(&question);
        }
    }

    /// The common ring has ended: whatever was asked for and not answered is not wanted any more.
    pub fn end(&self, node: &NodeShared) {
        self.is_refused.store(true, Ordering::Relaxed);
        for (question, credit) in lock(&self.asked).iter_mut().filter_map(Option::take) {
            node.forget_lane(question, credit);
        }
    }
}

/// How far a lane is.
enum Lane {
    Made(Arc<Poster>),
    /// The owner has not answered; the credits would lie here.
    Asked(Asked, Region),
}

impl NodeShared {
    fn ask_for_lane(&self, common: &Poster) -> Result<Lane> {
        let Some(peer) = &common.peer else {
            let (sender, ring, _) = self.ring_here(common.id)?;
            return self.lane(common, sender, ring).map(Lane::Made);
        };
        let credit = self.credit_region()?;
        let question = self.membership().ask_for_ring(peer, common.id, credit.offset() as u64)?;
        Ok(Lane::Asked(question, credit))
    }

    fn look_for_lane(&self, common: &Poster, question: Asked, credit: Region) -> Result<Lane> {
        let Some(answer) = self.membership().answer(&question) else { return Ok(Lane::Asked(question, credit)) };
        let granted = answer?;
        let sender = self.sender_at_owner(question.peer(), common.id, &granted, credit)?;
        self.lane(common, sender, granted.ring).map(Lane::Made)
    }
}

#[cfg(test)]
mod tests {
    use deck_peers::{Broker, Door, Handler, Refusal};
    use deck_sync::Deadline;

    use super::*;
    use crate::mailbox::{Core, MailboxOptions};
    use crate::testing::{SOON, wait_until};

    /// A mail box, the node that it is at, and another one that has cloned it.
    struct Job {
        owner: Arc<NodeShared>,
        core: Arc<Core>,
        poster: Arc<NodeShared>,
        common: Arc<Poster>,
        _broker: Broker,
    }

    impl Job {
        fn start() -> Job {
            let broker = Broker::start("test", 2).unwrap();
            let [owner, poster] = [(); 2].map(|()| NodeShared::join(Door::Invited(broker.invite().unwrap())).unwrap());
            let core = owner.open(Some("box"), &MailboxOptions::default()).unwrap();
            poster.clone_by_id(core.id, Some("box"), Deadline::after(SOON)).unwrap();
            let common = poster.poster_to(core.id).unwrap();
            Job { owner, core, poster, common, _broker: broker }
        }

        fn ask_for_lane(&self) -> &Lanes {
            let lanes = self.common.lanes.get_or_init(Lanes::default);
            lanes.make(&self.poster, &self.common, 0);
            lanes
        }

        fn wait_for_answer(&self, lanes: &Lanes) {
            let said = || lock(&lanes.asked)[0].as_ref().unwrap().0.said().is_some();
            wait_until("the owner answers", said);
        }

        /// As if the owner had closed the common ring.
        fn end_common(&self) {
            self.poster.ring_closed(self.owner.number(), self.common.ring);
        }

        /// Waits until the mail box has no ring but the common one.
        fn wait_until_declined(&self) {
            wait_until("the lane is declined", || {
                let mut free = None;
                let _ = self.core.add_ring(|inbox| {
                    free = inbox.free_place(self.poster.number());
                    Err(Refusal::Full)
                });
                free == Some(1)
            });
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_lane_that_was_granted_when_the_common_ring_ends_is_declined() {
        let job = Job::start();
        job.wait_for_answer(job.ask_for_lane());
        job.end_common();
        job.wait_until_declined();
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_lane_that_is_granted_after_the_common_ring_has_ended_is_declined() {
        let job = Job::start();
        // The owner answers when this is over.
        let _ = job.core.add_ring(|_| {
            job.ask_for_lane();
            job.end_common();
            Err(Refusal::Full)
        });
        wait_until("the owner answers", || lock(&job.poster.abandoned)[0].0.said().is_some());
        job.wait_until_declined();
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_lane_that_is_refused_is_not_asked_for_again_and_leaves_no_question() {
        let job = Job::start();
        job.core.close();
        let lanes = job.ask_for_lane();
        wait_until("the answer is forgotten", || lock(&lanes.asked)[0].is_none());
        job.ask_for_lane();
        assert!(lock(&lanes.asked)[0].is_none());
        job.end_common();
        assert!(lock(&job.poster.abandoned).is_empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_lane_that_is_closed_before_the_common_ring_leaves_no_question() {
        let job = Job::start();
        let lanes = job.ask_for_lane();
        job.wait_for_answer(lanes);
        let granted = lock(&lanes.asked)[0].as_ref().unwrap().0.said().unwrap().as_ref().unwrap().ring;
        job.poster.ring_closed(job.owner.number(), granted);
        job.end_common();
        assert!(lock(&job.poster.abandoned).is_empty());
    }
}
