//! What others gave: where it lies, and how it is read.

use std::sync::Arc;

use deck_mudeck::{Error, ErrorKind, Result};
use deck_segment::content::{Content, STREAM_FROM, Way};
use deck_segment::{Buffer, Fetching, Segment};

use super::super::board::{INLINE, Said};
use super::super::call::Call;
use super::super::difference::{ATTACHED, IN_PLACE};
use super::super::lending;
use super::{MISSING, Member};

impl Member {
    /// Also before this node has met itself.
    pub(super) fn own_segment(&self) -> &Arc<Segment> {
        self.membership().heap().segment()
    }

    /// The segment of this member, or of another one that it has met.
    pub(super) fn segment_of(&self, index: u32) -> &Arc<Segment> {
        if index == self.index { self.own_segment() } else { &self.segments[index as usize] }
    }

    /// Where `content` lies in this node's segment, if it does: there others can read it.
    pub fn offset_of(&self, content: &[u8]) -> Option<usize> {
        self.own_segment().offset_of(content)
    }

    /// Another share of the buffer in which `content` lies, if it lies in one of this node.
    pub fn share_of(&self, content: &[u8]) -> Option<Buffer> {
        self.membership().heap().share_of(content)
    }

    /// What member `index` said in `phase`, which is complete and not two phases old.
    pub fn heard(&self, index: u32, phase: u64) -> Said {
        self.board.heard(index, phase)
    }

    /// The way in which this member takes what others give in `call` in the way `way`, in blocks of `bytes`: as
    /// [`Call::taking`] where readers fetch.
    pub fn taking(&self, call: &Call, way: Way, bytes: usize) -> Way {
        let readers_fetch = self.membership().heap().fetching() == Fetching::ByReaders;
        if readers_fetch { call.taking(way, self.size(), bytes) } else { way }
    }

    /// Reads from the contribution of member `index` to `phase`, from byte `from` on. What lies in its program's memory
    /// is not fetched.
    ///
    /// # Errors
    /// `Corrupt` naming its node if it named an impossible place.
    pub fn read(&self, way: Way, index: u32, phase: u64, from: usize, into: &mut [u8]) -> Result<()> {
        let said = self.heard(index, phase);
        if said.length & ATTACHED != 0 {
            return self.read_attached(way, index, phase, from, into);
        }
        let way = match way {
            // So little is looked at next.
            Way::PastCaches if into.len() < STREAM_FROM => Way::ThroughCaches,
            Way::Fetched if said.length & IN_PLACE != 0 => Way::ThroughCaches,
            way => way,
        };
        let read = match said.place {
            0 => self.board.content(index, phase, from, into),
            place => self.at(index, place, from).and_then(|(segment, offset)| segment.read_by(way, offset, into)),
        };
        read.ok_or_else(|| self.impossible(index))
    }

    /// `bytes` of the contribution of member `index` to `phase`, from byte `from` on: where they lie, or in `line` if
    /// that is in the board. Fetched as by [`Member::read`].
    ///
    /// # Errors
    /// As [`Member::read`].
    pub fn content<'a>(
        &'a self,
        way: Way,
        index: u32,
        phase: u64,
        from: usize,
        bytes: usize,
        line: &'a mut [u8; INLINE],
    ) -> Result<Content<'a>> {
        let said = self.heard(index, phase);
        let content = match said.place {
            0 => line.get_mut(..bytes).and_then(|line| {
                self.board.content(index, phase, from, line)?;
                Some(Content::of(line))
            }),
            place => self.at(index, place, from).and_then(|(segment, offset)| {
                if way == Way::Fetched && said.length & IN_PLACE == 0 {
                    segment.fetch(offset, bytes)?;
                }
                segment.content(offset, bytes)
            }),
        };
        content.ok_or_else(|| self.impossible(index))
    }

    /// Byte `from` of what member `index` said lies at `place`: where that is.
    fn at(&self, index: u32, place: u64, from: usize) -> Option<(&Segment, usize)> {
        let (owner, place) = lending::owner_of(index, place, self.nodes.len());
        let offset = usize::try_from(place).ok()?.checked_add(from)?;
        // Of a node that this one has not met nobody gives anything but what stands in a line.
        Some((self.segments.get(owner as usize)?, offset))
    }

    pub(super) fn impossible(&self, index: u32) -> Error {
        let does = match self.heard(index, self.phase).place {
            MISSING => "could not give its contribution",
            _ => "tells an impossible place of its contribution",
        };
        let what = format!("group {:?}: index {index} {does}", self.name);
        Error::new(ErrorKind::Corrupt, what).with_peer(self.nodes[index as usize])
    }
}
