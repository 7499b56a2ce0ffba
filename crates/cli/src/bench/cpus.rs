//! Which processors a measurement runs on.

use std::fs;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Two processors of different cores, of one package if possible: what two nodes get that do not disturb one another.
/// Nothing if this process may only use one processor.
pub fn pair() -> Option<[usize; 2]> {
    let allowed = sched_getaffinity(None).ok()?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let places: Vec<(usize, Place)> = allowed.into_iter().map(|cpu| (cpu, Place::of(cpu))).collect();
    choose(&places)
}

/// Which processors the calling thread ran on; it does so again when this is dropped.
pub struct Moved(CpuSet);

impl Moved {
    /// Nothing has changed yet.
    pub fn not_yet() -> io::Result<Moved> {
        Ok(Moved(sched_getaffinity(None)?))
    }

    /// Keeps the calling thread on `cpus`, and with it what it starts from now on: processes with all their threads,
    /// from their very beginning.
    pub fn to(&self, cpus: &[usize]) -> io::Result<()> {
        let mut only = CpuSet::new();
        cpus.iter().for_each(|cpu| only.set(*cpu));
        Ok(sched_setaffinity(None, &only)?)
    }
}

/// Keeps the calling thread on `cpu` for good.
pub fn stay(cpu: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    Ok(sched_setaffinity(None, &only)?)
}

impl Drop for Moved {
    fn drop(&mut self) {
        // What was allowed before is allowed still, unless somebody else has just taken it away: then that holds.
        let _ = sched_setaffinity(None, &self.0);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    package: Option<u64>,
    core: Option<u64>,
}

impl Place {
    fn of(cpu: usize) -> Place {
        let read = |what| {
            let text = fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{what}")).ok()?;
            text.trim().parse().ok()
        };
        Place { package: read("physical_package_id"), core: read("core_id") }
    }
}

fn choose(places: &[(usize, Place)]) -> Option<[usize; 2]> {
    let (&(first, here), others) = places.split_first()?;
    let better = |place: Place| match (place.package == here.package, place.core == here.core) {
        (true, false) => 0,
        (false, _) => 1,
        (true, true) => 2,
    };
    let (second, _) = others.iter().min_by_key(|(_, place)| better(*place))?;
    Some([first, *second])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(places: &[(u64, u64)]) -> Option<[usize; 2]> {
        let place = |&(package, core)| Place { package: Some(package), core: Some(core) };
        choose(&places.iter().map(place).enumerate().collect::<Vec<_>>())
    }

    #[test]
    fn what_is_started_meanwhile_stays_on_its_processor_and_the_thread_comes_back() {
        let here = sched_getaffinity(None).unwrap();
        let last = (0..CpuSet::MAX_CPU).rfind(|&cpu| here.is_set(cpu)).unwrap();
        let moved = Moved::not_yet().unwrap();
        moved.to(&[last]).unwrap();
        let started = std::process::Command::new("grep").args(["Cpus_allowed_list", "/proc/self/status"]).output();
        drop(moved);
        assert_eq!(String::from_utf8(started.unwrap().stdout).unwrap(), format!("Cpus_allowed_list:\t{last}\n"));
        assert!(sched_getaffinity(None).unwrap() == here);
    }

    #[test]
    fn another_core_of_the_same_package_is_best_and_a_sibling_worst() {
        assert_eq!(chosen(&[(0, 0), (0, 0), (1, 0), (0, 1)]), Some([0, 3]));
        assert_eq!(chosen(&[(0, 0), (0, 0), (1, 0)]), Some([0, 2]));
        assert_eq!(chosen(&[(0, 0), (0, 0)]), Some([0, 1]));
        assert_eq!(chosen(&[(0, 0)]), None);
    }
}
