//! What waits do, where that is seen without a model.

use super::*;
use crate::atomic::{AtomicBool, Ordering};
use crate::crowd::Alone;
use crate::thread::Canceller;

struct Flag<'a>(&'a AtomicBool);

impl Waiting for Flag<'_> {
    type Output = ();
    fn look(&mut self) -> Option<()> {
        self.0.load(Ordering::SeqCst).then_some(())
    }
}

/// Whether it is one.
struct Fixed(bool);
impl Crowd for Fixed {
    fn resume(&self) {}
    fn rest(&self) {}
    fn is_crowded(&self) -> bool {
        self.0
    }
}

/// A crowd in which threads are called, and what was done there.
#[derive(Default)]
struct Calling(std::sync::Mutex<Vec<&'static str>>);

impl Calling {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }
}

impl Crowd for Calling {
    fn resume(&self) {}
    fn rest(&self) {}
    fn is_crowded(&self) -> bool {
        true
    }
    fn spot(&self, core: u32) -> Option<Spot> {
        Some(Spot { core, place: 0 })
    }
    fn call(&self, _spot: Spot) {
        self.note("may have something to do");
    }
    fn answer(&self, _spot: Spot) -> u32 {
        self.note("has nothing to do");
        0
    }
}

/// Is there at the first look after it has said where it is called.
struct Arrives {
    can_be_called: bool,
    is_there: bool,
}

impl Waiting for Arrives {
    type Output = ();
    fn look(&mut self) -> Option<()> {
        self.is_there.then_some(())
    }
    fn is_called_at(&mut self, _spot: Spot) -> bool {
        self.is_there = true;
        self.can_be_called
    }
}

#[test]
fn who_gives_its_core_away_says_whether_it_can_be_called_and_looks_once_more() {
    let done = |can_be_called| {
        let calling = Calling::default();
        let start = now_ns();
        let mut waiting = Arrives { can_be_called, is_there: false };
        let result = stay_awake(&mut waiting, &calling, start, Limits::of_a_wait(), Deadline::NEVER);
        assert_eq!(result, Some(Ok(())));
        calling.0.into_inner().unwrap()
    };
    assert_eq!(done(true), ["has nothing to do"]);
    assert_eq!(done(false), ["may have something to do"]);
}

/// What comes true without a word to anybody, once the waiter has armed itself.
#[derive(Default)]
struct Unheard {
    armed: u32,
}

impl Waiting for Unheard {
    type Output = ();
    fn look(&mut self) -> Option<()> {
        None
    }
    fn look_everywhere(&mut self) -> Option<()> {
        Some(())
    }
    fn arm(&mut self) {
        self.armed += 1;
    }
}

#[test]
fn a_sleeper_that_nobody_rings_looks_everywhere() {
    for crowd in crowds() {
        assert_eq!(wait(&mut Unheard::default(), &[&Event::new()], &crowd, Deadline::NEVER), Ok(()));
    }
}

/// Comes true after the first look everywhere, without a word to anybody.
struct UnheardAtFirst(bool);

impl Waiting for UnheardAtFirst {
    type Output = ();
    fn look(&mut self) -> Option<()> {
        None
    }
    fn look_everywhere(&mut self) -> Option<()> {
        std::mem::replace(&mut self.0, true).then_some(())
    }
}

#[test]
fn a_sleeper_looks_everywhere_before_its_deadline_ends_the_wait() {
    for crowd in crowds() {
        // In the second nap, which would last longer.
        let deadline = Deadline::after(Duration::from_millis(300));
        assert_eq!(wait(&mut UnheardAtFirst(false), &[&Event::new()], &crowd, deadline), Ok(()));
    }
}

/// Counts its looks, and those before which all that it needs was fetched.
#[derive(Default)]
struct Looking {
    has_looked: bool,
    looks: u32,
    expecting: std::cell::Cell<u32>,
}

impl Waiting for Looking {
    type Output = ();
    fn look(&mut self) -> Option<()> {
        self.looks += 1;
        None
    }
    fn has_looked(&self) -> bool {
        self.has_looked
    }
    fn expect(&self) {
        self.expecting.set(self.looks + 1);
    }
}

