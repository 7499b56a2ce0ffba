//! How long a thread looks before it gives its core away, when there are more threads than cores.
//!
//! Two things can be true in a crowd. Whoever would make the condition true runs on another core right now: a few looks
//! more and it is there, while giving the core away costs both of them a switch. Or it waits for this very core: then
//! every look is lost. Which one it is depends on what the program does (two threads that talk to each other, a token
//! that is passed round), not on how many threads there are. So a thread goes by what its last waits were like, and now
//! and then tries whether that has changed.
//!
//! There are three ways of looking, and each is learnt for itself: long before the core is given away; only shortly,
//! where that was in vain; and long each time the core is back, as the others have had theirs by then. Whoever passes
//! on a token has nothing to do until it comes round: it gives its core away at once and looks after that.
//!
//! Some waits know better: where those ran last for whom they wait ([`Whereabouts`]). If one of them needs this very
//! core, it is given away at once. If all are on other cores, giving this one away brings nothing nearer, and those who
//! share it with this thread would find that they have nothing to do either.
//!
//! Without a crowd, nobody is held up by a thread that looks. So a wait begins with a few looks that nothing comes
//! before: not even the clock is read, as long as such looks find what they look for.
//!
//! Where threads are called that gave their core away ([`Spot`]), a thread that is back and has looked in vain goes on
//! until another one is called to this core: giving it away earlier brings nobody anything. But not for long, as there
//! may be threads that nobody calls.
//!
//! It also gives its core away when it had it for long: threads that answer one another fast enough would never do so,
//! and others would wait for the end of their time slices. Whoever comes back after such a turn of the others takes it
//! that its partner does so at the same time.

use std::cell::Cell;

use crate::crowd::Crowd;
use crate::wait::away::{self, Away};
use crate::wait::habit::{Doubt, Habit, Looking};
use crate::wait::spot::Spot;
use crate::wait::{Waiting, Whereabouts, order, pace};

/// How many nanoseconds a thread looks if the others seem to run: before it gives its core away, and each time it is
/// back. Time and not a number of looks: one at many rings takes as long as several at one.
const LONG: u64 = 1500;
/// An answer comes in this time from a thread that runs and has nothing else to do.
const SHORT: u64 = 300;
/// If the others are known to be on other cores: a few switches there.
const ELSEWHERE: u64 = 4500;
/// Further, where others are called when their time has come. A thread that computes has the core for a hundred times
/// as long.
const UNTIL_CALLED: u64 = 20_000;
/// So often in a row a core is given to those who were called; then they are taken to be gone.
const CALLS_IN_VAIN: u32 = 256;
/// A convinced thread tries again after so many nanoseconds. Not after so many waits: those are short where all give
/// their cores away at once, as in a barrier, and a try there holds up everybody else.
const TRY_AGAIN: u64 = 200_000;
/// To look shortly costs the others little, and an answer that comes so soon is of a partner that runs and looks, too:
/// those come in series.
const TRY_SHORTLY: u64 = 50_000;
/// How long a thread may go on without ever giving its core away; also on a slow core, for the sake of the others.
const TURN: u64 = 1_000_000;

/// Looks before a wait has read the clock and asked who else is there: an answer that is on its way is there before
/// that.
const BRIEF_LOOKS: u32 = if cfg!(loom) { 0 } else { 64 };
/// For how many looks one counts before which one looks away.
pub(crate) const LOOKS_AWAY: u32 = 8;
/// Waits that begin at once after brief looks that were in vain, and in a crowd.
const WAITS_AT_ONCE: i32 = 31;
/// Brief looks with success before one wait begins at once, to see whether there is a crowd by now.
const SUCCESSES: i32 = 64;

thread_local! {
    /// Waits that are to begin at once; below 0, brief looks with success in a row.
    static AT_ONCE: Cell<i32> = const { Cell::new(0) };
    /// Waits that may give their core away before they ask who is there: the last one that asked was in a crowd, and
    /// somebody needed its core.
    static GIVES_WAY: Cell<i32> = const { Cell::new(0) };
}

