//! After the broker of a job that is joined by name: the lowest-numbered node takes over, the others come to it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use deck_sync::atomic::Ordering;
use deck_sync::locks::lock;
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result};

use super::{BROKER, Control, TAKE_STOCK_AFTER};
use crate::broker::Broker;
use crate::membership::Membership;
use crate::socket::Socket;
use crate::wire::Frame;
use crate::{process, rendezvous};

impl Control {
    pub(super) fn broker_gone(&mut self, membership: &Arc<Membership>) {
        if let Ok(node) = u32::try_from(membership.broker_node.load(Ordering::Relaxed)) {
            self.ended(membership, NodeId(node));
        }
        // A job that was launched ends with its launcher; one that is joined by name finds a new broker.
        self.is_orphan = membership.job.is_some();
        self.asked_broker = None;
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
            }
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
        if socket.send(&rejoin, None).is_err() || self.poll.watch(&socket, BROKER).is_err() {
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
        self.asked_broker = Some(lowest);
    }

    /// This node is the broker from now on. It listens on the socket that the last one listened on, so those who come
    /// meanwhile wait in its queue.
    fn take_over(&mut self, membership: &Arc<Membership>, job: &str) -> Result<OwnedFd> {
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