#[test]
fn who_has_just_looked_and_would_not_wait_does_not_look_again() {
    let looks = |has_looked| {
        let mut looking = Looking { has_looked, ..Looking::default() };
        let outcome = wait(&mut looking, &[&Event::new()], &Alone::shared(), Deadline::NOW);
        assert_eq!(outcome, Err(Interrupted::Deadline));
        looking.looks
    };
    assert_eq!([false, true].map(looks), [1, 0]);
}

#[test]
fn who_gets_its_core_back_fetches_what_it_is_about_to_look_at() {
    let looks_after = |crowd: &dyn Crowd| {
        let mut looking = Looking::default();
        assert_eq!(
            stay_awake(&mut looking, crowd, now_ns(), Limits::of_a_wait(), Deadline::NEVER),
            None,
            "it is to sleep"
        );
        looking.expecting.get()
    };
    assert_eq!(looks_after(&Fixed(false)), 0, "nobody was given the core");
    assert!(looks_after(&Fixed(true)) > 0);
}

fn crowds() -> [Arc<dyn Crowd>; 2] {
    [Alone::shared(), Arc::new(Fixed(true))]
}

#[test]
fn a_deadline_ends_the_wait() {
    for crowd in crowds() {
        let (flag, event) = (AtomicBool::new(false), Event::new());
        let deadline = Deadline::after(Duration::from_millis(3));
        assert_eq!(wait(&mut Flag(&flag), &[&event], &crowd, deadline), Err(Interrupted::Deadline));
        assert!(deadline.has_passed());
        assert!(!event.has_sleepers());
    }
}

/// Counts what it does between looks.
struct Busy(u32);

impl Waiting for Busy {
    type Output = ();
    fn look(&mut self) -> Option<()> {
        None
    }
    fn meanwhile(&mut self) -> bool {
        self.0 += 1;
        true
    }
}

#[test]
fn a_wait_does_something_meanwhile_unless_others_want_its_core() {
    let event = Event::new();
    let crowds: [Arc<dyn Crowd>; 2] = [Arc::new(Fixed(false)), Arc::new(Fixed(true))];
    let [roomy, crowded] = crowds.map(|crowd| {
        // Those that begin with brief looks do not know of a crowd.
        patience::begin_at_once();
        let mut busy = Busy(0);
        let deadline = Deadline::after(Duration::from_micros(20));
        assert_eq!(wait(&mut busy, &[&event], &crowd, deadline), Err(Interrupted::Deadline));
        busy.0
    });
    assert!(roomy > 0);
    assert_eq!(crowded, 0);
}

#[test]
fn a_notification_ends_the_sleep_of_every_waiter() {
    for crowd in crowds() {
        let (flag, event) = (AtomicBool::new(false), Event::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| wait(&mut Flag(&flag), &[&event], &crowd, Deadline::NEVER).unwrap());
            }
            while !event.has_sleepers() {
                atomic::yield_now();
            }
            flag.store(true, Ordering::SeqCst);
            event.notify();
        });
    }
}

#[test]
fn a_cancellation_ends_one_wait_asleep_or_not_yet_begun() {
    for crowd in crowds() {
        let (flag, event) = (AtomicBool::new(false), Event::new());
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                send.send(Canceller::of_this_thread()).unwrap();
                let outcome = wait(&mut Flag(&flag), &[&event], &crowd, Deadline::NEVER);
                assert_eq!(outcome, Err(Interrupted::Cancelled));
                // Consumed: the next wait is a wait again.
                let outcome = wait(&mut Flag(&flag), &[&event], &crowd, Deadline::after(Duration::from_millis(1)));
                assert_eq!(outcome, Err(Interrupted::Deadline));
                Canceller::of_this_thread().cancel();
                let outcome = wait(&mut Flag(&flag), &[&event], &crowd, Deadline::NEVER);
                assert_eq!(outcome, Err(Interrupted::Cancelled));
            });
            let canceller = receive.recv().unwrap();
            while !event.has_sleepers() {
                atomic::yield_now();
            }
            canceller.cancel();
        });
    }
}

#[test]
#[cfg_attr(miri, ignore = "futex_waitv")]
fn several_events_can_be_waited_for() {
    let crowd: Arc<dyn Crowd> = Alone::shared();
    let (flag, events) = (AtomicBool::new(false), [Event::new(), Event::new(), Event::new()]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let events: Vec<&Event> = events.iter().collect();
            wait(&mut Flag(&flag), &events, &crowd, Deadline::NEVER).unwrap();
        });
        while !events[2].has_sleepers() {
            atomic::yield_now();
        }
        flag.store(true, Ordering::SeqCst);
        events[2].notify();
    });
}

