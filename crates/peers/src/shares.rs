//! Passing shared segments from node to node.
//!
//! Who wants a segment asks a node that has it: its home, or whoever has it open. The control thread answers at once,
//! with the memory's descriptor. Who creates a segment asks its home to make it ([`making`]), so that the memory comes
//! from there. A home keeps what it made for others only as long as anybody has it open.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use deck_segment::{HugePages, Segment};
use deck_sync::atomic::{AtomicU64, Ordering};
use deck_sync::locks::lock;
use deck_sync::{About, Deadline, Error, ErrorKind, Event, Goal, Interrupted, NodeId, Result, cancellation, point};

use crate::membership::{Membership, Until, left};
use crate::names::objects::Object;
use crate::peer::Peer;
use crate::wire::{Frame, Refusal};

mod making;

use making::Making;

/// Segments that may wait to be passed to somebody who does not read: each holds a descriptor.
const PASSING_MAX: usize = 16;
/// How long what was passed too late is kept for the next one who asks for it.
const LEFT_FOR: Duration = Duration::from_secs(30);

/// One life of a segment: the number of its name in the job, and a count of the lives of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SegmentLife {
    /// Number of the name.
    pub object: u32,
    /// Which life, below [`SegmentLife::GENERATIONS`].
    pub generation: u32,
}

impl SegmentLife {
    /// The count of lives begins again after so many.
    pub const GENERATIONS: u32 = 1 << 30;

    /// True for an earlier life of the same name.
    fn is_before(self, other: SegmentLife) -> bool {
        let later_by = other.generation.wrapping_sub(self.generation) % SegmentLife::GENERATIONS;
        self.object == other.object && later_by != 0 && later_by < SegmentLife::GENERATIONS / 2
    }
}

/// What a node answers who is asked for a segment.
#[derive(Debug)]
pub enum Answered {
    /// Here it is.
    Segment(Arc<Segment>),
    /// It is not here.
    Absent,
    /// It may be here soon: that node is being passed it.
    Coming,
}

/// The segment's descriptor, which is missing if this process had none for it; or why there is none.
type Answer = std::result::Result<Option<OwnedFd>, Refusal>;

/// What this node can pass on.
struct Kept {
    segment: Weak<Segment>,
    /// Held for others, as their home.
    as_home: Option<Arc<Segment>>,
    object: Object,
}

/// What was asked of a node.
struct Question {
    peer: NodeId,
    /// What is to be passed; `None` if it is to be made.
    passed: Option<(SegmentLife, Object)>,
    answer: Option<Answer>,
    answered: Arc<Event>,
    /// Nobody waits for the answer any more; whoever asks for the same until then does.
    left_until: Option<Deadline>,
}

impl Question {
    fn is_left(&self, is_it: impl FnOnce(SegmentLife, &Object) -> bool) -> bool {
        self.left_until.is_some() && self.passed.as_ref().is_some_and(|(life, object)| is_it(*life, object))
    }
}

/// The shared segments of a node.
#[derive(Default)]
pub(crate) struct Shares {
    kept: Mutex<HashMap<SegmentLife, Kept>>,
    questions: Mutex<HashMap<u64, Question>>,
    next: AtomicU64,
    making: Making,
    huge_pages: HugePages,
}

impl Shares {
    /// None yet; whether those that are made here consist of huge pages.
    pub fn new(huge_pages: HugePages) -> Shares {
        Shares { huge_pages, ..Shares::default() }
    }

    /// Makes the memory of a segment, all of it really allocated, as long as it `goes_on`.
    fn make(&self, bytes: u64, goes_on: impl Fn() -> Result<()>) -> Result<Arc<Segment>> {
        if bytes == 0 {
            return Err(Error::new(ErrorKind::Invalid, "a segment of 0 bytes").with_remedy("give it a size"));
        }
        let segment = Segment::create("deck-shared", usize::try_from(bytes).unwrap_or(usize::MAX))?;
        segment.use_huge_pages(self.huge_pages, 0);
        segment.allocate_while(0, segment.bytes(), goes_on)?;
        Ok(segment)
    }

    fn find(&self, life: SegmentLife) -> Option<Arc<Segment>> {
        lock(&self.kept).get(&life).and_then(|kept| kept.segment.upgrade())
    }

