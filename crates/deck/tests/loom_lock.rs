//! Models of the mutex and the condition variable of a job: one inside at a time, who sees what the one before it did;
//! no wake-up lost; the dead in the way of nobody. A lost wake-up shows as a deadlock.
#![cfg(loom)]

use std::cell::Cell;
use std::sync::Arc;

use deck::shared::{Attempt, Call, Called, Holder, Lock, Outcome, Since, Taken, Taking, Tickets};
use deck_segment::Words;
use deck_sync::atomic::{AtomicU32, AtomicU64, Ordering, pause};
use deck_sync::barrier::without_light;
use deck_sync::{Calm, Crowd, Deadline, NodeId, wait};
use loom::thread;

fn bounded(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}

/// A lock, and what it protects: a number that is read and written without any order of its own, so that two who touch
/// it together, or one who does not see what the other did, lose an addition.
struct Protected {
    words: Words,
    value: AtomicU32,
}

impl Protected {
    fn new() -> Arc<Protected> {
        Arc::new(Protected { words: Words::model(8), value: AtomicU32::new(0) })
    }

    fn lock(&self) -> Lock<'_> {
        Lock::new(&self.words)
    }

    fn add_one(&self) {
        let value = self.value.load(Ordering::Relaxed);
        self.value.store(value + 1, Ordering::Relaxed);
    }
}

fn thread_of(node: u32) -> Holder {
    Holder::new(NodeId(node), 0)
}

fn take(of: &Protected, me: Holder, since: Option<u64>, is_live: &dyn Fn(NodeId) -> bool) -> Taken {
    let crowd: Arc<dyn Crowd> = Arc::new(Calm);
    let since = since.map(|ms| Since::at_ns(ms << 20));
    let mut taking = Taking { lock: of.lock(), me, since, patient_with: None, is_live, about: None };
    loop {
        match wait(&mut taking, &[of.lock().freed()], &crowd, Deadline::NEVER).unwrap() {
            Outcome::Taken(taken) => return taken,
            // Another one has the turn: patience until something changes.
            Outcome::Reserved(turn) => taking.patient_with = Some(turn),
            Outcome::Changed => taking.patient_with = None,
        }
    }
}

fn live(_: NodeId) -> bool {
    true
}

/// Two that come once each, asleep or awake, starving or not.
///
/// Seen to fail: with a relaxed compare-and-swap where the lock is let go of, or where it is taken; without the light
/// fence before the look for sleepers; without the wake-up.
#[test]
fn one_is_inside_and_nobody_sleeps_beside_a_free_lock() {
    for since in [[None, None], [Some(1), None], [Some(1), Some(2)]] {
        bounded(3, move || {
            let of = Protected::new();
            let come = |number: u32, of: Arc<Protected>| {
                move || {
                    let me = thread_of(number);
                    assert_eq!(take(&of, me, since[number as usize], &live), Taken::Clean);
                    of.add_one();
                    assert!(of.lock().release(me));
                }
            };
            let other = thread::spawn(come(1, of.clone()));
            come(0, of.clone())();
            other.join().unwrap();
            assert_eq!(take(&of, thread_of(2), None, &live), Taken::Clean);
            assert_eq!(of.value.load(Ordering::Relaxed), 2);
        });
    }
}

/// One that had the turn gives up while the holder lets go: a third one that stood back for it gets the lock.
///
/// Seen to fail: without the wake-up of who gives up the turn.
#[test]
fn a_turn_that_is_given_up_holds_up_nobody() {
    bounded(3, || {
        let of = Protected::new();
        let [holder, impatient, patient] = [0, 1, 2].map(thread_of);
        of.lock().try_take(holder, None, &live);
        of.lock().try_take(impatient, Some(Since::at_ns(1 << 20)), &live);
        let others = {
            let of = of.clone();
            thread::spawn(move || {
                of.lock().release(holder);
                of.lock().give_up(impatient);
            })
        };
        assert_eq!(take(&of, patient, Some(2), &live), Taken::Clean);
        others.join().unwrap();
    });
}

