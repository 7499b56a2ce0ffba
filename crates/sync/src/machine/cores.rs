//! Where threads of this process may run, how many at a time, and how one moves to another core.

use std::path::Path;

use crate::machine::control_groups;
use crate::machine::told::told;

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
    // Miri has no call for it, and knows no cores.
    if cfg!(miri) { 0 } else { rustix::thread::sched_getcpu() as u32 }
}

/// Whether `core` is one of the cores of `mask`.
pub(crate) fn has_core(mask: &[u64; 16], core: u32) -> bool {
    mask.get(core as usize / 64).is_some_and(|word| word >> (core % 64) & 1 == 1)
}

/// Moves the calling thread to `core`, if it may run there; later the kernel may move it on. True if it did. Some tens
/// of microseconds.
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

/// How many threads of this process can run at a time: its cores, or what the quota of its control group is worth where
/// that is less.
pub fn usable_cores() -> u32 {
    let in_mask = core_mask().iter().map(|word| word.count_ones()).sum::<u32>().max(1);
    cores_in_quota().map_or(in_mask, |quota| quota.min(in_mask))
}

/// The cores that the CPU quota is worth, rounded up; `None` without a quota. That of any group on the way to the root
/// binds.
fn cores_in_quota() -> Option<u32> {
    control_groups::folders("cpu").filter_map(|folder| quota(&folder)).min()
}

fn quota(folder: &Path) -> Option<u32> {
    let read = |file: &str| told(folder.join(file));
    let version_1 = || Some(format!("{} {}", read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim()));
    parse_quota(&read("cpu.max").or_else(version_1)?)
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
