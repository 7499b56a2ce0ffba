//! How many threads want to run, and how many cores there are for them.
//!
//! Spinning is the fastest way to wait while every runnable thread has a core, and the slowest (by a factor of 1,000)
//! when it keeps the awaited thread from running. A [`Crowd`] tells which it is: it counts the runnable threads of the
//! whole job on this host.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::About;
use crate::machine::cores::usable_cores;
use crate::wait::spot::Spot;

/// The runnable threads of a job on one host. Counts are shared between processes by the implementation.
pub trait Crowd: Send + Sync {
    /// One more thread of this node wants a core.
    fn resume(&self);
    /// One thread of this node sleeps, or ended.
    fn rest(&self);
    /// True if more threads want to run than there are cores for them.
    fn is_crowded(&self) -> bool;
    /// Where the calling thread is called when it gives `core` away, and others are whose core it is, too. `None` where
    /// nobody is called, or several threads of this node want to run: then they are always taken to have something to
    /// do.
    fn spot(&self, _core: u32) -> Option<Spot> {
        None
    }
    /// A thread that is called at `spot` has something to do.
    fn call(&self, _spot: Spot) {}
    /// As [`Crowd::call`], wherever the threads with this place were last.
    fn call_back(&self, _place: u16) {}
    /// The calling thread, which is called at `spot`, has nothing to do until it is called again. How often others got
    /// that core since it was called and had nothing to do there.
    fn answer(&self, _spot: Spot) -> u32 {
        0
    }
    /// True if another thread is called at the core of `spot`, which the calling one gives away then. Those who are
    /// called are told, unless there are too many for that to help.
    fn is_wanted(&self, _spot: Spot) -> bool {
        false
    }
    /// Whoever else is called at the core of `spot` does not seem to come: killed, or on another core by now.
    fn forget_calls(&self, _spot: Spot) {}
    /// The calling thread goes to sleep: notes for others to read what it waits for, and until when. `None` where
    /// nobody reads.
    fn note(&self, _about: &About<'_>, _since_ns: u64, _until_ns: u64) -> Option<u32> {
        None
    }
    /// What was noted is over.
    fn forget(&self, _note: u32) {}
}

/// For how many nanoseconds an answer holds: to ask takes as long as several looks, and a crowd lasts.
const HOLDS: u64 = if cfg!(loom) { 0 } else { Duration::from_micros(20).as_nanos() as u64 };

/// As [`Crowd::is_crowded`], or as it was when the calling thread asked this crowd a moment before `now_ns`.
pub(crate) fn is_crowded(crowd: &dyn Crowd, now_ns: u64) -> bool {
    thread_local! {
        /// Whom, until when the answer holds, and the answer.
        static ASKED: Cell<(usize, u64, bool)> = const { Cell::new((0, 0, false)) };
    }
    let whom = std::ptr::from_ref(crowd).addr();
    let (asked, until_ns, answer) = ASKED.get();
    if asked == whom && now_ns < until_ns {
        return answer;
    }
    let answer = crowd.is_crowded();
    ASKED.set((whom, now_ns + HOLDS, answer));
    answer
}

/// What the calling thread has noted for others to read; taken back when dropped.
pub(crate) struct Noted<'a>(&'a dyn Crowd, u32);

impl<'a> Noted<'a> {
    /// As [`Crowd::note`].
    pub fn new(crowd: &'a dyn Crowd, about: &About<'_>, since_ns: u64, until_ns: u64) -> Option<Noted<'a>> {
        crowd.note(about, since_ns, until_ns).map(|note| Noted(crowd, note))
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}

/// The threads of a process that is in no job: counted in the process only.
#[derive(Debug, Default)]
pub struct Alone {
    runnable: AtomicU32,
}

impl Alone {
    /// The one crowd of this process.
    pub fn shared() -> Arc<dyn Crowd> {
        static SHARED: OnceLock<Arc<Alone>> = OnceLock::new();
        SHARED.get_or_init(Arc::default).clone()
    }
}

impl Crowd for Alone {
    fn resume(&self) {
        // Relaxed: a hint about load, orders nothing.
        self.runnable.fetch_add(1, Ordering::Relaxed);
    }

    fn rest(&self) {
        self.runnable.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_crowded(&self) -> bool {
        static CORES: OnceLock<u32> = OnceLock::new();
        self.runnable.load(Ordering::Relaxed) > *CORES.get_or_init(usable_cores)
    }
}

/// The crowd of a model: loom's threads have no cores to share.
#[cfg(loom)]
pub struct Calm;

#[cfg(loom)]
impl Crowd for Calm {
    fn resume(&self) {}
    fn rest(&self) {}
    fn is_crowded(&self) -> bool {
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_a_while_and_for_one_crowd_only() {
        #[derive(Default)]
        struct Asked(AtomicU32);
        impl Crowd for Asked {
            fn resume(&self) {}
            fn rest(&self) {}
            fn is_crowded(&self) -> bool {
                self.0.fetch_add(1, Ordering::Relaxed) == 0
            }
        }
        let [one, other] = [Asked::default(), Asked::default()];
        let answers = [(&one, 1), (&one, HOLDS), (&one, HOLDS + 1), (&other, HOLDS + 2)]
            .map(|(crowd, now)| is_crowded(crowd, now));
        assert_eq!(answers, [true, true, false, true]);
        assert_eq!(one.0.into_inner(), 2);
    }
}
