//! After the broker of a job that is joined by name: whoever gets its office takes over, the others come to it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use deck_sync::atomic::Ordering;
use deck_sync::locks::lock;
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result, point};

use super::{BROKER, Control, LOOK_FOR_BROKER, TAKE_STOCK_AFTER};
use crate::broker::Broker;
use crate::membership::Membership;
use crate::office::Office;
use crate::socket::Socket;
use crate::wire::Frame;
use crate::{process, rendezvous};

/// The most time between two looks whether the broker's office is free again.
const LOOK_SELDOM: Duration = Duration::from_millis(100);

impl Control {
    pub(super) fn broker_gone(&mut self, membership: &Arc<Membership>) {
        if let Ok(node) = u32::try_from(membership.broker_node.load(Ordering::Relaxed)) {
            self.ended(membership, NodeId(node));
        }
        // A job that was launched ends with its launcher; one that is joined by name finds a new broker.
        self.is_orphan = membership.job.is_some();
        (self.asked_at, self.ask_broker_at) = (None, Deadline::NOW);
    }

    /// This node becomes the broker, or comes to the one that has. Called again and again until a broker has answered:
    /// whoever has the office may end before it does.
    pub(super) fn find_broker(&mut self, membership: &Arc<Membership>) {
        let Some(job) = &membership.job else { return };
        // Without a descriptor for all that it needs this node leaves it to others.
        let own = self.take_over(membership, job).unwrap_or_default();
        let fd = match (own, self.asked_at) {
            (Some(fd), _) => fd,
            (None, Some(asked_at)) => {
                // What was said lies in the queue of the socket that all listen on, and whoever takes over reads it.
                // One that is stopped may take its time.
                let pause = (asked_at.elapsed() / 4).clamp(LOOK_FOR_BROKER, LOOK_SELDOM);
                self.ask_broker_at = Deadline::after(pause);
                return;
            }
            (None, None) => match rendezvous::connect(job) {
                Ok(Some(fd)) => fd,
                Ok(None) | Err(_) => return,
            },
        };
        let socket = Arc::new(Socket::new(fd));
        let (number, seat) = (u64::from(membership.number.0), u64::from(membership.seat.0));
        self.attempts += 1;
        let (process, attempt, table) = (process::own_word(), self.attempts, membership.table.segment().inode());
        let rejoin = Frame::Rejoin { number, seat, process, attempt, table };
        // Watched first: a broker that has heard of this node takes the end of the connection for its death.
        if self.poll.watch(&socket, BROKER).is_err() || socket.send(&rejoin, None).is_err() {
            return;
        }
        let before = std::mem::replace(&mut *lock(&membership.broker), socket.clone());
        self.poll.forget(&before);
        // What was asked of the old broker and not done is asked of the new one. Whoever asks from now on asks the new
        // one.
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
        self.asked_at = Some(Instant::now());
    }

    /// This node is the broker from now on, if nobody else is: a connection to itself. It listens on the socket that
    /// the last one listened on, so those who come meanwhile wait in its queue.
    fn take_over(&mut self, membership: &Arc<Membership>, job: &str) -> Result<Option<OwnedFd>> {
        if let Some(broker) = &*lock(&membership.hosted) {
            // It had no room for this node, or answers soon.
            return if self.asked_at.is_none() { broker.invite().map(Some) } else { Ok(None) };
        }
        let Some(office) = Office::take(&membership.table)? else { return Ok(None) };
        point("broker/taking-over");
        let inherited = lock(&membership.listener).as_ref().map(|fd| fd.as_fd().try_clone_to_owned());
        let listener = match inherited {
            Some(Ok(listener)) => Some(listener),
            _ => rendezvous::listen(job)?,
        };
        let listener = listener.ok_or_else(|| Error::new(ErrorKind::Exists, "another node listens already"))?;
        let broker = Broker::open(membership.table.clone())?;
        let fd = broker.invite()?;
        broker.take_over(membership.number, listener, office)?;
        *lock(&membership.hosted) = Some(broker);
        self.take_stock_at = Some(Deadline::after(TAKE_STOCK_AFTER));
        Ok(Some(fd))
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
    use crate::wire::Refusal;

    /// The socket that a job listens on is open, and its name taken, for as long as its descriptor waits to be read. A
    /// program may keep what it had of the job for ever.
    #[test]
    fn a_node_that_has_left_keeps_no_name_of_a_job_by_a_frame_that_it_has_not_read() {
        let [job, passed] = ["left", "passed"].map(|name| format!("{name}-{}", std::process::id()));
        let heap = HeapOptions::of(deck_segment::default_bytes());
        let node = Membership::join(Door::Named(job), &heap, Deadline::after(Duration::from_secs(10))).unwrap();
        let (ours, theirs) = pair().unwrap();
        *node.broker.lock().unwrap() = Arc::new(Socket::new(ours));
        let broker = Socket::new(theirs);
        let listener = rendezvous::listen(&passed).unwrap().unwrap();
        broker.send(&Frame::Listener {}, Some(listener.as_fd())).unwrap();
        drop(listener);
        assert!(rendezvous::listen(&passed).unwrap().is_none(), "it waits to be read");
        node.leave();
        assert!(rendezvous::listen(&passed).unwrap().is_some());
    }

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
        let (process, table) = (process::own_word(), other.table.segment().inode());
        coming.send(&Frame::Rejoin { number, seat, process, attempt: 1, table }, None).unwrap();
        let has_come = || matches!(coming.receive(), Received::Frame(Frame::Rejoined { .. }, _));
        while !has_come() {
            assert!(poll::is_readable_within(&coming, Some(Duration::from_secs(10))), "it is not let in");
        }
        // As if there had been no descriptor for its answer.
        let (ours, theirs) = pair().unwrap();
        *one.broker.lock().unwrap() = Arc::new(Socket::new(ours));
        Socket::new(theirs).send(&Frame::Refuse { reason: Refusal::Descriptors as u64 }, None).unwrap();
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
