//! What a member says in a phase: a line of its own, in which the phase stands last.

use deck_segment::layout::LINE_WORDS;
use deck_sync::atomic::{AtomicU64, Ordering};

use super::{Board, OWN_LINES};

/// Bytes of content that a member can say in its line: shorter contributions need no memory beside it.
pub const INLINE: usize = 32;

/// Words of what a member says in a phase.
mod word {
    pub const CALL: usize = 0;
    pub const LENGTH: usize = 1;
    pub const PHASE: usize = 2;
    pub const PLACE: usize = 3;
    pub const CONTENT: usize = 4;
}

/// What a member says in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The call it is in, packed.
    pub call: u64,
    /// Elements or bytes, depending on the call.
    pub length: u64,
    /// Byte offset of its contribution in its node's segment; 0 if that is in the line itself.
    pub place: u64,
}

impl Board {
    /// The line in which member `index` says something in `phase`.
    #[inline]
    fn line(&self, index: u32, phase: u64) -> &[AtomicU64; LINE_WORDS] {
        self.words.line(self.own_line(index) + (OWN_LINES + self.ahead.line(phase)) * LINE_WORDS)
    }

    /// The last phase of those that have one line with `phase` in which member `index` has said something: the flag of
    /// a party of one.
    #[inline]
    pub fn told(&self, index: u32, phase: u64) -> &AtomicU64 {
        &self.line(index, phase)[word::PHASE]
    }

    /// Member `index` says `said` in `phase`, with `content` if that is short. It is read after all have arrived; that
    /// it was said is told by [`Board::told`].
    #[inline]
    pub fn say(&self, index: u32, phase: u64, said: &Said, content: &[u8]) {
        let line = self.line(index, phase);
        // Relaxed, all of them: arriving publishes (meeting/flag, meeting/counter).
        line[word::CALL].store(said.call, Ordering::Relaxed);
        line[word::LENGTH].store(said.length, Ordering::Relaxed);
        line[word::PLACE].store(said.place, Ordering::Relaxed);
        let (words, rest) = content.as_chunks::<8>();
        for (word, bytes) in line[word::CONTENT..].iter().zip(words) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut padded = [0; 8];
            padded[..rest.len()].copy_from_slice(rest);
            line[word::CONTENT + words.len()].store(u64::from_ne_bytes(padded), Ordering::Relaxed);
        }
    }

    /// What member `index` said in `phase`, which is complete.
    #[inline]
    pub fn heard(&self, index: u32, phase: u64) -> Said {
        let line = self.line(index, phase);
        let get = |word: usize| line[word].load(Ordering::Relaxed);
        Said { call: get(word::CALL), length: get(word::LENGTH), place: get(word::PLACE) }
    }

    /// Where what member `index` gave in `phase` lies, if that may change (`relocation`).
    pub fn place_said(&self, index: u32, phase: u64) -> &AtomicU64 {
        &self.line(index, phase)[word::PLACE]
    }

    /// The short content that member `index` said in `phase`, from byte `from` on; `None` if there is not so much.
    #[must_use]
    #[inline]
    pub fn content(&self, index: u32, phase: u64, from: usize, into: &mut [u8]) -> Option<()> {
        let line = &self.line(index, phase)[word::CONTENT..];
        from.checked_add(into.len()).filter(|end| *end <= INLINE)?;
        let (words, rest) = into.as_chunks_mut::<8>();
        if from.is_multiple_of(8) && rest.is_empty() {
            for (into, word) in words.iter_mut().zip(&line[from / 8..]) {
                *into = word.load(Ordering::Relaxed).to_ne_bytes();
            }
            return Some(());
        }
        let mut content = [0; INLINE];
        for (bytes, word) in content.as_chunks_mut::<8>().0.iter_mut().zip(line) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        into.copy_from_slice(&content[from..][..into.len()]);
        Some(())
    }

    /// True if member `index` has said something in `phase`.
    pub fn has_said(&self, index: u32, phase: u64) -> bool {
        self.told(index, phase).load(Ordering::Relaxed) >= phase
    }

    /// The last phase in which member `index` has said something.
    pub fn last_said(&self, index: u32) -> u64 {
        let lines = 0..self.ahead.lines() as u64;
        // Acquire: pairs with: ahead/told.
        lines.map(|line| self.told(index, line).load(Ordering::Acquire)).max().unwrap_or(0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use deck_mudeck::{Door, Node};
    use deck_peers::Broker;

    use super::super::super::protocols::ahead::Ahead;
    use super::*;

    #[test]
    fn short_content_of_every_length_is_heard_from_every_byte() {
        let broker = Broker::start("test", 1).unwrap();
        let node = Node::join_by(Door::Invited(broker.invite().unwrap())).unwrap();
        let heap = node.membership().heap();
        let region = heap.region(Board::bytes(2, Ahead::NONE)).unwrap();
        let board = Board::at(heap.segment(), node.number(), region.offset(), 2, Ahead::NONE).unwrap();
        let content: Vec<u8> = (1..=INLINE as u8).collect();
        for bytes in 0..=INLINE {
            let said = Said { call: 7, length: bytes as u64, place: 0 };
            board.say(1, bytes as u64, &said, &content[..bytes]);
            assert_eq!(board.heard(1, bytes as u64), said);
            for from in 0..=bytes {
                let mut heard = vec![0; bytes - from];
                board.content(1, bytes as u64, from, &mut heard).unwrap();
                assert_eq!(heard, content[from..bytes]);
            }
        }
        assert_eq!(board.content(1, 0, 1, &mut [0; INLINE]), None);
        assert_eq!(board.content(1, 0, usize::MAX, &mut [0; 8]), None);
        assert_eq!(board.told(0, 0).load(Ordering::Relaxed), 0);
    }
}