    /// Notes a mapping of a life, and gives the one that counts: the first that is still in use.
    fn keep(&self, life: SegmentLife, object: &Object, segment: Arc<Segment>, is_home: bool) -> Arc<Segment> {
        let mut kept = lock(&self.kept);
        // Whoever began this life found that nobody held an earlier one.
        kept.iter_mut().filter(|(other, _)| other.is_before(life)).for_each(|(_, earlier)| earlier.as_home = None);
        kept.retain(|_, kept| kept.segment.strong_count() > 0);
        // Made so late that the name has been given up and begun again meanwhile: nobody wants it.
        let is_over = kept.keys().any(|other| life.is_before(*other));
        let place =
            kept.entry(life).or_insert_with(|| Kept { segment: Weak::new(), as_home: None, object: object.clone() });
        let segment = place.segment.upgrade().unwrap_or(segment);
        place.segment = Arc::downgrade(&segment);
        if is_home && !is_over {
            place.as_home = Some(segment.clone());
        }
        segment
    }

    /// Lets go of what this node made for others in a life that is over, whoever holds the name by now.
    fn end(&self, life: SegmentLife) {
        if let Some(kept) = lock(&self.kept).get_mut(&life) {
            kept.as_home = None;
        }
        self.sweep();
    }

    /// A question to `peer`, its number, and whether it is a new one. Who tries without waiting would never have what
    /// others were asked for, if each try had to ask anew.
    fn question(&self, peer: NodeId, passed: Option<(SegmentLife, Object)>) -> (u64, Arc<Event>, bool) {
        let mut questions = lock(&self.questions);
        if let Some((wanted, _)) = &passed {
            // Another life of the name is over.
            questions.retain(|_, question| {
                !question.is_left(|life, _| life.object == wanted.object && life.generation != wanted.generation)
            });
            let is_same = |question: &Question| question.peer == peer && question.is_left(|life, _| life == *wanted);
            if let Some((request, question)) = questions.iter_mut().find(|(_, question)| is_same(question)) {
                question.left_until = None;
                return (*request, question.answered.clone(), false);
            }
        }
        let answered = Arc::new(Event::new());
        let question = Question { peer, passed, answer: None, answered: answered.clone(), left_until: None };
        let request = self.next.fetch_add(1, Ordering::Relaxed);
        questions.insert(request, question);
        (request, answered, true)
    }

    fn is_answered(&self, request: u64) -> bool {
        lock(&self.questions).get(&request).is_some_and(|question| question.answer.is_some())
    }

    /// Whoever asked waits no more: the answer, if there is one. What may still be passed is left, if the wait
    /// `is_early` over, for the next one who asks for it.
    fn stop_waiting(&self, request: u64, is_early: impl FnOnce() -> bool) -> Option<Answer> {
        let mut questions = lock(&self.questions);
        let question = questions.get_mut(&request)?;
        if question.answer.is_none() && question.passed.is_some() && is_early() {
            question.left_until = Some(Deadline::after(LEFT_FOR));
            return None;
        }
        questions.remove(&request)?.answer
    }

    /// The answer to a question of `peer`; true if it is wanted. Of what is left, one that helps is kept for each life.
    fn answered(&self, peer: NodeId, request: u64, answer: Answer) -> bool {
        let mut questions = lock(&self.questions);
        let Some(question) = questions.get(&request).filter(|question| question.peer == peer) else { return false };
        if question.left_until.is_some() {
            let life = question.passed.as_ref().map(|(life, _)| *life);
            let is_there =
                questions.values().any(|other| other.answer.is_some() && other.is_left(|of, _| Some(of) == life));
            if is_there || !matches!(answer, Ok(Some(_))) {
                questions.remove(&request);
                return false;
            }
        }
        let Some(question) = questions.get_mut(&request) else { return false };
        question.answer.get_or_insert(answer);
        question.answered.notify();
        true
    }

    /// Lets go of what nobody has asked for again; returns when it is time again. Control thread: what comes late comes
    /// through it.
    pub fn forget_what_is_left(&self) -> Option<Duration> {
        let mut questions = lock(&self.questions);
        questions.retain(|_, question| question.left_until.is_none_or(|until| !until.has_passed()));
        questions.values().filter_map(|question| question.left_until?.remaining()).min()
    }

    /// This node leaves.
    pub fn forget_questions(&self) {
        lock(&self.questions).clear();
    }

