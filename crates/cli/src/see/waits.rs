//! Which thread waits for what, and who could end it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use deck::group::Kind;
use deck::observe;
use deck::{NodeId, NodeState};
use deck_peers::observe::{FACTS, Goal, JobSight, NodeSight, ThreadSight, Told, now_ns};
use deck_peers::{MailboxId, ObjectKind, Objects, Subject};

use super::groups::Groups;
use super::{OUT_OF_SIGHT, quoted, state_word};

/// Who could end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whom {
    /// Threads of a node, other than the one that waits.
    Node(NodeId),
    /// This thread of a node.
    Thread(NodeId, u32),
    /// The same of a node that has a mail box: it needs no clone to post there, and may never do so.
    Owner(NodeId),
    /// A thread of a node that waits for nothing in DECK.
    Runner(NodeId),
    /// The control thread of a node, which answers unless its process is stopped.
    Control(NodeId),
}

impl Whom {
    /// Its node.
    pub fn node(self) -> NodeId {
        match self {
            Whom::Node(node) | Whom::Owner(node) | Whom::Runner(node) | Whom::Control(node) => node,
            Whom::Thread(node, _) => node,
        }
    }

    /// Its threads, by node and number: those that it may mean.
    pub fn threads(self) -> RangeInclusive<(NodeId, u32)> {
        match self {
            Whom::Thread(node, thread) => (node, thread)..=(node, thread),
            other => (other.node(), 0)..=(other.node(), u32::MAX),
        }
    }
}

/// A member that has not come to a collective, or has not left the last group of a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Absent {
    /// Its index.
    pub index: u32,
    /// Its node and thread, as far as they are known.
    pub node: Option<NodeId>,
    pub thread: Option<u32>,
    /// It has left the group.
    pub has_left: bool,
}

/// A thread that waits.
#[derive(Clone, Debug)]
pub struct Wait {
    /// Its node.
    pub node: NodeId,
    /// Its number and name in the system.
    pub thread: u32,
    pub thread_name: String,
    /// What it waits for.
    pub goal: Goal,
    /// In words, behind "waits".
    pub doing: String,
    /// The name of what it waits for.
    pub name: String,
    /// What the goal tells more.
    pub facts: [u64; FACTS],
    /// Since when it waits, in nanoseconds of the monotonic clock.
    pub since_ns: u64,
    /// For how long it has waited, and how long it will at most, in nanoseconds.
    pub waited_ns: u64,
    pub left_ns: Option<u64>,
    /// Who could end it: any of them, or only all together.
    pub on: BTreeSet<Whom>,
    pub needs_all: bool,
    /// Any node could end it, also one that is still to come.
    pub on_newcomers: bool,
    /// So could a guest: a node that joins the job by its name, though all that `deck run` started have come.
    pub on_guests: bool,
    /// It may end without anybody's help: nothing that is known keeps it up.
    pub is_passing: bool,
    /// Its thread runs at this moment: it begins to sleep, or was woken.
    pub runs: bool,
    /// What else there is to say.
    pub note: Option<String>,
    /// Who has not come, or has not left.
    pub absent: Vec<Absent>,
}

impl Wait {
    /// Is `other` for the same thing, which is not done by those who wait for it?
    pub fn is_for_the_same_as(&self, other: &Wait) -> bool {
        use Goal::{Barrier, Condition, Counter, Group, Name, Segment, Semaphore};
        let thing = |wait: &Wait| match wait.goal {
            // It has no name, and is where it is in its node.
            Semaphore => (wait.goal, Some((wait.node, wait.facts[0]))),
            goal => (goal, None),
        };
        // Who waits for the end of a group may be a member of it.
        let is_done_by_others =
            !self.needs_all && matches!(self.goal, Barrier | Condition | Counter | Group | Name | Segment | Semaphore);
        is_done_by_others && (thing(self), &self.name) == (thing(other), &other.name)
    }

    /// Whose it is, in the order of the waits of a job.
    pub fn whose(&self) -> (NodeId, u32) {
        (self.node, self.thread)
    }

    /// Is this the same wait in an earlier or a later look, with the same prospects?
    pub fn is_same(&self, other: &Wait) -> bool {
        let begun = |wait: &Wait| (wait.node, wait.thread, wait.goal, wait.since_ns, wait.facts);
        begun(self) == begun(other) && (&self.on, self.needs_all) == (&other.on, other.needs_all)
    }
}

