//! The bells of a mail box: how posters say in which of the rings that nobody polls there is something.
//!
//! A bell is a bit, set before the event of the mail box is notified. Event and bells of the first rings share a line,
//! and all of them lie in three: whoever is notified looks at one word for 64 rings, so a thousand silent ones cost
//! nothing. Bits are set and taken down by exchanges: one that is set is heard by whoever has seen the notification,
//! whatever others set meanwhile in the same word. (With a word for each bell and one for many bells that tells of
//! them, a poster can be missed whose write to that one was overwritten by another's: a model found it.)
//!
//! Model: `tests/loom_bells.rs`.

use deck_segment::layout::{LINE, LINE_WORDS};
use deck_segment::{Remote, Seat, Words};
use deck_sync::atomic::Ordering;
use deck_sync::{Error, ErrorKind, Event, Result, point};

/// Word of the event.
const EVENT: usize = 0;
/// First word of the bells.
const FIRST: usize = 1;
const LINES: usize = 3;

/// Where a sender rings, in the receiver's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bell {
    /// The bell, as the number of its bit from the begin of the segment on.
    pub bit: usize,
    /// Byte offset of the event of the mail box.
    pub event: usize,
}

impl Bell {
    /// Checks what another node tells against the size of its segment.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if anything lies outside or is not aligned.
    pub fn check(&self, segment_bytes: usize) -> Result<()> {
        let is_event =
            self.event.is_multiple_of(8) && self.event.checked_add(8).is_some_and(|end| end <= segment_bytes);
        if is_event && self.bit / 64 < segment_bytes / 8 {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::Corrupt, format!("a bell at an impossible place: {self:?}")))
        }
    }

    /// Says that there is something in the ring that the bell belongs to, and wakes whoever waits there. Never waits; a
    /// system call only if somebody sleeps.
    pub fn ring<R: Remote>(&self, remote: &R) {
        // Release (in the fabric): pairs with: ring/bell.
        remote.set_bits(self.bit / 64 * 8, 1 << (self.bit % 64));
        point("post/rung");
        remote.interrupt(self.event);
    }
}

/// The bells of one mail box and its event, at its owner.
#[derive(Debug)]
pub struct Bells(Words);

impl Bells {
    /// As long as a mail box has fewer rings, nodes that have one get lanes.
    pub const RINGS_WITH_LANES: usize = 1024;
    /// Rings of a mail box at a time: each node of a job can have its first one, unless those of nodes that are gone
    /// are not read to their end.
    pub const RINGS_MAX: usize = Self::RINGS_WITH_LANES + Seat::COUNT;
    /// Bytes of their memory, which begins with a line.
    pub const BYTES: usize = LINES * LINE;

    /// Bells in zeroed words, of which there are [`Bells::BYTES`] at least.
    pub fn new(words: Words) -> Bells {
        Bells(words)
    }

    /// The event of the mail box.
    #[inline]
    pub fn event(&self) -> &Event {
        self.0.event(EVENT)
    }

    /// Where the sender of the ring with this index rings, if the memory is at byte offset `offset`.
    ///
    /// # Panics
    /// If there is no such ring.
    pub fn bell(index: usize, offset: usize) -> Bell {
        assert!(index < Self::RINGS_MAX, "ring {index}");
        Bell { bit: 8 * offset + 64 * FIRST + index, event: offset + 8 * EVENT }
    }

    /// Takes down the bells that have rung, and tells the index of each: of any ring, for other processes write there.
    /// By one thread at a time, after it has seen the event's count change; of the first `rings` rings at least.
    pub fn hear(&self, rings: usize, mut has_rung: impl FnMut(usize)) {
        for index in 0..rings.div_ceil(64) {
            let bells = self.0.get(FIRST + index);
            // Relaxed: whoever has notified is seen by the event's count, and nobody else takes bells down.
            if bells.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // Acquire: pairs with: ring/bell.
            let mut rung = bells.swap(0, Ordering::Acquire);
            while rung != 0 {
                has_rung(64 * index + rung.trailing_zeros() as usize);
                rung &= rung - 1;
            }
        }
    }
}

// docs/layout/ring.md
const _: () = assert!(FIRST + Bells::RINGS_MAX.div_ceil(64) <= LINES * LINE_WORDS);

#[cfg(all(test, not(loom)))]
mod tests {
    use deck_segment::Segment;
    use deck_segment::fabric::Host;

    use super::*;

    const OFFSET: usize = 128;

    #[test]
    #[cfg_attr(miri, ignore = "segments")]
    fn whoever_has_rung_is_heard_once_and_nobody_else() {
        let segment = Segment::create("bells", 4096).unwrap();
        let bells = Bells::new(Words::in_segment(&segment, OFFSET, Bells::BYTES / 8).unwrap());
        let host = Host::new(segment.clone());
        let heard = || {
            let mut heard = Vec::new();
            bells.hear(Bells::RINGS_MAX, |index| heard.push(index));
            heard
        };
        for index in 0..Bells::RINGS_MAX {
            let (bell, count) = (Bells::bell(index, OFFSET), bells.event().count());
            bell.check(OFFSET + Bells::BYTES).unwrap();
            bell.ring(&host);
            assert_ne!(bells.event().count(), count);
            assert_eq!(heard(), [index]);
            assert_eq!(heard(), []);
        }
        let some = [0, 62, 63, 64, 447, 448, Bells::RINGS_MAX - 1];
        some.iter().for_each(|index| Bells::bell(*index, OFFSET).ring(&host));
        assert_eq!(heard(), some);
    }

    #[test]
    fn impossible_places_are_refused() {
        let bell = Bell { bit: 8 * 32 - 1, event: 24 };
        assert!(bell.check(32).is_ok());
        assert!(bell.check(31).is_err());
        for wrong in [
            Bell { bit: 8 * 32, ..bell },
            Bell { event: 25, ..bell },
            Bell { event: 32, ..bell },
            Bell { event: usize::MAX - 7, ..bell },
        ] {
            assert!(wrong.check(32).is_err(), "{wrong:?}");
        }
    }
}
