//! The runnable threads of all nodes of a job that share cores with this one.

use std::sync::{Arc, Mutex};

use deck_segment::Seat;
use deck_sync::atomic::{AtomicU64, Ordering};
use deck_sync::{About, Crowd, NodeId, Spot, Spread, core_mask, current_core, locker_number, usable_cores};

use crate::notices::{Content, Notices, Subject};
use crate::table::Table;

/// Neighbours that are added up for every answer. Where there are more, one serves several askers in a row, so that it
/// costs about the same among 2 nodes or 250.
const ADDED_UP_AT_ONCE: usize = 64;

/// A node that nobody has called, and one that may have something to do on any core.
const NOWHERE: u64 = 0;
const EVERYWHERE: u64 = u64::MAX;
/// Once for each time that another one got the core to which a node is called.
const PASSED_OVER: u64 = 1 << 32;
/// Threads for each core above which nobody is told that it was passed over: of so many orders no good one is found by
/// chance.
const ORDERLY: u64 = 4;

/// Answers between two looks at where the neighbours are.
const ANSWERS_PER_LOOK_AROUND: u32 = 16;

/// Counts this node's runnable threads in the job's table and adds up those of its neighbours.
#[derive(Debug)]
pub struct JobCrowd {
    table: Table,
    node: NodeId,
    seat: Seat,
    cores: u64,
    mask: [u64; 16],
    /// The table's count of changes that `neighbours` belongs to.
    known: AtomicU64,
    neighbours: Mutex<Neighbours>,
    /// The last answer: how many threads want to run, if there are fewer cores; else 0.
    crowd: AtomicU64,
    /// The seats of neighbours are before this one.
    seats: AtomicU64,
    notices: Arc<Notices>,
}

#[derive(Debug)]
struct Neighbours {
    /// Of nodes that may run on some of our cores.
    seats: Vec<Seat>,
    /// How often the last answer will do.
    answers_left: usize,
    spread: Spread,
}

impl JobCrowd {
    /// The crowd of `node` on `seat`; tells the others on which cores this one runs.
    pub fn new(table: &Table, node: NodeId, seat: Seat, notices: Arc<Notices>) -> JobCrowd {
        let mask = core_mask();
        table.set_core_mask(seat, &mask);
        let neighbours =
            Mutex::new(Neighbours { seats: vec![seat], answers_left: 0, spread: Spread::new(ANSWERS_PER_LOOK_AROUND) });
        JobCrowd {
            table: table.clone(),
            node,
            seat,
            cores: u64::from(usable_cores()),
            mask,
            known: AtomicU64::new(u64::MAX),
            neighbours,
            crowd: AtomicU64::new(0),
            seats: AtomicU64::new(0),
            notices,
        }
    }

    /// False once the node has left and the seat may be somebody else's.
    fn is_ours(&self) -> bool {
        !deck_sync::fork::is_child() && self.table.node_on(self.seat) == Some(self.node)
    }

    fn look_around(&self, neighbours: &mut Vec<Seat>) {
        neighbours.clear();
        for index in 0..Seat::COUNT as u16 {
            let other = Seat(index);
            let is_live = self.table.node_on(other).is_some_and(|node| self.table.is_live(node));
            let shares = self.table.core_mask(other).iter().zip(&self.mask).any(|(theirs, ours)| theirs & ours != 0);
            if other == self.seat || (is_live && shares) {
                neighbours.push(other);
            }
        }
        let last = neighbours.last().map_or(0, |Seat(index)| u64::from(*index));
        self.seats.store(last + 1, Ordering::Relaxed);
    }

    /// Where the node on `seat` is called. Relaxed, here and wherever that is read or written: advice.
    fn note_called(&self, seat: Seat, where_to: u64) {
        let called = self.table.called(seat);
        if called.load(Ordering::Relaxed) != where_to {
            called.store(where_to, Ordering::Relaxed);
        }
    }

