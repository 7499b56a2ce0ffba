//! One member's side where others read its program's own memory, and it reads theirs.

use deck_mudeck::{Error, ErrorKind, NodeState, Result};
use deck_segment::attach::{self, Attach, Errno, Proof};
use deck_segment::content::{self, Way};
use deck_sync::atomic::Ordering;
use deck_sync::{Look, point};

use super::super::absent::{self, Absent};
use super::super::attaching::{Attachment, GONE, NOT_KEPT};
use super::super::call::Kind;
use super::super::difference::ATTACHED;
use super::super::protocols::relocation;
use super::Member;

/// Bytes that are read at a time of arrays that are laid out: meanwhile their owners cannot have them back.
pub const LOOK: usize = 1 << 20;

/// What a member tells of what it can read; 0 until it has.
const CANNOT: u64 = 1;
const READS_ALL: u64 = 2;

/// What a member knows of reading programs' memory.
#[derive(Default)]
pub struct Attaching {
    /// The processes of all members, if this one may read their memory.
    processes: Vec<u32>,
    /// What this one may tell the others to read, once that is known.
    may: Option<Attach>,
    /// The last phase before this one had met the nodes of all: in the next one all have.
    pub met_in: u64,
}

impl Member {
    /// Tells the others whether this member can read the memory of all of them, once it has met their nodes.
    pub(super) fn tell_what_it_reads(&mut self) {
        let table = self.membership().table();
        let may_be = self.node.attach() != Attach::Never;
        let processes = self.nodes.iter().map(|node| table.pid_here(*node).filter(|_| may_be));
        self.attaching.processes = processes.collect::<Option<Vec<u32>>>().unwrap_or_default();
        // The threads of its own node lay their arrays out for it.
        let others = self
            .nodes
            .iter()
            .zip(&self.attaching.processes)
            .filter(|(node, _)| **node != self.nodes[self.index as usize]);
        let mut others: Vec<u32> = others.map(|(_, process)| *process).collect();
        others.sort_unstable();
        others.dedup();
        let reads_all = !self.attaching.processes.is_empty() && others.into_iter().all(attach::is_allowed);
        self.board.set_proof(self.index, Proof::own());
        // Relaxed: published by coming to the next phase (meeting/flag, ahead/told).
        self.board.reads_all(self.index).store(if reads_all { READS_ALL } else { CANNOT }, Ordering::Relaxed);
    }

    /// May this member tell the others to read its program's memory? Not before all have said that they can. They do
    /// before they come to the same phase, so all members know it from the same call on.
    pub fn attach(&mut self) -> Attach {
        if let Some(known) = self.attaching.may {
            return known;
        }
        if self.phase == self.attaching.met_in {
            return Attach::Never;
        }
        // Relaxed: as above.
        let told = (0..self.nodes.len() as u32).map(|index| self.board.reads_all(index).load(Ordering::Relaxed));
        let least = told.min().unwrap_or(0);
        let attach = if least == READS_ALL { self.node.attach() } else { Attach::Never };
        // It may be in that phase still, with a call that was started.
        self.attaching.may = (least != 0).then_some(attach);
        attach
    }

    /// Says that the `whole` of what this member gives lies in the program's own memory, and arrives at the next phase.
    pub fn arrive_attached(&mut self, call: u64, length: u64, whole: &[u8]) -> Attachment {
        let attachment = Attachment::new(
            self.membership().clone(),
            self.presence.clone(),
            self.board.clone(),
            self.index,
            self.phase + 1,
        );
        self.arrive_at(call, length | ATTACHED, whole.as_ptr().addr());
        attachment
    }