/// The holder's node dies while two wait: one of them is told, once.
#[test]
fn the_lock_of_a_dead_holder_is_told_to_one() {
    bounded(3, || {
        let of = Protected::new();
        let dead = |node: NodeId| node != NodeId(9);
        of.lock().try_take(thread_of(9), None, &live);
        let come = |number: u32, of: Arc<Protected>| {
            move || {
                let me = thread_of(number);
                let taken = take(&of, me, Some(u64::from(number)), &dead);
                of.add_one();
                of.lock().release(me);
                taken
            }
        };
        let other = thread::spawn(come(2, of.clone()));
        let told = [come(1, of.clone())(), other.join().unwrap()];
        assert_eq!(told.iter().filter(|taken| **taken == Taken::FromDead(NodeId(9))).count(), 1);
        assert!(matches!(of.lock().try_take(thread_of(3), None, &live), Attempt::Taken(Taken::Clean)));
    });
}

fn called(row: &Words, ticket: deck::shared::Ticket) {
    let crowd: Arc<dyn Crowd> = Arc::new(Calm);
    let tickets = Tickets::new(row);
    let mut waiting = Called { tickets, ticket, is_damaged: &|| false };
    assert_eq!(wait(&mut waiting, &[tickets.event(ticket)], &crowd, Deadline::NEVER), Ok(Call::Mine));
}

/// A signal given after a waiter got in the row reaches it, and what the signaller did before is seen.
///
/// Seen to fail: without the light fence before the notification.
#[test]
fn a_signal_behind_a_waiter_reaches_it() {
    bounded(3, || {
        let row = Words::model(8);
        let value = Arc::new(AtomicU32::new(0));
        let ticket = Tickets::new(&row).draw();
        let signaller = {
            let (row, value) = (row.clone(), value.clone());
            thread::spawn(move || {
                value.store(1, Ordering::Relaxed);
                Tickets::new(&row).call_one(&|| 0);
            })
        };
        called(&row, ticket);
        assert_eq!(value.load(Ordering::Relaxed), 1);
        signaller.join().unwrap();
    });
}

/// The same with one who looks again and again, whoever is called: only the row orders what the signaller did.
///
/// Seen to fail: with a relaxed look at what is called; with a call of one, or of all, that does not release.
#[test]
fn whoever_is_called_sees_what_the_signaller_did_by_the_row_alone() {
    for calls_all in [false, true] {
        without_light(|| {
            bounded(3, move || {
                let row = Words::model(8);
                let value = Arc::new(AtomicU32::new(0));
                let ticket = Tickets::new(&row).draw();
                let waiter = {
                    let (row, value) = (row.clone(), value.clone());
                    thread::spawn(move || {
                        while !Tickets::new(&row).is_called(ticket) {
                            pause();
                        }
                        assert_eq!(value.load(Ordering::Relaxed), 1);
                    })
                };
                value.store(1, Ordering::Relaxed);
                let row = Tickets::new(&row);
                if calls_all {
                    row.call_all(&|| 0)
                } else {
                    row.call_one(&|| 0)
                }
                waiter.join().unwrap();
            });
        });
    }
}

/// One gives up that was called in the last moment.
///
/// Seen to fail: with a relaxed look of who gives up at what is called.
#[test]
fn whoever_gives_up_too_late_sees_what_the_signaller_did() {
    without_light(|| {
        bounded(4, || {
            let row = Words::model(8);
            let value = Arc::new(AtomicU32::new(0));
            let ticket = Tickets::new(&row).draw();
            let waiter = {
                let (row, value) = (row.clone(), value.clone());
                thread::spawn(move || {
                    if Tickets::new(&row).give_up(ticket) {
                        assert_eq!(value.load(Ordering::Relaxed), 1);
                    }
                })
            };
            value.store(1, Ordering::Relaxed);
            Tickets::new(&row).call_one(&|| 0);
            waiter.join().unwrap();
        });
    });
}

