//! Two nodes that are to meet: each gets one end of a connection between them.

use std::os::fd::AsFd;

use deck_segment::Seat;
use deck_sync::{NodeId, point};

use super::{State, spare};
use crate::socket::pair;
use crate::wire::Frame;

impl State {
    pub(super) fn introduce_unmet(&mut self) {
        for (key, to) in std::mem::take(&mut self.unmet) {
            self.introduce(key, to);
        }
    }

    pub(super) fn introduce(&mut self, key: u64, to: u64) {
        let Some(member) = self.members.get(&key) else { return };
        let Some((from, from_seat)) = member.node else { return };
        let found = self.members.values().find_map(|other| {
            other.node.filter(|(number, _)| u64::from(number.0) == to && *number != from).map(|(_, seat)| (other, seat))
        });
        let is_to_come = found.is_none() && u32::try_from(to).is_ok_and(|to| self.table.is_live(NodeId(to)));
        if is_to_come {
            if !self.unmet.contains(&(key, to)) {
                self.unmet.push((key, to));
            }
            return;
        }
        let ends = found.and_then(|found| {
            let ends = pair().or_else(|_| {
                self.spare = [const { None }; 2];
                pair()
            });
            Some((found, ends.ok()?))
        });
        let nobody = Frame::NotIntroduced { peer: to };
        let Some(((other, seat), (ours, theirs))) = ends else {
            let _ = member.socket.send(&nobody, None);
            return;
        };
        let introduce = |peer: u64, seat: Seat| Frame::Introduce { peer, seat: u64::from(seat.0) };
        let to_other = introduce(u64::from(from.0), from_seat);
        // Whoever asks again has let go of its end, mostly; what still waits for the other one leads nowhere then, and
        // holds a descriptor. (If the other one has asked, too, both let go of an end, and ask again.)
        other.socket.take_back(|frame| *frame == to_other);
        // Whoever asked gets its end first; the other end arrives with the other's next look at its socket.
        let sent = member.socket.send(&introduce(to, seat), Some(ours.as_fd()));
        point("broker/introducing");
        let sent = sent.and_then(|()| other.socket.send(&to_other, Some(theirs.as_fd())));
        if sent.is_err() {
            let _ = member.socket.send(&nobody, None);
        }
        drop((ours, theirs));
        if self.spare.iter().any(Option::is_none) {
            self.spare = spare();
        }
    }
}
