//! What a member takes in a round of a call that does not flow, which is complete.

use deck_mudeck::Result;
use deck_segment::content::{self, Way};

use super::super::call::Kind;
use super::super::difference::IN_PLACE;
use super::super::member::Member;
use super::super::reductions::folding::Inputs;
use super::fitting::BLOCK_BYTES;
use super::{Progress, Round};

impl Progress {
    /// Takes this member's part of the round, which is complete.
    pub(super) fn take(&self, member: &Member, input: &[u8], output: &mut [u8]) -> Result<()> {
        let (call, phase, me) = (&self.call, member.phase(), member.index);
        let is_root = me == call.root;
        let block = self.block();
        let piece = self.piece_of(block);
        let way = member.taking(call, self.taking, piece.len());
        match call.kind {
            Kind::Barrier => Ok(()),
            Kind::Bcast if is_root => Ok(()),
            Kind::Bcast => member.read(way, call.root, phase, 0, &mut output[piece]),
            Kind::Reduce if !is_root => Ok(()),
            Kind::Reduce | Kind::Allreduce | Kind::Scan if self.round == Round::Results => {
                // In a scan it lies with what others want of it.
                let has_own = call.kind != Kind::Scan;
                self.collect((0..member.size(), 0), has_own, way, member, &mut output[piece])
            }
            Kind::Reduce | Kind::Allreduce | Kind::Scan => {
                let members = if call.kind == Kind::Scan { me + 1 } else { member.size() };
                let own = &input[piece.clone()];
                Inputs::new(member, phase, own, call, way).fold(members, 0, &mut output[piece])
            }
            Kind::Gather | Kind::Gatherv if !is_root => Ok(()),
            Kind::Gather | Kind::Gatherv | Kind::Allgather | Kind::Allgatherv => {
                self.expect_all(member)?;
                self.gather(way, member, input, output)
            }
            Kind::Scatter | Kind::Scatterv => self.take_part(way, member, call.root, input, &mut output[..block]),
            Kind::Alltoall | Kind::Alltoallv => {
                self.expect_all(member)?;
                let mut begin = 0;
                for index in 0..member.size() {
                    let bytes = self.received_from(index);
                    self.take_part(way, member, index, input, &mut output[begin..begin + bytes])?;
                    begin += bytes;
                }
                Ok(())
            }
        }
    }

    /// Bytes of the block from member `index`.
    pub(super) fn received_from(&self, index: u32) -> usize {
        let count = match self.call.kind {
            Kind::Gatherv | Kind::Allgatherv | Kind::Alltoallv => self.call.recv_counts[index as usize],
            _ => self.call.count,
        };
        count * self.element_bytes()
    }

    fn gather(&self, way: Way, member: &Member, input: &[u8], output: &mut [u8]) -> Result<()> {
        let mut begin = 0;
        for index in 0..member.size() {
            let bytes = self.received_from(index);
            let piece = self.piece_of(bytes);
            let target = &mut output[begin + piece.start..begin + piece.end];
            if index == member.index {
                content::copy(way, target, &input[piece]);
            } else if !target.is_empty() {
                member.read(way, index, member.phase(), 0, target)?;
            }
            begin += bytes;
        }
        Ok(())
    }

    /// Takes the present piece of the block that member `index` has for this one into `output`, which is the whole
    /// block.
    fn take_part(&self, way: Way, member: &Member, index: u32, input: &[u8], output: &mut [u8]) -> Result<()> {
        let (me, phase) = (member.index, member.phase());
        let piece = self.piece_of(output.len());
        if index == me {
            let begin: usize = (0..me).map(|other| self.sent_to(other)).sum();
            self.expect(member, index, self.sent_to(me) as u64, output.len())?;
            content::copy(way, &mut output[piece.clone()], &input[begin + piece.start..begin + piece.end]);
            return Ok(());
        }
        let mut begin = match member.heard(index, phase).length & IN_PLACE {
            0 => me as usize * piece.len(),
            _ => me as usize * output.len() + piece.start,
        };
        if self.call.kind.has_counts() {
            let mut head = vec![0u8; BLOCK_BYTES * member.size() as usize];
            member.read(self.taking, index, phase, 0, &mut head)?;
            let words = head.as_chunks::<BLOCK_BYTES>().0;
            let blocks: Vec<u64> = words.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect();
            self.expect(member, index, blocks[me as usize], output.len())?;
            let before =
                blocks[..me as usize].iter().map(|bytes| self.piece_of(usize::try_from(*bytes).unwrap_or(0)).len());
            begin = head.len() + before.sum::<usize>();
        }
        if piece.is_empty() { Ok(()) } else { member.read(way, index, phase, begin, &mut output[piece]) }
    }
}
