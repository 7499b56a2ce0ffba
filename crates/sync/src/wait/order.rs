//! More threads than cores: in which order those that give a core to one another get it back.
//!
//! The kernel goes round: whoever gives the core away gets it back when all others on it had it. The order in which it
//! does so stays the same, and has nothing to do with the order in which the threads have something to do for one
//! another. Four threads that pass a token round on a core, and get it back in the wrong order, make two switches for
//! each hop in the mean, or three. Those who get it for nothing see who is called there ([`crate::Spot`]), and tell
//! that one that it was passed over. A thread that is passed over often moves in the kernel's queue, to a place that is
//! a matter of chance. Who comes right behind the one that it waits for stays where it is. Of the orders of three
//! threads every other one is right, of four one in six.
//!
//! It moves by its *slice*, the time after which the kernel lets others run: whoever gives the core away is put behind
//! those whose slices end before its own, and all slices are alike. One that is shorter, for one time, puts it further
//! to the front among those that will do the same after it (earliest eligible virtual deadline first: Stoica and
//! Abdel-Wahab, 1995; Linux from 6.12 on lets a thread choose its slice). What it gains by that is less than a slice.
//! Measurements: `docs/design/005-one-wait-loop.md`.

use std::cell::Cell;

use crate::atomic::yield_now;

/// Waits that end after a thread has given its core away until it is called, from one judgement of the order to the
/// next: at first, and at last. Twice as many after each one that was bad: there are waits for which no order is right.
const FIRST: u32 = 32;
const LAST: u32 = 128;
/// The order is bad if a thread is passed over more than once in so many times.
const FEW: u32 = 3;
/// Counted of one time. What is more has nothing to do with the order: the kernel has moved the thread, or somebody
/// else has the core.
const MOST: u32 = 3;

/// How a thread got its core back lately, when it was called.
#[derive(Clone, Copy)]
struct Order {
    times: u32,
    passed_over: u32,
    until_judged: u32,
    is_to_move: bool,
}

thread_local! {
    static ORDER: Cell<Order> = const { Cell::new(Order::NEW) };
}

impl Order {
    const NEW: Order = Order { times: 0, passed_over: 0, until_judged: FIRST, is_to_move: false };

    fn came_back(&mut self, passed_over: u32) {
        self.times += 1;
        self.passed_over += passed_over.min(MOST);
        if self.times < self.until_judged {
            return;
        }
        self.is_to_move = self.passed_over > self.times / FEW;
        self.until_judged = if self.is_to_move { (2 * self.until_judged).min(LAST) } else { FIRST };
        (self.times, self.passed_over) = (0, 0);
    }
}

/// The core of the calling thread is back, and what it waits for is there. Since it was called there, others got the
/// core so many times and had nothing to do.
pub(crate) fn came_back(passed_over: u32) {
    let mut order = ORDER.get();
    order.came_back(passed_over);
    ORDER.set(order);
}

/// Gives the core to another runnable thread, and in a bad order to get it back at another place. Never blocks; five or
/// six more system calls then.
pub(crate) fn give_way() {
    let order = ORDER.get();
    if !order.is_to_move {
        return yield_now();
    }
    ORDER.set(Order { is_to_move: false, ..order });
    slice::yield_with_another();
}

#[cfg(not(loom))]
mod slice {
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::atomic::yield_now;
    use crate::deadline::now_ns;

    /// The shortest slice that the kernel takes, in nanoseconds.
    const SHORTEST: u64 = 100_000;

    /// Whether slices cannot be chosen: by an older kernel, or a filter of system calls.
    static IS_REFUSED: AtomicBool = AtomicBool::new(false);

    const SIZE: u32 = size_of::<libc::sched_attr>() as u32;

