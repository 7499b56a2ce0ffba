//! Whether long data goes through the caches or past them, or is read in the giver's own memory: members go by what
//! their calls took.
//!
//! Which is faster depends on whether cores share a cache, whether all that moves fits into it, and what it takes to
//! read another process's memory. Nobody can be asked for that, and in a virtual machine it may change at any time; the
//! difference is a factor of two either way. All members make the same calls in the same order. So certain calls go one
//! way in all members, whichever each of them prefers, and others the other way: what these take together tells about
//! the whole group, whatever the part of a member in each. Nothing else is timed: it would tell of members that go
//! different ways, and the clock takes a part of what a short call takes. After a trial each tells the others what it
//! has found, and all take what is fastest for all together.

use deck_segment::attach::Attach;
use deck_segment::content::{STREAM_FROM, Way};

use super::call::Kind;
use super::room;

/// What is shorter goes through the caches, and what one member takes of less than [`STREAM_FROM`] bytes as well: it is
/// looked at next.
const FROM: usize = 2 << 10;

/// How data gets from who gives it to who takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Copied through the caches, and again.
    Through,
    /// Copied through the caches where it is given, and past them where it is taken: a long result would only drive out
    /// what others are to take.
    ThroughAndPast,
    /// Copied past the caches, and again.
    Past,
    /// Not copied where it is given: the kernel copies it from there.
    Attached,
}

impl Route {
    /// Every one, in the order in which they are tried: those after one another that leave the same in the caches.
    const ALL: [Route; 4] = [Route::Through, Route::Attached, Route::ThroughAndPast, Route::Past];
    /// The same as they are tried. What is read where it lies is read by other cores than before, and that takes twice
    /// as many calls to show how long it takes then.
    const TRIED: [Route; 5] = [Route::Through, Route::Attached, Route::Attached, Route::ThroughAndPast, Route::Past];

    /// How what is given is copied.
    pub fn giving(self) -> Way {
        if self == Route::Past { Way::PastCaches } else { Way::ThroughCaches }
    }

    /// How what is taken is copied, where that is not done by the kernel.
    pub fn taking(self) -> Way {
        match self {
            Route::Through | Route::Attached => Way::ThroughCaches,
            Route::ThroughAndPast | Route::Past => Way::PastCaches,
        }
    }
}

/// How often all ways are tried.
#[derive(Clone, Copy, Debug)]
struct Trials {
    /// So many calls go before the first trial: in these, members touch their memory for the first time.
    before: u32,
    /// The first of so many calls try all, ...
    of: u32,
    /// ... each so many times one after the other, ...
    each: u32,
    /// ... and the last of these tell: those before find the caches as the other way has left them.
    timed: u32,
}

/// With a root that goes round and two places for what each member gives, a line is written once in so many calls.
const SHORT: Trials = Trials { before: 0, of: 4096, each: 32, timed: 16 };
/// So many of long calls are timed. All members' times count together, so it need not be as many as there are roots.
const TIMED: u32 = 4;
/// What goes before them; with a root that goes round, members that have done their part go on while others have not,
/// and what each of them gives is where the other way has left it until it was root once.
const UNTIMED: u32 = 2;
const UNTIMED_ROOTS: u32 = 4;
/// Before the first trial each member is root as often as any other, in groups of up to so many.
const ROOTS_MAX: u32 = 16;

impl Trials {
    /// Those of long calls of `kind` with blocks of `bytes` and so many members.
    fn long(kind: Kind, bytes: usize, members: u32) -> Trials {
        let roots = if kind.has_root() { members.min(ROOTS_MAX) } else { 1 };
        let each = TIMED + if kind.has_root() { roots.max(UNTIMED_ROOTS) } else { UNTIMED };
        Trials { before: roots * room::calls_to_touch_all(bytes, members), of: 64 * each, each, timed: TIMED }
    }
}

/// What was once reached is forgotten by this part with every trial that takes longer.
const FORGET: u64 = 4;
const UNKNOWN: u64 = u64::MAX;

/// Calls that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alike {
    kind: Kind,
    /// Bytes of a block, as a power of two.
    magnitude: u32,
    /// They are of what lies in library memory.
    is_in_place: bool,
    /// May others read what they give in the program's own memory?
    attach: Attach,
}

impl Alike {
    /// The calls like one of `kind` with blocks of `bytes`; `None` if the way does not matter.
    #[inline]
    pub fn new(kind: Kind, bytes: usize, lies: impl FnOnce() -> (bool, Attach)) -> Option<Alike> {
        // Shorter ones are copied, wherever they lie.
        let lies = || if bytes > STREAM_FROM { lies() } else { (false, Attach::Never) };
        (bytes >= FROM).then(|| {
            let (is_in_place, attach) = lies();
            Alike { kind, magnitude: bytes.ilog2(), is_in_place, attach }
        })
    }

    /// Which way took the least; the first one unless that is known of it.
    fn fastest(&self, ns: &[u64; Route::ALL.len()]) -> Route {
        let (first, ns) = (self.routes()[0], |route: Route| ns[route as usize]);
        let least = self.routes().iter().copied().min_by_key(|route| ns(*route)).unwrap_or(first);
        if ns(first) == UNKNOWN { first } else { least }
    }

