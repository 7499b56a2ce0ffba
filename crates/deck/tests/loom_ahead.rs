//! Model of members that are ahead of others: whoever takes something sees what was said in that very phase, each
//! member compares what all said in every phase, whomever it waited for, and nobody sleeps for ever: a lost wake-up
//! shows as a deadlock.
#![cfg(loom)]

use std::sync::Arc;

use deck::protocols::ahead::{Ahead, Awaited, tell};
use deck::protocols::course::Course;
use deck_sync::atomic::{AtomicU64, Ordering};
use deck_sync::{Calm, Crowd, Deadline, Event, Waiting, wait};
use loom::cell::UnsafeCell;
use loom::thread;

const MEMBERS: u32 = 2;
const LINES: usize = 4;

struct Line {
    phase: AtomicU64,
    said: AtomicU64,
    /// Loom reports a read and a write of it that no order keeps apart.
    access: UnsafeCell<()>,
}

impl Line {
    fn new() -> Line {
        Line { phase: AtomicU64::new(0), said: AtomicU64::new(0), access: UnsafeCell::new(()) }
    }
}

struct Shared {
    ahead: Ahead,
    lines: [[Line; LINES]; MEMBERS as usize],
    changed: Event,
}

impl Shared {
    fn line(&self, index: u32, phase: u64) -> &Line {
        &self.lines[index as usize][self.ahead.line(phase)]
    }

    fn said(&self, index: u32, phase: u64) -> u64 {
        let line = self.line(index, phase);
        line.access.with(|_| line.said.load(Ordering::Relaxed))
    }
}

struct Come<'a>(&'a Shared, Awaited, u32);

impl Waiting for Come<'_> {
    type Output = ();
    fn look(&mut self) -> Option<()> {
        let Come(shared, awaited, me) = self;
        let sources = awaited.course.sources(*me, MEMBERS);
        awaited.have_come(*me, sources, |index, phase| &shared.line(index, phase).phase, &mut 0).then_some(())
    }
}

/// What a member says in a phase.
fn words(index: u32, phase: u64) -> u64 {
    u64::from(index) << 8 | phase
}

fn attend(shared: &Shared, courses: &[Course], me: u32) {
    let crowd: Arc<dyn Crowd> = Arc::new(Calm);
    let until = |awaited| wait(&mut Come(shared, awaited, me), &[&shared.changed], &crowd, Deadline::NEVER).unwrap();
    for (phase, course) in (1..).zip(courses) {
        let floor = shared.ahead.floor(phase);
        until(Awaited::all(floor));
        if floor > 0 {
            // Nobody has written over it, though some may be far ahead.
            (0..MEMBERS).for_each(|index| assert_eq!(shared.said(index, floor), words(index, floor)));
        }
        let line = shared.line(me, phase);
        line.access.with_mut(|_| line.said.store(words(me, phase), Ordering::Relaxed));
        tell(&line.phase, phase, &shared.changed);
        until(Awaited { phase, course: *course });
        course.sources(me, MEMBERS).for_each(|from| assert_eq!(shared.said(from, phase), words(from, phase)));
    }
}

fn model(ahead: u64, preemptions: usize, courses: &'static [Course]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let lines = || [Line::new(), Line::new(), Line::new(), Line::new()];
        let ahead = Ahead::by(ahead).unwrap();
        let shared = Arc::new(Shared { ahead, lines: [lines(), lines()], changed: Event::new() });
        let other = {
            let shared = shared.clone();
            thread::spawn(move || attend(&shared, courses, 1))
        };
        attend(&shared, courses, 0);
        other.join().unwrap();
    });
}

/// Seen to fail: with a relaxed store of the phase; with a relaxed look at it; with a floor of one phase less.
#[test]
fn what_is_taken_was_said_in_that_phase() {
    model(1, 3, &[Course::From(0), Course::From(0), Course::From(1)]);
}

/// Seen to fail: with as many lines as a member may be ahead plus one.
#[test]
fn a_line_stays_until_all_have_compared_it() {
    model(2, 2, &[Course::From(0), Course::To(0), Course::From(0), Course::From(0), Course::From(0), Course::From(1)]);
}

/// Seen to fail: without the wake-up.
#[test]
fn whoever_sleeps_is_woken_by_the_one_it_waits_for() {
    model(1, 3, &[Course::To(1), Course::Upwards, Course::Between]);
}
