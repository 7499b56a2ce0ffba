//! One member's side of a group: it says what it contributes, arrives, waits, and reads what the others said.

mod attached;
mod contribution;
mod direct;
mod flowing;
mod missing;
mod once;
mod reading;
mod running_ahead;
mod times;
mod whereabouts;

use std::cell::Cell;
use std::sync::Arc;

use deck_mudeck::{Error, Node, NodeId, Result};
use deck_peers::{Membership, Notice, Presence, Subject};
use deck_segment::{Buffer, Region, Segment};
use deck_sync::atomic::{AtomicU64, Ordering};
use deck_sync::{About, Deadline, Goal, Meeting, Shelf, Spread, Waiting, Whereabouts, fork, now_ns, point};

use super::absent;
use super::board::{Board, INLINE, Said};
use super::call::{Call, Kind};
use super::join::{self, Joined};
use super::lending::Lending;
use super::parties::Parties;
use super::protocols::ahead::{self, Ahead, Awaited};
use super::protocols::flow::Flow;
use super::protocols::teams::Teams;
use super::reductions::neighbours;
use super::retired;
use super::room::Room;

use attached::Attaching;
use flowing::Flowing;
use running_ahead::Comparison;

pub use attached::LOOK;
pub use contribution::Contribution;
pub use direct::Direct;

/// Looks before a wait begins: a few hundred nanoseconds, in which an answer comes from a member that is on another
/// core.
const BRIEF_LOOKS: u32 = 100;
/// Waits that begin at once after brief looks that were in vain: with more members than cores most are.
const WITHOUT_LOOK: u32 = 31;

/// The place of what a member could not give: no segment is so long.
const MISSING: u64 = u64::MAX >> 1;

/// Waits between two looks at where the members are.
const WAITS_PER_LOOK_AROUND: u32 = 64;

/// Members of more nodes than these meet only when a call needs their memory: all pairs of 256 nodes take seconds where
/// cores are few, and many groups do nothing but barriers and sums.
const MEET_AT_ONCE: usize = 16;

/// A member of a group that was formed.
pub struct Member {
    node: Node,
    pub name: String,
    board: Board,
    /// The memory of the board, if it was made here.
    region: Option<Region>,
    pub index: u32,
    pub nodes: Vec<NodeId>,
    /// The segments of the members' nodes that this one has met: of the first ones, until it has met all.
    segments: Vec<Arc<Segment>>,
    attaching: Attaching,
    /// Trials of ways of which it has told the others.
    trials: u64,
    parties: Parties,
    /// The members by nodes, if those of each stand together.
    teams: Option<Arc<Teams>>,
    /// Where the threads of this node lay out arrays for one another, if several are members, or each node is a team.
    shelf: Option<Arc<Shelf>>,
    /// The last phase at which this member arrived.
    phase: u64,
    /// The calls that it said, with their lengths, in its last phases: where it has said them, others have read them
    /// since.
    said: Vec<(u64, u64)>,
    /// How far the looks at what is awaited have come.
    looked: AtomicU64,
    /// By how many phases members may be ahead of others, and if they may: what the present wait is for.
    ahead: Ahead,
    awaited: Awaited,
    comparison: Comparison,
    flowing: Flowing,
    /// So many waits will do without a brief look: the last one was in vain.
    without_look: u32,
    spread: Spread,
    /// There were more threads than cores when it was last looked.
    shares_cores: bool,
    /// Somebody has left whom no phase needed until now.
    has_lost: bool,
    /// Where what this member contributes lies, if it does not fit into a line.
    room: Room,
    /// Where two lend one another memory; nobody is ahead of others there.
    lending: Option<Lending>,
    /// Messages in which others may still read though this member has left the call.
    kept: Vec<Buffer>,
    /// Members that had left, and nodes that had come or gone, at the last look.
    seen: (u64, u64),
    /// Why the group can do nothing more.
    broken: Option<Error>,
    has_left: bool,
    /// Whether a thread is in a call of this member's.
    presence: Arc<Presence>,
    /// Tells those who look on which thread is the member: the one that called last, as a group may pass from thread to
    /// thread.
    notice: Notice,
}

