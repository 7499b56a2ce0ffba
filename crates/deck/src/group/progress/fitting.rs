//! Where counts may differ: does each member give as many bytes as its receiver expects?

use deck_mudeck::{Error, ErrorKind, Result};

use super::super::difference::length_of;
use super::super::member::Member;
use super::Progress;

/// Bytes in which a member with different blocks tells the length of one.
pub(super) const BLOCK_BYTES: usize = size_of::<u64>();

impl Progress {
    /// Where counts differ: before anything is taken from anybody, so that a call with counts that do not fit leaves
    /// its output as it was.
    ///
    /// # Errors
    /// As [`Progress::expect`].
    pub(super) fn expect_all(&self, member: &Member) -> Result<()> {
        // What was said in the first piece is said in all.
        if !self.call.kind.has_counts() || self.piece > 0 {
            return Ok(());
        }
        for index in 0..member.size() {
            self.expect(member, index, self.given_by(member, index)?, self.received_from(index))?;
        }
        Ok(())
    }

    /// Bytes that member `index` has for this one.
    fn given_by(&self, member: &Member, index: u32) -> Result<u64> {
        let phase = member.phase();
        if !self.call.kind.gives_parts() {
            return Ok(length_of(member.heard(index, phase).length));
        }
        if index == member.index {
            return Ok(self.sent_to(index) as u64);
        }
        let mut bytes = [0; BLOCK_BYTES];
        member.read(self.taking, index, phase, BLOCK_BYTES * member.index as usize, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// # Errors
    /// `Invalid` unless member `index` gives as many bytes as this one expects.
    pub(super) fn expect(&self, member: &Member, index: u32, gives: u64, expected: usize) -> Result<()> {
        if gives == expected as u64 {
            return Ok(());
        }
        let bytes = self.element_bytes();
        let (gives, expected) = (gives / bytes as u64, expected / bytes);
        let what = format!("{}: index {index} gives {gives} elements, not {expected}", member.doing(self.call.kind));
        Err(Error::new(ErrorKind::Invalid, what)
            .with_peer(member.nodes[index as usize])
            .with_remedy("give the same counts at both ends"))
    }
}