/// Whether a wait may do so; then it counts as one.
#[inline]
pub(crate) fn gives_way_at_once() -> bool {
    let left = GIVES_WAY.get();
    if left > 0 {
        GIVES_WAY.set(left - 1);
    }
    left > 0
}

/// Looks for a moment, if that was not in vain lately.
#[inline]
pub(crate) fn look_briefly<W: Waiting>(waiting: &mut W) -> Option<W::Output> {
    let at_once = AT_ONCE.get();
    if at_once > 0 {
        AT_ONCE.set(at_once - 1);
        return None;
    }
    let began = if waiting.away() == Away::No { None } else { away::begins() };
    let looks = if away::looks_away(waiting.away()) { BRIEF_LOOKS / LOOKS_AWAY } else { BRIEF_LOOKS };
    let found = (0..looks).find_map(|look| {
        if !waiting.meanwhile() && away::looks_away(waiting.away()) {
            away::look_away(waiting.away(), look == 0);
        }
        waiting.look()
    });
    if let Some(began) = began {
        away::timed(began, found.is_some());
    }
    let is_enough = at_once <= -SUCCESSES;
    AT_ONCE.set(match &found {
        Some(_) if is_enough => 1,
        Some(_) => at_once - 1,
        None => WAITS_AT_ONCE,
    });
    found
}

/// As if brief looks had been in vain.
#[cfg(all(test, not(loom)))]
pub(crate) fn begin_at_once() {
    AT_ONCE.set(WAITS_AT_ONCE);
}

/// So many times a thread gives its core to whom it waits for, though there are cores enough, and then sleeps once: the
/// kernel leaves threads where they are that run all the time, but puts one that it wakes on an idle core.
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

thread_local! {
    static HABIT: Cell<Habit> = const { Cell::new(Habit::NEW) };
}

/// One wait in a crowd.
pub(crate) struct Patience {
    /// When the core is given away.
    until_ns: u64,
    /// What is learnt from how this look ends.
    learns: Option<Looking>,
    /// Where this thread is, if others are called there.
    spot: Option<Spot>,
    /// How many times as long as usual everything takes ([`pace`]), and is looked for.
    slow: u64,
}

impl Patience {
    /// A wait that begins now, for those who are there.
    pub fn at(now_ns: u64, whereabouts: Whereabouts) -> Patience {
        Patience::at_pace(pace::times(now_ns), now_ns, whereabouts)
    }

    fn at_pace(slow: u64, now_ns: u64, whereabouts: Whereabouts) -> Patience {
        // Whoever looks without a clock does not know when its turn is over.
        AT_ONCE.set(WAITS_AT_ONCE);
        GIVES_WAY.set(if whereabouts == Whereabouts::Here { WAITS_AT_ONCE } else { 0 });
        let mut habit = HABIT.get();
        let mut patience = Patience { until_ns: now_ns, learns: None, spot: None, slow };
        if now_ns.saturating_sub(habit.turn_began) > TURN {
            habit.turn_began = now_ns;
        } else {
            match whereabouts {
                Whereabouts::Unknown if habit.long.is_to_look(now_ns, slow * TRY_AGAIN) => {
                    patience.look(now_ns, Looking::Long)
                }
                Whereabouts::Unknown if habit.short.is_to_look(now_ns, slow * TRY_SHORTLY) => {
                    patience.look(now_ns, Looking::Short)
                }
                known => patience.go_by(now_ns, known),
            }
        }
        HABIT.set(habit);
        patience
    }

    fn look(&mut self, now_ns: u64, looking: Looking) {
        let time = if matches!(looking, Looking::Short) { SHORT } else { LONG };
        (self.until_ns, self.learns) = (now_ns + self.slow * time, Some(looking));
    }

    /// What is known teaches nothing.
    fn go_by(&mut self, now_ns: u64, whereabouts: Whereabouts) {
        let more = match whereabouts {
            Whereabouts::Unknown => return,
            Whereabouts::Here => 0,
            Whereabouts::Elsewhere => ELSEWHERE,
        };
        (self.until_ns, self.learns) = (now_ns + self.slow * more, None);
    }