impl Member {
    pub fn new(node: Node, name: String, ahead: Ahead, joined: Joined) -> Member {
        let Joined { board, index, nodes, region } = joined;
        // A party's count is of one phase, in which all of it are.
        let parties = if ahead.is_none() { Parties::of(&nodes, index) } else { Parties::none(index) };
        let teams = Teams::of(&nodes, index).map(Arc::new);
        let here = nodes.iter().filter(|of| **of == nodes[index as usize]).count();
        let shelf = (here > 1 || teams.is_some()).then(|| neighbours::shelf(node.membership(), &board));
        let facts = board.facts(nodes.len() as u32, 0, index);
        let notice = Notice::new(node.membership().notices(), Subject::Member, &name, facts);
        let lending = (nodes.len() == 2).then(|| Lending::new(index));
        let presence = node.membership().presence();
        let mut member = Member {
            node,
            name,
            board,
            region,
            index,
            nodes,
            segments: Vec::new(),
            attaching: Attaching::default(),
            trials: 0,
            parties,
            teams,
            shelf,
            phase: 0,
            said: vec![(0, 0); ahead.lines()],
            looked: AtomicU64::new(0),
            ahead,
            awaited: Awaited::all(0),
            comparison: Comparison::default(),
            flowing: Flowing::default(),
            without_look: 0,
            spread: Spread::new(WAITS_PER_LOOK_AROUND),
            shares_cores: false,
            has_lost: false,
            room: Room::default(),
            lending,
            kept: Vec::new(),
            seen: (0, 0),
            broken: None,
            has_left: false,
            presence,
            notice,
        };
        // Whoever left or died since the group was formed is found by the first look.
        member.seen = (0, member.membership().table().changes().wrapping_sub(1));
        member
    }

    /// Meets the nodes of all members, which joining and the first calls do, or the first one that needs it; from then
    /// on what they give can be read. Blocks until the deadline.
    ///
    /// # Errors
    /// `Timeout` and `Cancelled`: the next one goes on where it was. `PeerLost` and `Closed` naming a member's node,
    /// `NoMemory`.
    #[cold]
    pub fn meet(&mut self, deadline: Deadline) -> Result<()> {
        while !self.has_met() {
            let index = self.segments.len();
            let node = self.nodes[index];
            let segment = match self.nodes[..index].iter().position(|other| *other == node) {
                Some(same) => self.segments[same].clone(),
                None => join::segment_of(self.membership(), node, deadline).map_err(|error| {
                    absent::for_good(error).context(format!("group {:?}: index {index}", self.name))
                })?,
            };
            self.segments.push(segment);
            if self.has_met() {
                self.tell_what_it_reads();
                self.tell_met();
                self.attaching.met_in = self.phase;
            }
        }
        Ok(())
    }

    /// It meets them before the first call, whatever that needs.
    pub fn meets_at_once(&self) -> bool {
        let nodes = self.parties.firsts.as_ref().map_or(self.nodes.len(), Vec::len);
        self.may_be_ahead() || nodes <= MEET_AT_ONCE
    }

    /// It has to meet them before it goes on with `call`.
    #[inline]
    pub fn has_to_meet_for(&self, call: &Call) -> bool {
        !self.has_met() && (self.meets_at_once() || !call.fits_lines(self.nodes.len()))
    }

    /// It has met the nodes of all members.
    #[inline]
    fn has_met(&self) -> bool {
        self.segments.len() == self.nodes.len()
    }

    pub fn size(&self) -> u32 {
        self.nodes.len() as u32
    }

    fn membership(&self) -> &Arc<Membership> {
        self.node.membership()
    }

    /// The last phase at which this member arrived.
    pub fn phase(&self) -> u64 {
        self.phase
    }

    /// The members by nodes, if those of each stand together.
    pub fn teams(&self) -> Option<&Arc<Teams>> {
        self.teams.as_ref()
    }

    /// Where the threads of this node lay out arrays for one another.
    pub fn shelf(&self) -> Option<&Arc<Shelf>> {
        self.shelf.as_ref()
    }

