//! What a member gives in a round of a call that does not flow: where all can read it.

use deck_mudeck::Result;
use deck_segment::content::Way;

use super::super::board::INLINE;
use super::super::member::{Contribution, Member};
use super::sharing::share_of;
use super::{Progress, Round};

impl Progress {
    /// Puts this member's part of the round where all can read it, and arrives.
    pub(super) fn give(&mut self, member: &mut Member, input: &[u8], output: &mut [u8]) -> Result<()> {
        let word = self.call.word();
        match self.round {
            Round::Inputs => {}
            Round::Results => return self.give_results(member, input, output),
            Round::End => {
                member.arrive_short(word, self.length(member), &[]);
                return Ok(());
            }
        }
        let length = self.length(member) | self.shows_output(member, output);
        if !self.is_giver(member.index, member.size()) {
            member.arrive_short(word, length, &[]);
            return Ok(());
        }
        if self.call.kind.gives_parts() {
            return self.give_parts(member, input);
        }
        let piece = self.piece_of(self.block());
        let content = &input[piece.clone()];
        if content.len() <= INLINE {
            member.arrive_short(word, length, content);
        } else if let Some(lies) = self.lies(member, input) {
            self.arrive_in_place(lies.from(piece.start), member, length, input);
        } else {
            let contribution = self.room(member, content.len())?;
            // In shared work nobody reads the block that the giver itself works on.
            let left_out = match self.choice.is_shared {
                true => share_of(member.index, content.len(), member.size()),
                false => 0..0,
            };
            contribution.write(self.giving, 0, &content[..left_out.start]);
            contribution.write(self.giving, left_out.end, &content[left_out.end..]);
            member.arrive_long(word, length, &contribution);
        }
        Ok(())
    }

    /// Gives a block to each member: one behind the other. With different counts, the bytes of all blocks stand in
    /// front.
    fn give_parts(&mut self, member: &mut Member, input: &[u8]) -> Result<()> {
        let (word, length, size) = (self.call.word(), self.length(member), member.size());
        if let Some(lies) = self.lies(member, input) {
            self.arrive_in_place(lies, member, length, input);
            return Ok(());
        }
        let blocks = (0..size).map(|index| self.sent_to(index));
        let head: Vec<u8> = match self.call.kind.has_counts() {
            true => blocks.clone().flat_map(|bytes| (bytes as u64).to_ne_bytes()).collect(),
            false => Vec::new(),
        };
        let total = head.len() + blocks.clone().map(|bytes| self.piece_of(bytes).len()).sum::<usize>();
        let mut begin = 0;
        let parts = blocks.map(|bytes| {
            let piece = self.piece_of(bytes);
            let part = &input[begin + piece.start..begin + piece.end];
            begin += bytes;
            part
        });
        if total <= INLINE {
            let (mut content, mut at) = ([0; INLINE], head.len());
            content[..at].copy_from_slice(&head);
            for part in parts {
                content[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            member.arrive_short(word, length, &content[..total]);
            return Ok(());
        }
        let contribution = self.room(member, total)?;
        contribution.write(Way::ThroughCaches, 0, &head);
        let mut at = head.len();
        for (index, part) in parts.enumerate() {
            // Nobody reads what the giver has for itself.
            if index != member.index as usize {
                contribution.write(self.giving, at, part);
            }
            at += part.len();
        }
        member.arrive_long(word, length, &contribution);
        Ok(())
    }

    /// Memory for what this member gives in this round.
    fn room(&self, member: &mut Member, bytes: usize) -> Result<Contribution> {
        if self.is_one_copy(member)
            && !member.may_be_ahead()
            && let Some(borrowed) = member.borrowed(self.call.kind, self.block())
        {
            return Ok(borrowed);
        }
        member.room(bytes, self.course.is_some())
    }
}
