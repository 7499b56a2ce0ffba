//! The only wait loop of DECK.
//!
//! A wait goes through up to three stages. It *spins* for about what a sleep costs ([`spin`]), as long as
//! there is a core for every runnable thread of the job; with more threads than cores it *yields* instead, at once or
//! after a few looks ([`patience`]); after a longer idle time it *sleeps* on an [`Event`], which costs
//! nothing. Pure spinning and pure sleeping each lose by a factor of a hundred somewhere.
//!
//! Before it sleeps, a waiter asks those who will make its condition true to ring the event ([`Waiting::arm`]), has the
//! kernel run a fence everywhere ([`crate::barrier::heavy`]), and looks once more. The one who makes it true does so,
//! passes a light fence, and looks whether it is to ring. One of the two sees the other: no wake-up is lost.
//!
//! But a kernel may leave a core out of that fence ([`crate::barrier`]). So a sleeper that nobody rings looks again,
//! and everywhere ([`Waiting::look_everywhere`]): after a millisecond or at its alarm ([`alarm`]), when
//! all that was written before has long arrived, and then after a thousand times as long each time, for those whose
//! question somebody else has asked.

pub(crate) mod alarm;
pub(crate) mod away;
pub(crate) mod habit;
pub(crate) mod order;
pub(crate) mod pace;
pub(crate) mod patience;
#[cfg(not(loom))]
pub(crate) mod sleepers;
pub(crate) mod spin;
pub(crate) mod spot;
pub(crate) mod spread;

use std::sync::Arc;
use std::time::Duration;

use crate::about::About;
use crate::atomic::{AtomicU32, Ordering};
use crate::crowd::{Crowd, Noted, is_crowded};
use crate::deadline::{Deadline, now_ns};
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::machine::cores::current_core;
use crate::{atomic, barrier, futex, thread};
use away::Away;
use patience::{LOOKS_AWAY, Patience};
use spot::Spot;

/// How many nanoseconds a wait yields in a crowd before it sleeps: a few time slices of short work by the others.
const YIELD: u64 = if cfg!(loom) { 0 } else { Duration::from_micros(500).as_nanos() as u64 };
/// Looks before the first pause between them. A pause leaves more of a core to its other hardware thread, and takes
/// tens of nanoseconds: as long as an answer that is on its way.
const LOOKS_WITHOUT_PAUSE: u32 = if cfg!(loom) { 0 } else { 64 };
/// Looks between two looks at the clock. A model has no clock: it looks once and goes to sleep.
const LOOKS_PER_CLOCK: u32 = if cfg!(loom) { 1 } else { 32 };

/// The same in a crowd, where it is known soon whether a core is wanted by others.
const LOOKS_PER_CLOCK_IN_A_CROWD: u32 = if cfg!(loom) { 1 } else { 4 };

/// How long the first sleep lasts if nobody rings, how many times as long each further one, and the longest.
const FIRST_NAP: Duration = Duration::from_millis(1);
const LONGER: u32 = 1000;
const LONGEST_NAP: Duration = Duration::from_secs(10);

/// Looks before a wait that has a core asks whether it shares it with whom it waits for.
const LOOKS_ALONE: u32 = 128;

/// Something to wait for.
pub trait Waiting {
    /// What the wait brings.
    type Output;

    /// Looks whether it is there; called very often, must be cheap and must not block.
    fn look(&mut self) -> Option<Self::Output>;

    /// Whether the last look was at a line that another core reads, changes and writes: looks have time between them
    /// then. Not called where the core is given away between looks.
    fn away(&self) -> Away {
        Away::No
    }

    /// Whether it has looked right before the wait, which need not begin with a look then.
    #[inline]
    fn has_looked(&self) -> bool {
        false
    }

    /// The core was given away and is back: what the next look will need may be fetched all at once, as others may have
    /// written it.
    fn expect(&self) {}

    /// Something useful to do between two looks, while there is a core for every thread. True if it took as long as
    /// some looks.
    #[inline]
    fn meanwhile(&mut self) -> bool {
        false
    }

