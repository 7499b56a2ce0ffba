//! What other nodes say to this one, and their ends.
//!
//! A peer may be killed at any moment: what it had said before comes first, and then it is gone. If it asks for what
//! cannot be, it is gone for this node alone. Bytes that are no frame are not heard: whoever has the descriptor, such
//! as a program that a node has started, may write them.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use deck_segment::Seat;
use deck_sync::atomic::Ordering;
use deck_sync::locks::lock;
use deck_sync::{Error, ErrorKind, NodeId, Result, barrier, point};

use super::heaps::pass_heap;
use super::{Control, PROCESS, was_not_met};
use crate::membership::{Granted, Membership};
use crate::peer::Peer;
use crate::process;
use crate::socket::{LAST_WORDS, Received};
use crate::table::NodeState;
use crate::wire::{Frame, Refusal};

/// Questions of a peer whose heap there is no room for, at most.
const PUT_OFF_MAX: usize = 4096;
/// With so many answers that it has not read, a peer that asks on is not heard any more. One that is stopped does not
/// ask.
const UNREAD_MAX: usize = 1 << 16;

impl Control {
    /// Hears up to `most` frames.
    pub(super) fn serve_peer(&mut self, membership: &Arc<Membership>, node: NodeId, most: usize) {
        let Some(peer) = known_peer(membership, node) else { return };
        let Some(socket) = peer.socket() else { return };
        for _ in 0..most {
            if peer.gone().is_some() {
                return;
            }
            match socket.receive() {
                Received::Nothing => return,
                Received::Nonsense => {}
                Received::Frame(frame, passed) => {
                    let asks = frame.is_question() || matches!(frame, Frame::RingClose { .. });
                    if asks && socket.unread() >= UNREAD_MAX
                        || self.handle_peer(membership, &peer, frame, passed).is_err()
                    {
                        // It does not speak our language: as good as gone for us, whatever it is for others.
                        self.poll.forget(socket);
                        socket.take_back(|_| true);
                        self.peer_gone(membership, node);
                        return;
                    }
                }
                Received::End => {
                    self.poll.forget(socket);
                    if !peer.is_connected() {
                        // The other end was never taken up: its broker died in between.
                        self.put_off.retain(|(from, _)| *from != node);
                        return was_not_met(membership, &peer);
                    }
                    self.note_end(membership, node);
                    return;
                }
            }
        }
    }

    /// A node, met or not, has ended. What it said to us before comes first: the heaps of what it had posted, and its
    /// bye.
    pub(super) fn ended(&mut self, membership: &Arc<Membership>, node: NodeId) {
        self.serve_peer(membership, node, LAST_WORDS);
        self.note_end(membership, node);
    }

    /// A node that will not be heard of any more: it has left, if it said so to us or in the table, or died. Except
    /// when it is this node that leaves: the others close their ends because of that, and are not gone.
    fn note_end(&mut self, membership: &Arc<Membership>, node: NodeId) {
        // SeqCst: pairs with: membership/leaving, which sets it before it says so to anybody.
        if !membership.has_left.load(Ordering::SeqCst) {
            let has_said_bye = known_peer(membership, node).is_some_and(|peer| peer.has_said_bye());
            membership.table.set_gone(node, !has_said_bye);
            self.peer_gone(membership, node);
        }
    }

    fn handle_peer(
        &mut self,
        membership: &Arc<Membership>,
        peer: &Arc<Peer>,
        frame: Frame,
        passed: Option<OwnedFd>,
    ) -> Result<()> {
        match frame {
            Frame::Hello { number, seat, process } => {
                if number != u64::from(peer.number().0) || seat != u64::from(peer.seat().0) {
                    return Err(Error::new(ErrorKind::Corrupt, "it says it is another node").with_peer(peer.number()));
                }
                let heap = self.passed_heap(membership, peer, (peer.number(), peer.seat()), passed)?;
                // Or it was asked twice.
                let Some(true) = heap.map(|heap| peer.set_heap(heap)) else { return Ok(()) };
                if membership.table.needs_fences() {
                    barrier::use_real_fences();
                }
                self.watch_process(peer, process);
                peer.set_connected();
                // Who lets go of a segment tells those that it has met.
                membership.shares.sweep();
                for (_, frame) in self.put_off.extract_if(.., |(from, _)| *from == peer.number()).collect::<Vec<_>>() {
                    self.handle_peer(membership, peer, frame, None)?;
                }
            }
            Frame::RingRequest { .. } if peer.heap().is_none() && self.has_room_for_questions_of(peer.number()) => {
                self.put_off.push((peer.number(), frame));
            }
            Frame::RingRequest { .. }
            | Frame::RingGrant { .. }
            | Frame::RingRefuse { .. }
            | Frame::RingClose { .. }
            | Frame::RoomWanted { .. }
            | Frame::RingEnded { .. } => handle_ring(membership, peer, frame),
            Frame::Heap { number, seat } => {
                let known = u32::try_from(number).ok().zip(u16::try_from(seat).ok());
                if let Some((number, seat)) = known {
                    self.heap_passed(membership, peer, (NodeId(number), Seat(seat)), passed)?;
                }
            }
            Frame::HeapRelease { number } => {
                if let Ok(number) = u32::try_from(number) {
                    self.heap_released(membership, peer.number(), NodeId(number));
                }
            }
            Frame::HeapWanted { number } => {
                if let Ok(number) = u32::try_from(number) {
                    pass_heap(membership, peer, NodeId(number));
                }
            }
            Frame::SegmentMake { .. }
            | Frame::SegmentOpen { .. }
            | Frame::SegmentMade { .. }
            | Frame::SegmentGrant { .. }
            | Frame::SegmentRefuse { .. }
            | Frame::SegmentRelease { .. } => membership.serve_segments(peer, frame, passed),
            // One sign of life is as good as many.
            Frame::Ping { .. } if peer.waiting(|frame| matches!(frame, Frame::Pong { .. })) > 0 => {}
            Frame::Ping { count } => drop(peer.send(&Frame::Pong { count })),
            Frame::Pong { .. } => peer.answered(),
            Frame::Bye {} => peer.set_said_bye(),
            _ => {}
        }
        Ok(())
    }

