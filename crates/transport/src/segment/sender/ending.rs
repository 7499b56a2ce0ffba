//! The end of a ring, as its sender has it.

use deck_segment::Remote;
use deck_sync::atomic::Ordering;

use super::super::ring::Position;
use super::{Posting, Sender};

/// How a ring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ending {
    /// The mail box was closed.
    Closed = 1,
    /// Its node died.
    Lost = 2,
}

impl<R: Remote> Sender<R> {
    /// Ends the ring because its receiver is gone: nothing more is posted, what was posted and not retrieved is given
    /// up, waiting threads are told. Returns the position behind the last message that was ever posted; nothing is
    /// written to the receiver's memory afterwards.
    pub fn end(&self, ending: Ending) -> Position {
        let mut posting = self.posting.lock_as_guest();
        self.note_ending(&mut posting, ending);
        self.give_up(&mut posting, ending);
        let tail = posting.position;
        drop(posting);
        self.room().notify();
        tail
    }

    /// Nothing more is posted and waiting threads are told, but what was posted stays in flight: this node leaves its
    /// job, and the receiver is still to retrieve it. This node holds none of it from now on.
    pub fn stop(&self, ending: Ending) {
        let mut posting = self.posting.lock_as_guest();
        self.note_ending(&mut posting, ending);
        self.abandon(&mut posting);
        drop(posting);
        self.room().notify();
    }

    fn note_ending(&self, posting: &mut Posting, ending: Ending) {
        posting.end();
        let _ = self.ended.compare_exchange(0, ending as u32, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// How the ring ended, if it did.
    pub fn ended(&self) -> Option<Ending> {
        match self.ended.load(Ordering::Relaxed) {
            1 => Some(Ending::Closed),
            2 => Some(Ending::Lost),
            _ => None,
        }
    }
}