    /// How the calling thread is scheduled.
    fn attributes() -> Option<libc::sched_attr> {
        let mut found = libc::sched_attr {
            size: 0,
            sched_policy: 0,
            sched_flags: 0,
            sched_nice: 0,
            sched_priority: 0,
            sched_runtime: 0,
            sched_deadline: 0,
            sched_period: 0,
        };
        // SAFETY: the kernel writes no more than `SIZE` bytes to `found`, which has so many and is plain numbers.
        let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, SIZE, 0) };
        (result == 0).then_some(found)
    }

    /// Whether it is scheduled in the usual way, in which slices count.
    fn is_usual(attributes: &libc::sched_attr) -> bool {
        attributes.sched_policy == libc::SCHED_OTHER as u32
    }

    fn set(attributes: &libc::sched_attr) -> bool {
        // SAFETY: the kernel reads the numbers of `attributes`, whose size is told in it, and changes nothing but how
        // this thread is scheduled.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attributes), 0) == 0 }
    }

    /// Chooses the slice of the calling thread; 0 is that of the system. All else stays as it is, also if somebody has
    /// changed it since.
    pub fn choose(slice: u64) -> bool {
        attributes().is_some_and(|now| !is_usual(&now) || set(&libc::sched_attr { sched_runtime: slice, ..now }))
    }

    /// Gives the core away with another slice than usual, by chance.
    #[cold]
    pub fn yield_with_another() {
        // Relaxed, here and below: whoever does not see it is refused once more.
        if IS_REFUSED.load(Ordering::Relaxed) {
            return yield_now();
        }
        let usual = match attributes() {
            Some(found) if !is_usual(&found) => return yield_now(),
            // Older kernels have no slices to choose, and tell none.
            Some(found) if found.sched_runtime > SHORTEST => Some(found.sched_runtime),
            _ => None,
        };
        let is_set = usual.is_some_and(|usual| choose(SHORTEST + chance() % (usual - SHORTEST)));
        yield_now();
        // That of the system, unless somebody had chosen one.
        let is_as_before = |usual| {
            choose(0) && attributes().is_some_and(|now| now.sched_runtime == usual || !is_usual(&now) || choose(usual))
        };
        if !is_set || !usual.is_some_and(is_as_before) {
            IS_REFUSED.store(true, Ordering::Relaxed);
        }
    }

    /// Policy, flags, niceness and slice.
    #[cfg(test)]
    pub fn of_this_thread() -> Option<(u32, u64, i32, u64)> {
        attributes().map(|of| (of.sched_policy, of.sched_flags, of.sched_nice, of.sched_runtime))
    }

    /// A number by chance: the last bits of the time, spread over all (Knuth's multiplicative hash).
    fn chance() -> u64 {
        now_ns().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
    }
}

#[cfg(loom)]
mod slice {
    pub fn yield_with_another() {
        super::yield_now();
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use super::*;

    /// Is called `times` times, and passed over in one of `one_in`. Whether it is to move then.
    fn is_called(order: &mut Order, times: u32, one_in: u32) -> bool {
        (0..times).for_each(|time| order.came_back(u32::from(time % one_in == 0)));
        order.is_to_move
    }

    #[test]
    fn who_is_often_passed_over_moves_and_more_seldom_if_that_does_not_help() {
        let mut order = Order::NEW;
        assert!(!is_called(&mut order, 4 * FIRST, FEW + 1), "that is not often");
        assert!(!is_called(&mut order, FIRST - 1, 2), "too early to tell");
        assert!(is_called(&mut order, 1, 2));
        let mut moved_after = Vec::new();
        for _ in 0..4 {
            moved_after.push(order.until_judged);
            assert!(is_called(&mut order, moved_after[moved_after.len() - 1], 2));
        }
        assert_eq!(moved_after, [2 * FIRST, LAST, LAST, LAST]);
        assert!(!is_called(&mut order, LAST, FEW + 1), "the order is right");
        assert!(is_called(&mut order, FIRST, 1), "it is judged as often as at first");
    }

    #[test]
    fn what_another_process_tells_may_be_anything() {
        let mut order = Order::NEW;
        (0..FIRST).for_each(|_| order.came_back(u32::MAX));
        assert!(order.is_to_move);
    }

    #[test]
    fn one_bad_time_decides_nothing() {
        let mut order = Order::NEW;
        order.came_back(256);
        (1..FIRST).for_each(|_| order.came_back(0));
        assert!(!order.is_to_move && order.times == 0);
    }

    /// Whether the calling thread moves when it gives way next.
    pub fn is_to_move() -> bool {
        ORDER.get().is_to_move
    }

    pub const ENOUGH: u32 = FIRST;

    #[test]
    #[cfg_attr(miri, ignore = "sched_setattr")]
    fn who_has_moved_is_scheduled_as_before_with_the_slice_of_the_system_or_its_own() {
        let Some((_, _, _, usual)) = slice::of_this_thread() else { return };
        for own in [0, usual / 2] {
            assert!(own == 0 || slice::choose(own));
            let before = slice::of_this_thread();
            for _ in 0..3 {
                ORDER.set(Order { is_to_move: true, ..Order::NEW });
                give_way();
                assert!(!ORDER.get().is_to_move);
            }
            assert_eq!(slice::of_this_thread(), before);
        }
    }
}
