//! Nodes that are absent: after a take-over, between two connections, or gone with something that they keep.
//!
//! A lack of descriptors is no death, and neither is being stopped; but nobody is waited for whose process has ended.

use std::sync::Arc;
use std::time::Duration;

use deck_segment::Seat;
use deck_sync::{Deadline, NodeId};

use super::{PROCESS, State};
use crate::poll::Poll;
use crate::process;
use crate::process::watched::{Process, Watched};

/// How long a node may take to come again whose connection has ended, or of whose process nothing is known.
const COME_AGAIN: Duration = Duration::from_millis(500);

/// A process that has no connection here but is still to be heard of.
pub(super) struct Absent {
    /// The key that its end is told by, if anything watches it.
    pub(super) key: u64,
    process: Option<Watched>,
    /// When it is given up though its process runs.
    until: Deadline,
    /// When somebody looks whether it has gone without this broker, and after a process that has no handle.
    look_at: Deadline,
}

impl Absent {
    /// Somebody wanted to come, and could not be let in.
    pub(super) fn put_off(&mut self) {
        self.look_at = Deadline::after(COME_AGAIN);
        if self.until != Deadline::NEVER {
            self.until = self.look_at;
        }
    }

    /// Looks after the process that stands so in the job's table, if it is time.
    fn is_there(&mut self, word: Option<u64>, poll: &Arc<Poll>) -> bool {
        if !self.look_at.has_passed() {
            return true;
        }
        self.look_at = Deadline::after(COME_AGAIN);
        let Some(word) = word else { return false };
        if self.process.is_some() {
            return true;
        }
        match Process::watch(word, poll, self.key | PROCESS) {
            Process::Ended => return false,
            process => self.process = process.watched(),
        }
        self.process.is_some() || process::is_there(word)
    }
}

impl State {
    /// The end of a connection is the end of the node, except where nodes look for a new broker: who had asked one that
    /// ended before it answered comes again by another connection, soon. If its process runs and it does not, it runs
    /// another program.
    pub(super) fn connection_ended(&mut self, key: u64) {
        let Some(member) = self.members.get_mut(&key) else { return };
        let node = member.node.map(|(number, _)| number).filter(|number| self.table.is_live(*number));
        if let Some(number) = node
            && member.invitation.is_none()
            && let Some(absent) = self.absent(number, Deadline::after(COME_AGAIN))
        {
            self.absent.insert(number, absent);
            self.members.remove(&key);
            self.expect_no_answer(key);
        } else {
            self.process_ended(key);
        }
    }

    /// A process that was waited for has ended.
    pub(super) fn absent_ended(&mut self, key: u64) {
        for departure in self.departures.values_mut() {
            departure.keeper.take_if(|keeper| keeper.key == key);
        }
        let ended: Vec<NodeId> =
            self.absent.iter().filter(|(_, absent)| absent.key == key).map(|(number, _)| *number).collect();
        self.are_gone(ended);
        self.advance();
    }

    fn are_gone(&mut self, absent: Vec<NodeId>) {
        for number in absent {
            self.absent.remove(&number);
            self.depart(u64::MAX, number, true);
        }
    }

    /// In how long somebody who is absent is to be looked after.
    pub(super) fn next_look(&self) -> Option<Duration> {
        let keepers = self.departures.values().filter_map(|departure| departure.keeper.as_ref());
        // The end of those that have a handle is told.
        let keepers = keepers.filter(|keeper| keeper.process.is_none());
        let waits = self.absent.values().chain(keepers).flat_map(|absent| [absent.until, absent.look_at]);
        waits.filter_map(Deadline::remaining).min()
    }

    /// Looks after those who are absent: who should have come again by now and has not is gone, and so is one that has
    /// left or died without this broker.
    pub(super) fn look_after_the_absent(&mut self) {
        let State { poll, table, absent, departures, .. } = self;
        let mut gone = Vec::new();
        for (number, absent) in absent.iter_mut() {
            // It was welcomed by a broker that died, and may not know.
            let is_given_up = absent.look_at.has_passed() && table.give_up(*number);
            let is_to_come = table.is_live(*number) && !absent.until.has_passed() && !is_given_up;
            if !is_to_come || !absent.is_there(table.process_of(*number), poll) {
                gone.push(*number);
            }
        }
        let mut is_free = false;
        for (number, departure) in departures {
            let word = table.process_of(*number);
            // Nothing can be told of a process in another namespace: what it keeps it keeps.
            let is_unknown = word.is_some_and(|word| process::pid_here(word).is_none());
            let is_over = |keeper: &mut Absent| !keeper.is_there(word, poll) && !is_unknown;
            is_free |= departure.keeper.take_if(is_over).is_some();
        }
        self.are_gone(gone);
        if is_free {
            self.advance();
        }
    }

