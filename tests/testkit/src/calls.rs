//! DECK's calls in a node's process, with their results as values.

use std::fs;
use std::time::Duration;

use deck_mudeck::NodeId;
use deck_peers::stat;

use crate::answer::{Answer, Failure};
use crate::job::Job;
use crate::look;
use crate::process::Process;

/// Long enough for everything that happens at all.
pub const SOON: Duration = Duration::from_secs(20);

/// A message that a node retrieved and found whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retrieved {
    /// The node that posted it.
    pub sender: NodeId,
    /// The node that made it; another one if it was posted on.
    pub maker: NodeId,
    /// Its number in the stream of its maker.
    pub number: u64,
    /// Its bytes.
    pub size: usize,
}

fn read(words: &str) -> Option<Retrieved> {
    let mut words = words.split_whitespace();
    let mut node = || words.next()?.parse().ok().map(NodeId);
    let (sender, maker) = (node()?, node()?);
    Some(Retrieved { sender, maker, number: words.next()?.parse().ok()?, size: words.next()?.parse().ok()? })
}

/// What a retrieve brought. `None` for a message that is too short to say what it is.
fn retrieved(answer: Answer) -> Result<Retrieved, Failure> {
    answer.result.map(|words| read(&words).unwrap_or_else(|| panic!("not a retrieved message: {words}")))
}

/// All join the group "g", in the order of indexes, by threads of their own for the lane `lane`. `options` follow the
/// command.
///
/// # Panics
/// If one does not join.
#[track_caller]
pub fn join_group(lane: &str, options: &str, members: &[&Process]) {
    for (index, member) in members.iter().enumerate() {
        member.tell(lane, &format!("join-group g {} {index} {} {options}", members.len(), SOON.as_millis()));
    }
    for member in members {
        member.answer(lane).expect("it lives").result.expect("it joins");
    }
}

/// All members of the group "g" make `call` (its kind and count) so often, and have right results.
///
/// # Panics
/// If one has not.
#[track_caller]
pub fn call_in_group(members: &[Process], call: &str, rounds: u32) {
    for member in members {
        member.tell("g", &format!("collective g {call} {rounds} {}", SOON.as_millis()));
    }
    for member in members {
        assert_eq!(member.answer("g").expect("it lives").result.unwrap(), rounds.to_string(), "{call}");
    }
}

/// Does the system let one node read the memory of another one's program here? Where it does not, nobody comes by a
/// point of that.
pub fn nodes_read_programs_memory(program: &str) -> bool {
    let job = Job::launched(program);
    let [one, other] = job.nodes();
    let do_they = one.done(&format!("reads {}", other.pid())) == "true";
    drop((one, other));
    job.end();
    do_they
}

impl Process {
    /// Creates a mail box.
    #[track_caller]
    pub fn mailbox(&self, name: &str) {
        self.done(&format!("mailbox {name}"));
    }

    /// Creates a mail box for so many messages of each node.
    #[track_caller]
    pub fn mailbox_for(&self, name: &str, messages: u32) {
        self.done(&format!("mailbox {name} {messages} {}", 64 << 20));
    }

    /// Clones a mail box.
    #[track_caller]
    pub fn clone_mailbox(&self, name: &str) {
        self.done(&format!("clone {name} {}", SOON.as_millis()));
    }

    /// Posts messages `first` to `first + count - 1` and waits until all are posted.
    #[track_caller]
    pub fn post(&self, name: &str, first: u64, count: u64, size: usize) {
        if let (_, Err(failure)) = self.try_post(name, first, count, size, SOON) {
            panic!("{} posts to {name}: {failure}", self.number());
        }
    }

    /// Posts; how many were posted, and how it ended.
    #[track_caller]
    pub fn try_post(
        &self,
        name: &str,
        first: u64,
        count: u64,
        size: usize,
        time: Duration,
    ) -> (u64, Result<String, Failure>) {
        self.tell(name, &format!("post {name} {first} {count} {size} {}", time.as_millis()));
        let (posted, end) = self.posted(name);
        (posted, end.expect("it lives").result)
    }

    /// How many messages a lane that was told to post has posted until the post, or the process, ended.
    pub fn posted(&self, lane: &str) -> (u64, Option<Answer>) {
        let mut posted = 0;
        loop {
            match self.answer(lane) {
                Some(answer) if answer.is_note => posted += 1,
                end => return (posted, end),
            }
        }
    }

    /// Retrieves one message and checks it.
    #[track_caller]
    pub fn retrieve(&self, name: &str, time: Duration) -> Result<Retrieved, Failure> {
        retrieved(self.ask(&format!("retrieve {name} {}", time.as_millis())))
    }

    /// As [`Process::retrieve`], and keeps the message until `release`.
    #[track_caller]
    pub fn hold(&self, name: &str, time: Duration) -> Result<Retrieved, Failure> {
        retrieved(self.ask(&format!("hold {name} {}", time.as_millis())))
    }

    /// The state of another node: `Live`, `Frozen`, `Left` or `Lost`.
    #[track_caller]
    pub fn state(&self, node: NodeId) -> String {
        self.done(&format!("state {}", node.0))
    }

    /// Has a lane do something that is going to wait, and returns once it does: the call has begun and every thread of
    /// the process sleeps.
    #[track_caller]
    pub fn tell_and_see_waiting(&self, lane: &str, what: &str) {
        self.tell(lane, &format!("begin {what}"));
        let begun = self.answer(lane);
        assert!(begun.is_some_and(|answer| answer.is_note), "{what} has not begun");
        while !self.is_asleep() {
            look::pause();
        }
    }

    fn is_asleep(&self) -> bool {
        let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", self.pid())) else { return true };
        let mut stats = tasks.filter_map(|task| fs::read(task.ok()?.path().join("stat")).ok());
        stats.all(|stat| stat::state_of(&stat) == Some('S'))
    }
}
