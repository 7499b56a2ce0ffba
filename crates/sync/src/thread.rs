//! What DECK knows of a thread: whether it was cancelled, what it sleeps on, and in whose crowd it runs.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, RwLock, Weak};

use crate::about::About;
use crate::crowd::{Alone, Crowd, Noted};
use crate::deadline::now_ns;
use crate::event::Event;
use crate::fork;
use crate::locks::{lock, read, write};

// The record is never touched under loom's scheduler, so it keeps to std.
use std::sync::atomic::{AtomicBool, Ordering};

/// The events a thread sleeps on; valid while they are in the record, because the sleeper takes them out before it goes
/// on.
struct Bed(Vec<*const Event>);

// SAFETY: `Event` is Sync, and the pointers are dereferenced only under the record's lock while the sleeper still
// borrows the events.
unsafe impl Send for Bed {}

struct Record {
    cancelled: AtomicBool,
    bed: Mutex<Bed>,
}

impl Record {
    fn new() -> Arc<Record> {
        Arc::new(Record { cancelled: AtomicBool::new(false), bed: Mutex::new(Bed(Vec::new())) })
    }
}

thread_local! {
    static RECORD: Arc<Record> = Record::new();
    static MEMBERSHIP: RefCell<Option<Membership>> = const { RefCell::new(None) };
}

/// Counts this thread as runnable in its crowd for as long as both live. A job that its process has left, and of which
/// nothing is used any more, is not kept by threads that go on without it.
struct Membership(Weak<dyn Crowd>);

impl Drop for Membership {
    fn drop(&mut self) {
        if !fork::is_child()
            && let Some(crowd) = self.0.upgrade()
        {
            crowd.rest();
        }
    }
}

/// Makes the calling thread a member of `crowd`: it is counted as runnable there until it ends or moves to another.
pub fn belong_to(crowd: &Arc<dyn Crowd>) {
    let _ = MEMBERSHIP.try_with(|membership| {
        let mut membership = membership.borrow_mut();
        // No later crowd has this place in memory while it is noted here.
        if !membership.as_ref().is_some_and(|member| ptr::addr_eq(member.0.as_ptr(), Arc::as_ptr(crowd))) {
            crowd.resume();
            *membership = Some(Membership(Arc::downgrade(crowd)));
        }
    });
}

/// The crowd that the calling thread is a member of.
fn own_crowd() -> Option<Arc<dyn Crowd>> {
    MEMBERSHIP.try_with(|membership| membership.borrow().as_ref().and_then(|member| member.0.upgrade())).ok().flatten()
}

/// The crowd of the job that this process has joined last.
static HOME: RwLock<Option<Weak<dyn Crowd>>> = RwLock::new(None);

/// From now on threads that have not waited for anything of a job yet count as belonging to `crowd`, as long as it
/// lives.
pub fn set_home_crowd(crowd: &Arc<dyn Crowd>) {
    *write(&HOME) = Some(Arc::downgrade(crowd));
}

/// The crowd that the calling thread belongs to: that of the job for something of which it has waited last, or else
/// that of the job that this process has joined last, or else of this process alone.
pub fn crowd_of_this_thread() -> Arc<dyn Crowd> {
    // A child is in no job, and would tell of itself in its parent's name.
    if fork::is_child() {
        return Alone::shared();
    }
    let home = || read(&HOME).as_ref().and_then(Weak::upgrade);
    own_crowd().or_else(home).unwrap_or_else(Alone::shared)
}

thread_local!(static LOCKER: Cell<Option<u32>> = const { Cell::new(None) });

/// The number by which the calling thread stands in mutexes, if it has used any.
pub fn locker_number() -> Option<u32> {
    LOCKER.try_with(Cell::get).ok().flatten()
}

/// The calling thread stands in mutexes by this number: whoever looks on can tell which thread holds one.
pub fn set_locker_number(number: u32) {
    let _ = LOCKER.try_with(|locker| locker.set(Some(number)));
}

/// Runs what blocks outside of DECK; meanwhile the calling thread is not counted as runnable in its crowd, and those
/// who look on are told what it waits for. Without end.
pub fn rest_while<T>(about: &About<'_>, blocks: impl FnOnce() -> T) -> T {
    struct Resume(Arc<dyn Crowd>);
    impl Drop for Resume {
        fn drop(&mut self) {
            self.0.resume();
        }
    }
    let home = crowd_of_this_thread();
    let _noted = Noted::new(home.as_ref(), about, now_ns(), u64::MAX);
    let _resume = own_crowd().map(|crowd| {
        crowd.rest();
        Resume(crowd)
    });
    blocks()
}

/// Ends the present or next DECK wait of one thread.
#[derive(Clone)]
pub struct Canceller(Arc<Record>);