    /// The process of a node that has no connection here; `None` if it has ended.
    pub(super) fn absent(&mut self, number: NodeId, until: Deadline) -> Option<Absent> {
        let key = self.next;
        self.next += 1;
        let process = match Process::watch(self.table.process_of(number)?, &self.poll, key | PROCESS) {
            Process::Ended => return None,
            process => process.watched(),
        };
        Some(Absent { key, process, until, look_at: Deadline::after(COME_AGAIN) })
    }

    /// After a change of brokers, when everybody has had time to come again: who has not and has no process any more is
    /// gone; who has one may be stopped, and is waited for. Departures that the old broker had under way start again.
    pub(super) fn take_stock(&mut self) {
        let here = self.nodes();
        for index in 0..Seat::COUNT as u16 {
            let Some(number) = self.table.node_on(Seat(index)) else { continue };
            if self.table.state(number).is_none() {
                // The old broker died while it gave the seat, and the number was never told.
                self.table.free_seat(Seat(index));
                continue;
            }
            if here.contains(&number) || self.departures.contains_key(&number) || self.absent.contains_key(&number) {
                continue;
            }
            if !self.table.is_live(number) {
                self.depart(u64::MAX, number, false);
            } else if let Some(absent) = self.absent(number, Deadline::NEVER) {
                self.absent.insert(number, absent);
            } else {
                self.depart(u64::MAX, number, true);
            }
        }
        self.is_taking_over = false;
        self.introduce_unmet();
        self.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Broker;
    use crate::table::tests::leave_half_seated;

    #[test]
    fn a_node_that_has_not_read_its_welcome_is_given_up_by_the_next_broker_and_one_that_has_is_waited_for() {
        let broker = Broker::start("test", 1).unwrap();
        let mut state = broker.shared.lock();
        let seats = [(); 3].map(|()| state.table.seat_node(process::own_word(), false).unwrap().0);
        let [coming, late, arrived] = seats;
        assert!(state.table.arrive(arrived));
        state.take_stock();
        assert_eq!(state.table.live(), seats);
        // Between being given up and that it arrives there is nothing.
        assert!(state.table.arrive(late));
        state.absent.values_mut().for_each(|absent| absent.look_at = Deadline::NOW);
        state.look_after_the_absent();
        assert_eq!(state.table.live(), [late, arrived]);
        assert!(!state.table.arrive(coming), "it is to join again");
    }

    #[test]
    fn a_process_that_joins_anew_keeps_the_node_that_it_has() {
        let broker = Broker::start("test", 1).unwrap();
        let mut state = broker.shared.lock();
        let [unanswered, other] = [(); 2].map(|()| state.table.seat_node(process::own_word(), false).unwrap().0);
        assert!(state.table.arrive(other));
        state.take_stock();
        state.forget_unanswered(process::own_word());
        assert!(state.table.is_live(other) && !state.table.is_live(unanswered));
    }

    #[test]
    fn a_seat_that_was_given_by_a_broker_that_died_in_it_is_free_again() {
        let broker = Broker::start("test", 1).unwrap();
        let mut state = broker.shared.lock();
        let (zero, seat) = state.table.seat_node(process::own_word(), false).unwrap();
        assert!(state.table.arrive(zero));
        leave_half_seated(&state.table, Seat(1));
        // The seat of the old broker's node is free before that: the number goes there.
        state.table.free_seat(seat);
        state.take_stock();
        let (one, _) = state.table.seat_node(process::own_word(), false).unwrap();
        assert_eq!(state.table.node_on(seat), Some(one));
        assert_eq!((1..Seat::COUNT as u16).filter_map(|index| state.table.node_on(Seat(index))).count(), 0);
    }
}