    /// Lets go of what this node made for others and nobody has open any more, and of what it was passed too late.
    pub fn sweep(&self) {
        lock(&self.questions).retain(|_, question| !question.is_left(|_, object| object.holding().is_empty()));
        lock(&self.kept).retain(|_, kept| {
            if kept.as_home.is_some() && kept.object.holding().is_empty() {
                kept.as_home = None;
            }
            kept.segment.strong_count() > 0
        });
    }

    /// Everybody who waits for an answer looks again whether the one who is asked is still there.
    pub fn wake_those_who_asked(&self, peer: NodeId) {
        let mut questions = lock(&self.questions);
        questions.retain(|_, question| question.peer != peer || question.left_until.is_none());
        questions.values().filter(|question| question.peer == peer).for_each(|question| question.answered.notify());
    }
}

impl Membership {
    /// The segment of this life, if this node has it.
    pub fn segment_here(&self, life: SegmentLife) -> Option<Arc<Segment>> {
        self.shares.find(life)
    }

    /// From now on this node passes the segment on to those who ask, as long as it is mapped here. If another thread of
    /// it has come first, that one's mapping is given in place of `segment`: there is one in a node.
    #[must_use]
    pub fn offer_segment(&self, life: SegmentLife, object: &Object, segment: Arc<Segment>) -> Arc<Segment> {
        let segment = self.shares.keep(life, object, segment, false);
        // What others were asked for as well is not wanted any more.
        lock(&self.shares.questions).retain(|_, question| !question.is_left(|of, _| of == life));
        segment
    }

    /// Has `home` make the segment `name` of `bytes` zeroed bytes, and maps it. Blocks until the deadline.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`] here or, naming it, at the home; [`ErrorKind::PeerLost`] or, if it has left,
    /// [`ErrorKind::Closed`], naming the home; [`ErrorKind::Timeout`], [`ErrorKind::Cancelled`].
    pub fn make_segment(
        self: &Arc<Self>,
        home: NodeId,
        life: SegmentLife,
        object: &Object,
        name: &str,
        bytes: u64,
        deadline: Deadline,
    ) -> Result<Arc<Segment>> {
        if home == self.number {
            let made = self.shares.make(bytes, || self.goes_on("allocating its memory", deadline))?;
            return Ok(self.shares.keep(life, object, made, false));
        }
        let elsewhere = |error: Error| match error.kind() {
            ErrorKind::Closed => error.with_remedy("choose another home"),
            _ => error,
        };
        let peer = self.meet(home, deadline).map_err(elsewhere)?;
        let (entry, generation) = (u64::from(life.object), u64::from(life.generation));
        let frame = |request| Frame::SegmentMake { request, entry, generation, bytes };
        let asked = self.ask(&peer, frame, None, name, "waiting for the home of a segment to make it", deadline);
        match asked.map_err(elsewhere)? {
            Ok(fd) => Segment::adopt(fd).map_err(|error| error.with_peer(home)),
            Err(Refusal::NoMemory) => Err(Error::new(
                ErrorKind::NoMemory,
                format!("the home of the segment does not get {} MiB of shared memory", bytes.div_ceil(1 << 20)),
            )
            .with_peer(home)
            .with_remedy("free memory there, choose another home, or make the segment smaller")),
            Err(Refusal::Descriptors) => {
                Err(Error::new(ErrorKind::NoMemory, "the home of the segment has no descriptors left")
                    .with_peer(home)
                    .with_remedy("raise its limit (ulimit -n), let it close files, or choose another home"))
            }
            Err(Refusal::Contended) => Err(Error::new(
                ErrorKind::NoMemory,
                "the home of the segment has thousands to make for this node already",
            )
            .with_peer(home)
            .with_remedy("wait until it has made them, or choose another home")),
            // It makes nothing any more for a node that it counts as gone: because it is leaving itself.
            Err(Refusal::Closed) => Err(elsewhere(
                Error::new(ErrorKind::Closed, "the home of the segment is leaving the job").with_peer(home),
            )),
            Err(other) => {
                Err(Error::new(ErrorKind::Corrupt, format!("the home of the segment refused ({other:?})"))
                    .with_peer(home))
            }
        }
    }