/// What tells a member of a group from others, of that and of other groups.
type MemberFacts = [u64; 5];

/// What the job's segments tell, in the form of questions.
struct Known<'a> {
    job: &'a JobSight,
    objects: Objects,
    /// The nodes that can post to a mail box.
    posters: BTreeMap<u64, BTreeSet<NodeId>>,
    /// The thread that called last as a member of a group, or joined, by the node and what it tells of the member.
    member_threads: BTreeMap<(NodeId, MemberFacts), u32>,
    barriers: BTreeMap<String, AtBarrier>,
    groups: Groups<'a>,
}

/// Who waits at a barrier.
#[derive(Default)]
struct AtBarrier {
    threads: usize,
    /// Of so many so many have come.
    arrived: u32,
    size: u32,
    /// As many wait as have come: none has still to wake up from a round that is over.
    are_of_this_round: bool,
    /// Nodes of which all threads wait there: none of them is still to come.
    come_whole: BTreeSet<NodeId>,
}

/// Those of a job, by name.
fn barriers(job: &JobSight, objects: &Objects) -> BTreeMap<String, AtBarrier> {
    let mut barriers: BTreeMap<String, AtBarrier> = BTreeMap::new();
    for node in &job.nodes {
        let is_here = |told: &&Told| told.subject == Subject::Wait && told.goal == Some(Goal::Barrier);
        let here: BTreeMap<u32, &str> =
            node.notices.iter().filter(is_here).map(|told| (told.thread, told.name.as_str())).collect();
        for name in here.values() {
            barriers.entry((*name).to_owned()).or_default().threads += 1;
        }
        let threads = node.threads.iter().filter(|thread| !thread.is_service());
        let at: BTreeSet<Option<&str>> = threads.map(|thread| here.get(&thread.number).copied()).collect();
        if let [Some(name)] = at.into_iter().collect::<Vec<_>>()[..] {
            barriers.entry(name.to_owned()).or_default().come_whole.insert(node.number);
        }
    }
    for (name, barrier) in &mut barriers {
        let known = objects.find(ObjectKind::Barrier, name);
        (barrier.arrived, barrier.size) = known.map(|known| observe::arrivals(&known)).unwrap_or_default();
        barrier.are_of_this_round = barrier.arrived as usize == barrier.threads;
    }
    barriers
}

/// All waits of a job, by node and thread.
pub fn of(job: &JobSight) -> Vec<Wait> {
    let mut posters: BTreeMap<u64, BTreeSet<NodeId>> = BTreeMap::new();
    let mut member_threads = BTreeMap::new();
    for (node, told) in job.nodes.iter().flat_map(|node| node.notices.iter().map(move |told| (node.number, told))) {
        let [first, second, third, fourth, fifth, ..] = told.facts;
        match told.subject {
            Subject::Ring => _ = posters.entry(first).or_default().insert(node),
            Subject::Member => {
                member_threads.entry((node, [first, second, third, fourth, fifth])).or_insert(told.thread);
            }
            _ => {}
        }
    }
    let objects = Objects::new(&job.table);
    let (barriers, groups) = (barriers(job, &objects), Groups::new(job));
    let known = Known { job, objects, posters, member_threads, barriers, groups };
    let now = now_ns();
    let mut waits: Vec<Wait> = job
        .nodes
        .iter()
        .flat_map(|node| node.notices.iter().filter_map(|told| known.wait(node, told, now)).collect::<Vec<_>>())
        .collect();
    waits.sort_by_key(Wait::whose);
    waits
}