/// Somebody needs this very core; what is waited for is there once it was given away.
#[derive(Default)]
struct Needed {
    was_given_away: std::cell::Cell<bool>,
    asked_where: std::cell::Cell<u32>,
}

impl Waiting for Needed {
    type Output = u32;
    fn look(&mut self) -> Option<u32> {
        self.was_given_away.get().then(|| self.asked_where.get())
    }
    fn expect(&self) {
        self.was_given_away.set(true);
    }
    fn whereabouts(&self) -> Whereabouts {
        self.asked_where.set(self.asked_where.get() + 1);
        Whereabouts::Here
    }
}

#[test]
fn a_wait_gives_its_core_away_before_it_asks_who_is_there_if_the_last_ones_had_to_and_now_and_then_asks_again() {
    let crowd: Arc<dyn Crowd> = Arc::new(Fixed(true));
    let asked_where = || wait(&mut Needed::default(), &[&Event::new()], &crowd, Deadline::NEVER).unwrap();
    assert!(asked_where() > 1, "once more when the core is back, to go by that");
    let times = (0..1000).take_while(|_| asked_where() == 1).count();
    assert!((2..1000).contains(&times), "{times}");
    assert_eq!(asked_where(), 1, "it was asked, and the next ones go by that");
}

/// Sets the alarm for waits of this thread.
fn wait_for_a_millisecond_each_time() {
    let long = Duration::from_millis(1).as_nanos() as u64;
    (0..100).for_each(|_| alarm::slept(long));
}

/// Is there once its thread has slept and is awake. Nobody rings.
struct SeenAwake<'a> {
    event: &'a Event,
    is_armed: bool,
    disarmed: u32,
}

impl Waiting for SeenAwake<'_> {
    type Output = ();
    fn look(&mut self) -> Option<()> {
        (self.is_armed && !self.event.has_sleepers()).then_some(())
    }
    fn arm(&mut self) {
        self.is_armed = true;
    }
    fn disarm(&mut self) {
        self.disarmed += 1;
    }
}

/// Whether one that waits for about as long each time is awake before its deadline, which is later.
fn is_seen_awake(is_crowded: bool) -> bool {
    let (event, crowd): (_, Arc<dyn Crowd>) = (Event::new(), Arc::new(Fixed(is_crowded)));
    wait_for_a_millisecond_each_time();
    let mut waiting = SeenAwake { event: &event, is_armed: false, disarmed: 0 };
    let result = wait(&mut waiting, &[&event], &crowd, Deadline::after(Duration::from_millis(30)));
    assert_eq!(waiting.disarmed, 1, "others stay asked until the wait is over");
    result.is_ok()
}

#[test]
#[cfg_attr(miri, ignore = "measures time")]
fn whoever_waits_for_about_as_long_each_time_is_awake_before_it_is_due() {
    // One that gets no core before its alarm sets none.
    assert!((0..1000).any(|_| is_seen_awake(false)));
}

#[test]
#[cfg_attr(miri, ignore = "measures time")]
fn in_a_crowd_nobody_is_awake_before_it_is_due() {
    assert!(!is_seen_awake(true));
}

#[test]
fn a_sleeper_looks_everywhere_at_its_alarm_and_not_only_when_it_has_slept_again() {
    for crowd in crowds() {
        wait_for_a_millisecond_each_time();
        let mut waiting = Unheard::default();
        assert_eq!(wait(&mut waiting, &[&Event::new()], &crowd, Deadline::NEVER), Ok(()));
        assert_eq!(waiting.armed, 1, "times that it went to sleep");
    }
}

#[test]
fn a_deadline_ends_a_wait_before_its_alarm_and_after_it() {
    let crowd: Arc<dyn Crowd> = Arc::new(Fixed(false));
    let never = AtomicBool::new(false);
    for time in [300, 900, 1200, 5000] {
        wait_for_a_millisecond_each_time();
        let result = wait(&mut Flag(&never), &[&Event::new()], &crowd, Deadline::after(Duration::from_micros(time)));
        assert_eq!(result, Err(Interrupted::Deadline), "{time} us");
    }
}
