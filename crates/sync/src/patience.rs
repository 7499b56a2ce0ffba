//! How long a thread looks before it gives its core away, when there are more threads than cores.
//!
//! Two things can be true in a crowd. Whoever would make the condition true runs on another core right now: a few looks
//! more and it is there, while giving the core away costs both of them a switch. Or it waits for this very core: then
//! every look is lost. Which one it is depends on what the program does (two threads that talk to each other, a token
//! that is passed round), not on how many threads there are. So a thread goes by what its last waits were like, and now and
//! then tries whether that has changed.
//!
//! Some waits know better: where those ran last for whom they wait ([`Whereabouts`]). If one of them needs this very core, it is
//! given away at once. If all are on other cores, giving this one away brings nothing nearer, and those who share it with this
//! thread would find that they have nothing to do either.
//!
//! Without a crowd, nobody is held up by a thread that looks. So a wait begins with a few looks that nothing comes before: not even the
//! clock is read, as long as such looks find what they look for.
//!
//! It also gives its core away when it had it for long: threads that answer one another fast enough would never do so, and
//! others would wait for the end of their time slices. Whoever comes back after such a turn of the others takes it that its
//! partner does so at the same time.

use std::cell::Cell;
use std::time::Duration;

use crate::wait::{Waiting, Whereabouts};

/// How many nanoseconds a thread looks before it gives its core away if the others seem to run. Time and not a number of looks: one at
/// many rings takes as long as several at one.
const LONG: u64 = 1500;
/// If they seem not to: an answer comes in this time from a thread that runs.
const SHORT: u64 = 300;
/// If the others are known to be on other cores: a few switches there.
const ELSEWHERE: u64 = 4500;
/// A thread's doubt grows by this with a wait in vain and shrinks by 1 with one that was not: looking long has to be right
/// two times in three, as one in vain costs about as much as two that were not save.
const IN_VAIN: u32 = 2;
/// From this doubt on a thread looks shortly.
const CONVINCED: u32 = 3;
const DOUBT_MAX: u32 = 5;
/// Which of the waits of a convinced thread tries again.
const TRY_AGAIN: u32 = 8;
/// How long a thread may go on without ever giving its core away.
const TURN: Duration = Duration::from_millis(1);

/// Looks before a wait has read the clock and asked who else is there: an answer that is on its way is there before that.
const BRIEF_LOOKS: u32 = if cfg!(loom) { 0 } else { 64 };
/// Waits that begin at once after brief looks that were in vain, and in a crowd.
const WAITS_AT_ONCE: i32 = 31;
/// Brief looks with success before one wait begins at once, to see whether there is a crowd by now.
const SUCCESSES: i32 = 64;

thread_local! {
    /// Waits that are to begin at once; below 0, brief looks with success in a row.
    static AT_ONCE: Cell<i32> = const { Cell::new(0) };
}

/// Looks for a moment, if that was not in vain lately.
#[inline]
pub(crate) fn look_briefly<W: Waiting>(waiting: &mut W) -> Option<W::Output> {
    let at_once = AT_ONCE.get();
    if at_once > 0 {
        AT_ONCE.set(at_once - 1);
        return None;
    }
    let found = (0..BRIEF_LOOKS).find_map(|_| waiting.look());
    let is_enough = at_once <= -SUCCESSES;
    AT_ONCE.set(match &found {
        Some(_) if is_enough => 1,
        Some(_) => at_once - 1,
        None => WAITS_AT_ONCE,
    });
    found
}

/// So many times a thread gives its core to whom it waits for, though there are cores enough, and then sleeps once: the kernel leaves
/// threads where they are that run all the time, but puts one that it wakes on an idle core.
const TOGETHER: u32 = 64;

thread_local! {
    /// How many times since it slept for that.
    static GAVE_WAY: Cell<u32> = const { Cell::new(0) };
}