impl Known<'_> {
    fn wait(&self, node: &NodeSight, told: &Told, now: u64) -> Option<Wait> {
        let goal = told.goal.filter(|_| told.subject == Subject::Wait)?;
        let thread = node.threads.iter().find(|thread| thread.number == told.thread)?;
        if thread.is_service() {
            return None;
        }
        let mut wait = Wait {
            node: node.number,
            thread: told.thread,
            thread_name: thread.name.clone(),
            goal,
            doing: self.in_words(goal, told),
            name: told.name.clone(),
            facts: told.facts,
            since_ns: told.since_ns,
            waited_ns: now.saturating_sub(told.since_ns),
            left_ns: (told.until_ns != u64::MAX).then(|| told.until_ns.saturating_sub(now)),
            on: BTreeSet::new(),
            needs_all: false,
            on_newcomers: false,
            on_guests: false,
            is_passing: false,
            runs: thread.runs(),
            note: None,
            absent: Vec::new(),
        };
        self.who(&mut wait, node, told);
        wait.is_passing |=
            wait.on_newcomers || wait.on.is_empty() || node.state == NodeState::Frozen && self.may_be_over(goal, told);
        Some(wait)
    }

    /// Whether a wait may have what it waits for, in a process that is stopped: it would not be seen to run.
    fn may_be_over(&self, goal: Goal, told: &Told) -> bool {
        match goal {
            // Nobody tells any more what a node had posted that is gone since.
            Goal::Message | Goal::Messages => {
                let is_gone = |node: &NodeSight| node.process.is_none();
                !are_all_noted(told)
                    || self.job.nodes.iter().any(is_gone)
                    || mailboxes(told).any(|id| self.may_have_messages(id))
            }
            // Which thread is to end, who holds the one, and who is absent from the others is known.
            Goal::Join => told.facts[0] == 0,
            Goal::Mutex | Goal::Group | Goal::Collective => false,
            Goal::Barrier => self.barriers.get(&told.name).is_none_or(|barrier| !barrier.are_of_this_round),
            _ => true,
        }
    }

    fn may_have_messages(&self, id: u64) -> bool {
        let Some(owner) = MailboxId::from_word(id).and_then(|id| self.job.node(id.owner)) else { return false };
        // Of a ring that cannot be read nobody knows.
        let may_lie =
            |poster: &NodeSight, told: &Told| observe::ring(poster, owner, told).is_none_or(|ring| ring.filled() > 0);
        let is_it = |told: &&Told| told.subject == Subject::Ring && told.facts[0] == id;
        self.job.nodes.iter().any(|poster| poster.notices.iter().filter(is_it).any(|told| may_lie(poster, told)))
    }

    fn wait_for_anybody(&self, wait: &mut Wait) {
        wait.on = self.job.table.live().into_iter().map(Whom::Node).collect();
        wait.on_newcomers = self.job.table.awaits_nodes();
        wait.on_guests = !wait.on_newcomers && !self.job.table.job().is_empty();
    }

    /// Those that have cloned one of these mail boxes, and those of which nobody sees what they have cloned.
    fn posters(&self, ids: impl Iterator<Item = u64>) -> BTreeSet<Whom> {
        let known = ids.filter_map(|id| self.posters.get(&id)).flatten().copied();
        let out_of_sight = self.job.nodes.iter().filter(|node| node.is_out_of_sight()).map(|node| node.number);
        known.chain(out_of_sight).map(Whom::Node).collect()
    }

    /// Who could end a wait, and what else there is to say.
    fn who(&self, wait: &mut Wait, node: &NodeSight, told: &Told) {
        match wait.goal {
            Goal::Message | Goal::Messages => {
                wait.on = self.posters(mailboxes(told));
                wait.note = if !are_all_noted(told) {
                    // Any node may post to those that are not.
                    Some(format!("{} of its mail boxes are known, and there may be more", told.facts.len()))
                } else if wait.on.is_empty() {
                    Some("no node has a clone of it".to_owned())
                } else {
                    None
                };
                let is_other = |thread: &ThreadSight| !thread.is_service() && thread.number != wait.thread;
                if wait.note.is_some() {
                    self.wait_for_anybody(wait);
                } else if node.threads.iter().any(is_other) && !wait.on.contains(&Whom::Node(wait.node)) {
                    wait.on.insert(Whom::Owner(wait.node));
                }
            }
            Goal::Room => wait.on.extend(told.peer.map(Whom::Node)),
            Goal::Budget => {
                let to = self.posters.iter().filter(|(_, posters)| posters.contains(&wait.node));
                wait.on = to.filter_map(|(id, _)| MailboxId::from_word(*id)).map(|id| Whom::Node(id.owner)).collect();
            }
            Goal::Semaphore => wait.on = BTreeSet::from([Whom::Node(wait.node)]),
            Goal::Join => match u32::try_from(told.facts[0]) {
                Ok(0) | Err(_) => wait.on = BTreeSet::from([Whom::Node(wait.node)]),
                Ok(thread) if node.threads.iter().any(|other| other.number == thread) => {
                    wait.on = BTreeSet::from([Whom::Thread(wait.node, thread)]);
                }
                Ok(thread) => wait.note = Some(format!("thread {thread} has ended")),
            },
            // Also who has not opened it yet.
            Goal::Name | Goal::Condition | Goal::Counter => self.wait_for_anybody(wait),
            Goal::Barrier => {
                self.wait_for_anybody(wait);
                let come = self.barriers.get(&told.name).filter(|barrier| barrier.are_of_this_round);
                let is_to_come = |whom: &Whom| come.is_none_or(|barrier| !barrier.come_whole.contains(&whom.node()));
                if wait.on.iter().any(is_to_come) {
                    wait.on.retain(is_to_come);
                }
            }
            Goal::Meeting | Goal::Ring | Goal::Board => wait.on.extend(told.peer.map(Whom::Control)),
            Goal::Segment => match told.peer {
                Some(home) => {
                    wait.on = BTreeSet::from([Whom::Control(home)]);
                    wait.on_newcomers = self.job.node(home).is_none();
                }
                None => self.wait_for_anybody(wait),
            },
            Goal::Mutex => self.wait_for_holder(wait, told),
            Goal::Group | Goal::Collective => self.wait_for_absent(wait, told),
        }
    }

    /// What a wait is for, behind "waits".
    fn in_words(&self, goal: Goal, told: &Told) -> String {
        let name = quoted(&told.name);
        let mailbox =
            if told.name.is_empty() { "an anonymous mail box".to_owned() } else { format!("mail box {name}") };
        let object = |kind| self.objects.find(kind, &told.name);
        match goal {
            Goal::Messages if mailboxes(told).nth(1).is_some() => {
                let count = mailboxes(told).count();
                let or_more = if count == told.facts.len() { " or more" } else { "" };
                format!("to retrieve from one of {count} mail boxes{or_more}, {mailbox} among them")
            }
            Goal::Message | Goal::Messages => format!("to retrieve from {mailbox}"),
            Goal::Room => format!("to post to {mailbox}, which is full"),
            Goal::Budget => format!("to post to {mailbox}: this node's budget is used up"),
            Goal::Semaphore => format!("for a semaphore of its node, at {:#x}", told.facts[0]),
            Goal::Join => "for the end of a thread of its node".to_owned(),
            Goal::Name => match observe::group_name(&told.name) {
                Some(group) => format!("for somebody to join group {}", quoted(group)),
                None => format!("for somebody to create mail box {name}"),
            },
            Goal::Meeting => "to be connected".to_owned(),
            Goal::Ring => "to clone a mail box".to_owned(),
            Goal::Segment => match told.peer {
                Some(home) if told.facts[0] != 0 => {
                    let has_joined = self.job.node(home).is_some();
                    let yet = if has_joined { "" } else { ", which has not joined yet," };
                    format!("for {home}{yet} to make segment {name}")
                }
                Some(_) => format!("to be passed segment {name}"),
                None => format!("for somebody to create segment {name}"),
            },
            Goal::Mutex => format!("to lock mutex {name}"),
            Goal::Condition => format!("for a signal of condition variable {name}"),
            Goal::Barrier => {
                let (arrived, size) = self.barriers.get(&told.name).map_or((0, 0), |known| (known.arrived, known.size));
                format!("at barrier {name}: {arrived} of {size} threads have come")
            }
            Goal::Counter => {
                let value = object(ObjectKind::Counter).map_or(0, |counter| observe::value(&counter));
                match told.facts {
                    [0, ..] => format!("for counter {name}, which is {value}"),
                    [_, least, ..] => {
                        format!("until counter {name}, which is {value}, is {} or more", least.cast_signed())
                    }
                }
            }
            Goal::Group if is_for_the_end(told) => format!("for the last group {name} to end"),
            Goal::Group => format!("for all to join group {name}"),
            Goal::Board => format!("to join or leave group {name}, as another thread does at this moment"),
            Goal::Collective => {
                let kind = Kind::from_word(told.facts[5]).map_or("collective", Kind::name);
                format!("in {kind} of group {name}")
            }
        }
    }

    fn wait_for_holder(&self, wait: &mut Wait, told: &Told) {
        let Some(mutex) = self.objects.find(ObjectKind::Mutex, &told.name) else { return };
        let (node, locker) = match observe::holder(&mutex) {
            Some((node, Some(locker))) if self.job.has(node) => (node, locker),
            held => {
                wait.note = Some(if held.is_some() { "its last holder is gone" } else { "it is free" }.to_owned());
                return;
            }
        };
        if self.job.node(node).is_some_and(NodeSight::is_out_of_sight) {
            wait.on.insert(Whom::Node(node));
            return;
        }
        let notices = self.job.node(node).map_or(&[][..], |sight| &sight.notices);
        let asleep = notices.iter().find(|told| told.subject == Subject::Wait && told.locker == Some(locker));
        wait.on.insert(asleep.map_or(Whom::Runner(node), |told| Whom::Thread(node, told.thread)));
    }

    fn wait_for_absent(&self, wait: &mut Wait, told: &Told) {
        let [owner, offset, size, phase, index, _, how @ ..] = told.facts;
        let Some(owner) = u32::try_from(owner).ok().map(NodeId) else { return };
        let group = self.groups.find((owner, offset, size));
        let members = group.and_then(|group| group.members((phase, index), how)).unwrap_or_default();
        for member in members.iter().filter(|member| u64::from(member.index) != index) {
            let is_waited_for = if is_for_the_end(told) {
                member.node.is_some() && !member.has_left
            } else if phase == 0 {
                member.node.is_none()
            } else {
                !member.has_come
            };
            if is_waited_for {
                let facts = [u64::from(owner.0), offset, size, 0, u64::from(member.index)];
                let thread = member.node.and_then(|node| self.member_threads.get(&(node, facts)).copied());
                let node = member.node;
                wait.absent.push(Absent { index: member.index, node, thread, has_left: member.has_left });
            }
        }
        wait.needs_all = true;
        let whom = |absent: &Absent| match (absent.node, absent.thread) {
            (Some(node), Some(thread)) => Some(Whom::Thread(node, thread)),
            (Some(node), None) => Some(Whom::Node(node)),
            (None, _) => None,
        };
        wait.on = wait.absent.iter().filter_map(whom).collect();
        if wait.absent.iter().any(|absent| absent.node.is_none()) {
            self.wait_for_anybody(wait);
            wait.needs_all = false;
        }
    }
}

