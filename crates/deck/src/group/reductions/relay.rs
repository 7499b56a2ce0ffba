//! Long reductions of groups whose members are threads of few nodes: folded by one team after the other, with no copy
//! of what is given.
//!
//! A *team* is the members of one node (`teams`), who read one another's arrays where they lie (`neighbours`). The
//! first team folds what its own members give to a piece, each member a share of it; the next one goes on from there
//! with what its own give, and what the last one has is the result. So what members give is read once and copied by
//! nobody, one partial result per team goes from node to node, and the order of folding is that of the indexes.
//!
//! After the meeting with which a call begins pieces flow (`flow`): a member makes its shares of one piece after the
//! other, as far as those whose shares it goes on with have come, and who wants the result collects it where it is
//! there. A member ends the call when the others of its team are through with its array.

mod making;

use std::ops::Range;
use std::sync::Arc;

use deck_mudeck::Result;
use deck_sync::atomic::{AtomicU64, Ordering};
use deck_sync::{Shelf, point};

use super::super::call::{Call, Kind};
use super::super::choose::{Layout, relay_slot, relay_slots};
use super::super::difference::IN_PLACE;
use super::super::member::{Contribution, Member};
use super::super::progress::{Lies, Progress, Step, share_of};
use super::super::protocols::flow::Flow;
use super::super::protocols::teams::Teams;

/// How far a reduction is.
pub struct Relay {
    teams: Arc<Teams>,
    shelf: Arc<Shelf>,
    piece: usize,
    pieces: usize,
    /// Bytes of a slot in the windows of each team, and how many there are in all windows.
    slot: Vec<usize>,
    slots: u64,
    window: Option<Contribution>,
    /// All have come, and to the same call.
    has_met: bool,
    flow: Option<Flow>,
}

impl Relay {
    /// Of a reduction of `bytes` in pieces of `piece`.
    pub fn new(kind: Kind, teams: Arc<Teams>, shelf: Arc<Shelf>, bytes: usize, piece: usize) -> Relay {
        let slot: Vec<usize> = teams.sizes().map(|team| relay_slot(kind, piece, team)).collect();
        let slots = relay_slots(teams.sizes().sum(), slot.iter().copied().max().unwrap_or(piece));
        let pieces = bytes.div_ceil(piece);
        Relay { teams, shelf, piece, pieces, slot, slots, window: None, has_met: false, flow: None }
    }

    /// The others may have seen something of it.
    pub fn has_begun(&self) -> bool {
        self.has_met
    }

    /// Where piece `piece` lies in an array of `bytes`. What is counted others can write, too: it is inside in any
    /// case.
    fn range(&self, piece: usize, bytes: usize) -> Range<usize> {
        let from = piece.saturating_mul(self.piece).min(bytes);
        from..from.saturating_add(self.piece).min(bytes)
    }

    /// Where the piece of this number lies in the windows of a team.
    fn slot(&self, number: u64, team: usize) -> usize {
        (number % self.slots) as usize * self.slot[team]
    }

    /// How this member's window lies.
    fn layout(&self) -> Layout {
        Layout { slot: self.slot[self.teams.own()], slots: self.slots }
    }
}

/// The share of a piece of `bytes` that member `index` of a `team` makes.
fn share_in(team: &Range<u32>, index: u32, bytes: usize) -> Range<usize> {
    share_of(index - team.start, bytes, team.len() as u32)
}

impl Progress {
    /// Goes on with a reduction by teams as far as is possible without waiting. What all give may lie in library
    /// memory, as is known after the first meeting: then there is no more of this.
    ///
    /// # Errors
    /// As [`Progress::advance`].
    pub(in super::super) fn relay(&mut self, member: &mut Member, input: &[u8], output: &mut [u8]) -> Result<Step> {
        let Some(mut relay) = self.relay.take() else { return Ok(Step::Done) };
        let result = self.relay_on(&mut relay, member, input, output);
        if !matches!(result, Ok(Step::Done)) {
            self.relay = Some(relay);
        }
        result
    }