    /// As [`Waiting::look`], and also where nothing can be that was not announced. Called once in a while by one that
    /// sleeps; may be dear.
    fn look_everywhere(&mut self) -> Option<Self::Output> {
        self.look()
    }

    /// Asks whoever makes it true to notify the event from now on. Called before each sleep, of which a wait may have
    /// several; after it comes a heavy fence and another look.
    fn arm(&mut self) {}

    /// A wait that has slept is over, however it ended.
    fn disarm(&mut self) {}

    /// Where those run who will make it true, if that is known. Called before the core may be given away.
    fn whereabouts(&self) -> Whereabouts {
        Whereabouts::Unknown
    }

    /// Asks those who make it true to call this thread at `spot` from now on. True if they do. Called each time before
    /// the core is given away; to be cheap if it is the same spot as before.
    fn is_called_at(&mut self, _spot: Spot) -> bool {
        false
    }

    /// There are cores enough: nobody is to be called any more. Called now and then.
    fn need_not_be_called(&mut self) {}

    /// What it is about, for those who look on. Called when it goes to sleep; `None` for what is nobody's business.
    fn about(&self) -> Option<About<'_>> {
        None
    }
}

/// Where those run for whom a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// Nobody knows.
    Unknown,
    /// One of them needs the very core of the thread that waits.
    Here,
    /// All of them are on other cores.
    Elsewhere,
}

/// Why a wait ended without what it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// The deadline passed.
    Deadline,
    /// Another thread cancelled this one.
    Cancelled,
}

impl Interrupted {
    /// The kind of error that a call ends with.
    pub fn kind(self) -> ErrorKind {
        match self {
            Interrupted::Deadline => ErrorKind::Timeout,
            Interrupted::Cancelled => ErrorKind::Cancelled,
        }
    }

    /// The error of a call that was `doing` something.
    #[cold]
    pub fn error(self, doing: impl Into<String>) -> Error {
        Error::new(self.kind(), doing)
    }
}

/// Waits until `waiting` has what it waits for, at most until `deadline`.
///
/// `events` are rung by those who make it true once [`Waiting::arm`] was called. Blocks until the deadline. Any thread.
pub fn wait<W: Waiting>(
    waiting: &mut W,
    events: &[&Event],
    crowd: &Arc<dyn Crowd>,
    deadline: Deadline,
) -> Result<W::Output, Interrupted> {
    if !waiting.has_looked()
        && let Some(output) = waiting.look()
    {
        return Ok(output);
    }
    if deadline.is_now() {
        return Err(Interrupted::Deadline);
    }
    if let Some(output) = give_way_at_once(waiting, crowd.as_ref()).or_else(|| patience::look_briefly(waiting)) {
        return Ok(output);
    }
    if thread::take_cancellation() {
        return Err(Interrupted::Cancelled);
    }
    thread::belong_to(crowd);
    let began = now_ns();
    let limits = Limits::of_a_wait();
    let result = match stay_awake(waiting, crowd.as_ref(), began, limits, deadline) {
        Some(result) => result,
        None => {
            let has_spun = now_ns().saturating_sub(began) >= limits.spinning;
            let _noted = waiting.about().and_then(|about| {
                let since = if about.since_ns == 0 { began } else { about.since_ns };
                let until = if about.until_ns == 0 { deadline.at_ns() } else { about.until_ns };
                Noted::new(crowd.as_ref(), &about, since, until)
            });
            let result = sleep_until_due(waiting, events, crowd.as_ref(), began, deadline);
            if result.is_ok() && has_spun {
                let waited = now_ns().saturating_sub(began);
                spin::slept(waited);
                alarm::slept(waited);
            }
            result
        }
    };
    if matches!(result, Err(Interrupted::Deadline)) {
        spin::was_in_vain();
        alarm::forget();
    }
    result
}

/// Waits that ended so until now found somebody in a crowd who needs this very core: then it is given away before
/// anything else. Neither clock nor crowd is asked, which take as long as some of the work that is waited for.
#[inline]
fn give_way_at_once<W: Waiting>(waiting: &mut W, crowd: &dyn Crowd) -> Option<W::Output> {
    if !patience::gives_way_at_once() || waiting.whereabouts() != Whereabouts::Here {
        return None;
    }
    if let Some(spot) = crowd.spot(current_core()) {
        crowd.call(spot);
    }
    order::give_way();
    waiting.expect();
    waiting.look()
}

