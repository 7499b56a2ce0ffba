//! A gone node on its way out, in two steps, so that no buffer is freed under a message in flight:
//! 1. *Gone* is told to all; each node takes over what the gone node had posted to it and answers *Adopted*.
//! 2. When all have, *Reclaim* is told; each node forgets what the gone node held in its heap and answers *Reclaimed*.
//!    Then the seat is free again.

use deck_segment::Seat;
use deck_sync::{Deadline, NodeId};

use super::State;
use super::absent::Absent;
use crate::names::Names;
use crate::names::objects::Objects;
use crate::table::NodeState;
use crate::wire::Frame;

/// A gone node on its way out.
pub(super) struct Departure {
    seat: Seat,
    /// Members that have not answered the present step yet.
    awaited: Vec<u64>,
    is_second_step: bool,
    /// The process of a node that left and still holds buffers of others: they are forgotten when it ends.
    pub(super) keeper: Option<Absent>,
}

impl Departure {
    /// The present step, as the members are told of it.
    fn frame(&self, number: NodeId) -> Frame {
        let number = u64::from(number.0);
        match self.is_second_step {
            false => Frame::Gone { number },
            true => Frame::Reclaim { number, seat: u64::from(self.seat.0) },
        }
    }
}

impl State {
    /// Nothing more comes through this connection.
    pub(super) fn expect_no_answer(&mut self, key: u64) {
        self.departures.values_mut().for_each(|departure| departure.awaited.retain(|other| *other != key));
    }

    /// A node is gone, whose connection was `key`.
    pub(super) fn depart(&mut self, key: u64, number: NodeId, is_lost: bool) {
        self.expect_no_answer(key);
        // Its seat may be another node's by now: then everything about it is settled.
        let seat = self.table.seat_of(number).filter(|seat| self.table.node_on(*seat) == Some(number));
        let Some(seat) = seat.filter(|_| !self.departures.contains_key(&number)) else { return self.advance() };
        if !self.table.set_gone(number, is_lost) {
            // Whoever marked it may have been stopped before it told that.
            self.table.note_departure(number, seat);
        }
        // One that does not read keeps the ends of connections that nobody will use.
        let is_of_it = |frame: &Frame| matches!(frame, Frame::Introduce { peer, .. } if *peer == u64::from(number.0));
        self.members.values().for_each(|member| member.socket.take_back(is_of_it));
        self.gone.push((number, self.table.state(number) == Some(NodeState::Lost)));
        let keeper = if self.table.keeps(seat) { self.absent(number, Deadline::NEVER) } else { None };
        self.begin_step(number, Departure { seat, awaited: self.others(), is_second_step: false, keeper });
        self.advance();
    }

    fn begin_step(&mut self, number: NodeId, departure: Departure) {
        self.tell(&departure.awaited, &departure.frame(number));
        self.departures.insert(number, departure);
    }

    /// Tells a node that comes again what it has missed, and awaits its answers too.
    pub(super) fn tell_departures(&mut self, key: u64) {
        let Some(member) = self.members.get(&key) else { return };
        for (number, departure) in &mut self.departures {
            let _ = member.socket.send(&departure.frame(*number), None);
            departure.awaited.push(key);
        }
    }

    /// A node that keeps the seat of one that is gone: it has not answered, or it left with buffers of others.
    pub(super) fn keeps_a_seat(&self) -> Option<NodeId> {
        let awaited = self.departures.values().flat_map(|departure| &departure.awaited);
        let unanswered = awaited.filter_map(|key| self.members.get(key)?.node).map(|(number, _)| number).min();
        let left =
            self.departures.iter().filter(|(_, departure)| departure.keeper.is_some()).map(|(number, _)| *number);
        unanswered.or_else(|| left.min())
    }

    /// A member has done its part of a step.
    pub(super) fn answered(&mut self, key: u64, number: u64, is_second_step: bool) {
        let Ok(number) = u32::try_from(number) else { return };
        if let Some(departure) = self.departures.get_mut(&NodeId(number))
            && departure.is_second_step == is_second_step
        {
            departure.awaited.retain(|other| *other != key);
            self.advance();
        }
    }

    /// Goes on with every departure that nobody has to answer for any more.
    pub(super) fn advance(&mut self) {
        loop {
            // Who has not come to this broker yet has taken nothing over either.
            if self.is_taking_over || !self.absent.is_empty() {
                return;
            }
            let mut departures = self.departures.iter();
            let ready = departures.find(|(_, departure)| departure.awaited.is_empty() && departure.keeper.is_none());
            let Some((&number, &Departure { seat, is_second_step, .. })) = ready else { return };
            if is_second_step {
                self.departures.remove(&number);
                Names::new(&self.table).forget_writer(seat);
                let is_lost = self.table.state(number) == Some(NodeState::Lost);
                Objects::new(&self.table).forget_seat(seat, number, is_lost);
                self.table.free_seat(seat);
            } else {
                let awaited = self.others();
                self.begin_step(number, Departure { seat, awaited, is_second_step: true, keeper: None });
            }
        }
    }
}