/// A thread that has a core of its own finds that whom it waits for needs this very one. True if it is to sleep now.
pub(crate) fn is_time_to_part() -> bool {
    let times = (GAVE_WAY.get() + 1) % TOGETHER;
    GAVE_WAY.set(times);
    times == 0
}

#[derive(Clone, Copy)]
struct Habit {
    waits: u32,
    doubt: u32,
    turn_began: u64,
}

thread_local! {
    static HABIT: Cell<Habit> = const { Cell::new(Habit { waits: 0, doubt: 0, turn_began: 0 }) };
}

/// One wait in a crowd.
pub(crate) struct Patience {
    /// When the core is given away.
    until_ns: u64,
    is_learning: bool,
}

impl Patience {
    /// A wait that begins now, for those who are there.
    pub fn at(now_ns: u64, whereabouts: Whereabouts) -> Patience {
        // Whoever looks without a clock does not know when its turn is over.
        AT_ONCE.set(WAITS_AT_ONCE);
        let mut habit = HABIT.get();
        habit.waits = habit.waits.wrapping_add(1);
        let is_turn_over = now_ns.saturating_sub(habit.turn_began) > TURN.as_nanos() as u64;
        if is_turn_over {
            habit.turn_began = now_ns;
        }
        HABIT.set(habit);
        let is_convinced = habit.doubt >= CONVINCED && !habit.waits.is_multiple_of(TRY_AGAIN);
        let looking = match (is_turn_over, is_convinced) {
            (true, _) => 0,
            (false, true) => SHORT,
            (false, false) => LONG,
        };
        let mut patience = Patience { until_ns: now_ns + looking, is_learning: !is_turn_over };
        if !is_turn_over {
            patience.go_by(now_ns, whereabouts);
        }
        patience
    }

    /// What is known teaches nothing.
    fn go_by(&mut self, now_ns: u64, whereabouts: Whereabouts) {
        let more = match whereabouts {
            Whereabouts::Unknown => return,
            Whereabouts::Here => 0,
            Whereabouts::Elsewhere => ELSEWHERE,
        };
        (self.until_ns, self.is_learning) = (now_ns + more, false);
    }

    /// True if it ends now: the core is given away.
    #[inline]
    pub fn ends_at(&self, now_ns: u64) -> bool {
        now_ns >= self.until_ns
    }

    /// The core was given away and is back after `away_ns`; now those it waits for are there.
    pub fn came_back(&mut self, now_ns: u64, away_ns: u64, whereabouts: Whereabouts) {
        let mut habit = HABIT.get();
        habit.turn_began = now_ns;
        if away_ns > TURN.as_nanos() as u64 / 2 {
            habit.doubt = 0;
            (self.until_ns, self.is_learning) = (now_ns + LONG, true);
        } else if std::mem::take(&mut self.is_learning) {
            habit.doubt = (habit.doubt + IN_VAIN).min(DOUBT_MAX);
        }
        HABIT.set(habit);
        self.go_by(now_ns, whereabouts);
    }

