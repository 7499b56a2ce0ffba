//! The condition variable in shared words: waiters draw tickets, a signal calls the next one.
//!
//! A ticket is called when the count of called tickets has passed it, so a signal always goes to somebody who waited
//! before it, in the order in which they came, and a newcomer can never steal it. The first one of the row that gives
//! up counts its own ticket as called. Others that give up, or die, leave holes in the row that a signal could be lost
//! in; therefore the first signal after a hole calls everybody. That wakes some for no reason, which users of condition
//! variables have to expect anyway, and loses no wake-up.
//!
//! Tickets and their call are the eventcount and sequencer of Reed and Kanodia (1979).

use deck_segment::Words;
use deck_sync::atomic::{AtomicU64, Ordering, fence};
use deck_sync::{Event, Waiting, barrier};

/// Tickets drawn.
const DRAWN: usize = 0;
/// Tickets called.
const CALLED: usize = 1;
/// Waiters that ever gave up with others in front of them.
const HOLES: usize = 2;
/// Holes and deaths at the last call of everybody: none of those is in the row any more.
const MENDED: usize = 3;
/// The first of the events that waiters sleep on: a ticket's is the one of its number modulo their count.
const EVENTS: usize = 4;
const EVENT_COUNT: u64 = 4;
// As `docs/layout/job-table.md` says.
const _: () = assert!(DRAWN == 0 && CALLED == 1 && HOLES == 2 && MENDED == 3 && EVENTS == 4 && EVENT_COUNT == 4);

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
        // AcqRel: pairs with: tickets/drawn.
        Ticket(self.word(DRAWN).fetch_add(1, Ordering::AcqRel))
    }

    /// True once the ticket was called.
    pub fn is_called(self, ticket: Ticket) -> bool {
        // Acquire: pairs with: tickets/called.
        self.word(CALLED).load(Ordering::Acquire) > ticket.0
    }

    /// Gets out of the row without having been called; true if it was called in the last moment.
    pub fn give_up(self, ticket: Ticket) -> bool {
        // Another process may have written any number of tickets drawn.
        let next = ticket.0.wrapping_add(1);
        // AcqRel: pairs with: tickets/called. Acquire, on failure: pairs with: tickets/called.
        match self.word(CALLED).compare_exchange(ticket.0, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return false,
            Err(called) if called > ticket.0 => return true,
            Err(_) => {}
        }
        // AcqRel: pairs with: tickets/holes.
        self.word(HOLES).fetch_add(1, Ordering::AcqRel);
        // SeqCst: pairs with: tickets/give_up. Either we see the call that was meant for us, or the caller sees the
        // hole and calls all.
        fence(Ordering::SeqCst);
        self.is_called(ticket)
    }

    /// All that ever happened that may have left a hole. `deaths` tells the job's count of nodes that have died by now.
    fn damage(self, deaths: &dyn Fn() -> u64) -> u64 {
        // Acquire: pairs with: tickets/holes. The ticket of a hole that is counted here was drawn.
        self.word(HOLES).load(Ordering::Acquire).wrapping_add(deaths())
    }

    fn is_mended(self, damage: u64) -> bool {
        // Acquire: pairs with: tickets/mended. Every hole counted in it was called by now.
        self.word(MENDED).load(Ordering::Acquire) == damage
    }

    /// Calls the next one, if anybody waits. `deaths` is asked once more after that: whoever was called may have died
    /// meanwhile, and one that came after that death is not woken by it.
    pub fn call_one(self, deaths: &dyn Fn() -> u64) {
        if !self.is_mended(self.damage(deaths)) {
            return self.call_all(deaths);
        }
        // Acquire: pairs with: tickets/drawn.
        let drawn = self.word(DRAWN).load(Ordering::Acquire);
        let mut called = self.word(CALLED).load(Ordering::Relaxed);
        while called < drawn {
            // AcqRel: pairs with: tickets/called.
            match self.word(CALLED).compare_exchange(called, called + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    deck_sync::point("condition/called");
                    // Light: pairs with: wait/sleep.
                    barrier::light();
                    self.event(Ticket(called)).notify();
                    break;
                }
                Err(now) => called = now,
            }
        }
        // SeqCst: pairs with: tickets/give_up.
        fence(Ordering::SeqCst);
        if !self.is_mended(self.damage(deaths)) {
            self.call_all(deaths);
        }
    }

    /// Calls everybody who waits.
    pub fn call_all(self, deaths: &dyn Fn() -> u64) {
        // Before the row is looked at: what is damaged later is mended by a later call.
        let damage = self.damage(deaths);
        // Acquire: pairs with: tickets/drawn.
        let drawn = self.word(DRAWN).load(Ordering::Acquire);
        // AcqRel: pairs with: tickets/called.
        self.word(CALLED).fetch_max(drawn, Ordering::AcqRel);
        // Light: pairs with: wait/sleep.
        barrier::light();
        // All events: one that was called before may sleep still, if whoever called it was stopped before it rang.
        (0..EVENT_COUNT).for_each(|event| self.event(Ticket(event)).notify());
        // AcqRel: pairs with: tickets/mended.
        self.word(MENDED).fetch_max(damage, Ordering::AcqRel);
    }
}

