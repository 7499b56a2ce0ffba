//! How a node goes out of its job, in order.

use std::sync::Arc;
use std::time::Duration;

use deck_segment::HeapMemory;
use deck_sync::atomic::{Ordering, fence};
use deck_sync::locks::{lock, read};
use deck_sync::{Deadline, Running, point};

use super::Membership;
use super::entering::leave_by;
use crate::peer::Peer;
use crate::poll;
use crate::wire::Frame;

/// What a peer has to know before this node has left waits so long, while it does not read or the system has no room
/// for it.
const SENT_WITHIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);

impl Membership {
    /// From now on this node counts as left for its own threads; false if it did already.
    pub fn begin_leaving(&self) -> bool {
        // SeqCst: pairs with: pledges/leaving. For the control thread: pairs with: membership/leaving.
        !deck_sync::fork::is_child() && !self.has_left.swap(true, Ordering::SeqCst)
    }

    /// Leaves the job in order: tells everybody, waits for nobody but the control thread, threads that have to take
    /// something back ([`Membership::pledge`]), and peers that have not read yet where a message lies that was posted
    /// on to them; for these a second at most. What was posted is still delivered.
    pub fn leave(&self) {
        // SeqCst: pairs with: pledges/leaving. For the control thread: pairs with: membership/leaving.
        self.has_left.store(true, Ordering::SeqCst);
        // SeqCst: pairs with: membership/leaving. One thread says so to everybody, and after that.
        if deck_sync::fork::is_child() || self.has_said_bye.swap(true, Ordering::SeqCst) {
            return;
        }
        self.opened.wait_for_those_inside();
        let is_in_order = self.redeem_pledges();
        let peers: Vec<Arc<Peer>> = lock(&self.peers).values().cloned().collect();
        let deadline = Deadline::after(SENT_WITHIN);
        // Each of them every time: what waits for one is sent by asking, whoever else does not read.
        let owes_heaps = || peers.iter().filter(|peer| peer.owes_heaps()).count() > 0;
        while owes_heaps() && !deadline.has_passed() {
            poll::pause(LOOK_AGAIN_AFTER);
        }
        for peer in &peers {
            let _ = peer.send(&Frame::Bye {});
        }
        point("leave/bye");
        // Before this node is gone: whoever notices it first looks whether it keeps anything. And after that, for what
        // came last.
        self.tell_what_is_kept();
        self.table.set_gone(self.number, !is_in_order);
        self.heap.close();
        self.tell_what_is_kept();
        leave_by(&self.broker());
        self.poke();
        // Not under the lock.
        let control = lock(&self.control).take();
        control.into_iter().for_each(Running::end);
        // Nobody reads there any more. Through an invitation this process may come again, or another. Elsewhere what
        // waits to be read may be the socket that a job listens on: its name would be taken for as long as the program
        // keeps anything of this node.
        if lock(&self.invitation).take().is_none() {
            self.broker().end();
        }
        for peer in &peers {
            peer.set_gone(false);
            // The program may have clones of its mail boxes for long, and with them the connection: its end is what the
            // peer hears.
            if let Some(socket) = peer.socket() {
                socket.end();
            }
        }
        self.shares.forget_questions();
        lock(&self.peers).clear();
        lock(&self.hosted).take();
        lock(&self.listener).take();
        // SeqCst: pairs with: membership/after_leaving. Whoever says that there is something to sweep, and is not seen
        // here, sees that this node has left.
        fence(Ordering::SeqCst);
        if let Some(sweep) = self.after_leaving.get() {
            sweep();
        }
    }

    /// Buffers of others that this process holds stay theirs until it ends.
    fn tell_what_is_kept(&self) {
        let heaps = read(&self.heaps);
        // A node that is gone uses no buffer again.
        let is_lent = |heap: &Arc<HeapMemory>| heap.owner() != self.number && self.table.is_live(heap.owner());
        if heaps.known().any(|heap| is_lent(heap) && heap.held() > 0) {
            self.table.set_keeps(self.seat);
        }
    }
}