    /// What was waited for is there.
    pub fn succeed(self) {
        if self.is_learning {
            let habit = HABIT.get();
            HABIT.set(Habit { doubt: habit.doubt.saturating_sub(1), ..habit });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const TURN_NS: u64 = TURN.as_nanos() as u64;

    fn looking(now: u64) -> u64 {
        Patience::at(now, Whereabouts::Unknown).until_ns - now
    }

    #[test]
    fn waits_in_vain_get_short_until_some_that_try_succeed() {
        let now = TURN_NS / 2;
        for _ in 0..2 {
            let mut patience = Patience::at(now, Whereabouts::Unknown);
            assert!(!patience.ends_at(now + LONG - 1) && patience.ends_at(now + LONG));
            patience.came_back(now, 0, Whereabouts::Unknown);
        }
        let tries = (0..2 * TRY_AGAIN).filter(|_| looking(now) == LONG).count();
        assert_eq!(tries, 2, "one in {TRY_AGAIN} tries again");
        for _ in CONVINCED..=DOUBT_MAX {
            let tried = (0..TRY_AGAIN)
                .map(|_| Patience::at(now, Whereabouts::Unknown))
                .find(|patience| patience.until_ns == now + LONG);
            tried.expect("one tries again").succeed();
        }
        assert!((0..TRY_AGAIN).all(|_| looking(now) == LONG));
    }

    #[test]
    fn who_never_gives_its_core_away_does_so_after_its_turn() {
        assert_eq!(looking(1), LONG);
        assert_eq!(looking(TURN_NS + 1), 0);
        assert_eq!(looking(TURN_NS + 2), LONG);
        // Giving it away for another reason begins a new turn, too.
        Patience::at(TURN_NS + 3, Whereabouts::Unknown).came_back(2 * TURN_NS, 0, Whereabouts::Unknown);
        assert_eq!(looking(2 * TURN_NS + 3), LONG);
    }

    #[test]
    fn who_knows_where_the_others_are_goes_by_that_and_learns_nothing() {
        let now = TURN_NS / 2;
        let mut patience = Patience::at(now, Whereabouts::Here);
        assert!(patience.ends_at(now));
        patience.came_back(now, 0, Whereabouts::Elsewhere);
        assert!(!patience.ends_at(now + ELSEWHERE - 1) && patience.ends_at(now + ELSEWHERE));
        patience.came_back(now + ELSEWHERE, 0, Whereabouts::Here);
        assert!(patience.ends_at(now + ELSEWHERE));
        patience.succeed();
        assert_eq!(looking(now), LONG);
        // Its turn is over, wherever they are.
        assert!(Patience::at(2 * TURN_NS, Whereabouts::Elsewhere).ends_at(2 * TURN_NS));
    }

    /// Is there at the look with this number.
    struct There(u32);

    impl Waiting for There {
        type Output = ();

        fn look(&mut self) -> Option<()> {
            self.0 = self.0.checked_sub(1)?;
            (self.0 == 0).then_some(())
        }
    }

    fn is_found_in(looks: u32) -> bool {
        look_briefly(&mut There(looks)).is_some()
    }

    #[test]
    fn brief_looks_end_where_they_are_in_vain_and_in_a_crowd_and_are_tried_again() {
        let waits_at_once = || (0..).take_while(|_| !is_found_in(1)).count() as i32;
        assert!(is_found_in(1) && is_found_in(BRIEF_LOOKS));
        assert!(!is_found_in(BRIEF_LOOKS + 1));
        assert_eq!(waits_at_once(), WAITS_AT_ONCE);
        Patience::at(1, Whereabouts::Unknown);
        assert_eq!(waits_at_once(), WAITS_AT_ONCE);
        // However well they go, now and then a wait finds out whether there is a crowd.
        let successes = (0..).take_while(|_| is_found_in(1)).count() as i32;
        assert!((SUCCESSES..SUCCESSES + 2).contains(&successes), "{successes}");
        assert!(is_found_in(1));
    }

    #[test]
    fn who_shares_a_core_with_its_partner_for_long_sleeps_now_and_then() {
        let sleeps = (0..2 * TOGETHER).filter(|_| is_time_to_part()).count();
        assert_eq!(sleeps, 2);
    }

    #[test]
    fn who_comes_back_after_a_turn_of_the_others_looks_long() {
        let now = TURN_NS / 2;
        (0..DOUBT_MAX).for_each(|_| Patience::at(now, Whereabouts::Unknown).came_back(now, 0, Whereabouts::Unknown));
        let mut patience = Patience { until_ns: now + SHORT, is_learning: true };
        patience.came_back(now + SHORT, TURN_NS, Whereabouts::Unknown);
        assert!(!patience.ends_at(now + SHORT + LONG - 1) && patience.ends_at(now + SHORT + LONG));
        assert_eq!(looking(now), LONG);
    }
}