    fn relay_on(&mut self, relay: &mut Relay, member: &mut Member, input: &[u8], output: &mut [u8]) -> Result<Step> {
        let flow = loop {
            if let Some(flow) = relay.flow.clone() {
                break flow;
            }
            if !self.has_given {
                self.come_to_relay(relay, member, input, output)?;
                self.has_given = true;
            }
            if !member.is_complete() {
                return Ok(Step::Waiting);
            }
            self.has_given = false;
            if relay.has_met {
                member.settle();
            } else if self.compare(member)? {
                self.fold_in_place();
                return Ok(Step::Done);
            }
            // Who has told where its array lies is yet to tell where its window does.
            let is_told = |index| member.heard(index, member.phase()).length & IN_PLACE == 0;
            if relay.has_met || (0..member.size()).all(is_told) {
                let flow = self.relay_flow(relay, member);
                relay.flow = Some(flow.clone());
                // What flows next lies otherwise.
                member.begin_flow(flow, Layout::default());
            }
            relay.has_met = true;
        };
        self.pass_on(relay, &flow, member, output)
    }

    /// Comes to the meeting with which the call begins, or to a second one where some have not told of their windows.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    fn come_to_relay(&mut self, relay: &mut Relay, member: &mut Member, input: &[u8], output: &[u8]) -> Result<()> {
        let (word, length) = (self.call.word(), self.length(member) | self.shows_output(member, output));
        if !relay.has_met
            && let Some(place) = self.in_library(member, input)
        {
            self.arrive_in_place(Lies::InLibrary(place), member, length, input);
            return Ok(());
        }
        let window = match relay.window.take() {
            Some(window) => window,
            None => member.window(relay.layout())?,
        };
        let flow = self.relay_flow(relay, member);
        member.give(&flow, flow.begin);
        member.arrive_long(word, length, &window);
        relay.window = Some(window);
        Ok(())
    }

    fn relay_flow(&self, relay: &Relay, member: &Member) -> Flow {
        let course = Call::course(self.call.kind, self.call.root);
        member.next_flow_by(&relay.teams, course, relay.pieces as u64, relay.layout())
    }

    /// Makes shares and collects results, as far as is possible without waiting.
    fn pass_on(&mut self, relay: &Relay, flow: &Flow, member: &mut Member, output: &mut [u8]) -> Result<Step> {
        loop {
            // Relaxed: this member's own words.
            let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
            if member.can_give(flow) {
                let given = number(member.counts().given);
                self.make_share(relay, flow, given, member, output);
                point("group/made");
                member.give(flow, given + 1);
                if given + 1 == flow.end && !flow.course.is_taker(member.index) {
                    member.take(flow, flow.end);
                }
            } else if member.can_take(flow) {
                let taken = number(member.counts().taken);
                if self.failure.is_none() {
                    self.failure = self.collect_made(relay, flow, taken, member, output).err();
                }
                point("group/taken");
                member.take(flow, taken + 1);
            } else if member.has_ended(flow) {
                member.end_flow(flow);
                return Ok(Step::Done);
            } else {
                return Ok(Step::Waiting);
            }
        }
    }

    /// Makes this member's share of the piece of this number. Where it cannot, the others go on without this part of
    /// the result, and are told so when they read it.
    fn make_share(&mut self, relay: &Relay, flow: &Flow, number: u64, member: &Member, output: &mut [u8]) {
        let piece = number.wrapping_sub(flow.begin) as usize;
        let Some(share) = self.share_to_make(relay, number, piece, member) else { return };
        if self.failure.is_none() {
            self.failure = self.make(relay, &share, member, output).err();
        }
        if self.failure.is_some() {
            member.go_without();
        }
    }

    /// Collects this member's part of what the last team has made of the piece of this number, or in a scan its own
    /// team.
    fn collect_made(&self, relay: &Relay, flow: &Flow, number: u64, member: &Member, output: &mut [u8]) -> Result<()> {
        let team = flow.sources(member.index);
        let begin = relay.slot(number, relay.teams.of_member(team.start));
        let output = &mut output[relay.range(number.wrapping_sub(flow.begin) as usize, self.block())];
        let way = member.taking(&self.call, self.taking, output.len());
        self.collect((team, begin), true, way, member, output)
    }
}
