//! The shared segment: memory under a name, with a home.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deck_mudeck::{Error, ErrorKind, Node, NodeId, NodeState, Result, default_timeout};
use deck_peers::{
    Answered, FROZEN_AFTER, Membership, Object, ObjectKind, OpenObject, SegmentLife, check_object_name, left,
};
use deck_segment::Segment as Memory;
use deck_segment::layout::PAGE;
use deck_sync::{About, Deadline, Goal, Interrupted, Waiting, fork};

use super::named::{Stopped, keeps, wait};
use super::registry::{GENERATIONS, Phase, Registry, State};

/// How long somebody who found a segment vanishing looks away before it looks again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

const _: () = assert!(GENERATIONS == SegmentLife::GENERATIONS as u64);

/// Memory that nodes share under a name. Clone it by opening it again.
///
/// The memory is that of its *home*: it is allocated there, all of it and zeroed, before the call that creates the
/// segment returns, so that on a machine with several memories it lies in that of the home, and too little memory is an
/// error at once. Other nodes map it. It lives as long as any node has it open, whatever becomes of home and creator;
/// after that, its name is free again: of a node that died, as soon as its death is known.
///
/// Content is the programs' own. Reading and writing is done in words of 8 bytes, so that threads which meet without a
/// lock read mixed content and no worse; a [`Mutex`](super::Mutex) keeps it whole.
#[doc(alias = "deck_segment_t")]
#[doc(alias = "deck_segment_close")]
pub struct Segment {
    memory: Arc<Memory>,
    bytes: usize,
    home: NodeId,
    name: Box<str>,
    /// Last: the memory is let go of first.
    _hold: Hold,
}

/// This node has the segment open; who lets go last tells the home.
struct Hold {
    opened: Option<OpenObject>,
    home: NodeId,
    life: SegmentLife,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Some(opened) = self.opened.take() else { return };
        if fork::is_child() {
            return;
        }
        let (membership, object) = (opened.membership().clone(), (*opened).clone());
        drop(opened);
        // Somebody may have begun the next life already, and hold the name for that.
        let is_over =
            || object.holding().is_empty() || Registry::new(object.words()).state().generation != self.life.generation;
        if !membership.has_left() && is_over() {
            membership.release_segment(self.home, self.life);
        }
    }
}

/// Waits for somebody to create a segment.
struct Created<'a> {
    membership: &'a Membership,
    name: &'a str,
}

impl Waiting for Created<'_> {
    type Output = (Object, State, NodeId);

    fn look(&mut self) -> Option<Self::Output> {
        let object = self.membership.objects().find(ObjectKind::Segment, self.name)?;
        let state = Registry::new(object.words()).state();
        match state.phase {
            Phase::Ready(home) if !object.holding().is_empty() => Some((object, state, home)),
            _ => None,
        }
    }

    fn about(&self) -> Option<About<'_>> {
        Some(About::new(Goal::Segment, self.name))
    }
}

/// Waits for a node that the job expects.
struct Joined<'a> {
    membership: &'a Membership,
    home: NodeId,
    /// Of the segment that it is to be home of.
    name: &'a str,
}

impl Waiting for Joined<'_> {
    type Output = ();

    fn look(&mut self) -> Option<()> {
        self.membership.table().state(self.home).map(|_| ())
    }

    fn about(&self) -> Option<About<'_>> {
        Some(About::new(Goal::Segment, self.name).on(self.home).with([1]))
    }
}

/// Nothing to see before the deadline.
struct Pause;

impl Waiting for Pause {
    type Output = ();

    fn look(&mut self) -> Option<()> {
        None
    }
}