    /// Whether the node on `seat` is called to `core`. What is in the word then.
    fn is_called(&self, seat: Seat, core: u32) -> Option<u64> {
        let called = self.table.called(seat).load(Ordering::Relaxed);
        (called as u32 == core.wrapping_add(1) || called == EVERYWHERE).then_some(called)
    }

    /// The neighbours without this node, and whatever seats lie before the last of them: those are called to cores that
    /// are not ours, or everywhere, which costs a switch.
    fn others(&self) -> impl Iterator<Item = Seat> {
        let own = self.seat;
        (0..self.seats.load(Ordering::Relaxed) as u16).map(Seat).filter(move |seat| *seat != own)
    }

    /// Tells where this thread is, and sees to it that neighbours with one thread each are spread evenly over the
    /// cores.
    fn spread_out(&self, neighbours: &mut Neighbours) {
        // Relaxed, all of them: hints.
        let runnable = |seat: Seat| self.table.runnable(seat).load(Ordering::Relaxed);
        let own = self.table.core(self.seat);
        let core = u64::from(current_core()) + 1;
        if own.load(Ordering::Relaxed) != core && self.is_ours() {
            own.store(core, Ordering::Relaxed);
        }
        let Neighbours { seats, spread, .. } = neighbours;
        if !spread.is_due() {
            return;
        }
        let running = || seats.iter().copied().filter(|seat| runnable(*seat) > 0);
        let Some(index) = running().position(|seat| seat == self.seat) else { return };
        // Which of several threads of a node told its core is not known.
        let core = |seat| {
            (self.table.core(seat).load(Ordering::Relaxed) as u32).checked_sub(1).filter(|_| runnable(seat) == 1)
        };
        spread.look(index, running().map(core));
    }
}

impl Crowd for JobCrowd {
    fn resume(&self) {
        if self.is_ours() {
            // Relaxed: a hint about load, orders nothing.
            self.table.runnable(self.seat).fetch_add(1, Ordering::Relaxed);
        }
    }

    fn rest(&self) {
        // One that is left says for itself where it is called.
        if self.is_ours() && self.table.runnable(self.seat).fetch_sub(1, Ordering::Relaxed) <= 2 {
            self.note_called(self.seat, NOWHERE);
        }
    }

    fn spot(&self, core: u32) -> Option<Spot> {
        if !self.is_ours() {
            return None;
        }
        if self.table.runnable(self.seat).load(Ordering::Relaxed) > 1 {
            self.note_called(self.seat, EVERYWHERE);
            return None;
        }
        Some(Spot { core, place: self.seat.0 })
    }

    /// Budget: a store. Not a look first: a store goes out while the poster goes on, a look at what another core wrote
    /// does not.
    fn call(&self, Spot { core, place }: Spot) {
        self.table.called(Seat(place)).store(u64::from(core) + 1, Ordering::Relaxed);
    }

    fn call_back(&self, place: u16) {
        match self.table.core(Seat(place)).load(Ordering::Relaxed) {
            0 => {}
            core => self.note_called(Seat(place), core),
        }
    }

    fn answer(&self, Spot { place, .. }: Spot) -> u32 {
        let called = self.table.called(Seat(place)).load(Ordering::Relaxed);
        self.note_called(Seat(place), NOWHERE);
        if called == EVERYWHERE { 0 } else { (called / PASSED_OVER) as u32 }
    }