    /// True if it ends now: the core is given away.
    #[inline]
    pub fn ends_at(&mut self, now_ns: u64, crowd: &dyn Crowd) -> bool {
        if now_ns < self.until_ns {
            return false;
        }
        let Some(spot) = self.spot else { return true };
        self.look_in_vain();
        now_ns >= self.until_ns + self.slow * UNTIL_CALLED || is_wanted(crowd, spot)
    }

    fn look_in_vain(&mut self) {
        if let Some(looking) = self.learns.take() {
            let mut habit = HABIT.get();
            habit.was_in_vain(looking);
            HABIT.set(habit);
        }
    }

    /// The core was given away and is back after `away_ns`; now those it waits for are there, and the thread at `spot`,
    /// if others are called there.
    pub fn came_back(&mut self, now_ns: u64, away_ns: u64, whereabouts: Whereabouts, spot: Option<Spot>) {
        self.look_in_vain();
        self.spot = spot;
        let mut habit = HABIT.get();
        habit.turn_began = now_ns;
        self.until_ns = now_ns;
        if away_ns > TURN / 2 {
            habit.long = Doubt::NONE;
            self.look(now_ns, Looking::Long);
        } else if whereabouts == Whereabouts::Unknown && habit.again.is_to_look(now_ns, self.slow * TRY_AGAIN) {
            self.look(now_ns, Looking::Again);
        }
        HABIT.set(habit);
        self.go_by(now_ns, whereabouts);
    }

    /// What was waited for is there.
    pub fn succeed(self, crowd: &dyn Crowd) {
        if let Some(spot) = self.spot {
            order::came_back(crowd.answer(spot));
        }
        if let Some(looking) = self.learns {
            let mut habit = HABIT.get();
            habit.was_right(looking);
            HABIT.set(habit);
        }
    }
}

thread_local! {
    /// Times in a row that the calling thread gave its core to those who were called.
    static GAVE_TO_CALLED: Cell<u32> = const { Cell::new(0) };
}