    /// Reads from what member `index` gives in `phase`, which lies in its program's memory, from byte `from` on: that
    /// of a thread of this node in the way `way`, and all other by the kernel.
    ///
    /// # Errors
    /// `PeerLost` and `Closed` if somebody is gone; `System` if it has left the call for a while and had no memory to
    /// keep what it gives; `Corrupt` if it named an impossible place; `System` for all else that the kernel says.
    pub(super) fn read_attached(&self, way: Way, index: u32, phase: u64, from: usize, into: &mut [u8]) -> Result<()> {
        if self.nodes[index as usize] == self.nodes[self.index as usize]
            && let Some(shelf) = &self.shelf
        {
            let mut from = from;
            for part in into.chunks_mut(LOOK) {
                let look = shelf.look();
                let array = self.laid_out(&look, index, phase)?;
                let given = from.checked_add(part.len()).and_then(|end| array.get(from..end));
                content::copy(way, part, given.ok_or_else(|| self.impossible(index))?);
                from += part.len();
            }
            return Ok(());
        }
        let process = self.attaching.processes.get(index as usize).copied().ok_or(Errno::PERM);
        let (mut lies_at, proof) = (0, self.board.proof(index));
        let read = relocation::read_settled(self.board.place_said(index, phase), |place| {
            lies_at = place;
            let address = place.checked_add(from as u64).ok_or(Errno::FAULT);
            point("group/reading");
            let read = attach::read(process?, proof, address?, into);
            point("group/read");
            read
        });
        // It came and went too often.
        let Some(read) = read else { return Err(self.unread(index, phase, NOT_KEPT, Errno::FAULT)) };
        read.map_err(|errno| self.unread(index, phase, lies_at, errno))
    }

    /// What member `index`, a thread of this node, has laid out for the call that began in `phase`.
    ///
    /// # Errors
    /// `PeerLost` and `Closed` if it has ended the call, `System` if it has left it and had no memory to keep what it
    /// gives.
    pub fn laid_out<'a>(&self, look: &'a Look<'_>, index: u32, phase: u64) -> Result<&'a [u8]> {
        look.at(index as usize, phase).map_err(|error| {
            let kind = Kind::from_word(self.heard(self.index, self.phase).call & 0xff).unwrap_or(Kind::Barrier);
            match error.kind() {
                ErrorKind::Closed => self.ended(&self.doing(kind), index),
                _ => self.not_kept(&self.doing(kind), index),
            }
        })
    }

    /// Member `index` has ended the call because somebody is gone, if that is not itself.
    #[cold]
    fn ended(&self, doing: &str, index: u32) -> Error {
        let gone = self.those(|index| !self.is_live(index));
        let left = || Absent { index, node: Some(self.nodes[index as usize]), state: Some(NodeState::Left) };
        absent::lost(doing, &if gone.is_empty() { vec![left()] } else { gone })
    }

    #[cold]
    fn not_kept(&self, doing: &str, index: u32) -> Error {
        let what =
            format!("{doing}: index {index} has left the call for a while and had no memory to keep what it gives");
        Error::new(ErrorKind::System, what)
            .with_peer(self.nodes[index as usize])
            .with_remedy("give it more time, so that it need not leave, or more memory")
    }

    #[cold]
    fn unread(&self, index: u32, phase: u64, place: u64, errno: Errno) -> Error {
        let node = self.nodes[index as usize];
        let doing = self.doing(Kind::from_word(self.heard(index, phase).call & 0xff).unwrap_or(Kind::Barrier));
        match (place, errno) {
            (GONE, _) => self.ended(&doing, index),
            (NOT_KEPT, _) => self.not_kept(&doing, index),
            (_, Errno::SRCH) => {
                // The table is to say so before the program hears of it.
                self.membership().note_end(node);
                let giver = Absent { index, node: Some(node), state: self.membership().state(node) };
                absent::lost(&doing, &[giver])
            }
            (_, Errno::FAULT) => self.impossible(index),
            _ => {
                let what = format!("{doing}: what index {index} gives in its program's memory cannot be read: {errno}");
                Error::new(ErrorKind::System, what).with_peer(node).with_remedy("set DECK_ATTACH=never")
            }
        }
    }
}