fn is_time_to_look_around(looks: u32) -> bool {
    looks > 0 && looks.is_multiple_of(LOOKS_PER_CLOCK)
}

/// For how many nanoseconds a thread stays awake.
#[derive(Clone, Copy)]
struct Limits {
    spinning: u64,
    /// In a crowd.
    yielding: u64,
}

impl Limits {
    /// From the begin of a wait on.
    fn of_a_wait() -> Limits {
        Limits { spinning: spin::limit_ns(), yielding: pace::times_as_known() * YIELD }
    }
}

/// Spins from `start` on, or yields; `None` when it is time to sleep.
fn stay_awake<W: Waiting>(
    waiting: &mut W,
    crowd: &dyn Crowd,
    start: u64,
    limits: Limits,
    deadline: Deadline,
) -> Option<Result<W::Output, Interrupted>> {
    let mut now = start;
    // There is one in a crowd, and only there.
    let mut patience = is_crowded(crowd, start).then(|| Patience::at(start, waiting.whereabouts()));
    if patience.is_none() {
        waiting.need_not_be_called();
    }
    let mut looks = 0u32;
    loop {
        let is_yielding = match &mut patience {
            Some(patience) => {
                if looks.is_multiple_of(LOOKS_PER_CLOCK_IN_A_CROWD) && looks > 0 {
                    now = now_ns();
                }
                patience.ends_at(now, crowd)
            }
            // There are cores enough, but somebody else may keep them: then two that wait for each other share one.
            None => looks >= LOOKS_ALONE && is_time_to_look_around(looks) && waiting.whereabouts() == Whereabouts::Here,
        };
        if is_yielding {
            if patience.is_none() && patience::is_time_to_part() {
                return None;
            }
            let before = now;
            let spot = patience.is_some().then(|| leave_until_called(waiting, crowd)).flatten();
            if spot.is_some()
                && let Some(output) = waiting.look()
            {
                return Some(Ok(output));
            }
            order::give_way();
            waiting.expect();
            now = now_ns();
            if let Some(patience) = &mut patience {
                let spot = spot.map(|spot| Spot { core: current_core(), ..spot });
                patience.came_back(now, now - before, waiting.whereabouts(), spot);
            }
        } else if patience.is_none() && waiting.meanwhile() {
            // That was as long as a pause.
        } else if patience.is_none() && away::looks_away(waiting.away()) {
            away::look_away(waiting.away(), false);
            // As many as take that long, so that the clock is looked at as often.
            looks = (looks / LOOKS_AWAY + 1).saturating_mul(LOOKS_AWAY) - 1;
        } else if looks >= LOOKS_WITHOUT_PAUSE {
            atomic::pause();
        }
        if let Some(output) = waiting.look() {
            if let Some(patience) = patience {
                patience.succeed(crowd);
            }
            return Some(Ok(output));
        }
        looks = looks.saturating_add(1);
        if is_yielding || is_time_to_look_around(looks) {
            if thread::take_cancellation() {
                return Some(Err(Interrupted::Cancelled));
            }
            if !is_yielding {
                now = now_ns();
            }
            if deadline.has_passed_at(now) {
                return Some(waiting.look().ok_or(Interrupted::Deadline));
            }
            if now - start >= (if patience.is_some() { limits.yielding } else { limits.spinning }) {
                return None;
            }
            let is_crowded = is_crowded(crowd, now);
            if is_crowded != patience.is_some() {
                patience = is_crowded.then(|| Patience::at(now, waiting.whereabouts()));
            }
        }
    }
}