    /// Budget: a line for each neighbour; a locked operation on those of neighbours that are called here, unless there
    /// are many.
    fn is_wanted(&self, Spot { core, .. }: Spot) -> bool {
        // Relaxed: a hint.
        let is_orderly = self.crowd.load(Ordering::Relaxed) <= ORDERLY * self.cores;
        let mut is_wanted = false;
        for (seat, called) in self.others().filter_map(|seat| Some((seat, self.is_called(seat, core)?))) {
            is_wanted = true;
            if !is_orderly {
                break;
            }
            if called != EVERYWHERE {
                // Unless it says something else by now.
                let _ = self.table.called(seat).compare_exchange(
                    called,
                    called.wrapping_add(PASSED_OVER),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
            }
        }
        is_wanted
    }

    fn forget_calls(&self, Spot { core, .. }: Spot) {
        self.others()
            .filter(|seat| self.is_called(*seat, core).is_some())
            .for_each(|seat| self.note_called(seat, NOWHERE));
    }

    /// Budget: four locked operations, of lines that hardly anybody else writes; a line for each neighbour, of up to
    /// `ADDED_UP_AT_ONCE` in the mean; no allocation, no system call, until nodes come or go, or in a crowd one moves.
    fn is_crowded(&self) -> bool {
        // Whoever finds the list busy goes by the last answer.
        let Ok(mut neighbours) = self.neighbours.try_lock() else {
            return self.crowd.load(Ordering::Relaxed) != 0;
        };
        let changes = self.table.changes();
        if self.known.swap(changes, Ordering::Relaxed) != changes {
            self.look_around(&mut neighbours.seats);
        } else if neighbours.answers_left > 0 {
            neighbours.answers_left -= 1;
            return self.crowd.load(Ordering::Relaxed) != 0;
        }
        neighbours.answers_left = neighbours.seats.len() / ADDED_UP_AT_ONCE;
        let runnable: u64 = neighbours
            .seats
            .iter()
            .map(|seat| self.table.runnable(*seat).load(Ordering::Relaxed))
            // A kill can leave a count that went below zero.
            .filter(|count| *count < 1 << 32)
            .sum();
        let is_crowded = runnable > self.cores;
        self.crowd.store(if is_crowded { runnable } else { 0 }, Ordering::Relaxed);
        if is_crowded {
            self.spread_out(&mut neighbours);
        }
        is_crowded
    }

    fn note(&self, about: &About<'_>, since_ns: u64, until_ns: u64) -> Option<u32> {
        self.notices.tell(&Content {
            subject: Subject::Wait,
            locker: locker_number(),
            since_ns,
            until_ns,
            goal: about.goal as u64,
            peer: about.peer,
            facts: about.facts,
            name: about.name,
        })
    }

    fn forget(&self, note: u32) {
        self.notices.take_back(note, Subject::Wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: u32 = 3;

    fn crowds() -> (Table, [JobCrowd; 2]) {
        let table = Table::create("test", 2).unwrap();
        let crowds = [(); 2].map(|()| {
            let (node, seat) = table.seat_node(1, false).unwrap();
            let notices = Notices::create(node, table.segment(), table.segment()).unwrap();
            JobCrowd::new(&table, node, seat, notices)
        });
        crowds.iter().for_each(|crowd| assert!(!crowd.is_crowded()));
        (table, crowds)
    }

    #[test]
    fn who_is_called_is_wanted_by_others_on_that_core_until_it_answers() {
        let (_, [one, other]) = crowds();
        let [spot, there] = [&one, &other].map(|crowd| crowd.spot(CORE).expect("one thread or none"));
        one.call(there);
        assert!(one.is_wanted(spot) && !other.is_wanted(there), "nobody gives way to itself");
        assert!(!one.is_wanted(Spot { core: CORE + 1, ..spot }), "on that core only");
        assert_eq!([other.answer(there), other.answer(there)], [1, 0], "passed over once");
        assert!(!one.is_wanted(spot));
        one.call(there);
        assert!((0..3).all(|_| one.is_wanted(spot)));
        one.call(there);
        assert!((0..2).all(|_| one.is_wanted(spot)));
        assert_eq!(other.answer(there), 2, "since it was called last");
        one.call(there);
        one.forget_calls(Spot { core: CORE + 1, ..spot });
        assert!(one.is_wanted(spot), "forgotten on another core");
        one.forget_calls(spot);
        assert!(!one.is_wanted(spot));
    }

    #[test]
    fn nobody_hears_that_it_was_passed_over_where_there_are_too_many() {
        let (_, [one, other]) = crowds();
        let [spot, there] = [&one, &other].map(|crowd| crowd.spot(CORE).expect("one thread or none"));
        for (runnable, heard) in [(ORDERLY * one.cores, 1), (ORDERLY * one.cores + 1, 0)] {
            one.crowd.store(runnable, Ordering::Relaxed);
            one.call(there);
            assert!(one.is_wanted(spot));
            assert_eq!(other.answer(there), heard);
        }
    }

    #[test]
    fn all_who_are_called_to_a_core_hear_of_it_but_those_who_are_called_to_all() {
        let (table, [one, everywhere]) = crowds();
        let called = [(); 2].map(|()| {
            let (node, seat) = table.seat_node(1, false).unwrap();
            JobCrowd::new(&table, node, seat, Notices::create(node, table.segment(), table.segment()).unwrap())
        });
        assert!(!one.is_crowded());
        (0..2).for_each(|_| everywhere.resume());
        assert_eq!(everywhere.spot(CORE), None);
        let spots = called.each_ref().map(|crowd| crowd.spot(CORE).expect("no thread"));
        spots.iter().for_each(|spot| one.call(*spot));
        one.crowd.store(1, Ordering::Relaxed);
        assert!((0..2).all(|_| one.is_wanted(one.spot(CORE).expect("no thread"))));
        assert_eq!([called[0].answer(spots[0]), called[1].answer(spots[1])], [2, 2]);
        assert_eq!(table.called(everywhere.seat).load(Ordering::Relaxed), EVERYWHERE);
        assert_eq!(everywhere.answer(Spot { core: CORE, place: everywhere.seat.0 }), 0);
    }

    #[test]
    fn who_is_rung_is_called_where_it_was_last() {
        let (table, [one, other]) = crowds();
        let spot = one.spot(CORE).unwrap();
        one.call_back(other.seat.0);
        assert!(!one.is_wanted(spot), "it never waited in a crowd");
        table.core(other.seat).store(u64::from(CORE) + 1, Ordering::Relaxed);
        one.call_back(other.seat.0);
        assert!(one.is_wanted(spot));
    }

    #[test]
    fn several_threads_of_a_node_are_taken_to_have_something_to_do_until_one_is_left() {
        let (_, [one, other]) = crowds();
        let spot = one.spot(CORE).unwrap();
        (0..2).for_each(|_| other.resume());
        assert_eq!(other.spot(CORE), None);
        assert!(one.is_wanted(spot));
        assert!(one.is_wanted(Spot { core: CORE + 1, ..spot }), "on any core");
        other.rest();
        assert!(!one.is_wanted(spot) && other.spot(CORE).is_some());
    }

    #[test]
    fn who_still_waits_after_its_node_has_left_says_nothing_for_the_one_that_got_the_seat() {
        for threads in [0, 2] {
            let (table, [one, other]) = crowds();
            assert!(table.set_gone(one.node, false));
            table.free_seat(one.seat);
            let (_, seat) = table.seat_node(1, false).unwrap();
            assert_eq!(seat, one.seat);
            table.runnable(seat).store(threads, Ordering::Relaxed);
            other.call(Spot { core: CORE, place: seat.0 });
            assert_eq!(one.spot(CORE), None);
            assert_eq!(table.called(seat).load(Ordering::Relaxed), u64::from(CORE) + 1);
        }
    }

    #[test]
    fn nobody_gives_way_to_the_dead_and_what_another_process_wrote_may_be_anything() {
        let (table, [one, other]) = crowds();
        let spot = one.spot(CORE).unwrap();
        one.call(other.spot(CORE).unwrap());
        assert!(table.set_gone(other.node, true) && !one.is_wanted(spot));
        one.call(Spot::of_word(u64::MAX));
        one.call_back(u16::MAX);
    }
}