impl Canceller {
    /// The canceller of the calling thread.
    pub fn of_this_thread() -> Canceller {
        // Of a thread that is ending, and has no record any more, nobody cancels anything.
        Canceller(RECORD.try_with(Arc::clone).unwrap_or_else(|_| Record::new()))
    }

    /// The thread's present or next DECK wait ends with `Cancelled`. Never blocks. Does nothing in a forked child.
    pub fn cancel(&self) {
        // A child has but one thread, and whoever has the lock may not be there.
        if fork::is_child() {
            return;
        }
        // Pairs with: thread/cancel. The flag is set before the bed is looked at; a thread that lies down later sees
        // it.
        self.0.cancelled.store(true, Ordering::SeqCst);
        let bed = lock(&self.0.bed);
        for event in &bed.0 {
            // SAFETY: the sleeper takes its events out of the bed under this lock before it lets go of them.
            unsafe { &**event }.notify();
        }
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_cancelled = self.0.cancelled.load(Ordering::Relaxed);
        f.write_str(if is_cancelled { "Canceller(cancelled)" } else { "Canceller" })
    }
}

/// Takes a cancellation of this thread, if there is one: it counts for one wait only.
pub(crate) fn take_cancellation() -> bool {
    // Pairs with: thread/cancel. Whoever goes to sleep is in bed before it looks here.
    RECORD
        .try_with(|record| record.cancelled.load(Ordering::Relaxed) && record.cancelled.swap(false, Ordering::SeqCst))
        .unwrap_or(false)
}

/// Publishes what this thread is about to sleep on while `sleep` runs, so that a cancellation can wake it.
/// `sleep` has to look for a cancellation after it has noted the counts of the events.
///
/// What is waited for may be a question of the program's, which waits for something else before it answers: then the
/// thread is still in bed for the first wait when the second one is over.
pub(crate) fn in_bed<R>(events: &[&Event], sleep: impl FnOnce() -> R) -> R {
    struct Up<'a>(&'a Record, usize);
    impl Drop for Up<'_> {
        fn drop(&mut self) {
            lock(&self.0.bed).0.truncate(self.1);
        }
    }
    let Ok(record) = RECORD.try_with(Arc::clone) else { return sleep() };
    let before = {
        let mut bed = lock(&record.bed);
        let before = bed.0.len();
        bed.0.extend(events.iter().map(|event| ptr::from_ref(*event)));
        before
    };
    let _up = Up(&record, before);
    sleep()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_wakes_whoever_has_waited_for_something_else_in_between() {
        let (first, second) = (Event::new(), Event::new());
        let canceller = Canceller::of_this_thread();
        in_bed(&[&first], || {
            in_bed(&[&second], || ());
            let before = (first.count(), second.count());
            canceller.cancel();
            assert_ne!(first.count(), before.0);
            assert_eq!(second.count(), before.1);
        });
        let before = first.count();
        canceller.cancel();
        assert_eq!(first.count(), before);
        assert!(take_cancellation());
    }

    #[cfg(not(miri))]
    #[test]
    fn a_forked_child_cancels_nobody_and_waits_for_nobody_for_that() {
        let record = Record::new();
        let _elsewhere = lock(&record.bed);
        assert!(fork::child_finds(|| {
            Canceller(record.clone()).cancel();
            !record.cancelled.load(Ordering::Relaxed)
        }));
    }

    #[cfg(not(miri))]
    #[test]
    fn a_forked_child_is_not_in_the_crowd_of_its_parent() {
        let crowd: Arc<dyn Crowd> = Arc::new(Alone::default());
        belong_to(&crowd);
        assert!(Arc::ptr_eq(&crowd_of_this_thread(), &crowd));
        assert!(fork::child_finds(|| !Arc::ptr_eq(&crowd_of_this_thread(), &crowd)));
    }

    #[test]
    fn a_thread_that_goes_on_keeps_no_crowd() {
        let (first, second): (Arc<dyn Crowd>, Arc<dyn Crowd>) =
            (Arc::new(Alone::default()), Arc::new(Alone::default()));
        belong_to(&first);
        assert!(Arc::ptr_eq(&crowd_of_this_thread(), &first));
        let known = Arc::downgrade(&first);
        drop(first);
        assert!(known.upgrade().is_none());
        assert!(!Arc::ptr_eq(&crowd_of_this_thread(), &second));
        belong_to(&second);
        assert!(Arc::ptr_eq(&crowd_of_this_thread(), &second));
    }

    #[test]
    fn a_thread_that_is_ending_has_a_canceller_that_cancels_nobody() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                Canceller::of_this_thread().cancel();
            }
        }
        thread_local!(static LATE: Late = const { Late });
        let ended = std::thread::spawn(|| {
            // What is used first goes last.
            LATE.with(|_| ());
            Canceller::of_this_thread()
        });
        ended.join().unwrap().cancel();
    }
}
