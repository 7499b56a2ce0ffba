//! More threads than cores: how those that wait for one another are spread over them.
//!
//! A round of all costs as many switches, one after the other, as the fullest core has threads, less one. The kernel evens out how
//! many a core has, but seldom: it takes threads that give their cores away all the time for busy ones, whose caches are warm.
//! Four processes stayed three and one on two cores for half a second, in which each round took twice as long. So they look at it
//! themselves, now and then, and one of them moves.

use std::time::Duration;

use crate::crowd::{core_mask, current_core, move_to_core};
use crate::deadline::now_ns;

/// Looks in a row that find too many on one core before somebody moves: a thread may be on its way already.
const IN_A_ROW: u32 = 4;
/// From one move to the next, at first; twice as long after each, as the kernel may know better: it sees other programs.
const AT_FIRST: u64 = Duration::from_millis(1).as_nanos() as u64;
const AT_LAST: u64 = Duration::from_secs(1).as_nanos() as u64;

/// What one thread of several remembers of its looks at where they are.
#[derive(Debug)]
pub struct Spread {
    /// Which of the calls look.
    every: u32,
    calls: u32,
    in_a_row: u32,
    moved_at: u64,
    between_moves: u64,
    cores: Vec<Option<u32>>,
}

impl Spread {
    /// One call in `every` looks.
    pub fn new(every: u32) -> Spread {
        Spread { every, calls: 0, in_a_row: 0, moved_at: 0, between_moves: 0, cores: Vec::new() }
    }

    /// The calling thread waits. `cores` tells on which core each was last, if that is known, and as which of them this thread was on
    /// `own`: all of them are to tell them in the same order. Moves it to a core with fewer of them, if that is its part: some tens of
    /// microseconds then.
    #[inline]
    pub fn look(&mut self, own: usize, cores: impl Iterator<Item = Option<u32>>) {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(self.every) {
            self.cores.clear();
            self.cores.extend(cores);
            self.look_closely(own);
        }
    }

    fn look_closely(&mut self, own: usize) {
        let Some(core) = better_core(own, &self.cores, core_mask) else {
            self.in_a_row = 0;
            return;
        };
        self.in_a_row += 1;
        let now = now_ns();
        if self.in_a_row < IN_A_ROW || now < self.moved_at + self.between_moves {
            return;
        }
        // What is told of this thread may be old.
        if self.cores[own] == Some(current_core()) {
            move_to_core(core);
        }
        self.in_a_row = 0;
        (self.moved_at, self.between_moves) = (now, (2 * self.between_moves).clamp(AT_FIRST, AT_LAST));
    }
}

/// The core on which the thread number `own` should be instead of its own: one of `mask` that has fewer of them by two or more, if it is the
/// last of three or more on its own. Two leave it to the kernel: it looks for idle cores all the time.
fn better_core(own: usize, cores: &[Option<u32>], mask: impl FnOnce() -> [u64; 16]) -> Option<u32> {
    let core = (*cores.get(own)?)?;
    let threads_on = |core: u32| cores.iter().filter(|known| **known == Some(core)).count();
    let is_last = cores[own + 1..].iter().all(|known| *known != Some(core));
    let here = threads_on(core);
    if !is_last || here < 3 || cores.contains(&None) {
        return None;
    }
    let mask = mask();
    let is_ours = |core: &u32| mask[*core as usize / 64] >> (core % 64) & 1 == 1;
    let best = (0..64 * mask.len() as u32).filter(is_ours).min_by_key(|core| threads_on(*core))?;
    (threads_on(best) + 2 <= here).then_some(best)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn better(own: usize, cores: &[u32], mask: u64) -> Option<u32> {
        let cores: Vec<Option<u32>> = cores.iter().copied().map(Some).collect();
        let mut all = [0; 16];
        all[0] = mask;
        better_core(own, &cores, || all)
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
    fn nobody_moves_for_nothing_or_where_it_may_not_run_or_nobody_knows() {
        assert_eq!(better(3, &[0, 1, 0, 1], 0b11), None);
        assert_eq!(better(2, &[0, 1, 0], 0b11), None);
        assert_eq!(better(1, &[0, 0], 0b11), None);
        assert_eq!(better(2, &[0, 0, 0], 0b1), None);
        assert_eq!(better_core(2, &[Some(0), Some(0), Some(0), None], || [3; 16]), None);
        assert_eq!(better_core(0, &[None, Some(0)], || [3; 16]), None);
    }

    #[test]
    fn a_thread_that_has_moved_waits_ever_longer_until_it_moves_again() {
        let mut spread = Spread::new(8);
        // Nobody is on the core that this thread is said to be on, so nothing moves.
        let elsewhere = 64 * 16 - 1;
        let mut waits = Vec::new();
        for _ in 0..4 * IN_A_ROW * 8 {
            let moved_at = spread.moved_at;
            spread.look(2, [Some(elsewhere); 3].into_iter());
            if spread.moved_at != moved_at {
                waits.push(spread.between_moves);
                spread.moved_at = 1;
            }
        }
        assert_eq!(waits[..3], [AT_FIRST, 2 * AT_FIRST, 4 * AT_FIRST]);
    }
}