impl Segment {
    /// Creates the segment `name` of `bytes` zeroed bytes in the memory of node `home`, or of this one. Blocks no
    /// longer than `DECK_TIMEOUT`: for a home that the job expects and that has not joined yet, and until another home
    /// has the memory.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], naming a node, while anybody has a segment of that name open, or is creating it;
    /// [`ErrorKind::Invalid`] for an impossible name or size, or a home that the job does not expect;
    /// [`ErrorKind::NoMemory`] here or, naming it, at the home; [`ErrorKind::PeerLost`] or [`ErrorKind::Closed`] if the
    /// home is gone; [`ErrorKind::Timeout`], saying if the home is frozen, or naming a node that is stopped while it
    /// opens something; [`ErrorKind::System`] if this process has no descriptor left for it; [`ErrorKind::Corrupt`]
    /// naming a home that passed something else; [`ErrorKind::Cancelled`]; [`ErrorKind::NotInitialized`] after leaving
    /// and in a forked child.
    #[doc(alias = "deck_segment_create")]
    pub fn create(node: &Node, name: &str, bytes: usize, home: Option<NodeId>) -> Result<Segment> {
        node.check()?;
        check_object_name(ObjectKind::Segment, name)?;
        let described = || format!("creating segment {name:?}");
        if bytes == 0 || bytes > isize::MAX as usize {
            return Err(Error::new(ErrorKind::Invalid, format!("{} of {bytes} bytes", described())));
        }
        let membership = node.membership();
        let home = home.unwrap_or(node.number());
        let deadline = Deadline::after(default_timeout());
        await_home(node, name, home, deadline).map_err(|error| error.context(described()))?;

        let table = membership.table();
        // Whoever leaves meanwhile leaves behind it: a node that is gone claims nothing and has nothing to tell.
        let turn = membership.opening(deadline).map_err(|error| error.context(described()))?;
        let object = turn.enter(ObjectKind::Segment, name, keeps).map_err(|error| error.context(described()))?;
        let registry = Registry::new(object.words());
        let is_held = || !object.holding().is_empty();
        let claimed = registry.claim(node.number(), &|node| table.is_live(node), &is_held);
        // Before the home has it: nobody keeps what nobody holds.
        let opened = claimed.is_ok().then(|| turn.open(object.clone()));
        drop(turn);
        let generation = claimed.map_err(|owner| {
            // The home may be gone: who has it open could close it.
            let holding = object.holding();
            let holder = holding.iter().find(|node| **node == owner).or(holding.first()).copied().unwrap_or(owner);
            // Whoever is in the way may have died unnoticed.
            membership.watch_strangers();
            let remedy = "open it, choose another name, or let everybody close it first";
            Error::new(ErrorKind::Exists, described()).with_peer(holder).with_remedy(remedy)
        })?;
        let life = SegmentLife { object: object.number(), generation };
        let hold = Hold { opened, home, life };
        let made = membership.make_segment(home, life, &object, name, bytes as u64, deadline);
        let memory = made.and_then(|memory| is_of(memory, bytes, home)).map_err(|error| {
            registry.withdraw(node.number(), generation);
            error.context(described())
        })?;
        deck_sync::point("segment/made");
        let memory = membership.offer_segment(life, &object, memory);
        {
            let _pledge = membership.pledge().ok_or_else(left).map_err(|error| error.context(described()))?;
            if !registry.publish(node.number(), generation, home, bytes as u64) {
                let what = format!("{}: the job's table says something else of it meanwhile", described());
                return Err(Error::new(ErrorKind::Corrupt, what));
            }
        }
        table.changed().notify();
        Ok(Segment { memory, bytes, home, name: name.into(), _hold: hold })
    }