/// One in the middle gives up while two signals come: the last of the row is called, unless the one in the middle says
/// that it was called.
///
/// Seen to fail: without either fence between what is called and the holes.
#[test]
fn a_signal_finds_the_hole_that_it_falls_into() {
    without_light(|| {
        bounded(4, || {
            let row = Words::model(8);
            let [_, second, third] = [(); 3].map(|()| Tickets::new(&row).draw());
            let signaller = {
                let row = row.clone();
                thread::spawn(move || (0..2).for_each(|_| Tickets::new(&row).call_one(&|| 0)))
            };
            let was_called = Tickets::new(&row).give_up(second);
            signaller.join().unwrap();
            assert!(was_called || Tickets::new(&row).is_called(third));
        });
    });
}

/// One gets in the row and gives up behind another one, while everybody is called: a hole that counts as mended was
/// called, and the next signal goes to the next one.
///
/// Seen to fail: with a hole that is counted relaxed; with a relaxed look at the holes.
#[test]
fn a_hole_that_counts_as_mended_was_called() {
    without_light(|| {
        bounded(4, || {
            let row = Words::model(8);
            Tickets::new(&row).draw();
            let calling = {
                let row = row.clone();
                thread::spawn(move || Tickets::new(&row).call_all(&|| 0))
            };
            let second = Tickets::new(&row).draw();
            Tickets::new(&row).give_up(second);
            calling.join().unwrap();
            let third = Tickets::new(&row).draw();
            Tickets::new(&row).call_one(&|| 0);
            assert!(Tickets::new(&row).is_called(third));
        });
    });
}

/// One in the middle gives up, and two signals come, from two threads: the last of the row is reached, unless the one
/// in the middle says that it was called.
///
/// Seen to fail: without the fence in `give_up`; without the second look at the damage in `call_one`.
#[test]
fn a_signal_is_not_lost_on_one_that_gives_up_between_others() {
    bounded(2, || {
        let row = Words::model(8);
        let [_, second, third] = [(); 3].map(|()| Tickets::new(&row).draw());
        let signallers = [(); 2].map(|()| {
            let row = row.clone();
            thread::spawn(move || Tickets::new(&row).call_one(&|| 0))
        });
        if !Tickets::new(&row).give_up(second) {
            called(&row, third);
        }
        signallers.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// One in front gives up, and one signal comes: it goes to the one that gives up, if that says that it was called; else
/// to the other.
///
/// Seen to fail: with a ticket that is given up and not counted as called.
#[test]
fn one_signal_reaches_one_of_two() {
    bounded(4, || {
        let row = Words::model(8);
        let [first, second] = [(); 2].map(|()| Tickets::new(&row).draw());
        let signaller = {
            let row = row.clone();
            thread::spawn(move || Tickets::new(&row).call_one(&|| 0))
        };
        if !Tickets::new(&row).give_up(first) {
            called(&row, second);
        }
        signaller.join().unwrap();
    });
}

/// One in front dies while a signal is given, and another one gets in the row that knows of the death: if the signal
/// found it there, it is reached.
///
/// Seen to fail: with a second look at the deaths of the first.
#[test]
fn a_signal_is_not_lost_on_one_that_dies() {
    bounded(4, || {
        let row = Words::model(8);
        let [deaths, in_row] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        Tickets::new(&row).draw();
        let signaller = {
            let (row, deaths, in_row) = (row.clone(), deaths.clone(), in_row.clone());
            thread::spawn(move || {
                let is_behind = Cell::new(None);
                Tickets::new(&row).call_one(&|| {
                    let so_far = deaths.load(Ordering::Acquire);
                    // The row is looked at after this.
                    is_behind.set(is_behind.get().or(Some(in_row.load(Ordering::Acquire) == 1)));
                    so_far
                });
                is_behind.get() == Some(true)
            })
        };
        deaths.fetch_add(1, Ordering::AcqRel);
        let ticket = Tickets::new(&row).draw();
        in_row.store(1, Ordering::Release);
        let is_behind = signaller.join().unwrap();
        assert!(!is_behind || Tickets::new(&row).is_called(ticket));
    });
}