/// Before the core is given away in a crowd. Where the thread is called when there is something for it, which may be
/// there already.
fn leave_until_called<W: Waiting>(waiting: &mut W, crowd: &dyn Crowd) -> Option<Spot> {
    let spot = crowd.spot(current_core())?;
    if waiting.is_called_at(spot) {
        // A call that brought nothing tells nothing about the order.
        crowd.answer(spot);
        Some(spot)
    } else {
        // It may have something to do at any time.
        crowd.call(spot);
        None
    }
}

/// Sleeps. Where it can be told when what this thread waits for is due, it is awake by then, unless it would take a
/// core from others.
fn sleep_until_due<W: Waiting>(
    waiting: &mut W,
    events: &[&Event],
    crowd: &dyn Crowd,
    began: u64,
    deadline: Deadline,
) -> Result<W::Output, Interrupted> {
    let now = now_ns();
    let mut due = alarm::due(began).filter(|due| due.from > now && !is_crowded(crowd, now));
    let result = loop {
        if let Some(result) = sleep(waiting, events, crowd, deadline, due.map(|due| due.from)) {
            break result;
        }
        let now = now_ns();
        let Some(due) = due.take().filter(|_| !is_crowded(crowd, now)) else { continue };
        let left = due.until.saturating_sub(now);
        let limits = Limits { spinning: left, yielding: left };
        if let Some(result) = stay_awake(waiting, crowd, now, limits, deadline) {
            break result;
        }
    };
    waiting.disarm();
    result
}

/// Sleeps; `None` at the alarm.
fn sleep<W: Waiting>(
    waiting: &mut W,
    events: &[&Event],
    crowd: &dyn Crowd,
    deadline: Deadline,
    alarm: Option<u64>,
) -> Option<Result<W::Output, Interrupted>> {
    struct Announced<'a>(&'a [&'a Event]);
    impl Drop for Announced<'_> {
        fn drop(&mut self) {
            self.0.iter().for_each(|event| event.done());
        }
    }
    events.iter().for_each(|event| event.prepare());
    let _announced = Announced(events);
    thread::in_bed(events, || {
        fn noted<'a>(event: &&'a Event) -> (&'a AtomicU32, u32) {
            (event.word(), event.count())
        }
        // Mostly it is one event. Giving memory back would be dear right after a long sleep, when nothing of it is in
        // caches.
        let (mut one, mut many);
        let words: &mut [_] = match events {
            [event] => {
                one = noted(event);
                std::slice::from_mut(&mut one)
            }
            _ => {
                many = Vec::from_iter(events.iter().map(noted));
                &mut many
            }
        };
        let mut nap = FIRST_NAP;
        loop {
            // It has just looked.
            if deadline.has_passed() {
                return Some(Err(Interrupted::Deadline));
            }
            words.iter_mut().zip(events).for_each(|(word, event)| *word = noted(event));
            waiting.arm();
            // Heavy: pairs with: wait/sleep. Whoever makes the condition true passes a light one.
            barrier::heavy();
            if let Some(output) = waiting.look() {
                return Some(Ok(output));
            }
            // After the counts were noted: a cancellation from now on changes them.
            if thread::take_cancellation() {
                return Some(Err(Interrupted::Cancelled));
            }
            let now = now_ns();
            let most = alarm.map_or(nap, |alarm| Duration::from_nanos(alarm.saturating_sub(now)));
            let time = deadline.remaining().map_or(most, |left| left.min(most));
            let nap_ends = now.saturating_add(time.as_nanos() as u64);
            crowd.rest();
            futex::sleep_any(words, Some(time));
            crowd.resume();
            let is_rung = || words.iter().any(|(word, count)| word.load(Ordering::Relaxed) != *count);
            // A model has no time in which things arrive. A nap that a signal has cut short was too short for what is
            // on its way.
            let found = if cfg!(loom) || is_rung() || now_ns() < nap_ends {
                waiting.look()
            } else if alarm.is_some_and(|alarm| alarm <= nap_ends) {
                return waiting.look_everywhere().map(Ok);
            } else {
                nap = nap.saturating_mul(LONGER).min(LONGEST_NAP);
                waiting.look_everywhere()
            };
            if let Some(output) = found {
                return Some(Ok(output));
            }
        }
    })
}

#[cfg(all(test, not(loom)))]
mod tests;