    /// Opens the segment `name`, waiting at most `timeout` until somebody has created it. Of a segment that this node
    /// has open, it is one more handle to the same memory; else a node that has it open is asked for it, within the
    /// same time. Whoever only tries again and again has what comes within half a minute with the next try.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`]: nobody has created it in that time, those who have it open are frozen, or another node
    /// is stopped while it opens something; [`ErrorKind::Cancelled`]; [`ErrorKind::Invalid`] for an impossible name;
    /// [`ErrorKind::Corrupt`] naming a node that passed something else; [`ErrorKind::NoMemory`] if this process has no
    /// descriptor left for it; [`ErrorKind::NotInitialized`] after leaving and in a forked child.
    #[doc(alias = "deck_segment_open")]
    pub fn open(node: &Node, name: &str, timeout: Duration) -> Result<Segment> {
        node.check()?;
        check_object_name(ObjectKind::Segment, name)?;
        let deadline = Deadline::after(timeout);
        let membership = node.membership();
        loop {
            let created = wait(node, &mut Created { membership, name }, deadline);
            let not_created = |stopped: Stopped| {
                let remedy = "check the name, and that the node that creates it runs";
                stopped.error(format!("waiting for somebody to create segment {name:?}"), remedy)
            };
            let (object, state, home) = created.map_err(not_created)?;
            let life = SegmentLife { object: object.number(), generation: state.generation };
            let turn = membership.opening(deadline).map_err(|error| opening(name, error))?;
            // Its entry may have been given to another name since, and be found by this one for the last time.
            if turn.find(ObjectKind::Segment, name).is_none_or(|now| now.number() != object.number()) {
                continue;
            }
            // From here on whoever has it keeps it for us to ask, and nobody takes the name.
            let hold = Hold { opened: Some(turn.open(object.clone())), home, life };
            drop(turn);
            let registry = Registry::new(object.words());
            let bytes = registry.bytes();
            let mut silence = None;
            if registry.state() == state {
                let found = fetch(node, name, &object, life, home, deadline.to_be_answered())
                    .map_err(|error| opening(name, error))?;
                match found {
                    Found::Memory(memory, giver) => {
                        let bytes = usize::try_from(bytes).unwrap_or(0);
                        let memory = is_of(memory, bytes, giver).map_err(|error| opening(name, error))?;
                        let memory = membership.offer_segment(life, &object, memory);
                        return Ok(Segment { memory, bytes, home, name: name.into(), _hold: hold });
                    }
                    Found::Nothing => {}
                    Found::Silence(error) => silence = Some(opening(name, error)),
                }
            }
            // Its last user has let go of it at this moment, or those who want it see only one another: differently
            // long for each node, so that one of them looks alone.
            drop(hold);
            if deadline.has_passed() {
                return Err(silence.unwrap_or_else(|| not_created(Stopped::Interrupted(Interrupted::Deadline))));
            }
            let pause = LOOK_AGAIN_AFTER * (1 + node.number().0 % 8);
            if let Err(Stopped::Interrupted(Interrupted::Cancelled)) =
                wait(node, &mut Pause, Deadline::after(pause).min(deadline))
            {
                return Err(not_created(Stopped::Interrupted(Interrupted::Cancelled)));
            }
            node.check()?;
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its size as it was created.
    #[doc(alias = "deck_segment_size")]
    #[expect(clippy::len_without_is_empty, reason = "no segment is empty")]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// The node whose memory it is.
    #[doc(alias = "deck_segment_home")]
    pub fn home(&self) -> NodeId {
        self.home
    }

    /// Copies bytes from `offset` on out of it. Never blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], and nothing is copied, unless all of them lie inside.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.bounds(offset, into.len())?;
        self.memory.load_bytes(offset, into).ok_or_else(|| self.outside(offset, into.len()))
    }

    /// Copies bytes into it, from `offset` on. Never blocks.
    ///
    /// # Errors
    /// As [`Segment::read`], and [`ErrorKind::NotInitialized`] in a forked child.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.bounds(offset, bytes.len())?;
        fork::check()?;
        self.memory.store_bytes(offset, bytes).ok_or_else(|| self.outside(offset, bytes.len()))
    }

    /// The address of its first byte in this process, aligned to a page, for those who take care of the rest; valid as
    /// long as this handle lives.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use deck::Node;
    /// use deck::shared::Segment;
    ///
    /// # fn main() -> deck::Result<()> {
    /// let node = Node::join()?;
    /// let board = Segment::create(&node, "hits", 4096, None)?;
    /// // SAFETY: the first 8 bytes are inside, aligned, and an atomic word for all who use them; `board` lives longer than `hits`.
    /// let hits = unsafe { AtomicU64::from_ptr(board.address().cast()) };
    /// hits.fetch_add(1, Ordering::Relaxed);
    ///
    /// let mut word = [0; 8];
    /// board.read(0, &mut word)?;
    /// assert_eq!(u64::from_ne_bytes(word), 1);
    /// # Ok(()) }
    /// ```
    #[doc(alias = "deck_segment_data")]
    pub fn address(&self) -> *mut u8 {
        self.memory.at(0, self.bytes).map_or(std::ptr::null_mut(), |address| address.as_ptr())
    }