    /// Fails, in the middle of long work, if the deadline has passed, somebody has cancelled it, or this node has left.
    fn goes_on(&self, doing: &str, deadline: Deadline) -> Result<()> {
        if cancellation::has_come() {
            return Err(Error::new(ErrorKind::Cancelled, doing));
        }
        if self.has_left() {
            return Err(left());
        }
        let remedy = "set DECK_TIMEOUT to more, or make the segment smaller";
        let late = || Error::new(ErrorKind::Timeout, doing).with_remedy(remedy);
        if deadline.has_passed() { Err(late()) } else { Ok(()) }
    }

    /// Asks `holder` for the segment `name`. Blocks until the deadline.
    ///
    /// # Errors
    /// [`ErrorKind::PeerLost`] or [`ErrorKind::Closed`] if that node is gone, [`ErrorKind::Timeout`] saying if it is
    /// frozen, [`ErrorKind::Cancelled`], [`ErrorKind::Corrupt`], [`ErrorKind::NoMemory`] here.
    pub fn fetch_segment(
        self: &Arc<Self>,
        holder: NodeId,
        life: SegmentLife,
        name: &str,
        deadline: Deadline,
    ) -> Result<Answered> {
        let peer = self.meet(holder, deadline)?;
        let (entry, generation) = (u64::from(life.object), u64::from(life.generation));
        let frame = |request| Frame::SegmentOpen { request, entry, generation };
        let passed = self.objects.at(life.object).map(|object| (life, object));
        match self.ask(&peer, frame, passed, name, "waiting to be passed a segment", deadline)? {
            Ok(fd) => Segment::adopt(fd).map(Answered::Segment).map_err(|error| error.with_peer(holder)),
            Err(Refusal::Contended) => Ok(Answered::Coming),
            Err(_) => Ok(Answered::Absent),
        }
    }

    fn ask(
        &self,
        peer: &Arc<Peer>,
        frame: impl FnOnce(u64) -> Frame,
        passed: Option<(SegmentLife, Object)>,
        name: &str,
        doing: &str,
        deadline: Deadline,
    ) -> Result<std::result::Result<OwnedFd, Refusal>> {
        let makes = u64::from(passed.is_none());
        let (request, answered, is_new) = self.shares.question(peer.number(), passed);
        let sent = if is_new { self.question(peer, &frame(request)) } else { Ok(()) };
        point("segment/asked");
        let waited = sent.map(|()| {
            let _depending = self.depend(peer);
            let is_over = || {
                let is_over = self.shares.is_answered(request) || peer.gone().is_some() || self.has_left();
                is_over.then_some(())
            };
            let mut until = Until(is_over, About::new(Goal::Segment, name).on(peer.number()).with([makes]));
            deck_sync::wait(&mut until, &[&*answered, peer.changed()], self.crowd(), deadline)
        });
        let is_early = || matches!(waited, Ok(Err(_))) && peer.gone().is_none();
        // From here on a late answer is declined, or left.
        let answer = self.shares.stop_waiting(request, is_early);
        let waited = waited?;
        if answer.is_some() && matches!(waited, Err(Interrupted::Cancelled)) {
            cancellation::postpone();
        }
        match answer {
            Some(Ok(None)) => {
                Err(Error::new(ErrorKind::NoMemory, "this process has no descriptor left for the segment")
                    .with_remedy("raise its limit (ulimit -n), or let it close files"))
            }
            Some(Ok(Some(fd))) => Ok(Ok(fd)),
            Some(Err(refused)) => Ok(Err(refused)),
            None => match waited {
                Ok(()) => Err(self.gone_while(peer.number(), doing)),
                Err(interrupted) => Err(self.interrupted(interrupted, doing, peer)),
            },
        }
    }

    /// Nobody has this life of a segment open any more: tells the home that made it for others. Never blocks.
    pub fn release_segment(&self, home: NodeId, life: SegmentLife) {
        if home == self.number {
            return self.shares.end(life);
        }
        let peer = lock(&self.peers).get(&home).cloned();
        if let Some(peer) = peer.filter(|peer| peer.is_connected()) {
            let (entry, generation) = (u64::from(life.object), u64::from(life.generation));
            let _ = peer.send(&Frame::SegmentRelease { entry, generation });
            self.see_it_sent(&peer);
        }
    }

