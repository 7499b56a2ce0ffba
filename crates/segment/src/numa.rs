//! Memory that lies near the thread that asked for it, on machines with several NUMA nodes.
//!
//! A heap is divided among the NUMA nodes as it grows: an area is bound before its pages are allocated, and looked at
//! afterwards. Who asks for a buffer, a ring or a mail box gets it from the part of the NUMA node that its thread runs
//! on at that moment. Where there is one NUMA node nothing is bound and nothing costs anything; where the system
//! refuses to bind, that is told once and pages lie where they are touched first.

#[cfg_attr(any(loom, miri), allow(dead_code, reason = "models and Miri have no machine"))]
mod hwloc;

use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use deck_sync::atomic::{AtomicBool, Ordering};
use deck_sync::told;
use hwloc::Topology;

/// Whether memory is bound to NUMA nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumaChoice {
    /// No.
    Never,
    /// If the system has several.
    #[default]
    Auto,
    /// hwloc is asked how many there are also if the system has one: for descriptions of other machines.
    Always,
}

/// The NUMA nodes that this process may use.
pub struct Numa {
    topology: Option<Topology>,
    /// Their numbers, as the system has them.
    numbers: Vec<u32>,
    /// For each processor the index of the nearest.
    of_processor: Vec<u8>,
    is_refused: AtomicBool,
    is_elsewhere: AtomicBool,
}

impl Numa {
    /// One NUMA node, to which nothing is bound.
    pub fn one() -> Arc<Numa> {
        Arc::new(Numa::divided(None, Vec::new(), Vec::new()))
    }

    /// Those of this machine. hwloc is loaded once for a process, and only where there is something to find.
    pub fn of_this_machine(choice: NumaChoice) -> Arc<Numa> {
        static FOUND: OnceLock<Arc<Numa>> = OnceLock::new();
        let has_several = || {
            let online = told("/sys/devices/system/node/online").unwrap_or_default();
            online.contains([',', '-'])
        };
        if cfg!(any(loom, miri)) || choice == NumaChoice::Never || (choice == NumaChoice::Auto && !has_several()) {
            return Numa::one();
        }
        FOUND
            .get_or_init(|| Topology::of_this_machine().map_or_else(Numa::one, |topology| Arc::new(Numa::of(topology))))
            .clone()
    }

    fn of(topology: Topology) -> Numa {
        let nearest = |processor: u32| Some((processor, topology.nearest(processor)?));
        let pairs: Vec<(u32, u32)> = topology.processors().into_iter().filter_map(nearest).collect();
        let mut numbers: Vec<u32> = pairs.iter().map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        // An index is a byte; there is no machine with more.
        numbers.truncate(usize::from(u8::MAX));
        let last = pairs.iter().map(|(processor, _)| *processor as usize + 1).max().unwrap_or(0);
        let mut of_processor = vec![0; last];
        for (processor, number) in pairs {
            of_processor[processor as usize] = numbers.binary_search(&number).unwrap_or(0) as u8;
        }
        Numa::divided(Some(topology), numbers, of_processor)
    }

    fn divided(topology: Option<Topology>, numbers: Vec<u32>, of_processor: Vec<u8>) -> Numa {
        Numa {
            topology,
            numbers,
            of_processor,
            is_refused: AtomicBool::new(false),
            is_elsewhere: AtomicBool::new(false),
        }
    }

    /// How many parts a heap has: at least 1.
    pub fn count(&self) -> usize {
        self.numbers.len().max(1)
    }

    /// The index of the part that is near to the calling thread, now. No system call, and nothing at all where there is
    /// one.
    #[inline]
    pub fn here(&self) -> usize {
        if self.numbers.len() < 2 { 0 } else { self.of_index(rustix::thread::sched_getcpu()) }
    }

    fn of_index(&self, processor: usize) -> usize {
        self.of_processor.get(processor).map_or(0, |index| usize::from(*index))
    }

    /// Has the pages of a range that are allocated from now on lie in part `index`, if there are several.
    pub fn bind(&self, address: NonNull<u8>, bytes: usize, index: usize) {
        let (Some(topology), Some(number)) = (&self.topology, self.numbers.get(index)) else { return };
        if topology.bind(address, bytes, *number).is_err() {
            self.is_refused.store(true, Ordering::Relaxed);
        }
    }

    /// Looks where the pages of a bound range lie, after they were touched.
    pub fn verify(&self, address: NonNull<u8>, bytes: usize, index: usize) {
        let (Some(topology), Some(number)) = (&self.topology, self.numbers.get(index)) else { return };
        if topology.locate(address, bytes).is_some_and(|found| found.iter().any(|other| other != number)) {
            self.is_elsewhere.store(true, Ordering::Relaxed);
        }
    }

    /// True if ranges are bound and looked at.
    pub fn binds(&self) -> bool {
        self.topology.is_some()
    }

    /// True if the system refused to bind some.
    pub fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    /// True if pages of some turned out to lie on another NUMA node.
    pub fn is_elsewhere(&self) -> bool {
        self.is_elsewhere.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Numa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Numa").field(&self.numbers).finish()
    }
}

#[cfg(all(test, not(any(loom, miri))))]
pub(crate) mod tests {
    use std::ffi::CStr;

    use super::*;

    /// A machine that hwloc describes; `None` where hwloc is not installed, which is told.
    pub(crate) fn described(description: &CStr, is_this_system: bool) -> Option<Arc<Numa>> {
        let topology = Topology::synthetic(description, is_this_system);
        if topology.is_none() {
            println!("not tested: hwloc 2.3 or newer is not installed (libhwloc.so.15)");
        }
        topology.map(|topology| Arc::new(Numa::of(topology)))
    }

    /// This machine, whatever it has.
    pub(crate) fn this_machine() -> Option<Arc<Numa>> {
        Topology::of_this_machine().map(|topology| Arc::new(Numa::of(topology)))
    }

    #[test]
    fn every_processor_has_its_nearest_numa_node() {
        let Some(numa) = described(c"numa:2 core:2 pu:2", false) else { return };
        assert_eq!((numa.count(), &numa.numbers[..]), (2, &[0, 1][..]));
        assert_eq!([0, 3, 4, 7, 100].map(|processor| numa.of_index(processor)), [0, 0, 1, 1, 0]);
    }

    #[test]
    fn numbers_need_not_be_dense_nor_in_order() {
        let Some(numa) = described(c"numa:4(indexes=3,0,7,5) pu:2", false) else { return };
        assert_eq!(numa.numbers, [0, 3, 5, 7]);
        let numbers: Vec<u32> = (0..8).map(|processor| numa.numbers[numa.of_index(processor)]).collect();
        assert_eq!(numbers, [3, 3, 0, 0, 7, 7, 5, 5]);
    }

    #[test]
    fn where_there_is_one_everything_is_in_it() {
        let Some(numa) = described(c"pack:1 [numa] core:4 pu:1", false) else { return };
        assert_eq!((numa.count(), numa.here()), (1, 0));
        assert_eq!((Numa::one().count(), Numa::one().here()), (1, 0));
        assert!(!Numa::of_this_machine(NumaChoice::Never).binds());
    }
}