    fn meeting<'a>(&'a self) -> Meeting<'a, impl Fn(usize, u64) -> &'a AtomicU64> {
        let Parties { firsts, own, members } = &self.parties;
        Meeting {
            flag: move |party: usize, phase: u64| match firsts {
                None => self.board.told(party as u32, phase),
                Some(firsts) => self.board.flag(firsts[party]),
            },
            parties: firsts.as_ref().map_or(self.nodes.len(), Vec::len),
            own: *own,
            counter: firsts.as_ref().map(|firsts| (self.board.counter(firsts[*own]), *members)),
            changed: self.board.changed(),
        }
    }

    /// "barrier of group "x"".
    pub fn doing(&self, kind: Kind) -> String {
        format!("{} of group {:?}", kind.name(), self.name)
    }

    /// Fails when nothing can be done in this group any more.
    pub fn check(&self) -> Result<()> {
        self.node.check()?;
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// A call begins, or goes on: until [`Member::step_out`] its node does not leave. The board may be another group's
    /// after that.
    ///
    /// # Errors
    /// As [`Member::check`]; then no call has begun.
    #[inline]
    pub fn enter(&self) -> Result<()> {
        if fork::is_child() || !self.membership().enter(&self.presence) {
            // Which fails.
            return self.node.check();
        }
        self.broken.clone().map_or(Ok(()), |error| {
            self.step_out();
            Err(error)
        })
    }

    /// This member's node waits for its call to end, whatever there is to do.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.membership().has_left()
    }

    /// The calling thread is in no call any more.
    #[inline]
    pub fn step_out(&self) {
        self.membership().step_out(&self.presence);
    }

    /// Says something with at most [`INLINE`] bytes of content and arrives at the next phase.
    pub fn arrive_short(&mut self, call: u64, length: u64, content: &[u8]) {
        debug_assert!(content.len() <= INLINE);
        self.arrive(&Said { call, length, place: 0 }, content);
    }

    /// Says something whose content lies in `contribution`, and arrives at the next phase.
    pub fn arrive_long(&mut self, call: u64, length: u64, contribution: &Contribution) {
        self.arrive(&Said { call, length, place: contribution.told }, &[]);
    }

    fn arrive(&mut self, said: &Said, content: &[u8]) {
        self.phase += 1;
        self.notice.be_of_this_thread();
        self.begin_wait();
        self.say(said, content);
        point("group/said");
        if !self.ahead.is_none() {
            self.awaited = Awaited::all(self.phase);
            ahead::tell(self.board.told(self.index, self.phase), self.phase, self.board.changed());
            point("group/arrived");
            return;
        }
        if self.parties.firsts.is_some() {
            // For whoever asks later why a phase does not come to its end. The party's count publishes it.
            self.board.told(self.index, self.phase).store(self.phase, Ordering::Relaxed);
        }
        self.meeting().arrive(self.phase);
        point("group/arrived");
    }

    /// Says something in the present phase.
    #[inline]
    fn say(&mut self, said: &Said, content: &[u8]) {
        self.said[self.ahead.line(self.phase)] = (said.call, said.length);
        self.board.say(self.index, self.phase, said, content);
    }

    /// What the present wait is for, unless pieces flow.
    fn awaited(&self) -> Awaited {
        if self.ahead.is_none() { Awaited::all(self.phase) } else { self.awaited }
    }

    /// Another wait begins.
    #[inline]
    fn begin_wait(&mut self) {
        self.looked.store(0, Ordering::Relaxed);
        self.flowing.early.clear();
        self.look_again_for_the_lost();
    }

    /// True once all have arrived where this member has; or, after [`Member::await_sources`], those from whom it takes.
    #[inline]
    pub fn is_complete(&self) -> bool {
        if !self.ahead.is_none() {
            return self.have_come();
        }
        // Relaxed: this member's thread alone.
        let mut looked = self.looked.load(Ordering::Relaxed) as usize;
        let is_complete = self.meeting().is_complete(self.phase, &mut looked);
        self.looked.store(looked as u64, Ordering::Relaxed);
        is_complete
    }

    /// What the present wait is for is there.
    #[inline]
    fn can_go_on(&self) -> bool {
        match &self.flowing.now {
            None => self.is_complete() || self.flowing.early.iter().any(|early| self.has_come_early(*early)),
            Some(flow) => flow.is_ready(self.index, |index| self.board.counts(index)),
        }
    }

    /// Waits until this member can go on: looks first for as long as an answer is on its way that comes at once,
    /// without the clock and all else that a wait begins with. Blocks until the deadline.
    ///
    /// # Errors
    /// As [`Member::wait`].
    #[inline]
    pub fn await_briefly(&mut self, kind: Kind, deadline_from_now: impl FnOnce() -> Deadline) -> Result<()> {
        if self.without_look > 0 {
            self.without_look -= 1;
        } else if (0..BRIEF_LOOKS).any(|_| self.can_go_on()) {
            return Ok(());
        } else {
            self.without_look = WITHOUT_LOOK;
        }
        self.wait(kind, deadline_from_now())
    }

    /// Looks for a moment whether all are there, who may be on their way.
    pub fn is_soon_complete(&self) -> bool {
        let looks = if self.shares_cores { 1 } else { BRIEF_LOOKS };
        (0..looks).any(|_| self.is_complete())
    }

    /// The content of a message of this node stays as it is, whatever becomes of the message, until the call has come
    /// to its end or the group to its.
    #[cold]
    pub fn keep(&mut self, content: &[u8]) {
        self.kept.extend(self.membership().heap().share_of_at_any_cost(content));
    }

    /// A call has come to its end: nobody reads any more what was kept for it.
    #[inline]
    pub fn let_go(&mut self) {
        self.kept.clear();
    }

    /// Arrives at the next phase without what this member was to give: whoever reads that is told so.
    pub fn arrive_without(&mut self, call: u64, length: u64) {
        self.arrive(&Said { call, length, place: MISSING }, &[]);
    }

    /// What this member told of in the present phase is not there any more, as it cannot give it: what it tells next
    /// publishes that.
    pub fn go_without(&self) {
        self.board.place_said(self.index, self.phase).store(MISSING, Ordering::Relaxed);
    }

    /// Says something whose content lies at byte `offset` of this node's segment, and arrives at the next phase.
    pub fn arrive_at(&mut self, call: u64, length: u64, offset: usize) {
        self.arrive(&Said { call, length, place: offset as u64 }, &[]);
    }

    /// Waits until all have arrived where this member has. Blocks until the deadline.
    ///
    /// # Errors
    /// `Timeout` and `Cancelled` naming who is absent; `PeerLost` and `Closed` naming who will never come.
    pub fn wait(&mut self, kind: Kind, deadline: Deadline) -> Result<()> {
        if self.spread.is_due() {
            self.look_at_the_crowd(deadline);
        }
        let since_ns = Cell::new(0);
        loop {
            let membership = self.node.membership();
            let mut arriving = Arriving { member: self, kind, since_ns: &since_ns };
            let events = [self.board.changed(), membership.table().changed()];
            match deck_sync::wait(&mut arriving, &events, membership.crowd(), deadline) {
                Ok(true) => return Ok(()),
                Ok(false) => self.look_around(kind)?,
                Err(interrupted) => {
                    return Err(absent::missing(interrupted, &self.doing(kind), &self.absent()));
                }
            }
        }
    }

    /// Leaves the group; once. Never waits for other members.
    pub fn leave(&mut self) {
        if std::mem::replace(&mut self.has_left, true) || fork::is_child() {
            return;
        }
        let membership = self.node.membership().clone();
        retired::keep(&membership, &self.board, self.room.leave(), std::mem::take(&mut self.kept));
        join::leave(&membership, &self.name, &self.board, self.index);
        retired::keep_region(&membership, self.region.take());
        retired::sweep();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Waits for the present phase; false when somebody has come or gone.
struct Arriving<'a> {
    member: &'a Member,
    kind: Kind,
    /// When it first went to sleep: others that come and go do not make it a new wait. 0 before, as the clock costs
    /// time.
    since_ns: &'a Cell<u64>,
}

impl Waiting for Arriving<'_> {
    type Output = bool;

    #[inline]
    fn look(&mut self) -> Option<bool> {
        // First: its node waits for it, be there ever so much to do.
        if self.member.is_leaving() {
            return Some(false);
        }
        if self.member.can_go_on() {
            return Some(true);
        }
        let Member { board, seen, node, .. } = self.member;
        ((board.departed(), node.membership().table().changes()) != *seen).then_some(false)
    }

    fn whereabouts(&self) -> Whereabouts {
        self.member.whereabouts()
    }

    fn about(&self) -> Option<About<'_>> {
        let Arriving { member, kind, since_ns } = self;
        if since_ns.get() == 0 {
            since_ns.set(now_ns());
        }
        let (Member { name, board, nodes, index, flowing, .. }, awaited) = (member, member.awaited());
        let facts = board.facts(nodes.len() as u32, awaited.phase, *index);
        let how = flowing.now.as_ref().map_or_else(|| awaited.facts(), Flow::facts);
        let about = About { since_ns: since_ns.get(), ..About::new(Goal::Collective, name) };
        Some(about.with(facts.into_iter().chain([*kind as u64]).chain(how)))
    }
}