    /// A frame about segments has come from `peer`. Control thread.
    pub(crate) fn serve_segments(self: &Arc<Self>, peer: &Arc<Peer>, frame: Frame, passed: Option<OwnedFd>) {
        match frame {
            Frame::SegmentMake { request, entry, generation, bytes } => {
                self.segment_wanted(peer, request, entry, generation, bytes)
            }
            Frame::SegmentOpen { request, entry, generation } => {
                let life = life(entry, generation);
                let found = life.and_then(|life| self.shares.find(life));
                let is_found = found.is_some();
                let is_grant = |frame: &Frame| matches!(frame, Frame::SegmentGrant { .. });
                let found = found.filter(|_| peer.waiting(is_grant) < PASSING_MAX);
                let passed = found.map(|segment| peer.pass(&Frame::SegmentGrant { request }, segment.as_fd()));
                if !matches!(passed, Some(Ok(()))) {
                    // It is on its way here, or there is no descriptor for it to wait with: in a moment it may be had.
                    let is_coming = is_found || life.is_some_and(|life| self.opened.is_open(life.object));
                    let reason = if is_coming { Refusal::Contended } else { Refusal::Closed };
                    let _ = peer.send(&Frame::SegmentRefuse { request, reason: reason as u64 });
                }
            }
            Frame::SegmentMade { request, entry, generation } => {
                let has_come = passed.is_some();
                let is_wanted = self.shares.answered(peer.number(), request, Ok(passed));
                if !is_wanted || !has_come {
                    // Whoever asked has given up or has no descriptor for it, and it was made for nobody else.
                    let _ = peer.send(&Frame::SegmentRelease { entry, generation });
                }
            }
            Frame::SegmentGrant { request } => {
                self.shares.answered(peer.number(), request, Ok(passed));
            }
            Frame::SegmentRefuse { request, reason } => {
                self.shares.answered(peer.number(), request, Err(Refusal::from_word(reason)));
            }
            Frame::SegmentRelease { entry, generation } => {
                if let Some(life) = life(entry, generation) {
                    self.shares.end(life);
                }
            }
            _ => {}
        }
    }
}

fn life(entry: u64, generation: u64) -> Option<SegmentLife> {
    Some(SegmentLife { object: u32::try_from(entry).ok()?, generation: u32::try_from(generation).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::objects::{ObjectKind, Objects};
    use crate::table::Table;

    #[test]
    fn what_a_home_makes_too_late_is_neither_kept_nor_takes_the_place_of_what_came_after_it() {
        let table = Table::create("test", 1).unwrap();
        let (_, seat) = table.seat_node(1, false).unwrap();
        let object = Objects::new(&table).enter(ObjectKind::Segment, "s", seat, |_, _| true).unwrap();
        let shares = Shares::default();
        let life = |generation| SegmentLife { object: object.number(), generation };
        let make = |generation| {
            let segment = shares.make(4096, || Ok(())).unwrap();
            shares.keep(life(generation), &object, segment.clone(), true);
            Arc::downgrade(&segment)
        };
        // Next to the end of the count.
        let last = SegmentLife::GENERATIONS - 1;
        let (first, later) = (make(last - 1), make(0));
        assert!(first.upgrade().is_none() && later.upgrade().is_some());
        let late = make(last);
        assert!(late.upgrade().is_none() && later.upgrade().is_some());
    }

    #[test]
    fn two_threads_that_open_a_segment_at_once_have_one_mapping() {
        let table = Table::create("test", 1).unwrap();
        let (_, seat) = table.seat_node(1, false).unwrap();
        let object = Objects::new(&table).enter(ObjectKind::Segment, "s", seat, |_, _| true).unwrap();
        let (shares, life) = (Shares::default(), SegmentLife { object: object.number(), generation: 1 });
        let [first, second] =
            [(); 2].map(|()| shares.keep(life, &object, shares.make(4096, || Ok(())).unwrap(), false));
        assert!(Arc::ptr_eq(&first, &second));
        drop(second);
        assert!(shares.find(life).is_some());
        drop(first);
        assert!(shares.find(life).is_none());
    }

    #[test]
    fn nobody_answers_what_another_node_was_asked() {
        let shares = Shares::default();
        let (request, answered, _) = shares.question(NodeId(1), None);
        let count = answered.count();
        assert!(!shares.answered(NodeId(2), request, Err(Refusal::Closed)));
        assert!(!shares.is_answered(request) && answered.count() == count);
        assert!(shares.answered(NodeId(1), request, Ok(None)));
        assert!(matches!(shares.stop_waiting(request, || true), Some(Ok(None))));
        assert!(!shares.answered(NodeId(1), request, Ok(None)), "nobody waits any more");
    }
}