/// The mail boxes that a thread retrieves from, as far as there was room to note them.
fn mailboxes(told: &Told) -> impl Iterator<Item = u64> {
    told.facts.into_iter().filter(|id| *id != 0)
}

/// There was room left: these are all mail boxes that the thread retrieves from.
fn are_all_noted(told: &Told) -> bool {
    told.facts.contains(&0)
}

/// Does this wait of a group end when the last group of that name has? There is no member of such an index.
fn is_for_the_end(told: &Told) -> bool {
    let [_, _, size, phase, index, ..] = told.facts;
    phase == 0 && index == size
}

/// Where a thread is, in words, for those who miss it.
pub fn whereabouts(job: &JobSight, waits: &[Wait], node: NodeId, thread: Option<u32>) -> String {
    let Some(sight) = job.node(node) else { return "unknown".to_owned() };
    if sight.is_out_of_sight() {
        return format!("{node} is {}: {OUT_OF_SIGHT}", state_word(sight.state));
    }
    if sight.process.is_none() {
        return format!("{node} is {}", state_word(sight.state));
    }
    let frozen = if sight.state == NodeState::Frozen { ", and its process is stopped" } else { "" };
    let Some(number) = thread else { return format!("{node} is {}", state_word(sight.state)) };
    if let Ok(at) = waits.binary_search_by_key(&(node, number), Wait::whose) {
        let wait = &waits[at];
        return format!("thread {number} {} waits {}{frozen}", quoted(&wait.thread_name), wait.doing);
    }
    match sight.threads.iter().find(|thread| thread.number == number) {
        None => format!("thread {number}, which was the member, has ended"),
        Some(thread) => format!("thread {number} {} {}{frozen}", quoted(&thread.name), does(thread)),
    }
}

/// What a thread does that waits for nothing in DECK.
fn does(thread: &ThreadSight) -> &'static str {
    match thread.state {
        _ if thread.runs() => "runs",
        _ if thread.is_stopped() => "does not wait in DECK",
        _ => "sleeps outside of DECK",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_counts_as_running_is_told_as_running() {
        for (state, doing) in [
            ('R', "runs"),
            ('D', "runs"),
            ('S', "sleeps outside of DECK"),
            ('T', "does not wait in DECK"),
            ('t', "does not wait in DECK"),
        ] {
            let thread = ThreadSight { number: 1, name: String::new(), state };
            assert_eq!((does(&thread), thread.runs()), (doing, doing == "runs"), "{state}");
        }
    }
}
