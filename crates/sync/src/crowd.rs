//! How many threads want to run, and how many cores there are for them.
//!
//! Spinning is the fastest way to wait while every runnable thread has a core, and the slowest (by a factor of 1,000)
//! when it keeps the awaited thread from running. A [`Crowd`] tells which it is: it counts the runnable threads of the
//! whole job on this host.

use std::cell::Cell;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::About;
use crate::spot::Spot;

/// The runnable threads of a job on one host. Counts are shared between processes by the implementation.
pub trait Crowd: Send + Sync {
    /// One more thread of this node wants a core.
    fn resume(&self);
    /// One thread of this node sleeps, or ended.
    fn rest(&self);
    /// True if more threads want to run than there are cores for them.
    fn is_crowded(&self) -> bool;
    /// Where the calling thread is called when it gives `core` away, and others are whose core it is, too. `None` where nobody is called, or
    /// several threads of this node want to run: then they are always taken to have something to do.
    fn spot(&self, _core: u32) -> Option<Spot> {
        None
    }
    /// A thread that is called at `spot` has something to do.
    fn call(&self, _spot: Spot) {}
    /// As [`Crowd::call`], wherever the threads with this place were last.
    fn call_back(&self, _place: u16) {}
    /// The calling thread, which is called at `spot`, has nothing to do until it is called again.
    fn answer(&self, _spot: Spot) {}
    /// True if another thread is called at the core of `spot`.
    fn is_wanted(&self, _spot: Spot) -> bool {
        false
    }
    /// Whoever else is called at the core of `spot` does not seem to come: killed, or on another core by now.
    fn forget_calls(&self, _spot: Spot) {}
    /// The calling thread goes to sleep: notes for others to read what it waits for, and until when. `None` where nobody reads.
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
        let cores = *CORES.get_or_init(|| {
            let in_mask = core_mask().iter().map(|word| word.count_ones()).sum::<u32>().max(1);
            cores_in_quota().map_or(in_mask, |quota| quota.min(in_mask))
        });
        self.runnable.load(Ordering::Relaxed) > cores
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

/// The cores this process may run on, a bit each, for the first 1,024.
pub fn core_mask() -> [u64; 16] {
    let mut mask = [0u64; 16];
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..1024.min(rustix::thread::CpuSet::MAX_CPU)).filter(|core| set.is_set(*core)).for_each(|core| {
            mask[core / 64] |= 1 << (core % 64);
        }),
        Err(_) => mask[0] = 1,
    }
    mask
}

/// The core on which the calling thread runs at this moment. Never blocks.
pub fn current_core() -> u32 {
    rustix::thread::sched_getcpu() as u32
}

/// Whether `core` is one of the cores of `mask`.
pub(crate) fn has_core(mask: &[u64; 16], core: u32) -> bool {
    mask.get(core as usize / 64).is_some_and(|word| word >> (core % 64) & 1 == 1)
}

/// Moves the calling thread to `core`, if it may run there; later the kernel may move it on. True if it did. Some tens of microseconds.
///
/// The cores that it may use are the same afterwards; what another thread says about them meanwhile is lost.
pub(crate) fn move_to_core(core: u32) -> bool {
    only_on(core, || ()).is_some()
}

/// Does something while the calling thread may use `core` only.
fn only_on<T>(core: u32, does: impl FnOnce() -> T) -> Option<T> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let allowed = sched_getaffinity(None).ok()?;
    if core as usize >= CpuSet::MAX_CPU || !allowed.is_set(core as usize) {
        return None;
    }
    let (mut only, mut all) = (CpuSet::new(), CpuSet::new());
    only.set(core as usize);
    (0..CpuSet::MAX_CPU).for_each(|core| all.set(core));
    sched_setaffinity(None, &only).ok()?;
    let done = does();
    // Whoever was not confined by anybody but its control group is to gain the cores that the group gains later.
    let is_as_before = sched_setaffinity(None, &all).is_ok() && sched_getaffinity(None).is_ok_and(|now| now == allowed);
    (is_as_before || sched_setaffinity(None, &allowed).is_ok()).then_some(done)
}

/// The cores that the control group's CPU quota is worth, rounded up; `None` without a quota.
pub fn cores_in_quota() -> Option<u32> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut least: Option<u32> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next(), parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        if !controllers.is_empty() && !controllers.split(',').any(|name| name == "cpu") {
            continue;
        }
        // The quota of any group on the way to the root binds.
        let mut path = path.trim_start_matches('/');
        loop {
            let found = if controllers.is_empty() { quota_v2(path) } else { quota_v1(path) };
            if let Some(cores) = found {
                least = Some(least.map_or(cores, |least| least.min(cores)));
            }
            let Some(cut) = path.rfind('/') else { break };
            path = &path[..cut];
        }
    }
    least
}

fn quota_v2(path: &str) -> Option<u32> {
    parse_quota(&fs::read_to_string(format!("/sys/fs/cgroup/{path}/cpu.max")).ok()?)
}

fn quota_v1(path: &str) -> Option<u32> {
    let read = |file: &str| fs::read_to_string(format!("/sys/fs/cgroup/cpu/{path}/{file}")).ok();
    parse_quota(&format!("{} {}", read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim()))
}

/// `QUOTA PERIOD` in microseconds; `max` or a negative quota is none.
fn parse_quota(text: &str) -> Option<u32> {
    let mut numbers = text.split_whitespace();
    let quota: i64 = numbers.next()?.parse().ok()?;
    let period: i64 = numbers.next()?.parse().ok()?;
    (quota > 0 && period > 0).then(|| u32::try_from((quota + period - 1) / period).unwrap_or(u32::MAX).max(1))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_rounded_up_to_whole_cores() {
        assert_eq!(parse_quota("150000 100000\n"), Some(2));
        assert_eq!(parse_quota("50000 100000"), Some(1));
        assert_eq!(parse_quota("max 100000"), None);
        assert_eq!(parse_quota("-1 100000"), None);
        assert_eq!(parse_quota(""), None);
    }

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

    #[test]
    #[cfg_attr(miri, ignore = "sched_setaffinity")]
    fn a_thread_moves_to_the_cores_that_it_may_use_and_may_use_the_same_ones_after_that() {
        let mask = core_mask();
        let is_own = |core: &u32| has_core(&mask, *core);
        for core in (0..1024).filter(is_own) {
            let seen = only_on(core, || (current_core(), core_mask()[core as usize / 64]));
            assert_eq!(seen, Some((core, 1 << (core % 64))));
            assert_eq!(core_mask(), mask);
        }
        assert!((0..1024).filter(|core| !is_own(core)).all(|core| !move_to_core(core)));
        // Whoever was confined is so afterwards.
        let first = (0..1024).find(is_own).expect("this process runs somewhere");
        let confined = only_on(first, || (move_to_core(first), core_mask()[first as usize / 64]));
        assert_eq!(confined, Some((true, 1 << (first % 64))));
        assert_eq!(core_mask(), mask);
        assert!(!move_to_core(u32::MAX));
    }

    #[test]
    fn this_process_may_run_somewhere() {
        assert!(core_mask().iter().any(|word| *word != 0));
    }
}