/// True if somebody else is called to the core of `spot`, where the calling thread is.
fn is_wanted(crowd: &dyn Crowd, spot: Spot) -> bool {
    let is_wanted = crowd.is_wanted(spot);
    let times = if is_wanted { GAVE_TO_CALLED.get() + 1 } else { 0 };
    GAVE_TO_CALLED.set(times % CALLS_IN_VAIN);
    if times == CALLS_IN_VAIN {
        crowd.forget_calls(spot);
    }
    is_wanted
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::atomic::{AtomicBool, AtomicU32, Ordering};
    use crate::wait::habit::{CONVINCED, DOUBT_MAX, SERIES};

    /// Others on the core of the only thread, if there are.
    struct Others {
        are_called: AtomicBool,
        answers: AtomicU32,
    }

    static NOBODY: Others = Others { are_called: AtomicBool::new(false), answers: AtomicU32::new(0) };
    const HERE: Spot = Spot { core: 0, place: 0 };

    impl Crowd for Others {
        fn resume(&self) {}
        fn rest(&self) {}
        fn is_crowded(&self) -> bool {
            true
        }
        fn answer(&self, _spot: Spot) -> u32 {
            self.answers.fetch_add(1, Ordering::Relaxed)
        }
        fn is_wanted(&self, _spot: Spot) -> bool {
            self.are_called.load(Ordering::Relaxed)
        }
        fn forget_calls(&self, _spot: Spot) {
            self.are_called.store(false, Ordering::Relaxed);
        }
    }

    /// On a core as fast as usual.
    fn at(now: u64, whereabouts: Whereabouts) -> Patience {
        Patience::at_pace(1, now, whereabouts)
    }

    fn looking(now: u64) -> u64 {
        at(now, Whereabouts::Unknown).until_ns - now
    }

    /// A wait that gives its core away once, at `now`, and is not over then. How long it looks after that.
    fn is_in_vain(now: u64) -> u64 {
        let mut patience = at(now, Whereabouts::Unknown);
        patience.came_back(now, 0, Whereabouts::Unknown, None);
        patience.until_ns - now
    }

    #[test]
    fn waits_in_vain_get_short_and_then_nothing_until_some_that_try_succeed() {
        let now = TURN / 2;
        assert_eq!([looking(now), is_in_vain(now), looking(now), is_in_vain(now)], [LONG; 4]);
        assert_eq!(looking(now), SHORT);
        (0..DOUBT_MAX).for_each(|_| {
            is_in_vain(now);
        });
        assert_eq!([now, now + TRY_SHORTLY - 1].map(looking), [0; 2]);
        let mut later = now + TRY_AGAIN;
        assert_eq!([(); 3].map(|()| looking(later)), [LONG, SHORT, 0], "one of each kind tries again");
        for _ in CONVINCED..=DOUBT_MAX {
            later += TRY_AGAIN;
            let tries = at(later, Whereabouts::Unknown);
            assert_eq!(tries.until_ns, later + LONG);
            tries.succeed(&NOBODY);
            assert!((0..2).all(|_| looking(later) >= SHORT), "an answer that came while it looked");
        }
        assert_eq!([(); 2].map(|()| looking(later)), [LONG; 2]);
    }

    #[test]
    fn answers_in_a_row_that_short_tries_find_count_for_the_long_way_too() {
        let now = TURN / 2;
        (0..2 * DOUBT_MAX).for_each(|_| {
            is_in_vain(now);
        });
        let later = now + TRY_SHORTLY;
        assert_eq!([now, later - 1].map(looking), [0; 2]);
        let is_answered = || {
            let tries = at(later, Whereabouts::Unknown);
            let time = tries.until_ns - later;
            tries.succeed(&NOBODY);
            time
        };
        assert_eq!([(); SERIES as usize - 1].map(|()| is_answered()), [SHORT; SERIES as usize - 1]);
        // One in vain, and it is no series.
        is_in_vain(later);
        assert_eq!([(); SERIES as usize].map(|()| is_answered()), [SHORT; SERIES as usize]);
        assert_eq!(looking(later), LONG);
        is_in_vain(later);
        assert_eq!(
            [(); 2].map(|()| looking(later)),
            [SHORT; 2],
            "that was in vain, but the short way has still been right"
        );
    }

    #[test]
    fn who_is_back_looks_for_as_long_as_that_is_worth_it() {
        let now = TURN / 2;
        let back = |now| {
            let mut patience = at(now, Whereabouts::Unknown);
            patience.came_back(now, 0, Whereabouts::Unknown, None);
            patience
        };
        let looks = |now| back(now).until_ns - now;
        (0..DOUBT_MAX).for_each(|_| back(now).succeed(&NOBODY));
        assert_eq!([now; 2].map(looks), [LONG; 2]);
        let mut patience = back(now);
        (0..DOUBT_MAX).for_each(|_| patience.came_back(now, 0, Whereabouts::Unknown, None));
        let later = now + TRY_AGAIN;
        assert_eq!([now, later, later, later + TRY_AGAIN].map(looks), [0, LONG, 0, LONG], "it tries again");
    }

    #[test]
    fn who_never_gives_its_core_away_does_so_after_its_turn() {
        assert_eq!(looking(1), LONG);
        assert_eq!(looking(TURN + 1), 0);
        assert_eq!(looking(TURN + 2), LONG);
        // Giving it away for another reason begins a new turn, too.
        at(TURN + 3, Whereabouts::Unknown).came_back(2 * TURN, 0, Whereabouts::Unknown, None);
        assert_eq!(looking(2 * TURN + 3), LONG);
    }

    #[test]
    fn on_a_slow_core_all_looks_are_longer_but_not_a_turn() {
        let slow = |now, whereabouts| Patience::at_pace(9, now, whereabouts);
        let now = TURN / 2;
        let mut patience = slow(now, Whereabouts::Unknown);
        assert_eq!(patience.until_ns - now, 9 * LONG);
        patience.came_back(now, 0, Whereabouts::Elsewhere, None);
        assert_eq!(patience.until_ns - now, 9 * ELSEWHERE);
        slow(now, Whereabouts::Unknown).came_back(now, 0, Whereabouts::Unknown, None);
        assert_eq!(slow(now, Whereabouts::Unknown).until_ns - now, 9 * SHORT);
        assert_eq!(slow(now + TURN + 1, Whereabouts::Unknown).until_ns, now + TURN + 1, "its turn is over");
    }

    #[test]
    fn who_knows_where_the_others_are_goes_by_that_and_learns_nothing() {
        let now = TURN / 2;
        let mut patience = at(now, Whereabouts::Here);
        assert!(patience.ends_at(now, &NOBODY));
        patience.came_back(now, 0, Whereabouts::Elsewhere, None);
        assert!(!patience.ends_at(now + ELSEWHERE - 1, &NOBODY) && patience.ends_at(now + ELSEWHERE, &NOBODY));
        patience.came_back(now + ELSEWHERE, 0, Whereabouts::Here, None);
        assert!(patience.ends_at(now + ELSEWHERE, &NOBODY));
        patience.succeed(&NOBODY);
        assert_eq!(looking(now), LONG);
        // Its turn is over, wherever they are.
        assert!(at(2 * TURN, Whereabouts::Elsewhere).ends_at(2 * TURN, &NOBODY));
    }

    #[test]
    fn who_is_back_and_has_looked_in_vain_stays_until_another_is_called_but_not_for_ever() {
        let now = TURN / 2;
        let others = Others { are_called: AtomicBool::new(false), answers: AtomicU32::new(0) };
        let back = |spot| {
            let mut patience = at(now, Whereabouts::Unknown);
            patience.came_back(now, 0, Whereabouts::Unknown, spot);
            patience
        };
        let mut patience = back(Some(HERE));
        let learnt = now + LONG;
        assert!(!patience.ends_at(learnt, &others) && !patience.ends_at(learnt + UNTIL_CALLED - 1, &others));
        assert!(patience.ends_at(learnt + UNTIL_CALLED, &others));
        others.are_called.store(true, Ordering::Relaxed);
        assert!(!patience.ends_at(learnt - 1, &others), "what it learns comes first");
        assert!(patience.ends_at(learnt, &others));
        assert!(back(None).ends_at(learnt, &NOBODY), "nobody is called where it is");
        patience.succeed(&others);
        assert_eq!(others.answers.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn who_is_passed_over_each_time_moves() {
        let now = TURN / 2;
        // It answers with how often it was asked before.
        let others = Others { are_called: AtomicBool::new(false), answers: AtomicU32::new(1) };
        assert!(!order::tests::is_to_move());
        for _ in 0..order::tests::ENOUGH {
            let mut patience = at(now, Whereabouts::Unknown);
            patience.came_back(now, 0, Whereabouts::Unknown, Some(HERE));
            patience.succeed(&others);
        }
        assert!(order::tests::is_to_move());
    }

    #[test]
    fn those_who_are_called_again_and_again_and_do_not_come_are_forgotten() {
        let others = Others { are_called: AtomicBool::new(true), answers: AtomicU32::new(0) };
        GAVE_TO_CALLED.set(0);
        let given = (0..2 * CALLS_IN_VAIN).take_while(|_| is_wanted(&others, HERE)).count();
        assert_eq!(given as u32, CALLS_IN_VAIN);
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
        at(1, Whereabouts::Unknown);
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
        let now = TURN / 2;
        (0..DOUBT_MAX).for_each(|_| at(now, Whereabouts::Unknown).came_back(now, 0, Whereabouts::Unknown, None));
        let mut patience = Patience { until_ns: now + SHORT, learns: Some(Looking::Short), spot: None, slow: 1 };
        patience.came_back(now + SHORT, TURN, Whereabouts::Unknown, None);
        assert!(!patience.ends_at(now + SHORT + LONG - 1, &NOBODY) && patience.ends_at(now + SHORT + LONG, &NOBODY));
        assert_eq!(looking(now), LONG);
    }
}
