//! More threads than cores: how those that wait for one another are spread over them.
//!
//! A round of all costs as many switches, one after the other, as the fullest core has threads, less one. The kernel
//! evens out how many a core has, but seldom: it takes threads that give their cores away all the time for busy ones,
//! whose caches are warm. Four processes stayed three and one on two cores for half a second, in which each round took
//! twice as long. So they look at it themselves, now and then, and one of them moves.

use std::cell::Cell;
use std::time::Duration;

use crate::deadline::now_ns;
use crate::machine::cores::{core_mask, current_core, has_core, move_to_core};

/// Looks in a row that find too many on one core before somebody moves: a thread may be on its way already.
const IN_A_ROW: u32 = 4;
/// From one try to move to the next, at first; twice as long after each, as the kernel may know better: it sees other
/// programs.
const AT_FIRST: u64 = Duration::from_millis(1).as_nanos() as u64;
const AT_LAST: u64 = Duration::from_secs(1).as_nanos() as u64;

/// What one thread of several remembers of its looks at where they are.
#[derive(Debug)]
pub struct Spread {
    /// Which of the calls look.
    every: u32,
    calls: u32,
    in_a_row: u32,
    cores: Vec<Option<u32>>,
    /// The cores that this thread may use, as far as it knows.
    mask: Option<[u64; 16]>,
}

thread_local! {
    /// When the calling thread may try to move, and for how long it waits after that: for all its spreads.
    static NEXT_TRY: Cell<(u64, u64)> = const { Cell::new((0, AT_FIRST)) };
}

impl Spread {
    /// One call in `every` looks.
    pub fn new(every: u32) -> Spread {
        Spread { every, calls: 0, in_a_row: 0, cores: Vec::new(), mask: None }
    }

    /// Counts a call: true if it is one that looks.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        self.calls.is_multiple_of(self.every)
    }

    /// The calling thread waits in a crowd. `cores` tells on which core each was last, if that is known, and as which
    /// of them this thread was on `own`: all of them are to tell them in the same order. Moves it to a core with fewer
    /// of them, if that is its part: some tens of microseconds then. Allocates at the first look.
    pub fn look(&mut self, own: usize, cores: impl Iterator<Item = Option<u32>>) {
        self.cores.clear();
        self.cores.extend(cores);
        let Some(core) = better_core(own, &self.cores, self.mask.get_or_insert_with(core_mask)) else {
            self.in_a_row = 0;
            return;
        };
        self.in_a_row += 1;
        let now = now_ns();
        let (next, between) = NEXT_TRY.get();
        if self.in_a_row < IN_A_ROW || now < next {
            return;
        }
        // What is told of this thread may be old.
        if self.cores[own] == Some(current_core()) {
            move_to_core(core);
        }
        (self.in_a_row, self.mask) = (0, None);
        NEXT_TRY.set((now + between, (2 * between).min(AT_LAST)));
    }
}

/// The core on which the thread number `own` should be instead of its own: one of `mask` that has fewer of them by two
/// or more, if its own is the fullest, with three or more, and it is the last one there. Two leave it to the kernel: it
/// looks for idle cores all the time.
fn better_core(own: usize, cores: &[Option<u32>], mask: &[u64; 16]) -> Option<u32> {
    let core = (*cores.get(own)?)?;
    let threads_on = |core: u32| cores.iter().filter(|known| **known == Some(core)).count();
    let is_last = cores[own + 1..].iter().all(|known| *known != Some(core));
    let here = threads_on(core);
    if !is_last || here < 3 || cores.contains(&None) {
        return None;
    }
    // One core at a time sends one, so that not all send theirs to the same.
    let is_fuller = |other: u32| threads_on(other) > here || (threads_on(other) == here && other < core);
    if cores.iter().flatten().any(|other| is_fuller(*other)) {
        return None;
    }
    let bits = 64 * mask.len() as u32;
    let others = (1..bits).map(|further| core.wrapping_add(further) % bits);
    let best = others.filter(|core| has_core(mask, *core)).min_by_key(|core| threads_on(*core))?;
    (threads_on(best) + 2 <= here).then_some(best)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn better(own: usize, cores: &[u32], mask: u64) -> Option<u32> {
        let cores: Vec<Option<u32>> = cores.iter().copied().map(Some).collect();
        let mut all = [0; 16];
        all[0] = mask;
        better_core(own, &cores, &all)
    }

    #[test]
    fn the_last_one_on_the_fullest_core_moves_to_the_emptiest() {
        assert_eq!(better(3, &[0, 1, 0, 0], 0b11), Some(1));
        assert_eq!([0, 1, 2].map(|own| better(own, &[0, 1, 0, 0], 0b11)), [None; 3]);
        assert_eq!(better(3, &[1, 1, 1, 1], 0b11), Some(0));
        assert_eq!(better(7, &[0, 0, 0, 0, 1, 1, 1, 0], 0b11), Some(1));
        assert_eq!(better(4, &[0, 1, 2, 0, 0], 0b1111), Some(3));
    }

    #[test]
    fn of_two_cores_that_are_as_full_one_sends_one_and_to_the_next_empty_one() {
        let cores = [0, 0, 0, 2, 2, 2];
        let moves: Vec<_> = (0..6).map(|own| better(own, &cores, 0b1111)).collect();
        assert_eq!(moves, [None, None, Some(1), None, None, None]);
        assert_eq!(better(2, &[2, 2, 2], 0b1111), Some(3));
    }

    #[test]
    fn nobody_moves_for_nothing_or_where_it_may_not_run_or_nobody_knows() {
        assert_eq!(better(3, &[0, 1, 0, 1], 0b11), None);
        assert_eq!(better(2, &[0, 1, 0], 0b11), None);
        assert_eq!(better(1, &[0, 0], 0b11), None);
        assert_eq!(better(2, &[0, 0, 0], 0b1), None);
        assert_eq!(better_core(2, &[Some(0), Some(0), Some(0), None], &[3; 16]), None);
        assert_eq!(better_core(0, &[None, Some(0)], &[3; 16]), None);
    }

    #[test]
    fn what_another_process_wrote_may_be_anything() {
        let far = u32::MAX;
        assert_eq!(better(2, &[far; 3], 0b10), Some(1));
        assert_eq!(better(3, &[far; 3], 0b10), None);
        assert_eq!(better(2, &[far; 3], 0), None);
    }

    #[test]
    fn a_thread_that_wants_to_move_tries_ever_more_seldom() {
        let mut spread = Spread::new(1);
        // Nobody is on the core that this thread is said to be on, so nothing moves.
        let mut look = || spread.look(2, [Some(64 * 16 - 1); 3].into_iter());
        let mut waits = Vec::new();
        for _ in 0..4 * IN_A_ROW {
            let (_, between) = NEXT_TRY.get();
            look();
            if NEXT_TRY.get().1 != between {
                waits.push(between);
                NEXT_TRY.set((0, NEXT_TRY.get().1));
            }
        }
        assert_eq!(waits, [AT_FIRST, 2 * AT_FIRST, 4 * AT_FIRST, 8 * AT_FIRST]);
        NEXT_TRY.set((u64::MAX, AT_LAST));
        (0..2 * IN_A_ROW).for_each(|_| look());
        assert_eq!(NEXT_TRY.get(), (u64::MAX, AT_LAST), "not before it is time");
    }

    #[test]
    fn one_call_in_so_many_looks() {
        let mut spread = Spread::new(8);
        assert_eq!((0..24).filter(|_| spread.is_due()).count(), 3);
    }
}