    /// There is no room for the heap of `peer`, and there will be none soon: who asks for rings there goes on.
    pub(super) fn refuse_what_is_put_off(&mut self, peer: &Peer) {
        for (_, frame) in self.put_off.extract_if(.., |(from, _)| *from == peer.number()) {
            if let Frame::RingRequest { request, .. } = frame {
                let _ = peer.send(&Frame::RingRefuse { request, reason: Refusal::NoRoom as u64 });
            }
        }
    }

    fn has_room_for_questions_of(&self, peer: NodeId) -> bool {
        self.put_off.iter().filter(|(from, _)| *from == peer).count() < PUT_OFF_MAX
    }

    fn watch_process(&self, peer: &Peer, word: u64) {
        if let Some(Ok(process)) = process::open(word)
            && let Some(process) = peer.set_process(process)
        {
            let _ = self.poll.watch(process, PROCESS | u64::from(peer.number().0));
        }
    }

    /// A node, met or not, is gone for all or for this node. The table knows how.
    pub(super) fn peer_gone(&mut self, membership: &Arc<Membership>, number: NodeId) {
        let state = membership.table.state(number);
        let is_lost = state != Some(NodeState::Left);
        let peer = known_peer(membership, number).filter(|peer| peer.set_gone(is_lost));
        if (peer.is_some() || state != Some(NodeState::Live))
            && let Some(handler) = membership.handler()
            && self.told_gone.insert(number)
        {
            handler.node_gone(number, is_lost);
        }
        membership.shares.sweep();
        let Some(peer) = peer else { return };
        self.put_off.retain(|(from, _)| *from != number);
        // Both stay readable for ever; the descriptors live as long as anybody has a clone of its mail boxes.
        if let Some(socket) = peer.socket() {
            self.poll.forget(socket);
        }
        if let Some(process) = peer.process() {
            self.poll.forget(process);
        }
        membership.shares.wake_those_who_asked(number);
        let Some(handler) = membership.handler() else { return };
        handler.peer_gone(number, is_lost);
        membership.ring_requests.wake_those_who_asked(number);
        self.heaps_released(membership, number);
    }
}

fn known_peer(membership: &Membership, node: NodeId) -> Option<Arc<Peer>> {
    lock(&membership.peers).get(&node).cloned()
}

/// A frame about rings has come from `peer`.
fn handle_ring(membership: &Membership, peer: &Arc<Peer>, frame: Frame) {
    let handler = membership.handler();
    match frame {
        Frame::RingRequest { request, mailbox, generation, credit } => {
            let known = u32::try_from(mailbox).ok().zip(u32::try_from(generation).ok());
            let granted = match (handler, known) {
                (Some(handler), Some((mailbox, generation))) => {
                    handler.ring_requested(peer, mailbox, generation, credit)
                }
                _ => Err(Refusal::Nonsense),
            };
            point("clone/granting");
            let answer = match granted {
                Ok(Granted { ring, messages, bytes, area_lines, place, bell, event }) => {
                    Frame::RingGrant { request, ring, messages, bytes, area_lines, place, bell, event }
                }
                Err(reason) => Frame::RingRefuse { request, reason: reason as u64 },
            };
            let _ = peer.send(&answer);
        }
        Frame::RingGrant { request, ring, messages, bytes, area_lines, place, bell, event } => {
            let granted = Granted { ring, messages, bytes, area_lines, place, bell, event };
            if !membership.ring_requests.answered(peer.number(), request, Ok(granted)) {
                // Whoever asked has given up: nothing was or will be posted through this ring.
                let _ = peer.send(&Frame::RingEnded { ring, tail: 0 });
            }
        }
        Frame::RingRefuse { request, reason } => {
            let error = Refusal::from_word(reason).of_a_ring();
            if membership.ring_requests.answered(peer.number(), request, Err(error))
                && let Some(handler) = handler
            {
                handler.ring_refused(peer.number());
            }
        }
        Frame::RingClose { ring } => {
            if let Some(handler) = handler {
                let tail = handler.ring_closed(peer.number(), ring);
                let _ = peer.send(&Frame::RingEnded { ring, tail: u64::from(tail) });
            }
        }
        Frame::RoomWanted { ring } => {
            if let Some(handler) = handler {
                handler.room_wanted(peer.number(), ring);
            }
        }
        Frame::RingEnded { ring, tail } => {
            if let (Some(handler), Ok(tail)) = (handler, u32::try_from(tail)) {
                handler.ring_ended(peer.number(), ring, tail);
            }
        }
        _ => {}
    }
}
