//! The condition variable in shared words: waiters draw tickets, a signal calls the next one.
//!
//! A ticket is called when the count of called tickets has passed it, so a signal always goes to somebody who waited before
//! it, in the order in which they came, and a newcomer can never steal it. Waiters that give up, or die, leave holes in the
//! row that a signal could be lost in; therefore the first signal after a hole calls everybody. That wakes some for no
//! reason, which users of condition variables have to expect anyway, and loses no wake-up.
//!
//! Tickets and their call are the eventcount and sequencer of Reed and Kanodia (1979).

use deck_segment::Words;
use deck_sync::atomic::{AtomicU64, Ordering, fence};
use deck_sync::{Event, Waiting};

/// Tickets drawn.
const DRAWN: usize = 0;
/// Tickets called.
const CALLED: usize = 1;
/// Waiters that gave up since the last call of everybody.
const HOLES: usize = 2;
/// The job's count of departures at the last call.
const DEPARTURES: usize = 3;
/// The first of the events that waiters sleep on: a ticket's is the one of its number modulo their count.
const EVENTS: usize = 4;
const EVENT_COUNT: u64 = 4;

/// A place in the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// A view of the words of a condition variable.
#[derive(Clone, Copy)]
pub struct Tickets<'a>(&'a Words);

impl<'a> Tickets<'a> {
    /// The row in these words.
    pub fn new(words: &'a Words) -> Tickets<'a> {
        Tickets(words)
    }

    fn word(self, index: usize) -> &'a AtomicU64 {
        self.0.get(index)
    }

    /// The event that is notified when `ticket` is called.
    pub fn event(self, ticket: Ticket) -> &'a Event {
        self.0.event(EVENTS + (ticket.0 % EVENT_COUNT) as usize)
    }

    /// Gets in the row: before the mutex is let go of.
    pub fn draw(self) -> Ticket {
        Ticket(self.word(DRAWN).fetch_add(1, Ordering::AcqRel))
    }

    /// True once the ticket was called.
    pub fn is_called(self, ticket: Ticket) -> bool {
        // Acquire: pairs with: tickets/called.
        self.word(CALLED).load(Ordering::Acquire) > ticket.0
    }

    /// Gets out of the row without having been called; true if it was called in the last moment.
    pub fn give_up(self, ticket: Ticket) -> bool {
        if self.is_called(ticket) {
            return true;
        }
        self.word(HOLES).fetch_add(1, Ordering::AcqRel);
        // Pairs with: tickets/holes. Either we see the call that was meant for us, or the caller sees the hole and calls all.
        fence(Ordering::SeqCst);
        self.is_called(ticket)
    }

    /// Calls the next one, if anybody waits. `departures` is the job's count of nodes that are gone.
    pub fn call_one(self, departures: u64) {
        if self.word(DEPARTURES).load(Ordering::Relaxed) != departures {
            // Some of those in the row may not live any more.
            self.word(DEPARTURES).store(departures, Ordering::Relaxed);
            return self.call_all();
        }
        if self.word(HOLES).load(Ordering::Acquire) != 0 {
            return self.call_all();
        }
        let drawn = self.word(DRAWN).load(Ordering::Acquire);
        let mut called = self.word(CALLED).load(Ordering::Relaxed);
        while called < drawn {
            // Release: pairs with: tickets/called.
            match self.word(CALLED).compare_exchange(called, called + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    deck_sync::point("condition/called");
                    self.event(Ticket(called)).notify();
                    break;
                }
                Err(now) => called = now,
            }
        }
        // Pairs with: tickets/holes.
        fence(Ordering::SeqCst);
        if self.word(HOLES).load(Ordering::Relaxed) != 0 {
            self.call_all();
        }
    }

    /// Calls everybody who waits.
    pub fn call_all(self) {
        loop {
            self.word(HOLES).store(0, Ordering::Relaxed);
            // Pairs with: tickets/holes. A hole that is counted from now on is seen below, or lies behind `drawn`.
            fence(Ordering::SeqCst);
            let drawn = self.word(DRAWN).load(Ordering::Acquire);
            // Release: pairs with: tickets/called.
            let before = self.word(CALLED).fetch_max(drawn, Ordering::AcqRel);
            for ticket in before..drawn.min(before.saturating_add(EVENT_COUNT)) {
                self.event(Ticket(ticket)).notify();
            }
            fence(Ordering::SeqCst);
            if self.word(HOLES).load(Ordering::Relaxed) == 0 {
                return;
            }
        }
    }
}

/// A wait for the call of a ticket.
pub struct Called<'a> {
    /// The row.
    pub tickets: Tickets<'a>,
    /// The place in it.
    pub ticket: Ticket,
}

impl Waiting for Called<'_> {
    type Output = ();

    fn look(&mut self) -> Option<()> {
        self.tickets.is_called(self.ticket).then_some(())
    }
}