/// A wait for the call of a ticket.
pub struct Called<'a> {
    /// The row.
    pub tickets: Tickets<'a>,
    /// The place in it.
    pub ticket: Ticket,
    /// True once a node has died since the ticket was drawn: the call may have gone to it.
    pub is_damaged: &'a dyn Fn() -> bool,
}

/// How such a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The ticket was called.
    Mine,
    /// Perhaps a call was lost with a node that has died.
    PerhapsLost,
}

impl Waiting for Called<'_> {
    type Output = Call;

    fn look(&mut self) -> Option<Call> {
        if self.tickets.is_called(self.ticket) {
            return Some(Call::Mine);
        }
        (self.is_damaged)().then_some(Call::PerhapsLost)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;
    use deck_segment::Segment;

    fn words() -> Words {
        let segment = Segment::create("test", 4096).unwrap();
        segment.allocate(0, 4096).unwrap();
        Words::in_segment(&segment, 0, 8).unwrap()
    }

    #[test]
    fn tickets_are_called_in_the_order_of_drawing_and_never_ahead() {
        let words = words();
        let row = Tickets::new(&words);
        row.call_one(&|| 0);
        let [first, second, third] = std::array::from_fn(|_| row.draw());
        assert!(!row.is_called(first), "a signal that nobody waited for is over");
        row.call_one(&|| 0);
        assert_eq!([first, second, third].map(|ticket| row.is_called(ticket)), [true, false, false]);
        row.call_all(&|| 0);
        assert!(row.is_called(third));
        assert!(!row.is_called(row.draw()));
    }

    #[test]
    fn a_signal_is_not_lost_on_those_who_gave_up_or_are_gone() {
        let words = words();
        let row = Tickets::new(&words);
        let [first, second, _, last] = std::array::from_fn(|_| row.draw());
        assert!(!row.give_up(second));
        row.call_one(&|| 0);
        assert!(row.is_called(first) && row.is_called(last));
        // Mended: from here on one at a time again.
        let [third, fourth, fifth] = std::array::from_fn(|_| row.draw());
        row.call_one(&|| 0);
        assert!(row.is_called(third) && !row.is_called(fourth));
        // The one with the fourth is gone.
        row.call_one(&|| 1);
        assert!(row.is_called(fifth));
        let [sixth, seventh] = std::array::from_fn(|_| row.draw());
        row.call_one(&|| 1);
        assert!(row.give_up(sixth) && !row.is_called(seventh), "called in the last moment");
    }

    /// As `Object::begin_anew` does it, from the last word to the first.
    #[test]
    fn a_row_that_was_half_made_anew_by_one_that_died_loses_no_signal() {
        for anew in 0..=EVENTS {
            let words = words();
            // Two holes and a death, after which all were called.
            [(DRAWN, 7), (CALLED, 7), (HOLES, 2), (MENDED, 3)]
                .into_iter()
                .for_each(|(word, value)| words.get(word).store(value, Ordering::Relaxed));
            (EVENTS - anew..EVENTS).for_each(|word| words.get(word).store(0, Ordering::Relaxed));
            let row = Tickets::new(&words);
            let [first, second, third] = std::array::from_fn(|_| row.draw());
            let was_called = row.give_up(second);
            (0..2).for_each(|_| row.call_one(&|| 2));
            assert!(row.is_called(first) && (was_called || row.is_called(third)), "{anew}");
        }
    }

    #[test]
    fn the_first_of_the_row_may_give_up_and_the_next_signal_calls_one() {
        let words = words();
        let row = Tickets::new(&words);
        let [first, second, third, fourth] = std::array::from_fn(|_| row.draw());
        assert!(!row.give_up(first) && !row.give_up(second));
        row.call_one(&|| 0);
        assert!(row.is_called(third) && !row.is_called(fourth));
        assert!(row.give_up(third), "it was called");
    }

    #[test]
    fn a_row_with_nonsense_in_it_can_be_left() {
        let words = words();
        [DRAWN, CALLED].iter().for_each(|word| words.get(*word).store(u64::MAX, Ordering::Relaxed));
        let row = Tickets::new(&words);
        let last = row.draw();
        row.give_up(last);
        row.call_one(&|| 0);
    }

    #[test]
    fn a_signal_is_not_lost_on_one_that_dies_while_it_is_given() {
        let words = words();
        let row = Tickets::new(&words);
        row.draw();
        let (deaths, behind) = (Cell::new(0), Cell::new(None));
        row.call_one(&|| {
            let so_far = deaths.get();
            if behind.get().is_none() {
                deaths.set(1);
                behind.set(Some(row.draw()));
            }
            so_far
        });
        assert!(behind.get().is_some_and(|ticket| row.is_called(ticket)));
    }
}
