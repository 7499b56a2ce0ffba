//! Nodes that come: new ones, and those of a broker that has died, which come again to the one that took over.

use std::os::fd::AsFd;

use deck_segment::Seat;
use deck_sync::{ErrorKind, NodeId, Result, point};

use super::{Member, State, refuse, refuse_because_of};
use crate::process;
use crate::process::parent_only::ParentOnly;
use crate::socket::Socket;
use crate::wire::{Frame, Refusal};

impl State {
    pub(super) fn join(&mut self, key: u64, process: u64, network: u64, needs_fences: bool) {
        let broker = self.node;
        // Whoever came before through the same invitation may have ended unnoticed, or be told of after this.
        let came_before = self.members.get(&key).filter(|member| member.node.is_some() && member.word != process);
        let has_ended = |member: &Member| match &member.process {
            Some(process) => process.has_ended(),
            None => process::word_has_ended(member.word),
        };
        if came_before.is_some_and(has_ended) {
            self.process_ended(key);
        }
        let refusal = match self.members.get(&key) {
            Some(member) if member.node.is_some() => Some(Refusal::Taken),
            Some(_) if network != self.network => Some(Refusal::Network),
            _ => None,
        };
        let seated = match refusal {
            Some(reason) => Err(reason),
            None => self.table.seat_node(process, needs_fences),
        };
        let because_of = if seated == Err(Refusal::Full) { self.keeps_a_seat() } else { None };
        let Some(member) = self.members.get_mut(&key) else { return };
        match seated {
            Err(reason) => {
                refuse_because_of(because_of, &member.socket, reason);
            }
            Ok((number, seat)) => {
                member.node = Some((number, seat));
                if let Some(place) = member.invitation.and_then(|invitation| self.invited.get_mut(invitation)) {
                    *place = Some(number);
                }
                let has_ended = member.watch(process, &self.poll, key);
                let (number, seat) = (u64::from(number.0), u64::from(seat.0));
                let sent = pass_listener(self.listener.as_ref(), &member.socket);
                point("broker/seated");
                if has_ended {
                    // Others may hold its connection.
                    return self.process_ended(key);
                }
                let welcome = Frame::Welcome { number, seat, broker };
                let sent = sent.and_then(|()| member.socket.send(&welcome, Some(self.table.as_fd())));
                if sent.is_err_and(|error| error.kind() != ErrorKind::PeerLost) {
                    // They have to wait, and there is no descriptor for that. Behind what waits already the refusal
                    // would wait, too, and the connection of one that came by name ends here: it would ask again and
                    // again, at the cost of a number each time.
                    member.socket.take_back(|_| true);
                    refuse(&member.socket, Refusal::Descriptors);
                    self.leave(key, process);
                }
            }
        }
    }

    pub(super) fn rejoin(&mut self, key: u64, [number, seat, process]: [u64; 3], attempt: u64) {
        let (Ok(number), Ok(seat)) = (u32::try_from(number), u16::try_from(seat)) else { return };
        let (number, seat, broker) = (NodeId(number), Seat(seat), self.node);
        if !self.table.is_live(number) || self.table.seat_of(number) != Some(seat) {
            return;
        }
        let is_known = |member: &Member| member.node.is_some_and(|(known, _)| known == number);
        if self.members.values().any(|other| is_known(other) && other.attempt >= attempt) {
            return;
        }
        let Some(member) = self.members.get(&key) else { return };
        if pass_listener(self.listener.as_ref(), &member.socket).is_err_and(|error| error.kind() != ErrorKind::PeerLost)
        {
            // It has to wait, and there is no descriptor for that: the node comes again.
            refuse(&member.socket, Refusal::Descriptors);
            self.members.remove(&key);
            if let Some(absent) = self.absent.get_mut(&number) {
                absent.put_off();
            }
            return;
        }
        // It may have come before, through a connection that was not taken up in time.
        let others = self.members.iter_mut();
        let before: Vec<u64> =
            others.filter_map(|(key, other)| other.node.take_if(|(known, _)| *known == number).map(|_| *key)).collect();
        before.into_iter().for_each(|key| self.expect_no_answer(key));
        self.absent.remove(&number);
        let Some(member) = self.members.get_mut(&key) else { return };
        member.node = Some((number, seat));
        member.attempt = attempt;
        let has_ended = member.watch(process, &self.poll, key);
        let _ = member.socket.send(&Frame::Rejoined { broker }, None);
        self.tell_departures(key);
        if has_ended {
            self.process_ended(key);
        }
        self.introduce_unmet();
        self.advance();
    }
}

/// Before the welcome: who is in the job can listen for it, and take it over.
fn pass_listener(listener: Option<&ParentOnly>, socket: &Socket) -> Result<()> {
    listener.map_or(Ok(()), |listener| socket.send(&Frame::Listener {}, Some(listener.as_fd())))
}
