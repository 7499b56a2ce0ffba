//! A ring of a mail box, and what becomes of it when its sender is gone.

use deck_segment::fabric::Host;
use deck_sync::{Error, ErrorKind, NodeId};
use deck_transport::Receiver;

use crate::batons::Pace;

/// Looks without a message after which a ring is made cold while others are busy.
const SILENT_LOOKS: u32 = 4096;

/// How the sender of a ring came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Left in order.
    Left,
    /// Died.
    Lost,
}

pub(crate) struct Ring {
    pub id: u64,
    pub receiver: Receiver<Host>,
    pub ended: Option<Ended>,
    /// Messages that lie in heaps which cannot be had any more.
    pub(super) unreadable: u32,
    /// Looks that found nothing since this many messages had been taken.
    pub(super) silent: u32,
    seen: u32,
    pub pace: Pace,
}

impl Ring {
    /// A new one, whose sender is there.
    pub(super) fn new(id: u64, receiver: Receiver<Host>) -> Ring {
        Ring { id, receiver, ended: None, unreadable: 0, silent: 0, seen: 0, pace: Pace::default() }
    }

    /// Nothing is taken from it any more. A sender that is gone is told nothing.
    pub fn close(&mut self) {
        if self.ended.is_none() {
            self.receiver.set_closed();
        }
    }

    /// It has something, and nobody looks there.
    pub(super) fn is_unheard(&self) -> bool {
        !self.receiver.is_hot() && self.receiver.has_next()
    }

    /// A look found nothing; true if that has been so for long.
    pub(super) fn note_silence(&mut self) -> bool {
        let messages = self.receiver.messages();
        self.silent = if self.seen == messages { self.silent.saturating_add(1) } else { 1 };
        self.seen = messages;
        self.silent >= SILENT_LOOKS
    }
}

/// What is told of a node that has cloned a mail box and is gone.
#[cold]
pub(super) fn loss(from: NodeId, ended: Ended, unreadable: u32) -> Option<Error> {
    let how = match ended {
        Ended::Left if unreadable == 0 => return None,
        Ended::Left => "left",
        Ended::Lost => "died",
    };
    let what = format!("a node that had cloned this mail box {how}");
    let (what, remedy) = match unreadable {
        0 => (what, "all that it had posted was delivered; go on retrieving from the others"),
        count => (
            format!("{what}; messages that are lost with it, as their memory cannot be reached any more: {count}"),
            "all else that it had posted was delivered; go on retrieving from the others",
        ),
    };
    Some(Error::new(ErrorKind::PeerLost, what).with_peer(from).with_remedy(remedy))
}
