//! After the broker of a job that is joined by name: the lowest-numbered node takes over, the others come to it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use deck_sync::atomic::Ordering;
use deck_sync::locks::lock;
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result};

use super::{BROKER, Control, LOOK_FOR_BROKER, TAKE_STOCK_AFTER};
use crate::broker::Broker;
use crate::membership::Membership;
use crate::socket::Socket;
use crate::wire::Frame;
use crate::{process, rendezvous};

/// The most time between two looks whether the node that was asked to be the broker has ended.
const LOOK_SELDOM: Duration = Duration::from_millis(100);

impl Control {
    pub(super) fn broker_gone(&mut self, membership: &Arc<Membership>) {
        if let Ok(node) = u32::try_from(membership.broker_node.load(Ordering::Relaxed)) {
            self.ended(membership, NodeId(node));
        }
        // A job that was launched ends with its launcher; one that is joined by name finds a new broker.
        self.is_orphan = membership.job.is_some();
        (self.asked_broker, self.ask_broker_at) = (None, Deadline::NOW);
    }

    /// The lowest-numbered live node becomes the broker; the others come to it. Called again and again until the new
    /// broker has answered.
    pub(super) fn find_broker(&mut self, membership: &Arc<Membership>) {
        let Some(job) = &membership.job else { return };
        let Some(lowest) = membership.table.live().first().copied() else { return };
        if self.asked_broker == Some(lowest) {
            // It may have ended before it took our connection up, and then nobody would tell us.
            if membership.table.pid_here(lowest).is_some_and(process::pid_has_ended) {
                self.ended(membership, lowest);
                return;
            }
            // It tells when it has taken over. One that is stopped may take its time.
            let pause = (self.asked_at.elapsed() / 4).clamp(LOOK_FOR_BROKER, LOOK_SELDOM);
            self.ask_broker_at = Deadline::after(pause);
            return;
        }
        let fd = if lowest == membership.number {
            self.take_over(membership, job).ok()
        } else {
            rendezvous::connect(job).ok().flatten()
        };
        let Some(fd) = fd else { return };
        let socket = Arc::new(Socket::new(fd));
        let (number, seat) = (u64::from(membership.number.0), u64::from(membership.seat.0));
        self.attempts += 1;
        let rejoin = Frame::Rejoin { number, seat, process: process::own_word(), attempt: self.attempts };
        // Watched first: a broker that has heard of this node takes the end of the connection for its death.
        if self.poll.watch(&socket, BROKER).is_err() || socket.send(&rejoin, None).is_err() {
            return;
        }
        *lock(&membership.broker) = socket.clone();
        membership.broker_node.store(u64::from(lowest.0), Ordering::Relaxed);
        // What was asked of the old broker and not done is asked of the new one. Whoever asks from now on asks the new one.
        let meeting: Vec<NodeId> = {
            let peers = lock(&membership.peers);
            peers
                .values()
                .filter(|peer| !peer.is_connected() && peer.gone().is_none())
                .map(|peer| peer.number())
                .collect()
        };
        for node in meeting {
            let _ = socket.send(&Frame::Connect { to: u64::from(node.0) }, None);
        }
        (self.asked_broker, self.asked_at) = (Some(lowest), Instant::now());
    }

    /// This node is the broker from now on. It listens on the socket that the last one listened on, so those who come
    /// meanwhile wait in its queue.
    fn take_over(&mut self, membership: &Arc<Membership>, job: &str) -> Result<OwnedFd> {
        if let Some(broker) = &*lock(&membership.hosted) {
            // It had no room for this node. Another one in its place would be the death of this node for those who have come.
            return broker.invite();
        }
        let inherited = lock(&membership.listener).as_ref().map(|fd| fd.as_fd().try_clone_to_owned());
        let listener = match inherited {
            Some(Ok(listener)) => Some(listener),
            _ => rendezvous::listen(job)?,
        };
        let listener = listener.ok_or_else(|| Error::new(ErrorKind::Exists, "another node listens already"))?;
        let broker = Broker::open(membership.table.clone())?;
        let fd = broker.invite()?;
        broker.listen(membership.number, listener, true)?;
        *lock(&membership.hosted) = Some(broker);
        self.take_stock_at = Some(Deadline::after(TAKE_STOCK_AFTER));
        Ok(fd)
    }

    pub(super) fn everybody_has_come(&self, membership: &Membership) -> bool {
        let hosted = lock(&membership.hosted);
        let Some(broker) = &*hosted else { return true };
        let here = broker.nodes();
        membership.table.live().iter().all(|node| here.contains(node))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use deck_segment::HeapOptions;

    use super::*;
    use crate::membership::Door;
    use crate::poll;
    use crate::socket::{Received, pair, wait_for_the_end};
    use crate::wire::Refused;

    #[test]
    fn a_new_broker_that_has_no_room_for_its_own_node_at_first_stays_for_the_others() {
        let job = format!("no-room-{}", std::process::id());
        let [founder, one, other] = [(); 3].map(|()| {
            let heap = HeapOptions::of(deck_segment::default_bytes());
            Membership::join(Door::Named(job.clone()), &heap, Deadline::after(Duration::from_secs(10))).unwrap()
        });
        let mut control = Control::new(&one).unwrap();
        founder.leave();
        wait_for_the_end(&one.broker());
        control.serve_broker(&one);
        control.find_broker(&one);
        let took_over = one.broker();
        let coming = Socket::new(rendezvous::connect(&job).unwrap().unwrap());
        let (number, seat) = (u64::from(other.number.0), u64::from(other.seat.0));
        coming.send(&Frame::Rejoin { number, seat, process: process::own_word(), attempt: 1 }, None).unwrap();
        let has_come = || matches!(coming.receive(), Received::Frame(Frame::Rejoined {}, _));
        while !has_come() {
            assert!(poll::is_readable_within(&coming, Some(Duration::from_secs(10))), "it is not let in");
        }
        // As if there had been no descriptor for its answer.
        let (ours, theirs) = pair().unwrap();
        *one.broker.lock().unwrap() = Arc::new(Socket::new(ours));
        Socket::new(theirs).send(&Frame::Refuse { reason: Refused::Descriptors as u64 }, None).unwrap();
        wait_for_the_end(&one.broker());
        control.serve_broker(&one);
        control.find_broker(&one);
        while control.is_orphan {
            assert!(poll::is_readable_within(&*one.broker(), Some(Duration::from_secs(10))), "it is not let in");
            control.serve_broker(&one);
        }
        loop {
            match coming.receive() {
                Received::Frame(..) => {}
                Received::Nothing => break,
                received => panic!("{received:?}"),
            }
        }
        drop(took_over);
    }
}