    /// What there is to choose from.
    fn routes(&self) -> &'static [Route] {
        match self.attach {
            // What is so short is taken through the caches, what lies in library memory is copied once, and what is
            // folded is not taken as it is.
            Attach::Never if self.is_in_place || self.is_short() || self.kind.is_reduction() => {
                &[Route::Through, Route::Past]
            }
            Attach::Never => &[Route::Through, Route::ThroughAndPast, Route::Past],
            Attach::Auto => &Route::TRIED,
            Attach::Always => &[Route::Attached],
        }
    }

    fn trials(&self, members: u32) -> Trials {
        if self.is_short() { SHORT } else { Trials::long(self.kind, 1 << self.magnitude, members) }
    }

    fn is_short(&self) -> bool {
        self.magnitude < STREAM_FROM.ilog2()
    }
}

/// What a member tells the others after a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Which calls it is of, and after how many of them.
    pub key: u64,
    /// What one took, for each way.
    pub ns: [u32; Route::ALL.len()],
}

impl Told {
    const UNIT_NS: u64 = 16;

    /// In longer units.
    fn rounded(ns: u64) -> u32 {
        u32::try_from(ns / Told::UNIT_NS).unwrap_or(u32::MAX)
    }

    /// What all together tell.
    fn sum(all: &[Told]) -> [u64; Route::ALL.len()] {
        std::array::from_fn(|route| {
            let sum = all.iter().try_fold(0u64, |sum, told| {
                (told.ns[route] != u32::MAX).then(|| sum.saturating_add(told.ns[route].into()))
            });
            sum.unwrap_or(UNKNOWN)
        })
    }
}

/// What is to be done after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Nothing,
    /// [`Ways::took`] is to be told what it takes.
    Time,
    /// This is told to the others before the call, and what they have told makes all [`Ways::agree`] after it.
    Agree(Told),
}

/// What calls that are alike took.
#[derive(Debug)]
struct Record {
    alike: Alike,
    trials: Trials,
    calls: u32,
    /// The present trial: its way, what was timed of it, and how many calls that was.
    trial: (Route, u64, u64),
    /// About the least nanoseconds of a call in a trial of each way; at first not known.
    best_ns: [u64; Route::ALL.len()],
    /// What all have agreed on.
    agreed: Option<Route>,
}

impl Record {
    fn best(&self) -> Route {
        self.agreed.unwrap_or_else(|| self.alike.fastest(&self.best_ns))
    }

    /// What this member tells the others of it: as that of so many calls.
    fn told(&self) -> Told {
        let Alike { kind, magnitude, is_in_place, attach } = self.alike;
        let alike = kind as u64 | u64::from(magnitude) << 8 | u64::from(is_in_place) << 16 | (attach as u64) << 24;
        Told { key: alike | u64::from(self.calls) << 32, ns: self.best_ns.map(Told::rounded) }
    }

    /// Another trial begins, or none.
    fn try_next(&mut self, route: Route) {
        let (before, ns, calls) = std::mem::replace(&mut self.trial, (route, 0, 0));
        if let Some(mean) = ns.checked_div(calls) {
            let best = &mut self.best_ns[before as usize];
            *best = mean.min(best.saturating_add(*best / FORGET + 1));
        }
    }
}

/// What a member's calls took.
#[derive(Debug)]
pub struct Ways {
    members: u32,
    records: Vec<Record>,
}

impl Ways {
    /// Those of one of so many members.
    pub fn new(members: u32) -> Ways {
        Ways { members, records: Vec::new() }
    }

    /// The way of the next call, whether it is waited for or only started, and what is to be done if it is waited for.
    pub fn choose(&mut self, alike: Alike) -> (Route, Then) {
        let routes = alike.routes();
        let record = match self.records.iter().position(|record| record.alike == alike) {
            Some(known) => &mut self.records[known],
            None => {
                self.records.push(Record {
                    alike,
                    trials: alike.trials(self.members),
                    calls: 0,
                    trial: (routes[0], 0, 0),
                    best_ns: [UNKNOWN; Route::ALL.len()],
                    agreed: None,
                });
                self.records.last_mut().expect("it was just pushed")
            }
        };
        let number = record.calls;
        record.calls = number.wrapping_add(1);
        let Trials { before, of, each, timed } = record.trials;
        let Some(number) = number.checked_sub(before) else { return (routes[0], Then::Nothing) };
        let round = number % of;
        let Some(route) = routes.get((round / each) as usize) else {
            record.try_next(record.trial.0);
            let is_next = round == each * routes.len() as u32;
            return (record.best(), if is_next { Then::Agree(record.told()) } else { Then::Nothing });
        };
        if round.is_multiple_of(each) {
            record.try_next(*route);
        }
        (*route, if round % each >= each - timed { Then::Time } else { Then::Nothing })
    }

    /// These were told by all, of calls that are alike: from now on all go the same way, which is the fastest for all
    /// together.
    pub fn agree(&mut self, alike: Alike, all: &[Told]) {
        if let Some(record) = self.of(alike) {
            record.agreed = Some(alike.fastest(&Told::sum(all)));
        }
    }

    /// The last call that was chosen for has not begun: it will be called again.
    pub fn take_back(&mut self, alike: Alike) {
        if let Some(record) = self.of(alike) {
            record.calls = record.calls.wrapping_sub(1);
        }
    }

    /// A call of a trial took so long.
    pub fn took(&mut self, alike: Alike, ns: u64) {
        if let Some(Record { trial: (_, sum, calls), .. }) = self.of(alike) {
            (*sum, *calls) = (*sum + ns, *calls + 1);
        }
    }

    /// How many calls were chosen for.
    #[cfg(test)]
    pub fn calls_like(&self, alike: Alike) -> u32 {
        self.records.iter().find(|record| record.alike == alike).map_or(0, |record| record.calls)
    }

    fn of(&mut self, alike: Alike) -> Option<&mut Record> {
        self.records.iter_mut().find(|record| record.alike == alike)
    }
}

#[cfg(test)]
mod tests;