    fn bounds(&self, offset: usize, bytes: usize) -> Result<()> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(self.outside(offset, bytes)),
        }
    }

    #[cold]
    fn outside(&self, offset: usize, bytes: usize) -> Error {
        let what = format!("{bytes} bytes at {offset} of segment {:?}, which has {}", self.name, self.bytes);
        Error::new(ErrorKind::Invalid, what).with_remedy("stay inside the segment")
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Segment({}, {} bytes of {})", self.name, self.bytes, self.home)
    }
}

#[cold]
fn opening(name: &str, error: Error) -> Error {
    error.context(format!("opening segment {name:?}"))
}

/// What is passed as a segment has the size that was told.
fn is_of(memory: Arc<Memory>, bytes: usize, giver: NodeId) -> Result<Arc<Memory>> {
    if bytes > 0 && bytes.checked_next_multiple_of(PAGE) == Some(memory.bytes()) {
        return Ok(memory);
    }
    let what = format!("a segment of {bytes} bytes was to be passed, and one of {} was", memory.bytes());
    Err(Error::new(ErrorKind::Corrupt, what).with_peer(giver))
}

fn await_home(node: &Node, name: &str, home: NodeId, deadline: Deadline) -> Result<()> {
    if home.0 >= node.count() {
        let what = format!("its home {home} is none of the job's {} nodes", node.count());
        return Err(Error::new(ErrorKind::Invalid, what));
    }
    let joined = wait(node, &mut Joined { membership: node.membership(), home, name }, deadline);
    joined.map_err(|stopped| {
        stopped.error(format!("waiting for its home {home} to join"), "start that node, or choose another home")
    })
}

enum Found {
    /// Here it is, from this node.
    Memory(Arc<Memory>, NodeId),
    /// Nobody has it (any more).
    Nothing,
    /// Those who could have it do not answer.
    Silence(Error),
}

/// Asks its home, then all others who have it open.
fn fetch(
    node: &Node,
    name: &str,
    object: &Object,
    life: SegmentLife,
    home: NodeId,
    deadline: Deadline,
) -> Result<Found> {
    let membership = node.membership();
    if let Some(memory) = membership.segment_here(life) {
        return Ok(Found::Memory(memory, home));
    }
    let others = object.holding().into_iter().filter(|other| *other != node.number() && *other != home);
    let is_asked = home != node.number() && membership.table().is_live(home);
    let mut asked: Vec<NodeId> = is_asked.then_some(home).into_iter().chain(others).collect();
    // The time may be over before a home that is frozen has kept silent for long enough.
    if is_asked && asked.len() > 1 && matches!(node.state(home), Ok(NodeState::Frozen)) {
        asked.rotate_left(1);
    }
    let mut silence = None;
    for other in &asked {
        // One that is frozen shall not keep us from those who answer.
        let limit = if asked.len() == 1 { deadline } else { Deadline::after(FROZEN_AFTER).min(deadline) };
        match membership.fetch_segment(*other, life, name, limit) {
            Ok(Answered::Segment(memory)) => return Ok(Found::Memory(memory, *other)),
            Ok(Answered::Absent | Answered::Coming) => {}
            Err(error) => match error.kind() {
                ErrorKind::PeerLost | ErrorKind::Closed => {}
                ErrorKind::Timeout => silence = Some(error),
                // There may be room for the memory of another one.
                ErrorKind::NoMemory if asked.len() > 1 => silence = Some(error),
                _ => return Err(error),
            },
        }
    }
    Ok(silence.map_or(Found::Nothing, Found::Silence))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_passed_has_the_size_that_was_told_or_is_corrupt_and_its_giver_is_named() {
        let memory = Memory::create("test", 2 * PAGE).unwrap();
        for bytes in [PAGE + 1, 2 * PAGE] {
            assert!(is_of(memory.clone(), bytes, NodeId(3)).is_ok(), "{bytes} bytes");
        }
        for bytes in [0, 1, PAGE, 2 * PAGE + 1, usize::MAX] {
            let error = is_of(memory.clone(), bytes, NodeId(3)).err().unwrap();
            assert_eq!((error.kind(), error.peer()), (ErrorKind::Corrupt, Some(NodeId(3))), "{bytes} bytes");
        }
    }
}
